"""`ctl clients`: the clients of a node, connected or away; its columns are `CLIENT` of `control.proto_v1.clients`."""

import argparse
from typing import Final

import msgspec

from heliograph.cli.ctl.asking import add_command, add_group, answer_of, asked
from heliograph.cli.ctl.printing import print_done, print_facts, print_json, print_rows, text_of
from heliograph.cli.ctl.tables import add_table_options, listed_columns, sorted_rows, table_columns
from heliograph.cli.ctl.times import time_of
from heliograph.cli.usage import Actions, UsageError
from heliograph.control.columns import FactKind, In, columns_in
from heliograph.control.proto_v1 import clients as proto

_LISTED: Final = listed_columns(proto.CLIENT)
_DETAILS: Final = columns_in(proto.CLIENT, In.DETAILS)


def add_parser(actions: Actions) -> None:
    """Add `clients` and its commands."""
    group = add_group(
        actions,
        "clients",
        "list, show and kick clients",
        "Clients that have a session, whether they are connected or away.",
        "heliograph ctl clients list --connected --sort mqueue_len",
    )
    _add_list(group)
    show = add_command(
        group, _show, "show", "show everything that is known of a client", "heliograph ctl clients show sensor-17"
    )
    kick = add_command(
        group, _kick, "kick", "end a client's connection and session", "heliograph ctl clients kick sensor-17"
    )
    for parser in (show, kick):
        parser.add_argument("clientid", metavar="ID", help="the client id, as `clients list` shows it")


def _add_list(group: Actions) -> None:
    parser = add_command(
        group,
        _list,
        "list",
        "list clients",
        "heliograph ctl clients list --clientid-like sensor --away",
        "heliograph ctl clients list --min-queue 100 --sort mqueue_len --limit 20",
    )
    parser.add_argument("--clientid-like", metavar="TEXT", default="", help="whose client id has this text in it")
    parser.add_argument("--username", metavar="NAME", help="with this user name")
    parser.add_argument("--username-like", metavar="TEXT", default="", help="whose user name has this text in it")
    parser.add_argument("--ip", metavar="ADDRESS", default="", help="that are connected from this address")
    parser.add_argument("--listener", metavar="KIND:NAME", default="", help="on this listener, such as tcp:default")
    parser.add_argument("--zone", metavar="NAME", default="", help="in this zone")
    state = parser.add_mutually_exclusive_group()
    state.add_argument("--connected", dest="connected", action="store_true", default=None, help="that are connected")
    state.add_argument("--away", dest="connected", action="store_false", default=None, help="that are not connected")
    parser.add_argument("--min-queue", metavar="N", type=int, default=0, help="for which at least N messages wait")
    parser.add_argument(
        "--min-dropped", metavar="N", type=int, default=0, help="for which at least N messages were dropped"
    )
    add_table_options(parser, _LISTED)


def _list(args: argparse.Namespace) -> int:
    """List clients that have a session, connected or away, the newest first. Filters may be combined."""
    columns = table_columns(args, _LISTED)
    for name in ("min_queue", "min_dropped"):
        if getattr(args, name) < 0:
            raise UsageError(f"--{name.replace('_', '-')} is {getattr(args, name)}; 0 or more is valid")
    if args.listener and ":" not in args.listener:
        raise UsageError(f"--listener is {args.listener!r}; valid is KIND:NAME, such as tcp:default")
    wanted = proto.ClientsFilter(
        usernames=None if args.username is None else [args.username],
        clientid_like=args.clientid_like,
        username_like=args.username_like,
        ip=args.ip,
        listener=args.listener,
        zone=args.zone,
        connected=args.connected,
        min_queue=args.min_queue,
        min_dropped=args.min_dropped,
    )
    page = proto.ClientsPage(wanted, limit=0 if args.sort else args.limit)
    with asked(args) as node:
        rows = sorted_rows(node.rows(proto.CLIENTS_LIST(page)), args, _LISTED)
        print_rows(map(_plain, rows) if args.json else rows, columns, args.json)
    return 0


def _show(args: argparse.Namespace) -> int:
    """Show everything that is known of a client. A session that is on the disk only is read for it."""
    found = answer_of(args, proto.CLIENTS_SHOW(proto.ClientId(args.clientid)))
    facts = {name: column.of(found.client) for name, column in _DETAILS.items()}
    facts |= {name: value for name, value in msgspec.structs.asdict(found).items() if name != "client"}
    if args.json:
        print_json(facts)
        return 0
    for name, column in _DETAILS.items():
        if column.kind is FactKind.TIME:
            facts[name] = time_of(facts[name] or 0)
        elif column.kind is FactKind.MAP:
            facts[name] = [f"{key}: {value}" for key, value in facts[name].items()]
    print_facts(facts, as_json=False)
    return 0


def _plain(row: proto.ClientRow) -> dict[str, object]:
    return {name: column.of(row) for name, column in _LISTED.items()}


def _kick(args: argparse.Namespace) -> int:
    """End the connection and the session of a client, whether it is connected or away. Its will is published; a client
    of MQTT 5 is sent DISCONNECT 0x98. It may come back at once, unless it is banned.
    """
    kicked = answer_of(args, proto.CLIENTS_KICK(proto.ClientId(args.clientid)))
    what = "connection and session have" if kicked.was_connected else "session has"
    return print_done(kicked, f"client {text_of(args.clientid)} is kicked: its {what} ended", args.json)
