"""`heliograph pipeline dlq ls` and `show`: they read files only, and need no Spark."""

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from heliograph.pipeline.errors import OptionError
from heliograph.pipeline.side_outputs.dead_letter_table import count_letters, show_letters


def output_that_is_there(args: argparse.Namespace) -> Path:
    """The tables of a pipeline that has run; a mistyped path is an error and no empty table."""
    output: Path = args.output
    if not output.is_dir():
        raise OptionError("--output", str(output), "the directory of a pipeline that has run")
    return output


def table_text(rows: Sequence[Sequence[str]]) -> str:
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    )


def _ls(args: argparse.Namespace) -> int:
    counts = count_letters(output_that_is_there(args) / args.path)
    if args.json:
        for count in counts:
            print(json.dumps(count.to_json()))
        return 0
    head = ("rule", "cause", "waiting", "replayed", "newest", "reason of the newest")
    print(table_text([head, *(count.cells() for count in counts)]))
    return 0


def _show(args: argparse.Namespace) -> int:
    is_empty = True
    for letter in show_letters(output_that_is_there(args) / args.path, args.rule, args.limit, args.all):
        print(letter.to_text() if not args.json else json.dumps(letter.to_json()))
        is_empty = False
    if is_empty:
        print(f"heliograph pipeline: there is no dead letter of {args.rule}", file=sys.stderr)
    return 0


LOOKS: Final[dict[str, Callable[[argparse.Namespace], int]]] = {"dlq ls": _ls, "dlq show": _show}
