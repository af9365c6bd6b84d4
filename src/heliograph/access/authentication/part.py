"""Authentication as a part of a node: its chains, as the configuration has them, while they change."""

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from heliograph.access.authentication.chain import BOUNDARY, METRICS, AuthenticationChain, ChainMember, Failures
from heliograph.access.authentication.interface import Surroundings
from heliograph.access.authentication.members import GLOBAL, Chains, MemberMaker, chain_settings, load_makers
from heliograph.access.backends.node_cache import NodeCache, node_cache_metrics
from heliograph.broker.authentication import AuthAttempt, AuthOutcome
from heliograph.broker.client import ClientInfo
from heliograph.broker.hook_order import ACCESS
from heliograph.broker.hooks import CLIENT_AUTHENTICATE, OK, STOP
from heliograph.broker.pending import Pending
from heliograph.broker.pubsub import Broker
from heliograph.config.authentication import AuthenticatorConfig
from heliograph.config.settings import Config
from heliograph.observe.metric import Sample, labelled
from heliograph.observe.rate import CountRates
from heliograph.parts import Change, Hook, HookedPart, every


@dataclass(frozen=True, slots=True)
class _Standing:
    members: Chains
    asked: Mapping[str, AuthenticationChain]

    def all(self) -> list[ChainMember]:
        return [member for members in self.members.values() for member in members]


class AuthenticationPart(HookedPart):
    """Asks authenticators about clients; owned by the node. Where none is enabled it costs nothing.

    Args:
        surroundings: Makes those of a chain, by its name and the answers that are kept.
    """

    name = "authentication"
    needs = ("kernel", "backends", "users")
    roots = ("authentication", "authentication_settings", "listeners.*.*.authentication")
    metrics = (*METRICS, *node_cache_metrics("authentication"))

    def __init__(
        self,
        config: Config,
        broker: Broker,
        surroundings: Callable[[str, NodeCache], Surroundings],
        clock: Callable[[], int],
    ) -> None:
        super().__init__(broker.hooks)
        self._config = config
        self._faults = broker.faults
        self._clock = clock
        self._node_cache = NodeCache(config.authentication_settings.node_cache, clock)
        self._maker = MemberMaker(lambda chain: surroundings(chain, self._node_cache))
        self._standing = _Standing({}, {})
        self._loaded: Sequence[AuthenticatorConfig] = ()  # those whose modules are known to be loaded
        self._rates = CountRates()
        self._waiting: set[asyncio.Task[None]] = set()  # of clients
        self._beginning: dict[int, asyncio.Task[None]] = {}  # by `id` of the member
        self._ending: set[asyncio.Task[None]] = set()  # authenticators that are not asked any more
        self.on_answer: Callable[[ClientInfo, str, str, int], object] | None = None

    async def start(self) -> None:
        """`ExceptionGroup` where some cannot be made of their settings."""
        members, fresh = self._maker.make(self._config, {})
        self._standing = self._standing_of(self._config, members)
        for member in fresh:
            await member.authenticator.start()
        for member in fresh:
            await member.authenticator.begin()
        self.hook_in()

    async def stop(self) -> None:
        await super().stop()
        for task in self._waiting:
            task.cancel()
        if self._waiting or self._ending:
            await asyncio.wait(self._waiting | self._ending)
        await every(self._standing.all(), self._end_member)

    async def check(self, new: Config) -> Change:
        """Make and start what is new; what stays goes on with its connections and counts. Raises as `start`."""
        wanted = [settings for _, _, listed in chain_settings(new) for settings in listed if settings.enable]
        if wanted != self._loaded:
            await asyncio.to_thread(load_makers, wanted)  # a library may take a tenth of a second
            self._loaded = wanted
        members, fresh = self._maker.make(new, self._standing.members)
        started: list[ChainMember] = []
        try:
            for member in fresh:
                started.append(member)
                await member.authenticator.start()
        except BaseException:
            self._retire(started)
            raise
        before = self._config
        return Change(
            lambda: self._use(new, members, fresh), lambda: self._retire(fresh), lambda: self._forget_since(before)
        )

    def tick(self, uptime_us: int) -> None:
        self._node_cache.expire()
        members = ((chain, one) for chain, found in self._standing.members.items() for one in found)
        self._rates.tick(uptime_us, ((f"{chain} {one.id}", one.counts.numbers()["total"]) for chain, one in members))

    def rates(self, chain: str, authenticator: str) -> dict[str, float]:
        return self._rates.numbers(f"{chain} {authenticator}")

    def wanted(self) -> Sequence[Hook]:
        if not self._standing.all():
            return ()
        return (Hook(CLIENT_AUTHENTICATE, self.on_client_authenticate, ACCESS),)

    def on_client_authenticate(self, client: ClientInfo, attempt: AuthAttempt, _outcome: AuthOutcome) -> object:
        asked = self._standing.asked
        chain = asked.get(client.listener) or asked[GLOBAL]
        if not chain.members:
            return OK
        answer = chain.authenticate(client, attempt)
        return answer if isinstance(answer, Pending) else (STOP, answer)

    def chains(self) -> Chains:
        """The enabled members of each chain, by its name."""
        return self._standing.members

    def health(self) -> str:
        return "; ".join(
            f"{one.id}: {health}" for one in self._standing.all() if (health := one.authenticator.health())
        )

    def samples(self) -> Iterable[Sample]:
        for chain, members in self._standing.members.items():
            for member in members:
                yield from member.counts.samples(chain, member.id)
        yield from labelled("authentication.node_cache", self._node_cache.statistics())

    def summary(self) -> str:
        count = len(self._standing.all())
        return f"{count} authenticator{'s' if count > 1 else ''}" if count else ""

    def _use(self, config: Config, members: Chains, fresh: Sequence[ChainMember]) -> None:
        before, self._config = self._standing, config
        self._node_cache.use(config.authentication_settings.node_cache)
        self._standing = self._standing_of(config, members)
        self.hook_in()
        kept = self._standing.all()
        self._retire([one for one in before.all() if one not in kept])
        loop = asyncio.get_running_loop()
        for member in fresh:
            self._beginning[id(member)] = loop.create_task(self._begin(member), name=f"{member.id} begins")

    def _forget_since(self, before: Config) -> None:
        self._faults.run(BOUNDARY, lambda: self._maker.forget(before, self._config))

    def _standing_of(self, config: Config, members: Chains) -> _Standing:
        settings = config.authentication_settings
        failures = Failures(
            settings.on_failure == "deny",
            settings.timeout,
            settings.hide_reasons,
            self._faults,
            self._clock,
            self._tell,
        )
        asked = {name: AuthenticationChain(of, failures, self._waiting) for name, of in members.items()}
        return _Standing(members, asked)

    def _tell(self, client: ClientInfo, authenticator: str, result: str, took_us: int) -> None:
        if self.on_answer is not None:
            self.on_answer(client, authenticator, result, took_us)

    def _retire(self, members: Sequence[ChainMember]) -> None:
        """End authenticators when they have answered what they were asked."""
        if members:
            task = asyncio.get_running_loop().create_task(self._end(members), name="authenticators end")
            self._ending.add(task)
            task.add_done_callback(self._ending.discard)

    async def _end(self, members: Sequence[ChainMember]) -> None:
        try:
            await every(members, self._end_member)
        except Exception as error:  # noqa: BLE001 - nothing waits for it
            self._faults.contain(BOUNDARY, error)

    async def _begin(self, member: ChainMember) -> None:
        try:
            await member.authenticator.begin()
        except Exception as error:  # noqa: BLE001 - nothing waits for it
            self._faults.contain(BOUNDARY, error)
        self._beginning.pop(id(member), None)

    async def _end_member(self, member: ChainMember) -> None:
        beginning = self._beginning.pop(id(member), None)
        if beginning is not None:
            beginning.cancel()
            await asyncio.wait((beginning,))
        await member.authenticator.stop()
