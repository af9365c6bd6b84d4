"""A session in memory: what a client is subscribed to, what is on its way to it, and what it has not released.

The broker hands it messages in the publisher's turn. While a connection is attached, the session writes packets into
that connection's outbox; otherwise, or when the window is full, messages at QoS 1 and 2 wait in its queue.
"""

from typing import Final

from mypy_extensions import i64

from heliograph.broker.message import NEVER, Message
from heliograph.broker.pubsub import Broker
from heliograph.broker.subscription import Subscriber, Subscription
from heliograph.mqtt import packets as p
from heliograph.mqtt import reason_codes as rc
from heliograph.mqtt.encode import UINT16, encode_ack
from heliograph.session.mqueue import PUBLISHED, RELEASED, Delivery, MessageQueue
from heliograph.session.options import SessionOptions
from heliograph.session.outbox import Outbox

PACKET_BYTES_MAX: Final = 268_435_460
# Bytes that QoS 0 messages may put into an outbox within one turn.
UNSENT_BYTES_MAX: Final = 16_777_216


class Session(Subscriber):
    """One client's session. It outlives connections until its expiry interval ends; owned by the session table."""

    def __init__(self, clientid: str, broker: Broker, options: SessionOptions, created_at_us: i64) -> None:
        super().__init__(clientid)
        self.broker = broker
        self.options = options
        self.created_at_us = created_at_us
        self.expiry_interval_s: i64 = 0
        self.subscriptions: dict[str, Subscription] = {}
        self._inflight: dict[int, Delivery] = {}
        self._queue: MessageQueue | None = None  # made when first needed: most sessions never queue
        self._awaiting_rel: dict[int, tuple[int, int]] = {}  # packet identifier: taken at, storage ticket
        self._last_packet_id: i64 = 0
        # The attached connection, and what its client announced.
        self._outbox: Outbox | None = None
        self._version: i64 = p.V3_1_1
        self._window: i64 = options.max_inflight
        self._packet_bytes_max: i64 = PACKET_BYTES_MAX
        self._sent_count: i64 = 0  # of `_inflight`, how many went out on this connection
        self._resend: list[int] = []

    # --- the connection

    @property
    def attached(self) -> bool:
        """Whether a connection is attached."""
        return self._outbox is not None

    def attach(self, outbox: Outbox, version: i64, receive_maximum: i64, packet_bytes_max: i64) -> None:
        """Serve a connection from now on; `resume` then sends what it must get."""
        self._outbox = outbox
        self._version = version
        self._window = min(self.options.max_inflight, receive_maximum)
        self._packet_bytes_max = packet_bytes_max

    def resume(self) -> None:
        """Send again what is unacknowledged, in its first order [MQTT-4.4.0-1], then what waited."""
        self._sent_count = 0
        self._resend = list(self._inflight)
        self._resend.reverse()
        self.pump()

    def detach(self) -> None:
        """The connection is gone; from now on messages wait."""
        self._outbox = None
        self._resend = []

    def is_behind(self) -> bool:
        """Whether the client must first take what it was sent: messages wait for it, or it is away."""
        outbox = self._outbox
        return outbox is None or outbox.congested or not self._nothing_waits()

    # --- towards the client

    def deliver(self, message: Message, subscription: Subscription) -> None:
        """Send a message at once if the connection and the window allow it; let it wait otherwise."""
        if subscription.no_local and message.clientid == self.clientid:  # [MQTT-3.8.3-3]
            self._drop(message, "no_local")
            return
        qos = subscription.qos
        if message.qos < qos and not self.options.upgrade_qos:
            qos = message.qos
        outbox = self._outbox
        if qos == 0 and outbox is not None and outbox.waiting_bytes > UNSENT_BYTES_MAX:
            # More than its publishers' turns allow: its own subscriptions overlap, and would fill memory in one turn.
            self._drop(message, "qos0_msg")
            return
        if qos == 0 and subscription.plain and outbox is not None and not outbox.congested:
            chunk = message.wire(self._version)
            if len(chunk) <= self._packet_bytes_max:
                outbox.put(chunk)
                self._delivered(message)
            else:
                self._drop(message, "too_large")
            return
        retain = message.retain and subscription.retain_as_published  # [MQTT-3.3.1-12] [MQTT-3.3.1-13]
        self._take(Delivery(message, qos, retain, subscription.subscription_id))

    def deliver_retained(self, message: Message, subscription: Subscription) -> None:
        """Send a retained message for a subscription that was just made; its retain flag is set [MQTT-3.3.1-8]."""
        if subscription.no_local and message.clientid == self.clientid:  # [MQTT-3.8.3-3]
            self._drop(message, "no_local")
            return
        qos = min(message.qos, subscription.qos)
        self._take(Delivery(message, qos, True, subscription.subscription_id))

    def pump(self) -> None:
        """Send what may be sent now: first what must be sent again, then what waits in the queue."""
        outbox = self._outbox
        while outbox is not None and not outbox.congested and self._sent_count < self._window:
            if self._resend:
                self._send_again(outbox, self._resend.pop())
                continue
            delivery = self._queue.pop() if self._queue is not None else None
            if delivery is None:
                return
            if delivery.message.expired(self.broker.now_us):
                self._drop(delivery.message, "expired")
            elif delivery.qos == 0:
                self._send_encoded(outbox, delivery, 0, False)
            else:
                self._send_new(outbox, delivery)

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
        if code >= rc.UNSPECIFIED_ERROR:
            self._finish(packet_id, delivery)
            return True
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

    def rel_ticket(self, packet_id: int) -> int:
        """The storage ticket of a QoS 2 PUBLISH that was taken and not yet released, or -1 [MQTT-4.3.3-10]."""
        awaiting = self._awaiting_rel.get(packet_id)
        return -1 if awaiting is None else awaiting[1]

    def may_await_rel(self) -> bool:
        """Whether the client may leave one more QoS 2 PUBLISH unreleased."""
        options = self.options
        if options.max_awaiting_rel == 0 or len(self._awaiting_rel) < options.max_awaiting_rel:
            return True
        oldest = next(iter(self._awaiting_rel))
        if self._awaiting_rel[oldest][0] + options.await_rel_timeout_us > self.broker.uptime_us:
            return False
        del self._awaiting_rel[oldest]
        return True

    def await_rel(self, packet_id: int, ticket: int) -> None:
        """Remember a QoS 2 PUBLISH, stored under `ticket`, until its PUBREL."""
        self._awaiting_rel[packet_id] = (self.broker.uptime_us, ticket)

    def release(self, packet_id: int) -> bool:
        """PUBREL came, or the message was refused; whether the identifier was known."""
        return self._awaiting_rel.pop(packet_id, None) is not None

    # --- subscriptions

    def subscribe(self, subscription: Subscription) -> None:
        """Add a subscription to a filter that the session does not hold yet."""
        self.subscriptions[subscription.topic_filter] = subscription
        self.broker.subscribe(subscription)

    def unsubscribe(self, topic_filter: str) -> Subscription | None:
        """Drop the subscription to a filter; it, or None if there was none. What is on its way stays."""
        subscription = self.subscriptions.pop(topic_filter, None)
        if subscription is not None:
            self.broker.unsubscribe(subscription)
        return subscription

    def close(self) -> None:
        """End the session: it has no subscriptions and holds no messages any more."""
        for subscription in self.subscriptions.values():
            self.broker.unsubscribe(subscription)
        self.subscriptions = {}
        self._inflight = {}
        self._awaiting_rel = {}
        self._queue = None
        self._outbox = None

    def statistics(self) -> dict[str, int]:
        """Sizes, named as EMQX's client information names them."""
        return {
            "subscriptions_cnt": len(self.subscriptions),
            "inflight_cnt": len(self._inflight),
            "inflight_max": self._window,
            "mqueue_len": 0 if self._queue is None else self._queue.count,
            "mqueue_max": self.options.max_mqueue_len,
            "awaiting_rel_cnt": len(self._awaiting_rel),
        }

    def __repr__(self) -> str:
        state = "attached" if self.attached else "away"
        return f"Session({self.clientid!r}, {state}, {len(self._inflight)} inflight)"

    # --- inside

    def _take(self, delivery: Delivery) -> None:
        outbox = self._outbox
        free = outbox is not None and not outbox.congested
        if outbox is not None and free and delivery.qos == 0:
            self._send_encoded(outbox, delivery, 0, False)
        elif outbox is not None and free and self._sent_count < self._window and self._nothing_waits():
            self._send_new(outbox, delivery)
        elif outbox is not None and delivery.qos == 0:
            # A reader too slow for QoS 0 loses it; waiting would only delay the loss.
            self._drop(delivery.message, "qos0_msg")
        else:
            self._wait(delivery)

    def _wait(self, delivery: Delivery) -> None:
        queue = self._queue
        if queue is None:
            queue = MessageQueue(self.options.max_mqueue_len, self.options.mqueue_store_qos0)
            self._queue = queue
        dropped = queue.push(delivery)
        if dropped is not None:
            self._drop(dropped.message, "qos0_msg" if dropped is delivery and delivery.qos == 0 else "queue_full")

    def _nothing_waits(self) -> bool:
        return not self._resend and (self._queue is None or self._queue.count == 0)

    def _send_new(self, outbox: Outbox, delivery: Delivery) -> None:
        packet_id = self._next_packet_id()
        delivery.phase = PUBLISHED
        message = delivery.message
        if delivery.retain or delivery.subscription_id != 0 or message.expiry_s != NEVER:
            if not self._send_encoded(outbox, delivery, packet_id, False):
                return
        else:
            head, tail = message.head_and_tail(self._version, delivery.qos)
            if len(head) + 2 + len(tail) > self._packet_bytes_max:
                self._drop(message, "too_large")
                return
            outbox.put_publish(head, UINT16[packet_id], tail)
            self._delivered(message)
        self._inflight[packet_id] = delivery
        self._sent_count += 1

    def _send_encoded(self, outbox: Outbox, delivery: Delivery, packet_id: int, dup: bool) -> bool:
        packet = delivery.message.encode(
            self._version, delivery.qos, delivery.retain, dup, packet_id, delivery.subscription_id, self.broker.now_us
        )
        if len(packet) > self._packet_bytes_max:  # [MQTT-3.1.2-24]
            self._drop(delivery.message, "too_large")
            return False
        outbox.put(packet)
        self._delivered(delivery.message)
        return True

    def _send_again(self, outbox: Outbox, packet_id: int) -> None:
        delivery = self._inflight.get(packet_id)
        if delivery is None:
            return
        if delivery.phase == RELEASED:
            outbox.put(encode_ack(p.PUBREL, packet_id, rc.SUCCESS, self._version))
        elif not self._send_encoded(outbox, delivery, packet_id, True):  # [MQTT-3.3.1-1]
            del self._inflight[packet_id]
            return
        self._sent_count += 1

    def _finish(self, packet_id: int, delivery: Delivery) -> None:
        del self._inflight[packet_id]
        if self._resend and packet_id in self._resend:
            self._resend.remove(packet_id)  # not sent on this connection, so it took no place in its window
        elif self._sent_count > 0:
            self._sent_count -= 1
        self.broker.counters.messages_acked += 1
        if self.broker.hooks.message_acked.callbacks:
            self.broker.hooks.message_acked.run((self.clientid, delivery.message))
        if self._queue is not None or self._resend:
            self.pump()

    def _delivered(self, message: Message) -> None:
        self.broker.counters.messages_delivered += 1
        if self.broker.hooks.message_delivered.callbacks:
            self.broker.hooks.message_delivered.run((self.clientid, message))

    def _drop(self, message: Message, reason: str) -> None:
        counters = self.broker.counters
        if reason == "qos0_msg":
            counters.delivery_dropped_qos0 += 1
        elif reason == "queue_full":
            counters.delivery_dropped_queue_full += 1
        elif reason == "no_local":
            counters.delivery_dropped_no_local += 1
        elif reason == "expired":
            counters.delivery_dropped_expired += 1
        else:
            counters.delivery_dropped_too_large += 1
        if self.broker.hooks.delivery_dropped.callbacks:
            self.broker.hooks.delivery_dropped.run((self.clientid, message, reason))

    def _next_packet_id(self) -> int:
        packet_id = self._last_packet_id
        while True:  # ends: the window is smaller than the number of identifiers
            packet_id = packet_id + 1 if packet_id < 65_535 else 1
            if packet_id not in self._inflight:
                self._last_packet_id = packet_id
                return packet_id
