"""The frames of version 1. Frozen: a field keeps its place and type; one may be added at the end, with a default.

A frame is a length of four bytes (big endian) and as many bytes of MessagePack: an array that begins with the tag of
its struct. The asker says `Hello` first, which is the same in every version, and gets `Welcome` or a `Failure`. Then
each `Request` is answered by one `Answer`, or by any number of `Slice`s and an `End`, or by a `Failure`; the frames of
several requests may come in any order.
"""

from collections.abc import Mapping
from typing import Final, TypeAlias

import msgspec

VERSION: Final = 1


class Hello(msgspec.Struct, array_like=True, frozen=True, tag=0):
    """The first frame of an asker.

    Attributes:
        versions: The versions that it speaks.
        name: What it is, for logs.
    """

    versions: list[int]
    name: str


class Welcome(msgspec.Struct, array_like=True, frozen=True, tag=1):
    """The answer to `Hello`.

    Attributes:
        version: The version that is spoken from here on.
        name: What answers, with its version.
    """

    version: int
    name: str


class Request(msgspec.Struct, array_like=True, frozen=True, tag=2):
    """Asks for something.

    Attributes:
        id: Given by the asker, above 0, not that of another request in flight.
        method: Its name, as `clients.list`.
        args: The struct of its arguments.
        deadline_ms: Milliseconds from its arrival until it is given up; 0 for never.
        on_behalf: The caller behind the request, as one of the HTTP API; empty for the peer itself.
    """

    id: int
    method: str
    args: msgspec.Raw
    deadline_ms: int
    on_behalf: str = ""


class Cancel(msgspec.Struct, array_like=True, frozen=True, tag=3):
    """Gives up a request, which is answered by a `Failure` unless it ends meanwhile. One not in flight is no error."""

    id: int


class Answer(msgspec.Struct, array_like=True, frozen=True, tag=4):
    """The whole answer to a request."""

    id: int
    value: msgspec.Raw


class Slice(msgspec.Struct, array_like=True, frozen=True, tag=5):
    """Rows of a list, as an array."""

    id: int
    rows: msgspec.Raw


class End(msgspec.Struct, array_like=True, frozen=True, tag=6):
    """The list of a request is complete."""

    id: int


class Failure(msgspec.Struct, array_like=True, frozen=True, tag=7):
    """A request cannot be answered, or, with the id 0, the connection ends.

    Attributes:
        code: What it is, for programs.
        message: The same for people.
        details: What programs need beside the code, by name.
    """

    id: int
    code: str
    message: str
    details: Mapping[str, list[str]] = msgspec.field(default_factory=dict)


FromAsker: TypeAlias = Hello | Request | Cancel
ToAsker: TypeAlias = Welcome | Answer | Slice | End | Failure
