"""`ctl listeners` and `ctl certs`: where clients connect, and with which certificates."""

import argparse

from heliograph.cli.ctl.asking import add_command, add_group, answer_of, asked, print_list
from heliograph.cli.ctl.printing import TableColumn, print_done, text_of
from heliograph.cli.usage import Actions, UsageError
from heliograph.control.proto_v1 import listeners as proto
from heliograph.control.proto_v1.conf import CONF_CHANGE, CONF_SHOW, ConfChangeArgs, ConfShowArgs
from heliograph.hocon.writing import key_text
from heliograph.rpc.asks import Ask

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


def add_parser(actions: Actions) -> None:
    """Add `listeners`, `certs` and `pem_cache`."""
    group = add_group(
        actions,
        "listeners",
        "list, start, stop and restart listeners",
        "Where clients connect. What is done here holds until the node starts again; `ctl conf` changes settings.",
        "heliograph ctl listeners list",
    )
    add_command(group, _list, "list", "list them")
    for act, name, summary in (
        (_start, "start", "accept connections again"),
        (_stop, "stop", "stop accepting connections"),
        (_restart, "restart", "restart; its connections end"),
    ):
        parser = add_command(group, act, name, summary, f"heliograph ctl listeners {name} tcp:default")
        parser.add_argument("id", metavar="KIND:NAME", help="as `listeners list` shows it")
    _add_enable(group)
    certs = add_group(
        actions,
        "certs",
        "read certificates again",
        "Certificates and other files that settings name.",
        "heliograph ctl certs reload",
    )
    add_command(certs, _reload, "reload", "read certificates again")
    cache = add_group(
        actions,
        "pem_cache",
        "the same as certs, as EMQX calls it",
        "Certificates are read again.",
        "heliograph ctl pem_cache clean",
    )
    clean = add_command(cache, _reload, "clean", "read certificates again")
    clean.add_argument("what", nargs="?", choices=("all",), default="all", help="all of them, which is the default")


def _add_enable(group: Actions) -> None:
    parser = add_command(
        group,
        _enable,
        "enable",
        "have one come or leave, also after the next start",
        "heliograph ctl listeners enable tcp:default false",
    )
    parser.add_argument("id", metavar="KIND:NAME", help="as tcp:default")
    parser.add_argument("value", choices=("true", "false"), help="true: it listens; false: it does not")


def _list(args: argparse.Namespace) -> int:
    """List the listeners that are enabled, with their connections and what they refused."""
    return print_list(args, proto.LISTENERS_LIST(), _COLUMNS)


def _start(args: argparse.Namespace) -> int:
    """Start a listener that was stopped."""
    return _change(args, proto.LISTENERS_START, "accepts connections", "accepted connections already")


def _stop(args: argparse.Namespace) -> int:
    """Stop a listener and end its connections. It stays stopped until it, or the node, is started."""
    return _change(args, proto.LISTENERS_STOP, "is stopped", "was stopped already")


def _restart(args: argparse.Namespace) -> int:
    """Restart a listener: its certificates are read again, and its connections end."""
    return _change(args, proto.LISTENERS_RESTART, "has been restarted")


def _change(
    args: argparse.Namespace, ask: Ask[proto.ListenerName, proto.ListenerChanged], done: str, same: str = ""
) -> int:
    changed = answer_of(args, ask(proto.ListenerName(args.id)))
    sentence = f"the listener {text_of(changed.id)} {done if changed.has_changed else same}"
    return print_done(changed, sentence, args.json)


def _enable(args: argparse.Namespace) -> int:
    """Set `listeners.KIND.NAME.enable`: a listener that is configured comes or leaves, now and at the next start."""
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
    """Read certificates, keys and other files that settings name again. They hold for connections that come from then
    on; connections that stand are not touched. If one of them cannot be used, all stays as it was.
    """
    read = answer_of(args, proto.CERTIFICATES_RELOAD())
    return print_done(
        read, f"certificates were read again; listeners with TLS: {text_of(read.listeners or 'none')}", args.json
    )
