"""The canonical figures: what is measured, on which brokers, and what it should be. How to measure the special ones."""

import re
import signal
import statistics
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from benchmarks.brokers import HELIOGRAPH, MOSQUITTO, PURE, STORING, Broker, BrokerError, Kind, pinned
from benchmarks.load import Generator, Load, LoadError, Measured

_READY_TIMES: Final = 5


@dataclass(frozen=True)
class Figure:
    """One line of the table.

    Args:
        name: For `--only`.
        title: For people.
        target: What the figure, or its ratio to the peer, should at least (or `at_most`) be; None: it informs.
        load: What to load the brokers with, if that is how it is measured.
        ours: The ways to run our broker; the first is the one that has a target.
        relative: Whether the target is a ratio to mosquitto.
        at_most: Whether less is better.
        unit: Of the figure.
    """

    name: str
    title: str
    target: float | None = None
    load: Load | None = None
    ours: tuple[Kind, ...] = (HELIOGRAPH, STORING)
    relative: bool = True
    at_most: bool = False
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
        ours, peer = self.median(self.figure.ours[0]), self.median(MOSQUITTO)
        return ours / peer if ours is not None and peer else None

    def per_cpu_second(self, kind: Kind) -> float | None:
        """Median of the messages per second of the broker's CPU time."""
        runs = self.runs.get(kind.name)
        return statistics.median(run.per_cpu_second for run in runs) if runs else None

    @property
    def ratio_per_cpu(self) -> float | None:
        """As `ratio`, per second of CPU time of each broker."""
        ours, peer = self.per_cpu_second(self.figure.ours[0]), self.per_cpu_second(MOSQUITTO)
        return ours / peer if ours is not None and peer else None

    @property
    def met(self) -> bool | None:
        """Whether the target is met; None where there is none, or nothing to compare."""
        figure = self.figure
        if self.failure:
            return False
        found = self.ratio if figure.relative else self.median(figure.ours[0])
        if figure.target is None or found is None:
            return None
        return found <= figure.target if figure.at_most else found >= figure.target


FIGURES: Final = (
    Figure("qos0", "one to one, QoS 0", 8, Load("pair", 1, 1)),
    Figure("qos1", "one to one, QoS 1, window 256", 8, Load("pair", 1, 1, qos=1, window=256)),
    Figure("qos2", "one to one, QoS 2, window 256", None, Load("pair", 1, 1, qos=2, window=256)),
    Figure("fan-out", "fan-out, 1 to 50, QoS 0", 15, Load("fan-out", 1, 50)),
    Figure("fan-in", "fan-in, 50 to 1, QoS 0", None, Load("fan-in", 50, 1)),
    Figure("pairs", "500 pairs, QoS 1, window 1", 0.9, Load("pair", 500, 500, qos=1, window=1)),
    Figure("pure", "one to one, QoS 0, pure Python", 2, Load("pair", 1, 1), ours=(PURE,)),
    Figure(
        "ingest",
        "stored with fsync: 20 publishers, QoS 1",
        150_000,
        Load("pub", 20, 0, qos=1, window=1000),
        ours=(STORING,),
        relative=False,
    ),
    Figure("idle", "memory per idle connection", 4096, relative=False, at_most=True, unit=" B"),
    Figure("start", "start to ready", 1.0, ours=(STORING,), relative=False, at_most=True, unit=" s"),
)


@dataclass(frozen=True)
class Bench:
    """Measures figures, one broker after the other and over again, so that a busy moment of the machine hits all.

    Args:
        folder: Where brokers keep their files.
        generator: What makes the load.
        runs: How often each broker is measured.
        connections: How many idle ones.
        broker_core: The core that brokers run on.
        with_peer: Whether mosquitto is there to be measured too.
        say: Where progress goes.
    """

    folder: Path
    generator: Generator
    runs: int
    connections: int
    broker_core: int | None
    with_peer: bool
    say: Callable[[str], None]

    def measure(self, figure: Figure) -> Outcome:
        """All runs of one figure; a failure ends the figure and is part of its outcome."""
        outcome = Outcome(figure)
        special = {"start": self._start, "idle": self._idle}
        try:
            special.get(figure.name, self._load)(outcome)
        except (BrokerError, LoadError) as error:
            outcome.failure = str(error)
            self.say(f"{figure.title}: FAILED: {error}")
        return outcome

    def _kinds(self, figure: Figure) -> Sequence[Kind]:
        return (*figure.ours, *([MOSQUITTO] if self.with_peer and figure.relative else []))

    def _broker(self, kind: Kind, name: str) -> Broker:
        return Broker(kind, self.folder / f"{name}-{kind.name.replace(' ', '-').replace(',', '')}", self.broker_core)

    def _load(self, outcome: Outcome) -> None:
        figure = outcome.figure
        assert figure.load is not None
        for number in range(self.runs):
            for kind in self._kinds(figure):
                with self._broker(kind, f"{figure.name}-{number}") as broker:
                    run = self.generator.run(figure.load, broker)
                outcome.add(kind, run.per_second, run)
                self.say(f"{figure.title}: {kind.name} {run.per_second:,.0f}/s ({_details(run)})")

    def _start(self, outcome: Outcome) -> None:
        for number in range(_READY_TIMES):
            for kind in outcome.figure.ours:
                with self._broker(kind, f"start-{number}") as broker:
                    outcome.add(kind, broker.ready_seconds)
                self.say(f"{outcome.figure.title}: {kind.name} {broker.ready_seconds:.3f} s")

    def _idle(self, outcome: Outcome) -> None:
        for kind in (HELIOGRAPH, *([MOSQUITTO] if self.with_peer else [])):
            with self._broker(kind, "idle") as broker:
                self._hold(broker, 50)  # what the first connections allocate once is not the price of one
                before = broker.memory_bytes()
                grown = self._hold(broker, self.connections) - before
            outcome.add(kind, grown / self.connections)
            self.say(f"{outcome.figure.title}: {kind.name} {grown / self.connections:,.0f} B")

    def _hold(self, broker: Broker, connections: int) -> int:
        """Open idle connections; the broker's memory while they are there."""
        options = ["--clients", connections, "--port", broker.port, "--keepalive", 0, "--mqtt", "3.1.1"]
        command = [sys.executable, "-m", "heliograph.cli.main", "bench", "connect", *map(str, options)]
        with subprocess.Popen(
            pinned(command, self.generator.core), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        ) as load:
            assert load.stderr is not None
            line = load.stderr.readline()  # the first progress line comes when all are connected
            found = re.search(r"connections (\d+)", line)
            memory = broker.memory_bytes()
            load.send_signal(signal.SIGINT)
            output, _ = load.communicate()
        if found is None or int(found[1]) != connections:
            raise LoadError(f"heliograph bench opened {found[1] if found else 0} of {connections}:\n{line}{output}")
        return memory


def _details(run: Measured) -> str:
    lost = f", {run.lost:,} lost" if run.lost else ""
    return f"broker {run.broker_cpu:.0%} of a core, load {run.load_cpu:.0%}, p99 {run.p99_us / 1000:.1f} ms{lost}"
