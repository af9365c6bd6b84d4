"""The canonical figures: what is measured, on which brokers, and what it should be. How to measure the special ones.

What needs thousands of connections is in scale.py.
"""

import shutil
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from benchmarks.brokers import (
    HELIOGRAPH,
    MOSQUITTO,
    NOBODY,
    PROMPT_MOSQUITTO,
    PURE,
    STORING,
    TLS,
    WEBSOCKET,
    Broker,
    BrokerError,
    Kind,
)
from benchmarks.load import Generator, Load, LoadError, Measured

_READY_TIMES: Final = 5
_WORSE_MAX: Final = 1.03


@dataclass(frozen=True)
class Figure:
    """One line of the table.

    Args:
        name: For `--only`.
        title: For people.
        target: What the figure, or its ratio to the peer, should at least (or `at_most`) be; None: it informs.
        load: What to load the brokers with, if that is how it is measured.
        ours: The ways to run our broker; the first is the one that has a target.
        peer: What the target is a ratio to; None: the target is a value.
        at_most: Whether less is better.
        measure: The attribute of a run that counts.
        unit: Of the figure.
    """

    name: str
    title: str
    target: float | None = None
    load: Load | None = None
    ours: tuple[Kind, ...] = (HELIOGRAPH,)
    peer: Kind | None = MOSQUITTO
    at_most: bool = False
    measure: str = "per_second"
    unit: str = "/s"


@dataclass
class Outcome:
    """What was found for one figure: the values of each broker in the order of measuring, or why there are none."""

    figure: Figure
    values: dict[str, list[float]] = field(default_factory=dict)
    runs: dict[str, list[Measured]] = field(default_factory=dict)
    failure: str | None = None

    def add(self, kind: Kind, value: float, run: Measured | None = None) -> None:
        """Note one more value."""
        self.values.setdefault(kind.name, []).append(value)
        if run is not None:
            self.runs.setdefault(kind.name, []).append(run)

    def median(self, kind: Kind) -> float | None:
        """The broker's median, if it was measured."""
        values = self.values.get(kind.name)
        return statistics.median(values) if values else None

    @property
    def ratio(self) -> float | None:
        """Our median by the peer's, where both were measured."""
        ours, peer = self.median(self.figure.ours[0]), self._peer_median
        return ours / peer if ours is not None and peer else None

    @property
    def _peer_median(self) -> float | None:
        return None if self.figure.peer is None else self.median(self.figure.peer)

    def per_cpu_second(self, kind: str) -> float | None:
        """Median of the messages per second of that broker's CPU time."""
        runs = self.runs.get(kind)
        return statistics.median(run.per_cpu_second for run in runs) if runs else None

    @property
    def cpu_beside_before(self) -> float | None:
        """Our CPU time per message by that of the other commit: of each the least, which no busy moment has raised."""
        ours, before = self.runs.get(self.figure.ours[0].name), self.runs.get("before")
        if not ours or not before:
            return None
        return max(run.per_cpu_second for run in before) / max(run.per_cpu_second for run in ours)

    @property
    def is_worse(self) -> bool:
        """Whether a message costs more CPU time than before."""
        ratio = self.cpu_beside_before
        return ratio is not None and ratio > _WORSE_MAX

    @property
    def ratio_per_cpu(self) -> float | None:
        """As `ratio`, per second of CPU time of each broker."""
        if self.figure.peer is None:
            return None
        ours, peer = self.per_cpu_second(self.figure.ours[0].name), self.per_cpu_second(self.figure.peer.name)
        return ours / peer if ours is not None and peer else None

    @property
    def met(self) -> bool | None:
        """Whether the target is met; None where there is none, or nothing to compare."""
        figure = self.figure
        if self.failure:
            return False
        found = self.ratio if figure.peer is not None else self.median(figure.ours[0])
        if figure.target is None or found is None:
            return None
        return found <= figure.target if figure.at_most else found >= figure.target


FIGURES: Final = (
    Figure("qos0", "one to one, QoS 0", 10, Load("pair", 1, 1), ours=(HELIOGRAPH, STORING)),
    Figure("qos1", "one to one, QoS 1, window 256", 10, Load("pair", 1, 1, qos=1, window=256), (HELIOGRAPH, STORING)),
    Figure("qos2", "one to one, QoS 2, window 256", 10, Load("pair", 1, 1, qos=2, window=256), (HELIOGRAPH, STORING)),
    Figure("pairs50", "50 pairs, QoS 0", 15, Load("pair", 50, 50)),
    Figure("fan-in", "fan-in, 50 to 1, QoS 0", 10, Load("fan-in", 50, 1)),
    Figure("fan-out", "fan-out, 1 to 50, QoS 0", 20, Load("fan-out", 1, 50), ours=(HELIOGRAPH, STORING)),
    Figure("fan-out-1000", "fan-out, 1 to 1,000, QoS 0", 20, Load("fan-out", 1, 1000)),
    Figure("pairs", "500 pairs, QoS 1, window 1", 1.0, Load("pair", 500, 500, qos=1, window=1)),
    Figure("never-matching", "50 pairs, 100 filters more each", 15, Load("pair", 50, 50, never_matching=100)),
    Figure(
        "latency",
        "p99 at 20,000 messages/s, QoS 0",
        1.0,
        Load("pair", 1, 1, rate=20_000),
        peer=PROMPT_MOSQUITTO,
        at_most=True,
        measure="p99_us",
        unit=" µs",
    ),
    Figure("websocket", "WebSocket beside TCP, QoS 0", 0.5, Load("pair", 1, 1), ours=(WEBSOCKET,), peer=HELIOGRAPH),
    Figure("tls", "TLS beside TCP, QoS 0", 0.4, Load("pair", 1, 1), ours=(TLS,), peer=HELIOGRAPH),
    Figure("pure", "one to one, QoS 0, pure Python", 2, Load("pair", 1, 1), ours=(PURE,)),
    Figure(
        "ingest",
        "stored with fsync: 20 publishers, QoS 1",
        150_000,
        Load("pub", 20, 0, qos=1, window=1000),
        ours=(STORING,),
        peer=None,
    ),
    Figure("tool", "the load tool against no broker", 1_000_000, Load("pair", 1, 1), ours=(NOBODY,), peer=None),
    Figure("start", "start to ready", 1.0, ours=(STORING,), peer=None, at_most=True, unit=" s"),
)


@dataclass(frozen=True)
class Bench:
    """Measures figures, one broker after the other and over again, so that a busy moment of the machine hits all.

    Args:
        folder: Where brokers keep their files.
        generator: What makes the load.
        runs: How often each broker is measured.
        broker_core: The core that brokers run on.
        with_peer: Whether mosquitto is there to be measured too.
        before: Another Heliograph to measure beside this one.
        say: Where progress goes.
    """

    folder: Path
    generator: Generator
    runs: int
    broker_core: int | None
    with_peer: bool
    before: Kind | None
    say: Callable[[str], None]

    def measure(self, figure: Figure) -> Outcome:
        """All runs of one figure; a failure ends the figure and is part of its outcome."""
        outcome = Outcome(figure)
        measure = self._start if figure.load is None else self._load
        try:
            measure(outcome)
        except (BrokerError, LoadError) as error:
            outcome.failure = str(error)
            self.say(f"{figure.title}: FAILED: {error}")
        return outcome

    def _kinds(self, figure: Figure) -> Sequence[Kind]:
        kinds = [*figure.ours]
        if figure.peer is not None and (self.with_peer or figure.peer.product != MOSQUITTO.product):
            kinds.append(figure.peer)
        if self.before is not None and HELIOGRAPH in kinds:
            kinds.append(self.before)
        return kinds

    def _broker(self, kind: Kind, name: str) -> Broker:
        return Broker(kind, self.folder / f"{name}-{kind.name.replace(' ', '-').replace(',', '')}", self.broker_core)

    def _load(self, outcome: Outcome) -> None:
        figure = outcome.figure
        assert figure.load is not None
        if any(kind.transport in ("tls", "wss") for kind in figure.ours) and shutil.which("openssl") is None:
            raise BrokerError("openssl, which makes the certificate, is not installed")
        for number in range(self.runs):
            for kind in self._kinds(figure):
                with self._broker(kind, f"{figure.name}-{number}") as broker:
                    run = self.generator.run(figure.load, broker)
                outcome.add(kind, getattr(run, figure.measure), run)
                self.say(f"{figure.title}: {kind.name} {run.per_second:,.0f}/s ({_details(run)})")

    def _start(self, outcome: Outcome) -> None:
        for number in range(_READY_TIMES):
            for kind in outcome.figure.ours:
                with self._broker(kind, f"start-{number}") as broker:
                    outcome.add(kind, broker.ready_seconds)
                self.say(f"{outcome.figure.title}: {kind.name} {broker.ready_seconds:.3f} s")


def _details(run: Measured) -> str:
    lost = f", {run.lost:,} lost" if run.lost else ""
    latency = f"p50 {run.p50_us:,} µs, p99 {run.p99_us:,} µs"
    return f"broker {run.broker_cpu:.0%} of a core, load {run.load_cpu:.0%}, {latency}{lost}"
