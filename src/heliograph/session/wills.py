"""The wills of a node: which wait for their delay, and how one is published, stored and forgotten.

The timers of the delays are in `session.table`.
"""

from collections.abc import Callable

from mypy_extensions import i64

from heliograph.broker.durable_sink import NOT_STORED
from heliograph.broker.faults import PUBLISHING, SESSIONS
from heliograph.broker.pending import Pending
from heliograph.broker.publishing import Outcome, PendingOutcome, publish
from heliograph.broker.pubsub import Broker
from heliograph.session.durability import Durability
from heliograph.session.published_wills import PublishedWills
from heliograph.session.will import Will


class AskedWill:
    """A will that is due, while a callback has yet to say whether its client may publish it; owned by `Wills`."""

    def __init__(self, wills: "Wills", clientid: str, will: Will, decision: Pending[bool]) -> None:
        self.decision = decision
        self._wills = wills
        self._clientid = clientid
        self._will = will

    def on_decided(self, allowed: bool) -> None:
        self._wills.on_decided(self._clientid, self._will, allowed)


class PendingWill:
    """A will that waits for the answer of a callback of `message.publish`."""

    def __init__(self, wills: "Wills", clientid: str, will: Will, pending: PendingOutcome) -> None:
        self._wills = wills
        self._clientid = clientid
        self._will = will
        self._pending = pending

    def on_published(self, _: bool) -> None:
        self._wills.on_published(self._clientid, self._will, self._pending.outcome)


class Wills:
    """Publishes the wills of one node; owned by its session table, which says when their time has come.

    Attributes:
        durability: Saves the wills of durable sessions; None if nothing does.
        published: Those that are published and not stored yet.
        is_banned: Whether a client, by its id, user name and address, is banned: its will is not published.
    """

    def __init__(self, broker: Broker) -> None:
        self.durability: Durability | None = None
        self.published = PublishedWills()
        self.is_banned: Callable[[str, str | None, str], bool] | None = None
        self._broker = broker
        self._delayed: dict[str, Will] = {}  # by client ids
        self._left: list[tuple[str, Will]] = []  # of sessions that are over
        self._asked: list[AskedWill] = []  # those that may or may not be published: callbacks have yet to answer

    def __len__(self) -> int:
        return len(self._delayed)

    def has_delayed(self, clientid: str) -> bool:
        return clientid in self._delayed

    def delay(self, clientid: str, will: Will, due_us: i64) -> None:
        self.restore(clientid, will)
        will.due_us = due_us
        self._trace(clientid, will, "delayed")
        if will.number != 0 and self.durability is not None:
            self.durability.save_will(clientid, will)

    def restore(self, clientid: str, will: Will) -> None:
        self._delayed[clientid] = will

    def leave(self, clientid: str, will: Will) -> None:
        """A will was read from the disk whose session is over: it is due."""
        self._left.append((clientid, will))

    def take_back(self, clientid: str) -> None:
        """A client came back in time: its will is not published, unless a crash kept that from having been done."""
        will = self._delayed.pop(clientid, None)
        if will is None:
            return
        if will.due_us <= self._broker.uptime_us:
            self.publish(clientid, will)
        else:
            self._trace(clientid, will, "taken_back")
            self.forget(clientid, will)

    def end_delay(self, clientid: str) -> None:
        will = self._delayed.pop(clientid, None)  # [MQTT-3.1.2-10] 3.1.1 [MQTT-3.1.2-10]
        if will is not None:
            will.message.id_high = self._broker.now_us  # its lifetime begins now, not when its delay began
            self.publish(clientid, will)

    def publish_due(self, uptime_us: i64, count_max: i64) -> i64:
        """Publish what is due for other reasons than the end of a delay, so many at the most; how many there were."""
        if self._asked:
            self._expire_asked(uptime_us)
        count: i64 = 0
        while self._left and count < count_max:
            count += 1
            clientid, will = self._left.pop()
            self.publish(clientid, will)
        while count < count_max:
            again = self.published.take_due(uptime_us)
            if again is None:
                break
            count += 1
            self.publish(again.clientid, again.will)
        return count

    def publish(self, clientid: str, will: Will) -> None:
        """Publish a will, if its client may publish it at this moment."""
        is_banned = self.is_banned
        if is_banned is not None and is_banned(clientid, will.message.username, will.peerhost):
            self._trace(clientid, will, "banned")
            self.forget(clientid, will)
            return
        if will.access_check is None or not self._broker.rights.is_checked:
            self.on_decided(clientid, will, True)
            return
        decision = will.access_check.may_publish_now(will.message)
        asked = AskedWill(self, clientid, will, decision)
        if not decision.is_resolved:
            self._asked.append(asked)
        decision.then(asked.on_decided)

    def on_decided(self, clientid: str, will: Will, allowed: bool) -> None:
        outcome: Outcome | None = None
        if not allowed:
            self._broker.counters.messages_not_authorized += 1
            self._trace(clientid, will, "not_authorized")
        else:
            self._trace(clientid, will, "published")
            try:
                outcome = publish(self._broker, will.message, may_refuse=True)
            except Exception as error:  # noqa: BLE001 - its session ends or lives on, whatever it is
                self._broker.faults.contain(PUBLISHING, error)
        pending = None if outcome is None else outcome.pending
        if pending is None:
            self.on_published(clientid, will, outcome)
        else:
            pending.then(PendingWill(self, clientid, will, pending).on_published)

    def on_published(self, clientid: str, will: Will, outcome: Outcome | None) -> None:
        """Forget a will that was published, as soon as it is stored, or publish it again; None if it failed."""
        if outcome is not None and outcome.may_repeat:
            self.published.refused(clientid, will, self._broker.uptime_us)
        elif outcome is None or outcome.ticket == NOT_STORED:
            self.forget(clientid, will)
        else:
            self.published.add(clientid, will, outcome.ticket, outcome.is_joined)

    def on_committed(self, ticket: i64, is_refused: bool, is_joined_refused: bool) -> None:
        """Whatever was tied to a ticket is durable, or was refused; a will that was refused is published again.

        Args:
            is_joined_refused: The same for what further databases keep too.
        """
        for stored in self.published.answered(ticket, is_refused, is_joined_refused, self._broker.uptime_us):
            self.forget(stored.clientid, stored.will)

    def forget(self, clientid: str, will: Will) -> None:
        if will.number != 0 and self.durability is not None:
            self.durability.forget_will(clientid, will)

    def _trace(self, clientid: str, will: Will, step: str) -> None:
        if self._broker.tracer is not None:
            self._broker.tracer.on_will(clientid, will.message, step)

    def _expire_asked(self, uptime_us: i64) -> None:
        asked, self._asked = self._asked, []
        for one in asked:
            if one.decision.is_late(uptime_us):
                try:
                    one.decision.expire()
                except Exception as error:  # noqa: BLE001 - the others are done without too, whatever it is
                    self._broker.faults.contain(SESSIONS, error)
        self._asked.extend([one for one in asked if not one.decision.is_resolved])

    def __repr__(self) -> str:
        return f"Wills({len(self._delayed)} delayed, {len(self._asked)} asked about)"
