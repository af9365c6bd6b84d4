"""What clients notice of a node whose HTTP API is asked: 20 pages a second of 1,000 of 100,000 clients, beside QoS 1.

A node has 100,000 idle sessions. Ten clients exchange 1,000 messages/s at QoS 1, first while the management process has
nothing to do, then while pages of clients are read, any of the hundred; the two take turns, and the ratio of their p99
is the median of several such pairs. Beside them stand the time of a page, of a deep one, and of a search, lists of
subscriptions that find few of 100,000 filters, the memory of the management process, a scrape of all metrics, and the
ready line of a node with and without management.

    python benchmarks/management.py [--sessions N] [--filters N] [--pairs N] [--seconds N]
"""

import argparse
import base64
import http.client
import os
import random
import re
import socket
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks import brokers
from benchmarks.brokers import HELIOGRAPH, Broker, BrokerError, Kind
from benchmarks.control import leave_sessions
from benchmarks.findings import Finding, add_report_options, machine, report
from benchmarks.noticed import noticed
from benchmarks.peers import Peer, PeerError

OUTPUT: Final = Path("bench-output")
_KEY: Final = ("bench-key", "bench-secret")
_PAGE: Final = 1_000
_PAGES_PER_S: Final = 20
_RATIO_MAX: Final = 2.0
_PAGE_MS_MAX: Final = 30.0
_SEARCH_S_MAX: Final = 1.0
_MEMORY_MIB_MAX: Final = 60.0
_SUBSCRIPTIONS_MS_MAX: Final = 50.0
_SUBSCRIBED_AT_ONCE: Final = 5_000
_TIMES: Final = 15
_SERVED_S: Final = 30.0
_METRICS: Final = "/api/v5/prometheus/stats?mode=node"


class Api:
    """A caller of the HTTP API, over one connection."""

    def __init__(self, port: int) -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
        self._headers = {"authorization": "Basic " + base64.b64encode(":".join(_KEY).encode()).decode()}

    def get(self, path: str) -> bytes:
        """The body of an answer.

        Raises:
            BrokerError: It is an error.
        """
        self._connection.request("GET", path, headers=self._headers)
        answer = self._connection.getresponse()
        body = answer.read()
        if answer.status != http.client.OK:
            raise BrokerError(f"{path}: {answer.status} {body[:300]!r}")
        return body

    def seconds(self, path: str) -> float:
        """How long a request takes."""
        began = time.perf_counter()
        self.get(path)
        return time.perf_counter() - began


class Pages:
    """Pages of clients, so many a second, in a thread of the lowest priority until it is left.

    It shares a core with the load, whose latency is not to be that of reading what was answered.

    Args:
        pages: How many there are.

    Attributes:
        seconds: How long each took.
    """

    def __init__(self, port: int, pages: int) -> None:
        self._api = Api(port)
        self._pages = pages
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self.seconds: list[float] = []
        self.fault = ""

    def __enter__(self) -> "Pages":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self._thread.join()

    def _run(self) -> None:
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), 19)
        chance = random.Random(1)
        due = time.perf_counter()
        try:
            while not self._is_over.wait(max(0.0, due - time.perf_counter())):
                due += 1 / _PAGES_PER_S
                self.seconds.append(self._api.seconds(page_path(chance.randint(1, self._pages))))
        except (BrokerError, OSError, http.client.HTTPException) as error:
            self.fault = str(error)


def page_path(number: int) -> str:
    """The path of a page of clients."""
    return f"/api/v5/clients?limit={_PAGE}&page={number}"


def subscriptions_found(broker: Broker, port: int, filters: int) -> list[Finding]:
    """How long lists of subscriptions take that look for few of so many filters, which two clients have."""
    peers = [Peer(broker.port, f"subscriber-{number}") for number in range(2)]
    api, path = Api(port), "/api/v5/subscriptions"
    try:
        for which, peer in enumerate(peers):
            peer.connected()
            names = [f"plant/{number}/" + ("+", "temp")[number % 2] for number in range(which, filters, 2)]
            for first in range(0, len(names), _SUBSCRIBED_AT_ONCE):
                peer.subscribe(names[first : first + _SUBSCRIBED_AT_ONCE])
        return [
            Finding(f"{what}, of {filters:,} filters", _median_ms(api, asked), " ms", _SUBSCRIPTIONS_MS_MAX)
            for what, asked in (
                ("match_topic that no filter is within", f"{path}?match_topic=zz/%23"),
                ("match_topic that one filter is within", f"{path}?match_topic=plant/7/%23"),
                ("match_topic that begins with a wildcard", f"{path}?match_topic=%2B/x/%23"),
                ("subscriptions that a topic has", "/api/v5/heliograph/subscriptions?receives=plant/7/temp"),
                ("subscriptions to one filter, with their count", f"{path}?topic=plant/7/temp"),
                ("subscriptions at a QoS that none has, with their count", f"{path}?qos=2"),
            )
        ]
    finally:
        for peer in peers:
            peer.close()


def measure(broker: Broker, port: int, sessions: int, pairs: int, seconds: float) -> list[Finding]:
    """Take the pairs in turn, then requests by themselves."""
    pages = max(1, sessions // _PAGE)
    read: list[Pages] = []
    found = noticed(
        broker,
        lambda: _added(read, Pages(port, pages)),
        pairs,
        seconds,
        ("p99 of QoS 1 messages, the API not asked", f"the same at {_PAGES_PER_S} pages/s of {_PAGE:,} clients"),
        _RATIO_MAX,
    )
    if faults := [one.fault for one in read if one.fault]:
        raise BrokerError(faults[0])
    taken = [took for one in read for took in one.seconds]
    api = Api(port)
    found += [
        Finding("pages a second that were read", len(taken) / (pairs * seconds), "/s"),
        Finding(f"a page of {_PAGE:,} clients beside that load, median", statistics.median(taken) * 1000, " ms"),
        Finding("the first page, by itself", _median_ms(api, page_path(1)), " ms", _PAGE_MS_MAX),
        Finding(f"page {pages}, by itself", _median_ms(api, page_path(pages)), " ms", _PAGE_MS_MAX),
        Finding(
            f"a search by a substring that one of {sessions:,} clients has",
            _median_ms(api, f"/api/v5/clients?like_clientid=idle-{sessions - 1}") / 1000,
            " s",
            _SEARCH_S_MAX,
        ),
    ]
    found.append(Finding("a scrape of all metrics", _median_ms(api, _METRICS), " ms"))
    return [
        *found,
        Finding("memory of the management process", _memory_mib(management_pid(broker.pid)), " MiB", _MEMORY_MIB_MAX),
    ]


def _added(read: list[Pages], pages: Pages) -> Pages:
    read.append(pages)
    return pages


def _median_ms(api: Api, path: str) -> float:
    return statistics.median(api.seconds(path) for _ in range(_TIMES)) * 1000


def management_pid(parent: int) -> int:
    """The process id of the management process of a node.

    Raises:
        BrokerError: It has none.
    """
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            words = (folder / "cmdline").read_bytes().split(b"\0")
            status = (folder / "status").read_text()
        except OSError:
            continue
        if b"heliograph.management" in words and re.search(rf"^PPid:\s+{parent}$", status, re.MULTILINE):
            return int(folder.name)
    raise BrokerError("the node has no management process")


def _memory_mib(pid: int) -> float:
    """The resident memory of a process."""
    found = re.search(r"VmRSS:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
    return int(found[1]) / 1024 if found else 0.0


def managed_kind(folder: Path, more: str = "") -> tuple[Kind, int]:
    """A node with its management process, and the port of its HTTP API.

    Args:
        more: Further settings.
    """
    keys = folder / "api_keys"
    keys.write_text(":".join(_KEY) + "\n")
    keys.chmod(0o600)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    settings = (
        f'dashboard.listeners.http.bind = "127.0.0.1:{port}"\napi_key.bootstrap_file = "{keys.resolve()}"\n'
        f"broker.max_disconnected_sessions = infinity\n{more}"
    )
    return Kind("heliograph", environment={"HELIOGRAPH_MANAGEMENT__ENABLE": "true"}, settings=settings), port


def until_served(port: int) -> None:
    """Wait until the HTTP API answers.

    Raises:
        BrokerError: It does not.
    """
    end = time.perf_counter() + _SERVED_S
    while True:
        try:
            Api(port).get("/api/v5/status")
            return
        except (OSError, BrokerError) as error:
            if time.perf_counter() > end:
                raise BrokerError(f"the HTTP API is not served: {error}") from error
            time.sleep(0.1)


def _ready_s(kind: Kind, folder: Path, core: int | None, times: int) -> float:
    """How long a node takes to its ready line, the median."""
    taken: list[float] = []
    for number in range(times):
        with Broker(kind, folder / f"start-{number}", core) as broker:
            taken.append(broker.ready_seconds)
    return statistics.median(taken)


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
        kind, port = managed_kind(folder)
        try:
            with Broker(kind, folder / "node", broker_core) as broker:
                leave_sessions(broker.port, args.sessions)
                until_served(port)
                findings = measure(broker, port, args.sessions, args.pairs, args.seconds)
                findings += subscriptions_found(broker, port, args.filters)
            ready = _ready_s(kind, folder / "with", broker_core, args.starts)
            without = _ready_s(HELIOGRAPH, folder / "without", broker_core, args.starts)
            title = "ready line of a node with management (beside: without)"
            findings.append(Finding(title, ready * 1000, " ms", beside=without * 1000))
        except (BrokerError, PeerError, OSError) as error:
            notes.append(f"FAILED: {error}")
    conditions = f"{machine()}, {args.pairs} pairs of {args.seconds:g} s"
    return report(args, "management", "beside", findings, conditions, notes)


def _options(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sessions", type=int, default=100_000, help="idle sessions (default: %(default)s)")
    parser.add_argument("--filters", type=int, default=100_000, help="that are searched (default: %(default)s)")
    parser.add_argument("--pairs", type=int, default=5, help="of runs without and with pages (default: %(default)s)")
    parser.add_argument("--seconds", type=float, default=6.0, help="of each run (default: %(default)s)")
    parser.add_argument("--starts", type=int, default=5, help="of each kind of node (default: %(default)s)")
    add_report_options(parser)
    return parser.parse_args(argv)


if __name__ == "__main__":
    sys.exit(main())
