"""A blocking client for commands: asks one thing after another over a Unix socket."""

import os
import socket
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Final, TypeVar

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

_RECEIVE_BYTES: Final = 1 << 16


class RpcClient:
    """A connection to a server of methods; its owner closes it.

    Raises:
        UnreachableError: Nothing answers there.
        RpcError: The other side speaks none of our versions, or takes no further connections.
    """

    def __init__(self, path: Path, name: str = "heliograph") -> None:
        self._conversation = RpcConversation()
        self._replies: deque[proto.ToAsker] = deque()
        self._until: float | None = time.monotonic() + CONNECT_S
        self._socket = _connected(path)
        try:
            self._send(self._conversation.hello(name))
            self._conversation.greeted(self._next())
        except BaseException:
            self.close()
            raise

    @property
    def server(self) -> str:
        """With its version."""
        return self._conversation.server

    def ask(self, question: Question[T], timeout_s: float | None = None) -> T:
        """Ask for one struct.

        Raises:
            RpcError: It was refused, or failed.
            UnreachableError: The connection was lost.
        """
        for value in self._values(question, timeout_s):
            return msgspec.msgpack.decode(value, type=question.answer)
        raise UnreachableError(f"{question.name} was answered with a list")

    def rows(self, question: ListQuestion[T], timeout_s: float | None = None) -> Iterator[T]:
        """The rows of a list as they come; left early it is given up. The timeout is that of all of it.

        Raises:
            RpcError: It was refused, or failed.
            UnreachableError: The connection was lost.
        """
        decoder = question.decoder()
        for rows in self._values(question, timeout_s):
            yield from decoder.decode(rows)

    def close(self) -> None:
        self._socket.close()

    def _values(self, question: Question[Any] | ListQuestion[Any], timeout_s: float | None) -> Iterator[msgspec.Raw]:
        number, request = self._conversation.ask(question, timeout_s)
        self._until = None if timeout_s is None else time.monotonic() + timeout_s + GRACE_S
        self._send(request)
        is_complete = False
        try:
            while not is_complete:
                reply = self._next()
                is_complete = is_last(reply)
                yield from values_of(reply)
        finally:
            if not is_complete:
                self._give_up(number)

    def _give_up(self, number: int) -> None:
        """Cancel the request, and read on until the other side has ended it."""
        self._until = time.monotonic() + GRACE_S
        self._replies.clear()
        try:
            self._send(self._conversation.give_up(number))
            while self._conversation.given_up_count:
                self._receive()
        except UnreachableError:
            self.close()

    def _next(self) -> proto.ToAsker:
        while not self._replies:
            self._receive()
        return self._replies.popleft()

    def _send(self, data: bytes) -> None:
        with _translated():
            self._socket.settimeout(self._left_s())
            self._socket.sendall(data)

    def _receive(self) -> None:
        with _translated():
            self._socket.settimeout(self._left_s())
            if not (received := self._socket.recv(_RECEIVE_BYTES)):
                raise UnreachableError(CLOSED)
            self._replies.extend(self._conversation.receive(received))

    def _left_s(self) -> float | None:
        return None if self._until is None else max(0.001, self._until - time.monotonic())

    def __enter__(self) -> "RpcClient":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"RpcClient({self.server})"


@contextmanager
def _translated() -> Iterator[None]:
    try:
        yield
    except TimeoutError as error:
        raise UnreachableError(LATE) from error
    except FrameError as error:
        raise UnreachableError(str(error)) from error
    except OSError as error:
        raise UnreachableError(f"the connection was lost: {error.strerror}") from error


def _connected(path: Path) -> socket.socket:
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    connection.settimeout(CONNECT_S)
    try:
        with short_path(path) as short:
            connection.connect(os.fspath(short))
    except OSError as error:
        connection.close()
        raise UnreachableError(f"{path}: {error.strerror or error}") from error
    return connection
