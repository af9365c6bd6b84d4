"""Values as Spark SQL: what is known about one, its text, and literals. This module makes text and needs no Spark."""

import re
from dataclasses import dataclass
from typing import Final

from heliograph.rules.output import ValueKind

# Neither quotes nor backslashes, whose meaning depends on the session, nor what substitution could take for its own.
_PLAIN: Final = re.compile(r"[A-Za-z0-9 /_.:,;+*?!#$@~()\[\]^=|<>-]*")


class NotNativeError(Exception):
    """An expression has no exact equal in Spark SQL; the text says why."""


@dataclass(frozen=True, slots=True)
class Native:
    """An expression in Spark SQL.

    Attributes:
        sql: The expression over the columns of stored messages.
        kind: The kind of all its values; never unknown. A number is a float here.
        optional: Whether it may be undefined, which is NULL in SQL. There is no other NULL.
        size: The largest magnitude that a number may have.
    """

    sql: str
    kind: ValueKind
    optional: bool = False
    size: float = 0


def string_literal(text: str) -> str:
    """A string in Spark SQL, whatever it holds and however the session reads backslashes."""
    if _PLAIN.fullmatch(text):
        return f"'{text}'"
    return f"CAST(X'{text.encode().hex().upper()}' AS STRING)"


def text_in_sql(native: Native) -> str:
    """The text form of a value."""
    if native.kind in (ValueKind.BYTES, ValueKind.NUMBER):
        raise NotNativeError("the text of floats and payloads is made by the broker's engine")
    sql = native.sql if native.kind is ValueKind.STRING else f"CAST({native.sql} AS STRING)"
    return f"coalesce({sql}, 'undefined')" if native.optional else sql
