"""What a million retained messages cost, in memory and on the disk: to keep, to find, to deliver, to start with.

Run with no arguments for the canonical figures. The first part asks the stores themselves, each in a process of its
own; what they have on the disk is written there, but not synced. The second asks brokers over TCP, mosquitto too where
it is installed: messages are published to topics whose first levels all differ, and one client subscribes, while
another asks for PINGRESPs as fast as it gets them. A broker that keeps them on its disk is then killed and started
again.

Ten million: `--messages 10000000 --payload 64 --storage disc --no-peer`.
"""

import argparse
import gc
import hashlib
import json
import select
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Final

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.brokers import MOSQUITTO, Broker, Kind, cores, mosquitto_program, pinned
from benchmarks.findings import Limit, checked, shown

from heliograph.broker.hooks import Hooks
from heliograph.broker.message import Message, make_message
from heliograph.broker.pubsub import Broker as Kernel
from heliograph.broker.router import Router
from heliograph.config.settings import Config
from heliograph.mqtt import packets as p
from heliograph.mqtt.encode import encode_packet, encode_publish
from heliograph.mqtt.properties import Properties
from heliograph.node.options import retainer_options
from heliograph.retainer.disk import DiskRetainer, RetainedCommits
from heliograph.retainer.memory import MemoryRetainer
from heliograph.retainer.retainer import Retainer
from heliograph.storage.errors import StorageBusyError
from heliograph.storage.keyed.changes import KeyedChange
from heliograph.storage.keyed.table import KeyedTable

OUTPUT: Final = Path("bench-output")
_NOW_US: Final = 1_700_000_000_000_000
# Those of a node, so that a collection costs what it costs there.
_GC_THRESHOLDS: Final = (50_000, 20, 100)
_CHUNK: Final = 1000
_STORAGE: Final = ("ram", "disc")
_SETTINGS: Final = "retainer.backend.storage_type = {}\n"
_SUBSCRIBED: Final = "{}: from SUBSCRIBE to the last message, ms"
_BUSY_S: Final = 0.005
_MATCHING: Final = 100
_TIMEOUT_S: Final = 300.0
_LIMITS: Final = (
    Limit("kept per second", 40_000, at_most=False),
    Limit("memory each, with the payload, bytes", 500),
    Limit(_SUBSCRIBED.format("+/x/#"), 20),
    Limit("#: the longest that another client waits for a PINGRESP, ms", 25),
    Limit("ready after kill -9, s", 5),
)


def main(argv: Sequence[str] | None = None) -> int:
    """Measure and print; the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--messages", type=int, default=1_000_000, help="how many are retained (default: %(default)s)")
    parser.add_argument("--payload", type=int, default=16, help="bytes of each, 64 at most (default: %(default)s)")
    parser.add_argument("--storage", nargs="*", choices=_STORAGE, default=list(_STORAGE), help="where (default: both)")
    parser.add_argument("--no-peer", action="store_true", help="leave mosquitto out")
    parser.add_argument("--store", action="store_true", help="the stores alone, in this process, as JSON")
    parser.add_argument("--check", action="store_true", help="exit 1 if a limit is broken")
    args = parser.parse_args(argv)
    OUTPUT.mkdir(exist_ok=True)
    if args.store:
        with tempfile.TemporaryDirectory(dir=OUTPUT) as folder:
            print(json.dumps(store_figures(args.messages, args.storage[0], Path(folder))))
        return 0
    core, _ = cores()
    missed: list[str] = []
    for storage in args.storage:
        print(f"{args.messages:,} retained messages; the store, {storage}:", flush=True)
        command = [sys.executable, __file__, "--store", "--messages", str(args.messages), "--storage", storage]
        finished = subprocess.run(pinned(command, core), check=True, stdout=subprocess.PIPE, text=True)
        shown(json.loads(finished.stdout), ())
    kinds = [Kind(f"heliograph, {storage}", settings=_SETTINGS.format(storage)) for storage in args.storage]
    if not args.no_peer and mosquitto_program() is not None:
        kinds.append(MOSQUITTO)
    for kind in kinds:
        print(f"{kind.name}, over TCP, {args.payload} bytes each:", flush=True)
        with tempfile.TemporaryDirectory(dir=OUTPUT) as folder:
            found = broker_figures(kind, Path(folder), core, args.messages, args.payload)
            limits = _LIMITS if kind.product == "heliograph" else ()
            missed += [f"{kind.name}: {name}" for name in shown(found, limits)]
    return checked(args.check, missed)


# --- the store


class WrittenAtOnce(RetainedCommits):
    """Brings changes to the system, a thousand at a time, without waiting for the disk.

    Args:
        table: Where they go.
    """

    def __init__(self, table: KeyedTable) -> None:
        super().__init__()
        self.table = table
        self._waiting: list[KeyedChange] = []

    def submit(self, change: KeyedChange, awaited: bool) -> None:
        """Take a change."""
        self._waiting.append(change)
        if len(self._waiting) == _CHUNK:
            self.write()

    def is_idle(self) -> bool:
        """Whether all were written."""
        return not self._waiting

    def write(self) -> None:
        """Write what waits."""
        while self._waiting:
            try:
                self.table.write(self._waiting)
                self._waiting = []
            except StorageBusyError:
                time.sleep(_BUSY_S)


def _make_store(kernel: Kernel, storage: str, folder: Path) -> Retainer:
    options = retainer_options(Config().retainer)
    if storage == "ram":
        return MemoryRetainer(kernel, options)
    table = KeyedTable("retained", folder / "retained", clock=lambda: int(kernel.now_us))
    table.open()
    return DiskRetainer(kernel, table, WrittenAtOnce(table), options)


def _disk_bytes(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def store_figures(count: int, storage: str, folder: Path) -> dict[str, float]:
    """The store under topics such as `device/123456/state/temp`."""
    gc.set_threshold(*_GC_THRESHOLDS)
    kernel = Kernel(Router(128, 1000), Hooks())
    kernel.begin_turn(_NOW_US)
    retainer = _make_store(kernel, storage, folder)
    kernel.retained = retainer
    gc.collect()
    before = rss_bytes()
    seconds, slowest = _retain(retainer, count, b"21.5")
    gc.collect()
    figures = {
        "kept per second": count / seconds,
        "the slowest thousand of them, ms": 1e3 * slowest,
        "bytes each, without the payload": (rss_bytes() - before) / count - len(b"21.5"),
    }
    if storage == "disc":
        figures["bytes each on the disk"] = _disk_bytes(folder) / count
    began = time.perf_counter()
    gc.collect()
    figures["a full collection, ms"] = 1e3 * (time.perf_counter() - began)
    figures["replaced per second"] = count / _retain(retainer, count, b"22.5")[0]
    for topic_filter in (
        f"device/{count // 2:06d}/#",
        f"+/{count // 2:06d}/#",
        "+/+/+/temp/#",
        "device/+/state/temp",
        "#",
    ):
        figures[f"{topic_filter}: the first match, ms"] = 1e3 * _seconds(partial(_first, retainer, topic_filter))
    part = islice(_each(retainer, "#"), 100_000)
    figures["#: each match, µs"] = 1e6 * _seconds(lambda: sum(1 for _ in part)) / min(count, 100_000)
    figures["cleared per second"] = count / _retain(retainer, count, b"")[0]
    _retain(retainer, count, b"x", b"\x02\0\0\0\x0a")
    kernel.begin_turn(_NOW_US + 20_000_000)
    swept = _seconds(lambda: list(iter(partial(retainer.sweep, _CHUNK), 0)))
    figures["swept away per second, when expired"] = count / swept
    return figures


def _retain(retainer: Retainer, count: int, payload: bytes, properties: bytes = b"") -> tuple[float, float]:
    """Retain a message for each topic: the seconds that all took, and those of the slowest thousand.

    CPU seconds: what else the machine does in the meantime must not look like a stall.
    """
    spent = slowest = 0.0
    for at in range(0, count, _CHUNK):
        messages = [_message(number, payload, properties) for number in range(at, min(at + _CHUNK, count))]
        began = time.process_time()
        for message in messages:
            retainer.retain(message)
        seconds = time.process_time() - began
        spent += seconds
        slowest = max(slowest, seconds)
    return spent, slowest


def _first(retainer: Retainer, topic_filter: str) -> Message | None:
    return next(_each(retainer, topic_filter), None)


def _each(retainer: Retainer, topic_filter: str) -> Iterator[Message]:
    matches = retainer.match(topic_filter)
    while not matches.is_done():
        message = matches.next()
        if message is not None:
            yield message


def _message(number: int, payload: bytes, properties: bytes) -> Message:
    topic, clientid = f"device/{number:06d}/state/temp", f"device-{number:06d}"
    return make_message(_NOW_US + number, number, topic, payload, 1, True, properties, clientid, None)


def _seconds(action: Callable[[], object]) -> float:
    began = time.perf_counter()
    action()
    return time.perf_counter() - began


def rss_bytes() -> int:
    """The resident memory of this process."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024
    raise RuntimeError("/proc/self/status names no VmRSS")


# --- brokers


class Client:
    """A client with a blocking socket."""

    def __init__(self, port: int, clientid: str) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=_TIMEOUT_S)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.send(p.Connect(p.V3_1_1, clientid, True, 0, None, None, None, Properties()))
        self.read(4)

    def send(self, packet: p.Packet) -> None:
        """Send a packet."""
        self.socket.sendall(encode_packet(packet, p.V3_1_1))

    def read(self, count: int) -> None:
        """Take so many bytes."""
        while count > 0:
            data = self.socket.recv(min(count, 1 << 20))
            if not data:
                raise RuntimeError("the broker closed the connection")
            count -= len(data)

    def ping(self) -> None:
        """Wait until everything sent so far was taken."""
        self.send(p.Ping(p.PINGREQ))
        self.read(2)

    def subscribe(self, topic_filter: str) -> None:
        """Subscribe at QoS 0 without waiting."""
        self.send(p.Subscribe(1, [p.SubscribeEntry(topic_filter, 0, False, False, 0)], Properties()))


def broker_figures(kind: Kind, folder: Path, core: int | None, count: int, payload_bytes: int) -> dict[str, float]:
    """A broker under topics such as `123456/y/temp`, of which a hundred have another second level."""
    step = max(1, count // _MATCHING)
    with Broker(kind, folder, core) as broker:
        publisher, other = Client(broker.port, "publisher"), Client(broker.port, "other")
        before = peak = broker.memory_bytes()
        sizes = {"x": 0, "y": 0}
        seconds = 0.0
        for at in range(0, count, _CHUNK):
            packets: dict[str, list[bytes]] = {"x": [], "y": []}
            for number in range(at, min(at + _CHUNK, count)):
                level = "y" if number % step else "x"
                name = f"{number:06d}/{level}/temp".encode()
                packets[level].append(
                    encode_publish(p.V3_1_1, name, _payload(number, payload_bytes), 0, True, False, 0, b"")
                )
            for level, some in packets.items():
                sizes[level] += sum(map(len, some))
            began = time.perf_counter()
            publisher.socket.sendall(b"".join(packets["x"] + packets["y"]))
            seconds += time.perf_counter() - began
            peak = max(peak, broker.memory_bytes())
        seconds += _seconds(publisher.ping)
        figures = {
            "kept per second": count / seconds,
            "memory each, with the payload, bytes": (broker.memory_bytes() - before) / count,
            "memory of the broker at most, MiB": max(peak, broker.memory_bytes()) / (1 << 20),
        }
        asked = [
            ("+/x/#", sizes["x"]),
            (f"{step:06d}/#", len(f"{step:06d}/x/temp") + 4 + payload_bytes),
            ("+/+/none", 0),
        ]
        figures.update({_SUBSCRIBED.format(one): _answer_ms(broker.port, one, size) for one, size in asked})
        figures.update(_everything(broker.port, other, sizes["x"] + sizes["y"], count))
        broker.kill()
    if "disc" in kind.settings:
        with Broker(kind, folder, core) as broker:
            figures["ready after kill -9, s"] = broker.ready_seconds
            figures["memory of the broker then, MiB"] = broker.memory_bytes() / (1 << 20)
            figures[f"then {_SUBSCRIBED.format('+/x/#')}"] = _answer_ms(broker.port, "+/x/#", sizes["x"])
            figures["bytes each on the disk"] = _disk_bytes(broker.data / "keyed") / count
    return figures


def _payload(number: int, size: int) -> bytes:
    """Bytes that cannot be compressed."""
    return hashlib.blake2b(number.to_bytes(8, "big"), digest_size=size).digest()


def _answer_ms(port: int, topic_filter: str, size: int) -> float:
    client = Client(port, "subscriber")
    client.ping()
    began = time.perf_counter()
    client.subscribe(topic_filter)
    client.read(5 + size)
    elapsed = time.perf_counter() - began
    client.ping()  # nothing else may come
    return 1e3 * elapsed


def _everything(port: int, other: Client, size: int, count: int) -> dict[str, float]:
    """Everything to one client, while another looks how long an answer takes."""
    client = Client(port, "everything")
    client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
    left = 5 + size
    waits = []
    began = time.perf_counter()
    client.subscribe("#")
    asked = time.perf_counter()
    other.send(p.Ping(p.PINGREQ))
    while left:
        readable, _, _ = select.select([client.socket, other.socket], [], [], _TIMEOUT_S)
        if not readable:
            raise RuntimeError(f"{left} bytes of retained messages never came")
        if other.socket in readable:
            other.read(2)
            now = time.perf_counter()
            waits.append(now - asked)
            asked = now
            other.send(p.Ping(p.PINGREQ))
        if client.socket in readable:
            left -= len(client.socket.recv(min(left, 1 << 20)))
    seconds = time.perf_counter() - began
    other.read(2)
    return {
        "#: delivered per second": count / seconds,
        "#: the longest that another client waits for a PINGRESP, ms": 1e3 * max(waits, default=seconds),
    }


if __name__ == "__main__":
    sys.exit(main())
