"""From the bytes of a connection to packets: one synchronous loop, and everything that makes it wait.

What must wait (a full storage buffer, a turn that has done enough, an answer that comes later, a rate, a peer that does
not read its answers) pauses reading, and nothing overtakes it. What packets mean is for the conversation to know.
"""

from collections.abc import Callable
from typing import Final

from mypy_extensions import i64

from heliograph.broker.faults import CONNECTIONS
from heliograph.broker.pending import Pending
from heliograph.channel.context import ChannelContext
from heliograph.channel.conversation import Conversation
from heliograph.channel.handles import ReaderHandle
from heliograph.channel.inbox import Inbox
from heliograph.channel.limiter import RateLimiter
from heliograph.channel.options import ChannelOptions, ListenerOptions
from heliograph.mqtt import packets as p
from heliograph.mqtt.decode import remaining_length
from heliograph.mqtt.errors import MalformedPacketError, PacketTooLargeError, ProtocolError
from heliograph.session.outbox import Outbox, Wire

# What a conversation waits for.
IDLE: Final = 0  # CONNECT
AUTHENTICATING: Final = 1  # CONNECT came; AUTH packets or an answer are awaited
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


class Reader(ReaderHandle):
    """The reading half of one client's conversation; a view of one connection, owned by its channel.

    Attributes:
        conversation: None when the connection is gone, so that the two are freed at once.
        state: What the conversation waits for; set by the modules that advance it.
        version: The protocol version, once CONNECT was read.
        heard_at_us: When the last packet came, or the conversation ended.
        silence_us_max: How long after that the peer may be silent; 0 for ever.
        has_stored: Something that it read went to storage; set by the modules that publish.
        waits_for_turn: Whether it goes on in a later turn.
        awaited: The answer without which nothing more is handled.
    """

    def __init__(
        self, context: ChannelContext, wire: Wire, outbox: Outbox, options: ChannelOptions, conversation: Conversation
    ) -> None:
        self._context = context
        self._broker = context.broker
        self._options = options
        self._wire = wire
        self.outbox = outbox
        self.conversation: Conversation | None = conversation
        self.state: i64 = IDLE
        self.version: i64 = p.V3_1_1
        self.has_stored = False
        self.waits_for_turn = False
        self.awaited: AwaitedAnswer | None = None
        self._inbox: Inbox | None = None  # made when a packet does not come whole
        self._rate: RatePause | None = None
        self._paused: i64 = 0
        self._on_hold = False  # not one more packet may be parsed now
        self._unparsed = False  # the inbox may hold whole packets
        self._began_work: i64 = 0  # the broker's, when it was given what it reads
        context.begin_turn()
        self.heard_at_us: i64 = self._broker.uptime_us
        self.silence_us_max: i64 = options.idle_timeout_us
        if options.listener.messages_rate > 0.0 or options.listener.bytes_rate > 0.0:
            self._rate = RatePause(self, context, options.listener)

    def set_options(self, options: ChannelOptions) -> None:
        """Read on with other limits; its rates are those of its connection's beginning."""
        self._options = options

    # --- bytes to packets

    def receive(self, data: bytes) -> None:
        self._context.begin_turn()
        self.take(data)

    def take(self, data: bytes) -> None:
        """The same, when the time has just been looked at."""
        try:
            self._take(data)
        except Exception as error:  # noqa: BLE001 - the transport is to know nothing of it
            self._broker.faults.contain(CONNECTIONS, error, self.abort)

    def _take(self, data: bytes) -> None:
        conversation = self.conversation
        if conversation is None:
            return
        self._broker.counters.bytes_received += len(data)
        self.outbox.received_bytes += len(data)
        self.outbox.received_count += 1
        if self._inbox is not None:
            joined = self._inbox.join(data)
            if joined is None:
                return
            data = joined
        if self.state == CONNECTED:
            # Packets count, not bytes: one that drips in for ever, CONNECT above all, does not keep a client alive.
            self.heard_at_us = self._broker.uptime_us
        self._parse(conversation, data)
        if self.has_stored:
            self._wait_for_room()
        if self.outbox.congested and self.outbox.waiting_bytes > _UNREAD_ANSWERS_MAX:
            self._pause(CONGESTED)

    def _parse(self, conversation: Conversation, data: bytes) -> None:
        pos: i64 = 0
        end: i64 = len(data)
        wanted: i64 = 0
        size_max = self._options.max_packet_size
        broker = self._broker
        work_max = self._context.turns.work_max
        self._began_work = broker.work
        try:
            while end - pos >= 2 and self.state != CLOSED:  # [MQTT-3.1.4-6] 3.1.1 [MQTT-3.1.4-5]
                if self._on_hold or (broker.work > work_max and self._has_had_turn(pos, end)):
                    self._hold_rest(data[pos:])
                    return
                length: i64 = data[pos + 1]
                body: i64 = pos + 2
                if length >= 0x80:
                    length, body = remaining_length(data, pos + 1, end)
                    if length < 0:
                        break
                    if data[body - 1] == 0 and self.version == p.V5:  # [MQTT-1.5.5-1]
                        raise MalformedPacketError("the remaining length is longer than it needs to be")
                stop: i64 = body + length
                if stop - pos > size_max:
                    # [MQTT-3.2.2-15]
                    raise PacketTooLargeError(f"packet of {int(stop - pos)} bytes; at most {int(size_max)} are allowed")
                if self.state == IDLE and data[pos] != p.CONNECT << 4:  # [MQTT-3.1.0-1] 3.1.1 [MQTT-3.1.0-1]
                    raise MalformedPacketError(f"the first byte is 0x{data[pos]:02x}, not that of a CONNECT")
                if stop > end:
                    wanted = stop - pos
                    break
                broker.work += _PACKET_WORK + ((stop - pos) >> 10)
                self.outbox.received_packets += 1
                conversation.dispatch(data, pos, body, stop)
                if self._rate is not None:
                    self._rate.take(data[pos] >> 4 == p.PUBLISH, stop - pos)
                pos = stop
        except ProtocolError as error:
            conversation.on_protocol_error(error)
        if pos < end and self.state != CLOSED:
            self._keep(data[pos:], wanted)

    def _keep(self, rest: bytes, wanted_bytes: i64) -> None:
        inbox = self._inbox
        if inbox is None:
            inbox = Inbox()
            self._inbox = inbox
        inbox.keep(rest, wanted_bytes)

    def unparsed_bytes(self) -> int:
        """Bytes that wait for the rest of their packet, or for their turn."""
        return 0 if self._inbox is None else self._inbox.size_bytes

    def part(self) -> None:
        if self.conversation is not None:
            self.conversation.on_parted()
        self.conversation = None
        self._inbox = None
        self._rate = None

    def close(self, by_peer: bool = False) -> None:
        """The conversation has ended: close the connection behind what the peer has yet to be sent.

        Args:
            by_peer: Whether the peer said so, and closes it too.
        """
        if by_peer:
            self._wire.expect_end()
        self.heard_at_us = self._broker.uptime_us
        self.outbox.close_after_flush()  # [MQTT-3.2.2-7] [MQTT-3.14.4-1] [MQTT-3.14.4-2] 3.1.1 [MQTT-3.2.2-5]

    def abort(self) -> None:
        self.outbox.abandon()
        self._wire.abort()

    # --- turns

    def on_turn(self) -> None:
        self.waits_for_turn = False
        self._context.begin_turn()
        if self.conversation is not None:
            self.conversation.go_on()
        if self._unparsed and self._paused == TURN and self.state != CLOSED:
            self._unparsed = False
            self.receive(b"")
            if not self._unparsed:
                self.resume(TURN)

    def wait_for_turn(self) -> None:
        if not self.waits_for_turn:
            self.waits_for_turn = True
            self._context.turns.wait(self)

    def _has_had_turn(self, pos: i64, end: i64) -> bool:
        """Whether the rest must wait for another turn, now that this one has done its work."""
        broker = self._broker
        if self.spreading == 0 and end <= _SHORT_BYTES and broker.work - self._began_work <= _SHORT_WORK:
            return False
        return self._context.turns.has_ended()

    def _hold_rest(self, rest: bytes) -> None:
        self._keep(rest, 0)
        self._unparsed = True
        self._pause(TURN)
        if not self._on_hold:
            self.wait_for_turn()

    # --- pausing

    def on_spreading(self) -> None:
        if self.spreading > _SPREADING_MAX and not self._paused & SPREAD and self.state != CLOSED:
            self.hold(SPREAD)

    def on_spread(self) -> None:
        self.resume(SPREAD)

    def on_room(self) -> None:
        self.resume(STORAGE)

    def hold(self, why: i64) -> None:
        self._on_hold = True
        self._pause(why)

    def resume(self, why: i64) -> None:
        """Read on, unless there is another reason to wait."""
        if self._paused & why:
            self._paused &= ~why
            self._on_hold = self._paused & (RATE | ANSWER | FILTERS | SPREAD) != 0  # one may wait for several
            if self.state == CLOSED:
                return
            if self._paused == 0:
                self._wire.resume_reading()
            elif self._paused == TURN and self._unparsed:
                self.wait_for_turn()

    def on_tick(self, uptime_us: i64) -> bool:
        """Time has passed: do without an answer that is late.

        Returns:
            Whether reading is paused, so that it means nothing that the client is silent.
        """
        awaited = self.awaited
        if awaited is None and self._paused == 0:
            return False
        self.heard_at_us = uptime_us
        if awaited is not None:
            awaited.on_tick(uptime_us)
        return True

    def _pause(self, why: i64) -> None:
        if self._paused == 0:
            self._wire.pause_reading()
        self._paused |= why

    def _wait_for_room(self) -> None:
        self.has_stored = False
        sink = self._broker.sink
        if sink is None or self.state == CLOSED or self._paused & STORAGE:
            return
        has_little = self._broker.work - self._began_work <= _SHORT_WORK
        if sink.is_full() if has_little else sink.is_filling():
            self._context.commits.wait_for_room(self)
            self._pause(STORAGE)

    # --- answers that come later

    def wait_for(self, pending: Pending[bool], go_on: Callable[[bool], None]) -> None:
        """Handle nothing more of the client until an answer is there; then go on with it, and with what came since.

        Args:
            pending: The answer; waited for as long as `idle_timeout` allows, unless it has a deadline of its own.
            go_on: Gets the answer. Never called if the client goes meanwhile.
        """
        if pending.due_us == 0:
            pending.due_us = self._options.due_us(self._broker.uptime_us)
        self.hold(ANSWER)
        awaited = AwaitedAnswer(self, self._context, pending, go_on)
        self.awaited = awaited
        pending.then(awaited.on_answer)

    def go_on_with(self, go_on: Callable[[bool], None], answer: bool) -> None:
        """What was waited for is there: go on with it, and with what came meanwhile."""
        try:
            go_on(answer)
        except ProtocolError as error:
            if self.conversation is not None:
                self.conversation.on_protocol_error(error)
        if self.awaited is None:  # else there is another one to wait for
            if self.has_stored:
                self._wait_for_room()
            self.resume(ANSWER)


class AwaitedAnswer:
    """An answer without which nothing more of a client is handled; owned by its reader."""

    def __init__(
        self, reader: Reader, context: ChannelContext, pending: Pending[bool], go_on: Callable[[bool], None]
    ) -> None:
        self.pending = pending
        self._reader = reader
        self._context = context
        self._go_on = go_on

    def on_answer(self, answer: bool) -> None:
        reader = self._reader
        reader.awaited = None
        try:
            self._context.begin_turn()
            reader.go_on_with(self._go_on, answer)
        except Exception as fault:  # noqa: BLE001 - what gave the answer is to know nothing of it
            self._context.broker.faults.contain(CONNECTIONS, fault, reader.abort)  # nothing behind it is handled

    def on_tick(self, uptime_us: i64) -> None:
        pending = self.pending
        if pending.is_over(uptime_us):
            if not pending.is_cancelled:
                pending.expire()
            if (pending.is_cancelled or pending.is_resolved) and self._reader.awaited is self:  # it has no answer
                self.on_answer(False)

    def cancel(self) -> None:
        self._reader.awaited = None
        self._context.broker.faults.run(CONNECTIONS, self.pending.cancel)


class RatePause:
    """Pauses a reader that takes in more than its listener's rates allow; made only where there are any."""

    def __init__(self, reader: Reader, context: ChannelContext, listener: ListenerOptions) -> None:
        self._reader = reader
        self._context = context
        self._limiter = RateLimiter(listener, context.broker.uptime_us)
        self._until_us: i64 = 0  # when it may send again

    def take(self, is_message: bool, packet_bytes: i64) -> None:
        now = self._context.broker.uptime_us
        wait_us = self._limiter.take(is_message, packet_bytes, now)
        if wait_us > 0.0 and self._reader.state != CLOSED:
            self._reader.hold(RATE)
            self._until_us = now + i64(wait_us)
            self._wait(wait_us)

    def on_timer(self) -> None:
        """It may send again, unless it has sent more than a timer is set for."""
        try:
            self._context.begin_turn()
            self._wait(float(self._until_us - self._context.broker.uptime_us))
        except Exception as error:  # noqa: BLE001 - else it would never be read from again
            self._context.broker.faults.contain(CONNECTIONS, error, self._reader.abort)

    def _wait(self, wait_us: float) -> None:
        if wait_us > 0.0 and self._reader.state != CLOSED:
            self._context.call_later(min(wait_us, _RATE_TIMER_US_MAX) / 1e6, self.on_timer)
        else:
            self._reader.resume(RATE)
