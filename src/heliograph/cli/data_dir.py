"""Options and error messages that the commands on a node's data directory share."""

import argparse
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Final

from heliograph.cli.output import is_output_closed
from heliograph.cli.usage import Actions, add_node_options, description_of
from heliograph.config.loading import load_config
from heliograph.config.settings import Config
from heliograph.settings.errors import ConfigError
from heliograph.storage.errors import StorageError
from heliograph.storage.repair.message_database import StorageInUseError

_WHILE_IT_RUNS: Final = (
    "Stop the node for this; while it runs, `heliograph ctl ds info` shows its databases and `heliograph ctl retainer` "
    "its retained messages"
)


def add_action(
    actions: Actions,
    act: Callable[..., int],
    name: str,
    summary: str,
    epilog: str | None = None,
) -> argparse.ArgumentParser:
    """Add an action on a data directory, with the options that say which one; the docstring of `act` describes it."""
    parser = actions.add_parser(name, help=summary, description=description_of(act), epilog=epilog)
    parser.set_defaults(act=act)
    add_node_options(parser)
    return parser


def run_in_data_dir(args: argparse.Namespace, act: Callable[[Path], int]) -> int:
    """Carry out an action on the data directory that its options say; the exit code."""
    return run_with_config(args, lambda config: act(Path(config.node.data_dir)))


def run_with_config(args: argparse.Namespace, act: Callable[[Config], int]) -> int:
    """The same for an action that needs more of the node's configuration."""
    overrides = {} if args.data_dir is None else {"node.data_dir": args.data_dir}
    try:
        return act(load_config(args.config, os.environ, overrides))
    except StorageInUseError as error:
        print(f"heliograph: [{error.code}] {error}. {_WHILE_IT_RUNS}", file=sys.stderr)
        return 1
    except (ConfigError, StorageError) as error:
        print(f"heliograph: [{error.code}] {error}", file=sys.stderr)
        return 1
    except OSError as error:
        if is_output_closed(error):
            raise
        print(f"heliograph: [{StorageError.code}] {error}", file=sys.stderr)
        return 1
