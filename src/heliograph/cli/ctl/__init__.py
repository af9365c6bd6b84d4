"""`heliograph ctl`: asks a running node over the control socket of its data directory.

Each group of commands has a module with `add_parser(actions)`, which sets `act`: a function from the parsed arguments
to an exit code.
"""

import argparse
import importlib
import sys
from typing import Final

from heliograph.cli.ctl.printing import text_of
from heliograph.cli.usage import Actions, UsageError, add_node_options, example_of
from heliograph.rpc.conversation import UnreachableError
from heliograph.rpc.methods import RpcError

FAILED: Final = 1
UNREACHABLE: Final = 3

# Modules of this package, in the order in which help lists their commands.
_GROUPS: Final = (
    "status",
    "broker",
    "clients",
    "subscriptions",
    "topics",
    "authn",
    "banned",
    "logins",
    "acl",
    "authz",
    "users",
    "admins",
    "api_keys",
    "conf",
    "data",
    "listeners",
    "retainer",
    "delayed",
    "rules",
    "integrations",
    "alarms",
    "log",
    "pipeline",
    "ds",
    "vm",
    "olp",
    "message",
    "trace",
)


def add_parser(subparsers: Actions) -> None:
    """Add `ctl` and its commands to the command line."""
    parser = subparsers.add_parser(
        "ctl",
        help="ask a running node, and change what it does",
        description="Ask a running node over the control socket in its data directory. Exit codes: 0 done, 1 refused "
        "or failed, 2 wrong arguments, 3 no node answers.",
        epilog=example_of("heliograph ctl status --data-dir /var/lib/heliograph"),
    )
    add_node_options(parser)
    actions = parser.add_subparsers(dest="ctl_command", metavar="COMMAND", required=True)
    for group in _GROUPS:
        importlib.import_module(f"heliograph.cli.ctl.{group}").add_parser(actions)


def run(args: argparse.Namespace) -> int:
    """Carry out a command; the exit code."""
    try:
        code: int = args.act(args)
    except UnreachableError as error:
        return _fail("ctl_unreachable", str(error), UNREACHABLE)
    except RpcError as error:
        return _fail(error.code, error.message, FAILED)
    except UsageError as error:
        return _fail("ctl_usage", str(error), 2)
    except KeyboardInterrupt:
        return 130
    return code


def _fail(code: str, message: str, exit_code: int) -> int:
    shown = "\n".join(line and text_of(line) for line in message.split("\n"))  # it may name what clients have chosen
    print(f"heliograph: [{code}] {shown}", file=sys.stderr)
    return exit_code
