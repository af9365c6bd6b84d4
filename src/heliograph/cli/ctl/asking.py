"""Finds the node that a command asks, and asks it.

The data directory is that of `--data-dir`, else that of the file of `--config` or of the environment, else `./data`.
"""

import argparse
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, TypeAlias, TypeVar

from heliograph.cli.ctl.printing import TableColumn, print_rows
from heliograph.cli.usage import Actions, UsageError, add_node_options, description_of, example_of
from heliograph.rpc.asks import ListQuestion, Question
from heliograph.rpc.client import RpcClient
from heliograph.rpc.conversation import UnreachableError
from heliograph.rpc.socket_path import CONTROL_SOCKET

T = TypeVar("T")
Act: TypeAlias = Callable[[argparse.Namespace], int]
"""Carries out a command; the exit code."""

DEFAULT_DATA_DIR: Final = "data"  # that of node.data_dir, without loading all settings
_ENVIRONMENT: Final = "HELIOGRAPH_NODE__DATA_DIR"


def add_command(
    actions: Actions, act: Act, name: str, summary: str, *examples: str, description: str = "", alias: str = ""
) -> argparse.ArgumentParser:
    """Add a command that asks a node, with the options that say which one and how to print.

    Args:
        act: What carries it out.
        summary: One line for the list of commands.
        examples: Lines that a user could type; without one, the command alone.
        description: What it does; without one, the docstring of `act`.
        alias: Another name that is understood; help, manual pages and completion have the first one.
    """
    parser = actions.add_parser(
        name, help=summary, description=description or description_of(act), aliases=[alias] if alias else []
    )
    parser.epilog = example_of(*(examples or (parser.prog,)))
    parser.set_defaults(act=act)
    add_node_options(parser, is_inner=True)
    return parser


def add_group(actions: Actions, name: str, summary: str, description: str, *examples: str) -> Actions:
    """Add a command that has commands of its own; where these are added.

    Args:
        summary: One line for the list of commands.
        description: What they are about.
        examples: Lines that a user could type.
    """
    parser = actions.add_parser(name, help=summary, description=description, epilog=example_of(*examples))
    add_node_options(parser, is_inner=True)
    return parser.add_subparsers(dest=f"{name}_command", metavar="COMMAND", required=True)


@contextmanager
def asked(args: argparse.Namespace) -> Iterator[RpcClient]:
    """A connection to the node that the options name.

    Raises:
        UnreachableError: No node answers there.
        RpcError: It takes no further connections, or speaks another version.
    """
    path = data_dir(args) / CONTROL_SOCKET
    try:
        client = RpcClient(path, "heliograph ctl")
    except UnreachableError as error:
        raise UnreachableError(
            f"no node answers: {error}. Start it, or name its data directory with --data-dir DIR, or its file with "
            "--config FILE"
        ) from error
    with client:
        yield client


def answer_of(args: argparse.Namespace, question: Question[T], timeout_s: float | None = None) -> T:
    """What the node answers that the options name."""
    with asked(args) as node:
        return node.ask(question, timeout_s)


def print_list(args: argparse.Namespace, question: ListQuestion[Any], columns: Sequence[str | TableColumn]) -> int:
    """Print the rows that the node answers; the exit code."""
    with asked(args) as node:
        print_rows(node.rows(question), columns, args.json)
    return 0


def data_dir(args: argparse.Namespace) -> Path:
    """The data directory of the node that the options name.

    Raises:
        UsageError: The file of `--config` cannot be used.
    """
    if args.data_dir is not None:
        return Path(args.data_dir)
    if args.config is None and _ENVIRONMENT not in os.environ:
        return Path(DEFAULT_DATA_DIR).absolute()
    from heliograph.config.loading import load_config  # it takes longer than most requests
    from heliograph.settings.errors import ConfigError

    try:
        return Path(load_config(args.config, os.environ).node.data_dir).absolute()
    except ConfigError as error:
        raise UsageError(f"[{error.code}] {error}") from error
