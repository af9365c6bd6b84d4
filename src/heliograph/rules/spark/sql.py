"""Values and functions as Spark SQL: what is known about a value, its text, literals. This module needs no Spark.

Functions are those that mean exactly the same on values whose kinds are known. Most do not: texts are measured in
graphemes here and in code points there, letter case and white space follow other tables, numbers round and overflow
otherwise, and a failing function fails a row here and a query there.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, TypeAlias

from heliograph.rules.output import ValueKind

# Neither quotes nor backslashes, whose meaning depends on the session, nor what substitution could take for its own.
_PLAIN: Final = re.compile(r"[A-Za-z0-9 /_.:,;+*?!#$@~()\[\]^=|<>-]*")


class NotNativeError(Exception):
    """An expression has no exact equal in Spark SQL; the text says why."""


@dataclass(frozen=True, slots=True)
class Native:
    """An expression in Spark SQL.

    Attributes:
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
    if native.kind in (ValueKind.BYTES, ValueKind.NUMBER):
        raise NotNativeError("the text of floats and payloads is made by the broker's engine")
    sql = native.sql if native.kind is ValueKind.STRING else f"CAST({native.sql} AS STRING)"
    return f"coalesce({sql}, 'undefined')" if native.optional else sql


Translate: TypeAlias = Callable[[Sequence[Native]], Native]

_BYTES_MAX: Final = 2**31
_LINE_END: Final = string_literal("\r\n")


def call_natively(name: str, arguments: Sequence[Native]) -> Native:
    translate = NATIVE_FUNCTIONS.get(name)
    if translate is None:
        raise NotNativeError(f"the function {name} has no exact equal in Spark")
    return translate(arguments)


def _only(arguments: Sequence[Native]) -> Native:
    if len(arguments) != 1:
        raise NotNativeError("the number of arguments is left to the broker's engine")
    return arguments[0]


def _bytes(arguments: Sequence[Native]) -> str:
    value = _only(arguments)
    if value.kind not in (ValueKind.STRING, ValueKind.BYTES) or value.optional:
        raise NotNativeError("a function of strings fails for other kinds")
    return f"CAST({value.sql} AS BINARY)"


def _number(arguments: Sequence[Native]) -> Native:
    value = _only(arguments)
    if value.kind not in (ValueKind.INTEGER, ValueKind.NUMBER) or value.optional:
        raise NotNativeError("a function of numbers fails for other kinds")
    return value


def _of_bytes(pattern: str) -> Translate:
    return lambda arguments: Native(pattern.format(_bytes(arguments)), ValueKind.STRING)


def _size_in(unit_bits: int) -> Translate:
    def size(arguments: Sequence[Native]) -> Native:
        count = f"CAST(octet_length({_bytes(arguments)}) AS BIGINT)"
        sql = count if unit_bits == 8 else f"({count} * 8L)"
        return Native(sql, ValueKind.INTEGER, size=_BYTES_MAX * 8 // unit_bits)

    return size


def _is_undefined(wanted: bool) -> Translate:
    def test(arguments: Sequence[Native]) -> Native:
        value = _only(arguments)
        if not value.optional:
            return Native("false" if wanted else "true", ValueKind.BOOLEAN)
        return Native(f"({value.sql} IS {'NULL' if wanted else 'NOT NULL'})", ValueKind.BOOLEAN)

    return test


def _is_of(*kinds: ValueKind) -> Translate:
    def test(arguments: Sequence[Native]) -> Native:
        value = _only(arguments)
        if value.kind not in kinds:
            return Native("false", ValueKind.BOOLEAN)
        return Native(f"({value.sql} IS NOT NULL)" if value.optional else "true", ValueKind.BOOLEAN)

    return test


def _absolute(arguments: Sequence[Native]) -> Native:
    value = _number(arguments)
    return replace(value, sql=f"abs({value.sql})")


def _integer(arguments: Sequence[Native]) -> Native:
    value = _only(arguments)
    if value.kind is ValueKind.BOOLEAN and not value.optional:
        return Native(f"CAST({value.sql} AS BIGINT)", ValueKind.INTEGER, size=1)
    if _number(arguments).kind is ValueKind.NUMBER:
        raise NotNativeError("int of a float may need more than 64 bits")
    return value


def _float(arguments: Sequence[Native]) -> Native:
    value = _number(arguments)
    return Native(f"CAST({value.sql} AS DOUBLE)", ValueKind.NUMBER, size=value.size)


def _text(arguments: Sequence[Native]) -> Native:
    return Native(text_in_sql(_only(arguments)), ValueKind.STRING)


def _joined(arguments: Sequence[Native]) -> Native:
    if len(arguments) != 2:
        raise NotNativeError("concat of an array is left to the broker's engine")
    return Native(f"concat({', '.join(map(text_in_sql, arguments))})", ValueKind.STRING)


def _first_defined(arguments: Sequence[Native]) -> Native:
    if len(arguments) != 2 or arguments[0].kind is not arguments[1].kind:
        raise NotNativeError("coalesce of different kinds is left to the broker's engine")
    one, other = arguments
    if not one.optional:
        return one
    return Native(
        f"coalesce({one.sql}, {other.sql})", one.kind, optional=other.optional, size=max(one.size, other.size)
    )


NATIVE_FUNCTIONS: Final[Mapping[str, Translate]] = {
    "abs": _absolute,
    "base64_encode": _of_bytes(f"replace(base64({{}}), {_LINE_END})"),
    "bin2hexstr": _of_bytes("hex({})"),
    "bitsize": _size_in(1),
    "bytesize": _size_in(8),
    "coalesce": _first_defined,
    "concat": _joined,
    "float": _float,
    "int": _integer,
    "is_array": _is_of(),
    "is_bool": _is_of(ValueKind.BOOLEAN),
    "is_float": _is_of(ValueKind.NUMBER),
    "is_int": _is_of(ValueKind.INTEGER),
    "is_map": _is_of(),
    "is_not_null": _is_undefined(False),
    "is_not_null_var": _is_undefined(False),
    "is_null": _is_undefined(True),
    "is_null_var": _is_undefined(True),
    "is_num": _is_of(ValueKind.INTEGER, ValueKind.NUMBER),
    "is_str": _is_of(ValueKind.STRING, ValueKind.BYTES),
    "md5": _of_bytes("md5({})"),
    "sha": _of_bytes("sha1({})"),
    "sha256": _of_bytes("sha2({}, 256)"),
    "sqlserver_bin2hexstr": _of_bytes("concat('0x', hex({}))"),
    "str": _text,
    "str_utf8": _text,
}
"""By name; the functions of columns and `div` and `mod` are not here, since they are columns and operators."""
