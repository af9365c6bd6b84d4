"""`ctl authn`: the authenticators of a running node."""

import argparse
import sys
from functools import partial
from typing import Final

from heliograph.cli.ctl.asking import add_command, add_group, answer_of, print_list
from heliograph.cli.ctl.printing import TableColumn, print_done, print_json, print_rows
from heliograph.cli.usage import Actions
from heliograph.control.proto_v1 import authn as proto

_EXAMPLE: Final = "heliograph ctl authn add '{ mechanism = jwt, secret = \"file:///run/secrets/jwt\" }'"


def _count(name: str, row: proto.AuthnRow) -> object:
    return row.counts.get(name)


_COUNTS: Final = ("total", "success", "failed", "nomatch", "ignored", "error")
_COLUMNS: Final[tuple[str | TableColumn, ...]] = (
    "chain",
    "id",
    "state",
    *(TableColumn(name, partial(_count, name)) for name in _COUNTS),
)


def add_parser(actions: Actions) -> None:
    """Add `authn` and its commands."""
    group = add_group(
        actions,
        "authn",
        "list, add, change and delete authenticators",
        "Who clients are: the authenticators that are asked about them, one after the other. What is done here is a "
        "change of the configuration: it holds at once, also after the next start; what the node's file, the "
        "environment or the command line sets cannot be changed here. docs/authentication.md says more.",
        "heliograph ctl authn list",
        _EXAMPLE,
    )
    _add_showing(group)
    _add_changing(group)


def _add_showing(group: Actions) -> None:
    add_command(group, _list, "list", "list them")
    show = add_command(group, _show, "show", "print the settings of one", "heliograph ctl authn show jwt")
    status = add_command(
        group,
        _status,
        "status",
        "print how one is",
        "heliograph ctl authn status password_based:http --listener tcp:default",
    )
    for parser in (show, status):
        _add_id(parser)


def _add_changing(group: Actions) -> None:
    add = add_command(
        group,
        _add,
        "add",
        "add one at the end of the chain",
        _EXAMPLE,
        "heliograph ctl authn add - < http.hocon",
        description="Add an authenticator at the end of the chain.",
    )
    add.set_defaults(id="")
    update = add_command(
        group,
        _add,
        "update",
        "change the settings of one",
        "heliograph ctl authn update jwt '{ mechanism = jwt, secret = \"******\", from = username }'",
        description="Replace the settings of an authenticator. ****** keeps a secret as it is.",
    )
    _add_id(update)
    for parser in (add, update):
        parser.add_argument("settings", metavar="SETTINGS", help="as in a file (HOCON), or - for standard input")
    for name, summary, description in (
        (
            "delete",
            "delete one",
            "Take an authenticator out of its chain; users of a built-in database go with it.",
        ),
        ("enable", "enable one", "Enable an authenticator."),
        ("disable", "disable one", "Disable an authenticator; its settings and users stay."),
    ):
        one = add_command(group, _change, name, summary, f"heliograph ctl authn {name} jwt", description=description)
        _add_id(one)
    move = add_command(
        group,
        _move,
        "move",
        "give one another place",
        "heliograph ctl authn move jwt front",
        "heliograph ctl authn move jwt before:password_based:mysql",
    )
    _add_id(move)
    move.add_argument("position", metavar="PLACE", help="front, rear, before:ID or after:ID")
    order = add_command(
        group,
        _order,
        "order",
        "bring all into another order",
        "heliograph ctl authn order jwt password_based:built_in_database",
    )
    order.add_argument("ids", metavar="ID", nargs="+", help="all of them")
    for parser in (add, order):
        _add_listener(parser)


def _add_id(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("id", metavar="ID", help="mechanism and backend, as password_based:mysql or jwt")
    _add_listener(parser)


def _add_listener(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--listener", metavar="KIND:NAME", default="", help="the own chain of this listener, as tcp:default"
    )


def _list(args: argparse.Namespace) -> int:
    """List all authenticators in their order, with counts."""
    return print_list(args, proto.AUTHN_LIST(), _COLUMNS)


def _show(args: argparse.Namespace) -> int:
    """Print the settings of an authenticator, with stars for secrets; `update` takes them back."""
    shown = answer_of(args, proto.AUTHN_SHOW(proto.AuthnName(args.id, args.listener)))
    if args.json:
        print_json(shown)
    else:
        print(shown.text)
    return 0


def _status(args: argparse.Namespace) -> int:
    """Print the state and the counts of an authenticator."""
    row = answer_of(args, proto.AUTHN_STATUS(proto.AuthnName(args.id, args.listener)))
    print_rows([row], _COLUMNS, args.json)
    return 0


_CHANGES = {
    "delete": proto.AUTHN_DELETE,
    "enable": proto.AUTHN_ENABLE,
    "disable": proto.AUTHN_DISABLE,
}


def _add(args: argparse.Namespace) -> int:
    text = sys.stdin.read() if args.settings == "-" else args.settings
    ask = proto.AUTHN_UPDATE if args.id else proto.AUTHN_ADD
    changed = answer_of(args, ask(proto.AuthnSettings(text, args.listener, args.id)))
    return _done(changed, args)


def _change(args: argparse.Namespace) -> int:
    name = proto.AuthnName(args.id, args.listener)
    changed = answer_of(args, _CHANGES[args.authn_command](name))
    return _done(changed, args)


def _move(args: argparse.Namespace) -> int:
    """Give an authenticator another place in its chain."""
    moved = proto.AuthnMove(args.id, args.position, args.listener)
    changed = answer_of(args, proto.AUTHN_MOVE(moved))
    return _done(changed, args)


def _order(args: argparse.Namespace) -> int:
    """Bring all authenticators of a chain into another order."""
    wanted = proto.AuthnOrder(tuple(args.ids), args.listener)
    changed = answer_of(args, proto.AUTHN_ORDER(wanted))
    return _done(changed, args)


def _done(changed: proto.AuthnChanged, args: argparse.Namespace) -> int:
    nothing = "none: " + ("every client is let in" if changed.chain == "global" else "the global chain holds for it")
    there = ", ".join(changed.ids) or nothing
    return print_done(changed, f"revision {changed.revision}: the {changed.chain} chain has {there}", args.json)
