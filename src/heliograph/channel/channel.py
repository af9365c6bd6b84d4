"""The conversation of one client, from its first packet to its last: what each packet means and what is answered.

How bytes become packets is the `reader`'s, and how the client gets in the `entrance`'s; a PUBLISH goes on in
`publishing`, a SUBSCRIBE in `subscribing`. Answers go into the outbox, which is written at the end of the turn.
"""

from typing import Final

from mypy_extensions import i64

from heliograph.broker import hooks
from heliograph.broker.faults import CONNECTIONS
from heliograph.channel import answers
from heliograph.channel import connect as decide
from heliograph.channel.context import ChannelContext
from heliograph.channel.entrance import Entrance
from heliograph.channel.options import ChannelOptions
from heliograph.channel.peer import Peer
from heliograph.channel.reader import (
    CLOSED,
    CONGESTED,
    CONNECTED,
    FILTERS,
)
from heliograph.channel.receipts import take_receipt
from heliograph.channel.subscribing import FilterWork, Subscribing, Undecoded
from heliograph.mqtt import packets as p
from heliograph.mqtt import properties as props
from heliograph.mqtt import reason_codes as rc
from heliograph.mqtt.decode import decode_packet, decode_publish
from heliograph.mqtt.encode import PINGRESP
from heliograph.mqtt.errors import ProtocolError
from heliograph.mqtt.properties import Properties
from heliograph.session.outbox import Wire
from heliograph.session.session import Session

# How long a peer may take to read the last words of its connection before it is cut.
_LINGER_US: Final = 10_000_000
# Topic filters of a packet that are decoded in one go, and what one costs, in deliveries.
_DECODED_AT_ONCE: Final = 1024
_DECODE_WORK: Final = 8
# What the rest of a packet that is no PUBLISH counts as at the most.
_PACKET_WORK_MAX: Final = 8192


class Channel(Entrance):
    """One client's conversation; a view of one connection, owned by the transport's connection.

    Args:
        options: What holds at the listener that accepted the connection.
    """

    def __init__(self, context: ChannelContext, wire: Wire, options: ChannelOptions) -> None:
        super().__init__(context, wire, options)
        self._subscribing: Subscribing | None = None  # made by the first SUBSCRIBE
        self._filters: FilterWork | None = None  # of a SUBSCRIBE or UNSUBSCRIBE that is not done yet,
        self._undecoded: Undecoded | None = None  # or not even decoded

    # --- told by the transport

    def connection_made(self, peer: Peer) -> None:
        """The connection stands, and this is its other end."""
        self._peer = peer
        self._outbox.set_writer(self._wire.writer())
        self._context.channels.add(self._number, self)
        self._broker.counters.connections_accepted += 1

    def on_congested(self, congested: bool) -> None:
        """The transport's buffer passed its high mark, or is below its low mark again."""
        self._begin_turn()
        self._outbox.set_congested(congested)
        if not congested:
            if self._session is not None:
                self._session.pump()
            self.deliver_retained()
            self._resume(CONGESTED)

    def connection_lost(self) -> None:
        """The connection is gone."""
        self._begin_turn()
        try:
            self._leave("tcp_closed", True)
        except Exception as error:  # noqa: BLE001 - whatever it is, nothing is written any more
            self._broker.faults.contain(CONNECTIONS, error)
        self._outbox.abandon()
        self._context.channels.remove(self._number)
        self._broker.counters.connections_closed += 1
        self._inbox = None
        self._part_from_publishing()

    # --- told by the node

    def on_tick(self, uptime_us: i64) -> None:
        """End the conversation of a client that has been silent for too long, or the connection of one that ended."""
        if self._state == CLOSED:
            # The transport closes once the peer has read everything; one that never does would stay for ever.
            if uptime_us - self._heard_at_us > _LINGER_US:
                self._wire.abort()
            return
        if self._outbox.congested and self._is_over_ceiling():
            self._broker.counters.connections_cut += 1
            self._report("more waits for it than force_shutdown allows, and it does not read")
            self.end(rc.QUOTA_EXCEEDED, "force_shutdown")
            self._outbox.abandon()
            self._wire.abort()
            return
        session = self._session
        if session is not None:
            session.pump()  # what was more than a turn may write
            if session.options.retry_interval_us > 0:
                session.retry(uptime_us)
        self.deliver_retained()  # of which there may be so many a second
        if self._awaited is not None:
            self._heard_at_us = uptime_us  # it is we who do not listen
            if self._awaited.is_late(uptime_us):
                self._awaited.expire()
        elif self._paused != 0:
            self._heard_at_us = uptime_us  # it is we who do not listen
        elif self._silence_us_max != 0 and uptime_us - self._heard_at_us > self._silence_us_max:
            if self._state == CONNECTED:
                self.end(rc.KEEP_ALIVE_TIMEOUT, "keepalive_timeout")  # [MQTT-3.1.2-22] 3.1.1 [MQTT-3.1.2-24]
            else:
                self._broker.counters.connections_idle += 1
                self.end(rc.SUCCESS, "idle_timeout")  # [MQTT-3.1.4-1]

    def on_committed(self, ticket: i64, code: int) -> None:
        """A commit that acknowledgements waited for is done."""
        publishing = self._publishing
        if publishing is not None:
            code = publishing.on_committed(ticket, code, self._state == CONNECTED)
            if code != rc.SUCCESS:
                self.end(code, "storage refused a message")  # 3.1.1 [MQTT-4.8.0-2]
            if self._state == CLOSED:
                self._part_from_publishing()

    def take_over(self, discard: bool) -> None:
        """Another connection has the client id now [MQTT-3.1.4-3]; `discard`: and begins a session of its own."""
        session = self._session
        if not discard and session is not None and session.expiry_interval_s != 0:  # it goes on with the other
            self._broker.hooks.run(hooks.SESSION_TAKENOVER, (self._clientid,))
        self.end(rc.SESSION_TAKEN_OVER, "discarded" if discard else "takenover")  # [MQTT-3.1.4-3] 3.1.1 [MQTT-3.1.4-2]

    def buffered_bytes(self) -> int:
        """Bytes that closing it would free: what waits for the peer, or for its next packet to be whole.

        What its session queues is among them only if the session ends with the connection; else it would wait on, and
        for longer than with its reader there.
        """
        session = self._session
        waiting = 0
        if session is not None and session.expiry_interval_s == 0:
            waiting = session.held_bytes()[1]
        if self._inbox is not None:
            waiting += self._inbox.size_bytes
        return int(self._outbox.waiting_bytes + self._wire.unsent_bytes() + waiting)

    def held_bytes(self, shared: dict[int, int]) -> int:
        """Bytes that the connection holds, without its session's; see `ChannelHandle.held_bytes`."""
        waiting = 0 if self._inbox is None else self._inbox.size_bytes
        return int(self._outbox.waiting_bytes + self._wire.note_shared(shared) + waiting)

    def alias_bytes(self) -> int:
        """Bytes of the topic aliases that the client set."""
        return 0 if self._publishing is None else self._publishing.alias_bytes()

    def cut(self, code: int, why: str) -> None:
        """End the conversation at once: what waits for the peer is lost."""
        self._begin_turn()
        self._report(why)
        is_stuck = self._outbox.congested  # else it reads the DISCONNECT that says why
        self.end(code, "force_shutdown", why)
        if is_stuck:
            self._outbox.abandon()
            self._wire.abort()

    def shut_down(self, code: int) -> None:
        """The broker ends the conversation."""
        self._begin_turn()
        self.end(code, "kicked")

    def subscribe(self, entries: list[p.SubscribeEntry]) -> list[int]:
        """Subscribe on the client's behalf: a reason code for each filter; none if the client is not connected."""
        subscribing = self._subscriber()
        if subscribing is None:
            return []
        codes = subscribing.subscribe(entries)
        self.deliver_retained()
        return codes

    def unsubscribe(self, topic_filters: list[str]) -> list[int]:
        """Unsubscribe on the client's behalf: a reason code for each filter; none if the client is not connected."""
        subscribing = self._subscriber()
        return [] if subscribing is None else subscribing.unsubscribe(topic_filters)

    # --- told by the reader

    def dispatch(self, data: bytes, pos: i64, body: i64, stop: i64) -> None:
        """Act on one packet; the most frequent ones first."""
        kind: i64 = data[pos] >> 4
        session, publishing = self._session, self._publishing
        if session is None or publishing is None:
            self.dispatch_early(data, pos, body, stop)
            return
        if kind == p.PUBLISH:
            publishing.on_publish(decode_publish(data, pos, body, stop, self._version))
            return
        if (
            p.PUBACK <= kind <= p.PUBCOMP
            and stop == body + 2
            and data[pos] == (0x62 if kind == p.PUBREL else kind << 4)
        ):
            # The common form of an acknowledgement: no reason code, no properties.
            packet_id: i64 = (data[body] << 8) | data[body + 1]
            if packet_id != 0:
                self._on_receipt(session, kind, packet_id, rc.SUCCESS)
                return
        if kind == p.CONNECT:
            raise ProtocolError("a second CONNECT")  # [MQTT-3.1.0-2] 3.1.1 [MQTT-3.1.0-2]
        self._broker.work += min(
            stop - pos, _PACKET_WORK_MAX
        )  # a field of a few bytes costs as much as some deliveries
        packet = decode_packet(
            data, pos, body, stop, self._version, self._options.max_user_properties, _DECODED_AT_ONCE
        )
        counters = self._broker.counters
        if isinstance(packet, p.Ack):
            self._on_receipt(session, kind, packet.packet_id, packet.code)
        elif kind == p.PINGREQ:
            counters.pingreq_received += 1
            counters.pingresp_sent += 1
            self._outbox.put(PINGRESP)  # [MQTT-3.12.4-1] 3.1.1 [MQTT-3.12.4-1]
        elif isinstance(packet, p.Subscribe):
            self._broker.counters.subscribe_received += 1
            self._decode_filters(Undecoded(packet, None, data, stop))
        elif isinstance(packet, p.Unsubscribe):
            self._broker.counters.unsubscribe_received += 1
            self._decode_filters(Undecoded(None, packet, data, stop))
        elif isinstance(packet, p.Disconnect):
            self._on_disconnect(session, packet)
        elif isinstance(packet, p.Auth):
            self._on_auth(packet)
        else:
            raise ProtocolError(f"{p.NAMES[kind]} is not for the broker")

    def has_stored(self) -> bool:
        """Whether something went to storage since the last call."""
        publishing = self._publishing
        if publishing is None or not publishing.stored:
            return False
        publishing.stored = False
        return True

    def go_on(self) -> None:
        """Go on with what was more than a turn's work."""
        if self._awaited is None and (self._filters is not None or self._undecoded is not None):
            try:
                if self._undecoded is not None:
                    self._decode_filters(self._undecoded)
                elif self._filters is not None:
                    self._go_on_with_filters(self._filters)
            except ProtocolError as error:
                self.on_protocol_error(error)
        self.deliver_retained()

    def deliver_retained(self) -> None:
        """Go on with delivering retained messages, as far as client and turn allow."""
        subscribing = self._subscribing
        if subscribing is not None and not self._waits_for_turn and subscribing.deliver_retained():
            self._wait_for_turn()

    def on_protocol_error(self, error: ProtocolError) -> None:
        """The peer broke the protocol: end its conversation with the reason code that says how."""
        self._broker.counters.protocol_errors += 1
        self._report(error.detail)
        if self._state == CONNECTED:
            # [MQTT-4.12.1-2] [MQTT-4.13.1-1] 3.1.1 [MQTT-4.8.0-1]
            self.end(error.reason_code, rc.name_of(error.reason_code), error.detail)
            return
        self.refuse(error)
        self._state = CLOSED
        self._close()

    def _on_disconnect(self, session: Session, packet: p.Disconnect) -> None:
        self._broker.counters.disconnect_received += 1
        if packet.code not in rc.DISCONNECT_FROM_CLIENT:  # [MQTT-3.14.2-1]
            raise ProtocolError(f"DISCONNECT with reason code 0x{packet.code:02x}, which is not a client's")
        expiry_s = packet.properties.number(props.SESSION_EXPIRY_INTERVAL, -1)
        if expiry_s >= 0:
            if expiry_s > 0 and session.expiry_interval_s == 0:  # a protocol error by section 3.14.2.2.2
                raise ProtocolError("DISCONNECT sets a session expiry interval where CONNECT had none")
            session.expiry_interval_s = expiry_s
        # [MQTT-3.14.4-3] [MQTT-3.1.2-10] 3.1.1 [MQTT-3.1.2-10] 3.1.1 [MQTT-3.14.4-3]
        self._leave("normal", packet.code != rc.SUCCESS, packet.properties)
        self._close()

    # --- acknowledgements, SUBSCRIBE and UNSUBSCRIBE

    def _on_receipt(self, session: Session, kind: i64, packet_id: int, code: int) -> None:
        take_receipt(session, self._outbox, kind, packet_id, code, self._version)
        if self._subscribing is not None:
            self.deliver_retained()  # which may have waited for it

    def _subscriber(self) -> Subscribing | None:
        session, client, authorizer = self._session, self._client, self._authorizer
        subscribing = self._subscribing
        if subscribing is None and self._state == CONNECTED:
            if session is None or client is None or authorizer is None:
                return None
            subscribing = Subscribing(self._context, self._options, session, client, authorizer)
            self._subscribing = subscribing
        return subscribing

    def _decode_filters(self, undecoded: Undecoded) -> None:
        """Decode some more filters of a packet, and act on it when it is whole."""
        broker = self._broker
        end = self._context.turns.work_max
        while not undecoded.advance(self._version):
            broker.work += _DECODED_AT_ONCE * _DECODE_WORK
            if broker.work > end:
                self._undecoded = undecoded
                if not self._paused & FILTERS:
                    self._hold_packets(FILTERS)
                self._wait_for_turn()
                return
        self._undecoded = None
        if undecoded.subscribe is not None:
            self._on_subscribe(undecoded.subscribe)
        elif undecoded.unsubscribe is not None:
            self._on_unsubscribe(undecoded.unsubscribe)

    def _on_subscribe(self, packet: p.Subscribe) -> None:
        subscribing = self._subscriber()
        if subscribing is not None:
            self._filters = subscribing.begin_subscribe(packet)
            self._go_on_with_filters(self._filters)

    def _on_unsubscribe(self, packet: p.Unsubscribe) -> None:
        subscribing = self._subscriber()
        if subscribing is not None:
            self._filters = subscribing.begin_unsubscribe(packet)
            self._go_on_with_filters(self._filters)

    def _go_on_with_filters(self, filters: FilterWork) -> None:
        """Take as many filters of a packet as the turn allows, and answer it when all are done."""
        if not filters.advance(self._context.turns.work_max):
            if not self._paused & FILTERS:
                self._hold_packets(FILTERS)
            if filters.awaited is None:
                self._wait_for_turn()
            else:
                self.wait_for(filters.awaited, self._on_filter_decided)
            return
        self._filters = None
        if self._options.authz_disconnects and filters.kind == p.SUBACK and rc.NOT_AUTHORIZED in filters.codes:
            raise ProtocolError(filters.fault, rc.NOT_AUTHORIZED)
        # The answer, under the identifier of its request: [MQTT-2.2.1-6] [MQTT-3.8.4-1] [MQTT-3.8.4-2] [MQTT-3.10.4-4]
        # [MQTT-3.10.4-5] 3.1.1 [MQTT-2.3.1-7] 3.1.1 [MQTT-3.8.4-1] 3.1.1 [MQTT-3.8.4-2] 3.1.1 [MQTT-3.10.4-4]
        self._send_suback(filters)
        self.deliver_retained()
        self._resume(FILTERS)

    def _on_filter_decided(self, allowed: bool) -> None:
        filters = self._filters
        if filters is not None:
            filters.decided(allowed)
            self._go_on_with_filters(filters)

    def _send_suback(self, filters: FilterWork) -> None:
        codes = filters.codes
        if filters.kind == p.SUBACK:
            self._broker.counters.suback_sent += 1
        else:
            self._broker.counters.unsuback_sent += 1
        reason = filters.fault if self._tells_problems else ""  # [MQTT-3.1.2-29]
        bytes_max = self._packet_bytes_max
        data = answers.suback(filters.kind, filters.packet_id, codes, reason, self._version, bytes_max)
        if data is None:  # it may not be sent, and without it the client would wait for ever
            detail = (
                f"the answer to {len(codes)} filters is larger than the {int(bytes_max)} bytes that the client takes"
            )
            raise ProtocolError(detail, rc.PACKET_TOO_LARGE)
        self._outbox.put(data)

    # --- the end

    def end(self, code: int, reason: str, detail: str = "") -> None:
        """End the conversation, with a DISCONNECT where the client knows it."""
        if self._state == CLOSED:
            return
        if self._version == p.V5 and self._state == CONNECTED and code != rc.SUCCESS:  # [MQTT-3.14.0-1] [MQTT-4.13.2-1]
            self._broker.counters.disconnect_sent += 1
            # [MQTT-3.14.2-2] [MQTT-3.14.2-4]
            self._outbox.put(answers.disconnect(code, detail, self._packet_bytes_max))
        self._leave(reason, True)
        self._close()

    def _close(self) -> None:
        self._heard_at_us = self._broker.uptime_us
        self._outbox.close_after_flush()  # [MQTT-3.2.2-7] [MQTT-3.14.4-1] [MQTT-3.14.4-2] 3.1.1 [MQTT-3.2.2-5]

    def _leave(self, reason: str, with_will: bool, properties: Properties | None = None) -> None:
        """Part from the session; the will is published unless the client took it back [MQTT-3.1.2-8]."""
        self._cancel_awaited()
        was_connected = self._state == CONNECTED
        self._state = CLOSED
        session, client = self._session, self._client
        if not was_connected or session is None or client is None:
            return
        context = self._context
        context.channels.unregister(client.clientid, self)
        self._subscribing = None
        self._filters = None
        self._undecoded = None
        will = None
        if self._will is not None and with_will:  # [MQTT-3.1.2-8] 3.1.1 [MQTT-3.1.2-8] 3.1.1 [MQTT-3.1.2-12]
            now: i64 = self._broker.now_us
            will = decide.will(self._will, client, self._options, now, self._ids.next_low(), self._authorizer)
        end = hooks.SESSION_DISCARDED if reason == "discarded" else hooks.SESSION_TERMINATED
        context.sessions.leave(session, will, end)
        told = Properties() if properties is None else properties
        self._broker.hooks.run(hooks.CLIENT_DISCONNECTED, (client, reason, told))

    def _is_over_ceiling(self) -> bool:
        options, outbox, session = self._options, self._outbox, self._session
        count = outbox.waiting_count + (0 if session is None else session.queued_count)
        return (0 < options.unsent_bytes_max < outbox.waiting_bytes + self._wire.unsent_bytes()) or (
            0 < options.unsent_packets_max < count
        )

    def _part_from_publishing(self) -> None:
        # The two refer to each other; parted, they and what they hold are freed at once and not by the collector.
        publishing = self._publishing
        if publishing is not None and not publishing.has_pending():
            self._publishing = None

    def __repr__(self) -> str:
        state = ("idle", "authenticating", "connected", "closed")[self._state]
        peername = "nowhere" if self._peer is None else self._peer.peername
        return f"Channel({self._clientid!r} at {peername}, {state})"
