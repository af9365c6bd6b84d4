"""The load on a broker: one run of `heliograph bench` or of an independent generator, as figures of one shape."""

import json
import resource
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from benchmarks.brokers import Broker, pinned

_SLACK_S: Final = 60.0
_ENDLESS: Final = 1_000_000_000
_TOPOLOGIES: Final = {"pair": "pair", "fan-in": "fanin", "fan-out": "fanout"}


class LoadError(Exception):
    """The generator failed, or lost a connection."""


@dataclass(frozen=True)
class Load:
    """Who talks to whom, and how.

    Args:
        rate: Messages per second and publisher; None: as fast as the broker takes them.
        precise: Whether each message of a rate leaves when it is due, and not those of a millisecond together.
        never_matching: More filters of each subscriber, that match nothing.
        session_expiry_s: How long the sessions of subscribers outlive them.
        topic: Where to publish and subscribe; None: as the shape has it.
    """

    shape: str
    publishers: int
    subscribers: int
    qos: int = 0
    window: int = 64
    payload_bytes: int = 64
    rate: float | None = None
    never_matching: int = 0
    precise: bool = True
    session_expiry_s: int = 0
    topic: str | None = None


@dataclass(frozen=True)
class Measured:
    """What one run showed.

    Args:
        per_second: Messages received per second; where nobody receives, acknowledged ones.
        lost: Messages that did not arrive (QoS 0 only; at QoS 1 and 2 that is a failure).
        p50_us: Median of the latency: to the subscriber; where nobody receives, to the acknowledgement.
        p99_us: 99th percentile of the latency.
        broker_cpu: CPU time of the broker as share of a core.
        load_cpu: The same of the generator.
    """

    per_second: float
    lost: int
    p50_us: int
    p99_us: int
    broker_cpu: float
    load_cpu: float

    @property
    def per_cpu_second(self) -> float:
        """Messages per second of the broker's own CPU time: what remains comparable on a busy machine."""
        return self.per_second / self.broker_cpu if self.broker_cpu else 0.0


@dataclass(frozen=True)
class Generator:
    """Makes load for some seconds; by `heliograph bench`, or by the program `mqload` if one is given."""

    seconds: float
    core: int | None
    mqload: Path | None = None

    @property
    def name(self) -> str:
        """As the table calls it."""
        return "mqload" if self.mqload else "heliograph bench"

    def run(self, load: Load, broker: Broker) -> Measured:
        """Load the broker once.

        Raises:
            LoadError: The generator could not do what it should.
        """
        before = broker.cpu_seconds()
        spent = _children_cpu_seconds()
        result = self._mqload(load, broker.port) if self._can_mqload(load, broker) else self._bench(load, broker)
        broker.check()
        seconds = result["seconds"]
        received = result["received"] if load.subscribers else result["acknowledged"]
        return Measured(
            per_second=received / seconds if seconds else 0.0,
            lost=result["lost"],
            p50_us=(result["latency_us"] or {}).get("p50", 0),
            p99_us=(result["latency_us"] or {}).get("p99", 0),
            broker_cpu=(broker.cpu_seconds() - before) / seconds if seconds else 0.0,
            load_cpu=result.get("tool_cpu", (_children_cpu_seconds() - spent) / seconds if seconds else 0.0),
        )

    def _can_mqload(self, load: Load, broker: Broker) -> bool:
        plain = load.rate is None and load.topic is None and not load.session_expiry_s
        return self.mqload is not None and broker.kind.transport == "tcp" and plain

    def _bench(self, load: Load, broker: Broker) -> dict[str, Any]:
        clients = {
            "pub": ["--clients", load.publishers],
            "pair": ["--clients", load.publishers],
        }.get(load.shape, ["--publishers", load.publishers, "--subscribers", load.subscribers])
        options = ["--port", broker.port, "--qos", load.qos, "--window", load.window, "--size", load.payload_bytes]
        more = ["--mqtt", "3.1.1", "--duration", self.seconds, "--json", "--quiet"]
        if load.shape != "pub":
            more += ["--never-matching", load.never_matching]
        if load.rate is not None:
            more += ["--rate", load.rate, *(["--precise"] if load.precise else [])]
        if load.session_expiry_s:
            more += ["--session-expiry", load.session_expiry_s]
        if load.topic is not None:
            more += ["--topic", load.topic]
        if broker.kind.transport != "tcp":
            more += ["--transport", broker.kind.transport, "--insecure"]
        words = [sys.executable, "-m", "heliograph.cli.main", "bench", load.shape, *clients, *options, *more]
        return self._call([str(word) for word in words])

    def _mqload(self, load: Load, port: int) -> dict[str, Any]:
        topology = "wild" if load.never_matching else _TOPOLOGIES.get(load.shape, "pair")
        shape = {"-t": topology, "-p": load.publishers, "-s": load.subscribers}
        message = {"-q": load.qos, "-w": load.window, "-l": load.payload_bytes, "-n": _ENDLESS // load.publishers}
        options = {"-P": port, **shape, **message, "-T": self.seconds}
        result = self._call([str(self.mqload), *(str(word) for pair in options.items() for word in pair)])
        if result["failed_connections"]:
            raise LoadError(f"mqload lost {result['failed_connections']} connections")
        # It stops in the middle of things when the time is up, so that what is still on the way is not lost.
        return {**result, "acknowledged": result["acked"], "lost": 0}

    def _call(self, command: list[str]) -> dict[str, Any]:
        limit_s = self.seconds + _SLACK_S
        try:
            finished = subprocess.run(
                pinned(command, self.core), capture_output=True, text=True, timeout=limit_s, check=False
            )
        except subprocess.TimeoutExpired:
            raise LoadError(f"{self.name} was not done after {limit_s:g} s") from None
        try:
            result: dict[str, Any] = json.loads(finished.stdout)
        except json.JSONDecodeError:
            raise LoadError(f"{self.name} failed ({finished.returncode}): {finished.stderr.strip()}") from None
        if finished.returncode and result.get("failures") is not None:
            lost = [f"{result['lost']} messages lost"] if result["lost"] else []
            raise LoadError(f"{self.name}: {', '.join([*result['failures'], *lost])}")
        return result


def _children_cpu_seconds() -> float:
    """CPU time of all processes that this one has started and seen the end of."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


@contextmanager
def built(mqload: Path | None) -> Iterator[Path | None]:
    """The generator program: as given, or compiled from the `.c` file that was given."""
    if mqload is None or mqload.suffix != ".c":
        yield mqload
        return
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder) / "mqload"
        subprocess.run(["cc", "-O2", "-o", str(program), str(mqload)], check=True)
        yield program
