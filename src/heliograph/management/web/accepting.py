"""Takes the connections of a listening socket, a few in a turn of the event loop."""

import asyncio
import logging
import socket
import ssl
from collections.abc import Callable
from contextlib import suppress
from typing import Final

_log = logging.getLogger(__name__)

BACKLOG: Final = 4096  # connections that the kernel keeps: one that it drops is begun again a second later
_ACCEPTED_MAX: Final = 4  # in a turn of the loop: a crowd holds up no other caller
_PASSED_OVER_MAX: Final = 64
_GIVEN_UP: Final = frozenset((7, 8))  # the states of TCP: reset, and closed by the peer
_AFTER_FAILURE_S: Final = 0.5
_HANDSHAKE_S: Final = 30.0  # as long as the head of a request may take


class CallerAcceptor:
    """Accepts from its construction to `close`; owned by a server, in whose event loop it is made.

    The event loop's own server has one number for what the kernel keeps and for what a turn takes, and it takes also
    what its callers closed while it waited: each of these would cost a request.

    Args:
        listening: A listening socket, its owner's to close.
        protocol: Makes what a connection is given to.
        context: Of TLS, if it is spoken.
        handshakes_max: Where there would be more at once, the oldest is given up: each is an open file.
    """

    def __init__(
        self,
        listening: socket.socket,
        protocol: Callable[[], asyncio.Protocol],
        context: ssl.SSLContext | None,
        handshakes_max: int,
    ) -> None:
        self._listening = listening
        self._protocol = protocol
        self._context = context
        self._loop = asyncio.get_running_loop()
        self._handshakes_max = handshakes_max
        self._connecting: dict[asyncio.Task[None], None] = {}  # the oldest first
        self._timer: asyncio.TimerHandle | None = None  # for the next try after a failure
        self._is_failing = False
        self._begin()

    def close(self) -> None:
        """End accepting; connections go on, but for those whose handshake is not over."""
        self._pause()
        for task in self._connecting:
            task.cancel()

    async def wait_closed(self) -> None:
        """Wait for what `close` has begun."""
        await asyncio.gather(*self._connecting, return_exceptions=True)

    def _begin(self) -> None:
        self._timer = None
        self._loop.add_reader(self._listening, self._accept)

    def _pause(self) -> None:
        self._loop.remove_reader(self._listening)
        if self._timer is not None:
            self._timer.cancel()

    def _accept(self) -> None:
        taken = passed_over = 0
        while taken < _ACCEPTED_MAX and passed_over < _PASSED_OVER_MAX:
            try:
                connection, _ = self._listening.accept()
            except (BlockingIOError, InterruptedError):
                return
            except ConnectionAbortedError:
                passed_over += 1
                continue
            except OSError as error:
                if not self._is_failing:
                    _log.error("connections wait, since none can be accepted: %s", error.strerror)
                self._is_failing = True
                self._pause()
                self._timer = self._loop.call_later(_AFTER_FAILURE_S, self._begin)
                return
            self._is_failing = False
            if connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 1)[0] in _GIVEN_UP:
                connection.close()
                passed_over += 1
                continue
            taken += 1
            connection.setblocking(False)
            self._make_room()
            task = self._loop.create_task(self._connect(connection), name="accept")
            self._connecting[task] = None
            task.add_done_callback(lambda done: self._connecting.pop(done, None))

    def _make_room(self) -> None:
        if len(self._connecting) >= self._handshakes_max:
            oldest = next(iter(self._connecting))
            del self._connecting[oldest]
            oldest.cancel()

    async def _connect(self, connection: socket.socket) -> None:
        """Give a connection to a protocol; one that fails until then is closed by the event loop."""
        with suppress(OSError):  # `ssl.SSLError` and `TimeoutError` are some
            await self._loop.connect_accepted_socket(
                self._protocol,
                connection,
                ssl=self._context,
                ssl_handshake_timeout=None if self._context is None else _HANDSHAKE_S,
            )

    def __repr__(self) -> str:
        return f"CallerAcceptor({self._listening!r}, {len(self._connecting)} handshakes)"
