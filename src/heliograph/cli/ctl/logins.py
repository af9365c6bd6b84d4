"""`ctl logins`: who has to wait since logins failed."""

import argparse

from heliograph.cli.ctl.asking import add_command, add_group, asked
from heliograph.cli.ctl.printing import TableColumn, print_done, print_rows, text_of
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
    listing = add_command(group, "list", "list what waits", "List what has to wait.", "heliograph ctl logins list")
    listing.set_defaults(act=_list)
    lift = add_command(
        group,
        "lift",
        "let an address try again at once",
        "Allow logins from an address at once, and count its failures from 0.",
        "heliograph ctl logins lift 198.51.100.7",
    )
    lift.add_argument("address", metavar="ADDRESS", help="as `list` shows it")
    lift.set_defaults(act=_lift)


def _list(args: argparse.Namespace) -> int:
    columns = (
        "address",
        TableColumn("name", lambda row: row.name or "(all others)"),
        TableColumn("waits", lambda row: f"{row.wait_s:.1f} s"),
    )
    with asked(args) as node:
        print_rows(node.rows(proto.LOGINS_LIST()), columns, args.json)
    return 0


def _lift(args: argparse.Namespace) -> int:
    with asked(args) as node:
        lifted = node.ask(proto.LOGINS_LIFT(proto.LoginAddress(args.address)))
    return print_done(
        lifted, f"logins from {text_of(args.address)} need not wait any more ({lifted.count:,} had to)", args.json
    )
