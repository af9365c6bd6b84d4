"""`ctl logins`: who has to wait since logins failed."""

import argparse

from heliograph.cli.ctl.asking import add_command, add_group, answer_of, print_list
from heliograph.cli.ctl.printing import TableColumn, print_done, text_of
from heliograph.cli.usage import Actions
from heliograph.control.proto_v1 import logins as proto


def add_parser(actions: Actions) -> None:
    """Add `logins` and its commands."""
    group = add_group(
        actions,
        "logins",
        "list and lift waits after failed logins",
        "User names and addresses whose logins are refused for a while, since they failed too often "
        "(address_limits.login_backoff).",
        "heliograph ctl logins list",
    )
    add_command(group, _list, "list", "list what waits")
    lift = add_command(
        group, _lift, "lift", "let an address try again at once", "heliograph ctl logins lift 198.51.100.7"
    )
    lift.add_argument("address", metavar="ADDRESS", help="as `list` shows it")


def _list(args: argparse.Namespace) -> int:
    """List what has to wait."""
    columns = (
        "address",
        TableColumn("name", _shown),
        TableColumn("waits", lambda row: f"{row.wait_s:.1f} s"),
    )
    return print_list(args, proto.LOGINS_LIST(), columns)


def _shown(row: proto.WaitingLoginRow) -> str:
    return f"{row.name or '(all others)'}{' (a known device)' if row.is_device else ''}"


def _lift(args: argparse.Namespace) -> int:
    """Allow logins from an address at once, and count its failures from 0."""
    lifted = answer_of(args, proto.LOGINS_LIFT(proto.LoginAddress(args.address)))
    return print_done(
        lifted, f"logins from {text_of(args.address)} need not wait any more ({lifted.count:,} had to)", args.json
    )
