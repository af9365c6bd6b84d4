"""From the bytes of a connection to packets: one synchronous loop, and everything that makes it wait.

What must wait (a full storage buffer, a turn that has done enough, an authenticator, a rate, a peer that does not read
its answers) pauses reading, and nothing overtakes it. What packets mean is the channel's.
"""

from typing import Final

from mypy_extensions import i64

from heliograph.broker.faults import CONNECTIONS
from heliograph.channel.context import ChannelContext, ChannelHandle
from heliograph.channel.inbox import Inbox
from heliograph.channel.limiter import RateLimiter
from heliograph.channel.options import ChannelOptions
from heliograph.mqtt import packets as p
from heliograph.mqtt.decode import remaining_length
from heliograph.mqtt.errors import MalformedPacketError, PacketTooLargeError, ProtocolError
from heliograph.session.outbox import Outbox, Wire

# What a conversation waits for.
IDLE: Final = 0  # CONNECT
AUTHENTICATING: Final = 1  # CONNECT came; AUTH packets or an authenticator's answer are awaited
CONNECTED: Final = 2
CLOSED: Final = 3

# Why reading is paused; bits.
TURN: Final = 1  # this turn has delivered enough
STORAGE: Final = 2  # storage must commit first
CONGESTED: Final = 4  # the peer does not read what it is sent
RATE: Final = 8  # it sends faster than its listener allows
ANSWER: Final = 16  # something that it asked for, or authentication, has yet to be answered
FILTERS: Final = 32  # a packet with many topic filters is not done yet
SPREAD: Final = 64  # what it published has yet to reach very many

# A packet that is no message costs about as much as so many deliveries.
_PACKET_WORK: Final = 4
# A client with so little to say need not wait for its turn.
_SHORT_BYTES: Final = 4096
_SHORT_WORK: Final = 128
# So many deliveries a client's messages may have yet to make before it is not read from.
_SPREADING_MAX: Final = 131_072
# A timer keeps what it calls in memory, also a connection that has ended: it is never set for longer.
_RATE_TIMER_US_MAX: Final = 1_000_000.0
# A peer that sends without reading is not read from while this many bytes of answers wait for it.
_UNREAD_ANSWERS_MAX: Final = 65_536


class Reader(ChannelHandle):
    """The reading half of a channel, which is its only subclass; a view of one connection."""

    def __init__(self, context: ChannelContext, wire: Wire, options: ChannelOptions) -> None:
        self._context = context
        self._broker = context.broker
        self._options = options
        self._wire = wire
        self._outbox = Outbox(context.flusher, wire)
        self._state: i64 = IDLE
        self._version: i64 = p.V3_1_1
        self._inbox: Inbox | None = None  # made when a packet does not come whole
        self._limiter: RateLimiter | None = None
        self._rate_until_us: i64 = 0  # when it may send again
        self._paused: i64 = 0
        self._on_hold = False  # not one more packet may be parsed now
        self._waits_for_turn = False
        self._unparsed = False  # the inbox may hold whole packets
        self._began_work: i64 = 0  # the broker's, when it was given what it reads
        self._heard_at_us: i64 = self._begin_turn()
        if options.messages_rate > 0.0 or options.bytes_rate > 0.0:
            self._limiter = RateLimiter(options, self._heard_at_us)

    # --- what the channel makes of it

    def dispatch(self, data: bytes, pos: i64, body: i64, stop: i64) -> None:
        """Act on the packet that fills `data[pos:stop]` with its body at `body`.

        Raises:
            ProtocolError: It breaks the specification or a limit.
        """
        raise NotImplementedError

    def on_protocol_error(self, error: ProtocolError) -> None:
        """The peer broke the protocol: end its conversation."""
        raise NotImplementedError

    def has_stored(self) -> bool:
        """Whether something went to storage since the last call."""
        raise NotImplementedError

    def go_on(self) -> None:
        """Go on with what was more than a turn's work: filters to subscribe to, retained messages to deliver."""
        raise NotImplementedError

    # --- bytes to packets

    def receive(self, data: bytes) -> None:
        """Take bytes as they came from the socket; a fault of ours ends this connection and no other."""
        self._begin_turn()
        self.take(data)

    def take(self, data: bytes) -> None:
        """The same, when the time has just been looked at."""
        try:
            self._take(data)
        except Exception as error:  # noqa: BLE001 - the transport is to know nothing of it
            self._broker.faults.contain(CONNECTIONS, error, self.abort)

    def _take(self, data: bytes) -> None:
        self._broker.counters.bytes_received += len(data)
        if self._inbox is not None:
            joined = self._inbox.join(data)
            if joined is None:
                return
            data = joined
        if self._state == CONNECTED:
            # Packets count, not bytes: one that drips in for ever, CONNECT above all, keeps nobody alive.
            self._heard_at_us = self._broker.uptime_us
        self._parse(data)
        if self.has_stored():
            self._wait_for_room()
        if self._outbox.congested and self._outbox.waiting_bytes > _UNREAD_ANSWERS_MAX:
            self._pause(CONGESTED)

    def _parse(self, data: bytes) -> None:
        pos: i64 = 0
        end: i64 = len(data)
        wanted: i64 = 0
        size_max = self._options.max_packet_size
        broker = self._broker
        work_max = self._context.turns.work_max
        self._began_work = broker.work
        try:
            while end - pos >= 2 and self._state != CLOSED:  # [MQTT-3.1.4-6] 3.1.1 [MQTT-3.1.4-5]
                if self._on_hold or (broker.work > work_max and self._has_had_turn(pos, end)):
                    self._hold(data[pos:])
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
                    # [MQTT-3.2.2-15]
                    raise PacketTooLargeError(f"packet of {int(stop - pos)} bytes; at most {int(size_max)} are allowed")
                if self._state == IDLE and data[pos] != p.CONNECT << 4:  # [MQTT-3.1.0-1] 3.1.1 [MQTT-3.1.0-1]
                    raise MalformedPacketError(f"the first byte is 0x{data[pos]:02x}, not that of a CONNECT")
                if stop > end:
                    wanted = stop - pos
                    break
                broker.work += _PACKET_WORK + ((stop - pos) >> 10)
                self.dispatch(data, pos, body, stop)
                if self._limiter is not None:
                    self._limit(self._limiter, data[pos] >> 4 == p.PUBLISH, stop - pos)
                pos = stop
        except ProtocolError as error:
            self.on_protocol_error(error)
        if pos < end and self._state != CLOSED:
            self._keep(data[pos:], wanted)

    def _begin_turn(self) -> i64:
        self._context.begin_turn()
        return self._broker.uptime_us

    # --- pausing

    def on_turn(self) -> None:
        """It has its turn: go on where the last one ended."""
        self._waits_for_turn = False
        self._begin_turn()
        self.go_on()
        if self._unparsed and self._paused == TURN and self._state != CLOSED:
            self._unparsed = False
            self.receive(b"")
            if not self._unparsed:
                self._resume(TURN)

    def on_spreading(self) -> None:
        """One more of its messages is on its way to very many."""
        if self.spreading > _SPREADING_MAX and not self._paused & SPREAD and self._state != CLOSED:
            self._hold_packets(SPREAD)

    def on_spread(self) -> None:
        """All of them have reached their receivers."""
        self._resume(SPREAD)

    def on_room(self) -> None:
        """Storage takes messages again."""
        self._resume(STORAGE)

    def abort(self) -> None:
        """Close the connection at once: what it was called for raised, and what waits for the peer is lost."""
        self._outbox.abandon()
        self._wire.abort()

    def on_rate(self) -> None:
        """It may send again, unless it has sent more than a timer is set for."""
        try:
            self._wait_for_rate(float(self._rate_until_us - self._begin_turn()))
        except Exception as error:  # noqa: BLE001 - else it would never be read from again
            self._broker.faults.contain(CONNECTIONS, error, self.abort)

    def _hold_packets(self, why: i64) -> None:
        """Parse no packet more until `_resume` is called with the same reason."""
        self._on_hold = True
        self._pause(why)

    def _limit(self, limiter: RateLimiter, is_message: bool, packet_bytes: i64) -> None:
        wait_us = limiter.take(is_message, packet_bytes, self._broker.uptime_us)
        if wait_us > 0.0 and self._state != CLOSED:
            self._hold_packets(RATE)
            self._rate_until_us = self._broker.uptime_us + i64(wait_us)
            self._wait_for_rate(wait_us)

    def _wait_for_rate(self, wait_us: float) -> None:
        if wait_us > 0.0 and self._state != CLOSED:
            self._context.call_later(min(wait_us, _RATE_TIMER_US_MAX) / 1e6, self.on_rate)
        else:
            self._resume(RATE)

    def _keep(self, rest: bytes, wanted_bytes: i64) -> None:
        inbox = self._inbox
        if inbox is None:
            inbox = Inbox()
            self._inbox = inbox
        inbox.keep(rest, wanted_bytes)

    def _has_had_turn(self, pos: i64, end: i64) -> bool:
        """Whether the rest must wait for another turn, now that this one has done its work."""
        broker = self._broker
        if self.spreading == 0 and end <= _SHORT_BYTES and broker.work - self._began_work <= _SHORT_WORK:
            return False
        return self._context.turns.has_ended()

    def _hold(self, rest: bytes) -> None:
        self._keep(rest, 0)
        self._unparsed = True
        self._pause(TURN)
        if not self._on_hold:
            self._wait_for_turn()

    def _wait_for_turn(self) -> None:
        if not self._waits_for_turn:
            self._waits_for_turn = True
            self._context.turns.wait(self)

    def _wait_for_room(self) -> None:
        sink = self._broker.sink
        if sink is None or self._state == CLOSED or self._paused & STORAGE:
            return
        has_little = self._broker.work - self._began_work <= _SHORT_WORK
        if sink.is_full() if has_little else sink.is_filling():
            self._context.commits.wait_for_room(self)
            self._pause(STORAGE)

    def _pause(self, why: i64) -> None:
        if self._paused == 0:
            self._wire.pause_reading()
        self._paused |= why

    def _resume(self, why: i64) -> None:
        if self._paused & why:
            self._paused &= ~why
            self._on_hold = self._paused & (RATE | ANSWER | FILTERS | SPREAD) != 0  # one may wait for several
            if self._state == CLOSED:
                return
            if self._paused == 0:
                self._wire.resume_reading()
            elif self._paused == TURN and self._unparsed:
                self._wait_for_turn()
