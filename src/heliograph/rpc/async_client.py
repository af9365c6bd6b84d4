"""A client for an event loop: several requests in flight over one Unix socket."""

import asyncio
import os
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Final, TypeVar, cast

import msgspec

from heliograph.rpc import proto_v1 as proto
from heliograph.rpc.asked_frames import CANNOT_SPEAK, UnreachableError, sendable
from heliograph.rpc.frames import FrameError, RpcFrameReader, encoded, to_asker
from heliograph.rpc.methods import NoArgs, RpcError
from heliograph.rpc.socket_path import short_path

T = TypeVar("T")

IN_FLIGHT_MAX: Final = 4  # as many as a server takes on one connection
_NOTHING: Final = NoArgs()
_CONNECT_S: Final = 5.0
_GRACE_S: Final = 5.0  # behind a deadline, within which the other side says that it has passed
_UNREAD_MAX: Final = 200  # frames of one request


class _Answers:
    """The frames of one request that have come and were not taken.

    Attributes:
        has_last: Whether the last one has come.
    """

    def __init__(self) -> None:
        self.frames: list[proto.ToAsker] = []
        self.has_last = False
        self._came: asyncio.Future[None] | None = None
        self.lost = ""

    def put(self, frame: proto.ToAsker) -> None:
        self.frames.append(frame)
        self.has_last = _is_last(frame)
        self._wake()

    def lose(self, why: str) -> None:
        self.lost = self.lost or why
        self._wake()

    async def take(self) -> list[proto.ToAsker]:
        """All that has come; waits for the first.

        Raises:
            UnreachableError: Nothing more will come.
        """
        if not self.frames and not self.lost:
            self._came = asyncio.get_running_loop().create_future()
            await self._came
        if not self.frames:
            raise UnreachableError(self.lost)
        taken, self.frames = self.frames, []
        return taken

    def _wake(self) -> None:
        if self._came is not None and not self._came.done():
            self._came.set_result(None)


class AsyncRpcClient(asyncio.Protocol):
    """A connection to a server of methods; made by `connect`, and closed by its owner.

    Attributes:
        server: What answers, with its version.
    """

    def __init__(self) -> None:
        self.server = ""
        self._frames = RpcFrameReader()
        self._answers: dict[int, _Answers] = {}
        self._given_up: set[int] = set()  # requests that the other side has yet to end
        self._number = 0
        self._greeting = _Answers()
        self._transport: asyncio.Transport | None = None
        self._lost = ""

    @staticmethod
    async def connect(path: Path, name: str = "heliograph") -> "AsyncRpcClient":
        """Connect to a server.

        Args:
            path: The socket.
            name: Who asks, for the log of the other side.

        Raises:
            UnreachableError: Nothing answers there.
            RpcError: The other side speaks none of our versions, or takes no more connections.
        """
        client = AsyncRpcClient()
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(_CONNECT_S):
                with short_path(path) as short:
                    await loop.create_unix_connection(lambda: client, os.fspath(short))
                await client._greet(name)
        except TimeoutError as error:
            client.close()
            raise UnreachableError(f"{path}: the node does not answer in time") from error
        except OSError as error:
            raise UnreachableError(f"{path}: {error.strerror or error}") from error
        except BaseException:
            client.close()
            raise
        return client

    @property
    def in_flight(self) -> int:
        """How many requests wait for the end of their answers."""
        return len(self._answers)

    @property
    def given_up(self) -> int:
        """How many were given up here, and are in flight for the other side."""
        return len(self._given_up)

    @property
    def is_lost(self) -> bool:
        """Whether the connection has ended."""
        return bool(self._lost)

    async def ask(
        self,
        method: str,
        kind: type[T],
        args: msgspec.Struct = _NOTHING,
        timeout_s: float | None = None,
        on_behalf: str = "",
    ) -> T:
        """Ask for one struct.

        Args:
            kind: The type of the answer.
            timeout_s: For how long it may take; None for as long as it takes.
            on_behalf: Whom it is asked for.

        Raises:
            RpcError: It was refused, or failed.
            UnreachableError: The connection was lost, or the answer is late.
        """
        async for value in self._exchange(method, args, timeout_s, on_behalf):
            return msgspec.msgpack.decode(value, type=kind)
        raise UnreachableError(f"{method} was answered with a list")

    async def slices(
        self,
        method: str,
        kind: type[T],
        args: msgspec.Struct = _NOTHING,
        timeout_s: float | None = None,
        on_behalf: str = "",
    ) -> AsyncGenerator[list[T], None]:
        """Ask for a list: its slices, as they come. One that is closed early is given up.

        Args:
            kind: The type of a row.
            timeout_s: For how long it may take altogether; None for as long as it takes.
            on_behalf: Whom it is asked for.

        Raises:
            RpcError: It was refused, or failed.
            UnreachableError: The connection was lost, or the answer is late.
        """
        decoder = msgspec.msgpack.Decoder(list[kind])  # type: ignore[valid-type]  # a type that is known at run time only
        exchange = self._exchange(method, args, timeout_s, on_behalf)
        try:
            async for rows in exchange:
                yield decoder.decode(rows)
        finally:
            await exchange.aclose()

    def close(self) -> None:
        """Close the connection; what is in flight is lost."""
        self._lose("the connection was closed")
        if self._transport is not None:
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """It is open."""
        self._transport = cast("asyncio.Transport", transport)  # that of uvloop is none by its class

    def data_received(self, data: bytes) -> None:
        """Bytes have come."""
        self._frames.receive(data)
        try:
            while (frame := self._frames.next()) is not None:
                self._take(to_asker(frame))
        except FrameError as error:
            self._lose(str(error))
            self.close()

    def connection_lost(self, exc: Exception | None) -> None:
        """It is closed."""
        self._lose("the node has closed the connection" if exc is None else f"the connection was lost: {exc}")

    async def _greet(self, name: str) -> None:
        self._send(proto.Hello([proto.VERSION], name))
        (answer, *_) = await self._greeting.take()
        if isinstance(answer, proto.Failure):
            raise RpcError(answer.code, answer.message)
        if not isinstance(answer, proto.Welcome):
            raise UnreachableError(CANNOT_SPEAK)
        self.server = answer.name

    async def _exchange(
        self, method: str, args: msgspec.Struct, timeout_s: float | None, on_behalf: str
    ) -> AsyncGenerator[msgspec.Raw, None]:
        """What a request is answered with, one frame after the other."""
        if self._lost:
            raise UnreachableError(self._lost)
        self._number += 1
        number, answers = self._number, _Answers()
        deadline_ms = 0 if timeout_s is None else max(1, int(timeout_s * 1000))
        request = proto.Request(number, method, sendable(args), deadline_ms, on_behalf)
        until = None if timeout_s is None else asyncio.get_running_loop().time() + timeout_s + _GRACE_S
        self._answers[number] = answers
        is_complete = False
        try:
            self._send(request)
            while not is_complete:
                for frame in await self._next(answers, until):
                    if isinstance(frame, proto.Failure):
                        is_complete = True
                        raise RpcError(frame.code, frame.message)
                    is_complete = isinstance(frame, proto.End | proto.Answer)
                    if isinstance(frame, proto.Slice):
                        yield frame.rows
                    elif isinstance(frame, proto.Answer):
                        yield frame.value
        finally:
            del self._answers[number]
            if not answers.has_last and not self._lost:
                self._given_up.add(number)
                self._send(proto.Cancel(number))
            self._go_on()

    async def _next(self, answers: _Answers, until: float | None) -> list[proto.ToAsker]:
        self._go_on()
        try:
            async with asyncio.timeout_at(until):
                return await answers.take()
        except TimeoutError as error:
            raise UnreachableError("the node does not answer in time") from error

    def _take(self, frame: proto.ToAsker) -> None:
        if isinstance(frame, proto.Welcome) or (isinstance(frame, proto.Failure) and frame.id == 0):
            self._greeting.put(frame)
            return
        if (answers := self._answers.get(frame.id)) is None:
            if _is_last(frame):
                self._given_up.discard(frame.id)
            return
        answers.put(frame)
        if len(answers.frames) > _UNREAD_MAX and self._transport is not None:
            self._transport.pause_reading()

    def _go_on(self) -> None:
        """Read on, unless somebody still does not take what came."""
        if self._transport is None or self._transport.is_reading() or self._lost:
            return
        if all(len(answers.frames) <= _UNREAD_MAX for answers in self._answers.values()):
            self._transport.resume_reading()

    def _send(self, frame: proto.FromAsker) -> None:
        if self._transport is None or self._lost:
            raise UnreachableError(self._lost or "the connection is not open")
        self._transport.write(encoded(frame))

    def _lose(self, why: str) -> None:
        self._lost = self._lost or why
        self._greeting.lose(self._lost)
        for answers in self._answers.values():
            answers.lose(self._lost)

    def __repr__(self) -> str:
        return f"AsyncRpcClient({self.server}, {self.in_flight} in flight)"


def _is_last(frame: proto.ToAsker) -> bool:
    return isinstance(frame, proto.End | proto.Answer | proto.Failure)
