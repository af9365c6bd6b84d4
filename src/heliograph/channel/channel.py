"""The conversation of one client, from its first byte to its last.

`receive` is the hot path: it parses every complete packet of what the socket had, in one synchronous loop, and answers
into the outbox, which is written at the end of the turn. What must wait (a commit, a full storage buffer, a turn that
has done enough) pauses reading, and nothing overtakes it.
"""

from typing import Final

from mypy_extensions import i64

from heliograph.broker import hooks
from heliograph.broker.guid import IdSource
from heliograph.channel import connect as decide
from heliograph.channel.context import ChannelContext, Waiter
from heliograph.channel.publishing import Publishing
from heliograph.channel.retained import RetainedDelivery
from heliograph.channel.subscribe import subscribe, unsubscribe
from heliograph.mqtt import packets as p
from heliograph.mqtt import properties as props
from heliograph.mqtt import reason_codes as rc
from heliograph.mqtt.decode import connect_version, decode_packet, decode_publish, remaining_length
from heliograph.mqtt.encode import (
    PINGRESP,
    encode_ack,
    encode_connack,
    encode_disconnect,
    encode_packet,
)
from heliograph.mqtt.errors import MalformedPacketError, PacketTooLargeError, ProtocolError
from heliograph.mqtt.properties import Properties
from heliograph.session.outbox import Outbox, Wire
from heliograph.session.session import Session

_IDLE: Final = 0  # waits for CONNECT
_CONNECTED: Final = 1
_CLOSED: Final = 2

# Why reading is paused; bits.
_TURN: Final = 1  # this turn has delivered enough
_STORAGE: Final = 2  # storage must commit first
_CONGESTED: Final = 4  # the peer does not read what it is sent

# A packet that is no message costs about as much as so many deliveries.
_PACKET_WORK: Final = 4
# A client with so little to say need not wait for its turn.
_SHORT_BYTES: Final = 4096
# How long a peer may take to read the last words of its connection before it is cut.
_LINGER_US: Final = 10_000_000
# A peer that sends without reading is not read from while this many bytes of answers wait for it.
_UNREAD_ANSWERS_MAX: Final = 65_536


class Channel(Waiter):
    """One client's conversation; a view of one connection, owned by the transport's connection."""

    def __init__(self, context: ChannelContext, wire: Wire) -> None:
        self._context = context
        self._broker = context.broker
        self._wire = wire
        self._number = context.next_number()
        self._ids = IdSource(context.node, self._number)
        self._outbox = Outbox(context.flusher, wire)
        self._peername = ""
        self._state: i64 = _IDLE
        self._version: i64 = p.V3_1_1
        self._clientid = ""
        self._username: str | None = None
        self._session: Session | None = None
        self._will: p.Will | None = None
        self._publishing: Publishing | None = None
        self._partial: list[bytes] | None = None  # the beginning of a packet, in the pieces it came in
        self._partial_bytes: i64 = 0
        self._packet_bytes: i64 = 0  # how many bytes that packet has, if known
        self._paused: i64 = 0
        self._waits_for_turn = False
        self._unparsed = False  # `_partial` may hold whole packets
        self._retained: RetainedDelivery | None = None  # what new subscriptions have yet to get
        self._silence_us_max: i64 = context.options.idle_timeout_us
        self._heard_at_us: i64 = self._begin_turn()

    # --- told by the transport

    def connection_made(self, peername: str) -> None:
        """The connection stands; `peername` is the peer's address, for the log."""
        self._peername = peername
        self._context.channels.add(self._number, self)
        self._broker.counters.connections_accepted += 1

    def receive(self, data: bytes) -> None:
        """Take bytes as they came from the socket."""
        now = self._begin_turn()
        self._broker.counters.bytes_received += len(data)
        if self._partial is not None:
            joined = self._join_partial(data)
            if joined is None:
                return
            data = joined
        if self._state == _CONNECTED:
            # Packets count, not bytes: one that drips in for ever, CONNECT above all, keeps nobody alive.
            self._heard_at_us = now
        self._parse(data)
        publishing = self._publishing
        if publishing is not None and publishing.stored:
            publishing.stored = False
            self._wait_for_room()
        if self._outbox.congested and self._outbox.waiting_bytes > _UNREAD_ANSWERS_MAX:
            self._pause(_CONGESTED)

    def on_congested(self, congested: bool) -> None:
        """The transport's buffer passed its high mark, or is below its low mark again."""
        self._begin_turn()
        self._outbox.set_congested(congested)
        if not congested:
            if self._session is not None:
                self._session.pump()
            self._deliver_retained()
            self._resume(_CONGESTED)

    def connection_lost(self) -> None:
        """The connection is gone."""
        self._begin_turn()
        self._leave("tcp_closed", True)
        self._outbox.abandon()
        self._context.channels.remove(self._number)
        self._broker.counters.connections_closed += 1
        self._partial = None
        self._part_from_publishing()

    # --- told by the node

    def on_tick(self, uptime_us: i64) -> None:
        """End the conversation of a client that has been silent for too long, or the connection of one that ended."""
        if self._state == _CLOSED:
            # The transport closes once the peer has read everything; one that never does would stay for ever.
            if uptime_us - self._heard_at_us > _LINGER_US:
                self._wire.abort()
        elif self._paused != 0:
            self._heard_at_us = uptime_us  # it is we who do not listen
        elif self._silence_us_max != 0 and uptime_us - self._heard_at_us > self._silence_us_max:
            if self._state == _IDLE:
                self._end(rc.SUCCESS, "idle_timeout")
            else:
                self._end(rc.KEEP_ALIVE_TIMEOUT, "keepalive_timeout")  # [MQTT-3.1.2-22]

    def on_committed(self, ticket: i64, code: int) -> None:
        """A commit that acknowledgements waited for is done."""
        publishing = self._publishing
        if publishing is not None:
            code = publishing.on_committed(ticket, code, self._state == _CONNECTED)
            if code != rc.SUCCESS:
                self._end(code, "storage refused a message")
            if self._state == _CLOSED:
                self._part_from_publishing()

    def on_room(self) -> None:
        """Storage takes messages again."""
        self._resume(_STORAGE)

    def on_turn(self) -> None:
        """It has its turn: go on where the last one ended."""
        self._waits_for_turn = False
        self._begin_turn()
        self._deliver_retained()
        if self._unparsed and self._paused == _TURN and self._state != _CLOSED:
            self._unparsed = False
            try:
                self.receive(b"")
            except BaseException:
                self._wire.abort()  # as the transport does when `receive` fails under it
                raise
            if not self._unparsed:
                self._resume(_TURN)

    def take_over(self) -> None:
        """Another connection has the client id now [MQTT-3.1.4-3]."""
        self._broker.hooks.run(hooks.SESSION_TAKENOVER, (self._clientid,))
        self._end(rc.SESSION_TAKEN_OVER, "takenover")

    def shut_down(self, code: int) -> None:
        """The broker ends the conversation."""
        self._end(code, "kicked")

    # --- bytes to packets

    def _begin_turn(self) -> i64:
        uptime: i64 = self._context.clock()
        self._broker.begin_turn(uptime)
        return uptime

    def _parse(self, data: bytes) -> None:
        pos: i64 = 0
        end: i64 = len(data)
        size_max = self._context.options.max_packet_size
        broker = self._broker
        work_max = self._context.turns.work_max
        try:
            while end - pos >= 2 and self._state != _CLOSED:
                if broker.work > work_max and (pos > 0 or end > _SHORT_BYTES):
                    self._yield_turn(data[pos:])
                    return
                length: i64 = data[pos + 1]
                body: i64 = pos + 2
                if length >= 0x80:
                    length, body = remaining_length(data, pos + 1, end)
                    if length < 0:
                        break
                    if data[body - 1] == 0 and self._version == p.V5:  # [MQTT-1.5.5-1]
                        raise MalformedPacketError("the remaining length is longer than it needs to be")
                stop: i64 = body + length
                if stop - pos > size_max:
                    raise PacketTooLargeError(f"packet of {int(stop - pos)} bytes; at most {int(size_max)} are allowed")
                if self._state == _IDLE and data[pos] != p.CONNECT << 4:  # [MQTT-3.1.0-1]
                    raise MalformedPacketError(f"the first byte is 0x{data[pos]:02x}, not that of a CONNECT")
                if stop > end:
                    self._packet_bytes = stop - pos
                    break
                broker.work += _PACKET_WORK + ((stop - pos) >> 10)
                self._dispatch(data, pos, body, stop)
                pos = stop
        except ProtocolError as error:
            self._on_protocol_error(error)
        if pos < end and self._state != _CLOSED:
            self._partial = [data[pos:]]
            self._partial_bytes = end - pos

    def _join_partial(self, data: bytes) -> bytes | None:
        # Pieces are joined once, when the packet is complete: joining at each read would cost the square of its size.
        partial = self._partial
        if partial is None:
            return data
        partial.append(data)
        self._partial_bytes += len(data)
        if self._partial_bytes < self._packet_bytes:
            if len(partial) > 64 + (self._partial_bytes >> 8):
                self._partial = [b"".join(partial)]  # a piece costs 48 bytes beside its content
            return None
        self._partial = None
        self._packet_bytes = 0
        return b"".join(partial)

    def _dispatch(self, data: bytes, pos: i64, body: i64, stop: i64) -> None:
        kind: i64 = data[pos] >> 4
        session, publishing = self._session, self._publishing
        if session is None or publishing is None:
            self._version = connect_version(data, body, stop)
            packet = decode_packet(data, pos, body, stop, self._version)
            if isinstance(packet, p.Connect):
                self._on_connect(packet)
            return
        self._broker.counters.packets_received += 1
        if kind == p.PUBLISH:
            publishing.on_publish(decode_publish(data, pos, body, stop, self._version))
            return
        packet = decode_packet(data, pos, body, stop, self._version)
        if isinstance(packet, p.Ack):
            self._on_ack(session, packet)
        elif kind == p.PINGREQ:
            self._outbox.put(PINGRESP)  # [MQTT-3.12.4-1]
        elif isinstance(packet, p.Subscribe):
            self._outbox.put(encode_packet(self._on_subscribe(session, packet), self._version))
            self._find_retained(session, packet)
            self._deliver_retained()
        elif isinstance(packet, p.Unsubscribe):
            codes = unsubscribe(self._broker, session, packet)
            suback = p.Suback(p.UNSUBACK, packet.packet_id, codes, Properties())
            self._outbox.put(encode_packet(suback, self._version))
        elif isinstance(packet, p.Disconnect) and kind == p.DISCONNECT:
            self._on_disconnect(session, packet)
        elif kind == p.CONNECT:
            raise ProtocolError("a second CONNECT")  # [MQTT-3.1.0-2]
        else:
            raise ProtocolError(f"{p.NAMES[kind]} is not for the broker")

    # --- CONNECT and DISCONNECT

    def _on_connect(self, connect: p.Connect) -> None:
        context = self._context
        self._version = connect.version
        decide.check_connect(connect, context.options)
        clientid = connect.clientid or context.new_clientid()
        code = self._authenticate(clientid, connect)
        if code != rc.SUCCESS:
            raise ProtocolError(f"client {clientid!r} is refused: {rc.name_of(code)}", code)
        self._clientid = clientid
        self._username = connect.username
        self._will = connect.will
        other = context.channels.find(clientid)
        if other is not None:
            other.take_over()
        session, present = context.sessions.open(clientid, connect.clean_start)
        session.expiry_interval_s = decide.session_expiry_s(connect, context.options)
        session.attach(self._outbox, connect.version, decide.receive_maximum(connect), decide.packet_bytes_max(connect))
        context.channels.register(clientid, self)
        self._session = session
        self._publishing = Publishing(
            context, session, self._outbox, self, self._ids, connect.version, connect.username
        )
        self._state = _CONNECTED
        self._heard_at_us = self._broker.uptime_us
        keepalive_s = decide.keepalive_s(connect, context.options)
        self._silence_us_max = keepalive_s * 10_000 * context.options.keepalive_multiplier_percent
        properties = decide.connack_properties(connect, clientid, context.options, session.options.max_awaiting_rel)
        self._outbox.put(encode_connack(p.Connack(present, rc.SUCCESS, properties), connect.version))
        self._broker.hooks.run(hooks.CLIENT_CONNECTED, (clientid, connect, self._peername))
        session.resume()

    def _authenticate(self, clientid: str, connect: p.Connect) -> int:
        arguments = (clientid, connect, self._peername)
        self._broker.hooks.run(hooks.CLIENT_CONNECT, arguments)
        _, code = self._broker.hooks.run(hooks.CLIENT_AUTHENTICATE, arguments, rc.SUCCESS)
        return code if isinstance(code, int) else rc.NOT_AUTHORIZED

    def _on_disconnect(self, session: Session, packet: p.Disconnect) -> None:
        expiry_s = packet.properties.number(props.SESSION_EXPIRY_INTERVAL, -1)
        if expiry_s >= 0:
            if expiry_s > 0 and session.expiry_interval_s == 0:  # a protocol error by section 3.14.2.2.2
                raise ProtocolError("DISCONNECT sets a session expiry interval where CONNECT had none")
            session.expiry_interval_s = expiry_s
        self._leave("normal", packet.code != rc.SUCCESS)  # [MQTT-3.14.4-3]
        self._close()

    # --- acknowledgements and SUBSCRIBE

    def _on_ack(self, session: Session, ack: p.Ack) -> None:
        packet_id = ack.packet_id
        if ack.kind == p.PUBACK:
            session.on_puback(packet_id)
        elif ack.kind == p.PUBREC:
            if session.on_pubrec(packet_id, ack.code):
                if ack.code < rc.UNSPECIFIED_ERROR:
                    self._outbox.put(encode_ack(p.PUBREL, packet_id, rc.SUCCESS, self._version))  # [MQTT-4.3.3-4]
            else:
                code = rc.PACKET_IDENTIFIER_NOT_FOUND
                self._outbox.put(encode_ack(p.PUBREL, packet_id, code, self._version))
        elif ack.kind == p.PUBREL:
            code = rc.SUCCESS if session.release(packet_id) else rc.PACKET_IDENTIFIER_NOT_FOUND
            self._outbox.put(encode_ack(p.PUBCOMP, packet_id, code, self._version))  # [MQTT-4.3.3-11]
        else:
            session.on_pubcomp(packet_id)
        if self._retained is not None:
            self._deliver_retained()

    def _on_subscribe(self, session: Session, packet: p.Subscribe) -> p.Suback:
        codes = subscribe(self._broker, session, packet, self._context.options)
        if self._version != p.V5:
            codes = [min(code, rc.UNSPECIFIED_ERROR) for code in codes]  # MQTT 3 knows one failure [MQTT-3.9.3-2]
        return p.Suback(p.SUBACK, packet.packet_id, codes, Properties())

    def _find_retained(self, session: Session, packet: p.Subscribe) -> None:
        if self._broker.retained is None:
            return
        for entry in packet.entries:
            subscription = session.subscriptions.get(entry.topic_filter)
            if subscription is not None and (entry.retain_handling == 0 or subscription.is_new):
                subscription.is_new = False
                if entry.retain_handling != 2:
                    if self._retained is None:
                        self._retained = RetainedDelivery(self._context, session)
                    self._retained.add(subscription)

    def _deliver_retained(self) -> None:
        retained = self._retained
        if retained is None or self._waits_for_turn:
            return
        if retained.deliver():
            self._wait_for_turn()
        elif retained.is_done():
            self._retained = None

    # --- the end

    def _on_protocol_error(self, error: ProtocolError) -> None:
        self._broker.counters.protocol_errors += 1
        self._context.report(self._peername, self._clientid, error.detail)
        if self._state == _CONNECTED:
            self._end(error.reason_code, "protocol_error")
            return
        if self._is_connect_refusal(error):
            self._outbox.put(encode_connack(p.Connack(False, error.reason_code, Properties()), self._version))
        self._state = _CLOSED
        self._close()

    def _is_connect_refusal(self, error: ProtocolError) -> bool:
        # A CONNACK is for whoever sent a CONNECT that could be read [MQTT-3.1.4-2]; garbage gets no answer.
        return error.reason_code != rc.MALFORMED_PACKET and error.reason_code != rc.PACKET_TOO_LARGE

    def _end(self, code: int, reason: str) -> None:
        if self._state == _CLOSED:
            return
        if self._version == p.V5 and self._state == _CONNECTED and code != rc.SUCCESS:
            self._outbox.put(encode_disconnect(p.Disconnect(p.DISCONNECT, code, Properties()), p.V5))
        self._leave(reason, True)
        self._close()

    def _close(self) -> None:
        self._heard_at_us = self._broker.uptime_us
        self._outbox.close_after_flush()

    def _leave(self, reason: str, with_will: bool) -> None:
        """Part from the session; the will is published unless the client took it back."""
        if self._state != _CONNECTED:
            self._state = _CLOSED
            return
        self._state = _CLOSED
        context = self._context
        context.channels.unregister(self._clientid, self)
        self._retained = None
        session = self._session
        will = self._will
        if session is None:
            return
        if will is None or not with_will:
            context.sessions.leave(session, None, 0)
        else:
            now: i64 = self._broker.now_us
            message = decide.will_message(will, self._clientid, self._username, now, self._ids.next_low())
            context.sessions.leave(session, message, will.properties.number(props.WILL_DELAY_INTERVAL, 0))
        self._broker.hooks.run(hooks.CLIENT_DISCONNECTED, (self._clientid, reason, self._peername))

    # --- pausing

    def _yield_turn(self, rest: bytes) -> None:
        self._partial = [rest]
        self._partial_bytes = len(rest)
        self._packet_bytes = 0
        self._unparsed = True
        self._pause(_TURN)
        self._wait_for_turn()

    def _wait_for_turn(self) -> None:
        if not self._waits_for_turn:
            self._waits_for_turn = True
            self._context.turns.wait(self)

    def _wait_for_room(self) -> None:
        sink = self._broker.sink
        if sink is not None and sink.is_full() and self._state != _CLOSED and not self._paused & _STORAGE:
            self._context.commits.wait_for_room(self)
            self._pause(_STORAGE)

    def _pause(self, why: i64) -> None:
        if self._paused == 0:
            self._wire.pause_reading()
        self._paused |= why

    def _resume(self, why: i64) -> None:
        if self._paused & why:
            self._paused &= ~why
            if self._state == _CLOSED:
                return
            if self._paused == 0:
                self._wire.resume_reading()
            elif self._paused == _TURN and self._unparsed:
                self._wait_for_turn()

    def _part_from_publishing(self) -> None:
        # The two refer to each other; parted, they and what they hold are freed at once and not by the collector.
        publishing = self._publishing
        if publishing is not None and not publishing.has_pending():
            self._publishing = None

    def __repr__(self) -> str:
        state = ("idle", "connected", "closed")[self._state]
        return f"Channel({self._clientid!r} at {self._peername}, {state})"
