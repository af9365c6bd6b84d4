"""The benchmarks of size: many connections, sessions, subscriptions and retained messages, and readers that stop.

`python benchmarks/scale.py` needs no options. What each line means stands in docs/benchmarks.md.
"""

import argparse
import json
import random
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks import brokers
from benchmarks.brokers import HELIOGRAPH, MOSQUITTO, Broker, BrokerError, Kind
from benchmarks.findings import Finding, add_report_options, machine, report
from benchmarks.peers import Peer, PeerError, crowd, publish, timed

from heliograph_bench import packets

OUTPUT: Final = Path("bench-output")

# Queues as they are by default: what a slow reader may cost is what is measured.
_BOUNDED: Final = Kind(
    "heliograph", settings="mqtt { max_inflight = 32, max_mqueue_len = 1000 }\nlog.console.level = info\n"
)
_MILLION: Final = 1_000_000
_EXPIRY_S: Final = 3600
_SUBACK: Final = b"\x90\x04\0\1\0\0"
_PAYLOAD: Final = bytes(64)
_LOAD_S: Final = 5.0
_SETTLING_S: Final = 30.0
_STILL_S: Final = 3.0
_SAMPLE_S: Final = 0.25


class Scale:
    """Measures the cases, each on brokers of its own."""

    def __init__(self, folder: Path, broker_core: int | None, with_peer: bool, connections: int) -> None:
        self._folder = folder
        self._core = broker_core
        self._with_peer = with_peer
        self._connections = connections

    def idle(self) -> Iterator[Finding]:
        """Connections that only keep alive: how fast they are accepted, and what each costs in memory."""
        found: dict[str, tuple[float, float]] = {}
        for kind in (HELIOGRAPH, *([MOSQUITTO] if self._with_peer else [])):
            with self._broker(kind, "idle") as broker:
                first = crowd(broker.port, _names("warm", 50))  # what the first ones allocate once is not their price
                before = broker.memory_bytes()
                began = time.perf_counter()
                peers = crowd(broker.port, _names("idle", self._connections))
                seconds = time.perf_counter() - began
                each = (broker.memory_bytes() - before) / len(peers)
                found[kind.name] = len(peers) / seconds, each
                _close(first + peers)
        rate, each = found[HELIOGRAPH.name]
        peer_rate, peer_each = found.get(MOSQUITTO.name, (None, None))
        yield Finding("CONNECTs accepted", rate, "/s", peer_rate or 5000, at_most=False, beside=peer_rate)
        yield Finding(f"memory of each of {self._connections:,} idle connections", each, " B", 2560, beside=peer_each)

    def reconnect(self) -> Iterator[Finding]:
        """Ten thousand persistent sessions come back at once while others exchange messages."""
        count = min(10_000, self._connections)
        names = _names("session", count)
        with self._broker(HELIOGRAPH, "reconnect") as broker:
            peers = crowd(broker.port, names, _EXPIRY_S)
            for number, peer in enumerate(peers):
                peer.subscribe([f"scale/session/{number}"], 1)
            _close(peers)
            with Traffic(broker.port, "--clients", 10, "--rate", 100, "--qos", 1) as traffic:
                began = time.perf_counter()
                peers = crowd(broker.port, names, _EXPIRY_S)
                seconds = time.perf_counter() - began
                latency = traffic()["latency_us"]
            if not all(peer.resumed for peer in peers):
                raise PeerError("a session was not resumed")
            _close(peers)
        yield Finding(f"reconnect of {count:,} persistent sessions", seconds, " s", 5.0)
        yield Finding("p99 of other traffic meanwhile", latency["p99"] / 1000, " ms", 250)
        yield Finding("slowest message of it", latency["max"] / 1000, " ms")

    def one_topic(self) -> Iterator[Finding]:
        """Ten thousand subscribers of one topic: the last one costs what the first did."""
        count = min(10_000, self._connections)
        edge = max(count // 100, 1)
        with self._broker(HELIOGRAPH, "one-topic") as broker:
            peers = crowd(broker.port, _names("one", count))
            for peer in peers:  # what a first packet costs is not what is asked here
                peer.ping()
            subscribing = timed(Peer.subscribe, ((peer, ["scale/one"]) for peer in peers))
            random.Random(1).shuffle(peers)
            unsubscribing = timed(Peer.unsubscribe, ((peer, "scale/one") for peer in peers))
            _close(peers)
        first, last = statistics.median(subscribing[:edge]), statistics.median(subscribing[-edge:])
        full, empty = statistics.median(unsubscribing[:edge]), statistics.median(unsubscribing[-edge:])
        yield Finding(f"SUBSCRIBE of the first {edge} of {count:,} to one topic", first, " µs")
        yield Finding(f"SUBSCRIBE of the last {edge}, beside that", last / first, "x", 1.5)
        yield Finding(f"UNSUBSCRIBE with {count:,}, beside few", full / empty, "x", 1.5)

    def slow_readers(self) -> Iterator[Finding]:
        """A thousand subscribers stop reading under full load: the broker's memory stays where their limits put it."""
        with self._broker(_BOUNDED, "slow-readers") as broker:
            peers = crowd(broker.port, _names("slow", 1000), receive_buffer=4096)
            for number, peer in enumerate(peers):
                peer.subscribe(["scale/slow"], number % 2)
            before = broker.memory_bytes()
            options = [
                "--publishers",
                4,
                "--subscribers",
                1,
                "--topic",
                "scale/slow",
                "--qos",
                1,
                "--window",
                64,
                "--size",
                1000,
            ]
            with Traffic(broker.port, *options, shape="fan-out") as traffic:
                full = _settled(broker)
                time.sleep(_LOAD_S)
                growth = broker.memory_bytes() - full
                result = traffic()
            dropped = _dropped(broker)
            _close(peers)
        yield Finding("1,000 subscribers stop reading: memory before", before / 1e6, " MB")
        yield Finding("memory under full load, once their buffers are full", full / 1e6, " MB")
        yield Finding(f"growth in {_LOAD_S:g} s more", growth / 1e6, " MB", 16)
        yield Finding("deliveries dropped for them", float(sum(dropped.values())), "")
        yield Finding("messages/s to the one who reads", result["received_per_s"], "/s")

    def wildcards(self) -> Iterator[Finding]:
        """A million wildcard subscriptions, made by ten clients."""
        with self._broker(HELIOGRAPH, "wildcards") as broker:
            publisher, reader, *holders = crowd(broker.port, _names("wild", 12))
            reader.subscribe([f"few/{number}/+/#" for number in range(10)])
            few = statistics.median(timed(_pass, 500 * [(publisher, reader, "few/1/a/b")]))
            before = broker.memory_bytes()
            began = time.perf_counter()
            for number, holder in enumerate(holders):
                for first in range(number * 100_000, (number + 1) * 100_000, 1000):
                    holder.subscribe([f"device/{device}/+/#" for device in range(first, first + 1000)])
            seconds = time.perf_counter() - began
            each = (broker.memory_bytes() - before) / _MILLION
            topics = [f"device/{device}/x/y" for device in random.Random(1).sample(range(_MILLION), 500)]
            owner = {topic: holders[int(topic.split("/")[1]) // 100_000] for topic in topics}
            cold = statistics.median(timed(_pass, ((publisher, owner[topic], topic) for topic in topics)))
            warm = statistics.median(timed(_pass, 500 * [(publisher, owner[topics[0]], topics[0])]))
            one_by_one = _MILLION // 10 / _subscribe_one_by_one(holders[0], _MILLION // 10)
            _close([publisher, reader, *holders])
        yield Finding("million wildcard subscriptions: added", _MILLION / seconds, "/s", 100_000, at_most=False)
        yield Finding("another 100,000, each in a packet of its own", one_by_one, "/s", 100_000, at_most=False)
        yield Finding("memory of each", each, " B", 600)
        yield Finding("publish to delivery, one at a time, with ten subscriptions", few, " µs")
        yield Finding("with a million, route unknown, beside ten", cold / few, "x")
        yield Finding("with a million, route known, beside ten", warm / few, "x", 1.5)

    def retained(self) -> Iterator[Finding]:
        """A million retained messages, and a wildcard subscription that matches a hundred of them."""
        with self._broker(HELIOGRAPH, "retained") as broker:
            publisher, *readers = crowd(broker.port, _names("retain", 21))
            before = broker.memory_bytes()
            began = time.perf_counter()
            for first in range(0, _MILLION, 1000):
                publisher.send(b"".join(map(_retained, range(first, first + 1000))))
            publisher.ping()
            seconds = time.perf_counter() - began
            each = (broker.memory_bytes() - before) / _MILLION - len(_PAYLOAD)
            times = timed(_find, ((reader, "+/x/#", 100) for reader in readers))
            _close([publisher, *readers])
        yield Finding("million retained messages: stored", _MILLION / seconds, "/s")
        yield Finding("memory of each beyond its payload", each, " B", 500)
        yield Finding("a hundred of them found by +/x/#", statistics.median(times) / 1000, " ms", 20)

    def _broker(self, kind: Kind, name: str) -> Broker:
        return Broker(kind, self._folder / f"{name}-{kind.name}", self._core)


class Traffic:
    """`heliograph bench` beside what is measured: called, it ends the load and gives its result."""

    def __init__(self, port: int, *options: object, shape: str = "pair") -> None:
        words = ["bench", shape, "--port", port, *options, "--mqtt", "3.1.1", "--duration", 60, "--json"]
        self._command = [sys.executable, "-m", "heliograph.cli.main", *map(str, words)]
        self._process: subprocess.Popen[str]

    def __enter__(self) -> "Traffic":
        self._process = subprocess.Popen(self._command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        assert self._process.stderr is not None
        self._process.stderr.readline()  # the first line of progress: it runs
        return self

    def __call__(self) -> dict[str, Any]:
        """Stop; the result."""
        self._process.send_signal(signal.SIGINT)
        output, said = self._process.communicate()
        try:
            result: dict[str, Any] = json.loads(output)
        except json.JSONDecodeError:
            raise PeerError(f"heliograph bench failed: {said.strip()}") from None
        return result

    def __exit__(self, *_: object) -> None:
        if self._process.poll() is None:
            self._process.kill()
            self._process.communicate()


CASES: Final[dict[str, Callable[[Scale], Iterator[Finding]]]] = {
    "idle": Scale.idle,
    "reconnect": Scale.reconnect,
    "one-topic": Scale.one_topic,
    "slow-readers": Scale.slow_readers,
    "wildcards": Scale.wildcards,
    "retained": Scale.retained,
}


def main(argv: Sequence[str] | None = None) -> int:
    """Measure and print; the exit code."""
    args = _options(argv)
    descriptors = brokers.allow_open_files()
    connections = args.connections if descriptors < 0 else min(args.connections, descriptors - 200)
    broker_core, _ = brokers.own_core()
    peer = brokers.mosquitto_program() is not None and not args.no_peer
    OUTPUT.mkdir(exist_ok=True)
    findings: list[Finding] = []
    notes = [] if connections == args.connections else [f"a process may open {descriptors} files here"]
    with tempfile.TemporaryDirectory(dir=OUTPUT) as folder:
        scale = Scale(Path(folder), broker_core, peer, connections)
        for name in args.only or CASES:
            began = time.monotonic()
            try:
                findings += CASES[name](scale)
            except (BrokerError, PeerError, OSError) as error:
                notes.append(f"{name}: FAILED: {error}")
            _say(f"{name}: {time.monotonic() - began:.0f} s")
    return _report(args, findings, notes)


def _report(args: argparse.Namespace, findings: list[Finding], notes: list[str]) -> int:
    conditions = f"{machine()}, one run of each"
    return report(args, "scale", "mosquitto", findings, conditions, notes)


def _options(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=tuple(CASES), metavar="NAME", help=f"these: {', '.join(CASES)}")
    parser.add_argument("--connections", type=int, default=15_000, help="idle connections (default: %(default)s)")
    parser.add_argument("--no-peer", action="store_true", help="leave mosquitto out")
    add_report_options(parser)
    return parser.parse_args(argv)


def _names(role: str, count: int) -> list[str]:
    return [f"{role}-{number}" for number in range(count)]


def _close(peers: list[Peer]) -> None:
    for peer in peers:
        peer.close()


def _pass(publisher: Peer, reader: Peer, topic: str) -> None:
    """One message from one to the other."""
    publisher.send(publish(topic, _PAYLOAD))
    reader.next_packet()


def _subscribe_one_by_one(holder: Peer, count: int) -> float:
    """Subscribe with as many packets as filters, sent without waiting for answers: the seconds it took."""
    asked = b"".join(packets.subscribe(1, [f"single/{number}/+/#"], 0, packets.V5) for number in range(count))
    began = time.perf_counter()
    with ThreadPoolExecutor(1) as sender:
        sending = sender.submit(holder.send, asked)
        holder.receive(count * len(_SUBACK))
        sending.result()
    return time.perf_counter() - began


def _retained(number: int) -> bytes:
    """A hundred of the topics have an x in the middle."""
    return publish(f"site{number % 1000}/{'x' if number < 100 else f'y{number // 1000}'}/v", _PAYLOAD, retain=True)


def _find(reader: Peer, topic_filter: str, count: int) -> None:
    """Subscribe, and wait for so many retained messages."""
    reader.subscribe([topic_filter])
    for _ in range(count):
        reader.next_packet()


def _settled(broker: Broker) -> int:
    """The broker's memory once it has stopped growing; what it is when patience ends, otherwise."""
    until = time.monotonic() + _SETTLING_S
    memory = broker.memory_bytes()
    while time.monotonic() < until:
        time.sleep(_STILL_S)
        before, memory = memory, broker.memory_bytes()
        if memory <= before * 1.005:
            break
    return memory


def _dropped(broker: Broker) -> dict[str, int]:
    """What the broker counted as dropped, from its log."""
    broker.ask_for_statistics()
    until = time.monotonic() + 10
    while time.monotonic() < until:
        found = re.search(r"statistics (\{.*\})", broker.log_text())
        if found is not None:
            counters: dict[str, int] = json.loads(found[1])
            return {name: int(count) for name, count in counters.items() if name.startswith("delivery.dropped")}
        time.sleep(_SAMPLE_S)
    raise BrokerError("the broker did not write its statistics into the log")


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
