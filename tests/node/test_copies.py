"""Nodes of tests are copies of a process that has loaded one: they are what `heliograph start` is in a new process."""

import os
import re
import resource
import signal
from pathlib import Path

import pytest

from support.process import NodeProcess

pytestmark = [pytest.mark.service, pytest.mark.slow]

NEW, COPY = False, True


def circumstances(node: NodeProcess) -> dict[str, object]:
    """How the system treats its process, and what this has open but for its data."""
    proc = Path(f"/proc/{node.pid}")
    status = dict(line.split(":\t", 1) for line in (proc / "status").read_text().splitlines())
    files = (str(file.readlink()) for file in (proc / "fd").iterdir())
    return {
        "status": {name: status[name] for name in ("Umask", "SigBlk", "SigIgn", "SigCgt", "Seccomp")},
        "limits": (proc / "limits").read_text(),
        "directory": (proc / "cwd").readlink(),
        "session": (proc / "stat").read_text().rpartition(")")[2].split()[2:4],
        "files": sorted(re.sub(r"\d+", "", file) for file in files if not file.startswith(str(node.directory))),
        "oom": (proc / "oom_score_adj").read_text(),
    }


def said(node: NodeProcess) -> dict[str, object]:
    """Its ready line, and the lines of its log without what each start has of its own."""
    own = re.compile(r"^[\d-]+ [\d:,]+|\d+(\.\d+)?|" + re.escape(str(node.directory)))
    log = [own.sub("", line) for line in node.log.read_text().splitlines()]
    return {"ready line": own.sub("", node.ready_line), "log": log}


def test_a_copy_says_and_is_what_a_new_process_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HELIOGRAPH_NODE__NAME", "other@127.0.0.1")
    seen = []
    umask = os.umask(0o027)
    try:
        for is_copy in (NEW, COPY):
            directory = tmp_path / str(is_copy)
            directory.mkdir()
            with NodeProcess(directory, file_bytes_max=1 << 30, is_copy=is_copy) as node:
                found = circumstances(node)
                found["code"] = node.stop()
                seen.append(found | said(node))
                assert "other@127.0.0.1" in node.log.read_text()
    finally:
        os.umask(umask)
    new, copy = seen
    assert {name: (copy[name], new[name]) for name in new if copy[name] != new[name]} == {}


def test_a_signal_ends_a_copy_as_it_ends_a_new_process(tmp_path: Path) -> None:
    node = NodeProcess(tmp_path)
    for number, code in ((signal.SIGKILL, -9), (signal.SIGQUIT, -3), (signal.SIGINT, 0)):
        with node:
            assert (number, node.end_by(number)) == (number, code)
            assert not node.is_alive()


def test_a_copy_that_cannot_start_says_so_as_a_new_process_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HELIOGRAPH_MQTT__MAX_INFLIGHT", "0")
    logs = {}
    for is_copy in (NEW, COPY):
        node = NodeProcess(tmp_path, is_copy=is_copy)
        node.log.unlink(missing_ok=True)
        with pytest.raises(AssertionError, match="HELIOGRAPH_MQTT__MAX_INFLIGHT"):
            node.start()
        logs[is_copy] = node.log.read_text()
    assert logs[COPY] == logs[NEW]


def test_what_a_process_reads_when_it_begins_has_one_begin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HELIOGRAPH_PURE", "1")
    with NodeProcess(tmp_path) as node:
        assert b"HELIOGRAPH_PURE=1" in Path(f"/proc/{node.pid}/environ").read_bytes()
        assert resource.prlimit(node.pid, resource.RLIMIT_FSIZE) == resource.getrlimit(resource.RLIMIT_FSIZE)
