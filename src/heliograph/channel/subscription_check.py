"""Which subscriptions of a session its client may still have: asked when it comes back, and when rights change."""

from typing import Final

from mypy_extensions import i64

from heliograph.broker import hooks
from heliograph.broker.pending import Pending
from heliograph.broker.pubsub import Broker
from heliograph.broker.subscription import UNLISTED
from heliograph.channel.authorization import Authorizer
from heliograph.channel.rights import RightsCheck
from heliograph.mqtt.properties import Properties
from heliograph.mqtt.topic import bare_filter, topic_matches
from heliograph.session.session import Session

# What asking about a subscription costs, in deliveries, and how many are asked about whatever they cost.
_RIGHT_WORK: Final = 8
_ASKED_AT_ONCE: Final = 16


class SubscriptionCheck:
    """Asks about one subscription after the other, in as many turns as that takes.

    Args:
        due_us: Until when answers are waited for, all of them together; 0 for ever.

    Attributes:
        denied: The subscriptions that the client may not have any more.
        failed: Those about which nothing can be said now.
        turn: To be resolved in another turn, where this one has done enough; None otherwise.
    """

    def __init__(self, broker: Broker, authorizer: Authorizer, due_us: i64) -> None:
        self.denied: list[str] = []
        self.failed: list[str] = []
        self.turn: Pending[bool] | None = None
        self._broker = broker
        self._rights = RightsCheck(authorizer, due_us)
        self._names: list[str] = []  # of the subscriptions,
        self._known: set[str] = set()  # the same,
        self._asked_count = 0  # and how many of them were asked about

    def advance(self, session: Session, work_max: i64) -> Pending[bool] | None:
        """Go on until the broker has done so much work: what must be waited for; None if all is known."""
        broker, rights, count = self._broker, self._rights, 0
        self.turn = None
        while True:
            while self._asked_count < len(self._names) and rights.has_room:
                if count >= _ASKED_AT_ONCE and broker.work > work_max:
                    self.turn = Pending()
                    return self.turn
                broker.work += _RIGHT_WORK
                self._ask(session, self._asked_count)
                self._asked_count += 1
                count += 1
            awaited = rights.awaited()
            if awaited is not None:
                return awaited
            if self._asked_count == len(self._names) and (rights.failed or not self._find_names(session)):
                break
        self.failed = [self._names[number] for number in rights.failed]
        failed = set(rights.failed)
        self.denied = [self._names[number] for number in rights.denied if number not in failed]
        return None

    @property
    def is_unsure(self) -> bool:
        """Whether something could not be asked that might have decided otherwise."""
        return self._rights.is_unsure

    def cancel(self) -> None:
        self._rights.cancel()

    def _ask(self, session: Session, number: int) -> None:
        name = self._names[number]
        subscription = session.subscriptions.get(name)
        if subscription is not None:  # else it went meanwhile
            self._rights.ask(number, bare_filter(name), subscription.qos, self._broker.uptime_us)

    def _find_names(self, session: Session) -> bool:
        """Find subscriptions that were not asked about, such as came meanwhile; whether there are any."""
        found = [name for name in session.subscriptions if name not in self._known]
        self._names.extend(found)
        self._known.update(found)
        return len(found) > 0


def drop_denied(session: Session, names: list[str]) -> list[str]:
    """Drop the subscriptions that a client may not have any more: those that it still had."""
    left_group = False
    dropped: list[str] = []
    filters: list[str] = []
    for name in names:
        subscription = session.unsubscribe(name)
        if subscription is not None:
            subscription.is_denied = True
            dropped.append(name)
            filters.append(subscription.topic_filter)
            left_group = left_group or subscription.group != ""
            session.broker.counters.subscriptions_withdrawn += 1
            arguments = (session.clientid, name, subscription.qos, Properties())
            session.broker.hooks.run(hooks.SESSION_UNSUBSCRIBED, arguments)
    if filters:
        _deny_recalled(session, filters)
    if left_group:
        session.pass_on()
    return dropped


def _deny_recalled(session: Session, filters: list[str]) -> None:
    """Drop what was in flight before the node started and matches filters that are denied now.

    Which subscription it was for is not known any more.
    """
    for delivery in session.sender.window.deliveries.values():
        subscription, topic = delivery.subscription, delivery.message.topic
        if subscription.slot == UNLISTED and any(topic_matches(topic, one) for one in filters):
            subscription.is_denied = True
