"""What a connection will write at the end of this turn of the event loop.

Sessions and channels put encoded packets into the outbox of their connection; the flusher writes every touched outbox
once per turn. A peer that does not read shows as `congested`: the transport's buffer is over its mark, what is put in
now waits here, and sessions stop sending.
"""

from collections import deque
from collections.abc import Callable
from typing import Final

from mypy_extensions import i64, mypyc_attr

from heliograph.broker.counters import Counters
from heliograph.broker.faults import FLUSH, Faults
from heliograph.broker.kernel_times import KernelTimes
from heliograph.session.traffic import Traffic

# Outboxes that are written in one turn, 4 us each, and bytes that are handed to the system.
_WRITES_PER_TURN: Final = 512
_BYTES_PER_TURN: Final = 4_194_304
# So little is written even if a turn has spent its bytes: small readers do not wait for large ones.
_SHORT_BYTES: Final = 16_384
# What is handed over is a copy, and stays one for as long as the peer does not read: so of much, only as much at a time
# as shows that. What waits here is shared with the other receivers.
_PIECE_BYTES: Final = 131_072


class Flusher:
    """The outboxes touched in this turn; one for each event loop, owned by the node.

    A turn writes to some hundreds of connections, and some megabytes. What is more than that is *late*: it is written
    in the next turns. So is what a message to thousands was *spread* to, apart from the others, so that neither of the
    three starves the others.

    A connection whose write raises is cut; the others are written in the same turn.

    Args:
        schedule: Calls what it is given at the end of this turn (`loop.call_soon`).

    Attributes:
        is_spreading: A message to thousands is being spread.
        keeps_spread: What it was spread to is not written yet: there is more to come for that.
    """

    def __init__(
        self,
        schedule: Callable[[Callable[[], None]], object],
        counters: Counters,
        faults: Faults,
        times: KernelTimes,
    ) -> None:
        self._schedule = schedule
        self._faults = faults
        self._touched: list[Outbox] = []
        self._late: deque[Outbox] = deque()
        self._spread: deque[Outbox] = deque()
        self._is_scheduled = False
        self.is_spreading = False
        self.keeps_spread = False
        self.counters = counters
        self._times = times

    @property
    def touched_count(self) -> int:
        return len(self._touched)

    @property
    def spread_count(self) -> int:
        return len(self._spread)

    def touch(self, outbox: "Outbox") -> None:
        if self.is_spreading:
            self._spread.append(outbox)
        else:
            self._touched.append(outbox)
        self._wake()

    def release(self) -> None:
        self.keeps_spread = False
        if self._spread:
            self._wake()

    def flush(self) -> None:
        touched = self._touched
        self._touched = []
        self._is_scheduled = False
        late, spread = self._late, self._spread
        has_late = len(late) > 0
        has_spread = len(spread) > 0 and not self.keeps_spread
        share = 1 + int(has_late) + int(has_spread)
        count = self._flush_touched(touched, _WRITES_PER_TURN // share, _BYTES_PER_TURN // share)
        left = (_WRITES_PER_TURN - count) // (2 if has_late and has_spread else 1)
        if has_late:
            self._flush_some(late, left, _BYTES_PER_TURN // share)
        if has_spread:
            self._flush_some(spread, left, _BYTES_PER_TURN // share)
        if self._times.read_us != 0:
            self._times.on_written()
        if late or (spread and not self.keeps_spread):
            self._wake()

    def _flush_touched(self, touched: "list[Outbox]", count_max: i64, bytes_share: i64) -> i64:
        if len(touched) > count_max:
            self._late.extend(touched[count_max:])
            touched = touched[:count_max]
        counters = self.counters
        bytes_max = counters.bytes_sent + bytes_share
        for outbox in touched:
            if counters.bytes_sent > bytes_max and outbox.waiting_bytes > _SHORT_BYTES:
                self._late.append(outbox)
                continue
            try:
                outbox.flush()
            except Exception as error:  # noqa: BLE001 - the outboxes behind it are written, whatever it is
                self._faults.contain(FLUSH, error, outbox.abort)
        return len(touched)

    def _flush_some(self, waiting: "deque[Outbox]", count: i64, bytes_share: i64) -> None:
        bytes_max = self.counters.bytes_sent + bytes_share
        while waiting and count > 0 and self.counters.bytes_sent <= bytes_max:
            count -= 1
            outbox = waiting.popleft()
            try:
                outbox.flush()
            except Exception as error:  # noqa: BLE001 - as in `_flush_touched`
                self._faults.contain(FLUSH, error, outbox.abort)

    def _wake(self) -> None:
        if not self._is_scheduled:
            self._is_scheduled = True
            self._schedule(self.flush)


@mypyc_attr(allow_interpreted_subclasses=True)
class Wire:
    """The seam to the transport: one connection as channel and outbox use it. Nothing here waits."""

    def write(self, data: bytes) -> None:
        """Send bytes behind those sent before."""
        raise NotImplementedError(type(self).__name__)

    def writer(self) -> Callable[[bytes], object] | None:
        """What `write` comes to in the end, if something stands between outbox and transport."""
        return None

    def unsent_bytes(self) -> int:
        """How many bytes the transport barriers that the peer has not taken."""
        return 0

    def note_shared(self, shared: dict[int, int]) -> int:
        """Note which of them other transports may hold too, by the identity of the object; how many the others are."""
        return self.unsent_bytes()

    def close(self) -> None:
        """Close the connection behind the bytes sent before."""
        raise NotImplementedError(type(self).__name__)

    def abort(self) -> None:
        """Close the connection at once; what the peer did not read is lost."""
        raise NotImplementedError(type(self).__name__)

    def expect_end(self) -> None:
        """The peer has said that it ends: it sends nothing after this."""

    def pause_reading(self) -> None:
        """Stop taking bytes from the peer."""
        raise NotImplementedError(type(self).__name__)

    def resume_reading(self) -> None:
        """Take bytes from the peer again."""
        raise NotImplementedError(type(self).__name__)


class Barrier:
    """A place in an outbox that nothing passes before two commits are done, 0 for none; `at` pieces stand before it."""

    def __init__(self, state: i64, message: i64, at: i64) -> None:
        self.state = state
        self.message = message
        self.at = at


class TappedWriter:
    """Shows bytes to a tap before it writes them; owned by an outbox."""

    def __init__(self, tap: Callable[[bytes], object], write: Callable[[bytes], object]) -> None:
        self._tap = tap
        self._write = write

    def write(self, data: bytes) -> None:
        self._tap(data)
        self._write(data)


class Outbox(Traffic):
    """The packets that wait for one connection; a view of that connection, and gone with it."""

    def __init__(self, flusher: Flusher, wire: Wire) -> None:
        super().__init__()
        self._flusher = flusher
        self._wire: Wire | None = wire
        self._write: Callable[[bytes], object] | None = None  # instead of the wire's
        self._chunks: list[bytes] = []
        self.waiting_bytes: i64 = 0
        self.congested = False
        self.closing = False
        self._touched = False
        self._barriers: list[Barrier] | None = None  # in their order

    @property
    def waiting_count(self) -> int:
        return len(self._chunks)

    def put(self, chunk: bytes) -> None:
        """Add encoded bytes behind what waits already."""
        self._chunks.append(chunk)
        self.sent_packets += 1
        self.waiting_bytes += len(chunk)
        if not self._touched:
            self._touched = True
            self._flusher.touch(self)

    def put_pair(self, first: bytes, second: bytes) -> None:
        """Add a short packet in two pieces, both shared with others: an acknowledgement."""
        chunks = self._chunks
        if chunks:
            chunks.append(first)
            chunks.append(second)
        else:  # it may stay alone, and is then sent as it is
            chunks.append(first + second)
        self.sent_packets += 1
        self.waiting_bytes += len(first) + len(second)
        if not self._touched:
            self._touched = True
            self._flusher.touch(self)

    def put_pieces(self, head: bytes, own: bytes, tail: bytes) -> None:
        """Add a message in three pieces, of which the first and the last are shared with other receivers."""
        chunks = self._chunks
        chunks.append(head)
        chunks.append(own)
        chunks.append(tail)
        self.sent_packets += 1
        self.waiting_bytes += len(head) + len(own) + len(tail)
        if not self._touched:
            self._touched = True
            self._flusher.touch(self)

    def flush(self) -> None:
        """Hand what waits to the transport, unless that is congested; close behind it if asked to."""
        self._touched = False
        wire = self._wire
        if wire is None or (self.congested and not self.closing):
            return
        if self._barriers is not None and self._barriers:
            self._flush_before(wire, self._barriers[0])
            return
        while self.waiting_bytes > _PIECE_BYTES and not self.closing:
            self._flush_piece(wire)
            if self.congested:
                return
        chunks = self._chunks
        if chunks:
            self._flusher.counters.bytes_sent += self.waiting_bytes
            self.waiting_bytes = 0
            data = chunks[0] if len(chunks) == 1 else b"".join(chunks)
            chunks.clear()
            self._send(wire, data)
        if self.closing:
            wire.close()

    def _flush_piece(self, wire: Wire) -> None:
        chunks = self._chunks
        size: i64 = 0
        count: i64 = 0
        while size < _PIECE_BYTES:
            size += len(chunks[count])
            count += 1
        data = b"".join(chunks[:count])
        del chunks[:count]
        self.waiting_bytes -= size
        self._flusher.counters.bytes_sent += size
        self._send(wire, data)

    def add_barrier(self, state: i64, message: i64) -> bool:
        """Let nothing that is put from now on leave before these commits are done, see `Barrier`.

        Returns:
            Whether this is its only barrier, so that the caller has to call `release` after commits.
        """
        barriers = self._barriers
        if barriers is None:
            barriers = []
            self._barriers = barriers
        if barriers:
            last = barriers[-1]
            if last.at == len(self._chunks) or (last.state >= state and last.message >= message):
                last.state = max(last.state, state)
                last.message = max(last.message, message)
                return False
        barriers.append(Barrier(state, message, len(self._chunks)))
        return len(barriers) == 1

    def release(self, state: i64, message: i64) -> bool:
        """Commits are done up to these tickets: let go what waited for them; whether barriers are left."""
        barriers = self._barriers
        if barriers is None or not barriers:
            return False
        count: i64 = 0
        for barrier in barriers:
            if barrier.state > state or barrier.message > message:
                break
            count += 1
        if count > 0:
            del barriers[:count]
            if not self._touched:
                self._touched = True
                self._flusher.touch(self)
        return len(barriers) > 0

    def _flush_before(self, wire: Wire, barrier: Barrier) -> None:
        at = barrier.at
        if at > 0 and not self.congested:
            data = b"".join(self._chunks[:at])
            del self._chunks[:at]
            for one in self._barriers or []:
                one.at -= at
            self.waiting_bytes -= len(data)
            self._flusher.counters.bytes_sent += len(data)
            self._send(wire, data)

    def _send(self, wire: Wire, data: bytes) -> None:
        self.sent_bytes += len(data)
        self.sent_count += 1
        write = self._write
        if write is None:
            wire.write(data)
        else:
            write(data)

    def set_writer(self, write: Callable[[bytes], object] | None) -> None:
        """The connection stands, and this sends bytes in place of the wire; None if the wire does."""
        self._write = write

    def set_tap(self, tap: Callable[[bytes], object] | None) -> None:
        wire = self._wire
        if wire is not None:
            write = wire.writer()
            self._write = write if tap is None else TappedWriter(tap, wire.write if write is None else write).write

    def set_congested(self, congested: bool) -> None:
        """Called by the transport when its buffer passes its high mark, and again when it is below its low mark."""
        self.congested = congested
        if not congested and self._chunks and not self._touched:
            self._touched = True
            self._flusher.touch(self)

    def close_after_flush(self) -> None:
        """Close the connection at the end of this turn, behind what is written."""
        self.closing = True
        if not self._touched:
            self._touched = True
            self._flusher.touch(self)

    def abort(self) -> None:
        """Cut the connection, and forget what waits for it."""
        wire = self._wire
        self.abandon()
        if wire is not None:
            wire.abort()

    def abandon(self) -> None:
        self._chunks = []
        self._barriers = None
        self.waiting_bytes = 0
        self.closing = True
        self._wire = None
        self._write = None
