"""How a client gets in: from its first packet over CONNECT and AUTH packets to its session and its CONNACK.

Who the client is and whether it is let in is decided in `connect` and `handshake`, what its session needs in
`admission`; what it does once it is in, in `channel`.
"""

from mypy_extensions import i64

from heliograph.broker import hooks
from heliograph.broker.authentication import AuthStep
from heliograph.broker.client import ClientInfo
from heliograph.broker.pending import Pending
from heliograph.channel import answers
from heliograph.channel import connect as decide
from heliograph.channel.admission import Admission
from heliograph.channel.authenticating import Handshake, PendingStep
from heliograph.channel.context import ChannelContext
from heliograph.channel.conversation import ConnectedClient, Conversation
from heliograph.channel.options import ChannelOptions
from heliograph.channel.peer import Peer
from heliograph.channel.reader import AUTHENTICATING, CLOSED, CONNECTED, IDLE, Reader
from heliograph.channel.subscription_check import drop_denied
from heliograph.mqtt import packets as p
from heliograph.mqtt import properties as props
from heliograph.mqtt import reason_codes as rc
from heliograph.mqtt.decode import connect_version, decode_packet
from heliograph.mqtt.errors import ProtocolError
from heliograph.mqtt.properties import Properties
from heliograph.session.mqtt_encoder import mqtt_encoder
from heliograph.session.outbox import Outbox
from heliograph.session.session import Session


class ConnectFlow:
    """Lets one client in; a view of one connection, owned by its channel.

    It ends with the CONNACK; that of a client with an authentication method is kept, since it may authenticate again.
    """

    def __init__(
        self,
        context: ChannelContext,
        options: ChannelOptions,
        conversation: Conversation,
        reader: Reader,
        outbox: Outbox,
        peer: Peer,
    ) -> None:
        self._context = context
        self._broker = context.broker
        self._options = options
        self._conversation = conversation
        self._reader = reader
        self._outbox = outbox
        self._peer = peer
        self.client: ClientInfo | None = None
        self._connect: p.Connect | None = None  # until its CONNACK
        self._handshake: Handshake | None = None
        self._admission: Admission | None = None  # from its authentication to its session
        self._packet_bytes_max: i64 = 0  # what the client takes, 0 for anything

    @property
    def is_kept(self) -> bool:
        """Whether the client may authenticate again, so that this is needed after the CONNACK."""
        return self._handshake is not None and self._handshake.method is not None

    @property
    def clientid(self) -> str:
        client, connect = self.client, self._connect
        if client is None:
            return "" if connect is None else connect.clientid
        return client.clientid

    def set_options(self, options: ChannelOptions) -> None:
        self._options = options
        if self._admission is not None:
            self._admission.set_options(options)

    # --- CONNECT and AUTH

    def on_packet(self, data: bytes, pos: i64, body: i64, stop: i64) -> None:
        reader = self._reader
        if reader.state == IDLE:
            reader.version = connect_version(data, body, stop)
        packet = decode_packet(data, pos, body, stop, reader.version, self._options.max_user_properties)
        if isinstance(packet, p.Connect) and reader.state == IDLE:
            self._on_connect(packet)
        elif isinstance(packet, p.Disconnect):
            self._broker.counters.disconnect_received += 1
            self._conversation.end(rc.SUCCESS, "normal")
        elif isinstance(packet, p.Auth):
            self.on_auth(packet)
        else:  # [MQTT-3.1.2-30]
            raise ProtocolError(f"{p.NAMES[packet.kind]} while an authentication is running")

    def on_auth(self, packet: p.Auth) -> None:
        self._broker.counters.auth_received += 1
        handshake = self._handshake
        if handshake is not None:
            renews = self._reader.state == CONNECTED
            self._take_step(handshake.renew(packet) if renews else handshake.proceed(packet))

    def _on_connect(self, connect: p.Connect) -> None:
        options, broker = self._options, self._broker
        broker.counters.connect_received += 1
        self._reader.version = connect.version
        self._packet_bytes_max = connect.properties.number(props.MAXIMUM_PACKET_SIZE, 0)
        self._connect = connect
        decide.check_connect(connect, options)
        client = decide.client_info(connect, self._peer, options, self._new_clientid, broker.now_us)
        if broker.pressure.refuses_connections and not self._would_drain(client.clientid):
            broker.pressure.connections_refused += 1
            raise ProtocolError("memory is short: no client is let in", rc.QUOTA_EXCEEDED)
        self.client = client
        self._reader.state = AUTHENTICATING
        if broker.pressure.holds_connections and options.overload_delay_us >= 0:
            pending = Pending[bool]()
            self._reader.wait_for(pending, self._on_held)
            self._context.call_later(float(options.overload_delay_us) / 1e6, lambda: pending.resolve(True))
        else:
            self._begin_handshake(client, connect)

    def _on_held(self, _: bool) -> None:
        """It has waited since the node was overloaded: let it in if there is time again."""
        pressure, client, connect = self._broker.pressure, self.client, self._connect
        if pressure.holds_connections:
            pressure.delays_timed_out += 1
            if self._options.overload_refuses:
                pressure.overload_refused += 1
                raise ProtocolError("the node is overloaded: no client is let in", rc.QUOTA_EXCEEDED)
        else:
            pressure.delays_ended += 1
        if client is not None and connect is not None:
            self._begin_handshake(client, connect)

    def _begin_handshake(self, client: ClientInfo, connect: p.Connect) -> None:
        options, broker = self._options, self._broker
        handshake = Handshake(broker, client, connect)
        self._handshake = handshake
        self._take_step(handshake.begin(connect, options.listener.enable_authn, options.listener.deny_anonymous))

    def _would_drain(self, clientid: str) -> bool:
        """Whether messages wait in memory for a client: letting it in is what frees them."""
        session = self._context.sessions.held(clientid)
        return session is not None and session.sender.queued_count > 0

    def _new_clientid(self) -> str:
        context = self._context
        while True:  # ends: not all ids are in use
            clientid = context.new_clientid()
            if not context.sessions.knows(clientid):
                return clientid

    def _take_step(self, step: AuthStep | PendingStep) -> None:
        if isinstance(step, AuthStep):
            self._on_step(step)
        else:
            self._reader.wait_for(step, self._on_authenticated)

    def _on_authenticated(self, _: bool) -> None:
        handshake = self._handshake
        if handshake is not None:
            self._on_step(handshake.awaited_step())

    def _on_step(self, step: AuthStep) -> None:
        handshake, client, connect = self._handshake, self.client, self._connect
        if handshake is None or client is None:
            return
        if step.code == rc.CONTINUE_AUTHENTICATION and handshake.method is not None:
            self._send_auth(handshake.method, step)  # [MQTT-4.12.0-2]
            return
        code = rc.NOT_AUTHORIZED if step.code == rc.CONTINUE_AUTHENTICATION else step.code
        if code == rc.SUCCESS and handshake.is_renamed and self._is_banned(client):
            code = rc.BANNED
        handshake.conclude(step, code)
        if code != rc.SUCCESS:
            self._broker.counters.connack_auth_error += 1
            raise ProtocolError(f"client {client.clientid!r} is refused: {rc.name_of(code)}", code)  # [MQTT-4.12.0-4]
        handshake.is_running = False
        if self._reader.state == CONNECTED and handshake.method is not None:
            self._send_auth(handshake.method, step)
            self._context.rechecks.check(client.clientid, is_another=True)
        elif connect is not None:
            decide.mount(client, connect, self._options)
            user = None if handshake.is_anonymous else client.username or ""
            self._admission = Admission(self._context, self._options, client, connect, step, user)
            self._admit(self._admission)

    def _is_banned(self, client: ClientInfo) -> bool:
        is_banned = self._context.sessions.wills.is_banned
        return is_banned is not None and is_banned(client.clientid, client.username, client.peerhost)

    def _send_auth(self, method: str, step: AuthStep) -> None:
        auth = answers.auth(method, step, self._packet_bytes_max)
        if auth is None:
            raise ProtocolError("it does not take the AUTH that it must have", rc.PACKET_TOO_LARGE)
        self._broker.counters.auth_sent += 1
        self._outbox.put(auth)

    # --- the session, and CONNACK

    def _admit(self, admission: Admission) -> None:
        awaited = admission.advance()
        if awaited is None:
            self._admission = None
            self._connect = None
            self._accept(admission)
        else:
            self._reader.wait_for(awaited, self._on_known)
            if admission.turn is not None:
                self._reader.wait_for_turn()

    def _on_known(self, answer: bool) -> None:
        admission = self._admission
        if admission is not None:
            admission.answered(answer)
            self._admit(admission)

    def cancel(self) -> None:
        if self._admission is not None:
            self._admission.cancel()

    def go_on(self) -> None:
        if self._admission is not None and self._admission.turn is not None:
            self._admission.turn.resolve(True)

    def _accept(self, admission: Admission) -> None:
        """Open the client's session and tell it that it is connected; each step needs the ones before."""
        client, connect, conversation = admission.client, admission.connect, self._conversation
        session, present = admission.open(self._outbox)
        properties = self._connack_properties(admission)
        if self._reader.state == CLOSED:  # a callback ended it
            self._context.sessions.leave(session, None)
            return
        if present:
            drop_denied(session, admission.denied)
        bytes_max = self._packet_bytes_max
        connack = answers.connack(present, rc.SUCCESS, properties, connect.version, bytes_max)
        if connack is None:
            self._context.sessions.leave(session, None)
            conversation.report("it does not take the CONNACK that it must have")
            conversation.end(rc.SUCCESS, "connack_too_large")
            return
        wants_reasons = connect.properties.number(props.REQUEST_PROBLEM_INFORMATION, 1) == 1
        # [MQTT-3.1.2-7] 3.1.1 [MQTT-3.1.2-8]
        conversation.begin(
            ConnectedClient(
                client,
                session,
                admission.authorizer,
                connect.will,
                bytes_max,
                decide.receive_maximum(connect),
                wants_reasons,
            )
        )
        self._broker.counters.connack_sent += 1
        # [MQTT-3.1.4-5] [MQTT-3.2.0-1] [MQTT-3.2.0-2] 3.1.1 [MQTT-3.1.4-4] 3.1.1 [MQTT-3.2.0-1]
        self._outbox.put(connack)
        self._attach(admission, session)
        self._broker.counters.clients_connected += 1
        self._broker.hooks.run(hooks.CLIENT_CONNECTED, (client, connect))
        session.resume()

    def _connack_properties(self, admission: Admission) -> Properties:
        """What the client's CONNACK tells it, as callbacks want it."""
        properties = decide.connack_properties(admission.connect, admission.client, self._options)
        if self._handshake is not None and self._handshake.method is not None:  # [MQTT-4.12.0-6]
            answers.add_authentication(properties, self._handshake.method, admission.step)
        return self._hooked_connack(rc.SUCCESS, properties)

    def _attach(self, admission: Admission, session: Session) -> None:
        """Let messages come, behind the CONNACK [MQTT-3.2.0-1] 3.1.1 [MQTT-3.2.0-1]."""
        connect = admission.connect
        session.attach(
            self._outbox,
            mqtt_encoder(
                connect.version,
                decide.packet_bytes_max(connect),
                decide.alias_max(connect, self._options),
                len(admission.client.mountpoint.encode("utf-8")),
            ),
            decide.receive_maximum(connect),
            admission.authorizer,
        )

    def _hooked_connack(self, code: int, properties: Properties) -> Properties:
        """What callbacks make of a CONNACK's properties."""
        client = self.client
        if client is None:
            return properties
        _, outcome = self._broker.hooks.run(hooks.CLIENT_CONNACK, (client, code), properties)
        return outcome if isinstance(outcome, Properties) else properties

    # --- without success

    def refuse(self, error: ProtocolError) -> None:
        """Answer the CONNECT of a client that is not let in, if it could be read; garbage gets no answer."""
        code = error.reason_code
        if code == rc.MALFORMED_PACKET or code == rc.PACKET_TOO_LARGE:
            return
        properties = Properties()  # [MQTT-3.1.4-1] 3.1.1 [MQTT-3.1.4-1]
        answers.add_reason(properties, error.detail)
        properties = self._hooked_connack(code, properties)
        self._broker.counters.connack_error += 1
        if self.client is not None:
            self._context.refused.on_connect(self.client, rc.name_of(code), self._broker.now_us)
        # [MQTT-3.1.4-2] [MQTT-3.2.2-6] [MQTT-3.2.2-7] 3.1.1 [MQTT-3.2.2-4] 3.1.1 [MQTT-3.2.2-5]
        connack = answers.connack(False, code, properties, self._reader.version, self._packet_bytes_max)
        if connack is not None:
            self._outbox.put(connack)
