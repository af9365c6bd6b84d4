"""A durable session: one whose client, subscriptions and messages in flight survive the broker.

See docs/durable_sessions.md for the states that it is in and for the order of commits and packets.
"""

from typing import Final

from mypy_extensions import i64

from heliograph.broker.message import Message
from heliograph.broker.pubsub import Broker
from heliograph.broker.subscription import PARKED, Subscription, is_exclusive
from heliograph.broker.tracer import REPLAYED
from heliograph.session.access_check import AccessCheck
from heliograph.session.awaiting_rel import AwaitingRel
from heliograph.session.cursor import Beginning
from heliograph.session.durability import Durability
from heliograph.session.durable_awaiting_rel import DurableAwaitingRel
from heliograph.session.encoder import Encoder
from heliograph.session.mqueue import Delivery
from heliograph.session.options import SessionOptions
from heliograph.session.outbox import Outbox
from heliograph.session.session import Session
from heliograph.session.stored_backlog import StoredBacklog
from heliograph.session.will import Will

# Subscriptions that are taken out of the routing table, or put into it again, at once: 1 ms.
_LISTED_AT_ONCE: Final = 512


class DurableSession(Session):
    """One client's session that outlives the broker; owned by the session table.

    Attributes:
        parked: The subscriptions whose messages are all stored are out of the routing table: publishing does not come
            across them.
        will_number: That of the newest will that was saved for it.
        will: The one that is saved while its client is connected.
    """

    def __init__(
        self, clientid: str, broker: Broker, options: SessionOptions, created_at_us: i64, durability: Durability
    ) -> None:
        super().__init__(clientid, broker, options, created_at_us)
        self.durability = durability
        self.parked = False
        self.will_number: i64 = 0
        self.will: Will | None = None
        self.has_lost = False
        self._listing: list[Subscription] | None = None  # those that are yet to be parked, or listed again
        self._is_unparking = False
        self.backlog = StoredBacklog(self, durability)
        self.sender.backlog = self.backlog

    # --- the connection

    def attach(
        self, outbox: Outbox, encoder: Encoder, receive_maximum: i64, access_check: AccessCheck | None = None
    ) -> None:
        self.recall()
        self.backlog.came_us = self.broker.now_us
        super().attach(outbox, encoder, receive_maximum, access_check)

    def recall(self) -> None:
        if self.has_lost:
            self.durability.recall(self)
            self.has_lost = False

    def keeps_wills(self) -> bool:
        return self.expiry_interval_s != 0

    def keep_will(self, will: Will | None) -> None:
        before, self.will = self.will, will
        if before is not None:
            self.durability.forget_will(self.clientid, before)
        if will is not None:
            self.will_number = max(self.will_number + 1, self.broker.now_us)
            will.number = self.will_number
            self._await_saved(self.durability.save_will(self.clientid, will))

    def resume(self) -> None:
        """As a session in memory does; what is in flight at QoS 2 waits for its commit again, if that is not done."""
        outbox = self.sender.outbox
        if outbox is not None:
            newest: i64 = 0
            for delivery in self.sender.window.deliveries.values():
                if delivery.qos == 2:
                    newest = max(newest, delivery.message.ticket)
            self.durability.add_barrier(outbox, 0, newest)
        super().resume()

    def detach(self) -> None:
        if self.attached:
            if self.backlog.behind:
                self.backlog.stop_catching()
                self.backlog.on_interrupted()
            else:
                self.backlog.fall_behind()
            self.left_us = self.broker.now_us
            self._is_unparking = False
            if self.expiry_interval_s != 0:
                self._park()
                self.durability.save(self)
        super().detach()

    # --- towards the client

    def deliver(self, message: Message, subscription: Subscription) -> None:
        if not self.backlog.passes_by(message, subscription):
            super().deliver(message, subscription)

    def deliver_retained(self, message: Message, subscription: Subscription) -> None:
        """As a session in memory does; it is a message of its own, which no replay would bring."""
        if message.ticket != 0:
            high, low = message.id_high, message.id_low
            publish, clientid, username = message.publish, message.clientid, message.username
            message = Message(high, low, message.topic, publish, clientid, username, message.expiry_s)
        super().deliver_retained(message, subscription)

    def pump(self) -> None:
        super().pump()
        self.backlog.want_turn()

    def replay(self, message: Message, stored_at_us: i64, subscription: Subscription) -> None:
        """Take the next message of the replay; `MessageSender.has_room` says whether it may come.

        Args:
            stored_at_us: The time of its commit, which never falls from call to call.
        """
        qos = subscription.qos
        if message.qos < qos and not self.options.upgrade_qos:
            qos = message.qos
        if not self.backlog.takes(message, stored_at_us, qos):
            return
        if self.broker.tracer is not None and self.broker.tracer.wants_stored:
            self.broker.tracer.follow(message, REPLAYED)
        if message.expired(self.broker.now_us):
            self.sender.drop(message, "expired", subscription)
            return
        self.backlog.is_replaying = True
        try:
            super().deliver(message, subscription)
        finally:
            self.backlog.is_replaying = False

    def on_replayed(self, head_us: i64, ticket: i64) -> bool:
        """Everything up to a commit time was replayed: it is live again if that is all that passed by.

        Args:
            ticket: The newest one that was committed at that time.

        Returns:
            Whether a commit must be awaited before there is more to replay.
        """
        self.backlog.cursor.replayed(head_us)
        self.backlog.touch()
        # What is not listed again goes on in another turn.
        return self._relist() and self.backlog.on_replayed(ticket)

    def on_refused(self, packet_id: int, ticket: i64) -> None:
        """A message at QoS 2 is not stored: it must not be sent, since its publisher sends it again.

        It stands in the outbox with others behind it, so the connection goes with it; the client comes back to what is
        right.
        """
        deliveries = self.sender.window.deliveries
        delivery = deliveries.get(packet_id)
        if delivery is None or delivery.qos != 2 or delivery.message.ticket != ticket:
            return
        del deliveries[packet_id]
        self.abort()
        self.durability.save(self)

    def on_pubrec(self, packet_id: int, is_refused: bool) -> bool:
        known = super().on_pubrec(packet_id, is_refused)
        outbox = self.sender.outbox
        if known and not is_refused and outbox is not None:
            self.sender.window.deliveries[packet_id].record = None  # it is in another phase
            self.durability.add_barrier(outbox, self.durability.save(self), 0)
        return known

    # --- from the client

    @property
    def awaiting_rel(self) -> AwaitingRel:
        return self.durable_awaiting_rel()

    def durable_awaiting_rel(self) -> DurableAwaitingRel:
        awaiting = self.unreleased
        if not isinstance(awaiting, DurableAwaitingRel):
            awaiting = DurableAwaitingRel(self, self.durability)
            self.unreleased = awaiting
        return awaiting

    # --- subscriptions

    def subscribe(self, name: str, subscription: Subscription) -> None:
        if self.sender.has_ended:
            return
        super().subscribe(name, subscription)
        beginning = self.backlog.begin(name)
        self._await_saved(self.durability.save_subscription(self, name, subscription, beginning))

    def resubscribe(self, name: str, subscription: Subscription) -> None:
        beginning = self.backlog.beginnings.get(name)
        if beginning is None:
            beginning = Beginning(0, 0, 0)  # the cursor is behind it
        self._await_saved(self.durability.save_subscription(self, name, subscription, beginning))

    def restore(self, name: str, subscription: Subscription, beginning: Beginning) -> None:
        self.subscriptions[name] = subscription
        if subscription.group:
            self.shared_count += 1
        self.backlog.beginnings[name] = beginning
        if self._is_stored(subscription):
            self.parked = True
            self.broker.router.park(subscription)
        else:
            self.broker.subscribe(subscription)

    def unsubscribe(self, name: str) -> Subscription | None:
        subscription = super().unsubscribe(name)
        if subscription is not None:
            self.backlog.beginnings.pop(name, None)
            self._await_saved(self.durability.forget_subscription(self, name))
        return subscription

    def drop_subscriptions(self, count_max: i64) -> bool:
        """Drop so many subscriptions at the most; whether none is left. What is left at the end, `close` forgets."""
        if not self.sender.has_ended:
            for name in list(self.subscriptions)[-count_max:]:
                self.durability.forget_subscription(self, name)
        return super().drop_subscriptions(count_max)

    def close(self) -> None:
        awaiting = self.unreleased
        if isinstance(awaiting, DurableAwaitingRel):
            awaiting.forget_all()
        super().close()
        self.backlog.end()
        self.durability.end(self)

    # --- while its client is away

    def may_sleep(self) -> bool:
        """Whether nothing of it is lost when it is let go from memory and read again for its client."""
        return (
            not self.attached
            and not self.backlog.touched
            and self.sender.queued_count == 0
            and all(subscription.slot == PARKED for subscription in self.subscriptions.values())
            and not any(is_exclusive(name) for name in self.subscriptions)
        )

    def list_unstored(self) -> None:
        """Put the subscriptions into the routing table again whose messages are not all stored any more."""
        for subscription in self.subscriptions.values():
            if subscription.slot == PARKED and not self._is_stored(subscription):
                self.broker.router.unpark(subscription)

    def park_some(self) -> bool:
        """Take some more subscriptions out of the routing table, unless its client is back; whether that is all.

        Publishing need not come across them any more: what they miss is replayed. One that is still listed ignores
        what can be replayed as well.
        """
        left = self._listing
        if left is None or self.attached:
            return True
        for _ in range(min(_LISTED_AT_ONCE, len(left))):
            subscription = left.pop()
            if subscription.slot >= 0 and self._is_stored(subscription):
                self.broker.router.park(subscription)
        if left:
            return False
        self._listing = None
        return True

    # --- inside

    def _on_done(self, delivery: Delivery) -> None:
        super()._on_done(delivery)
        self.backlog.touch()
        self.backlog.want_turn()

    def _await_saved(self, state: i64) -> None:
        outbox = self.sender.outbox
        if outbox is not None:
            self.durability.add_barrier(outbox, state, 0)

    def _is_stored(self, subscription: Subscription) -> bool:
        return not subscription.group and self.durability.covers(subscription.topic_filter)

    def _park(self) -> None:
        self.parked = True
        self.sender.outbox = None
        self._listing = list(self.subscriptions.values())
        if not self.park_some():
            self.durability.park(self)

    def _relist(self) -> bool:
        """Put some more into the routing table again; whether all are: what is published from now on then comes.

        What was published meanwhile is to be replayed.
        """
        if not self.parked:
            return True
        if not self._is_unparking:
            self._is_unparking = True
            self._listing = list(self.subscriptions.values())
        left = self._listing or []
        for _ in range(min(_LISTED_AT_ONCE, len(left))):
            subscription = left.pop()
            if subscription.slot == PARKED:
                self.broker.router.unpark(subscription)
        if left:
            return False
        self._listing = None
        self._is_unparking = False
        self.parked = False
        self.backlog.ignore(self.broker.newest_ticket)
        return True
