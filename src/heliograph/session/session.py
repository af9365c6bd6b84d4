"""A session in memory: what a client is subscribed to, what is on its way to it, and what it has not released.

The broker hands it messages in the publisher's turn. While a connection is attached, its encoder writes
them into that connection's outbox; otherwise, or when the window is full, messages at QoS 1 and 2 wait in its queue.
"""

from mypy_extensions import i32, i64

from heliograph.broker.message import Message
from heliograph.broker.pubsub import Broker
from heliograph.broker.subscription import Subscriber, Subscription, is_exclusive
from heliograph.broker.tracer import RETAINED
from heliograph.session.access_check import AccessCheck
from heliograph.session.awaiting_rel import AwaitingRel
from heliograph.session.encoder import Encoder
from heliograph.session.group_delivery import GroupDelivery, GroupDispatcher
from heliograph.session.mqueue import Delivery
from heliograph.session.options import SessionOptions
from heliograph.session.outbox import Outbox
from heliograph.session.sender import BYTES_PER_WORK_LOG2, UNSENT_BYTES_MAX, MessageSender
from heliograph.session.will import Will


class Session(Subscriber):
    """One client's session. It outlives connections until its expiry interval ends; owned by the session table.

    It decides whether its client gets a message; its sender decides when.

    Attributes:
        dispatcher: Gives messages of the durable groups that the session is a member of.
        mountpoint: The one that its subscriptions were made with, and that its topics stand behind.
        owner: The user name of the client that an authenticator let in with it, empty if it had none; None if no
            authenticator did.
        shared_count: How many of these are shared.
        left_us: When its client left, on the wall clock; 0 while it is connected.
        unreleased: See `awaiting_rel`; made when first needed.
    """

    def __init__(self, clientid: str, broker: Broker, options: SessionOptions, created_at_us: i64) -> None:
        super().__init__(clientid)
        self.broker = broker
        self.sender = MessageSender(clientid, broker, options)
        self.dispatcher: GroupDispatcher | None = None
        self.shared_count: i32 = 0  # here it fills a gap
        self.created_at_us = created_at_us
        self.expiry_interval_s: i64 = 0
        self.left_us: i64 = 0
        self.mountpoint = ""
        self.owner: str | None = None
        self.subscriptions: dict[str, Subscription] = {}
        self.unreleased: AwaitingRel | None = None

    # --- the connection

    def set_options(self, options: SessionOptions, receive_maximum: i64 = 0) -> None:
        """Keep to other limits: settings changed, or the client came back through another listener.

        What is too much for its queue then is dropped as from a full one; what is too much in flight stays there.
        """
        self.sender.set_options(options, receive_maximum)
        if self.unreleased is not None:
            self.unreleased.options = options
        if self.attached:
            self.pump()

    @property
    def options(self) -> SessionOptions:
        return self.sender.options

    @property
    def attached(self) -> bool:
        return self.sender.outbox is not None

    def attach(
        self, outbox: Outbox, encoder: Encoder, receive_maximum: i64, access_check: AccessCheck | None = None
    ) -> None:
        """Serve a connection from now on; `resume` then sends what it must get."""
        self.left_us = 0
        self.sender.begin(outbox, encoder, receive_maximum, access_check)

    def recall(self) -> None:
        """Load what is in flight: its client is about to be let in."""

    def on_refused(self, packet_id: int, ticket: i64) -> None: ...

    def keeps_wills(self) -> bool:
        """Whether it keeps its client's will, which then survives the broker."""
        return False

    def keep_will(self, will: Will | None) -> None:
        """Keep the will that its client connects with, or know that it has none."""

    def resume(self) -> None:
        """Send again what is unacknowledged, in its first order [MQTT-4.4.0-1] [MQTT-4.6.0-1], then what waited."""
        self.pump()
        if self.dispatcher is not None:
            self.dispatcher.on_attached(self)

    def detach(self) -> None:
        if self.attached:
            self.left_us = self.broker.now_us
        self.sender.end()
        if self.dispatcher is not None:
            _give_back(self, self.dispatcher)

    def abort(self) -> None:
        """Cut its client's connection: it could not take a message. What it keeps waits for the client's return."""
        outbox = self.sender.outbox
        if outbox is not None:
            outbox.abort()

    # --- towards the client

    def deliver(self, message: Message, subscription: Subscription) -> None:
        sender = self.sender
        if subscription.no_local and message.clientid == self.clientid:
            sender.drop(message, "no_local", subscription)  # [MQTT-3.8.3-3]
            return
        if subscription.is_wild:
            if not sender.may_have(message.topic, subscription):
                sender.refuse(message, subscription)
                return
            if _hides(self.mountpoint, message.topic, subscription):
                return
        qos = subscription.qos
        if message.qos < qos and not sender.options.upgrade_qos:  # [MQTT-3.8.4-8] 3.1.1 [MQTT-3.8.4-6]
            qos = message.qos
        outbox = sender.outbox
        if qos == 0 and outbox is not None and outbox.waiting_bytes > UNSENT_BYTES_MAX:
            # More than its publishers' turns allow: its own subscriptions overlap, and would fill memory in one turn.
            sender.drop(message, "qos0_msg", subscription)
            return
        direct = sender.direct
        if qos == 0 and direct is not None and subscription.plain and outbox is not None and not outbox.congested:
            if not sender.send_plain(direct, outbox, message, subscription):
                sender.drop(message, "too_large", subscription)
            return
        # [MQTT-3.3.1-12] [MQTT-3.3.1-13] 3.1.1 [MQTT-3.3.1-9]
        retain = message.retain and subscription.retain_as_published
        sender.take(Delivery(message, qos, retain, subscription))

    def offer(self, message: Message, subscription: Subscription, last: bool) -> bool:
        """Take a message of a shared group, or leave it to another member.

        Args:
            last: No other member could take it: it waits here for the client to come back rather than being lost.
        """
        sender = self.sender
        outbox = sender.outbox
        free = outbox is not None and not outbox.congested
        if not (free or last) or sender.has_ended or not self.may_borrow(message.topic, subscription):
            return False
        qos = subscription.qos
        if message.qos < qos and not sender.options.upgrade_qos:  # [MQTT-4.8.2-3]
            qos = message.qos
        if outbox is not None and qos == 0:
            takes = free and outbox.waiting_bytes <= UNSENT_BYTES_MAX
            direct = sender.direct
            if takes and direct is not None and subscription.plain:
                return sender.send_plain(direct, outbox, message, subscription)
        elif free and sender.window.has_room():
            takes = True
        else:
            has_room = sender.queue is None or not sender.queue.is_full(message)
            takes = has_room and (qos != 0 or sender.options.mqueue_store_qos0)
        if takes:
            sender.take(Delivery(message, qos, message.retain and subscription.retain_as_published, subscription))
        return takes

    def deliver_retained(self, message: Message, subscription: Subscription) -> None:
        """Send a retained message for a subscription that was just made; its retain flag is set."""
        sender = self.sender
        if self.broker.tracer is not None and self.broker.tracer.wants_stored:
            self.broker.tracer.follow(message, RETAINED)
        if subscription.no_local and message.clientid == self.clientid:  # [MQTT-3.8.3-3]
            sender.drop(message, "no_local", subscription)
            return
        access_check = sender.access_check
        if (subscription.is_wild and not sender.may_have(message.topic, subscription)) or (
            access_check is not None and not access_check.may_come_from(message)
        ):
            sender.refuse(message, subscription)
            return
        if _hides(self.mountpoint, message.topic, subscription):
            return
        qos = subscription.qos
        if message.qos < qos and not sender.options.upgrade_qos:
            qos = message.qos
        sender.take(Delivery(message, qos, True, subscription))  # 3.1.1 [MQTT-3.3.1-8]

    def may_borrow(self, topic: str, subscription: Subscription) -> bool:
        return not subscription.is_wild or (
            self.sender.may_have(topic, subscription) and not _hides(self.mountpoint, topic, subscription)
        )

    def borrow(self, delivery: GroupDelivery) -> bool:
        """Send a message that is borrowed from a group, while there is room: whether it is in flight, or done with."""
        sender = self.sender
        outbox = sender.outbox
        message = delivery.message
        if outbox is None or message.expired(self.broker.now_us):
            sender.drop(message, "expired", delivery.subscription)
            return False
        self.broker.work += 1 + (len(message.publish.data) >> BYTES_PER_WORK_LOG2)
        if delivery.qos == 0:
            sender.send(outbox, delivery, 0, False)
            return False
        before = sender.window.sent_count
        sender.send_new(outbox, delivery)
        return sender.window.sent_count > before

    def has_room(self) -> bool:
        return self.sender.has_room()

    def pump(self) -> None:
        """Send what may be sent now; to be called when its outbox was written, too."""
        self.sender.pump()
        if self.dispatcher is not None:
            self.dispatcher.on_room(self)

    def retry(self, uptime_us: i64) -> None:
        self.sender.retry(uptime_us)

    # --- from the client

    def on_puback(self, packet_id: int) -> bool:
        delivery = self.sender.on_puback(packet_id)
        if delivery is not None:
            self._on_done(delivery)
        return delivery is not None

    def on_pubrec(self, packet_id: int, is_refused: bool) -> bool:
        delivery = self.sender.on_pubrec(packet_id, is_refused)
        if delivery is not None and is_refused:
            self._on_done(delivery)
        return delivery is not None

    def on_pubcomp(self, packet_id: int) -> bool:
        delivery = self.sender.on_pubcomp(packet_id)
        if delivery is not None:
            self._on_done(delivery)
        return delivery is not None

    @property
    def awaiting_rel(self) -> AwaitingRel:
        awaiting = self.unreleased
        if awaiting is None:
            awaiting = AwaitingRel(self.sender.options)
            self.unreleased = awaiting
        return awaiting

    # --- subscriptions

    def subscribe(self, name: str, subscription: Subscription) -> None:
        """Add a subscription under a filter, as the client knows it, that the session does not hold yet.

        None once it has ended.
        """
        if self.sender.has_ended:
            return
        self.subscriptions[name] = subscription
        if subscription.group:
            self.shared_count += 1
        self.broker.subscribe(subscription)

    def resubscribe(self, name: str, subscription: Subscription) -> None:
        """A subscription that the session holds has other options now."""

    def unsubscribe(self, name: str) -> Subscription | None:
        """Drop the subscription to a filter; it, or None if there was none.

        What is on its way to the client stays [MQTT-3.10.4-3]; what waits for a shared one is `pass_on`'s.
        """
        # [MQTT-3.10.4-1] [MQTT-3.10.4-3] 3.1.1 [MQTT-3.10.4-1] 3.1.1 [MQTT-3.10.4-3]
        subscription = self.subscriptions.pop(name, None)
        if subscription is not None:
            _withdraw(self, name, subscription)  # [MQTT-3.10.4-2] 3.1.1 [MQTT-3.10.4-2]
        return subscription

    def pass_on(self) -> None:
        """Let other members of their groups have what waits here for shared subscriptions that were dropped.

        It goes through the whole queue, so it is called once for any number of them.
        """
        sender = self.sender
        left: list[Delivery] = []
        for delivery in sender.empty_queue():
            subscription = delivery.subscription
            if subscription.group and subscription.slot < 0:
                left.append(delivery)
            else:
                sender.wait(delivery)
        for delivery in left:
            _pass_on(self, delivery.message, delivery.subscription)

    def close(self) -> None:
        """End the session: it takes and holds no messages any more. Its subscriptions go with `drop_subscriptions`."""
        for delivery in self.sender.close():
            _pass_on(self, delivery.message, delivery.subscription)
        self.unreleased = None

    def drop_subscriptions(self, count_max: i64) -> bool:
        """Drop so many subscriptions at the most; whether none is left."""
        while self.subscriptions and count_max > 0:
            name, subscription = self.subscriptions.popitem()
            _withdraw(self, name, subscription)
            count_max -= 1
        return not self.subscriptions

    def statistics(self) -> dict[str, int]:
        sender = self.sender
        return {
            "subscriptions_cnt": len(self.subscriptions),
            "inflight_cnt": len(sender.window.deliveries),
            "inflight_max": sender.window.size,
            "mqueue_len": sender.queued_count,
            "mqueue_max": sender.options.max_mqueue_len,
            "mqueue_bytes": 0 if sender.queue is None else sender.queue.size_bytes,
            "mqueue_bytes_max": sender.options.max_mqueue_bytes,
            "mqueue_dropped": sender.dropped_count,
            "awaiting_rel_cnt": 0 if self.unreleased is None else len(self.unreleased),
        }

    def __repr__(self) -> str:
        state = "attached" if self.attached else "away"
        return f"Session({self.clientid!r}, {state}, {len(self.sender.window.deliveries)} inflight)"

    # --- inside

    def _on_done(self, delivery: Delivery) -> None:
        dispatcher = self.dispatcher
        if dispatcher is not None:
            if isinstance(delivery, GroupDelivery):
                dispatcher.on_done(self, delivery)
            dispatcher.on_room(self)
        if self.sender.may_pump():
            self.pump()


def _hides(mountpoint: str, topic: str, subscription: Subscription) -> bool:
    """Whether a mountpoint made a filter match that does not match what the client knows of the topic."""
    at = len(mountpoint)
    if at == 0:
        return False
    return topic[at : at + 1] == "$" and subscription.topic_filter[at : at + 1] in ("+", "#")  # [MQTT-4.7.2-1]


def _withdraw(session: Session, name: str, subscription: Subscription) -> None:
    broker = session.broker
    if subscription.group:
        session.shared_count -= 1
    broker.unsubscribe(subscription)
    if is_exclusive(name):
        broker.exclusive.release(subscription.topic_filter, session)


def _pass_on(session: Session, message: Message, subscription: Subscription) -> None:
    if not subscription.group:
        return
    if message.expired(session.broker.now_us):
        session.sender.drop(message, "expired", subscription)
    else:
        session.broker.shared.redispatch(message, subscription)


def _give_back(session: Session, dispatcher: GroupDispatcher) -> None:
    """Let a group have again what the client did not acknowledge; at QoS 2 it stays the session's."""
    deliveries = session.sender.window.deliveries
    for packet_id, delivery in list(deliveries.items()):
        if isinstance(delivery, GroupDelivery) and delivery.qos == 1:
            del deliveries[packet_id]
            dispatcher.on_returned(session, delivery)
    dispatcher.on_detached(session)
