"""Authorization as a part of a node: its sources, whose modules are loaded when needed, their settings and counts."""

import asyncio
import importlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Any, ClassVar, Final

from heliograph.access.authorization.chain import SourceChain
from heliograph.access.authorization.entries import ChainEntry
from heliograph.access.authorization.interface import AskedSource, AuthorizationSource, RulesSource, SourceSurroundings
from heliograph.access.authorization.waiting import WaitingChain
from heliograph.access.backends.node_cache import NodeCache, node_cache_metrics
from heliograph.broker.actions import ALLOWED_BY_DEFAULT, DENIED_BY_DEFAULT, Action, Decision
from heliograph.broker.client import ClientInfo
from heliograph.broker.pubsub import Broker
from heliograph.config.authorization import Authorization, SourceConfig, source_type
from heliograph.config.listeners import enabled
from heliograph.config.settings import Config
from heliograph.observe.metric import Metric, Sample, counter, histogram, labelled
from heliograph.observe.rate import CountRates
from heliograph.parts import Change, Part

_SOURCE: Final = ("source",)
_COUNTS: Final = (
    ("total", "Times that a source was asked what a client may do, in memory or elsewhere."),
    ("allow", "Times that it allowed it."),
    ("deny", "Times that it denied it."),
    ("nomatch", "Times that it had no rule for it."),
    ("ignore", "Times that it did not want to decide."),
    ("error", "Times that it could not say."),
)


@dataclass(frozen=True, slots=True)
class _Running:
    settings: SourceConfig
    source: AuthorizationSource


@dataclass(frozen=True, slots=True)
class SourceState:
    """A source of `authorization.sources`, as it is now.

    Attributes:
        state: `works`, `no rules`, `disabled`, or why it does not work.
        mean_s: How long a question to it took on average; None where none was needed.
        rates: How fast it is asked: `rate`, `rate.max`, `rate.last5m`, per second.
    """

    type: str
    is_enabled: bool
    state: str
    counts: Mapping[str, int]
    mean_s: float | None
    rates: Mapping[str, float]


class AuthorizationPart(Part):
    """What clients may do; owned by the node.

    Args:
        surroundings: Gives what sources are made with; called from the start on.
    """

    name = "authorization"
    needs = ("kernel", "backends", "built_in_rules")
    roots = (
        "authorization.no_match",
        "authorization.check_retained_source",
        "authorization.check_deliveries",
        "authorization.sources",
        "authorization.node_cache",
        "authorization.cache.ttl",
    )
    metrics: ClassVar[Sequence[Metric]] = (
        *(counter(f"authorization.sources.{name}", meaning, labels=_SOURCE) for name, meaning in _COUNTS),
        histogram("authorization.sources.time", "Questions to a source, by the time they took.", "seconds", _SOURCE),
        *node_cache_metrics("authorization"),
    )

    def __init__(
        self,
        config: Config,
        broker: Broker,
        surroundings: Callable[[NodeCache], SourceSurroundings],
        clock: Callable[[], int],
    ) -> None:
        self.chain = SourceChain(broker)
        self.waiting = WaitingChain(self.chain, broker.rights.default, clock)
        self.node_cache = NodeCache(config.authorization.node_cache, clock)
        self._config = config
        self._broker = broker
        self._surroundings = surroundings
        self._running: dict[str, _Running] = {}  # by type, in their order
        self._rates = CountRates()
        self._entries: dict[str, ChainEntry] = {}  # of every type that there was, with what it counted
        self._authority: SourceChain | None = None  # as the broker has it
        self._stopping: set[asyncio.Task[None]] = set()

    @property
    def settings(self) -> Authorization:
        return self._config.authorization

    @property
    def now_s(self) -> float:
        return self._broker.now_us / 1_000_000

    def default(self, client: ClientInfo, action: Action, topic: str) -> Decision:
        """The decision where no source decides."""
        return self._broker.rights.default(client, action, topic)

    @property
    def sources(self) -> Mapping[str, AuthorizationSource]:
        """Those that are asked, by their types, in their order."""
        return {name: one.source for name, one in self._running.items()}

    async def start(self) -> None:
        """Ask sources from the first client on; raises where settings of one cannot be used."""
        self._use(self._config, await self._made(self._config))

    async def stop(self) -> None:
        self._broker.rights.set_authority(None)
        await self.waiting.stop()
        await asyncio.gather(*self._stopping, *(one.source.stop() for one in self._running.values()))

    async def check(self, new: Config) -> Change:
        """Sources whose settings and files are the same go on."""
        running = await self._made(new)
        return Change(lambda: self._use(new, running), lambda: self._end(running, self._running))

    def tick(self, uptime_us: int) -> None:
        self.node_cache.expire()
        self._rates.tick(uptime_us, ((name, entry.total) for name, entry in self._entries.items()))

    def health(self) -> str:
        found = ((name, one.source.health()) for name, one in self._running.items())
        return "; ".join(f"{name}: {why}" for name, why in found if why)

    def samples(self) -> Iterator[Sample]:
        for name, entry in self._entries.items():
            yield from labelled("authorization.sources", entry.statistics(), name)
        for name, times in self.waiting.times.items():
            yield from times.samples("authorization.sources.time", name)
        yield from labelled("authorization.node_cache", self.node_cache.statistics())

    def status(self) -> Iterator[SourceState]:
        for settings in self.settings.sources:
            kind = source_type(settings)
            running, entry = self._running.get(kind), self._entries.get(kind)
            state = "disabled"
            if running is not None:
                state = running.source.health() or ("works" if running.source.has_rules else "no rules")
            counts = ChainEntry(kind).statistics() if entry is None else entry.statistics()
            rates = self._rates.numbers(kind)
            yield SourceState(kind, settings.enable, state, counts, self.waiting.mean_s(kind), rates)

    def forget_rules(self) -> None:
        """Fetch all rules again when they are needed next, and rely on no decision of before."""
        for entry in self.chain.entries:
            entry.version += 1
        self._broker.rights.drop_cached()

    # --- inside

    async def _made(self, config: Config) -> dict[str, _Running]:
        """The sources of a configuration: those that run already if they are as it says, others made and started."""
        found: dict[str, _Running] = {}
        async with AsyncExitStack() as made:
            for settings in config.authorization.sources:
                if not settings.enable:
                    continue
                own = self._running.get(source_type(settings))
                if own is None or own.settings != settings or not own.source.is_current():
                    own = _Running(settings, make_source(settings, self._surroundings(self.node_cache)))
                    made.push_async_callback(own.source.stop)
                    await own.source.start()
                found[source_type(settings)] = own
            made.pop_all()
        return found

    def _use(self, config: Config, running: dict[str, _Running]) -> None:
        before, self._running, self._config = self._running, running, config
        settings = config.authorization
        self.waiting.ttl_us = int(settings.cache.ttl * 1_000_000)
        self.node_cache.use(settings.node_cache)
        self._broker.checks_retained_source = settings.check_retained_source
        rights = self._broker.rights
        rights.check_deliveries(settings.check_deliveries)
        rights.closes_client_events = True
        default = DENIED_BY_DEFAULT if settings.no_match == "deny" else ALLOWED_BY_DEFAULT
        if default is not rights.no_match:
            rights.set_no_match(default)
        sources = [one.source for one in running.values() if one.source.has_rules]
        authority = self.chain if sources or _may_grant_rules(config) else None
        if authority is not self._authority or [one.source for one in self.chain.entries] != sources:
            self.chain.use([self._entry(one) for one in sources])
            self._authority = authority
            rights.set_authority(authority)
        self._end(before, running)

    def _entry(self, source: AuthorizationSource) -> ChainEntry:
        entry = self._entries.get(source.type)
        if entry is None:
            entry = self._entries[source.type] = ChainEntry(source.type)
        if entry.source is not source:
            announces_changes = isinstance(source, RulesSource) and source.announces_changes
            entry.replace(source, is_asked=isinstance(source, AskedSource), announces_changes=announces_changes)
        if isinstance(source, RulesSource):
            source.on_change = lambda: self._changed(entry)
        return entry

    def _changed(self, entry: ChainEntry) -> None:
        entry.version += 1
        self._broker.rights.drop_cached()

    def _end(self, before: Mapping[str, _Running], now: Mapping[str, _Running]) -> None:
        for name, one in before.items():
            kept = now.get(name)
            if kept is None or kept.source is not one.source:
                task = asyncio.get_running_loop().create_task(one.source.stop(), name=f"stop source {name}")
                self._stopping.add(task)
                task.add_done_callback(self._stopping.discard)


def _may_grant_rules(config: Config) -> bool:
    return bool(config.authentication) or any(one.authentication for _, _, one in enabled(config.listeners))


def make_source(settings: SourceConfig, surroundings: SourceSurroundings) -> AuthorizationSource:
    """A source that is not started, made by `make` of its module, which raises where settings cannot be used."""
    module: Any = importlib.import_module(f"{__package__}.{settings.maker}")
    made = module.make(settings, surroundings)
    assert isinstance(made, AuthorizationSource)
    return made
