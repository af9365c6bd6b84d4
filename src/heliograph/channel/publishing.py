"""What a client publishes, from PUBLISH to its acknowledgement: the hot path behind the parser.

A message is checked, run through the `message.publish` hooks, retained, stored and handed to its receivers in one
synchronous pass. The acknowledgement of a stored message waits for the commit that holds it.
"""

from mypy_extensions import i64

from heliograph.broker.guid import IdSource
from heliograph.broker.message import NEVER, Message
from heliograph.broker.pubsub import NOT_STORED
from heliograph.broker.router import Route
from heliograph.channel.acks import PendingAcks, refusal
from heliograph.channel.aliases import resolve_alias
from heliograph.channel.context import ChannelContext, Waiter
from heliograph.mqtt import packets as p
from heliograph.mqtt import properties as props
from heliograph.mqtt import reason_codes as rc
from heliograph.mqtt.encode import UINT16, encode_ack
from heliograph.mqtt.errors import ProtocolError
from heliograph.session.outbox import Outbox
from heliograph.session.session import Session


class Publishing:
    """The publishing half of one client's conversation; made with its CONNACK, owned by its channel.

    Args:
        waiter: Who is told of the commits that this client's acknowledgements wait for.
        ids: Where its messages get their ids.
    """

    def __init__(
        self,
        context: ChannelContext,
        session: Session,
        outbox: Outbox,
        waiter: Waiter,
        ids: IdSource,
        version: i64,
        username: str | None,
    ) -> None:
        self._context = context
        self._broker = context.broker
        self._session = session
        self._outbox = outbox
        self._waiter = waiter
        self._ids = ids
        self._version = version
        self._username = username
        self._aliases: dict[int, bytes] | None = None
        self._route: Route | None = None  # that of the last PUBLISH
        self._acks: PendingAcks | None = None  # made when the first acknowledgement must wait
        self.stored = False  # something went to storage; reset by the channel

    def on_publish(self, publish: p.Publish) -> None:
        """Route, store and deliver a message; its acknowledgement leaves now or after its commit.

        Raises:
            ProtocolError: It breaks the specification or a limit.
        """
        broker = self._broker
        broker.counters.messages_received += 1
        expiry_s: i64 = NEVER
        if (
            publish.properties_at != publish.payload_at
            or not publish.topic
            or publish.retain
            or publish.qos == 2
            or publish.qos > self._context.options.max_qos_allowed
        ):
            publish, expiry_s = self._check(publish)
            if publish.qos == 2 and self._is_repeated(publish):
                return
        route = self._route
        if route is None or route.epoch != broker.router.epoch or route.name != publish.topic:
            route = broker.route(publish.topic)
            self._route = route
        message = Message(
            broker.now_us, self._ids.next_low(), route.topic, publish, self._session.clientid, self._username, expiry_s
        )
        ticket: i64 = NOT_STORED
        code = rc.SUCCESS
        if broker.hooks.message_publish.callbacks:
            hooked = broker.hooked(message)
            if hooked is None:
                if publish.qos != 0:
                    self._answer(publish, NOT_STORED, rc.SUCCESS)
                return
            message = hooked
            if message.topic != route.topic:
                route = broker.route(message.topic.encode("utf-8"))
        if message.retain:
            broker.retain(message)
        if route.durable:
            ticket = broker.store(route, message)
            self.stored = True
        if broker.dispatch(route, message) == 0 and ticket == NOT_STORED:
            broker.counters.messages_dropped_no_subscribers += 1
            code = rc.NO_MATCHING_SUBSCRIBERS
            if broker.hooks.message_dropped.callbacks:
                broker.hooks.message_dropped.run((message, "no_subscribers"))
        if publish.qos != 0:
            self._answer(publish, ticket, code)

    def on_committed(self, ticket: i64, code: int, answering: bool) -> int:
        """Send the acknowledgements that waited for this commit, as refusals if it was refused with `code`.

        Args:
            answering: False when the connection is closed, and only what the session knows is put right.

        Returns:
            The code that the conversation must end with, or 0: MQTT 3 has no refusal, and an acknowledgement would be
            a lie.
        """
        if self._acks is None:
            return rc.SUCCESS
        refused: int = rc.SUCCESS
        for batch in self._acks.release(ticket, code):
            if batch.code != rc.SUCCESS and batch.stored:
                refused = batch.code
                self._refuse(batch.acks, batch.code, answering)
            elif answering and (refused == rc.SUCCESS or self._version == p.V5):
                for ack in batch.acks:
                    self._outbox.put(ack)
        return refused if self._version != p.V5 else rc.SUCCESS

    def has_pending(self) -> bool:
        """Whether acknowledgements wait for their commits."""
        return self._acks is not None and bool(self._acks)

    def _check(self, publish: p.Publish) -> tuple[p.Publish, i64]:
        """What an ordinary PUBLISH at QoS 0 or 1 needs no look at."""
        options = self._context.options
        expiry_s: i64 = NEVER
        if publish.properties_at != publish.payload_at:
            properties = props.properties_from_wire(publish.property_bytes, props.ALLOWED_PUBLISH_TO_CLIENT)
            if properties.subscription_ids:
                raise ProtocolError("PUBLISH with a subscription identifier, which is the broker's")  # [MQTT-3.3.4-6]
            expiry_s = properties.number(props.MESSAGE_EXPIRY_INTERVAL, NEVER)
            response_topic = properties.strings.get(props.RESPONSE_TOPIC)
            if response_topic is not None and ("+" in response_topic or "#" in response_topic):
                raise ProtocolError(f"response topic {response_topic!r} holds a wildcard")  # [MQTT-3.3.2-14]
            if props.TOPIC_ALIAS in properties.numbers:
                if self._aliases is None:
                    self._aliases = {}
                publish = resolve_alias(publish, properties, self._aliases, options.max_topic_alias)
        if not publish.topic:
            raise ProtocolError("PUBLISH with neither a topic name nor a topic alias")
        if publish.qos > options.max_qos_allowed:  # [MQTT-3.2.2-11]
            detail = f"PUBLISH at QoS {int(publish.qos)}; {int(options.max_qos_allowed)} is allowed"
            raise ProtocolError(detail, rc.QOS_NOT_SUPPORTED)
        if publish.retain and not options.retain_available:  # [MQTT-3.2.2-14]
            raise ProtocolError("PUBLISH with retain, which is not available", rc.RETAIN_NOT_SUPPORTED)
        return publish, expiry_s

    def _is_repeated(self, publish: p.Publish) -> bool:
        """Whether a QoS 2 PUBLISH was taken before; it is then answered, and not published again [MQTT-4.3.3-10]."""
        session = self._session
        packet_id: int = publish.packet_id
        ticket = session.rel_ticket(packet_id)
        if ticket < 0:
            if not session.may_await_rel():
                detail = f"more than {int(session.options.max_awaiting_rel)} QoS 2 messages without PUBREL"
                raise ProtocolError(detail, rc.RECEIVE_MAXIMUM_EXCEEDED)
            return False
        pending = ticket if self._context.commits.is_pending(ticket) else NOT_STORED
        self._acknowledge(encode_ack(p.PUBREC, packet_id, rc.SUCCESS, self._version), pending)
        return True

    def _answer(self, publish: p.Publish, ticket: i64, code: int) -> None:
        packet_id: int = publish.packet_id
        kind: i64 = p.PUBACK
        if publish.qos == 2:
            kind = p.PUBREC
            self._session.await_rel(packet_id, ticket)
        if self._version == p.V5 and code != rc.SUCCESS:
            self._acknowledge(encode_ack(kind, packet_id, code, p.V5), ticket)
        else:
            self._acknowledge(UINT16[(kind << 12) | 2] + UINT16[packet_id], ticket)

    def _acknowledge(self, ack: bytes, ticket: i64) -> None:
        acks = self._acks
        if ticket == NOT_STORED and (acks is None or not acks):
            self._outbox.put(ack)
            return
        if acks is None:
            acks = PendingAcks()
            self._acks = acks
        if acks.add(ticket, ack):
            self._context.commits.wait(ticket, self._waiter)

    def _refuse(self, acks: list[bytes], code: int, answering: bool) -> None:
        self._broker.counters.messages_refused += len(acks)
        for ack in acks:
            if ack[0] >> 4 == p.PUBREC:
                self._session.release((ack[2] << 8) | ack[3])  # it was not taken: a repetition is a new message
            if answering and self._version == p.V5:
                self._outbox.put(refusal(ack, code))
