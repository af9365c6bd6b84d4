"""The `heliograph` command: finds the subcommand's module and runs it.

A subcommand's module is imported only when it is named, so that starting a broker does not pay for the others.
"""

import argparse
import gc
import importlib
import sys
from collections.abc import Sequence
from types import ModuleType
from typing import Final

from heliograph import __version__
from heliograph._pure import is_compiled
from heliograph.cli.output import drop_output, is_output_closed, is_output_refused, open_closed_output
from heliograph.cli.usage import Actions, CommandParser

# Each module has `add_parser(subparsers)` and `run(args) -> exit code`.
_COMMANDS: Final = {
    "start": "run a node in the foreground",
    "publish": "publish messages, as mosquitto_pub does",
    "subscribe": "print messages, as mosquitto_sub does",
    "ctl": "ask a running node, and change what it does",
    "conf": "show, check or import a configuration file",
    "service": "run a node by systemd",
    "backup": "list, verify and restore backups",
    "storage": "show, check and mend stored messages",
    "erase": "erase what is stored of a client or a topic",
    "retainer": "show and delete retained messages",
    "rule": "test and explain rules",
    "schema": "list schemas, and check data against them",
    "message": "try validations and transformations on a message",
    "variform": "evaluate variform expressions",
    "authz": "try rules of authorization, and find mistakes in a file of rules",
    "authn": "try what authenticators do with credentials",
    "topic": "match, parse and validate topics and topic filters",
    "pipeline": "run rules on stored messages with Apache Spark",
    "bench": "load any MQTT broker and measure it",
    "completion": "print the completion script of a shell",
}


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit code."""
    open_closed_output()
    words = list(sys.argv[1:] if argv is None else argv)
    parser, subparsers = _bare_parser()
    named = words[0] if words and words[0] in _COMMANDS else None
    for command, summary in _COMMANDS.items():
        if command == named:
            _load(command).add_parser(subparsers)
        elif named is None:
            subparsers.add_parser(command, help=summary)
    args = parser.parse_args(words)
    try:
        exit_code: int = _load(args.command).run(args)
        sys.stdout.flush()
    except OSError as error:
        if is_output_closed(error):  # by its reader (`| head`), which has seen enough
            drop_output()
        elif is_output_refused(error):
            drop_output()
            print(f"heliograph: the output cannot be written: {error.strerror}", file=sys.stderr)
        else:
            raise
        return 1
    return exit_code


def whole_parser() -> argparse.ArgumentParser:
    """The parser of all commands, for what is made of their options: completion, manual pages."""
    parser, subparsers = _bare_parser()
    for command in _COMMANDS:
        _load(command).add_parser(subparsers)
    return parser


def _bare_parser() -> tuple[argparse.ArgumentParser, Actions]:
    parser: argparse.ArgumentParser = CommandParser(
        prog="heliograph", description="An MQTT platform that keeps every message as a replayable stream."
    )
    parser.add_argument("--version", action="version", version=_version_line())
    return parser, parser.add_subparsers(dest="command", metavar="COMMAND", required=True)


def _load(command: str) -> ModuleType:
    """The module of a subcommand. No garbage is looked for meanwhile, which would take a tenth of the time."""
    gc.disable()
    try:
        return importlib.import_module(f"heliograph.cli.{command}")
    finally:
        gc.enable()


def _version_line() -> str:
    """The version, and whether the protocol packages run compiled."""
    return f"heliograph {__version__} ({'compiled' if is_compiled() else 'pure Python'})"


if __name__ == "__main__":
    sys.exit(main())
