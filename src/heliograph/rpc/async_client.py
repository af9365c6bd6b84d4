"""A client for an event loop: several requests in flight over one Unix socket."""

import asyncio
import os
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any, Final, TypeVar, cast

import msgspec

from heliograph.rpc import proto_v1 as proto
from heliograph.rpc.asks import ListQuestion, Question
from heliograph.rpc.conversation import (
    CLOSED,
    CONNECT_S,
    GRACE_S,
    LATE,
    RpcConversation,
    UnreachableError,
    is_last,
    values_of,
)
from heliograph.rpc.frames import FrameError
from heliograph.rpc.socket_path import short_path

T = TypeVar("T")

IN_FLIGHT_MAX: Final = 4  # as many as a server takes on one connection
_UNREAD_MAX: Final = 200  # replies to one request


class _Replies:
    def __init__(self) -> None:
        self.waiting: list[proto.ToAsker] = []
        self.lost = ""
        self._came: asyncio.Future[None] | None = None

    def put(self, reply: proto.ToAsker) -> None:
        self.waiting.append(reply)
        self._wake()

    def lose(self, why: str) -> None:
        self.lost = self.lost or why
        self._wake()

    async def take(self) -> list[proto.ToAsker]:
        """All that have come; waits for the first. Raises `UnreachableError` if none will come."""
        if not self.waiting and not self.lost:
            self._came = asyncio.get_running_loop().create_future()
            await self._came
        if not self.waiting:
            raise UnreachableError(self.lost)
        taken, self.waiting = self.waiting, []
        return taken

    def _wake(self) -> None:
        if self._came is not None and not self._came.done():
            self._came.set_result(None)


class AsyncRpcClient(asyncio.Protocol):
    """A connection to a server of methods; made by `connect`, and closed by its owner."""

    def __init__(self) -> None:
        self._conversation = RpcConversation()
        self._replies: dict[int, _Replies] = {}
        self._greeting = _Replies()
        self._transport: asyncio.Transport | None = None
        self._lost = ""

    @staticmethod
    async def connect(path: Path, name: str = "heliograph") -> "AsyncRpcClient":
        """Connect to a server's socket; `name` is for the log of the other side.

        Raises:
            UnreachableError: Nothing answers there.
            RpcError: The other side speaks none of our versions, or takes no further connections.
        """
        client = AsyncRpcClient()
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(CONNECT_S):
                with short_path(path) as short:
                    await loop.create_unix_connection(lambda: client, os.fspath(short))
                client._send(client._conversation.hello(name))
                client._conversation.greeted((await client._greeting.take())[0])
        except TimeoutError as error:
            client.close()
            raise UnreachableError(f"{path}: {LATE}") from error
        except OSError as error:
            raise UnreachableError(f"{path}: {error.strerror or error}") from error
        except BaseException:
            client.close()
            raise
        return client

    @property
    def server(self) -> str:
        """With its version."""
        return self._conversation.server

    @property
    def in_flight(self) -> int:
        return len(self._replies)

    @property
    def given_up(self) -> int:
        """Requests that were given up here, and are in flight for the other side."""
        return self._conversation.given_up_count

    @property
    def is_lost(self) -> bool:
        return bool(self._lost)

    async def ask(self, question: Question[T], timeout_s: float | None = None, on_behalf: str = "") -> T:
        """Ask for one struct; without a timeout it may take as long as it takes.

        Raises:
            RpcError: It was refused, or failed.
            UnreachableError: The connection was lost, or the answer is late.
        """
        async for value in self._values(question, timeout_s, on_behalf):
            return msgspec.msgpack.decode(value, type=question.answer)
        raise UnreachableError(f"{question.name} was answered with a list")

    async def slices(
        self, question: ListQuestion[T], timeout_s: float | None = None, on_behalf: str = ""
    ) -> AsyncGenerator[list[T], None]:
        """The slices of a list as they come; closed early it is given up. The timeout is that of all of it.

        Raises:
            RpcError: It was refused, or failed.
            UnreachableError: The connection was lost, or the answer is late.
        """
        decoder = question.decoder()
        values = self._values(question, timeout_s, on_behalf)
        try:
            async for rows in values:
                yield decoder.decode(rows)
        finally:
            await values.aclose()

    def close(self) -> None:
        """What is in flight is lost."""
        self._lose("the connection was closed")
        if self._transport is not None:
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # uvloop has a class of its own

    def data_received(self, data: bytes) -> None:
        try:
            for reply in self._conversation.receive(data):
                if isinstance(reply, proto.Welcome) or reply.id == 0:
                    self._greeting.put(reply)
                elif (replies := self._replies.get(reply.id)) is not None:
                    replies.put(reply)
                    if len(replies.waiting) > _UNREAD_MAX and self._transport is not None:
                        self._transport.pause_reading()
        except FrameError as error:
            self._lose(str(error))
            self.close()

    def connection_lost(self, exc: Exception | None) -> None:
        self._lose(CLOSED if exc is None else f"the connection was lost: {exc}")

    async def _values(
        self, question: Question[Any] | ListQuestion[Any], timeout_s: float | None, on_behalf: str
    ) -> AsyncGenerator[msgspec.Raw, None]:
        if self._lost:
            raise UnreachableError(self._lost)
        number, request = self._conversation.ask(question, timeout_s, on_behalf)
        until = None if timeout_s is None else asyncio.get_running_loop().time() + timeout_s + GRACE_S
        replies = self._replies[number] = _Replies()
        is_complete = False
        try:
            self._send(request)
            while not is_complete:
                for reply in await self._next(replies, until):
                    is_complete = is_last(reply)
                    for value in values_of(reply):
                        yield value
        finally:
            del self._replies[number]
            if not self._lost:
                self._send(self._conversation.give_up(number))
            self._go_on()

    async def _next(self, replies: _Replies, until: float | None) -> list[proto.ToAsker]:
        self._go_on()
        try:
            async with asyncio.timeout_at(until):
                return await replies.take()
        except TimeoutError as error:
            raise UnreachableError(LATE) from error

    def _go_on(self) -> None:
        """Unless a request has replies that its asker still does not take."""
        if self._transport is None or self._transport.is_reading() or self._lost:
            return
        if all(len(replies.waiting) <= _UNREAD_MAX for replies in self._replies.values()):
            self._transport.resume_reading()

    def _send(self, data: bytes) -> None:
        if self._transport is None or self._lost:
            raise UnreachableError(self._lost or "the connection is not open")
        if data:
            self._transport.write(data)

    def _lose(self, why: str) -> None:
        self._lost = self._lost or why
        self._greeting.lose(self._lost)
        for replies in self._replies.values():
            replies.lose(self._lost)

    def __repr__(self) -> str:
        return f"AsyncRpcClient({self.server}, {self.in_flight} in flight)"
