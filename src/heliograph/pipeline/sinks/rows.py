"""What a row sink is given: the rows of a batch as Arrow, with the texts that it makes of each row beside its columns.

Who computes them is the caller's matter: Spark does for a micro-batch (`heliograph.pipeline.sinks.spark`).
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

import pyarrow as pa

from heliograph.pipeline.errors import SinkError

#: The beginning of the names of derived columns.
PREFIX: Final = "heliograph_"

_COMPLEX: Final = re.compile(r"(struct|array|map)<.*|variant")


class UnreadableText(str):
    """The error for a value that Python cannot hold: text that is not UTF-8, a time after the year 9999."""


@dataclass(frozen=True)
class RowField:
    """A column of rows.

    Attributes:
        kind: Its type in Spark's words: ``bigint``, ``decimal(10,2)``, ``array<int>``.
    """

    name: str
    kind: str

    @property
    def is_complex(self) -> bool:
        """Whether its values are JSON text in a chunk."""
        return _COMPLEX.fullmatch(self.kind) is not None


@dataclass(frozen=True)
class Derived:
    """A column of texts or bytes that a template makes of each row; `PREFIX` stands before its name.

    Attributes:
        template: What it is made of; None is the row as JSON.
        where: The setting, for errors.
        is_text: Whether it is text; otherwise bytes, exactly those of a column where the template is that alone.
        keep_null: Whether bytes are null where the column is; otherwise they are ``null``, as in texts.
    """

    name: str
    template: str | None
    where: str
    is_text: bool = False
    keep_null: bool = False

    @property
    def column(self) -> str:
        return f"{PREFIX}{self.name}"


class Rows(Protocol):
    """The rows of a batch. They are read as often as wanted, in the same order each time.

    In the chunks, structures, arrays, maps and variants are JSON text. Behind the columns stand the paths that the
    sink names, each as a column of that name, and its derived columns.
    """

    @property
    def fields(self) -> Sequence[RowField]:
        """The columns of the rows."""

    def chunks(self, rows_max: int) -> Iterator[pa.RecordBatch]:
        """The rows in pieces of at most so many; none is empty."""

    def row(self, chunk: pa.RecordBatch, index: int) -> dict[str, Any]:
        """One row of a chunk as it was, for `MicroBatch.refuse`; what Python has no value for is `UnreadableText`."""


def rows_at(rows: Rows, chunk_rows: int, reasons: Mapping[int, str]) -> Iterator[tuple[dict[str, Any], str]]:
    """The rows at some places, each with what is said of it."""
    begin = 0
    for chunk in rows.chunks(chunk_rows) if reasons else ():
        for index in range(chunk.num_rows):
            if begin + index in reasons:
                yield rows.row(chunk, index), reasons[begin + index]
        begin += chunk.num_rows


def check_names(names: Sequence[str], fields: Sequence[RowField], where: str) -> None:
    """Refuse rows without a column.

    Raises:
        SinkError: With the column, and those that there are.
    """
    known = [field.name for field in fields]
    for name in names:
        if name not in known:
            raise SinkError(f"{where} names {name!r}, but the rows have {', '.join(known)}")


def python_value(one: pa.Array) -> Any:
    """The value of an array of one."""
    try:
        return one[0].as_py()
    except (ValueError, OverflowError):
        if pa.types.is_string(one.type) or pa.types.is_large_string(one.type):
            return UnreadableText(one.cast(pa.large_binary())[0].as_py().decode("utf-8", "backslashreplace"))
        return UnreadableText(one.cast(pa.string())[0].as_py())
