"""Sends the messages of one client: those that wait in its queue, and those in flight in its window.

This decides which message is sent when, which is sent again, and which is dropped. It knows no protocol; an `Encoder`
writes the messages.
"""

from typing import Final

from mypy_extensions import i64

from heliograph.broker.drops import Drops
from heliograph.broker.message import Message
from heliograph.broker.pubsub import Broker
from heliograph.broker.subscription import Subscription
from heliograph.broker.tracer import DROPPED, QUEUED, SENT
from heliograph.session.access_check import AccessCheck
from heliograph.session.backlog import Backlog
from heliograph.session.encoder import Encoder
from heliograph.session.group_delivery import GroupDelivery
from heliograph.session.mqueue import PUBLISHED, RELEASED, Delivery, MessageQueue, make_queue, wants_same_queue
from heliograph.session.options import SessionOptions
from heliograph.session.outbox import Outbox
from heliograph.session.window import Window

# Bytes in an outbox beyond which neither QoS 0 messages nor a queue add to it within one turn.
UNSENT_BYTES_MAX: Final = 16_777_216
# What sending a message costs that was not just published: in deliveries, beside the first.
BYTES_PER_WORK_LOG2: Final = 8


class MessageSender:
    """Sends what one client gets; owned by its session, and like it outlives connections.

    Attributes:
        queue: What waits; made when first needed, since most sessions never queue.
        outbox: Where packets for the connection go; None while the client is away.
        direct: The encoder, while QoS 0 messages may take the shortest way to it; see `send_plain`.
        access_check: Asked before a message is handed out for a filter with wildcards; None if all may be.
        backlog: What a durable session has yet to replay; None for one in memory.
        drops: What its client did not get, by reason; made with the first of it.
        has_ended: Its session ended: it takes no messages.
    """

    def __init__(self, clientid: str, broker: Broker, options: SessionOptions) -> None:
        self.clientid = clientid
        self.broker = broker
        self.options = options
        self.window = Window(options.max_inflight)
        self.queue: MessageQueue | None = None
        self.outbox: Outbox | None = None
        self.direct: Encoder | None = None
        self.access_check: AccessCheck | None = None
        self.backlog: Backlog | None = None
        self.drops: Drops | None = None
        self._encoder: Encoder | None = None  # the connection's
        # Together they take eight bytes, each by itself as many.
        self._qos0_waits = False  # QoS 0 messages that came while it was away are still in the queue
        self.is_traced = False
        self.has_ended = False

    # --- the connection

    def begin(self, outbox: Outbox, encoder: Encoder, receive_maximum: i64, access_check: AccessCheck | None) -> None:
        self.outbox = outbox
        self._encoder = encoder
        self.access_check = access_check
        self._qos0_waits = self._holds_qos0()
        self.open_direct()
        self.window.begin(min(self.options.max_inflight, receive_maximum))  # [MQTT-3.3.4-9] [MQTT-4.9.0-1]

    def end(self) -> None:
        self.outbox = None
        self._encoder = None
        self.direct = None
        self.window.end()

    def set_options(self, options: SessionOptions, receive_maximum: i64) -> None:
        before, self.options = self.options, options
        if not wants_same_queue(before, options):
            for delivery in self.empty_queue():
                self.wait(delivery)
            if self._qos0_waits and not self._holds_qos0():
                self._qos0_waits = False
                self.open_direct()
        if self.outbox is not None:
            self.window.size = min(options.max_inflight, receive_maximum)

    def close(self) -> list[Delivery]:
        """Take and hold no messages any more: those that the client has certainly not got."""
        self.has_ended = True
        self.outbox = None
        # One at QoS 2 that the client may have got must not go to another member [MQTT-4.8.2-5].
        left = [
            delivery
            for delivery in self.window.deliveries.values()
            if delivery.qos == 1 and not isinstance(delivery, GroupDelivery)
        ]
        self.window.deliveries = {}
        return left + self.empty_queue()

    def is_behind(self) -> bool:
        """Whether the client must first take what it was sent: messages wait for it, or it is away."""
        outbox = self.outbox
        return outbox is None or outbox.congested or not self._nothing_waits()

    def has_room(self) -> bool:
        outbox = self.outbox
        return (
            outbox is not None
            and not outbox.congested
            and outbox.waiting_bytes <= UNSENT_BYTES_MAX
            and self.window.has_room()
            and self._nothing_waits()
        )

    def may_have(self, topic: str, subscription: Subscription) -> bool:
        """Whether the client may have a message: one that may subscribe to a wildcard need not be allowed all of it."""
        access_check = self.access_check
        if access_check is None:
            return True
        rights = self.broker.rights
        if not rights.checks_deliveries and not (subscription.has_client_events and rights.is_closed(topic)):
            return True
        return access_check.may_receive(topic, subscription.qos)

    def refuse(self, message: Message, subscription: Subscription) -> None:
        """Drop a message that the client may not have."""
        if not (
            subscription.has_client_events and self.broker.rights.is_closed(message.topic)
        ):  # else it has not asked for it
            self.drop(message, "not_authorized", subscription)

    def open_direct(self) -> None:
        """Let QoS 0 messages take the shortest way, unless older ones wait."""
        encoder, backlog = self._encoder, self.backlog
        is_behind = self._qos0_waits or (backlog is not None and backlog.behind)
        self.direct = encoder if encoder is not None and encoder.is_shared and not is_behind else None

    # --- towards the client

    def send_plain(self, encoder: Encoder, outbox: Outbox, message: Message, subscription: Subscription) -> bool:
        """Send a message at QoS 0 in the encoding that all its receivers share, unless it is too large for this one."""
        if not encoder.put_plain(outbox, message):
            shorter = self._without_context(message) if message.is_traced else message
            if shorter is message or not encoder.put_plain(outbox, shorter):
                return False
        broker = self.broker
        broker.counters.qos0_sent += 1
        if broker.delivery_times is not None:
            broker.delivery_times.on_sent(self.clientid, message, 0, broker.now_us)
        outbox.sent_qos0 += 1
        if message.is_traced or self.is_traced:
            self.trace(message, subscription, SENT)
        if broker.hooks.message_delivered.callbacks:
            broker.hooks.message_delivered.run((self.clientid, message))
        return True

    def take(self, delivery: Delivery) -> None:
        """Send a message at once if the connection and the window allow it; let it wait otherwise."""
        backlog = self.backlog
        if backlog is not None and backlog.catching and backlog.catches(delivery):
            return
        outbox = self.outbox
        if outbox is not None and delivery.qos == 0 and not self._qos0_waits:
            if outbox.congested:
                # A reader too slow for QoS 0 loses it; waiting would only delay the loss.
                if self.broker.pressure.sheds_qos0:
                    self.broker.pressure.count_shed()
                self.drop(delivery.message, "qos0_msg", delivery.subscription)
            else:
                self.send(outbox, delivery, 0, False)
        elif (
            outbox is not None
            and delivery.qos != 0
            and not outbox.congested
            and self.window.has_room()
            and self._nothing_waits()
        ):
            self.send_new(outbox, delivery)
        else:
            self.wait(delivery)

    def pump(self) -> None:
        """Send what may be sent now: first what must be sent again, then what waits in the queue.

        It ends early when the outbox holds enough; then it is to be called once more when that is written.
        """
        outbox, window = self.outbox, self.window
        while (
            outbox is not None
            and not outbox.congested
            and window.has_room()
            and outbox.waiting_bytes <= UNSENT_BYTES_MAX
        ):
            if window.has_repeats():
                self._send_again(outbox, window.next_repeat())
                continue
            delivery = self.queue.pop() if self.queue is not None else None
            if delivery is None:
                break
            self._send_waiting(outbox, delivery)
        if self._qos0_waits and outbox is not None and self.queue is not None:
            self._pump_qos0(outbox, self.queue)

    def retry(self, uptime_us: i64) -> None:
        """Send again what was not acknowledged for the retry interval, to a client whose protocol wants that."""
        outbox, encoder, window = self.outbox, self._encoder, self.window
        if outbox is None or outbox.congested or encoder is None or not encoder.repeats or window.has_repeats():
            return
        due = uptime_us - self.options.retry_interval_us
        for packet_id, delivery in list(window.deliveries.items()):
            if delivery.since_us <= due:
                window.sent_count -= 1
                self._send_again(outbox, packet_id)

    def send_new(self, outbox: Outbox, delivery: Delivery) -> None:
        """Send a message for the first time, under a packet identifier; the window has room."""
        window, backlog = self.window, self.backlog
        if backlog is not None and not backlog.before_sending(outbox, delivery):
            return
        packet_id = window.next_id()
        delivery.phase = PUBLISHED
        delivery.since_us = self.broker.uptime_us
        if self.send(outbox, delivery, packet_id, False):
            window.add(packet_id, delivery)
        if backlog is not None:
            backlog.after_sending(packet_id, delivery)

    def send(self, outbox: Outbox, delivery: Delivery, packet_id: int, is_repeated: bool) -> bool:
        encoder, message = self._encoder, delivery.message
        if encoder is None:
            return False
        fault = encoder.put(outbox, delivery, packet_id, is_repeated, self.broker.now_us)
        if fault is not None and message.is_traced:
            message = self._without_context(message)
            if message is not delivery.message:
                delivery.message = message
                fault = encoder.put(outbox, delivery, packet_id, is_repeated, self.broker.now_us)
        if fault is not None:
            self.drop(message, fault, delivery.subscription)
            return False
        self._count_sent(outbox, message, delivery.qos)
        if self.broker.delivery_times is not None and not is_repeated:
            self.broker.delivery_times.on_sent(self.clientid, message, delivery.qos, self.broker.now_us)
        if message.is_traced or self.is_traced:
            self.trace(message, delivery.subscription, SENT)
        return True

    def drop(self, message: Message, reason: str, subscription: Subscription) -> None:
        broker = self.broker
        if reason == "no_local":  # what the client asked for is no loss
            broker.counters.delivery_dropped_no_local += 1
        else:
            drops = self.drops
            if drops is None:
                drops = Drops(self.clientid)
                self.drops = drops
            broker.drops.count(drops, reason, broker.counters)
        if message.is_traced or self.is_traced:
            self.trace(message, subscription, DROPPED, reason)
        if broker.hooks.delivery_dropped.callbacks:
            broker.hooks.delivery_dropped.run((self.clientid, message, reason))

    def trace(self, message: Message, subscription: Subscription, outcome: str, reason: str = "") -> None:
        """Tell the tracer, if there is one, what becomes of a message; see `Tracer.on_delivery`."""
        tracer = self.broker.tracer
        if tracer is not None:
            tracer.on_delivery(self.clientid, message, subscription, outcome, reason)

    @property
    def dropped_count(self) -> int:
        return 0 if self.drops is None else sum(self.drops.counts().values())

    # --- what waits

    @property
    def queued_count(self) -> int:
        queue = self.queue
        return 0 if queue is None else queue.count

    def wait(self, delivery: Delivery) -> None:
        backlog = self.backlog
        if backlog is None or not backlog.leaves(delivery):
            self.enqueue(delivery)

    def enqueue(self, delivery: Delivery) -> None:
        if self.has_ended:  # a subscription that is not dropped yet
            return
        if delivery.qos == 0 and self.broker.pressure.sheds_qos0:
            self.broker.pressure.count_shed()
            self.drop(delivery.message, "qos0_msg", delivery.subscription)
            return
        queue = self.queue
        if queue is None:
            queue = make_queue(self.options)
            self.queue = queue
        if delivery.since_us == 0:
            queue.stamp(delivery, self.broker.uptime_us)
        dropped = queue.push(delivery)
        if dropped is not delivery and (delivery.message.is_traced or self.is_traced):
            self.trace(delivery.message, delivery.subscription, QUEUED)
        while dropped is not None:  # several small ones may have to go for a large one
            reason = "qos0_msg" if dropped is delivery and delivery.qos == 0 else "queue_full"
            self.drop(dropped.message, reason, dropped.subscription)
            dropped = queue.shed()

    def empty_queue(self) -> list[Delivery]:
        """Take out what waits, in its order; there is no queue then."""
        queue, self.queue = self.queue, None
        if queue is None:
            return []
        self.broker.work += queue.count
        waiting: list[Delivery] = []
        while True:
            delivery = queue.pop()
            if delivery is None:
                return waiting
            waiting.append(delivery)

    def shed_qos0(self) -> None:
        """Drop the QoS 0 messages that wait: memory is short, or the node overloaded."""
        queue = self.queue
        if queue is None:
            return
        while True:
            delivery = queue.pop_qos0()
            if delivery is None:
                return
            self.broker.pressure.count_shed()
            self.drop(delivery.message, "qos0_msg", delivery.subscription)

    # --- from the client

    def on_puback(self, packet_id: int) -> Delivery | None:
        delivery = self.window.deliveries.get(packet_id)
        if delivery is None or delivery.qos != 1:
            return None
        return self._complete(packet_id, delivery)

    def on_pubrec(self, packet_id: int, is_refused: bool) -> Delivery | None:
        """The client has a QoS 2 message, or refuses it; None if the identifier was not known."""
        delivery = self.window.deliveries.get(packet_id)
        if delivery is None or delivery.qos != 2:
            return None
        # the message is done, and not for another member either [MQTT-4.8.2-6] [MQTT-4.4.0-2]
        if is_refused:
            return self._complete(packet_id, delivery)
        # from now on it is never published again [MQTT-4.3.3-4] [MQTT-4.3.3-5] [MQTT-4.3.3-6] 3.1.1 [MQTT-4.3.3-1]
        delivery.phase = RELEASED
        if delivery.message.is_traced and self.broker.tracer is not None:
            self.broker.tracer.on_received(self.clientid, delivery.message)
        return delivery

    def on_pubcomp(self, packet_id: int) -> Delivery | None:
        delivery = self.window.deliveries.get(packet_id)
        if delivery is None or delivery.phase != RELEASED:
            return None
        return self._complete(packet_id, delivery)

    def may_pump(self) -> bool:
        return self.queue is not None or self.window.has_repeats()

    # --- inside

    def _complete(self, packet_id: int, delivery: Delivery) -> Delivery:
        self.window.remove(packet_id)
        broker = self.broker
        broker.counters.messages_acked += 1
        if broker.delivery_times is not None:
            waited_us = broker.uptime_us - delivery.since_us
            broker.delivery_times.on_completed(self.clientid, delivery.message, broker.now_us, waited_us)
        if (delivery.message.is_traced or self.is_traced) and broker.tracer is not None:
            broker.tracer.on_completed(self.clientid, delivery.message)
        if broker.hooks.message_acked.callbacks:
            broker.hooks.message_acked.run((self.clientid, delivery.message))
        if broker.hooks.delivery_completed.callbacks:
            broker.hooks.delivery_completed.run((self.clientid, delivery.message))
        return delivery

    def _pump_qos0(self, outbox: Outbox, queue: MessageQueue) -> None:
        # They need no place in the window, and later ones must not overtake them [MQTT-4.6.0-6].
        while not outbox.congested and outbox.waiting_bytes <= UNSENT_BYTES_MAX:
            delivery = queue.pop_qos0()
            if delivery is None:
                self._qos0_waits = False
                self.open_direct()
                return
            self._send_waiting(outbox, delivery)

    def _send_waiting(self, outbox: Outbox, delivery: Delivery) -> None:
        message = delivery.message
        self.broker.work += 1 + (len(message.publish.data) >> BYTES_PER_WORK_LOG2)
        self.broker.times.on_unqueued(self.broker.now_us - message.id_high)
        if message.expired(self.broker.now_us):  # [MQTT-3.3.2-5] [MQTT-4.3.3-7]
            self.drop(message, "expired", delivery.subscription)
        elif delivery.subscription.is_denied or not self.may_have(message.topic, delivery.subscription):
            # Its rights may have changed while the message waited, and its session may be another user's now.
            self.drop(message, "not_authorized", delivery.subscription)
        elif delivery.qos == 0:
            self.send(outbox, delivery, 0, False)
        else:
            self.send_new(outbox, delivery)

    def _send_again(self, outbox: Outbox, packet_id: int) -> None:
        window, encoder = self.window, self._encoder
        delivery = window.deliveries.get(packet_id)
        if delivery is None or encoder is None:
            return
        delivery.since_us = self.broker.uptime_us
        if delivery.phase == RELEASED:
            encoder.put_release(outbox, packet_id)
            self.broker.counters.pubrel_sent += 1
        elif delivery.subscription.is_denied:  # an earlier client of the session did not acknowledge it
            del window.deliveries[packet_id]
            self.drop(delivery.message, "not_authorized", delivery.subscription)
            return
        elif not self.send(outbox, delivery, packet_id, True):  # [MQTT-3.3.1-1] 3.1.1 [MQTT-3.3.1-1]
            del window.deliveries[packet_id]
            return
        window.sent_count += 1

    def _nothing_waits(self) -> bool:
        return not self.window.has_repeats() and (self.queue is None or self.queue.count == 0)

    def _holds_qos0(self) -> bool:
        return self.queue is not None and self.queue.holds_qos0()

    def _count_sent(self, outbox: Outbox, message: Message, qos: i64) -> None:
        broker = self.broker
        counters = broker.counters
        if qos == 0:
            counters.qos0_sent += 1
            outbox.sent_qos0 += 1
        elif qos == 1:
            counters.qos1_sent += 1
            outbox.sent_qos1 += 1
        else:
            counters.qos2_sent += 1
            outbox.sent_qos2 += 1
        if broker.hooks.message_delivered.callbacks:
            broker.hooks.message_delivered.run((self.clientid, message))

    def _without_context(self, message: Message) -> Message:
        """A message that is too large, without what a trace has added to it: nothing is lost for being traced."""
        tracer = self.broker.tracer
        return message if tracer is None else tracer.without_context(message)
