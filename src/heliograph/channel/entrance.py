"""How a client gets in: from its first packet over CONNECT and AUTH packets to its session and its CONNACK.

Who the client is and whether it is let in is decided in `connect` and `handshake`; what it does once it is in, in
`channel`.
"""

from mypy_extensions import i64

from heliograph.broker import hooks
from heliograph.broker.authentication import AuthStep
from heliograph.broker.client import ClientInfo
from heliograph.broker.guid import IdSource
from heliograph.broker.hooks import PendingChain
from heliograph.channel import answers
from heliograph.channel import connect as decide
from heliograph.channel.authorization import Authorizer
from heliograph.channel.context import ChannelContext
from heliograph.channel.handshake import Handshake
from heliograph.channel.options import ChannelOptions
from heliograph.channel.peer import Peer
from heliograph.channel.publishing import Publishing
from heliograph.channel.reader import AUTHENTICATING, AUTHENTICATION, CLOSED, CONNECTED, IDLE, Reader
from heliograph.mqtt import packets as p
from heliograph.mqtt import properties as props
from heliograph.mqtt import reason_codes as rc
from heliograph.mqtt.decode import connect_version, decode_packet
from heliograph.mqtt.errors import ProtocolError
from heliograph.mqtt.properties import Properties
from heliograph.mqtt.topic import bare_filter
from heliograph.session.outbox import Wire
from heliograph.session.session import Session


class Entrance(Reader):
    """The part of a channel, which is its only subclass, that lets its client in; a view of one connection."""

    def __init__(self, context: ChannelContext, wire: Wire, options: ChannelOptions) -> None:
        super().__init__(context, wire, options)
        self._number = context.next_number()
        self._ids = IdSource(context.node, self._number)
        self._peer: Peer | None = None
        self._connect: p.Connect | None = None  # until its CONNACK
        self._client: ClientInfo | None = None
        self._handshake: Handshake | None = None  # while AUTH packets may come
        self._awaited: PendingChain | None = None  # the authenticators' answer
        self._session: Session | None = None
        self._will: p.Will | None = None
        self._authorizer: Authorizer | None = None
        self._publishing: Publishing | None = None
        self._packet_bytes_max: i64 = 0  # what the client takes, 0 for anything
        self._tells_problems = True
        self._silence_us_max: i64 = options.idle_timeout_us

    # --- what the channel makes of it

    def end(self, code: int, reason: str, detail: str = "") -> None:
        """End the conversation, with a DISCONNECT where the client knows it."""
        raise NotImplementedError

    # --- CONNECT and AUTH

    def dispatch_early(self, data: bytes, pos: i64, body: i64, stop: i64) -> None:
        """A packet before the CONNACK: CONNECT, or what belongs to its authentication."""
        if self._state == IDLE:
            self._version = connect_version(data, body, stop)
        packet = decode_packet(data, pos, body, stop, self._version, self._options.max_user_properties)
        if isinstance(packet, p.Connect) and self._state == IDLE:
            self._on_connect(packet)
        elif isinstance(packet, p.Disconnect) and packet.kind == p.DISCONNECT:
            self._broker.counters.disconnect_received += 1
            self.end(rc.SUCCESS, "normal")
        elif isinstance(packet, p.Disconnect):
            self._on_auth(packet)
        else:  # [MQTT-3.1.2-30]
            raise ProtocolError(f"{p.NAMES[packet.kind]} while an authentication is running")

    def _on_connect(self, connect: p.Connect) -> None:
        options, broker, peer = self._options, self._broker, self._peer
        broker.counters.connect_received += 1
        self._version = connect.version
        self._packet_bytes_max = connect.properties.number(props.MAXIMUM_PACKET_SIZE, 0)
        self._tells_problems = connect.properties.number(props.REQUEST_PROBLEM_INFORMATION, 1) == 1
        self._connect = connect
        decide.check_connect(connect, options)
        client = decide.client_info(connect, peer or Peer(""), options, self._new_clientid, broker.now_us)
        if broker.pressure.refuses_connections and not self._would_drain(client.clientid):
            broker.pressure.connections_refused += 1
            raise ProtocolError("memory is short: no client is let in", rc.QUOTA_EXCEEDED)
        self._client = client
        self._state = AUTHENTICATING
        handshake = Handshake(broker, client, connect)
        self._handshake = handshake
        self._take_step(handshake.begin(connect, options.enable_authn, options.deny_anonymous))

    def _would_drain(self, clientid: str) -> bool:
        """Whether messages wait in memory for a client: letting it in is what frees them."""
        session = self._context.sessions.held(clientid)
        return session is not None and session.queued_count > 0

    def _new_clientid(self) -> str:
        context = self._context
        while True:  # ends: nobody can have them all
            clientid = context.new_clientid()
            if context.sessions.find(clientid) is None:
                return clientid

    def _on_auth(self, packet: p.Disconnect) -> None:
        self._broker.counters.auth_received += 1
        handshake = self._handshake
        if handshake is None:  # [MQTT-4.12.0-7]
            raise ProtocolError("AUTH from a client whose CONNECT named no authentication method")
        self._take_step(handshake.renew(packet) if self._state == CONNECTED else handshake.proceed(packet))

    def _take_step(self, step: AuthStep | PendingChain) -> None:
        if isinstance(step, AuthStep):
            self._on_step(step)
        else:
            self._hold_packets(AUTHENTICATION)
            self._awaited = step
            step.then(self._on_answer, self._answer_due_us())

    def _answer_due_us(self) -> i64:
        """Until when an answer is waited for; 0 for ever."""
        waited_us_max = self._options.idle_timeout_us
        return self._broker.uptime_us + waited_us_max if waited_us_max != 0 else 0

    def _on_answer(self, outcome: tuple[str, object]) -> None:
        """An authenticator that had to wait has its answer."""
        self._begin_turn()
        self._awaited = None
        handshake = self._handshake
        try:
            if handshake is not None:
                self._on_step(handshake.step(outcome[0], outcome[1]))
        except ProtocolError as error:
            self.on_protocol_error(error)
        self._resume(AUTHENTICATION)

    def client_info(self) -> ClientInfo | None:
        """Who the client is, once its CONNECT was read."""
        return self._client

    def _on_step(self, step: AuthStep) -> None:
        handshake = self._handshake
        if handshake is None:
            return
        if step.code == rc.CONTINUE_AUTHENTICATION and handshake.method is not None:
            self._send_auth(handshake.method, step)  # [MQTT-4.12.0-2]
            return
        code = rc.NOT_AUTHORIZED if step.code == rc.CONTINUE_AUTHENTICATION else step.code
        handshake.tell(step, code)
        if code != rc.SUCCESS:
            self._broker.counters.authentications_failed += 1
            raise ProtocolError(f"client {self._clientid!r} is refused: {rc.name_of(code)}", code)  # [MQTT-4.12.0-4]
        handshake.is_running = False
        if self._state == CONNECTED and handshake.method is not None:
            self._send_auth(handshake.method, step)
        elif self._connect is not None and self._client is not None:
            self._accept(self._client, self._connect, step)
            if handshake.method is None:
                self._handshake = None

    def _send_auth(self, method: str, step: AuthStep) -> None:
        auth = answers.auth(method, step, self._packet_bytes_max)
        if auth is None:
            raise ProtocolError("it does not take the AUTH that it must have", rc.PACKET_TOO_LARGE)
        self._broker.counters.auth_sent += 1
        self._outbox.put(auth)

    def _accept(self, client: ClientInfo, connect: p.Connect, step: AuthStep) -> None:
        """Open the client's session and tell it that it is connected."""
        context, options, broker = self._context, self._options, self._broker
        self._connect = None
        clientid = client.clientid
        known = context.sessions.find(clientid)
        # Subscriptions of another mountpoint are not this client's.
        clean_start = connect.clean_start or (known is not None and known.mountpoint != client.mountpoint)
        other = context.channels.find(clientid)
        if other is not None:
            other.take_over(clean_start)
        authorizer = Authorizer(broker, client, options)
        # [MQTT-3.1.4-4] 3.1.1 [MQTT-3.1.4-3]
        session, present = context.sessions.open(
            clientid, clean_start, options.session, decide.session_expiry_s(connect, options), self._outbox
        )
        client.expiry_interval_s = session.expiry_interval_s
        session.mountpoint = client.mountpoint
        properties = decide.connack_properties(connect, client, options)
        if self._handshake is not None and self._handshake.method is not None:  # [MQTT-4.12.0-6]
            answers.add_authentication(properties, self._handshake.method, step)
        properties = self._hooked_connack(rc.SUCCESS, properties)
        if self._state == CLOSED:  # a callback ended it
            context.sessions.leave(session, None)
            return
        if present:
            _drop_denied(session, authorizer)
        context.channels.register(clientid, self)
        self._session = session
        self._authorizer = authorizer
        reason_bytes_max: i64 = self._packet_bytes_max if self._tells_problems else -1  # [MQTT-3.1.2-29]
        self._publishing = Publishing(
            context, options, session, self._outbox, self, self._ids, client, authorizer, reason_bytes_max
        )
        self._state = CONNECTED
        self._heard_at_us = broker.uptime_us
        self._silence_us_max = client.keepalive_s * 10_000 * options.keepalive_multiplier_percent
        if session.keeps_wills():
            will, low = connect.will, self._ids.next_low()
            session.keep_will(
                None if will is None else decide.will(will, client, options, broker.now_us, low, authorizer)
            )
        # [MQTT-3.1.4-5] [MQTT-3.2.0-1] [MQTT-3.2.0-2] 3.1.1 [MQTT-3.1.4-4] 3.1.1 [MQTT-3.2.0-1]
        if not self._send_connack(present, rc.SUCCESS, properties):
            self._report("it does not take the CONNACK that it must have")
            self.end(rc.SUCCESS, "connack_too_large")
            return
        self._will = connect.will  # [MQTT-3.1.2-7] 3.1.1 [MQTT-3.1.2-8]
        session.attach(  # not before: messages come behind CONNACK [MQTT-3.2.0-1] 3.1.1 [MQTT-3.2.0-1]
            self._outbox,
            connect.version,
            decide.receive_maximum(connect),
            decide.packet_bytes_max(connect),
            decide.alias_max(connect, options),
            len(client.mountpoint.encode("utf-8")),
            authorizer,
        )
        broker.hooks.run(hooks.CLIENT_CONNECTED, (client, connect))
        session.resume()

    def _hooked_connack(self, code: int, properties: Properties) -> Properties:
        """What callbacks make of a CONNACK's properties."""
        client = self._client
        if client is None:
            return properties
        _, outcome = self._broker.hooks.run(hooks.CLIENT_CONNACK, (client, code), properties)
        return outcome if isinstance(outcome, Properties) else properties

    def _send_connack(self, present: bool, code: int, properties: Properties) -> bool:
        """Send CONNACK; whether the client takes it."""
        if code == rc.SUCCESS:
            self._broker.counters.connack_sent += 1
        else:
            self._broker.counters.connack_error += 1
        connack = answers.connack(present, code, properties, self._version, self._packet_bytes_max)
        if connack is not None:
            self._outbox.put(connack)
        return connack is not None

    def refuse(self, error: ProtocolError) -> None:
        """Answer the CONNECT of a client that is not let in, if it could be read."""
        if self._is_connect_refusal(error):  # [MQTT-3.1.4-1] 3.1.1 [MQTT-3.1.4-1]
            properties = Properties()
            answers.add_reason(properties, error.detail)
            properties = self._hooked_connack(error.reason_code, properties)
            # [MQTT-3.1.4-2] [MQTT-3.2.2-6] [MQTT-3.2.2-7] 3.1.1 [MQTT-3.2.2-4] 3.1.1 [MQTT-3.2.2-5]
            self._send_connack(False, error.reason_code, properties)

    def _is_connect_refusal(self, error: ProtocolError) -> bool:
        # A CONNACK is for whoever sent a CONNECT that could be read [MQTT-3.1.4-2]; garbage gets no answer.
        return error.reason_code != rc.MALFORMED_PACKET and error.reason_code != rc.PACKET_TOO_LARGE

    def _forget_authenticator(self) -> None:
        if self._awaited is not None:
            self._awaited.cancel()
            self._awaited = None

    def _report(self, detail: str) -> None:
        peer = self._peer
        self._context.report("" if peer is None else peer.peername, self._clientid, detail)

    @property
    def _clientid(self) -> str:
        client, connect = self._client, self._connect
        if client is None:
            return "" if connect is None else connect.clientid
        return client.clientid


def _drop_denied(session: Session, authorizer: Authorizer) -> None:
    """Drop the subscriptions that a client may not have any more: its rights may have changed while it was away."""
    broker = session.broker
    if not broker.hooks.client_authorize.callbacks:
        return
    for name in list(session.subscriptions):
        if not authorizer.may_subscribe(bare_filter(name)):
            subscription = session.unsubscribe(name)
            qos = 0 if subscription is None else subscription.qos
            broker.hooks.run(hooks.SESSION_UNSUBSCRIBED, (session.clientid, name, qos, Properties()))
