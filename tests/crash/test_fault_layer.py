"""The disk that fails: that it sees every call of a database, and that it fails and forgets as it says."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from crash.fault_layer import FaultLayer, FaultLayerError, build
from heliograph.storage.engine import open_primary

pytestmark = pytest.mark.slow

WRITER = """
import os, signal, sys
from pathlib import Path
from heliograph.storage.engine import new_batch, open_primary
from heliograph.storage.wal import LogFiles

path = Path(sys.argv[1])
path.parent.mkdir(parents=True, exist_ok=True)
rocks = open_primary(path, "none")
logs = LogFiles(path)
for step in sys.argv[2].split(","):
    if step == "sync":
        logs.sync_request().run()
        continue
    batch = new_batch()
    batch.put(step.encode(), bytes(1000))
    rocks.write(batch)
    logs.written()
print("written", flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


class Disk:
    """A database under the layer, written by processes that are killed."""

    def __init__(self, layer: FaultLayer, path: Path) -> None:
        self.layer = layer
        self.path = path

    def write(self, steps: str) -> subprocess.CompletedProcess[str]:
        """Run the steps, keys to write and `sync`, and die."""
        command = [sys.executable, "-c", WRITER, str(self.path), steps]
        environment = {**os.environ, **self.layer.environment}
        return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)

    def found(self) -> list[str]:
        """What a process finds that the layer does not touch."""
        rocks = open_primary(self.path, "none")
        walk = rocks.iter()
        walk.seek_to_first()
        found = []
        while walk.valid():
            found.append(walk.key().decode())
            walk.next()
        rocks.close()
        return found


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Disk]:
    try:
        library = build(tmp_path)
    except FaultLayerError as error:
        pytest.skip(str(error))
    with FaultLayer(library, tmp_path / "control", tmp_path / "data", 1) as layer:
        yield Disk(layer, tmp_path / "data" / "storage" / "db")


def test_a_kill_loses_nothing_that_was_written_and_a_power_failure_what_was_not_synced(disk: Disk) -> None:
    done = disk.write("a,sync,b,c")
    assert (done.returncode, done.stdout) == (-signal.SIGKILL, "written\n"), done.stderr
    lost = disk.layer.fail_power(FirstChoice())
    assert lost > 2000
    assert disk.found() == ["a"]
    assert disk.layer.counts()["untracked"] == 0


def test_what_was_never_synced_may_be_gone_with_its_file(disk: Disk) -> None:
    disk.write("a")
    disk.layer.fail_power(FirstChoice())
    assert disk.found() == []


def test_without_a_power_failure_everything_is_there(disk: Disk) -> None:
    disk.write("a,sync,b")
    assert disk.found() == ["a", "b"]


def test_after_a_failed_sync_a_later_one_saves_nothing(disk: Disk) -> None:
    disk.write("a,sync")
    disk.layer.fail(sync_error=1.0)
    assert "Input/output error" in disk.write("b,sync").stderr
    disk.layer.fail()
    assert disk.layer.counts()["sync_errors"] >= 1
    assert "a" in disk.found()


def test_writes_fail_as_they_are_told_to(disk: Disk) -> None:
    disk.write("a,sync")
    disk.layer.fail(full=1.0)
    assert "No space left on device" in disk.write("b").stderr
    disk.layer.fail(write_error=1.0)
    assert "Input/output error" in disk.write("b").stderr
    disk.layer.fail()
    assert disk.found() == ["a"]
    assert disk.write("b").stdout == "written\n"


def test_the_process_dies_at_the_call_that_was_chosen(disk: Disk) -> None:
    done = disk.write("a,sync,b,sync,c,sync")
    calls = sum(disk.layer.counts()[name] for name in ("writes", "syncs"))
    assert calls > 10
    assert disk.found() == ["a", "b", "c"]
    disk.layer.die_after(calls // 2)
    done = disk.write("d,sync,e,sync,f,sync,g,sync,h,sync,i,sync")
    assert (done.returncode, done.stdout) == (-signal.SIGKILL, "")
    assert disk.layer.counts()["deaths"] == 1
    assert disk.found()[:3] == ["a", "b", "c"]


def test_a_log_file_that_the_layer_did_not_see_is_an_error(disk: Disk) -> None:
    disk.path.mkdir(parents=True)
    (disk.path / "000004.log").write_bytes(b"x")
    with pytest.raises(FaultLayerError, match=r"000004\.log was written without"):
        disk.layer.fail_power(Random(1))


class FirstChoice(Random):
    """Chance that always takes the worse way: nothing is left but what was synced."""

    def random(self) -> float:
        return 0.0
