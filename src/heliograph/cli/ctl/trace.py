"""`ctl trace`: records what happens to a client, a topic or an address, and shows it."""

import argparse
import sys
from typing import Final

import msgspec

from heliograph.cli.ctl.asking import add_command, answer_of, asked
from heliograph.cli.ctl.printing import TableColumn, print_done, print_facts, print_rows, text_of
from heliograph.cli.ctl.status import duration
from heliograph.cli.usage import Actions, example_of
from heliograph.control.proto_v1.trace import (
    TRACE_DELETE,
    TRACE_LIST,
    TRACE_SHOW,
    TRACE_START,
    TRACE_STOP,
    TraceNameArgs,
    TraceShowArgs,
    TraceStartArgs,
)
from heliograph.rpc.client import RpcClient
from heliograph.settings.units import format_size, parse_duration, parse_size
from heliograph.tracing.text import text_of as line_of

_KINDS: Final = ("client", "topic", "ip_address", "rule")
_PAYLOADS: Final = ("hidden", "text", "hex")
_RUNNING: Final = "running"


def add_parser(actions: Actions) -> None:
    """Add `trace` and its actions."""
    parser = actions.add_parser(
        "trace",
        help="record what happens to a client, a topic, an address or a rule",
        description="Record every packet, verdict of a callback, route, delivery and drop of a client, a topic or an "
        "address, in a bounded file below trace/ in the data directory. docs/tracing.md says what each line means.",
        epilog=example_of(
            "heliograph ctl trace start why topic 'room/#' --follow",
            "heliograph ctl trace start c7 client sensor-7 --duration 1h --payload text",
            "heliograph ctl trace start net ip_address 192.0.2.0/24",
            "heliograph ctl trace start hot rule my_rule --payload text",
            "heliograph ctl trace show c7",
        ),
    )
    within = parser.add_subparsers(dest="trace_action", metavar="ACTION", required=True)
    _add_start(within)
    add_command(within, _list, "list", "list the traces that are on, and those whose files are there")
    show = add_command(
        within, _show, "show", "print what a trace has recorded", "heliograph ctl trace show why --follow"
    )
    _add_name(show)
    show.add_argument("--follow", action="store_true", help="go on with what comes, until the trace ends")
    _add_name(add_command(within, _stop, "stop", "end a trace; its file stays", "heliograph ctl trace stop why"))
    _add_name(add_command(within, _delete, "delete", "remove a trace and its file", "heliograph ctl trace delete why"))


def _add_start(within: Actions) -> None:
    start = add_command(
        within,
        _start,
        "start",
        "begin a trace",
        "heliograph ctl trace start why topic 'room/#' --follow",
        "heliograph ctl trace start c7 client sensor-7 --duration 1h --payload text",
        "heliograph ctl trace start net ip_address 192.0.2.0/24 office.jsonl --max-size 100MB",
    )
    _add_name(start)
    start.add_argument("kind", metavar="client|topic|ip_address|rule", choices=_KINDS, help="what it is about")
    start.add_argument(
        "value", metavar="VALUE", help="a client id, a topic filter, an IP address or network, or the id of a rule"
    )
    start.add_argument("file", metavar="FILE", nargs="?", default="", help="the name of its file (default: NAME.jsonl)")
    start.add_argument(
        "--duration", metavar="D", type=_seconds, default=600, help="when it ends, as 30s, 10m or 1h (default: 10m)"
    )
    start.add_argument(
        "--max-size",
        metavar="S",
        type=_bytes,
        default=TraceStartArgs("", "", "").max_size,
        help="how large its file becomes, as 500KB (default: 16MB)",
    )
    start.add_argument(
        "--payload",
        choices=_PAYLOADS,
        default="hidden",
        help="what it shows of payloads, 256 bytes of each (default: hidden)",
    )
    start.add_argument("--follow", action="store_true", help="print what it records until it ends; Ctrl-C ends it")


def _add_name(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", metavar="NAME", help="the name of the trace")


def _start(args: argparse.Namespace) -> int:
    """Begin a trace. It ends after its duration, when its file is as large as it may be, with `trace stop`, and with
    the node. Passwords are never recorded.
    """
    order = TraceStartArgs(args.name, args.kind, args.value, args.file, args.duration, args.max_size, args.payload)
    with asked(args) as node:
        row = node.ask(TRACE_START(order))
        if not args.follow:
            print_facts(row, args.json)
            return 0
        try:
            return _print_lines(node, args.name, follows=True, as_json=args.json)
        except KeyboardInterrupt:
            pass
    row = answer_of(args, TRACE_STOP(TraceNameArgs(args.name)))
    print(f"trace {text_of(row.name)} has ended; its file is {text_of(row.file)}", file=sys.stderr)
    return 0


def _list(args: argparse.Namespace) -> int:
    """List the traces that are on, and those whose files are there."""
    with asked(args) as node:
        rows = sorted(node.rows(TRACE_LIST()), key=lambda row: row.name)
    left = TableColumn("left", lambda row: duration(row.left_s) if row.state == _RUNNING else "")
    size = TableColumn("size", lambda row: format_size(row.size))
    print_rows(rows, ("name", "about", "value", "state", left, size, "dropped", "file"), args.json)
    return 0


def _show(args: argparse.Namespace) -> int:
    """Print what a trace has recorded, a line for each record; with --json the lines of its file as they are."""
    with asked(args) as node:
        return _print_lines(node, args.name, follows=args.follow, as_json=args.json)


def _stop(args: argparse.Namespace) -> int:
    """End a trace; its file stays."""
    print_facts(answer_of(args, TRACE_STOP(TraceNameArgs(args.name))), args.json)
    return 0


def _delete(args: argparse.Namespace) -> int:
    """Remove a trace and its file."""
    deleted = answer_of(args, TRACE_DELETE(TraceNameArgs(args.name)))
    return print_done(deleted, f"trace {text_of(deleted.name)} is deleted", args.json)


def _print_lines(node: RpcClient, name: str, *, follows: bool, as_json: bool) -> int:
    for line in node.rows(TRACE_SHOW(TraceShowArgs(name, follows))):
        print(line if as_json else text_of(line_of(_record(line))), flush=follows)
    return 0


def _record(line: str) -> dict[str, object]:
    try:
        return msgspec.json.decode(line, type=dict[str, object])
    except msgspec.DecodeError:  # a file that something else has written into
        return {"event": "unreadable", "line": line}


def _seconds(text: str) -> int:
    try:
        return round(parse_duration(text))
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{text!r} is no duration: expected one such as 30s, 10m or 1h") from error


def _bytes(text: str) -> int:
    try:
        return parse_size(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{text!r} is no size: expected one such as 500KB or 16MB") from error
