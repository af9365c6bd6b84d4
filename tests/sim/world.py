"""One simulation: a machine with a broker on it, clients, an operator, and everything that can go wrong.

`run` is a function of its seed and of nothing else. For a while everything happens by chance; then faults end,
everybody comes back, and when all is quiet the `History` is checked.
"""

import logging
import os
import random
import re
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from heliograph.mqtt import packets as p
from heliograph.storage.columnar.compaction import CompactionOptions, Compactor
from heliograph.storage.columnar.database import LocalDatabase
from heliograph.storage.errors import StorageError
from heliograph.storage.interface import Batch
from sim.actors import FOR_EVER_S, Actor, Delayer, Publisher, Subscriber
from sim.broker import Broker
from sim.configs import random_config
from sim.disk import MARKER
from sim.history import RETAINED_QOS, History, Sent, Violation
from sim.machine import REFUSES_US, Machines
from sim.network import Connection, Network
from support.packets import decode_all

TOPICS: Final = ["a/0", "a/1", "b/0", "b/1", "d/x/0", "d/y/0", "d/z/1"]
FILTERS: Final = ["#", "a/#", "a/0", "+/1", "b/+", "d/+/0", "d/y/0", "r/#", "late"]

_ACTIVE_US: Final = (3_000_000, 8_000_000, 20_000_000)
_DOTS: Final = re.compile(r"\.{4,}")
_QUIET_US: Final = 6_000_000
_PATIENCE_US: Final = 400_000_000
_TRACED: Final = 600
_COMPACTION: Final = CompactionOptions(min_age_us=0, small_rows=8, min_blocks=2, max_blocks=8, max_rows=32)


# How many events a simulation remembers.
_remembered: Final[list[int | None]] = [_TRACED]


def remember_everything() -> None:
    """Have failures tell all events, not only the last."""
    _remembered[0] = None


class Failure(Exception):  # noqa: N818 - it is what simulations are for
    """A simulation found something.

    Args:
        seed: Which.
        reason: What.
        events: The last things that happened.
    """

    def __init__(self, seed: int, reason: str, events: list[str]) -> None:
        super().__init__(f"seed {seed}: {reason}")
        self.seed = seed
        self.reason = reason
        self.events = events

    def __reduce__(self) -> Any:
        return Failure, (self.seed, self.reason, self.events)


class World:
    """Everything of one simulation.

    Args:
        seed: What everything follows from.
        data_dir: A directory that nothing but simulations uses; what it holds does not matter.
    """

    def __init__(self, seed: int, data_dir: Path) -> None:
        self.chance = chance = random.Random(f"world {seed}")
        self.machines = Machines()
        self.agenda = self.machines.agenda
        machine = self.machines.add(seed)
        self.clock = machine.clock
        self.events: deque[str] = deque(maxlen=_remembered[0])
        network = Network(machine, self.agenda, random.Random(f"network {seed}"), self._on_written)
        self.clock_jumps = chance.random() < 0.3
        self.may_clean = chance.random() < 0.4
        self._may_drop = chance.random() < 0.2
        self._faulty = chance.random() < 0.4
        config = random_config(chance, data_dir)
        self.keeps_retained = config.retainer.backend.storage_type == "disc"
        self.history = History(self.clock_jumps, self.keeps_retained)
        self.abandoned: list[Connection] = []
        self.is_settling = False
        self._numbers = 0
        self._trap = 0  # how often clients hear something until the next crash; 0 for none
        self.has_short_queues = config.mqtt.max_mqueue_len != 1000
        self.broker = Broker(machine, network, config, self.trace)
        self.publishers = [
            Publisher(self, f"p{'abc'[number]}", TOPICS, chance.choice((p.V5, p.V5, p.V3_1_1)))
            for number in range(chance.choice((1, 2, 3)))
        ]
        self.subscribers = [
            Subscriber(self, f"s{number}", chance.sample(FILTERS, 3), chance.choice((0, 8, FOR_EVER_S, FOR_EVER_S)))
            for number in range(chance.choice((2, 3, 4)))
        ]
        self.delayer = Delayer(self, "later")
        self.publishers.append(self.delayer)
        self.actors: list[Actor] = [*self.publishers, *self.subscribers]

    def run(self) -> None:
        """The whole simulation.

        Raises:
            Violation: The broker broke a promise.
        """
        self.trace(f"sessions expire after {[(actor.clientid, actor.expiry_s) for actor in self.actors]}")
        self.broker.start()
        for actor in self.actors:
            self._plan(actor)
        self._plan_operator()
        self._run_until(self.chance.choice(_ACTIVE_US))
        self._settle()
        self.history.check()
        self._observe()
        self._check_node()

    def close(self) -> None:
        """Nothing of it runs any more."""
        self.broker.close()

    # --- what actors ask

    def refuses(self) -> bool:
        """Whether the disk is a reason to refuse something."""
        return self.clock.us - self.broker.machine.disk.fault_us < REFUSES_US

    def new_number(self) -> int:
        """A subscription identifier."""
        self._numbers += 1
        return self._numbers

    def trace(self, event: str) -> None:
        """Remember what happens."""
        self.events.append(f"{self.clock.us / 1e6:12.6f} {self.history.at:5d} {_DOTS.sub('...', event)}")

    def on_heard(self) -> None:
        """A client has heard from the broker: a good moment for a crash, since now it counts on what it heard."""
        if self._trap:
            self._trap -= 1
            if self._trap == 0:
                self._crash()

    def _crash(self) -> None:
        if self.broker.node is not None and not self.is_settling:
            self.broker.kill(self.chance, power=self.chance.random() < 0.7)

    # --- time

    def _run_until(self, us: int) -> None:
        while self.machines.turn(us):
            if self.broker.machine.loop.failures:
                self._check_node()

    def _plan(self, actor: Actor) -> None:
        def act() -> None:
            if not self.is_settling:
                actor.act()
                self._plan(actor)

        self.agenda.after(self.chance.randrange(600_000), act)

    def _plan_operator(self) -> None:
        def operate() -> None:
            if not self.is_settling:
                self._operate()
                self._plan_operator()

        self.agenda.after(self.chance.randrange(600_000), operate)

    def _check_node(self) -> None:
        for context in self.broker.machine.loop.failures:
            error = context.get("exception")
            if isinstance(error, Violation):
                raise error
            raise Violation(f"{context.get('message')}: {type(error).__name__}: {error}") from error

    # --- the operator, and what goes wrong

    def _operate(self) -> None:
        chance, broker, disk = self.chance, self.broker, self.broker.machine.disk
        what = chance.random()
        if broker.node is None:
            if what < 0.5:
                broker.start()
        elif what < 0.03:
            broker.kill(chance, power=chance.random() < 0.6)
        elif what < 0.06:
            if chance.random() < 0.5:
                self._trap = chance.randrange(1, 4)
            else:
                broker.machine.trap = self._crash
        elif what < 0.08 and not broker.is_stopping:
            broker.stop()
        elif what < 0.14:
            self._database_step(self._add_generation)
        elif what < 0.17 and self._may_drop:
            self._database_step(self._drop_generation)
        elif what < 0.35:
            self._database_step(self._compact)
        elif what < 0.40 and self._faulty:
            disk.is_full = not disk.is_full
            self.trace(f"the disk is {'' if disk.is_full else 'not '}full")
        elif what < 0.50 and self._faulty:
            disk.write_errors = chance.choice((0.0, 0.0, 0.1))
            disk.sync_errors = chance.choice((0.0, 0.0, 0.3))
            disk.stalls = chance.choice((0.0, 0.3))
        elif what < 0.55 and self.clock_jumps:
            jump = chance.choice((-3_600_000_000, -5_000_000, 5_000_000, 3_600_000_000))
            self.clock.wall_us += jump
            self.trace(f"the wall clock jumps by {jump} us")
        elif what < 0.60 and broker.network.connections:
            chance.choice(broker.network.connections).cut()

    def _database_step(self, step: Callable[[LocalDatabase], None]) -> None:
        database = self.broker.messages
        if database is not None:
            with suppress(StorageError), self.broker.machine.running():
                step(database)

    def _add_generation(self, database: LocalDatabase) -> None:
        database.add_generation()
        self.trace("a generation is added")

    def _drop_generation(self, database: LocalDatabase) -> None:
        numbers = sorted({one.number for one in database.list_generations()})
        if len(numbers) < 2:
            return
        for stream in database.get_streams("#"):
            if stream.id.generation != numbers[0]:
                continue
            iterator = database.make_iterator(stream.id, "#")
            while isinstance(batch := database.next(iterator, 1000), Batch) and batch.messages:
                for message in batch.messages:
                    self._forget(message.payload)
                iterator = batch.iterator
        self.trace(f"generation {numbers[0]} is dropped")
        database.drop_generation(numbers[0])

    def _forget(self, payload: bytes) -> None:
        found = MARKER.match(payload)
        if found and found.group() in self.history.sent:
            self.history.sent[found.group()].is_dropped = True

    def _compact(self, database: LocalDatabase) -> None:
        compactor = Compactor(database, _COMPACTION)
        for _ in range(self.chance.randrange(1, 6)):
            compactor.step(self.clock.us + self.clock.wall_us)

    # --- the order of commit and acknowledgement

    def _on_written(self, connection: Connection, data: bytes) -> None:
        """What the broker acknowledges must be on the disk."""
        for publisher in self.publishers:
            if publisher.connection is connection:
                for packet in decode_all(data, publisher.version):
                    if isinstance(packet, p.Ack) and packet.kind in (p.PUBACK, p.PUBREC) and packet.code < 0x80:
                        self._check_durable(publisher.open.get(packet.packet_id))

    def _check_durable(self, sent: Sent | None) -> None:
        if sent is None or not sent.payload:
            return
        if sent.delay_s is not None:
            if not any(self.broker.machine.disk.has(name, sent.marker) for name in ("delayed", "messages")):
                raise Violation(f"{sent.marker!r} is acknowledged, and a power cut would take it while it is held")
            return
        names = ["messages"]
        is_retained = sent.retain and self.keeps_retained and sent.qos in RETAINED_QOS
        if is_retained and sent is self.history.retained[sent.topic][-1]:
            names.append("retained")  # what a later one has replaced need not be there
        for name in names:
            if not self.broker.machine.disk.has(name, sent.marker):
                raise Violation(f"{sent.marker!r} is acknowledged, and a power cut would take it from {name!r}")

    # --- the end

    def _settle(self) -> None:
        self.trace("everything is made good")
        self.is_settling = True
        self.broker.machine.disk.heal()
        network = self.broker.network
        network.breaks = network.hiccups = 0.0
        network.latency_us = 1000
        end = self.clock.us + _PATIENCE_US
        while self.broker.node is None or self.broker.is_stopping:
            self._run_until(self.clock.us + 1_000_000)
            if self.broker.node is None:
                self.broker.start()
        quiet_us, before = 0, -1
        while quiet_us < _QUIET_US:
            for actor in self.actors:
                self._bring_to_rest(actor)
            self._run_until(self.clock.us + 500_000)
            is_quiet = self.history.at == before and all(actor.is_content() for actor in self.actors)
            before = self.history.at
            quiet_us = quiet_us + 500_000 if is_quiet else 0
            if self.clock.us > end:
                restless = [actor.clientid for actor in self.actors if not actor.is_content()]
                raise Violation(f"{', '.join(restless) or 'nobody'} does not come to rest")

    def _bring_to_rest(self, actor: Actor) -> None:
        connection = actor.connection
        if connection is not None and connection.is_broken:
            actor.on_lost(connection)
        if actor.connection is None or not actor.is_welcome:
            Actor.act(actor)
        elif isinstance(actor, Subscriber):
            actor.acknowledge(1000)

    def _observe(self) -> None:
        """Somebody new subscribes to everything that is retained."""
        observer = Subscriber(self, "observer", [], 0)
        observer.come()
        while not observer.is_content():
            self._run_until(self.clock.us + 500_000)
        observer.ask("r/#")
        self._run_until(self.clock.us + 2_000_000)
        is_whole = self.keeps_retained or sum(self.broker.counts[one] for one in ("kills", "power cuts", "stops")) == 0
        self.history.check_observed(observer.retained, is_whole)

    def summary(self) -> dict[str, int]:
        """What happened, in numbers."""
        return {
            "messages": len(self.history.sent),
            "owed": sum(1 for _ in self.history.owed()),
            "deliveries": sum(len(record.deliveries) for record in self.history.records),
            **self.broker.counts,
            "broken connections": self.broker.network.breaks_count,
            "disk faults": self.broker.machine.disk.faults,
            "simulated seconds": self.clock.us // 1_000_000,
        }

    def __repr__(self) -> str:
        return f"World({', '.join(f'{number} {name}' for name, number in self.summary().items())})"


class _Log(logging.Handler):
    """What the broker logs belongs to the trace; what it did not expect is a fault of it."""

    def __init__(self, world: World) -> None:
        super().__init__(logging.WARNING)
        self._world = world
        self.fault: BaseException | None = None

    def emit(self, record: logging.LogRecord) -> None:
        self._world.trace(f"log: {record.getMessage()[:300]}")
        if record.exc_info and record.exc_info[1] is not None:
            self.fault = record.exc_info[1]


def run(seed: int, data_dir: Path) -> World:
    """Run the simulation of a seed.

    Raises:
        Failure: It found something.
    """
    world = World(seed, data_dir)
    logger, handler = logging.getLogger("heliograph"), _Log(world)
    before = logger.handlers, logger.propagate, logger.level
    logger.handlers, logger.propagate = [handler], False
    logger.setLevel(logging.WARNING)
    try:
        with world.machines.installed():
            try:
                world.run()
            finally:
                world.close()
            if handler.fault is not None:
                raise handler.fault
    except Exception as error:
        reason = str(error) if isinstance(error, Violation) else f"{type(error).__name__}: {error}"
        raise Failure(seed, reason, list(world.events)) from error
    finally:
        logger.handlers, logger.propagate = before[0], before[1]
        logger.setLevel(before[2])
    return world


def scratch_dir() -> Path:
    """A directory for lock files, in memory where there is such a place."""
    root = Path("/dev/shm") if os.access("/dev/shm", os.W_OK) else Path("/tmp")
    return root / f"heliograph-sim-{os.getpid()}"
