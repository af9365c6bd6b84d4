"""The options `--columns` and `--sort` of commands that list much; rows are sorted here, not in the node."""

import argparse
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

from heliograph.cli.ctl.asking import asked
from heliograph.cli.ctl.printing import TableColumn, print_rows
from heliograph.cli.ctl.times import time_of
from heliograph.cli.usage import UsageError
from heliograph.control import columns as declared
from heliograph.rpc.asks import ListQuestion

RowT = TypeVar("RowT")
Columns = Mapping[str, declared.Column]


def listed_columns(columns: Iterable[declared.Column]) -> Columns:
    """Those that a list has, by their names."""
    return declared.columns_in(columns, declared.In.LIST)


def add_table_options(parser: argparse.ArgumentParser, columns: Columns) -> None:
    """Add `--limit`, `--sort` and `--columns`."""
    parser.add_argument(
        "--limit", metavar="N", type=int, default=0, help="at most so many, the first ones if sorted; 0: all"
    )
    parser.add_argument(
        "--sort", metavar="COLUMN", help="sort by a column: numbers and times from the largest, texts from A"
    )
    shown = declared.columns_in(columns.values(), declared.In.TABLE)
    parser.add_argument(
        "--columns",
        metavar="A,B,...",
        default=",".join(shown),
        help=f"the columns of the table, of {', '.join(columns)}; default: {', '.join(shown)}",
    )


def table_columns(args: argparse.Namespace, columns: Columns) -> list[TableColumn]:
    """The columns that `--columns` names.

    Raises:
        UsageError: There is no such column, or none to sort by, or the limit is negative.
    """
    wanted = [name for name in (name.strip() for name in args.columns.split(",")) if name]
    for name in (*wanted, *([args.sort] if args.sort else [])):
        if name not in columns:
            raise UsageError(f"there is no column {name!r}; there are: {', '.join(columns)}")
    if not wanted:
        raise UsageError(f"--columns names no column; there are: {', '.join(columns)}")
    if args.limit < 0:
        raise UsageError(f"--limit is {args.limit}; 0 or more is valid")
    return [shown_column(columns[name]) for name in wanted]


def print_table(args: argparse.Namespace, columns: Columns, question: Callable[[int], ListQuestion[Any]]) -> int:
    """Print the rows that the node answers as the options want them; the exit code.

    Args:
        question: What is asked for so many rows at most, or for all if that is 0.

    Raises:
        UsageError: The options name no such column, or a negative limit.
    """
    shown = table_columns(args, columns)
    with asked(args) as node:
        rows = node.rows(question(0 if args.sort else args.limit))
        print_rows(sorted_rows(rows, args, columns), shown, args.json)
    return 0


def shown_column(column: declared.Column) -> TableColumn:
    """A column as a table shows it: times in the time zone of the terminal."""
    if column.kind is declared.FactKind.TIME:
        return TableColumn(column.name, lambda row: time_of(column.of(row) or 0))
    return TableColumn(column.name, column.of)


def sorted_rows(rows: Iterable[RowT], args: argparse.Namespace, columns: Columns) -> Iterable[RowT]:
    """The rows as `--sort` and `--limit` want them; without `--sort` as they come."""
    if args.sort is None:
        return rows
    found = sorted(rows, key=lambda row: _rank(columns[args.sort].of(row)))
    return found[: args.limit] if args.limit else found


def _rank(value: object) -> tuple[int, float, str]:
    """Where a value stands; what is not known at the end."""
    if value is None:
        return 1, 0.0, ""
    return (0, -float(value), "") if isinstance(value, int | float) else (0, 0.0, str(value))
