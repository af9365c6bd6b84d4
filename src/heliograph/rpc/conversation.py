"""The asker's side of a connection, sans-IO: questions and bytes in, bytes and replies out."""

from collections.abc import Iterator
from typing import Any, Final

import msgspec

from heliograph.rpc import proto_v1 as proto
from heliograph.rpc.asks import ListQuestion, Question
from heliograph.rpc.codes import BAD_ARGUMENTS
from heliograph.rpc.frames import ARGS_BYTES_MAX, RpcFrameReader, encoded, raw, to_asker
from heliograph.rpc.methods import RpcError

CONNECT_S: Final = 5.0  # for the connection and the greeting
GRACE_S: Final = 5.0  # after a deadline, within which the other side says that it has passed
LATE: Final = "the node does not answer in time"
CLOSED: Final = "the node has closed the connection"
_NO_SERVER: Final = "what answers there is no server of methods"
_SHOWN_LENGTH_MAX: Final = 200


class UnreachableError(Exception):
    """Nothing answers at a socket; the message says why."""


class RpcConversation:
    """What is in flight on one connection; owned by the client that moves its bytes."""

    def __init__(self) -> None:
        self.server = ""
        self._frames = RpcFrameReader()
        self._last_number = 0
        self._in_flight: set[int] = set()
        self._given_up: set[int] = set()  # requests that the other side has yet to end

    @property
    def given_up_count(self) -> int:
        """Requests that were given up here, and are in flight for the other side."""
        return len(self._given_up)

    def hello(self, name: str) -> bytes:
        """What is sent first; `name` is for the log of the other side."""
        return encoded(proto.Hello([proto.VERSION], name))

    def ask(
        self, question: Question[Any] | ListQuestion[Any], timeout_s: float | None, on_behalf: str = ""
    ) -> tuple[int, bytes]:
        """A new request: its number, and what is sent. The timeout is that of the whole answer."""
        deadline_ms = 0 if timeout_s is None else max(1, int(timeout_s * 1000))
        number = self._last_number + 1
        request = proto.Request(number, question.name, _sendable(question.args), deadline_ms, on_behalf)
        data = encoded(request)
        self._last_number = number
        self._in_flight.add(number)
        return number, data

    def give_up(self, number: int) -> bytes:
        """What is sent to give up a request; nothing if it has ended. Its further replies are dropped."""
        if number not in self._in_flight:
            return b""
        self._in_flight.discard(number)
        self._given_up.add(number)
        return encoded(proto.Cancel(number))

    def receive(self, data: bytes) -> Iterator[proto.ToAsker]:
        """The replies in what has come, each by its request's id; that of the greeting is 0.

        Raises:
            FrameError: What has come is not a frame; the connection is useless.
        """
        self._frames.receive(data)
        while (frame := self._frames.next()) is not None:
            reply = to_asker(frame)
            if isinstance(reply, proto.Welcome) or reply.id == 0:
                yield reply
                continue
            is_wanted = reply.id in self._in_flight
            if is_last(reply):
                self._in_flight.discard(reply.id)
                self._given_up.discard(reply.id)
            if is_wanted:
                yield reply

    def greeted(self, reply: proto.ToAsker) -> None:
        """Take the first reply.

        Raises:
            RpcError: The other side speaks none of our versions, or has too many connections.
            UnreachableError: It does not speak this protocol.
        """
        if isinstance(reply, proto.Failure):
            raise RpcError(reply.code, reply.message)
        if not isinstance(reply, proto.Welcome):
            raise UnreachableError(_NO_SERVER)
        self.server = reply.name


def is_last(reply: proto.ToAsker) -> bool:
    return isinstance(reply, proto.End | proto.Answer | proto.Failure)


def values_of(reply: proto.ToAsker) -> Iterator[msgspec.Raw]:
    """The answer, the rows of a slice, or nothing; `RpcError` if the request was refused, or failed."""
    if isinstance(reply, proto.Failure):
        raise RpcError(reply.code, reply.message, reply.details)
    if isinstance(reply, proto.Slice):
        yield reply.rows
    elif isinstance(reply, proto.Answer):
        yield reply.value


def _sendable(args: msgspec.Struct) -> msgspec.Raw:
    """Raises `RpcError` for bytes that are no text, or too many."""
    try:
        sent = raw(args)
    except UnicodeEncodeError as error:
        shown = error.object[:_SHOWN_LENGTH_MAX]
        raise RpcError(BAD_ARGUMENTS, f"{shown!r} is not valid UTF-8; ids, topics and all other texts are") from error
    size = len(bytes(sent))
    if size > ARGS_BYTES_MAX:
        raise RpcError(BAD_ARGUMENTS, f"the arguments have {size:,} bytes; at most {ARGS_BYTES_MAX:,} are valid")
    return sent
