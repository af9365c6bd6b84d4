"""The log of a node that runs: its settings change while it runs, and a full disk does not stop it."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

from support.process import NodeProcess
from support.waiting import wait_until

_STORES_NOTHING = (
    "durable_storage { messages.topics = [], flight.enable = false }\nretainer.backend.storage_type = ram\n"
)


def test_the_log_changes_while_the_node_runs(tmp_path: Path) -> None:
    with NodeProcess(tmp_path, f"{_STORES_NOTHING}log.console.formatter = json") as node:
        lines = node.log.read_text().splitlines()
        assert {"time", "level", "logger", "msg"} <= json.loads(lines[0]).keys()
        assert all(json.loads(line) for line in lines)

        def reload(settings: str) -> None:
            text = f'listeners.tcp.default.bind = "127.0.0.1:{node.port}"\n{_STORES_NOTHING}{settings}\n'
            (tmp_path / "heliograph.conf").write_text(text)
            os.kill(node.pid, signal.SIGHUP)

        reload('log.console.level = error\nlog.file { enable = true, path = "own.log" }')
        own = node.data_dir / "own.log"
        wait_until(lambda: own.exists() and "log.file" in own.read_text())
        reload('log.console.level = error\nlog.file { enable = true, path = "/dev/null/own.log" }')
        wait_until(lambda: "/dev/null/own.log cannot be opened" in own.read_text())
        reload('log.console.level = error\nlog.file { enable = true, path = "/dev/full" }')
        wait_until(lambda: not _is_open(node.pid, own))
        os.kill(node.pid, signal.SIGUSR1)  # its lines are lost
        assert node.stop() == 0


def _is_open(pid: int, path: Path) -> bool:
    return any(os.path.realpath(link) == str(path) for link in Path(f"/proc/{pid}/fd").iterdir())


def test_a_file_that_cannot_be_opened_stops_the_start(tmp_path: Path) -> None:
    file = tmp_path / "node.conf"
    file.write_text('log.file { enable = true, path = "/dev/null/own.log" }')
    command = [sys.executable, "-m", "heliograph.cli.main", "start", "--config", str(file), "--data-dir", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 1
    assert "[log_file] log.file.path: /dev/null/own.log cannot be opened: " in done.stderr
