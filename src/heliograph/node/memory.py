"""The memory contract of a node: what the process has, what holds it, and what is done as it fills.

`memory_policy` decides, this performs, once in a tick; docs/memory.md says what an operator and a client see of it.
Sessions are counted a part in each tick, so that a million of them delay nothing.
"""

import heapq
import logging
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from itertools import islice
from typing import Final, Protocol

from heliograph.broker.faults import CONNECTIONS
from heliograph.broker.pubsub import Broker
from heliograph.channel.channel_table import ChannelTable
from heliograph.channel.refusals import RefusedClients
from heliograph.config.settings import Config
from heliograph.mqtt import reason_codes as rc
from heliograph.node import memory_policy as policy
from heliograph.node.delayed import DelayedPart
from heliograph.node.kernel import KernelPart
from heliograph.node.memory_limit import Allocator, limit_bytes, resident
from heliograph.node.metrics.process import MEMORY
from heliograph.observe.alarms import Alarms
from heliograph.observe.metric import Sample, by_label, plain
from heliograph.parts import Change, Part
from heliograph.session.footprint import held_bytes
from heliograph.session.session import Session
from heliograph.session.table import SessionTable

_log = logging.getLogger(__name__)
_SESSIONS_PER_TICK: Final = 5000
_TICKS_PER_TRIM: Final = 4
_TELL_US: Final = 60_000_000
_NAMED_CLIENTS: Final = 3
_MIB: Final = 1 << 20


# Bytes of one, measured; tests/security/test_costs.py holds them to what docs/security.md says.
SESSION_BYTES: Final = 1100
ASLEEP_BYTES: Final = 340
CONNECTION_BYTES: Final = 3300
ROUTE_BYTES: Final = 320
GROUP_BYTES: Final = 450
DURABLE_GROUP_BYTES: Final = 300
AWAKE_GROUP_BYTES: Final = 4700
SHARE_BYTES: Final = 800
PROTOCOL_MESSAGE_BYTES: Final = 600
RETAINED_BYTES: Final = 350
STREAM_BYTES: Final = 1000
_GROUPS: Final = (
    ("count", GROUP_BYTES),
    ("durable", DURABLE_GROUP_BYTES),
    ("awake", AWAKE_GROUP_BYTES),
    ("assigned_shares", SHARE_BYTES),
    ("protocol_messages", PROTOCOL_MESSAGE_BYTES),
    ("waiting_bytes", 1),
)
_RETAINED_ON_DISK: Final = "storage.open", ("retained",)
_WHAT_HAPPENS: Final = (
    "",
    "caches are kept small",
    "QoS 0 messages are not queued",
    "sessions that outlive their connections, and what is added by the clients that hold most, are refused",
    "the connections that buffer most are closed",
    "new connections are refused",
)


class HeldMessages(Protocol):
    @property
    def held_bytes(self) -> Mapping[str, int]: ...


class MemoryContract:
    """Keeps a node within its memory; owned by the node, called at every tick.

    Args:
        limit: Bytes that the process may have; with None it only counts.
        others: The samples of all other parts of the node, which say what they hold; None between pieces of work.
    """

    def __init__(
        self,
        limit: int | None,
        broker: Broker,
        table: SessionTable,
        channels: ChannelTable,
        refused: RefusedClients,
        delayed: HeldMessages,
        alarms: Alarms,
        others: Callable[[], Iterable[Sample | None]],
    ) -> None:
        self.stage = 0
        self._limit = limit
        self._broker = broker
        self._table = table
        self._channels = channels
        self._refused = refused
        self._delayed = delayed
        self._alarms = alarms
        self._others = others
        self._allocator = Allocator()
        begin, free = self._allocator.measure()
        self._used = begin.all_bytes
        # What interpreter and libraries hold before the first client, beside their files.
        self._begin_bytes = begin.own_bytes - free
        self._census = Census(table)
        self._closed_count = 0
        self._shrunk_count = 0
        self._ticks = 0  # while memory is short
        self._refused_logged = 0  # how much of `Pressure.growth_refused` was logged,
        self._tell_refused_at_us = 0  # and when more may be logged

    def limit_to(self, limit: int | None) -> None:
        self._limit = limit
        if limit is None and self.stage:
            self._enter(0)
        self.tick()

    def tick(self) -> None:
        self._used = resident().all_bytes
        self._census.go_on(_SESSIONS_PER_TICK)
        if self._limit is None:
            return
        stage = policy.stage_of(self._used, self._limit, self.stage)
        if stage != self.stage:
            self._enter(stage)
        if stage >= policy.CACHES:
            self._give_back()
        if stage >= policy.GROWTH:
            self._broker.pressure.heavy = policy.heavy(self._holdings())
        self._tell_refused()
        if stage >= policy.CONNECTIONS:
            self._close_connections(self._limit)

    def samples(self) -> list[Sample]:
        return [sample for sample in self.sample_pieces() if sample is not None]

    def sample_pieces(self) -> Iterator[Sample | None]:
        self._census.renew(_SESSIONS_PER_TICK)
        for account in self.accounting():
            if account is None:
                yield None
            else:
                yield from self._samples(*account)

    def _samples(self, used: int, held: Mapping[str, int]) -> list[Sample]:
        pressure = self._broker.pressure
        numbers = {
            "memory.used": used,
            "memory.limit": self._limit or 0,
            "memory.stage": self.stage,
            "memory.caches_shrunk": self._shrunk_count,
            "memory.qos0_shed": int(pressure.qos0_shed),
            "memory.growth_refused": int(pressure.growth_refused),
            "memory.connections_closed": self._closed_count,
            "memory.connections_refused": int(pressure.connections_refused),
        }
        other = max(0, used - sum(held.values()))
        return [*plain(numbers), *by_label("memory.held", {**held, "other": other})]

    def _account(self) -> tuple[int, dict[str, int]]:
        return next(account for account in self.accounting() if account is not None)

    def accounting(self) -> Iterator[tuple[int, dict[str, int]] | None]:
        """Count what holds memory now: counts times what one costs, and bytes that are held.

        Yields:
            None after each piece of work, then what the process has, and how much of it each owner.
        """
        numbers, census, in_memory = Counter[str](), self._census.done, True
        for sample in self._others():
            if sample is None:
                yield None
                continue
            numbers[sample.name] += int(sample.value)
            in_memory = in_memory and (sample.name, sample.labels) != _RETAINED_ON_DISK
        yield None
        shared: dict[int, int] = {}
        connections = aliases = 0
        for channel in self._channels.all():
            held, of_aliases = channel.held_bytes(shared)
            connections += CONNECTION_BYTES + held
            aliases += of_aliases
            yield None
        storage = sum(value for name, value in numbers.items() if name.endswith((".memory_bytes", ".buffered_bytes")))
        streams = sum(value for name, value in numbers.items() if name.endswith(".streams"))
        retained = numbers["retained.bytes"] + numbers["retained.count"] * RETAINED_BYTES
        now, free = self._allocator.measure()
        yield (
            now.all_bytes,
            {
                "sessions": census.sessions + self._table.asleep_count * ASLEEP_BYTES,
                "subscriptions": census.subscriptions,
                "queues": census.queues,
                "qos2": census.qos2,
                "retained": retained if in_memory else 0,
                "delayed": numbers["delayed.bytes"],
                "shared_groups": sum(numbers[f"shared_groups.{name}"] * size for name, size in _GROUPS),
                "caches": numbers["routes.cached"] * ROUTE_BYTES,
                "storage": storage + streams * STREAM_BYTES,
                "aliases": aliases,
                "message_ways": numbers["message_ways.held_bytes"],
                "refusals": self._refused.size_bytes,
                "connections": connections + sum(shared.values()),
                "interpreter": self._begin_bytes + now.all_bytes - now.own_bytes,
                "free": free,
            },
        )

    @property
    def used(self) -> int:
        return self._used

    @property
    def limit(self) -> int | None:
        return self._limit

    # --- inside

    def _enter(self, stage: int) -> None:
        before, self.stage = self.stage, stage
        pressure = self._broker.pressure
        pressure.is_on = stage >= policy.CACHES
        pressure.shed_for_memory(stage >= policy.QOS0)
        pressure.refuses_growth = stage >= policy.GROWTH
        pressure.refuses_connections = stage >= policy.CONNECTS
        if stage == 0:
            pressure.forget()
        if stage < policy.GROWTH:
            pressure.heavy = {}
        self._broker.router.keep_small(pressure.is_on)
        if stage > before:
            self._shrunk_count += 1
            if before < policy.QOS0 <= stage:
                self._shed_queues()
        self._tell(before)

    def _tell(self, before: int) -> None:
        stage, limit = self.stage, self._limit or 0
        percent = 100 * self._used // limit if limit else 0
        state = f"{self._used // _MIB} MiB are used, {percent} % of node.memory_limit ({limit // _MIB} MiB)"
        for one in range(before, stage, -1):
            self._alarms.deactivate(policy.NAMES[one])
        if stage < before:
            if stage == 0:
                _log.warning("memory is no longer short: %s", state)
            return
        _, held = self._account()
        most = ", ".join(f"{name} {held[name] // _MIB} MiB" for name in sorted(held, key=lambda one: -held[one])[:3])
        for one in range(before + 1, stage + 1):
            details = {"used": self._used, "limit": limit, **held}
            self._alarms.activate(policy.NAMES[one], f"{state}: {_WHAT_HAPPENS[one]}", details)
        advice = "Raise node.memory_limit, or lower the limits in docs/security.md"
        _log.warning("memory is short: %s; most is held by %s. From now on %s. %s",
                     state, most, _WHAT_HAPPENS[stage], advice)  # fmt: skip

    def _tell_refused(self) -> None:
        """MQTT 3 has no word for a refusal, so nothing else reports these messages."""
        pressure, now = self._broker.pressure, int(self._broker.uptime_us)
        count = int(pressure.growth_refused) - self._refused_logged
        if count == 0 or now < self._tell_refused_at_us:
            return
        self._refused_logged += count
        self._tell_refused_at_us = now + _TELL_US
        most = heapq.nlargest(_NAMED_CLIENTS, pressure.heavy.items(), key=lambda holding: holding[1])
        _log.warning(
            "memory is short: %d sessions, subscriptions, delayed and retained messages were refused; those of MQTT 3 "
            "get acknowledgements all the same. Most is held by the clients %s",
            count,
            ", ".join(f"{clientid[:60]!r} ({size // _MIB} MiB)" for clientid, size in most) or "(none stands out)",
        )

    def _holdings(self) -> dict[str, int]:
        holdings = dict(self._census.holdings)
        for others in (self._delayed.held_bytes, self._broker.pressure.noted):
            for clientid, size in others.items():
                holdings[clientid] = holdings.get(clientid, 0) + size
        return holdings

    def _shed_queues(self) -> None:
        for session in self._table.all():
            session.sender.shed_qos0()

    def _give_back(self) -> None:
        self._ticks += 1
        if self._ticks % _TICKS_PER_TRIM == 1:
            self._allocator.trim()
            self._used = resident().all_bytes

    def _close_connections(self, limit: int) -> None:
        buffers = {number: channel.buffered_bytes() for number, channel in self._channels.items()}
        for number in policy.to_close(buffers, self._used, limit):
            channel = self._channels.get(number)
            if channel is not None:
                why = "memory is short, and much waits for it"
                self._broker.faults.run(CONNECTIONS, partial(channel.cut, rc.QUOTA_EXCEEDED, why))
                self._closed_count += 1

    def __repr__(self) -> str:
        return f"MemoryContract({self._used} of {self._limit} bytes, stage {self.stage})"


class Sums:
    def __init__(self) -> None:
        self.sessions = 0
        self.subscriptions = 0
        self.queues = 0
        self.qos2 = 0


class Census:
    """Counts sessions bit by bit; owned by the contract.

    Attributes:
        done: The sums of the last count that came to its end.
        holdings: The clients of it that hold more than a session does by itself.
    """

    def __init__(self, table: SessionTable) -> None:
        self.done = Sums()
        self.holdings: dict[str, int] = {}
        self._table = table
        self._left: Iterator[Session] = iter(())
        self._sums = Sums()
        self._found: dict[str, int] = {}

    def renew(self, count: int) -> None:
        """Count all of them now if there are no more than `count`; else the last count has to do."""
        if len(self._table) - self._table.asleep_count <= count:
            self._sums, self._found, self._left = Sums(), {}, iter(self._table.all())
            self.go_on(count + 1)

    def go_on(self, count: int) -> None:
        """Count so many more; at the end start again with the next call."""
        looked = 0
        sums = self._sums
        for session in islice(self._left, count):
            looked += 1
            subscriptions, queues, qos2 = held_bytes(session)
            sums.sessions += SESSION_BYTES + len(session.clientid)
            sums.subscriptions += subscriptions
            sums.queues += queues
            sums.qos2 += qos2
            if subscriptions + queues + qos2 > SESSION_BYTES:
                self._found[session.clientid] = subscriptions + queues + qos2
        if looked < count:
            self.done, self.holdings = sums, self._found
            self._sums, self._found = Sums(), {}
            self._left = iter(self._table.all())


class MemoryPart(Part):
    """Keeps the node within its memory; `others` gives the samples of all other parts, which say what they hold."""

    name = "memory"
    metrics = MEMORY
    needs = ("kernel", "delayed")
    roots = ("node.memory_limit",)

    contract: MemoryContract

    def __init__(
        self, config: Config, kernel: KernelPart, delayed: DelayedPart, others: Callable[[], Iterable[Sample | None]]
    ) -> None:
        self._limit = config.node.memory_limit
        self._kernel = kernel
        self._delayed = delayed
        self._others = others

    async def start(self) -> None:
        context = self._kernel.context
        self.contract = MemoryContract(
            limit_bytes(self._limit),
            context.broker,
            context.sessions,
            context.channels,
            context.refused,
            self._delayed.messages,
            self._kernel.alarms,
            self._others,
        )

    async def check(self, new: Config) -> Change | None:
        setting = new.node.memory_limit
        if setting == self._limit:
            return None
        limit = limit_bytes(setting)

        def use() -> None:
            self._limit = setting
            self.contract.limit_to(limit)

        return Change(use)

    def tick(self, uptime_us: int) -> None:
        self.contract.tick()

    def samples(self) -> list[Sample]:
        return self.contract.samples()

    def sample_pieces(self) -> Iterator[Sample | None]:
        """Piece by piece, since each connection is looked at."""
        return self.contract.sample_pieces()
