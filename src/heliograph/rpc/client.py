"""A blocking client for commands: asks one thing after another over a Unix socket."""

import os
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Final, TypeVar

import msgspec

from heliograph.rpc import proto_v1 as proto
from heliograph.rpc.asked_frames import UnreachableError, sendable
from heliograph.rpc.frames import FrameError, RpcFrameReader, encoded, to_asker
from heliograph.rpc.methods import NoArgs, RpcError
from heliograph.rpc.socket_path import short_path

T = TypeVar("T")

_NOTHING: Final = NoArgs()
_RECEIVE_BYTES: Final = 1 << 16
_CONNECT_S: Final = 5.0
_GRACE_S: Final = 5.0  # behind a deadline, within which the other side says that it has passed


class RpcClient:
    """A connection to a server of methods; its owner closes it.

    Args:
        path: The socket.
        name: Who asks, for the log of the other side.

    Attributes:
        server: What answers, with its version.

    Raises:
        UnreachableError: Nothing answers there.
        RpcError: The other side speaks none of our versions, or takes no more connections.
    """

    def __init__(self, path: Path, name: str = "heliograph") -> None:
        self._frames = RpcFrameReader()
        self._number = 0
        self._until: float | None = time.monotonic() + _CONNECT_S
        self._socket = _connected(path)
        try:
            self._send(proto.Hello([proto.VERSION], name))
            answer = self._receive()
        except BaseException:
            self.close()
            raise
        if isinstance(answer, proto.Failure):
            self.close()
            raise RpcError(answer.code, answer.message)
        self.server = answer.name if isinstance(answer, proto.Welcome) else ""

    def ask(
        self,
        method: str,
        kind: type[T],
        args: msgspec.Struct = _NOTHING,
        timeout_s: float | None = None,
    ) -> T:
        """Ask for one struct.

        Args:
            kind: The type of the answer.
            timeout_s: For how long it may take; None for as long as it takes.

        Raises:
            RpcError: It was refused, or failed.
            UnreachableError: The connection was lost.
        """
        for value in self._exchange(method, args, timeout_s):
            return msgspec.msgpack.decode(value, type=kind)
        raise UnreachableError(f"{method} was answered with a list")

    def rows(
        self,
        method: str,
        kind: type[T],
        args: msgspec.Struct = _NOTHING,
        timeout_s: float | None = None,
    ) -> Iterator[T]:
        """Ask for a list; its rows, as they come. One that is left early is given up.

        Args:
            kind: The type of a row.
            timeout_s: For how long it may take altogether; None for as long as it takes.

        Raises:
            RpcError: It was refused, or failed.
            UnreachableError: The connection was lost.
        """
        decoder = msgspec.msgpack.Decoder(list[kind])  # type: ignore[valid-type]  # a type that is known at run time only
        for rows in self._exchange(method, args, timeout_s):
            yield from decoder.decode(rows)

    def close(self) -> None:
        """Close the connection."""
        self._socket.close()

    def _exchange(self, method: str, args: msgspec.Struct, timeout_s: float | None) -> Iterator[msgspec.Raw]:
        """What a request is answered with, one frame after the other."""
        self._number += 1
        self._until = None if timeout_s is None else time.monotonic() + timeout_s + _GRACE_S
        deadline_ms = 0 if timeout_s is None else max(1, int(timeout_s * 1000))
        self._send(proto.Request(self._number, method, sendable(args), deadline_ms))
        is_complete = False
        try:
            while not is_complete:
                frame = self._receive()
                if isinstance(frame, proto.Failure):
                    is_complete = True
                    raise RpcError(frame.code, frame.message)
                is_complete = isinstance(frame, proto.End | proto.Answer)
                if isinstance(frame, proto.Slice):
                    yield frame.rows
                elif isinstance(frame, proto.Answer):
                    yield frame.value
        finally:
            if not is_complete:
                self._give_up()

    def _give_up(self) -> None:
        """Cancel the request, and pass over what still comes of it."""
        self._until = time.monotonic() + _GRACE_S
        try:
            self._send(proto.Cancel(self._number))
            while isinstance(self._receive(), proto.Slice):
                pass
        except UnreachableError:
            self.close()

    def _send(self, frame: proto.FromAsker) -> None:
        with self._told():
            self._socket.settimeout(self._left_s())
            self._socket.sendall(encoded(frame))

    def _receive(self) -> proto.ToAsker:
        with self._told():
            while (data := self._frames.next()) is None:
                self._socket.settimeout(self._left_s())
                if not (received := self._socket.recv(_RECEIVE_BYTES)):
                    raise UnreachableError("the node has closed the connection")
                self._frames.receive(received)
            return to_asker(data)

    def _left_s(self) -> float | None:
        return None if self._until is None else max(0.001, self._until - time.monotonic())

    @contextmanager
    def _told(self) -> Iterator[None]:
        """Say in our words what the socket raises."""
        try:
            yield
        except TimeoutError as error:
            raise UnreachableError("the node does not answer in time") from error
        except FrameError as error:
            raise UnreachableError(str(error)) from error
        except OSError as error:
            raise UnreachableError(f"the connection was lost: {error.strerror}") from error

    def __enter__(self) -> "RpcClient":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"RpcClient({self.server})"


def _connected(path: Path) -> socket.socket:
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    connection.settimeout(_CONNECT_S)
    try:
        with short_path(path) as short:
            connection.connect(os.fspath(short))
    except OSError as error:
        connection.close()
        raise UnreachableError(f"{path}: {error.strerror or error}") from error
    return connection
