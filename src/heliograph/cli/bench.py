"""`heliograph bench`: the load tool, from a distribution of its own; where that is missing, a sentence says so."""

import argparse
import importlib.util
import sys

from heliograph.cli.usage import Actions

if importlib.util.find_spec("heliograph_bench") is not None:
    from heliograph_bench.command import add_parser, run
else:
    _MISSING = "heliograph bench is a package of its own: install it with `pip install heliograph-bench`"

    def add_parser(subparsers: Actions) -> None:
        parser = subparsers.add_parser("bench", help="load any MQTT broker and measure it", description=_MISSING)
        parser.add_argument("options", nargs=argparse.REMAINDER, help="those of the load tool")

    def run(args: argparse.Namespace) -> int:
        print(_MISSING, file=sys.stderr)
        return 2


__all__ = ["add_parser", "run"]
