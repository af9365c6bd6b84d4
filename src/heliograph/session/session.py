"""A session in memory: what a client is subscribed to, what is on its way to it, and what it has not released.

The broker hands it messages in the publisher's turn. While a connection is attached, the session writes packets into
that connection's outbox; otherwise, or when the window is full, messages at QoS 1 and 2 wait in its queue.
"""

from typing import Final

from mypy_extensions import i64

from heliograph.broker.drops import Drops
from heliograph.broker.message import NEVER, Message
from heliograph.broker.pubsub import Broker
from heliograph.broker.subscription import Subscriber, Subscription
from heliograph.mqtt import packets as p
from heliograph.mqtt import reason_codes as rc
from heliograph.mqtt.encode import UINT16, encode_ack
from heliograph.mqtt.topic import EXCLUSIVE_PREFIX
from heliograph.session.access_check import AccessCheck
from heliograph.session.aliases import OutboundAliases
from heliograph.session.awaiting_rel import AwaitingRel
from heliograph.session.group_delivery import GroupDelivery, GroupDispatcher
from heliograph.session.mqueue import PUBLISHED, RELEASED, Delivery, MessageQueue, make_queue, size_of
from heliograph.session.options import SessionOptions
from heliograph.session.outbox import Outbox
from heliograph.session.will import Will

PACKET_BYTES_MAX: Final = 268_435_460
# Bytes in an outbox beyond which neither QoS 0 messages nor a queue add to it within one turn.
UNSENT_BYTES_MAX: Final = 16_777_216
# What sending from the queue costs, in deliveries.
_BYTES_PER_WORK_LOG2: Final = 8
# What a subscription costs beside its filter, and an open identifier of QoS 2; see docs/security.md.
_SUBSCRIPTION_BYTES: Final = 300
_IDENTIFIER_BYTES: Final = 100
_LOOKED_NAMES: Final = 16


class Session(Subscriber):
    """One client's session. It outlives connections until its expiry interval ends; owned by the session table."""

    def __init__(self, clientid: str, broker: Broker, options: SessionOptions, created_at_us: i64) -> None:
        super().__init__(clientid)
        self.broker = broker
        self.options = options
        self.created_at_us = created_at_us
        self.expiry_interval_s: i64 = 0
        self.mountpoint = ""  # that its subscriptions were made with
        self.subscriptions: dict[str, Subscription] = {}  # by the filters as the client knows them
        self.shared_count: i64 = 0  # of these, shared ones
        self._drops: Drops | None = None  # made with the first drop
        self._inflight: dict[int, Delivery] = {}
        self._queue: MessageQueue | None = None  # made when first needed: most sessions never queue
        self._awaiting_rel: AwaitingRel | None = None
        self._last_packet_id: i64 = 0
        self._mount_bytes: i64 = 0  # how much of a topic stands before what the client knows
        self._access_check: AccessCheck | None = None
        # The attached connection, and what its client announced.
        self._outbox: Outbox | None = None
        self._version: i64 = p.V3_1_1
        self._window: i64 = options.max_inflight
        self._packet_bytes_max: i64 = PACKET_BYTES_MAX
        self._aliases: OutboundAliases | None = None
        self._shares_encoding = True  # its packets are those of everybody else
        self._qos0_waits = False  # QoS 0 messages that came while it was away are still in the queue
        self._passes_qos0 = True  # neither keeps a QoS 0 message from the shortest way
        self._has_ended = False
        self._sent_count: i64 = 0  # of `_inflight`, how many went out on this connection
        self._resend: dict[int, None] = {}  # to be sent again; the last first
        self.dispatcher: GroupDispatcher | None = None  # of the durable groups that it is a member of

    # --- the connection

    def set_options(self, options: SessionOptions) -> None:
        """Keep to other limits: the client came back through another listener."""
        if options is self.options:
            return
        self.options = options
        if self._awaiting_rel is not None:
            self._awaiting_rel.options = options
        queue, self._queue = self._queue, None
        while queue is not None:
            delivery = queue.pop()
            if delivery is None:
                return
            self._wait(delivery)

    @property
    def dropped_count(self) -> int:
        """How many messages its client did not get since it began, apart from those that it did not want."""
        return 0 if self._drops is None else sum(self._drops.counts().values())

    @property
    def attached(self) -> bool:
        """Whether a connection is attached."""
        return self._outbox is not None

    @property
    def outbox(self) -> Outbox | None:
        """Where packets for its connection go; None while it is away."""
        return self._outbox

    def attach(
        self,
        outbox: Outbox,
        version: i64,
        receive_maximum: i64,
        packet_bytes_max: i64,
        alias_max: i64 = 0,
        mount_bytes: i64 = 0,
        access_check: AccessCheck | None = None,
    ) -> None:
        """Serve a connection from now on; `resume` then sends what it must get.

        Args:
            alias_max: The highest topic alias that may be used towards the client.
            mount_bytes: Length of the mountpoint, which the client's topics lack.
            access_check: Who is asked before a wildcard's message is handed out, if anybody.
        """
        self.on_attach()
        self._outbox = outbox
        self._version = version
        self._window = min(self.options.max_inflight, receive_maximum)  # [MQTT-3.3.4-9] [MQTT-4.9.0-1]
        self._packet_bytes_max = packet_bytes_max
        self._aliases = OutboundAliases(alias_max) if alias_max > 0 else None
        self._mount_bytes = mount_bytes
        self._access_check = access_check
        self._shares_encoding = alias_max == 0 and mount_bytes == 0
        self._qos0_waits = self._queue is not None and self._queue.holds_qos0()
        self._passes_qos0 = self._shares_encoding and not self._qos0_waits and not self.has_backlog()
        # Known before anything new can come: that must not overtake them, and they are sent again only once, members of
        # shared groups included. [MQTT-4.8.2-4] 3.1.1 [MQTT-4.4.0-1] 3.1.1 [MQTT-4.6.0-1]
        self._sent_count = 0
        self._resend = dict.fromkeys(reversed(list(self._inflight)))

    def on_attach(self) -> None:
        """A connection is about to be attached: what a session that keeps more than this one has to do first."""

    def has_backlog(self) -> bool:
        """Whether older messages wait elsewhere than in its queue, which new ones must not overtake."""
        return False

    def recall(self) -> None:
        """Have at hand what is in flight: its client is about to be let in.

        Raises:
            ProtocolError: It cannot be read now.
        """

    def on_refused(self, packet_id: int, ticket: i64) -> None:
        """The commit of a message was refused that waits for it under a packet identifier."""

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
        """The connection is gone; from now on messages wait."""
        self._outbox = None
        self._aliases = None  # they end with the connection [MQTT-3.3.2-7]
        self._resend = {}
        if self.dispatcher is not None:
            self._give_back(self.dispatcher)

    def is_behind(self) -> bool:
        """Whether the client must first take what it was sent: messages wait for it, or it is away."""
        outbox = self._outbox
        return outbox is None or outbox.congested or not self._nothing_waits()

    # --- towards the client

    def abort(self) -> None:
        """Cut its client's connection: it could not take a message. What it keeps waits for the client's return."""
        if self._outbox is not None:
            self._outbox.abort()

    def deliver(self, message: Message, subscription: Subscription) -> None:
        """Send a message at once if the connection and the window allow it; let it wait otherwise."""
        options = self.options
        if subscription.no_local and message.clientid == self.clientid:
            self._drop(message, "no_local")  # [MQTT-3.8.3-3]
            return
        if subscription.is_wild and not self._may_have(message.topic):
            self._drop(message, "not_authorized")
            return
        if self._mount_bytes > 0 and self._hides(message.topic, subscription):
            return
        qos = subscription.qos
        if message.qos < qos and not options.upgrade_qos:  # [MQTT-3.8.4-8] 3.1.1 [MQTT-3.8.4-6]
            qos = message.qos
        outbox = self._outbox
        if qos == 0 and outbox is not None and outbox.waiting_bytes > UNSENT_BYTES_MAX:
            # More than its publishers' turns allow: its own subscriptions overlap, and would fill memory in one turn.
            self._drop(message, "qos0_msg")
            return
        if qos == 0 and subscription.plain and self._passes_qos0 and outbox is not None and not outbox.congested:
            if not self._pass(outbox, message):
                self._drop(message, "too_large")
            return
        # [MQTT-3.3.1-12] [MQTT-3.3.1-13] 3.1.1 [MQTT-3.3.1-9]
        retain = message.retain and subscription.retain_as_published
        self._take(Delivery(message, qos, retain, subscription))

    def offer(self, message: Message, subscription: Subscription, last: bool) -> bool:
        """Take a message of a shared group, or leave it to another member.

        Args:
            last: Nobody else could take it: better it waits here for the client to come back than it is lost.
        """
        outbox = self._outbox
        free = outbox is not None and not outbox.congested
        if not (free or last) or self._has_ended:
            return False
        if subscription.is_wild and not self._may_have(message.topic):
            return False
        if self._mount_bytes > 0 and self._hides(message.topic, subscription):
            return False
        qos = subscription.qos
        if message.qos < qos and not self.options.upgrade_qos:  # [MQTT-4.8.2-3]
            qos = message.qos
        if outbox is not None and qos == 0:
            takes = free and outbox.waiting_bytes <= UNSENT_BYTES_MAX
            if takes and subscription.plain and self._passes_qos0:
                return self._pass(outbox, message)
        elif free and self._sent_count < self._window:
            takes = True
        else:
            has_room = self._queue is None or not self._queue.is_full(message)
            takes = has_room and (qos != 0 or self.options.mqueue_store_qos0)
        if takes:
            self._take(Delivery(message, qos, message.retain and subscription.retain_as_published, subscription))
        return takes

    def deliver_retained(self, message: Message, subscription: Subscription) -> None:
        """Send a retained message for a subscription that was just made; its retain flag is set."""
        if subscription.no_local and message.clientid == self.clientid:  # [MQTT-3.8.3-3]
            self._drop(message, "no_local")
            return
        access_check = self._access_check
        if (subscription.is_wild and not self._may_have(message.topic)) or (
            access_check is not None and not access_check.may_come_from(message)
        ):
            self._drop(message, "not_authorized")
            return
        if self._mount_bytes > 0 and self._hides(message.topic, subscription):
            return
        qos = subscription.qos
        if message.qos < qos and not self.options.upgrade_qos:
            qos = message.qos
        self._take(Delivery(message, qos, True, subscription))  # 3.1.1 [MQTT-3.3.1-8]

    def pump(self) -> None:
        """Send what may be sent now: first what must be sent again, then what waits in the queue.

        It ends early when the outbox holds enough; then it is to be called once more when that is written.
        """
        outbox = self._outbox
        while (
            outbox is not None
            and not outbox.congested
            and self._sent_count < self._window  # [MQTT-4.9.0-2]
            and outbox.waiting_bytes <= UNSENT_BYTES_MAX
        ):
            if self._resend:
                self._send_again(outbox, self._resend.popitem()[0])
                continue
            delivery = self._queue.pop() if self._queue is not None else None
            if delivery is None:
                break
            self._send_waiting(outbox, delivery)
        if self._qos0_waits and outbox is not None and self._queue is not None:
            self._pump_qos0(outbox, self._queue)
        if self.dispatcher is not None:
            self.dispatcher.on_room(self)

    def has_room(self) -> bool:
        """Whether it takes one more message that waits elsewhere than here."""
        outbox = self._outbox
        return (
            outbox is not None
            and not outbox.congested
            and outbox.waiting_bytes <= UNSENT_BYTES_MAX
            and self._sent_count < self._window
            and self._nothing_waits()
        )

    def may_borrow(self, topic: str, subscription: Subscription) -> bool:
        """Whether its client may have a message of a shared group."""
        if subscription.is_wild and not self._may_have(topic):
            return False
        return self._mount_bytes == 0 or not self._hides(topic, subscription)

    def borrow(self, delivery: GroupDelivery) -> bool:
        """Send a message that a group lends, while there is room: whether it is in flight now, or done with."""
        outbox = self._outbox
        message = delivery.message
        if outbox is None or message.expired(self.broker.now_us):
            self._drop(message, "expired")
            return False
        self.broker.work += 1 + (len(message.publish.data) >> _BYTES_PER_WORK_LOG2)
        if delivery.qos == 0:
            self._send_encoded(outbox, delivery, 0, False)
            return False
        before = self._sent_count
        self._send_new(outbox, delivery)
        return self._sent_count > before

    def retry(self, uptime_us: i64) -> None:
        """Send an MQTT 3 client again what it has not acknowledged for the retry interval."""
        outbox = self._outbox
        if outbox is None or outbox.congested or self._version == p.V5 or self._resend:  # [MQTT-4.4.0-1]
            return
        due = uptime_us - self.options.retry_interval_us
        for packet_id, delivery in list(self._inflight.items()):
            if delivery.sent_at_us <= due:
                self._sent_count -= 1
                self._send_again(outbox, packet_id)

    def on_puback(self, packet_id: int) -> bool:
        """The client has a QoS 1 message; whether the identifier was known."""
        delivery = self._inflight.get(packet_id)
        if delivery is None or delivery.qos != 1:
            return False
        self._finish(packet_id, delivery)
        return True

    def on_pubrec(self, packet_id: int, code: int) -> bool:
        """The client has a QoS 2 message, or refuses it; whether the identifier was known."""
        delivery = self._inflight.get(packet_id)
        if delivery is None or delivery.qos != 2:
            return False
        # the message is done, and not for another member either [MQTT-4.8.2-6] [MQTT-4.4.0-2]
        if code >= rc.UNSPECIFIED_ERROR:
            self._finish(packet_id, delivery)
            return True
        # from now on it is never published again [MQTT-4.3.3-4] [MQTT-4.3.3-5] [MQTT-4.3.3-6] 3.1.1 [MQTT-4.3.3-1]
        delivery.phase = RELEASED
        return True

    def on_pubcomp(self, packet_id: int) -> bool:
        """A QoS 2 message is done; whether the identifier was known."""
        delivery = self._inflight.get(packet_id)
        if delivery is None or delivery.phase != RELEASED:
            return False
        self._finish(packet_id, delivery)
        return True

    # --- from the client

    @property
    def awaiting_rel(self) -> AwaitingRel:
        """The QoS 2 messages that it was sent and has not released."""
        awaiting = self._awaiting_rel
        if awaiting is None:
            awaiting = AwaitingRel(self.options)
            self._awaiting_rel = awaiting
        return awaiting

    # --- subscriptions

    def subscribe(self, name: str, subscription: Subscription) -> None:
        """Add a subscription under a filter, as the client knows it, that the session does not hold yet."""
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
            self._withdraw(name, subscription)  # [MQTT-3.10.4-2] 3.1.1 [MQTT-3.10.4-2]
        return subscription

    def pass_on(self) -> None:
        """Let other members of their groups have what waits here for shared subscriptions that were dropped.

        It goes through the whole queue, so it is called once for any number of them.
        """
        queue, self._queue = self._queue, None
        if queue is None:
            return
        self.broker.work += queue.count
        left: list[Delivery] = []
        while True:
            delivery = queue.pop()
            if delivery is None:
                break
            subscription = delivery.subscription
            if subscription.group and subscription.slot < 0:
                left.append(delivery)
            else:
                self._wait(delivery)
        for delivery in left:
            self._pass_on(delivery.message, delivery.subscription)

    def close(self) -> None:
        """End the session: it takes and holds no messages any more. Its subscriptions go with `drop_subscriptions`."""
        self._has_ended = True
        self._outbox = None
        for delivery in self._inflight.values():
            # One at QoS 2 that the client may have got must not go to anybody else [MQTT-4.8.2-5].
            if delivery.qos == 1 and not isinstance(delivery, GroupDelivery):
                self._pass_on(delivery.message, delivery.subscription)
        while self._queue is not None:
            waiting = self._queue.pop()
            if waiting is None:
                break
            self._pass_on(waiting.message, waiting.subscription)
        self._inflight = {}
        self._awaiting_rel = None
        self._queue = None

    def drop_subscriptions(self, count_max: i64) -> bool:
        """Drop so many subscriptions at the most; whether none is left."""
        while self.subscriptions and count_max > 0:
            name, subscription = self.subscriptions.popitem()
            self._withdraw(name, subscription)
            count_max -= 1
        return not self.subscriptions

    @property
    def queued_count(self) -> int:
        """How many messages wait in its queue."""
        queue = self._queue
        return 0 if queue is None else queue.count

    def held_bytes(self) -> tuple[int, int, int]:
        """About how many bytes its subscriptions, its messages and its open QoS 2 identifiers have."""
        subscriptions = self.subscriptions
        count: i64 = len(subscriptions)
        name_bytes: i64 = 0
        looked: i64 = 0
        for name in subscriptions:  # some stand for all: a client may have a hundred thousand
            name_bytes += len(name)
            looked += 1
            if looked >= _LOOKED_NAMES:
                break
        if looked > 0:
            name_bytes = count * (_SUBSCRIPTION_BYTES + name_bytes // looked)
        queue_bytes: i64 = 0 if self._queue is None else self._queue.size_bytes
        for delivery in self._inflight.values():
            queue_bytes += size_of(delivery.message)
        identifiers: i64 = 0 if self._awaiting_rel is None else len(self._awaiting_rel)
        return name_bytes, queue_bytes, identifiers * _IDENTIFIER_BYTES

    def shed_qos0(self) -> None:
        """Drop the QoS 0 messages that wait: memory is short."""
        queue = self._queue
        if queue is None:
            return
        while True:
            delivery = queue.pop_qos0()
            if delivery is None:
                return
            self.broker.pressure.qos0_shed += 1
            self._drop(delivery.message, "qos0_msg")

    def statistics(self) -> dict[str, int]:
        """Sizes, named as EMQX's client information names them."""
        return {
            "subscriptions_cnt": len(self.subscriptions),
            "inflight_cnt": len(self._inflight),
            "inflight_max": self._window,
            "mqueue_len": self.queued_count,
            "mqueue_max": self.options.max_mqueue_len,
            "mqueue_bytes": 0 if self._queue is None else self._queue.size_bytes,
            "mqueue_bytes_max": self.options.max_mqueue_bytes,
            "mqueue_dropped": self.dropped_count,
            "awaiting_rel_cnt": 0 if self._awaiting_rel is None else len(self._awaiting_rel),
        }

    def __repr__(self) -> str:
        state = "attached" if self.attached else "away"
        return f"Session({self.clientid!r}, {state}, {len(self._inflight)} inflight)"

    # --- inside

    def _pass(self, outbox: Outbox, message: Message) -> bool:
        """Send a message at QoS 0 in the encoding that all its receivers share, unless it is too large for this one."""
        chunk = message.wire(self._version)
        if len(chunk) > self._packet_bytes_max:
            return False
        outbox.put(chunk)
        self._sent(message, 0)
        return True

    def _take(self, delivery: Delivery) -> None:
        outbox = self._outbox
        if outbox is not None and delivery.qos == 0 and not self._qos0_waits:
            if outbox.congested:
                # A reader too slow for QoS 0 loses it; waiting would only delay the loss.
                self._drop(delivery.message, "qos0_msg")
            else:
                self._send_encoded(outbox, delivery, 0, False)
        elif (
            outbox is not None
            and delivery.qos != 0
            and not outbox.congested
            and self._sent_count < self._window  # [MQTT-3.3.4-10] [MQTT-4.9.0-3]
            and self._nothing_waits()
        ):
            self._send_new(outbox, delivery)
        else:
            self._wait(delivery)

    def _pump_qos0(self, outbox: Outbox, queue: MessageQueue) -> None:
        # They need no place in the window, and later ones must not overtake them [MQTT-4.6.0-6].
        while not outbox.congested and outbox.waiting_bytes <= UNSENT_BYTES_MAX:
            delivery = queue.pop_qos0()
            if delivery is None:
                self._qos0_waits = False
                self._passes_qos0 = self._shares_encoding
                return
            self._send_waiting(outbox, delivery)

    def _send_waiting(self, outbox: Outbox, delivery: Delivery) -> None:
        message = delivery.message
        self.broker.work += 1 + (len(message.publish.data) >> _BYTES_PER_WORK_LOG2)
        if message.expired(self.broker.now_us):  # [MQTT-3.3.2-5] [MQTT-4.3.3-7]
            self._drop(message, "expired")
        elif not self._may_have(message.topic):  # its rights may have changed while the message waited
            self._drop(message, "not_authorized")
        elif delivery.qos == 0:
            self._send_encoded(outbox, delivery, 0, False)
        else:
            self._send_new(outbox, delivery)

    def _wait(self, delivery: Delivery) -> None:
        if self._has_ended:  # a subscription that is not dropped yet
            return
        if delivery.qos == 0 and self.broker.pressure.sheds_qos0:
            self.broker.pressure.qos0_shed += 1
            self._drop(delivery.message, "qos0_msg")
            return
        queue = self._queue
        if queue is None:
            queue = make_queue(self.options)
            self._queue = queue
        dropped = queue.push(delivery)
        while dropped is not None:  # several small ones may have to go for a large one
            self._drop(dropped.message, "qos0_msg" if dropped is delivery and delivery.qos == 0 else "queue_full")
            dropped = queue.shed()

    def _hides(self, topic: str, subscription: Subscription) -> bool:
        """Whether a mountpoint made a filter match that does not match what the client knows of the topic."""
        at = len(self.mountpoint)
        return topic[at : at + 1] == "$" and subscription.topic_filter[at : at + 1] in ("+", "#")  # [MQTT-4.7.2-1]

    def _may_have(self, topic: str) -> bool:
        # Whoever may subscribe to a filter with wildcards need not be allowed all that it matches.
        access_check = self._access_check
        return (
            access_check is None or not self.broker.hooks.client_authorize.callbacks or access_check.may_receive(topic)
        )

    def _withdraw(self, name: str, subscription: Subscription) -> None:
        if subscription.group:
            self.shared_count -= 1
        self.broker.unsubscribe(subscription)
        if name.startswith(EXCLUSIVE_PREFIX) and self.broker.exclusive.get(subscription.topic_filter) is self:
            del self.broker.exclusive[subscription.topic_filter]

    def _pass_on(self, message: Message, subscription: Subscription) -> None:
        """Let another member of the group have a message; nothing where the subscription is not shared."""
        if not subscription.group:
            return
        if message.expired(self.broker.now_us):
            self._drop(message, "expired")
        else:
            self.broker.shared.redispatch(message, subscription)

    def _give_back(self, dispatcher: GroupDispatcher) -> None:
        """Let a group have again what the client did not acknowledge; at QoS 2 it stays the session's."""
        for packet_id, delivery in list(self._inflight.items()):
            if isinstance(delivery, GroupDelivery) and delivery.qos == 1:
                del self._inflight[packet_id]
                dispatcher.on_returned(self, delivery)
        dispatcher.on_detached(self)

    def _nothing_waits(self) -> bool:
        return not self._resend and (self._queue is None or self._queue.count == 0)

    def _send_new(self, outbox: Outbox, delivery: Delivery) -> None:
        packet_id = self._next_packet_id()
        delivery.phase = PUBLISHED
        delivery.sent_at_us = self.broker.uptime_us
        message = delivery.message
        if not self._shares_encoding or delivery.retain or delivery.subscription_id != 0 or message.expiry_s != NEVER:
            if not self._send_encoded(outbox, delivery, packet_id, False):
                return
        else:
            head, tail = message.head_and_tail(self._version, delivery.qos)
            if len(head) + 2 + len(tail) > self._packet_bytes_max:
                self._drop(message, "too_large")
                return
            outbox.put_publish(head, UINT16[packet_id], tail)
            self._sent(message, delivery.qos)
        self._inflight[packet_id] = delivery  # [MQTT-4.3.2-3] [MQTT-4.3.3-3] 3.1.1 [MQTT-4.3.2-1] 3.1.1 [MQTT-4.3.3-1]
        self._sent_count += 1

    def _send_encoded(self, outbox: Outbox, delivery: Delivery, packet_id: int, dup: bool) -> bool:
        message = delivery.message
        topic = message.publish.topic
        if self._mount_bytes > 0:
            topic = topic[self._mount_bytes :]
            if not topic:  # `#` matches the level above the mountpoint too, which is not the client's
                self._drop(message, "not_authorized")
                return False
        known_alias: i64 = 0
        new_alias: i64 = 0
        aliases = self._aliases
        if aliases is not None:
            known_alias = aliases.find(topic)
            if known_alias == 0 and not dup:  # a client may pass over what it has already, alias and all
                new_alias = aliases.assign(topic)
        packet = message.encode(
            self._version,
            delivery.qos,
            delivery.retain,
            dup,
            packet_id,
            delivery.subscription_id,
            self.broker.now_us,
            topic if known_alias == 0 else b"",
            known_alias + new_alias,
        )
        if len(packet) > self._packet_bytes_max:
            self._drop(message, "too_large")  # [MQTT-3.1.2-24] [MQTT-3.1.2-25]
            return False
        if aliases is not None and new_alias != 0:
            aliases.keep(topic, new_alias)
        outbox.put(packet)
        self._sent(message, delivery.qos)
        return True

    def _send_again(self, outbox: Outbox, packet_id: int) -> None:
        delivery = self._inflight.get(packet_id)
        if delivery is None:
            return
        delivery.sent_at_us = self.broker.uptime_us
        if delivery.phase == RELEASED:
            outbox.put(encode_ack(p.PUBREL, packet_id, rc.SUCCESS, self._version))
            self.broker.counters.pubrel_sent += 1
        elif not self._send_encoded(outbox, delivery, packet_id, True):  # [MQTT-3.3.1-1] 3.1.1 [MQTT-3.3.1-1]
            del self._inflight[packet_id]
            return
        self._sent_count += 1

    def _finish(self, packet_id: int, delivery: Delivery) -> None:
        del self._inflight[packet_id]
        if self._resend and packet_id in self._resend:
            del self._resend[packet_id]  # not sent on this connection, so it took no place in its window
        elif self._sent_count > 0:
            self._sent_count -= 1
        broker = self.broker
        broker.counters.messages_acked += 1
        if broker.hooks.message_acked.callbacks:
            broker.hooks.message_acked.run((self.clientid, delivery.message))
        if broker.hooks.delivery_completed.callbacks:
            broker.hooks.delivery_completed.run((self.clientid, delivery.message))
        dispatcher = self.dispatcher
        if dispatcher is not None:
            if isinstance(delivery, GroupDelivery):
                dispatcher.on_done(self, delivery)
            dispatcher.on_room(self)
        if self._queue is not None or self._resend:
            self.pump()

    def _sent(self, message: Message, qos: i64) -> None:
        counters = self.broker.counters
        if qos == 0:
            counters.qos0_sent += 1
        elif qos == 1:
            counters.qos1_sent += 1
        else:
            counters.qos2_sent += 1
        if self.broker.hooks.message_delivered.callbacks:
            self.broker.hooks.message_delivered.run((self.clientid, message))

    def _drop(self, message: Message, reason: str) -> None:
        counters = self.broker.counters
        if reason == "no_local":  # what the client asked for is no loss
            counters.delivery_dropped_no_local += 1
        else:
            self._count_drop(reason)
        if self.broker.hooks.delivery_dropped.callbacks:
            self.broker.hooks.delivery_dropped.run((self.clientid, message, reason))

    def _count_drop(self, reason: str) -> None:
        counters, drops = self.broker.counters, self._drops
        if drops is None:
            drops = Drops(self.clientid)
            self._drops = drops
        if reason == "qos0_msg":
            counters.delivery_dropped_qos0 += 1
            drops.qos0_msg += 1
        elif reason == "queue_full":
            counters.delivery_dropped_queue_full += 1
            drops.queue_full += 1
        elif reason == "expired":
            counters.delivery_dropped_expired += 1
            drops.expired += 1
        elif reason == "not_authorized":
            counters.delivery_dropped_not_authorized += 1
            drops.not_authorized += 1
        else:
            counters.delivery_dropped_too_large += 1
            drops.too_large += 1
        if not drops.is_watched:
            self.broker.drops.watch(drops)

    def _next_packet_id(self) -> int:
        packet_id = self._last_packet_id
        while True:  # ends: the window is smaller than the number of identifiers
            packet_id = packet_id + 1 if packet_id < 65_535 else 1
            # [MQTT-2.2.1-4] [MQTT-4.3.2-1] [MQTT-4.3.3-1] 3.1.1 [MQTT-2.3.1-4] 3.1.1 [MQTT-4.3.2-1]
            if packet_id not in self._inflight:
                self._last_packet_id = packet_id
                return packet_id
