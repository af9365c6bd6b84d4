"""The options `--columns` and `--sort` of commands that list much; rows are sorted here, not in the node."""

import argparse
from collections.abc import Collection, Iterable

import msgspec

from heliograph.cli.ctl.printing import Column
from heliograph.cli.ctl.times import time_of
from heliograph.cli.usage import UsageError


def add_table_options(parser: argparse.ArgumentParser, columns: Iterable[str], shown: Iterable[str]) -> None:
    """Add `--limit`, `--sort` and `--columns`.

    Args:
        columns: Those that there are.
        shown: Those that a table has unless it is told otherwise.
    """
    parser.add_argument(
        "--limit", metavar="N", type=int, default=0, help="at most so many, the first ones if sorted; 0: all"
    )
    parser.add_argument(
        "--sort", metavar="COLUMN", help="sort by a column: numbers and times from the largest, texts from A"
    )
    shown = list(shown)
    parser.add_argument(
        "--columns",
        metavar="A,B,...",
        default=",".join(shown),
        help=f"the columns of the table, of {', '.join(columns)}; default: {', '.join(shown)}",
    )


def table_columns(args: argparse.Namespace, valid: Collection[str], times: Collection[str] = ()) -> list[Column]:
    """The columns that `--columns` names.

    Args:
        times: Those that have microseconds since the epoch.

    Raises:
        UsageError: There is no such column, or none to sort by, or the limit is none.
    """
    wanted = [name for name in (name.strip() for name in args.columns.split(",")) if name]
    for name in (*wanted, *([args.sort] if args.sort else [])):
        if name not in valid:
            raise UsageError(f"there is no column {name!r}; there are: {', '.join(valid)}")
    if not wanted:
        raise UsageError(f"--columns names no column; there are: {', '.join(valid)}")
    if args.limit < 0:
        raise UsageError(f"--limit is {args.limit}; 0 or more is valid")
    return [_time_column(name) if name in times else Column(name) for name in wanted]


def sorted_rows(rows: Iterable[msgspec.Struct], args: argparse.Namespace) -> Iterable[msgspec.Struct]:
    """The rows as `--sort` and `--limit` want them; without `--sort` as they come."""
    if args.sort is None:
        return rows
    found = sorted(rows, key=lambda row: _rank(getattr(row, args.sort)))
    return found[: args.limit] if args.limit else found


def _time_column(name: str) -> Column:
    return Column(name, lambda row: time_of(getattr(row, name) or 0))


def _rank(value: object) -> tuple[int, float, str]:
    """Where a value stands; what is not known at the end."""
    if value is None:
        return 1, 0.0, ""
    return (0, -float(value), "") if isinstance(value, int | float) else (0, 0.0, str(value))
