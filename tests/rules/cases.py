"""What a case of the bank is, and how most cases are made.

A case is a rule, a message, and either the output rows or a piece of the error. `expressions` and `failures` make most
of them from a single expression, evaluated as `SELECT ... AS x` on a message of the topic `t/1`.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from heliograph.rules.columns import MessageColumns
from heliograph.rules.values import Value

PAYLOAD: Final = (
    b'{"i": 7, "neg": -7, "f": 2.5, "one": 1.0, "s": "text", "n5": "5", "t": true, "no": false, "null": null,'
    b' "l": [10, 20, 30], "mixed": [1, 1.0, "1"], "o": {"k": {"deep": "yes"}, "1": "one", "a b": "spaced"},'
    b' "js": "{\\"k\\": 7}", "big": 123456789012345678901234567890, "list": [{"v": 1}, {"v": 2}], "at": 2,'
    b' "empty": {}, "uml": "stra\\u00dfe", "han": "\\u4f60\\u597d"}'
)
GUID: Final = bytes(range(16))
RECEIVED_AT: Final = 1_700_000_000_123_456
PROPERTIES: Final = {
    "Content-Type": "text/plain",
    "Message-Expiry-Interval": "60",
    "Correlation-Data": "/w==",
    "User-Property.unit": "F",
}


@dataclass(frozen=True)
class Case:
    """One rule on one message; either rows or a piece of the error is expected."""

    sql: str
    rows: list[dict[str, Value]] | None
    error: str | None = None
    topic: str = "t/1"
    payload: bytes = PAYLOAD
    message: dict[str, Any] = field(default_factory=dict)

    def columns(self) -> MessageColumns:
        """The columns of the case's message."""
        defaults: dict[str, Any] = {
            "qos": 1,
            "clientid": "c1",
            "username": "u1",
            "properties": PROPERTIES,
            "guid": GUID,
            "received_at": RECEIVED_AT,
        }
        return MessageColumns(self.topic, self.payload, **(defaults | self.message))


def expressions(*pairs: tuple[str, Value]) -> Iterator[Case]:
    """Cases of expressions and their values."""
    for expression, value in pairs:
        yield Case(f'SELECT {expression} AS x FROM "t/#"', [{"x": value}])


def failures(*pairs: tuple[str, str]) -> Iterator[Case]:
    """Cases of expressions that fail, with a piece of the error."""
    for expression, error in pairs:
        yield Case(f'SELECT {expression} AS x FROM "t/#"', None, error)


def conditions(*pairs: tuple[str, bool]) -> Iterator[Case]:
    """Cases of WHERE."""
    for condition, passes in pairs:
        yield Case(f'SELECT 1 AS x FROM "t/#" WHERE {condition}', [{"x": 1}] if passes else [])


def condition_failures(*pairs: tuple[str, str]) -> Iterator[Case]:
    """Cases of WHERE that fail, with a piece of the error."""
    for condition, error in pairs:
        yield Case(f'SELECT 1 AS x FROM "t/#" WHERE {condition}', None, error)
