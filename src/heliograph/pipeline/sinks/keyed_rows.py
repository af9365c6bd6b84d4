"""Of several rows with one key the last counts, or the newest by some columns.

Aggregates bring each key once; a query that only selects (the newest value of each station) brings a key as often as
there were messages.
"""

from collections.abc import Callable, Iterable, Sequence

import pyarrow as pa

from heliograph.pipeline.errors import SinkError
from heliograph.pipeline.sinks.rows import RowField, check_names


def keys_of(table: pa.Table, key: Sequence[str]) -> Iterable[tuple[object, ...]]:
    return zip(*(table.column(name).to_pylist() for name in key), strict=True)


def last_of_each(table: pa.Table, key: Sequence[str]) -> pa.Table:
    """The last row of each key, in their order; null equals null."""
    last = {row: index for index, row in enumerate(keys_of(table, key))}
    return table if len(last) == table.num_rows else table.take(pa.array(sorted(last.values()), pa.int64()))


def newer_condition(
    newest_by: Sequence[str], new: Callable[[str], str], held: Callable[[str], str | None], same: str
) -> str:
    """SQL that is true where a new row is not older than the one that the table holds; null is before all values.

    Args:
        new: The SQL of a column of the new row.
        held: That of the row in the table; None for a column that the table lacks, which is null in all its rows.
        same: The operator for which null equals null.
    """
    condition = "TRUE"
    for name in reversed(newest_by):
        mine, other = new(name), held(name)
        if other is None:
            condition = f"{mine} IS NOT NULL OR ({condition})"
            continue
        first = f"{mine} > {other} OR ({mine} IS NOT NULL AND {other} IS NULL)"
        condition = f"{first} OR (({mine} {same} {other}) AND ({condition}))"
    return condition


def check_newest_columns(newest_by: Sequence[str], fields: Sequence[RowField], where: str) -> None:
    """Refuse rows that lack a column by which they are newer, or have one of which no value is after another.

    Raises:
        SinkError: With the column, and what there is.
    """
    check_names(newest_by, fields, where)
    for field in fields:
        if field.name in newest_by and field.is_complex:
            raise SinkError(
                f"{where} names {field.name!r}, which is {field.kind}: it takes numbers, times and texts, which have "
                "an order"
            )
