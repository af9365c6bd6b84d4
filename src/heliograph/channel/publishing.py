"""What a client publishes, from PUBLISH to its acknowledgement: the hot path behind the parser.

A message is checked, run through the `message.publish` hooks, retained, stored and handed to its receivers in one
synchronous pass. The acknowledgement of a stored message waits for the commit that holds it.
"""

from typing import Final

from mypy_extensions import i64

from heliograph.broker import publishing
from heliograph.broker.durable_sink import NOT_STORED
from heliograph.broker.faults import CONNECTIONS
from heliograph.broker.guid import IdSource
from heliograph.broker.hooks import DeferredAck, Refusal
from heliograph.broker.message import NEVER, Message
from heliograph.broker.pending import Pending
from heliograph.broker.router import Route
from heliograph.broker.tracer import PUBLISHED
from heliograph.broker.tracers import Tracers
from heliograph.channel import answers
from heliograph.channel.acks import PendingAcks, put_ack
from heliograph.channel.context import ChannelContext
from heliograph.channel.conversation import ConnectedClient
from heliograph.channel.inbound_aliases import InboundAliases, with_topic
from heliograph.channel.options import ChannelOptions
from heliograph.channel.publish_check import check_capabilities, check_properties, check_publish
from heliograph.channel.reader import CONNECTED, Reader
from heliograph.channel.recalling import recall_taken
from heliograph.mqtt import packets as p
from heliograph.mqtt import properties as props
from heliograph.mqtt import reason_codes as rc
from heliograph.mqtt.encode import UINT16, encode_ack
from heliograph.mqtt.errors import ProtocolError
from heliograph.mqtt.topic import topic_name_fault
from heliograph.session.outbox import Outbox

# What a user property costs, in deliveries.
_USER_PROPERTY_WORK: Final = 8


class WaitingPublish:
    """A PUBLISH that was checked and waits for an answer: whether its client may publish it, or what becomes of it."""

    def __init__(self, publish: p.Publish, expiry_s: i64) -> None:
        self.publish = publish
        self.expiry_s = expiry_s
        self.pending: publishing.PendingOutcome | None = None
        self.trace: object = None  # what its tracers know of it


class Publishing:
    """The publishing half of one client's conversation; made with its CONNACK, owned by its channel."""

    def __init__(
        self,
        context: ChannelContext,
        options: ChannelOptions,
        reader: Reader,
        outbox: Outbox,
        ids: IdSource,
        connected: ConnectedClient,
    ) -> None:
        client = connected.client
        self._context = context
        self._broker = context.broker
        self._options = options
        self._session = connected.session
        self._outbox = outbox
        self._reader = reader
        self._ids = ids
        self._version: i64 = client.version
        self._connected = connected
        self._username = client.username
        self._authorizer = connected.authorizer
        self._mountpoint: bytes = client.mountpoint.encode("utf-8")
        self._checks_all = True  # every PUBLISH takes the long way through `_check`
        self._levels_max: i64 = 0  # where the zone allows fewer than the router; 0 otherwise
        self._aliases: InboundAliases | None = None
        self._route: Route | None = None  # that of the last PUBLISH
        self._waiting: WaitingPublish | None = None  # until an answer is there
        self._joined = False  # other databases keep the message that is handled now too
        self._acks: PendingAcks | None = None  # made when the first acknowledgement must wait
        self.set_options(options)

    def set_options(self, options: ChannelOptions) -> None:
        """Take further messages as these options say; aliases are those of the connection's beginning."""
        self._options = options
        self._checks_all = (
            options.max_qos_allowed < 2
            or not options.retain_available
            or options.strict_mode
            or options.message_expiry_interval_s > 0
            or len(self._mountpoint) > 0
        )
        of_router = self._broker.router.levels_max
        self._levels_max = options.max_topic_levels if options.max_topic_levels < of_router else 0
        self._route = None

    def on_tick(self, uptime_us: i64) -> None:
        if self._acks is not None and self._acks.deferred_count > 0:
            self._acks.expire(uptime_us)

    def leave(self) -> None:
        """The client is gone; what waits for commits still does."""
        if self._acks is not None and self._acks.deferred_count > 0:
            self._acks.cancel()

    def on_publish(self, publish: p.Publish) -> None:
        """Route, store and deliver a message; its acknowledgement leaves now or after its commit."""
        broker = self._broker
        counters, traffic = broker.counters, self._outbox
        if publish.qos == 0:
            counters.qos0_received += 1
            traffic.received_qos0 += 1
        elif publish.qos == 1:
            counters.qos1_received += 1
            traffic.received_qos1 += 1
        else:
            counters.qos2_received += 1
            traffic.received_qos2 += 1
        try:
            expiry_s: i64 = NEVER
            if (
                publish.properties_at != publish.payload_at
                or not publish.topic
                or publish.retain
                or publish.qos == 2
                or self._checks_all
            ):
                publish, expiry_s = self._check(publish)
                # [MQTT-4.3.3-10] [MQTT-4.3.3-13] 3.1.1 [MQTT-4.3.3-2]
                if publish.qos == 2 and self._is_repeated(publish, expiry_s):
                    return
            route = self._route
            if route is None or route.epoch != broker.router.epoch or route.name != publish.topic:
                route = broker.route(publish.topic)
                if self._levels_max > 0:
                    self._check_levels(route)
                if route.is_brokers_own and broker.protects_sys:
                    self._deny(publish, route)
                    return
                self._route = route
            tracers = broker.tracer
            if tracers is not None:
                tracers.countdown -= 1
                # Most messages are in no trace, and pay for these comparisons only.
                if (
                    tracers.countdown < 0
                    or self._session.sender.is_traced
                    or route.hooked
                    or publish.properties_at != publish.payload_at
                ) and tracers.wants(publish, route.hooked, self._session.sender.is_traced):
                    self._begin_traced(tracers, publish, route, expiry_s)
                    return
            self._authorize(publish, route, expiry_s)
        except ProtocolError as error:
            if broker.tracer is not None:
                broker.tracer.on_refused(self._connected.client, publish, error.detail, False)
            raise

    def _begin_traced(self, tracers: Tracers, publish: p.Publish, route: Route, expiry_s: i64) -> None:
        publish = tracers.begin(self._connected.client, publish, route.topic)
        try:
            self._authorize(publish, route, expiry_s)
        finally:
            self._end_traced(tracers)

    def _end_traced(self, tracers: Tracers) -> None:
        waiting = self._waiting
        if tracers.is_current:
            if waiting is None:
                tracers.end()
            else:
                waiting.trace = tracers.leave()

    def _authorize(self, publish: p.Publish, route: Route, expiry_s: i64) -> None:
        if self._broker.rights.is_checked and not self._authorizer.may_publish(publish.qos, publish.retain, route):
            awaited = self._authorizer.awaited
            if awaited is not None:
                self._waiting = WaitingPublish(publish, expiry_s)
                self._reader.wait_for(awaited, self._on_decided)
                return
            self._deny(publish, route)
            return
        self._publish(publish, route, expiry_s)

    def _on_decided(self, allowed: bool) -> None:
        waiting = self._waiting
        self._waiting = None
        if waiting is None:
            return
        tracers = self._enter_trace(waiting)
        try:
            route = self._broker.route(waiting.publish.topic)  # filters may have come and gone
            if allowed:
                self._publish(waiting.publish, route, waiting.expiry_s)
            else:
                self._deny(waiting.publish, route)
        finally:
            if tracers is not None:
                self._end_traced(tracers)

    def _enter_trace(self, waiting: WaitingPublish) -> Tracers | None:
        """Go on tracing a message that waited; None if it is in no trace."""
        tracers = self._broker.tracer
        if tracers is None or waiting.trace is None:
            return None
        tracers.enter(waiting.trace)
        return tracers

    def _publish(self, publish: p.Publish, route: Route, expiry_s: i64) -> None:
        if self._checks_all:
            check_capabilities(publish, self._options)
        broker = self._broker
        message = Message(  # [MQTT-4.3.2-5] 3.1.1 [MQTT-4.3.2-2]
            broker.now_us, self._ids.next_low(), route.topic, publish, self._session.clientid, self._username, expiry_s
        )
        if broker.tracer is not None and (self._session.sender.is_traced or broker.tracer.is_current):
            broker.tracer.follow(message, PUBLISHED)
        # At QoS 0 a refused message is not repeated: it goes on to its subscribers.
        outcome = publishing.publish(broker, message, route, self._reader, publish.qos != 0, False)
        if outcome.pending is not None:
            pending = outcome.pending
            pending.due_us = 0  # it waits as long as its listener says
            self._waiting = WaitingPublish(publish, expiry_s)
            self._waiting.pending = pending
            self._reader.wait_for(pending, self._on_published)
        elif publish.qos != 0 or outcome.ticket != NOT_STORED or route.hooked or outcome.refusal is not None:
            self._conclude(publish, route, outcome)

    def _on_published(self, _: bool) -> None:
        waiting = self._waiting
        self._waiting = None
        if waiting is not None and waiting.pending is not None and waiting.pending.outcome is not None:
            tracers = self._enter_trace(waiting)
            try:
                route = self._broker.route(waiting.publish.topic)
                self._conclude(waiting.publish, route, waiting.pending.outcome)
            finally:
                if tracers is not None:
                    self._end_traced(tracers)

    def _conclude(self, publish: p.Publish, route: Route, outcome: publishing.Outcome) -> None:
        if outcome.ticket != NOT_STORED or route.hooked:  # a rule may have stored what it made of it
            self._reader.has_stored = True
        if publish.qos == 0 and outcome.refusal is None:
            return
        self._joined = outcome.is_joined
        if outcome.unkept != rc.SUCCESS:
            if isinstance(outcome.refusal, DeferredAck):
                self._give_up(outcome.refusal.done)
            self._refuse_now(publish, int(outcome.unkept))
        elif outcome.refusal is not None:
            self._stop(publish, route, outcome.refusal, outcome.ticket)
        else:
            # [MQTT-3.3.4-1] [MQTT-4.3.2-4] [MQTT-4.3.3-8] 3.1.1 [MQTT-3.3.4-1] 3.1.1 [MQTT-4.3.2-2]
            # 3.1.1 [MQTT-4.3.3-2]
            code = rc.NO_MATCHING_SUBSCRIBERS if outcome.is_unheard else rc.SUCCESS
            self._answer(publish, outcome.ticket, code)

    def _check(self, publish: p.Publish) -> tuple[p.Publish, i64]:
        """What an ordinary PUBLISH at QoS 0 or 1 needs no look at."""
        options = self._options
        expiry_s: i64 = options.message_expiry_interval_s if options.message_expiry_interval_s > 0 else NEVER
        if publish.properties_at != publish.payload_at:
            properties = props.properties_from_wire(
                publish.property_bytes, props.ALLOWED_PUBLISH_TO_CLIENT, options.max_user_properties
            )
            self._broker.work += _USER_PROPERTY_WORK * len(properties.user)
            check_properties(properties, options)
            expiry_s = properties.number(props.MESSAGE_EXPIRY_INTERVAL, expiry_s)
            if props.TOPIC_ALIAS in properties.numbers:
                if self._aliases is None:
                    self._aliases = InboundAliases(options.max_topic_alias)
                publish = self._aliases.resolve(publish, properties)
        check_publish(publish, options, len(self._mountpoint))
        if self._mountpoint:
            publish = with_topic(publish, self._mountpoint + publish.topic, publish.property_bytes)
        return publish, expiry_s

    def alias_bytes(self) -> int:
        return 0 if self._aliases is None else self._aliases.held_bytes()

    def _check_levels(self, route: Route) -> None:
        fault = topic_name_fault(self._known_topic(route), self._levels_max)
        if fault is not None:
            raise ProtocolError(fault, rc.TOPIC_NAME_INVALID)

    def _known_topic(self, route: Route) -> str:
        return route.topic[len(self._mountpoint.decode("utf-8")) :] if self._mountpoint else route.topic

    def _deny(self, publish: p.Publish, route: Route) -> None:
        broker = self._broker
        broker.counters.messages_not_authorized += 1
        if broker.hooks.message_dropped.callbacks or broker.tracer is not None:
            client, low = self._session.clientid, self._ids.next_low()
            message = Message(broker.now_us, low, route.topic, publish, client, self._username, NEVER)
            if broker.tracer is not None:
                broker.tracer.on_dropped(message, "not_authorized")
            broker.hooks.message_dropped.run((message, "not_authorized"))
        self._answer_denied(publish, route, route.is_brokers_own and broker.protects_sys)

    def _answer_denied(self, publish: p.Publish, route: Route, is_protected: bool) -> None:
        """Answer it; MQTT 3 has no refusal 3.1.1 [MQTT-3.3.5-2].

        Args:
            is_protected: Its topic is the broker's own: no callback was asked.
        """
        if is_protected:
            self._authorizer.tell_denied(publish.qos, publish.retain, route.topic)
        if self._options.authz_disconnects:
            raise ProtocolError(f"may not publish to {self._known_topic(route)!r}", rc.NOT_AUTHORIZED)
        if publish.qos != 0:
            kind: i64 = p.PUBACK if publish.qos == 1 else p.PUBREC
            self._acknowledge(encode_ack(kind, publish.packet_id, rc.NOT_AUTHORIZED, self._version), NOT_STORED)

    def _stop(self, publish: p.Publish, route: Route, refusal: Refusal, ticket: i64) -> None:
        """Answer a PUBLISH that a callback stopped: as taken, or refused where MQTT 5 can say so."""
        if refusal is publishing.NOT_AUTHORIZED:
            self._answer_denied(publish, route, True)
            return
        if refusal.disconnects or (refusal.may_repeat and publish.qos != 0 and self._version != p.V5):
            detail = f"message to {self._known_topic(route)!r} is refused: {refusal.reason}"
            raise ProtocolError(detail, refusal.code)
        if publish.qos == 0:
            if isinstance(refusal, DeferredAck):
                self._give_up(refusal.done)
            return
        if isinstance(refusal, DeferredAck):
            self._defer(publish, refusal.done, ticket)
            return
        if refusal.code == rc.SUCCESS or self._version != p.V5:
            # A callback that took it may have to keep it first. MQTT 3 repeats what is not acknowledged.
            self._answer(publish, ticket, rc.SUCCESS)
            return
        # What is refused is not awaited: a repetition is a new message [MQTT-4.3.3-9].
        kind: i64 = p.PUBACK if publish.qos == 1 else p.PUBREC
        code = refusal.code if refusal.code in rc.ACK_CODES else rc.UNSPECIFIED_ERROR
        self._acknowledge(encode_ack(kind, publish.packet_id, code, p.V5), NOT_STORED)

    def _is_repeated(self, publish: p.Publish, expiry_s: i64) -> bool:
        """Whether a QoS 2 PUBLISH was taken before; it is then answered, and not published again [MQTT-4.3.3-10]."""
        awaiting = self._session.awaiting_rel
        packet_id: int = publish.packet_id
        self._joined = True  # unknown from here on
        ticket = awaiting.ticket(packet_id)
        if publish.dup and ticket <= NOT_STORED and awaiting.may_repeat(packet_id):
            ticket = recall_taken(self._broker, self._session, self._ids, publish, self._username, expiry_s)
        if ticket < 0:
            before = len(awaiting)
            if not awaiting.has_room(self._broker.uptime_us):  # [MQTT-3.3.4-7]
                self._broker.counters.messages_dropped_quota += 1
                detail = f"more than {int(self._session.options.max_awaiting_rel)} QoS 2 messages without PUBREL"
                raise ProtocolError(detail, rc.RECEIVE_MAXIMUM_EXCEEDED)
            if len(awaiting) < before:
                self._broker.counters.messages_dropped_unreleased += 1
            return False
        self._broker.counters.publish_inuse += 1
        if self._acks is not None and self._acks.awaits(packet_id):
            return True  # the answer to the first one answers this one too
        pending = ticket if self._context.commits.is_pending(ticket) else NOT_STORED
        self._acknowledge(encode_ack(p.PUBREC, packet_id, rc.SUCCESS, self._version), pending)
        return True

    # --- the answer

    def _answer(self, publish: p.Publish, ticket: i64, code: int) -> None:
        tracers = self._broker.tracer
        packet_id: int = publish.packet_id
        kind: i64 = p.PUBACK
        if publish.qos == 2:
            kind = p.PUBREC
            self._session.awaiting_rel.add(packet_id, ticket, self._broker.uptime_us, self._ids.last_low())
        if self._version == p.V5 and code != rc.SUCCESS:
            self._acknowledge(encode_ack(kind, packet_id, code, p.V5), ticket)
        elif (
            ticket == NOT_STORED
            and (self._acks is None or not self._acks)
            and (tracers is None or not tracers.is_current)
        ):
            if kind == p.PUBACK:
                self._broker.counters.puback_sent += 1
            else:
                self._broker.counters.pubrec_sent += 1
            self._outbox.put_pair(UINT16[(kind << 12) | 2], UINT16[packet_id])
        else:
            self._acknowledge(UINT16[(kind << 12) | 2] + UINT16[packet_id], ticket)

    def _refuse_now(self, publish: p.Publish, code: int) -> None:
        """Answer a PUBLISH that storage or the retainer refuses, before delivery.

        Raises:
            ProtocolError: In MQTT 3, which has no refusal, and whose clients repeat what is not acknowledged.
        """
        if self._version != p.V5:
            raise ProtocolError("storage refused a message", code)
        kind: i64 = p.PUBACK if publish.qos == 1 else p.PUBREC
        ack = UINT16[(kind << 12) | 2] + UINT16[publish.packet_id]
        reason = self._broker.refusal_reason if self._connected.wants_reasons else ""
        self._acknowledge(answers.refused(ack, code, reason, self._connected.packet_bytes_max), NOT_STORED)

    def _acknowledge(self, ack: bytes, ticket: i64) -> None:
        acks, tracers = self._acks, self._broker.tracer
        if tracers is not None and tracers.is_current:
            tracers.on_answer(ack, ticket)
        if ticket == NOT_STORED and (acks is None or not acks):
            put_ack(self._outbox, self._broker.counters, ack)
            return
        self._pending_acks().add(ticket, ack, ticket != NOT_STORED and self._joined)

    def _defer(self, publish: p.Publish, done: Pending[int], ticket: i64) -> None:
        """Answer a PUBLISH when the callback that took its message says what became of it."""
        acks = self._pending_acks()
        uptime_us = self._broker.uptime_us
        if self._reader.state != CONNECTED:  # a callback ended it
            self._give_up(done)
            return
        try:
            acks.check_room()
        except ProtocolError:
            self._give_up(done)
            raise
        if done.due_us == 0:
            done.due_us = self._options.due_us(uptime_us)
        kind: i64 = p.PUBACK
        if publish.qos == 2:
            kind = p.PUBREC
            self._session.awaiting_rel.add(publish.packet_id, ticket, uptime_us, self._ids.last_low())
        acks.defer(done, UINT16[(kind << 12) | 2] + UINT16[publish.packet_id], ticket, self._joined)

    def _give_up(self, done: Pending[int]) -> None:
        self._broker.faults.run(CONNECTIONS, done.cancel)

    def _pending_acks(self) -> PendingAcks:
        acks = self._acks
        if acks is None:
            acks = PendingAcks(self._context, self._reader, self._outbox, self._connected)
            self._acks = acks
        return acks
