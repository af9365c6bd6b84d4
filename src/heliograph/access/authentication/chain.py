"""A chain of authenticators: which of them is asked about a client, what the answers come to, and how they are counted.

The first one that knows the client decides. One that leaves it to the next, raises or does not answer in time is passed
over; a client that all pass over is refused. What needs no waiting is answered in the call. A client that must wait
has a task of its own, so that nothing else waits.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from heliograph.access.authentication.interface import Answer, Authenticator
from heliograph.access.backends.interface import BackendError
from heliograph.broker.authentication import AuthAttempt, AuthStep
from heliograph.broker.client import ClientInfo
from heliograph.broker.faults import Faults
from heliograph.broker.hooks import STOP
from heliograph.broker.pending import Pending
from heliograph.config.authentication import AuthenticatorConfig
from heliograph.mqtt import reason_codes as rc
from heliograph.observe.histogram import Histogram
from heliograph.observe.metric import Metric, Sample, counter, histogram, labelled

if TYPE_CHECKING:
    from heliograph.access.authentication.expressions import ClientExpression


BOUNDARY: Final = "authentication"  # of faults
_LABELS: Final = ("chain", "authenticator")
METRICS: Final[Sequence[Metric]] = (
    counter("authenticator.total", "Attempts of clients that it was asked about.", labels=_LABELS),
    counter("authenticator.success", "Clients that it accepted.", labels=_LABELS),
    counter("authenticator.failed", "Clients that it refused.", labels=_LABELS),
    counter("authenticator.nomatch", "Clients that it left to the next one.", labels=_LABELS),
    counter("authenticator.ignored", "Clients that its precondition left out.", labels=_LABELS),
    counter("authenticator.error", "Attempts at which it raised, or was late.", labels=_LABELS),
    histogram("authenticator.latency", "Answers that took at most so long.", "seconds", labels=_LABELS),
)
_BOUNDS_S: Final = (0.000_1, 0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0)


class AuthenticatorCounts:
    def __init__(self) -> None:
        self.success = 0
        self.failed = 0
        self.nomatch = 0
        self.ignored = 0
        self.error = 0
        self._latency = Histogram(_BOUNDS_S)

    def answered(self, step: AuthStep | None, took_us: int) -> None:
        """It has answered; a challenge is not the end of an attempt."""
        self._latency.add(took_us / 1e6)
        if step is None:
            self.nomatch += 1
        elif step.code == rc.SUCCESS:
            self.success += 1
        elif step.code != rc.CONTINUE_AUTHENTICATION:
            self.failed += 1

    def numbers(self) -> dict[str, int]:
        asked = self.success + self.failed + self.nomatch + self.error
        return {
            "total": asked,
            "success": self.success,
            "failed": self.failed,
            "nomatch": self.nomatch,
            "ignored": self.ignored,
            "error": self.error,
        }

    def samples(self, chain: str, authenticator: str) -> list[Sample]:
        labels = (chain or "global", authenticator)
        return [
            *labelled("authenticator", self.numbers(), *labels),
            *self._latency.samples("authenticator.latency", *labels),
        ]


@dataclass(eq=False)
class ChainMember:
    """An authenticator in a chain; it is kept, with its counts, while its settings stay the same.

    Attributes:
        precondition: None for all clients.
    """

    settings: AuthenticatorConfig
    authenticator: Authenticator
    precondition: "ClientExpression | None"
    counts: AuthenticatorCounts = field(default_factory=AuthenticatorCounts)

    @property
    def id(self) -> str:
        return self.authenticator.id

    def is_for(self, client: ClientInfo, attempt: AuthAttempt) -> bool:
        return self.precondition is None or self.precondition.matches(client, attempt)


@dataclass(slots=True)
class _Challenged:
    """What an attempt has in the place of its authenticator's state between two AUTH packets."""

    member: ChainMember
    state: object


@dataclass(frozen=True, slots=True)
class Failures:
    """What authenticators that fail mean, for all chains.

    Attributes:
        refuse: Whether a client is refused for which one fails; else the next one is asked.
        answer_s: How long one may take.
        hides_reasons: Whether a wrong password is refused as an unknown user is.
        faults: Where what they raise is reported.
        tell: Called with a client, the authenticator, what it said, and the microseconds that it took.
    """

    refuse: bool
    answer_s: float
    hides_reasons: bool
    faults: Faults
    clock: Callable[[], int]
    tell: Callable[[ClientInfo, str, str, int], object] = lambda client, authenticator, result, took_us: None


class AuthenticationChain:
    """Enabled authenticators in their order; never changed, another chain takes its place."""

    def __init__(self, members: Sequence[ChainMember], failures: Failures, waiting: set[asyncio.Task[None]]) -> None:
        self.members = members
        self._failures = failures
        self._waiting = waiting

    def authenticate(self, client: ClientInfo, attempt: AuthAttempt) -> AuthStep | Pending[object]:
        answer = self._begin(client, attempt)
        return self.shown_step(answer) if isinstance(answer, AuthStep) else answer

    def _begin(self, client: ClientInfo, attempt: AuthAttempt) -> AuthStep | Pending[object]:
        challenged = attempt.state
        if not isinstance(challenged, _Challenged):
            return self._ask(0, client, attempt)
        if challenged.member not in self.members:  # it was taken out meanwhile
            return AuthStep(rc.NOT_AUTHORIZED)
        attempt.state = challenged.state
        return self._ask(self.members.index(challenged.member), client, attempt, is_challenged=True)

    def _ask(
        self, at: int, client: ClientInfo, attempt: AuthAttempt, *, is_challenged: bool = False
    ) -> AuthStep | Pending[object]:
        """Ask from one member on, up to the first whose answer must be waited for."""
        for index in range(at, len(self.members)):
            member = self.members[index]
            if not is_challenged and not member.is_for(client, attempt):
                member.counts.ignored += 1
                continue
            began_us = self._failures.clock()
            try:
                answer = member.authenticator.authenticate(client, attempt)
            except Exception as error:  # noqa: BLE001 - an authenticator is a boundary
                step = self._failed(member, client, error, began_us)
            else:
                if isinstance(answer, Awaitable):
                    return self._wait(_Question(self, index, client, attempt, is_challenged), answer, began_us)
                step = self._answered(member, client, attempt, answer, began_us)
            if step is not None:
                return step
            if is_challenged:  # the others know nothing of the exchange
                return AuthStep(rc.NOT_AUTHORIZED)
        return AuthStep(rc.NOT_AUTHORIZED)

    def _wait(self, question: "_Question", answer: Awaitable[Answer], began_us: int) -> "_Question":
        task = asyncio.get_running_loop().create_task(question.find(answer, began_us), name="authentication")
        question.on_cancel(lambda: _cancel(task))
        self._waiting.add(task)
        task.add_done_callback(self._waiting.discard)
        return question

    async def awaited(
        self,
        member: ChainMember,
        client: ClientInfo,
        attempt: AuthAttempt,
        answer: Awaitable[Answer],
        began_us: int,
    ) -> Answer:
        """What a member says that had to wait; None also where it failed."""
        try:
            async with asyncio.timeout(self._failures.answer_s):
                step = await answer
        except Exception as error:  # noqa: BLE001 - as above
            return self._failed(member, client, error, began_us)
        return self._answered(member, client, attempt, step, began_us)

    def after(self, index: int, client: ClientInfo, attempt: AuthAttempt) -> AuthStep | Pending[object]:
        return self._ask(index + 1, client, attempt)

    def shown_step(self, step: AuthStep) -> AuthStep:
        hides = self._failures.hides_reasons and step.code == rc.BAD_USERNAME_OR_PASSWORD
        return AuthStep(rc.NOT_AUTHORIZED) if hides else step

    def run(self, step: Callable[[], object]) -> None:
        """Go on with a client; what that raises is not its authenticator's."""
        self._failures.faults.run(BOUNDARY, step)

    def _answered(
        self, member: ChainMember, client: ClientInfo, attempt: AuthAttempt, step: Answer, began_us: int
    ) -> Answer:
        took_us = self._failures.clock() - began_us
        member.counts.answered(step, took_us)
        self._failures.tell(client, member.id, "ignore" if step is None else rc.name_of(step.code), took_us)
        if step is not None and step.code == rc.CONTINUE_AUTHENTICATION:
            attempt.state = _Challenged(member, attempt.state)
        return step

    def _failed(self, member: ChainMember, client: ClientInfo, error: Exception, began_us: int) -> Answer:
        member.counts.error += 1
        self._failures.tell(client, member.id, "error", self._failures.clock() - began_us)
        if not isinstance(error, BackendError | TimeoutError):  # these are known, and alarms
            self._failures.faults.contain(f"{BOUNDARY}.{member.id}", error)
        return AuthStep(rc.SERVER_UNAVAILABLE) if self._failures.refuse else None

    def __repr__(self) -> str:
        return f"AuthenticationChain({', '.join(member.id for member in self.members) or 'none'})"


class _Question(Pending[object]):
    """What one client waits for; resolved with the verdict of `client.authenticate`."""

    def __init__(
        self, chain: AuthenticationChain, index: int, client: ClientInfo, attempt: AuthAttempt, is_challenged: bool
    ) -> None:
        super().__init__()
        self._chain = chain
        self._index = index
        self._client = client
        self._attempt = attempt
        self._is_challenged = is_challenged

    async def find(self, awaitable: Awaitable[Answer], began_us: int) -> None:
        """Wait for the answer, and those of later members as far as they are asked."""
        chain = self._chain
        member = chain.members[self._index]
        step = await chain.awaited(member, self._client, self._attempt, awaitable, began_us)
        rest: AuthStep | Pending[object]
        if step is not None:
            rest = step
        elif self._is_challenged:  # the others know nothing of the exchange
            rest = AuthStep(rc.NOT_AUTHORIZED)
        else:
            rest = chain.after(self._index, self._client, self._attempt)
        if isinstance(rest, AuthStep):
            chain.run(lambda: self.resolve((STOP, chain.shown_step(rest))))
        elif self.is_cancelled:
            rest.cancel()
        else:
            self.on_cancel(rest.cancel)
            rest.then(self.resolve)


def _cancel(task: asyncio.Task[None]) -> None:
    if task is not asyncio.current_task():
        task.cancel()
