"""The conversation of one client, from its first packet to its last: what each packet means and what is answered.

How bytes become packets is the `reader`'s, and how the client gets in the `connect_flow`'s; a PUBLISH goes on in
`publishing`, a SUBSCRIBE in `filter_request`. Answers go into the outbox, which is written at the end of the turn.
"""

from collections.abc import Callable
from typing import Final

from mypy_extensions import i64

from heliograph.broker import hooks
from heliograph.broker.client import ClientInfo
from heliograph.broker.faults import CONNECTIONS
from heliograph.broker.guid import IdSource
from heliograph.broker.pending import Pending
from heliograph.channel import answers
from heliograph.channel import connect as decide
from heliograph.channel.connect_flow import ConnectFlow
from heliograph.channel.context import ChannelContext
from heliograph.channel.conversation import ConnectedClient, Conversation
from heliograph.channel.filter_request import DECODED_AT_ONCE, FilterRequest
from heliograph.channel.filter_work import subscribe_now, unsubscribe_now
from heliograph.channel.limiter import is_over_ceiling
from heliograph.channel.option_changes import OptionChanges
from heliograph.channel.options import ChannelOptions
from heliograph.channel.peer import Peer
from heliograph.channel.publishing import Publishing
from heliograph.channel.reader import CLOSED, CONGESTED, CONNECTED, FILTERS, IDLE, Reader
from heliograph.channel.receipts import take_receipt
from heliograph.channel.subscribing import Subscribing
from heliograph.mqtt import packets as p
from heliograph.mqtt import reason_codes as rc
from heliograph.mqtt.decode import decode_packet, decode_publish
from heliograph.mqtt.encode import PINGRESP
from heliograph.mqtt.errors import ProtocolError
from heliograph.mqtt.properties import Properties
from heliograph.session.footprint import held_bytes
from heliograph.session.outbox import Outbox, Wire
from heliograph.session.session import Session

# How long a peer may take to read the last words of its connection before it is cut.
_LINGER_US: Final = 10_000_000
# What the rest of a packet that is no PUBLISH counts as at the most.
_PACKET_WORK_MAX: Final = 8192


class Channel(Conversation):
    """One client's conversation; a view of one connection, owned by its transport."""

    def __init__(self, context: ChannelContext, wire: Wire, options: ChannelOptions) -> None:
        self._context = context
        self._broker = context.broker
        self._options = options
        self._wire = wire
        self._outbox = Outbox(context.flusher, wire)
        self.reader = Reader(context, wire, self._outbox, options, self)
        self._number = context.next_number()
        self._ids = IdSource(context.node, self._number)
        self._peer: Peer | None = None
        self._flow: ConnectFlow | None = None  # until the CONNACK; for a client that may authenticate again for ever
        self._version: i64 = p.V3_1_1
        # While the client is connected:
        self._connected: ConnectedClient | None = None
        self._session: Session | None = None
        self._publishing: Publishing | None = None  # made by the first PUBLISH
        self._subscribing: Subscribing | None = None  # made by the first SUBSCRIBE
        self._request: FilterRequest | None = None  # a SUBSCRIBE or UNSUBSCRIBE that is not answered yet

    # --- called by the transport

    def connection_made(self, peer: Peer) -> None:
        self._peer = peer
        self._flow = ConnectFlow(self._context, self._options, self, self.reader, self._outbox, peer)
        self._outbox.set_writer(self._wire.writer())
        self._context.channels.add(self._number, self)
        self._broker.counters.connections_accepted += 1
        if self._context.taps is not None:
            self._context.taps.on_connection(self, peer.peername)

    def on_congested(self, congested: bool) -> None:
        self._context.begin_turn()
        self._outbox.set_congested(congested)
        if not congested:
            if self._session is not None:
                self._session.pump()
            if self._subscribing is not None:
                self._subscribing.deliver_retained()
            self.reader.resume(CONGESTED)

    def connection_lost(self) -> None:
        self._context.begin_turn()
        try:
            self._leave("tcp_closed", True)
        except Exception as error:  # noqa: BLE001 - whatever it is, nothing is written any more
            self._broker.faults.contain(CONNECTIONS, error)
        self._outbox.abandon()
        self._context.channels.remove(self._number)
        self._context.commits.forget(self.reader)
        self._broker.counters.connections_closed += 1
        # They refer to each other; parted, they and what they hold are freed at once and not by the collector.
        self.reader.part()
        self._flow = None
        self._publishing = None

    # --- called by the node

    def on_tick(self, uptime_us: i64) -> None:
        reader = self.reader
        if reader.state == CLOSED:
            # The transport closes once the peer has read everything; one that never does would stay for ever.
            if uptime_us - reader.heard_at_us > _LINGER_US:
                self._wire.abort()
            return
        if self._outbox.congested and is_over_ceiling(self._options, self._outbox, self._wire, self._session):
            self._broker.counters.connections_cut += 1
            self.report("more waits for it than force_shutdown allows, and it does not read")
            self.end(rc.QUOTA_EXCEEDED, "force_shutdown")
            self.abort()
            return
        session, connected = self._session, self._connected
        if connected is not None and 0 < connected.client.expires_at_us <= self._broker.now_us:
            self.report("what its authenticator granted has ended")
            self.end(rc.NOT_AUTHORIZED, "expired")
            return
        if session is not None:
            session.pump()  # what was more than a turn may write
            if session.options.retry_interval_us > 0:
                session.retry(uptime_us)
            if self._subscribing is not None:
                self._subscribing.deliver_retained()  # of which there may be so many a second
            if self._publishing is not None:
                self._publishing.on_tick(uptime_us)
        if reader.on_tick(uptime_us):
            return
        if reader.silence_us_max != 0 and uptime_us - reader.heard_at_us > reader.silence_us_max:
            if reader.state == CONNECTED:
                self.end(rc.KEEP_ALIVE_TIMEOUT, "keepalive_timeout")  # [MQTT-3.1.2-22] 3.1.1 [MQTT-3.1.2-24]
            else:
                self._broker.counters.connections_idle += 1
                self.end(rc.SUCCESS, "idle_timeout")  # [MQTT-3.1.4-1]

    def take_over(self, discard: bool) -> Pending[bool] | None:
        connected = self._connected
        if connected is not None and not discard and connected.session.expiry_interval_s != 0:  # it goes on there
            self._broker.counters.sessions_taken_over += 1
            self._broker.hooks.run(hooks.SESSION_TAKENOVER, (connected.client.clientid,))
        self.end(rc.SESSION_TAKEN_OVER, "discarded" if discard else "takenover")  # [MQTT-3.1.4-3] 3.1.1 [MQTT-3.1.4-2]
        return None

    def client_info(self) -> ClientInfo | None:
        if self._connected is not None:
            return self._connected.client
        return None if self._flow is None else self._flow.client

    def buffered_bytes(self) -> int:
        session = self._session
        queued = held_bytes(session)[1] if session is not None and session.expiry_interval_s == 0 else 0
        return int(self._outbox.waiting_bytes + self._wire.unsent_bytes()) + self.reader.unparsed_bytes() + queued

    def held_bytes(self, shared: dict[int, int]) -> tuple[int, int]:
        waiting = int(self._outbox.waiting_bytes + self._wire.note_shared(shared)) + self.reader.unparsed_bytes()
        return waiting, 0 if self._publishing is None else self._publishing.alias_bytes()

    def cut(self, code: int, why: str) -> None:
        self._context.begin_turn()
        self.report(why)
        is_stuck = self._outbox.congested  # else it reads the DISCONNECT that says why
        self.end(code, "force_shutdown", why)
        if is_stuck:
            self.abort()

    def shut_down(self, code: int) -> None:
        self._context.begin_turn()
        self.end(code, "kicked")

    def abort(self) -> None:
        self.reader.abort()

    def subscribe(self, entries: list[p.SubscribeEntry]) -> list[int]:
        subscribing = self._subscriber()
        if subscribing is None:
            return []
        codes = subscribe_now(subscribing, entries)
        if self.reader.state != CONNECTED:  # a callback ended it
            return []
        subscribing.deliver_retained()
        return codes

    def subscribe_unasked(self, entries: list[p.SubscribeEntry], done: Callable[[list[int]], None]) -> None:
        subscribing = self._subscriber()
        if subscribing is not None and self._request is None:
            packet = p.Subscribe(0, entries, Properties())
            self._request = FilterRequest(self._context, self.reader, self._outbox, subscribing, packet, b"", 0, done)
            self._go_on_with_request()

    def unsubscribe(self, topic_filters: list[str]) -> list[int]:
        subscribing = self._subscriber()
        return [] if subscribing is None else unsubscribe_now(subscribing, topic_filters)

    def change_options(self, changes: OptionChanges) -> None:
        reader, connected = self.reader, self._connected
        if reader.state == CLOSED:
            return
        options = changes.for_connection(self._options, reader.version == p.V5 and reader.state != IDLE)
        self._options = options
        reader.set_options(options)
        if self._flow is not None:
            self._flow.set_options(options)
        if connected is None:
            reader.silence_us_max = options.idle_timeout_us
            return
        reader.silence_us_max = options.silence_us_max(connected.client.keepalive_s)
        if self._publishing is not None:
            self._publishing.set_options(options)
        if self._subscribing is not None:
            self._subscribing.options = options
        connected.set_options(options)

    # --- called by the connect flow

    def begin(self, connected: ConnectedClient) -> None:
        context, options, client, session = self._context, self._options, connected.client, connected.session
        context.channels.register(client.clientid, self)
        self._connected = connected
        self._session = session
        self._version = client.version
        self.reader.state = CONNECTED
        self.reader.heard_at_us = self._broker.uptime_us
        self.reader.silence_us_max = options.silence_us_max(client.keepalive_s)
        if self._flow is not None and not self._flow.is_kept:
            self._flow = None
        if session.keeps_wills():
            session.keep_will(connected.make_will(options, self._ids.next_low(), self._broker.now_us))

    # --- called by the reader

    def dispatch(self, data: bytes, pos: i64, body: i64, stop: i64) -> None:
        kind: i64 = data[pos] >> 4
        session, connected = self._session, self._connected
        if session is None or connected is None:
            if self._flow is not None:
                self._flow.on_packet(data, pos, body, stop)
            return
        if kind == p.PUBLISH:
            publishing = self._publishing
            if publishing is None:
                publishing = Publishing(self._context, self._options, self.reader, self._outbox, self._ids, connected)
                self._publishing = publishing
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
                take_receipt(session, self._outbox, kind, packet_id, rc.SUCCESS, self._version)
                if self._subscribing is not None:
                    self._subscribing.deliver_retained()  # which may have waited for it
                return
        if kind == p.CONNECT:
            raise ProtocolError("a second CONNECT")  # [MQTT-3.1.0-2] 3.1.1 [MQTT-3.1.0-2]
        # A field of a few bytes costs as much as some deliveries.
        self._broker.work += min(stop - pos, _PACKET_WORK_MAX)
        user_properties_max = self._options.max_user_properties
        packet = decode_packet(data, pos, body, stop, self._version, user_properties_max, DECODED_AT_ONCE)
        self._on_packet(session, packet, data, stop)

    def _on_packet(self, session: Session, packet: p.Packet, data: bytes, stop: i64) -> None:
        counters = self._broker.counters
        if isinstance(packet, p.Ack):
            take_receipt(session, self._outbox, packet.kind, packet.packet_id, packet.code, self._version)
            if self._subscribing is not None:
                self._subscribing.deliver_retained()  # which may have waited for it
        elif packet.kind == p.PINGREQ:
            counters.pingreq_received += 1
            counters.pingresp_sent += 1
            self._outbox.pings_count += 1
            self._outbox.put(PINGRESP)  # [MQTT-3.12.4-1] 3.1.1 [MQTT-3.12.4-1]
        elif isinstance(packet, (p.Subscribe, p.Unsubscribe)):
            subscribing = self._subscriber()
            if subscribing is not None:
                self._request = FilterRequest(self._context, self.reader, self._outbox, subscribing, packet, data, stop)
                self.go_on()
        elif isinstance(packet, p.Disconnect):
            counters.disconnect_received += 1
            decide.check_disconnect(packet, session)
            # [MQTT-3.14.4-3] [MQTT-3.1.2-10] 3.1.1 [MQTT-3.1.2-10] 3.1.1 [MQTT-3.14.4-3]
            self._leave("normal", packet.code != rc.SUCCESS, packet.properties)
            self.reader.close(by_peer=True)
        elif isinstance(packet, p.Auth):
            if self._flow is None:  # [MQTT-4.12.0-7]
                counters.auth_received += 1
                raise ProtocolError("AUTH from a client whose CONNECT named no authentication method")
            self._flow.on_auth(packet)
        else:
            raise ProtocolError(f"{p.NAMES[packet.kind]} is not for the broker")

    def go_on(self) -> None:
        if self._flow is not None:
            self._flow.go_on()
        self._go_on_with_request()

    def _go_on_with_request(self) -> None:
        request = self._request
        try:
            if request is not None and self.reader.awaited is None and request.go_on():
                self._request = None
        except ProtocolError as error:
            self.on_protocol_error(error)
        if self._subscribing is not None:
            self._subscribing.deliver_retained()
        if self._request is None:
            self.reader.resume(FILTERS)

    def on_protocol_error(self, error: ProtocolError) -> None:
        self._broker.counters.protocol_errors += 1
        self.report(error.detail)
        if self.reader.state < CONNECTED and self._flow is not None:
            self._flow.refuse(error)
        # [MQTT-4.12.1-2] [MQTT-4.13.1-1] 3.1.1 [MQTT-4.8.0-1]
        self.end(error.reason_code, rc.name_of(error.reason_code), error.detail)

    def _subscriber(self) -> Subscribing | None:
        connected = self._connected
        if self._subscribing is None and connected is not None and self.reader.state == CONNECTED:
            self._subscribing = Subscribing(self._context, self._options, self.reader, connected)
        return self._subscribing

    # --- the end

    def end(self, code: int, reason: str, detail: str = "") -> None:
        connected, state = self._connected, self.reader.state
        if state == CLOSED:
            return
        if connected is not None and state == CONNECTED and self._version == p.V5 and code != rc.SUCCESS:
            self._broker.counters.disconnect_sent += 1  # [MQTT-3.14.0-1] [MQTT-4.13.2-1]
            # [MQTT-3.14.2-2] [MQTT-3.14.2-4]
            self._outbox.put(answers.disconnect(code, detail, connected.packet_bytes_max))
        self._leave(reason, True)
        self.reader.close()

    def _leave(self, reason: str, with_will: bool, properties: Properties | None = None) -> None:
        """Part from the session; the will is published unless the client took it back [MQTT-3.1.2-8]."""
        reader, connected = self.reader, self._connected
        if reader.awaited is not None:
            reader.awaited.cancel()
        if self._flow is not None:
            self._broker.faults.run(CONNECTIONS, self._flow.cancel)
        was_connected = reader.state == CONNECTED
        reader.state = CLOSED
        if not was_connected or connected is None:
            return
        client = connected.client
        self._context.channels.unregister(client.clientid, self)
        if self._publishing is not None:
            self._broker.faults.run(CONNECTIONS, self._publishing.leave)  # whatever it is, the session is left
        self._subscribing = None
        if self._request is not None:
            self._broker.faults.run(CONNECTIONS, self._request.cancel)
            self._request = None
        # [MQTT-3.1.2-8] 3.1.1 [MQTT-3.1.2-8] 3.1.1 [MQTT-3.1.2-12]
        will = connected.make_will(self._options, self._ids.next_low(), self._broker.now_us) if with_will else None
        end = hooks.SESSION_DISCARDED if reason == "discarded" else hooks.SESSION_TERMINATED
        self._context.sessions.leave(connected.session, will, end)
        given = Properties() if properties is None else properties
        self._broker.counters.count_disconnect(client.listener, reason)
        self._broker.hooks.run(hooks.CLIENT_DISCONNECTED, (client, reason, given))

    def report(self, detail: str) -> None:
        client = self.client_info()
        clientid = client.clientid if client is not None else "" if self._flow is None else self._flow.clientid
        self._context.report("" if self._peer is None else self._peer.peername, clientid, detail)

    def __repr__(self) -> str:
        state = ("idle", "authenticating", "connected", "closed")[self.reader.state]
        peername = "nowhere" if self._peer is None else self._peer.peername
        client = self.client_info()
        return f"Channel({'' if client is None else client.clientid!r} at {peername}, {state})"
