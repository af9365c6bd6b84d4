"""TCP and Unix sockets of connections without TLS: read and written here, directly, and not by the event loop.

An event loop pays for every read and write with callbacks, requests and handles of its own, which is more than a broker
does for a small message. Here all sockets of a listener stand in one `epoll`, which the event loop sees as one file: it
calls once for all that is ready. A socket is registered once, for edges: no system call follows when reading is paused,
and none when writing has to wait.

A `SocketTransport` is the channel's wire itself, and a subclass gives the channel its bytes: between the two stands no
Python frame (`direct`). That of WebSocket serves a protocol (`protocol_transport`), as the event loop's own transports
do; those are there for TLS, and where there is no `epoll`.

Written for mypyc, like the packages below.
"""

import asyncio
import os
import select
import socket
from collections.abc import Callable
from typing import Final, cast

from mypy_extensions import i64, mypyc_attr

from heliograph.broker.pressure import Pressure
from heliograph.session.outbox import Wire

_EVENTS_MAX: Final = 512  # in one turn
_READS_PER_LOOK: Final = 16  # 200 us of small packets
_READ_BYTES_MIN: Final = 476  # with the head of a bytes object, what Python's own allocator gives without the system's
_READ_BYTES_MAX: Final = 65_536
_READS_BEFORE_CLOSE_MAX: Final = 16
_SHARED_BYTES_MIN: Final = 4096
_PIECES_MAX: Final = 64  # written at once
_HIGH_WATERMARK: Final = 65_536
_LINGER_S: Final = 2.0
_LINGERING_MAX: Final = 256  # each holds a file; of more, the first goes

# Descriptors stay Python's own objects: to make one for each call costs more than calling.
_read: Final[Callable[[object, int], bytes]] = cast("Callable[[object, int], bytes]", os.read)
_write: Final[Callable[[object, bytes], int]] = cast("Callable[[object, bytes], int]", os.write)

_OUT: Final = 0x004  # EPOLLOUT
_ENDING: Final = 0x2018  # EPOLLERR, EPOLLHUP, EPOLLRDHUP
_EDGES: Final = 0x80002005  # EPOLLIN, EPOLLOUT, EPOLLRDHUP, EPOLLET


def is_available() -> bool:
    """Whether this system has what this module needs."""
    return hasattr(select, "epoll")


class Poller:
    """The sockets of one listener; owned by it, and made in the event loop that they belong to.

    Args:
        look_at_time: Called before protocols are given what was read, once for some of them.
    """

    def __init__(self, look_at_time: Callable[[], object], pressure: Pressure) -> None:
        self.pressure: Final = pressure
        self.loop: Final = asyncio.get_running_loop()
        self._epoll: Final = select.epoll()
        self._look_at_time = look_at_time
        self._transports: list[SocketTransport | None] = []  # by descriptor
        self._count: i64 = 0
        self._again: list[SocketTransport] = []  # have more to read
        self._lingering: dict[SocketTransport, float] = {}  # until when, the first that is over first
        self._looks_at_lingering = False  # a timer runs, and there is one only
        self._is_closing = False
        self.loop.add_reader(self._epoll.fileno(), self._poll)

    def connect(self, transport: "SocketTransport") -> None:
        """Watch a connection from now on; it begins at once."""
        descriptor = transport.descriptor
        self._epoll.register(descriptor, _EDGES)
        transports = self._transports
        while len(transports) <= descriptor:
            transports.append(None)
        transports[descriptor] = transport
        self._count += 1
        try:
            transport.on_connected()
        except Exception as error:  # noqa: BLE001 - reported to the event loop, which goes on
            transport.fail(error)

    def again(self, transport: "SocketTransport") -> None:
        """Read from a transport in a later turn, behind what this one has to write."""
        if transport.is_awaited:
            return
        transport.is_awaited = True
        self._again.append(transport)
        if len(self._again) == 1:
            self.loop.call_soon(self._read_again)

    def forget(self, descriptor: int) -> None:
        self._transports[descriptor] = None
        self._count -= 1
        if self._is_closing:
            self.close()

    def linger(self, transport: "SocketTransport") -> None:
        """Throw away what a peer still sends, for a while or until it ends."""
        if self._is_closing:
            transport.let_go()
            return
        if len(self._lingering) >= _LINGERING_MAX:
            self.has_ended(next(iter(self._lingering)))
        self._lingering[transport] = self.loop.time() + _LINGER_S
        self._look_later(_LINGER_S)
        self.again(transport)

    def has_ended(self, transport: "SocketTransport") -> None:
        """The peer of one that lingers has ended."""
        if self._lingering.pop(transport, None) is not None:
            transport.let_go()

    def close(self) -> None:
        """Stop watching, once the last connection is gone."""
        self._is_closing = True
        lingering, self._lingering = self._lingering, {}
        for transport in lingering:
            transport.let_go()
        if self._count == 0 and not self._epoll.closed:
            self.loop.remove_reader(self._epoll.fileno())
            self._epoll.close()

    def _poll(self) -> None:
        transports = self._transports
        for at, event in enumerate(self._epoll.poll(0, _EVENTS_MAX)):
            if at & (_READS_PER_LOOK - 1) == 0:
                self._look_at_time()
            transport = transports[i64(event[0])]
            if transport is not None:
                try:
                    transport.on_event(event[1])
                except Exception as error:  # noqa: BLE001 - an edge that is lost for the others comes never again
                    transport.fail(error)

    def _look_later(self, wait_s: float) -> None:
        if not self._looks_at_lingering:
            self._looks_at_lingering = True
            self.loop.call_later(wait_s, self._end_lingering)

    def _end_lingering(self) -> None:
        self._looks_at_lingering = False
        now_s = self.loop.time()
        for transport, until_s in list(self._lingering.items()):
            if until_s > now_s:
                self._look_later(until_s - now_s)
                return
            self.has_ended(transport)

    def _read_again(self) -> None:
        again, self._again = self._again, []
        for at, transport in enumerate(again):
            if at & (_READS_PER_LOOK - 1) == 0:
                self._look_at_time()
            transport.is_awaited = False
            try:
                transport.read()
            except Exception as error:  # noqa: BLE001 - the others are read
                transport.fail(error)


@mypyc_attr(allow_interpreted_subclasses=False)
class SocketTransport(Wire):
    """One connection's socket; owned by its poller until the connection is gone.

    Subclasses handle what it reads. Their callbacks are those of `asyncio.Protocol`, and like there the end of a
    connection is reported in a turn of its own.

    Args:
        connection: The socket. It does not block, and belongs to the transport once the poller watches it.
    """

    def __init__(self, poller: Poller, connection: socket.socket) -> None:
        self.descriptor: Final = connection.fileno()
        self.is_awaited = False
        self._file: Final[object] = connection.fileno()  # the same
        self._poller = poller
        self.connection: Final = connection
        self._read_bytes: i64 = _READ_BYTES_MIN
        self._high: i64 = _HIGH_WATERMARK
        self._unsent: list[bytes | memoryview] | None = None  # what the system did not take yet
        self._unsent_bytes: i64 = 0
        self._is_paused = False  # it may not be read from
        self._is_readable = False  # there is more to read, or may be
        self._ends = False  # the peer sends no more than what is there to read
        self._is_congested = False  # and the subclass knows it
        self._is_closing = False
        self._is_lost = False
        self._is_gone = False  # and the reader knows it
        self._has_left = False  # the peer said that it closes the connection
        self._has_ended = False  # and it has
        self._lingers = False  # what comes is thrown away

    # --- what subclasses make of it

    def on_connected(self) -> None:
        raise NotImplementedError

    def on_bytes(self, data: bytes) -> None:
        raise NotImplementedError

    def on_end(self) -> None:
        """The peer has ended sending; close the connection behind what it has yet to be sent."""
        raise NotImplementedError

    def on_congested(self, congested: bool) -> None:
        """More bytes than the limit are not sent, or no more than a quarter of it are."""
        raise NotImplementedError

    def on_lost(self, error: Exception | None) -> None:
        raise NotImplementedError

    # --- writing

    def write(self, data: bytes) -> None:
        if self._is_closing:
            return
        if self._unsent is not None:
            self._keep(data)
            return
        sent: i64 = 0
        try:
            sent = _write(self._file, data)
        except BlockingIOError:
            pass
        except OSError as error:
            self._lose(error)
            return
        if sent < len(data):
            self._keep(memoryview(data)[sent:] if sent > 0 else data)

    def close(self) -> None:
        if not self._is_closing:
            self._is_closing = True
            if self._unsent is None:
                self._take_leave()

    def abort(self) -> None:
        self._lose(None)
        self._end_lingering()

    def expect_end(self) -> None:
        self._has_left = True

    def pause_reading(self) -> None:
        self._is_paused = True

    def resume_reading(self) -> None:
        self._is_paused = False
        if self._is_readable:
            self._poller.again(self)

    def set_write_buffer_limits(self, high: int) -> None:
        self._high = high

    def unsent_bytes(self) -> int:
        return self._unsent_bytes

    def note_shared(self, shared: dict[int, int]) -> int:
        own: int = self._unsent_bytes
        for piece in self._unsent or ():
            data: object = piece.obj if isinstance(piece, memoryview) else piece
            if isinstance(data, bytes) and len(data) >= _SHARED_BYTES_MIN:
                shared[id(data)] = len(data)
                own -= len(piece)
        return own

    # --- for the poller

    def on_event(self, events: i64) -> None:
        if self._unsent is not None:
            self._write_on()
        if events & _ENDING:
            self._ends = True
        if events != _OUT:
            self.read()

    def read(self) -> None:
        """Hand on what is there, as much as is read at once."""
        if self._is_closing:
            if self._lingers:
                self._throw_away()
            return
        if self._is_paused:
            self._is_readable = True
            return
        wanted = self._read_bytes
        try:
            # One that is a constant is made only once.
            data = _read(self._file, _READ_BYTES_MIN if wanted == _READ_BYTES_MIN else int(wanted))
        except BlockingIOError:
            self._is_readable = False
            return
        except OSError as error:
            self._lose(error)
            return
        size: i64 = len(data)
        if size == 0:
            self._has_ended = True
            self._end_reading()
            return
        self._is_readable = size == wanted
        if self._is_readable:
            self._read_bytes = min(wanted << 2, _READ_BYTES_MAX)
        elif size < wanted >> 3:
            self._read_bytes = max(wanted >> 2, _READ_BYTES_MIN)
        try:
            self.on_bytes(data)
        except Exception as fault:  # noqa: BLE001 - reported to the event loop, which goes on
            self.fail(fault)
        if self._is_readable or self._ends:  # there is more, for which no other edge comes
            self._poller.again(self)

    def fail(self, error: Exception) -> None:
        """The reader failed: end this connection, and report to the event loop's exception handler."""
        context = {"message": "Fatal error: a protocol failed", "exception": error, "protocol": self}
        self._poller.loop.call_exception_handler(context)
        self._lose(error)

    # --- inside

    def _end_reading(self) -> None:
        try:
            self.on_end()
        except Exception as error:  # noqa: BLE001 - reported to the event loop, which goes on
            self.fail(error)

    def _keep(self, data: bytes | memoryview) -> None:
        if self._unsent is None:
            self._unsent = []
        self._unsent.append(data)
        self._unsent_bytes += len(data)
        if not self._is_congested and (self._unsent_bytes > self._high or self._poller.pressure.sheds_qos0):
            self._tell_congested(True)

    def _write_on(self) -> None:
        """Write what the system takes now; it tells when it takes more."""
        unsent = self._unsent
        while unsent:
            try:
                sent: i64 = os.writev(self.descriptor, unsent[:_PIECES_MAX])
            except BlockingIOError:
                break
            except OSError as error:
                self._lose(error)
                return
            self._unsent_bytes -= sent
            _drop(unsent, sent)
        if not unsent:
            self._unsent = None
            if self._is_closing:
                self._is_readable = True  # what came meanwhile was not read
                self._take_leave()
                return
        if self._is_congested and self._unsent_bytes <= self._high >> 2:
            self._tell_congested(False)

    def _tell_congested(self, congested: bool) -> None:
        self._is_congested = congested
        if not self._is_gone:
            try:
                self.on_congested(congested)
            except Exception as error:  # noqa: BLE001 - reported to the event loop, which goes on
                self.fail(error)

    def _take_leave(self) -> None:
        """Everything was sent: close, and let the peer have it.

        The system resets a connection that is closed with bytes unread, or to which bytes come afterwards, and the
        peer's forgets what it got last. So what is there is read, and a peer that did not say that it ends has a while
        to do so.
        """
        count: i64 = 0
        while self._is_readable and count < _READS_BEFORE_CLOSE_MAX:
            count += 1
            try:
                self._is_readable = len(_read(self._file, _READ_BYTES_MAX)) == _READ_BYTES_MAX
            except OSError:
                break
        if not self._has_left and not self._has_ended:
            try:
                self.connection.shutdown(socket.SHUT_WR)
                self._lingers = True
            except OSError:  # the peer is gone
                pass
        self._lose(None)

    def _throw_away(self) -> None:
        try:
            size: i64 = len(_read(self._file, _READ_BYTES_MAX))
        except BlockingIOError:
            return
        except OSError:
            size = 0
        if size == 0:
            self._end_lingering()
        elif size == _READ_BYTES_MAX or self._ends:
            self._poller.again(self)

    def _end_lingering(self) -> None:
        self._has_ended = True
        self._poller.has_ended(self)

    def _lose(self, error: Exception | None) -> None:
        """The connection is gone; the reader is called in another turn."""
        self._is_closing = True
        self._unsent = None
        self._unsent_bytes = 0
        if not self._is_lost:
            self._is_lost = True
            self._poller.loop.call_soon(self._end, error)

    def _end(self, error: Exception | None) -> None:
        self._is_gone = True
        try:
            self.on_lost(error)
        finally:
            if self._lingers and not self._has_ended:
                self._poller.linger(self)
            else:
                self.let_go()

    def let_go(self) -> None:
        """Close the socket; the last that a poller does with it."""
        self._lingers = False  # a read that is due still would be from the next connection with this descriptor
        self._poller.forget(self.descriptor)
        self.connection.close()  # which takes it out of the epoll, too

    def __repr__(self) -> str:
        state = "closing, " if self._is_closing else ""
        return f"{type(self).__name__}({self.descriptor}, {state}{self._unsent_bytes} bytes unsent)"


def _drop(pieces: list[bytes | memoryview], size: i64) -> None:
    """Take so many bytes from the beginning of pieces, without a copy of what a slow peer leaves of a large one."""
    count: i64 = 0
    while count < len(pieces) and size >= len(pieces[count]):
        size -= len(pieces[count])
        count += 1
    del pieces[:count]
    if size > 0:
        pieces[0] = memoryview(pieces[0])[size:]
