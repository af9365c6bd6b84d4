"""What clients notice of a node that is asked: `heliograph ctl clients list` over and over, beside QoS 1 traffic.

A node has 100,000 idle sessions. Ten clients exchange 1,000 messages/s at QoS 1, first by themselves, then while the
command lists all sessions again and again; the two take turns, and the ratio of their p99 is that of five such pairs,
the median. The command runs at a low priority: what is measured is the node, not who gets the other core.

    python benchmarks/control.py [--sessions N] [--pairs N] [--seconds N]
"""

import argparse
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks import brokers
from benchmarks.brokers import HELIOGRAPH, Broker, BrokerError
from benchmarks.findings import Finding, add_report_options, machine, report
from benchmarks.noticed import noticed
from benchmarks.peers import PeerError, crowd

OUTPUT: Final = Path("bench-output")
_EXPIRY_S: Final = 86_400
_AT_ONCE: Final = 5_000
_RATIO_MAX: Final = 1.5
_IDLE_S: Final = 5.0


class Listing:
    """`heliograph ctl clients list`, again and again in a thread until it is left.

    Args:
        data_dir: The node's.
        sessions: How many it must list.
    """

    def __init__(self, data_dir: Path, sessions: int) -> None:
        words = ["ctl", "clients", "list", "--json", "--data-dir", str(data_dir)]
        self._command = ["nice", "-n", "19", sys.executable, "-m", "heliograph.cli.main", *words]
        self._sessions = sessions
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self.seconds: list[float] = []
        self.fault = ""

    def __enter__(self) -> "Listing":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._is_over.is_set() and not self.fault:
            began = time.perf_counter()
            done = subprocess.run(self._command, capture_output=True, check=False)
            self.seconds.append(time.perf_counter() - began)
            listed = done.stdout.count(b"\n")
            if done.returncode or listed < self._sessions:
                self.fault = f"{listed:,} of {self._sessions:,} sessions listed: {done.stderr.decode()[-500:]}"


def measure(broker: Broker, sessions: int, pairs: int, seconds: float) -> list[Finding]:
    """Take the pairs in turn."""
    idle = _idle_share(broker)
    with Listing(broker.data, sessions):
        pass  # the first asker has the node load what can be asked, once
    listings: list[Listing] = []
    found = noticed(
        broker,
        lambda: _added(listings, Listing(broker.data, sessions)),
        pairs,
        seconds,
        ("p99 of QoS 1 messages, nothing asked", f"the same while {sessions:,} sessions are listed over and over"),
        _RATIO_MAX,
    )
    if faults := [listing.fault for listing in listings if listing.fault]:
        raise BrokerError(faults[0])
    lists = [took for listing in listings for took in listing.seconds]
    return [
        *found,
        Finding(f"one list of {sessions:,} sessions", statistics.median(lists), " s"),
        Finding("CPU time of a node with these sessions that nothing asks, of a core", idle * 100, " %"),
    ]


def _added(listings: list[Listing], listing: Listing) -> Listing:
    listings.append(listing)
    return listing


def _idle_share(broker: Broker) -> float:
    before = broker.cpu_seconds()
    time.sleep(_IDLE_S)
    return (broker.cpu_seconds() - before) / _IDLE_S


def leave_sessions(port: int, count: int) -> None:
    """Connect so many clients, whose sessions stay when they go."""
    for first in range(0, count, _AT_ONCE):
        names = [f"idle-{number}" for number in range(first, min(first + _AT_ONCE, count))]
        for peer in crowd(port, names, _EXPIRY_S):
            peer.close()


def main(argv: Sequence[str] | None = None) -> int:
    """Measure and print; the exit code."""
    args = _options(argv)
    brokers.allow_open_files()
    broker_core, _ = brokers.own_core()
    OUTPUT.mkdir(exist_ok=True)
    findings: list[Finding] = []
    notes: list[str] = []
    with tempfile.TemporaryDirectory(dir=OUTPUT) as folder:
        try:
            with Broker(HELIOGRAPH, Path(folder), broker_core) as broker:
                leave_sessions(broker.port, args.sessions)
                findings = measure(broker, args.sessions, args.pairs, args.seconds)
        except (BrokerError, PeerError, OSError) as error:
            notes.append(f"FAILED: {error}")
    told = f"{args.pairs} pairs of {args.seconds:g} s"
    conditions = f"{machine()}, {told}"
    return report(args, "control", "", findings, conditions, notes)


def _options(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sessions", type=int, default=100_000, help="idle sessions (default: %(default)s)")
    parser.add_argument("--pairs", type=int, default=5, help="of runs without and with lists (default: %(default)s)")
    parser.add_argument("--seconds", type=float, default=6.0, help="of each run (default: %(default)s)")
    add_report_options(parser)
    return parser.parse_args(argv)


if __name__ == "__main__":
    sys.exit(main())
