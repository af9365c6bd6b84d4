"""How a client gets in: from its first packet over CONNECT and AUTH packets to its session and its CONNACK.

Who the client is and whether it is let in is decided in `connect` and `handshake`; what it does once it is in, in
`channel`.
"""

from collections.abc import Callable

from mypy_extensions import i64

from heliograph.broker import hooks
from heliograph.broker.authentication import AuthStep
from heliograph.broker.client import ClientInfo
from heliograph.broker.faults import CONNECTIONS
from heliograph.broker.guid import IdSource
from heliograph.broker.hooks import PendingChain
from heliograph.broker.pending import Pending, Wait
from heliograph.channel import answers
from heliograph.channel import connect as decide
from heliograph.channel.authorization import Authorizer, PendingDecision
from heliograph.channel.context import ChannelContext
from heliograph.channel.handshake import Handshake
from heliograph.channel.options import ChannelOptions
from heliograph.channel.peer import Peer
from heliograph.channel.publishing import Publishing
from heliograph.channel.reader import ANSWER, AUTHENTICATING, CLOSED, CONNECTED, IDLE, Reader
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
        self._awaited: Wait | None = None  # an answer, without which nothing more is handled,
        self._go_on: Callable[[bool], None] | None = None  # and what it is for; None while authenticators are asked
        self._admission: Admission | None = None  # while a client that was let in has no session yet
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
        elif isinstance(packet, p.Disconnect):
            self._broker.counters.disconnect_received += 1
            self.end(rc.SUCCESS, "normal")
        elif isinstance(packet, p.Auth):
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
            if not context.sessions.knows(clientid):
                return clientid

    def _on_auth(self, packet: p.Auth) -> None:
        self._broker.counters.auth_received += 1
        handshake = self._handshake
        if handshake is None:  # [MQTT-4.12.0-7]
            raise ProtocolError("AUTH from a client whose CONNECT named no authentication method")
        self._take_step(handshake.renew(packet) if self._state == CONNECTED else handshake.proceed(packet))

    def _take_step(self, step: AuthStep | PendingChain) -> None:
        if isinstance(step, AuthStep):
            self._on_step(step)
        else:
            self._hold_packets(ANSWER)
            step.due_us = self._answer_due_us()
            self._awaited = step
            step.then(self._on_authenticated)

    def _answer_due_us(self) -> i64:
        """Until when an answer is waited for; 0 for ever."""
        waited_us_max = self._options.idle_timeout_us
        return self._broker.uptime_us + waited_us_max if waited_us_max != 0 else 0

    def _on_authenticated(self, outcome: tuple[str, object]) -> None:
        """An authenticator that had to wait has its answer."""
        self._begin_turn()
        self._awaited = None
        handshake = self._handshake
        try:
            if handshake is not None:
                self._on_step(handshake.step(outcome[0], outcome[1]))
        except ProtocolError as error:
            self.on_protocol_error(error)
        except Exception as fault:  # noqa: BLE001 - the authenticator is to know nothing of it
            self._broker.faults.contain(CONNECTIONS, fault, self.abort)
            return  # nothing that came behind it is handled
        self._go_on_reading()

    def wait_for(self, awaited: Pending[bool], go_on: Callable[[bool], None]) -> None:
        """Handle nothing more of the client until an answer is there; then go on with it, and with what came since."""
        if not self._paused & ANSWER:
            self._hold_packets(ANSWER)
        self._awaited = awaited
        self._go_on = go_on
        awaited.then(self._on_answer)

    def _on_answer(self, answer: bool) -> None:
        self._begin_turn()
        self._awaited = None
        go_on = self._go_on
        self._go_on = None
        try:
            if go_on is not None:
                go_on(answer)
        except ProtocolError as error:
            self.on_protocol_error(error)
        except Exception as fault:  # noqa: BLE001 - what gave the answer is to know nothing of it
            self._broker.faults.contain(CONNECTIONS, fault, self.abort)
            return  # nothing that came behind it is handled
        self._go_on_reading()

    def _go_on_reading(self) -> None:
        """Handle what came meanwhile, unless there is another answer to wait for."""
        if self._awaited is None:
            if self.has_stored():
                self._wait_for_room()
            self._resume(ANSWER)

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
            authorizer = Authorizer(self._broker, self._client, self._options)
            self._admission = Admission(self._client, self._connect, step, authorizer)
            self._admit()

    def _send_auth(self, method: str, step: AuthStep) -> None:
        auth = answers.auth(method, step, self._packet_bytes_max)
        if auth is None:
            raise ProtocolError("it does not take the AUTH that it must have", rc.PACKET_TOO_LARGE)
        self._broker.counters.auth_sent += 1
        self._outbox.put(auth)

    def _admit(self) -> None:
        """Let the client in as soon as everything is known that decides about its session."""
        admission = self._admission
        if admission is None:
            return
        client, connect = admission.client, admission.connect
        if not admission.is_looked_up:
            lookup = self._context.sessions.look_up(client.clientid, connect.clean_start)
            if lookup is not None:
                lookup.due_us = self._answer_due_us()
                self.wait_for(lookup, self._on_looked_up)
                return
        known = self._context.sessions.find(client.clientid)
        # Subscriptions of another mountpoint are not this client's.
        clean_start = connect.clean_start or (known is not None and known.mountpoint != client.mountpoint)
        if known is not None and not clean_start and self._broker.hooks.client_authorize.callbacks:
            awaited = admission.ask_rights(known)
            if awaited is not None:
                self.wait_for(awaited, self._on_right)
                return
        self._admission = None
        self._connect = None
        self._accept(admission, clean_start)
        handshake = self._handshake
        if handshake is not None and handshake.method is None:
            self._handshake = None

    def _on_looked_up(self, was_read: bool) -> None:
        admission = self._admission
        if admission is not None:
            if not was_read:
                detail = f"the session of {self._clientid!r} cannot be read now"
                raise ProtocolError(detail, rc.SERVER_UNAVAILABLE)
            admission.is_looked_up = True
            self._admit()

    def _on_right(self, allowed: bool) -> None:
        admission = self._admission
        if admission is not None:
            if admission.is_undecided():  # its subscriptions are not dropped because nobody answers
                detail = f"nobody says in time what {self._clientid!r} may still have"
                raise ProtocolError(detail, rc.SERVER_UNAVAILABLE)
            admission.decided(allowed)
            admission.is_looked_up = False  # it may have been let go from memory meanwhile
            self._admit()

    def _accept(self, admission: "Admission", clean_start: bool) -> None:
        """Open the client's session and tell it that it is connected; each step needs the ones before."""
        client, connect = admission.client, admission.connect
        session, present = self._open_session(admission, clean_start)
        properties = self._connack_properties(admission)
        if self._state == CLOSED:  # a callback ended it
            self._context.sessions.leave(session, None)
            return
        if present:
            _drop_denied(session, admission.denied)
        self._begin_conversation(admission, session)
        # [MQTT-3.1.4-5] [MQTT-3.2.0-1] [MQTT-3.2.0-2] 3.1.1 [MQTT-3.1.4-4] 3.1.1 [MQTT-3.2.0-1]
        if not self._send_connack(present, rc.SUCCESS, properties):
            self._report("it does not take the CONNACK that it must have")
            self.end(rc.SUCCESS, "connack_too_large")
            return
        self._will = connect.will  # [MQTT-3.1.2-7] 3.1.1 [MQTT-3.1.2-8]
        self._attach(admission, session)
        self._broker.hooks.run(hooks.CLIENT_CONNECTED, (client, connect))
        session.resume()

    def _open_session(self, admission: "Admission", clean_start: bool) -> tuple[Session, bool]:
        """Take the client id over from another connection, and open its session; whether that was there before."""
        client, connect, context = admission.client, admission.connect, self._context
        other = context.channels.find(client.clientid)
        if other is not None:
            try:
                other.take_over(clean_start)
            except Exception as error:
                self._broker.faults.contain(CONNECTIONS, error, other.abort)
                detail = "the connection that has its client id cannot be ended now"
                raise ProtocolError(detail, rc.SERVER_UNAVAILABLE) from error
        # [MQTT-3.1.4-4] 3.1.1 [MQTT-3.1.4-3]
        session, present = context.sessions.open(
            client.clientid,
            clean_start,
            self._options.session,
            decide.session_expiry_s(connect, self._options),
            self._outbox,
        )
        client.expiry_interval_s = session.expiry_interval_s
        session.mountpoint = client.mountpoint
        return session, present

    def _connack_properties(self, admission: "Admission") -> Properties:
        """What the client's CONNACK tells it, as callbacks want it."""
        properties = decide.connack_properties(admission.connect, admission.client, self._options)
        if self._handshake is not None and self._handshake.method is not None:  # [MQTT-4.12.0-6]
            answers.add_authentication(properties, self._handshake.method, admission.step)
        return self._hooked_connack(rc.SUCCESS, properties)

    def _begin_conversation(self, admission: "Admission", session: Session) -> None:
        """From now on the channel serves the client; its will is saved where its session is."""
        context, options, client = self._context, self._options, admission.client
        context.channels.register(client.clientid, self)
        self._session = session
        self._authorizer = admission.authorizer
        reason_bytes_max: i64 = self._packet_bytes_max if self._tells_problems else -1  # [MQTT-3.1.2-29]
        self._publishing = Publishing(
            context, options, session, self._outbox, self, self._ids, client, admission.authorizer, reason_bytes_max
        )
        self._state = CONNECTED
        self._heard_at_us = self._broker.uptime_us
        self._silence_us_max = client.keepalive_s * 10_000 * options.keepalive_multiplier_percent
        if session.keeps_wills():
            will, low, now = admission.connect.will, self._ids.next_low(), self._broker.now_us
            session.keep_will(
                None if will is None else decide.will(will, client, options, now, low, admission.authorizer)
            )

    def _attach(self, admission: "Admission", session: Session) -> None:
        """Let messages come, behind the CONNACK [MQTT-3.2.0-1] 3.1.1 [MQTT-3.2.0-1]."""
        connect = admission.connect
        session.attach(
            self._outbox,
            connect.version,
            decide.receive_maximum(connect),
            decide.packet_bytes_max(connect),
            decide.alias_max(connect, self._options),
            len(admission.client.mountpoint.encode("utf-8")),
            admission.authorizer,
        )

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

    def _cancel_awaited(self) -> None:
        if self._awaited is not None:
            self._awaited.cancel()
            self._awaited = None
            self._go_on = None
            self._admission = None

    def _report(self, detail: str) -> None:
        peer = self._peer
        self._context.report("" if peer is None else peer.peername, self._clientid, detail)

    @property
    def _clientid(self) -> str:
        client, connect = self._client, self._connect
        if client is None:
            return "" if connect is None else connect.clientid
        return client.clientid


class Admission:
    """A client that has proved who it is, until its session is open; owned by its channel.

    Args:
        step: What its authenticator answered last.

    Attributes:
        is_looked_up: Whether what the disk has of its session was read.
        denied: The subscriptions of its session that it may not have any more.
    """

    def __init__(self, client: ClientInfo, connect: p.Connect, step: AuthStep, authorizer: Authorizer) -> None:
        self.client = client
        self.connect = connect
        self.step = step
        self.authorizer = authorizer
        self.is_looked_up = False
        self.denied: list[str] = []
        self._asked: dict[str, None] = {}
        self._name = ""  # of the subscription that is asked about now,
        self._awaited: PendingDecision | None = None  # and the answer that was waited for last

    def ask_rights(self, session: Session) -> PendingDecision | None:
        """Ask which subscriptions the client may still have: its rights may have changed while it was away.

        Returns:
            An answer that is not there yet; give it to `decided`, and call this again. None when all are known.
        """
        authorizer = self.authorizer
        for name in list(session.subscriptions):
            if name in self._asked:
                continue
            self._asked[name] = None
            self._name = name
            if not authorizer.may_subscribe(bare_filter(name)):
                if authorizer.awaited is not None:
                    self._awaited = authorizer.awaited
                    return self._awaited
                self.denied.append(name)
        return None

    def is_undecided(self) -> bool:
        """Whether the answer that was waited for did not come in time."""
        return self._awaited is not None and self._awaited.is_expired

    def decided(self, allowed: bool) -> None:
        """The answer that was waited for is there."""
        if not allowed:
            self.denied.append(self._name)


def _drop_denied(session: Session, names: list[str]) -> None:
    """Drop the subscriptions that a client may not have any more."""
    for name in names:
        subscription = session.unsubscribe(name)
        if subscription is not None:
            told = (session.clientid, name, subscription.qos, Properties())
            session.broker.hooks.run(hooks.SESSION_UNSUBSCRIBED, told)
