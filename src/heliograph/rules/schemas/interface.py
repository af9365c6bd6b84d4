"""What a schema is.

One module beside this one for each kind of schema; `registry` finds them by name. Values are those of the rule language
(`heliograph.rules.values`).
"""

from collections.abc import Callable
from typing import Final, Protocol, runtime_checkable

from heliograph.rules.values import Value, bytes_of

#: Name of the built-in schema, and its kind.
SPARKPLUG_B: Final[str] = "sparkplug_b"


class SchemaError(Exception):
    """Data does not fit a schema, or there is no such schema; the message is a sentence without the schema's name."""


def fault_of(data: Value, decode: Callable[[bytes], object], encode: Callable[[Value], object]) -> str | None:
    """Why bytes cannot be decoded, or another value not be encoded; None when they can."""
    try:
        if type(data) is bytes:
            decode(data)
        elif isinstance(data, str | bytes):
            decode(bytes_of(data))
        else:
            encode(data)
    except SchemaError as error:
        return str(error)
    return None


class Schema(Protocol):
    """One schema, ready to be used; every thread may use it.

    Attributes:
        name: Its name in the registry.
        kind: `avro`, `protobuf`, `json`, `external_http` or `sparkplug_b`.
        may_block: Whether its methods wait for a process or service, so that the event loop must not call them.
    """

    name: str
    kind: str
    may_block: bool

    def decode(self, data: bytes, message_type: str | None = None) -> Value:
        """The value that bytes stand for.

        Args:
            message_type: Which message of a Protobuf schema; the others have none.

        Raises:
            SchemaError: They do not fit.
        """

    def encode(self, value: Value, message_type: str | None = None) -> bytes:
        """The bytes that stand for a value; a `SchemaError` where it does not fit."""

    def check(self, data: Value, message_type: str | None = None) -> str | None:
        """Why a value, or bytes, do not fit the schema; None when they do."""


@runtime_checkable
class Connected(Protocol):
    """A schema that keeps connections to a service."""

    def close(self) -> None:
        """Give its connections up; the schema cannot be used any more."""
