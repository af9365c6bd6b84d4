"""Whether a client may subscribe to each of many filters: asked all at once, so that it waits for one deadline only."""

from typing import Final

from mypy_extensions import i64

from heliograph.broker.pending import Pending
from heliograph.channel.authorization import Authorizer, PendingDecision

# So many questions of one client may wait for their answers at a time; further ones are asked when these are there.
_ASKED_MAX: Final = 64


class PendingDecisions(Pending[bool]):
    """Decisions that are not there yet; resolved when all of them are, or denied at `due_us` (0 for never)."""

    def __init__(self, due_us: i64) -> None:
        super().__init__()
        self.due_us = due_us
        self._decisions: list[PendingDecision] = []
        self._left: i64 = 0

    def add(self, decision: PendingDecision) -> None:
        if not decision.is_waited_for:  # else two filters ask the same
            self._decisions.append(decision)
            self._left += 1
            decision.then(self._on_decided)

    def expire(self) -> None:
        """The deadline has passed: go on without the callbacks that have not answered, which denies."""
        for decision in self._decisions:
            if not decision.is_resolved:
                decision.expire()

    def cancel(self) -> None:
        super().cancel()
        for decision in self._decisions:
            decision.cancel()

    def _on_decided(self, _: bool) -> None:
        self._left -= 1
        if self._left == 0:
            self.resolve(True)


class RightsCheck:
    """Asks an authorizer about one filter after the other, and gathers the answers.

    Args:
        due_us: Until when answers are waited for, all of them together; 0 for ever.

    Attributes:
        denied: The numbers of the filters that the client may not subscribe to.
        failed: Of these, those that are denied because something could not be asked.
        is_unsure: Whether something could not be asked that might have decided otherwise about any filter.
    """

    def __init__(self, authorizer: Authorizer, due_us: i64) -> None:
        self.denied: list[int] = []
        self.failed: list[int] = []
        self.is_unsure = False
        self._authorizer = authorizer
        self._due_us = due_us
        self._asked: list[tuple[int, PendingDecision]] = []  # that are not answered yet, or were not looked at

    @property
    def has_room(self) -> bool:
        """Whether one more may be asked for before the answers that are not there yet."""
        return len(self._asked) < _ASKED_MAX

    def ask(self, number: int, topic_filter: str, qos: int, uptime_us: i64) -> None:
        """Ask about a filter, in the words of the client, and the QoS that it asks for."""
        authorizer = self._authorizer
        if authorizer.may_subscribe(qos, topic_filter):
            self.is_unsure = self.is_unsure or authorizer.has_failed
            return
        decision = authorizer.awaited
        if decision is None:
            self._deny(number, authorizer.has_failed)
            return
        while self._due_us != 0 and uptime_us >= self._due_us and not decision.is_resolved:
            decision.expire()  # the time for all of them is up; each callback of the chain has its own word
        self._asked.append((number, decision))

    def awaited(self) -> Pending[bool] | None:
        """What must be waited for before the next question or the end; None if all answers are there."""
        waiting = [decision for _, decision in self._asked if not decision.is_resolved]
        if waiting:
            awaited = PendingDecisions(self._due_us)
            for decision in waiting:
                awaited.add(decision)
            return awaited
        for number, decision in self._asked:
            self.is_unsure = self.is_unsure or decision.has_failed
            if not decision.answer:
                self._deny(number, decision.has_failed)
        self._asked = []
        return None

    def _deny(self, number: int, has_failed: bool) -> None:
        self.denied.append(number)
        if has_failed:
            self.is_unsure = True
            self.failed.append(number)

    def cancel(self) -> None:
        for _, decision in self._asked:
            decision.cancel()
