"""`ctl listeners` and `ctl certs`: where clients connect, and with which certificates."""

import argparse

from heliograph.cli.ctl.asking import add_command, add_group, asked
from heliograph.cli.ctl.printing import TableColumn, print_done, print_rows, text_of
from heliograph.cli.usage import Actions, UsageError
from heliograph.control.proto_v1 import listeners as proto
from heliograph.control.proto_v1.conf import (
    CONF_CHANGE,
    CONF_SHOW,
    ConfChangeArgs,
    ConfShowArgs,
)
from heliograph.hocon.writing import key_text

_COLUMNS = (
    TableColumn("listener", lambda row: row.id),
    "address",
    TableColumn("state", lambda row: "listening" if row.is_listening else "stopped"),
    "connections",
    TableColumn("of at most", lambda row: row.max_connections or "no limit"),
    "zone",
    TableColumn("refused", lambda row: row.counts["refused_connections"]),
    TableColumn("broken handshakes", lambda row: row.counts["handshake_failures"]),
)
_CHANGES = {
    "start": proto.LISTENERS_START,
    "stop": proto.LISTENERS_STOP,
    "restart": proto.LISTENERS_RESTART,
}
_DONE = {"start": "accepts connections", "stop": "is stopped", "restart": "has been restarted"}
_SAME = {"start": "accepted connections already", "stop": "was stopped already"}


def add_parser(actions: Actions) -> None:
    """Add `listeners`, `certs` and `pem_cache`."""
    group = add_group(
        actions,
        "listeners",
        "list, start, stop and restart listeners",
        "Where clients connect. What is done here holds until the node starts again; `ctl conf` changes settings.",
        "heliograph ctl listeners list",
    )
    listing = add_command(
        group,
        "list",
        "list them",
        "List the listeners that are enabled, with their connections and what they refused.",
        "heliograph ctl listeners list",
    )
    listing.set_defaults(act=_list)
    _add_action(group, "start", "accept connections again", "Start a listener that was stopped.")
    _add_action(
        group,
        "stop",
        "stop accepting connections",
        "Stop a listener and end its connections. It stays stopped until it, or the node, is started.",
    )
    _add_action(
        group,
        "restart",
        "restart; its connections end",
        "Restart a listener: its certificates are read again, and its connections end.",
    )
    _add_enable(group)
    certs = add_group(
        actions,
        "certs",
        "read certificates again",
        "Certificates and other files that settings name.",
        "heliograph ctl certs reload",
    )
    _add_reload(certs, "reload", "heliograph ctl certs reload")
    cache = add_group(
        actions,
        "pem_cache",
        "the same as certs, as EMQX calls it",
        "Certificates are read again.",
        "heliograph ctl pem_cache clean",
    )
    clean = _add_reload(cache, "clean", "heliograph ctl pem_cache clean")
    clean.add_argument("what", nargs="?", choices=("all",), default="all", help="all of them, which is the default")


def _add_action(group: Actions, name: str, summary: str, description: str) -> None:
    parser = add_command(group, name, summary, description, f"heliograph ctl listeners {name} tcp:default")
    parser.add_argument("id", metavar="KIND:NAME", help="as `listeners list` shows it")
    parser.set_defaults(act=_change, what=name)


def _add_enable(group: Actions) -> None:
    parser = add_command(
        group,
        "enable",
        "have one come or leave, also after the next start",
        "Set `listeners.KIND.NAME.enable`: a listener that is configured comes or leaves, now and at the next start.",
        "heliograph ctl listeners enable tcp:default false",
    )
    parser.add_argument("id", metavar="KIND:NAME", help="as tcp:default")
    parser.add_argument("value", choices=("true", "false"), help="true: it listens; false: it does not")
    parser.set_defaults(act=_enable)


def _add_reload(group: Actions, name: str, example: str) -> argparse.ArgumentParser:
    parser = add_command(
        group,
        name,
        "read certificates again",
        "Read certificates, keys and other files that settings name again. They hold for connections that come from "
        "then on; connections that stand are not touched. If one of them cannot be used, all stays as it was.",
        example,
    )
    parser.set_defaults(act=_reload)
    return parser


def _list(args: argparse.Namespace) -> int:
    with asked(args) as node:
        print_rows(node.rows(proto.LISTENERS_LIST()), _COLUMNS, args.json)
    return 0


def _change(args: argparse.Namespace) -> int:
    with asked(args) as node:
        changed = node.ask(_CHANGES[args.what](proto.ListenerName(args.id)))
    return print_done(
        changed, f"the listener {text_of(changed.id)} {(_DONE if changed.has_changed else _SAME)[args.what]}", args.json
    )


def _enable(args: argparse.Namespace) -> int:
    kind, colon, name = args.id.partition(":")
    if not colon or not kind or not name:
        raise UsageError(f"found {args.id!r}, expected KIND:NAME, such as tcp:default")
    path = ".".join(map(key_text, ("listeners", kind, name)))
    change = ConfChangeArgs(values=((f"{path}.enable", args.value),), comment="ctl listeners enable")
    with asked(args) as node:
        for _ in node.rows(CONF_SHOW(ConfShowArgs(path))):  # refused where it is not configured
            pass
        outcome = node.ask(CONF_CHANGE(change))
    text = f"the listener {text_of(args.id)} is {'enabled' if args.value == 'true' else 'not enabled any more'}"
    return print_done(outcome, text, args.json)


def _reload(args: argparse.Namespace) -> int:
    with asked(args) as node:
        read = node.ask(proto.CERTIFICATES_RELOAD())
    return print_done(
        read, f"certificates were read again; listeners with TLS: {text_of(read.listeners or 'none')}", args.json
    )
