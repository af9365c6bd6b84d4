"""What the chain of sources does when it must wait: fetches rules, asks sources, and resolves the decision later."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from time import perf_counter
from typing import Any, Final

from heliograph.access.acl.rules import ClientRules, Rule, Rules
from heliograph.access.authorization.chain import SlowPath, SourceChain, unsure
from heliograph.access.authorization.entries import ALLOW, DENY, ERROR, IGNORE, NOMATCH, KeptRules
from heliograph.access.authorization.interface import AskedSource, RulesSource
from heliograph.broker.actions import Action, Decision
from heliograph.broker.client import ClientInfo
from heliograph.broker.hooks import OK, STOP
from heliograph.broker.pending import Pending
from heliograph.observe.bounded_log import BoundedLog
from heliograph.observe.histogram import Histogram

_log = logging.getLogger(__name__)

_NO_RULES: Final = Rules([])
_AGAIN_US: Final = 1_000_000  # a source that failed is asked again after this time
_NEVER_US: Final = 1 << 62
_BOUNDS_S: Final = (0.0001, 0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0)
_ANSWERS: Final = frozenset((ALLOW, DENY, IGNORE, NOMATCH))


@dataclass(frozen=True, slots=True)
class Said:
    """What one source said.

    Attributes:
        result: `allow`, `deny`, `nomatch`, `ignore` or `error`.
        why: What went wrong, for people.
    """

    result: str
    rule: Rule | None = None
    why: str = ""


class WaitingChain(SlowPath):
    """Asks the sources that do not answer at once; owned by the part. `default` decides where none does.

    Attributes:
        ttl_us: How long rules are kept that sources gave for a client.
        faults: What went wrong last, by the type of the source.
        times: What asking took, by the type of the source, in seconds.
    """

    def __init__(
        self, chain: SourceChain, default: Callable[[ClientInfo, Action, str], Decision], clock: Callable[[], int]
    ) -> None:
        super().__init__()
        self.faults: dict[str, str] = {}
        self._default = default
        self._total_s: dict[str, tuple[float, int]] = {}  # and how many questions that were
        self.ttl_us = 60_000_000
        self.times: dict[str, Histogram] = {}
        self._chain = chain
        self._clock = clock
        self._log = BoundedLog(_log, clock)
        self._fetching: dict[KeptRules, asyncio.Task[None]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        chain.slow_path = self

    def mean_s(self, type: str) -> float | None:
        """None if it was not asked."""
        total_s, count = self._total_s.get(type, (0.0, 0))
        return total_s / count if count else None

    async def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    # --- for the chain

    def fetch_now(self, kept: KeptRules, client: ClientInfo, may_be_old: bool) -> ClientRules | None:
        if kept not in self._fetching:
            source = kept.entry.source
            assert isinstance(source, RulesSource)
            began, version = perf_counter(), int(kept.entry.version)
            kept.is_outdated = False
            try:
                answer = source.fetch(client)
                if isinstance(answer, Rules):
                    self._took(kept, began)
                    return self._keep(kept, client, answer, version)
            except Exception as error:  # noqa: BLE001 - the code of a source ends here, whatever it raises
                return self._failed(kept, client, error)
            self._fetching[kept] = self._begun(self._fetch(kept, client, answer, (began, version)))
        return kept.rules if may_be_old else None

    def decide(self, client: ClientInfo, action: Action, topic: str) -> object:
        pending: Pending[object] = Pending()
        task = self._begun(self._decide(pending, client, action, topic))
        pending.on_cancel(lambda: _cancel(task))
        return pending

    # --- what one source says

    async def ask(self, kept: KeptRules, client: ClientInfo, action: Action, topic: str) -> Said:
        source = kept.entry.source
        if isinstance(source, AskedSource):
            return await self._asked(kept, source, client, action, topic)
        rules = kept.rules
        if rules is None or kept.until_us <= self._clock() or kept.version != kept.entry.version:
            rules = await self._fetched(kept, client)
        rule = rules.check(action, topic)
        why = self.faults.get(kept.entry.type, "") if kept.has_failed else ""
        if rule is None:
            return Said(ERROR if why else NOMATCH, why=why)
        return Said(ALLOW if rule.is_allowing else DENY, rule, why)

    async def _fetched(self, kept: KeptRules, client: ClientInfo) -> ClientRules:
        """Fetched once more if they were outdated meanwhile."""
        while True:
            rules = self.fetch_now(kept, client, may_be_old=False)
            if rules is not None:
                return rules
            await asyncio.shield(self._fetching[kept])
            if kept.version == kept.entry.version and not kept.is_outdated:
                return kept.rules or _NO_RULES.prepared(client)

    async def _asked(
        self, kept: KeptRules, source: AskedSource, client: ClientInfo, action: Action, topic: str
    ) -> Said:
        began = perf_counter()
        try:
            answer = source.ask(client, action, topic)
            said = answer if isinstance(answer, str) else await answer
        except Exception as error:  # noqa: BLE001 - as in `fetch_now`
            self._tell(kept, client, error)
            return Said(ERROR, why=self.faults[kept.entry.type])
        finally:
            self._took(kept, began)
        if said not in _ANSWERS:
            return Said(ERROR, why=f"it answered {said!r}")
        return Said(said)

    # --- inside

    async def _decide(self, pending: Pending[object], client: ClientInfo, action: Action, topic: str) -> None:
        chain, epoch = self._chain, -1
        decision: Decision | None = None
        while epoch != chain.epoch:  # a source that is replaced meanwhile has not denied anything
            epoch = int(chain.epoch)
            decision = await self._walk(client, action, topic)
        pending.resolve(OK if decision is None else (STOP, decision))

    async def _walk(self, client: ClientInfo, action: Action, topic: str) -> Decision | None:
        decision = self._chain.carried(client, action, topic)
        if decision is not None:
            return decision
        is_unsure = False
        for kept in self._chain.rights_of(client).kept:
            said = await self.ask(kept, client, action, topic)
            is_unsure = is_unsure or bool(said.why)
            decision = kept.entry.decision(said.result)
            if decision is not None:
                return unsure(decision) if is_unsure else decision
        return unsure(self._default(client, action, topic)) if is_unsure else None

    async def _fetch(
        self, kept: KeptRules, client: ClientInfo, answer: Awaitable[Rules], begun: tuple[float, int]
    ) -> None:
        began, version = begun
        try:
            self._keep(kept, client, await answer, version)
        except Exception as error:  # noqa: BLE001 - as in `fetch_now`
            self._failed(kept, client, error)
        finally:
            self._took(kept, began)
            del self._fetching[kept]

    def _keep(self, kept: KeptRules, client: ClientInfo, rules: Rules, version: int) -> ClientRules:
        """Keep rules, of the version that the source had when it was asked: they may be old already."""
        source = kept.entry.source
        assert isinstance(source, RulesSource)
        until_us = _NEVER_US if source.announces_changes else self._clock() + self.ttl_us
        ready = rules.prepared(client)
        kept.keep(ready, until_us, version)
        return ready

    def _failed(self, kept: KeptRules, client: ClientInfo, error: Exception) -> ClientRules:
        """Keep the rules that were there for a moment."""
        kept.entry.errors += 1
        self._tell(kept, client, error)
        rules = kept.rules or _NO_RULES.prepared(client)
        kept.keep(rules, self._clock() + _AGAIN_US, kept.entry.version, has_failed=True)
        return rules

    def _tell(self, kept: KeptRules, client: ClientInfo, error: Exception) -> None:
        self.faults[kept.entry.type] = str(error) or type(error).__name__
        self._log.warn(
            "the source of authorization %s cannot say what client %.200r may do: %s: %s",
            kept.entry.type,
            client.clientid,
            type(error).__name__,
            error,
        )

    def _took(self, kept: KeptRules, began: float) -> None:
        times = self.times.get(kept.entry.type)
        if times is None:
            times = self.times[kept.entry.type] = Histogram(_BOUNDS_S)
        took_s = perf_counter() - began
        times.add(took_s)
        total_s, count = self._total_s.get(kept.entry.type, (0.0, 0))
        self._total_s[kept.entry.type] = (total_s + took_s, count + 1)

    def _begun(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task


def _cancel(task: asyncio.Task[None]) -> None:
    task.cancel()
