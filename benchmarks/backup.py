"""What clients notice of a backup: full ones of a storing node, one after the other, beside QoS 1 messages.

A node has some hundred megabytes that do not compress, and stores each message before it acknowledges it. Ten clients
exchange 1,000 messages/s at QoS 1, first by themselves, then while backups are made to empty places; the two take
turns, and the ratio of their p99 is the median of several such pairs. Then backups and plain copies of the same bytes,
with one sync at the end, take turns beside the same messages: how fast is a backup beside what the disk can do?

    python benchmarks/backup.py [--megabytes N] [--pairs N] [--seconds N]
"""

import argparse
import json
import os
import shlex
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Final

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks import brokers
from benchmarks.brokers import STORING, Broker, BrokerError
from benchmarks.findings import Finding, add_report_options, machine, report
from benchmarks.noticed import LOAD, noticed
from benchmarks.peers import PeerError
from benchmarks.scale import Traffic
from benchmarks.storage_ingest import Published

from heliograph.storage.columnar.node_databases import NodeDatabases
from heliograph.storage.interface import DatabaseOptions

OUTPUT: Final = Path("bench-output")
_RATIO_MAX: Final = 1.5
_HELD_MS_MAX: Final = 1.0
_SPEED_MIN: Final = 0.5
_PAYLOAD_BYTES: Final = 4_000
_BATCH: Final = 250


class Backups:
    """Full backups of a node, one after the other.

    Attributes:
        held_ms: How long each held the loop of the node at most.
    """

    def __init__(self, broker: Broker, folder: Path) -> None:
        self._broker = broker
        self._folder = folder
        self.held_ms: list[float] = []
        self.made = 0

    def make(self) -> float:
        """Make one; the bytes it copied in a second."""
        place = self._folder / f"place-{self.made}"
        self.made += 1
        words = ["ctl", "data", "backup", str(place.resolve()), "--json", "--data-dir", str(self._broker.data)]
        done = subprocess.run(
            ["nice", "-n", "19", sys.executable, "-m", "heliograph.cli.main", *words],
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            raise BrokerError(f"no backup was made: {done.stderr}")
        made = json.loads(done.stdout)
        self.held_ms.append(float(made["held_ms"]))
        shutil.rmtree(place)
        return float(made["copied_bytes"]) / float(made["duration_s"])

    def repeated(self) -> AbstractContextManager[object]:
        """Makes backups until it is left."""
        return _Repeated(self)


class _Repeated:
    def __init__(self, backups: Backups) -> None:
        self._backups = backups
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._fault: BrokerError | None = None

    def __enter__(self) -> "_Repeated":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self._thread.join()
        if self._fault is not None:
            raise self._fault

    def _run(self) -> None:
        try:
            while not self._is_over.is_set():
                self._backups.make()
        except BrokerError as error:
            self._fault = error


def fill(data_dir: Path, megabytes: int) -> None:
    """Have a node with so much in its database of messages."""
    database = NodeDatabases(data_dir).database("messages", DatabaseOptions())
    database.open()
    count = megabytes * 1_000_000 // _PAYLOAD_BYTES
    for first in range(1, count, _BATCH):
        database.write(
            [
                Published(number, f"plant/device-{number % 100}", os.urandom(_PAYLOAD_BYTES), "filler")
                for number in range(first, first + _BATCH)
            ]
        )
    database.close()


def copy_per_second(data_dir: Path, target: Path) -> float:
    """The bytes a second that a copy of all tables takes which is brought to the disk at its end.

    It has the priority that the process of a backup has: what is compared is how they use the disk.
    """
    tables = [str(table) for table in (data_dir / "storage").rglob("*.sst")]
    command = f"cat {shlex.join(tables)} | dd of={shlex.quote(str(target))} bs=1M iflag=fullblock conv=fsync"
    began = time.perf_counter()
    subprocess.run(["nice", "-n", "19", "sh", "-c", command], stderr=subprocess.DEVNULL, check=True)
    took = time.perf_counter() - began
    size = target.stat().st_size
    target.unlink()
    return size / took


def measure(broker: Broker, folder: Path, pairs: int, seconds: float) -> list[Finding]:
    """Take the pairs in turn, then backups and copies."""
    backups = Backups(broker, folder)
    found = noticed(
        broker,
        backups.repeated,
        pairs,
        seconds,
        ("p99 of stored QoS 1 messages, no backup", "the same while full backups are made"),
        _RATIO_MAX,
    )
    speeds, copies = [], []
    for _ in range(pairs):
        with Traffic(broker.port, *LOAD):
            speeds.append(backups.make() / 1_000_000)
            copies.append(copy_per_second(broker.data, folder / "copy") / 1_000_000)
    ratio = statistics.median(one / other for one, other in zip(speeds, copies, strict=True))
    return [
        *found,
        Finding(
            "turn of the loop that a backup needs, median", statistics.median(backups.held_ms), " ms", _HELD_MS_MAX
        ),
        Finding("full backup (beside: a copy)", statistics.median(speeds), " MB/s", beside=statistics.median(copies)),
        Finding("the former beside the latter, median", ratio, "x", _SPEED_MIN, at_most=False),
    ]


def main(argv: Sequence[str] | None = None) -> int:
    """Measure and print; the exit code."""
    args = _options(argv)
    brokers.allow_open_files()
    broker_core, _ = brokers.own_core()
    OUTPUT.mkdir(exist_ok=True)
    findings: list[Finding] = []
    notes: list[str] = []
    with tempfile.TemporaryDirectory(dir=OUTPUT) as name:
        folder = Path(name)
        try:
            fill(folder / "data", args.megabytes)
            with Broker(STORING, folder, broker_core) as broker:
                findings = measure(broker, folder, args.pairs, args.seconds)
        except (BrokerError, PeerError, OSError) as error:
            notes.append(f"FAILED: {error}")
    conditions = f"{machine()}, {args.megabytes} MB, {args.pairs} pairs of {args.seconds:g} s"
    return report(args, "backup", "beside", findings, conditions, notes)


def _options(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--megabytes", type=int, default=400, help="that the node has stored (default: %(default)s)")
    parser.add_argument("--pairs", type=int, default=5, help="of runs without and with backups (default: %(default)s)")
    parser.add_argument("--seconds", type=float, default=8.0, help="of each run (default: %(default)s)")
    add_report_options(parser)
    return parser.parse_args(argv)


if __name__ == "__main__":
    sys.exit(main())
