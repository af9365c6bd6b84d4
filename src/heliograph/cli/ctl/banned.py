"""`ctl banned`: who may not connect to a node."""

import argparse
from datetime import UTC, datetime
from typing import Final

from heliograph.cli.ctl.asking import add_command, add_group, answer_of, print_list
from heliograph.cli.ctl.printing import TableColumn, print_done, print_rows, text_of
from heliograph.cli.ctl.times import time_of
from heliograph.cli.output import counted
from heliograph.cli.usage import Actions, UsageError
from heliograph.control.proto_v1 import bans as proto

_SECOND_US: Final = 1_000_000
_KINDS: Final = ("clientid", "username", "peerhost", "clientid_re", "username_re", "peerhost_net")
_KIND_HELP: Final = (
    "what WHO is: clientid, username, peerhost (an address), clientid_re or username_re (regular expressions), or "
    "peerhost_net (a network, as 10.0.0.0/8)"
)
_COLUMNS: Final = (
    TableColumn("as", lambda row: row.kind),
    "who",
    TableColumn("until", lambda row: time_of(row.until * _SECOND_US) if row.until else "for ever"),
    TableColumn("since", lambda row: time_of(row.at * _SECOND_US)),
    "by",
    "reason",
)


def add_parser(actions: Actions) -> None:
    """Add `banned` and its commands."""
    group = add_group(
        actions,
        "banned",
        "list, show, make and lift bans",
        "Clients, users and addresses that may not connect. Bans that are made here outlast a restart of the node; "
        "those of banned.bootstrap_file come back with it.",
        "heliograph ctl banned add clientid sensor-17 --for 1h --reason 'floods'",
    )
    listing = add_command(group, _list, "list", "list bans")
    listing.add_argument("--limit", metavar="N", type=int, default=0, help="at most so many")
    show = add_command(group, _show, "show", "show a ban", "heliograph ctl banned show clientid sensor-17")
    add = add_command(
        group,
        _add,
        "add",
        "make a ban",
        "heliograph ctl banned add clientid sensor-17 --for 1h --reason 'floods'",
        "heliograph ctl banned add peerhost_net 198.51.100.0/24 --until 2030-01-01T00:00:00Z",
    )
    add.add_argument("--reason", metavar="TEXT", default="", help="why")
    add.add_argument("--by", metavar="NAME", default="", help="who decided it; default: the user who runs the command")
    end = add.add_mutually_exclusive_group()
    end.add_argument("--until", metavar="TIME", type=_time, help="as 2030-01-31T12:00:00Z, or seconds since the epoch")
    end.add_argument(
        "--for", dest="for_s", metavar="DURATION", type=_duration, help="as 90s, 1h or 7d; default: for ever"
    )
    delete = add_command(
        group, _delete, "delete", "lift a ban", "heliograph ctl banned delete clientid sensor-17", alias="del"
    )
    for parser in (show, add, delete):
        parser.add_argument("kind", metavar="AS", choices=_KINDS, help=_KIND_HELP)
        parser.add_argument("who", metavar="WHO", help="whom")
    clear = add_command(
        group,
        _clear,
        "clear",
        "lift all bans",
        "heliograph ctl banned clear",
        "heliograph ctl banned clear --by 'flapping detector'",
    )
    for parser in (listing, clear):
        parser.add_argument("--as", dest="kind", choices=_KINDS, default="", help="of this kind")
        parser.add_argument("--by", metavar="NAME", default="", help="that this one decided, as 'flapping detector'")


def _list(args: argparse.Namespace) -> int:
    """List the bans that hold."""
    if args.limit < 0:
        raise UsageError(f"--limit is {args.limit}; 0 or more is valid")
    return print_list(args, proto.BANNED_LIST(proto.BansWanted(args.kind, args.limit, args.by)), _COLUMNS)


def _show(args: argparse.Namespace) -> int:
    """Show a ban."""
    print_rows([answer_of(args, proto.BANNED_SHOW(proto.BanName(args.kind, args.who)))], _COLUMNS, args.json)
    return 0


def _add(args: argparse.Namespace) -> int:
    """Make a ban. A client that is banned by its id is kicked: its connection and its session end. Clients that are
    banned otherwise stay connected until they leave; `clients kick` ends them.
    """
    wanted = proto.NewBan(args.kind, args.who, args.reason, args.by, args.until, args.for_s)
    banned = answer_of(args, proto.BANNED_ADD(wanted))
    until = f"until {time_of(banned.ban.until * _SECOND_US)}" if banned.ban.until else "for ever"
    kicked = "; it was kicked" if banned.was_kicked else ""
    return print_done(banned, f"{banned.ban.kind} {text_of(banned.ban.who)} is banned {until}{kicked}", args.json)


def _delete(args: argparse.Namespace) -> int:
    """Lift a ban. One of banned.bootstrap_file comes back when the file is read again."""
    ban = answer_of(args, proto.BANNED_DELETE(proto.BanName(args.kind, args.who)))
    return print_done(ban, f"{ban.kind} {text_of(ban.who)} is not banned any more", args.json)


def _clear(args: argparse.Namespace) -> int:
    """Lift all bans. Those of banned.bootstrap_file come back when the file is read again."""
    cleared = answer_of(args, proto.BANNED_CLEAR(proto.BansWanted(args.kind, by=args.by)))
    return print_done(cleared, f"{counted(cleared.count, 'ban is', 'bans are')} lifted", args.json)


def _time(text: str) -> int:
    try:
        moment = datetime.fromisoformat(text) if not text.isdecimal() else datetime.fromtimestamp(int(text), UTC)
    except (ValueError, OverflowError):
        raise argparse.ArgumentTypeError(f"{text!r} is no time such as 2030-01-31T12:00:00Z") from None
    return int((moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)).timestamp())


def _duration(text: str) -> int:
    from heliograph.settings.units import parse_duration

    try:
        seconds = int(parse_duration(text))
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is no duration such as 90s, 1h or 7d") from None
    if seconds <= 0:
        raise argparse.ArgumentTypeError(f"{text!r} is shorter than a second")
    return seconds
