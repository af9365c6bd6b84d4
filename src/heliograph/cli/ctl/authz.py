"""`ctl authz`: the sources of authorization, and why a client may do something or not."""

import argparse
import sys
from pathlib import Path
from typing import Final

from heliograph.cli.ctl.asking import add_command, add_group, answer_of, asked, print_list
from heliograph.cli.ctl.printing import TableColumn, print_done, print_facts, print_json, print_rows, text_of
from heliograph.cli.usage import Actions, UsageError
from heliograph.control.proto_v1 import authorization as proto

_CHANGE: Final = (
    "The configuration is changed as by `ctl conf set`: it holds after the next start too, and sources that stay go on."
)
_SETTINGS: Final = "settings in HOCON, as in a file; or - to read them from standard input, or @FILE from a file"
_PLACES: Final = "front, rear, before:TYPE or after:TYPE"
_DESCRIBING: Final = (
    *("username", "peerhost", "listener", "zone", "cert_common_name", "client_attrs"),
    *("is_superuser", "is_described"),
)


def add_parser(actions: Actions) -> None:
    """Add `authz` and its commands."""
    group = add_group(
        actions,
        "authz",
        "why a client may do something or not; the sources that decide",
        "What clients may publish and subscribe to. It is decided by the superuser flag, the ACL that a client "
        "carries, the sources of authorization.sources in their order, and authorization.no_match.",
        "heliograph ctl authz explain sensor-17 publish weather/17/temp",
        "heliograph ctl authz sources",
    )
    _add_explain(group)
    _add_showing(group)
    _add_changing(group)
    _add_caches(group)


def _add_explain(group: Actions) -> None:
    explain = add_command(
        group,
        _explain,
        "explain",
        "may this client do that, and which rule says so",
        "heliograph ctl authz explain sensor-17 publish weather/17/temp --qos 1",
        "heliograph ctl authz explain new-phone subscribe 'home/alice/#' --username alice --peerhost 10.0.0.7",
    )
    explain.add_argument("clientid", metavar="CLIENT", help="its client id")
    explain.add_argument("action", metavar="ACTION", choices=("publish", "subscribe"), help="publish or subscribe")
    explain.add_argument("topic", metavar="TOPIC", help="the topic, or the filter in quotes")
    explain.add_argument("--qos", type=int, choices=(0, 1, 2), default=0, help="default: 0")
    explain.add_argument("--retain", action="store_true", help="publish with the retain flag")
    who = explain.add_argument_group("a described client")
    who.add_argument("--described", dest="is_described", action="store_true", help="one that has nothing but its id")
    who.add_argument("--username", metavar="NAME", help="its user name")
    who.add_argument("--peerhost", metavar="ADDRESS", default="", help="its address")
    who.add_argument("--listener", metavar="NAME", default="", help="its listener (default: tcp:default)")
    who.add_argument("--zone", metavar="NAME", default="", help="its zone (default: default)")
    who.add_argument("--cn", dest="cert_common_name", metavar="NAME", help="the common name of its certificate")
    who.add_argument(
        "--attr", dest="client_attrs", metavar="NAME=VALUE", action="append", default=[], help="a client attribute"
    )
    who.add_argument("--superuser", dest="is_superuser", action="store_true", help="a superuser")


def _add_showing(group: Actions) -> None:
    add_command(group, _sources, "sources", "list the sources in their order", alias="list")
    add_command(group, _status, "status", "show what holds for all clients")


def _add_changing(group: Actions) -> None:
    add = add_command(
        group,
        _change,
        "add",
        "add a source",
        "heliograph ctl authz add 'type = built_in_database'",
        "heliograph ctl authz add 'type = file, path = \"/etc/heliograph/acl.conf\"' --at rear",
        description=f"Add a source, before all others unless --at says otherwise. {_CHANGE}",
    )
    add.add_argument("--at", dest="position", metavar="PLACE", default="front", help=f"{_PLACES} (default: front)")
    update = add_command(
        group,
        _change,
        "update",
        "give a source other settings",
        "heliograph ctl authz update 'type = file, path = \"/etc/heliograph/acl-2.conf\"'",
        description=f"Give the source of that type these settings and no others; ****** keeps a secret. {_CHANGE}",
    )
    for parser in (add, update):
        parser.add_argument("settings", metavar="SETTINGS", help=_SETTINGS)
    for name, summary in (
        ("delete", "remove a source"),
        ("enable", "enable a source"),
        ("disable", "skip a source"),
    ):
        one = add_command(
            group,
            _change,
            name,
            summary,
            f"heliograph ctl authz {name} file",
            description=f"{summary[0].upper()}{summary[1:]}. {_CHANGE}",
        )
        one.add_argument("type", metavar="TYPE", help="the source, as mysql")
    move = add_command(
        group,
        _change,
        "move",
        "ask a source earlier or later",
        "heliograph ctl authz move file rear",
        "heliograph ctl authz move file before:mysql",
        description=f"Put a source at another place of the order. {_CHANGE}",
    )
    move.add_argument("type", metavar="TYPE", help="the source")
    move.add_argument("position", metavar="PLACE", help=_PLACES)
    order = add_command(
        group,
        _change,
        "order",
        "put all sources in an order",
        "heliograph ctl authz order built_in_database file",
        description=f"Put all sources in an order. {_CHANGE}",
    )
    order.add_argument("types", metavar="TYPE", nargs="+", help="all sources")


def _add_caches(group: Actions) -> None:
    clean = add_command(
        group,
        _clean,
        "cache-clean",
        "forget decisions that are remembered",
        "heliograph ctl authz cache-clean",
        "heliograph ctl authz cache-clean sensor-17",
    )
    clean.add_argument("clientid", metavar="CLIENT", nargs="?", default="", help="a client that is connected (all)")
    recheck = add_command(
        group, _recheck, "recheck", "check the subscriptions of a client now", "heliograph ctl authz recheck sensor-17"
    )
    recheck.add_argument("clientid", metavar="CLIENT", help="a client that is connected")


def _explain(args: argparse.Namespace) -> int:
    """Say whether a client may publish to a topic or subscribe to a filter, which source and rule decide it, and what
    every earlier source said. The client is one that is connected; with --username, --peerhost and their like (or
    --described) it is a described one, which need not exist. Nothing is published, counted or remembered.
    """
    with asked(args) as node:
        found = node.ask(proto.AUTHZ_EXPLAIN(_wanted(args)))
    if args.json:
        print_json(found)
    else:
        _print_explanation(found)
    return 0


def _wanted(args: argparse.Namespace) -> proto.ExplainWanted:
    attrs = {}
    for text in args.client_attrs:
        name, sign, value = text.partition("=")
        if not sign or not name:
            raise UsageError(f"found --attr {text!r}, expected NAME=VALUE, as in --attr tenant=acme")
        attrs[name] = value
    is_described = any(getattr(args, name) for name in _DESCRIBING) or args.username is not None
    return proto.ExplainWanted(
        args.clientid,
        args.action,
        args.topic,
        args.qos,
        args.retain,
        is_described,
        args.username,
        args.peerhost,
        args.listener or "tcp:default",
        args.zone,
        args.cert_common_name,
        attrs,
        args.is_superuser,
    )


def _print_explanation(found: proto.Explanation) -> None:
    details = [found.peerhost or "no address", found.listener, "connected" if found.is_connected else "described"]
    if found.username is not None:
        details.insert(0, f"user {text_of(found.username)}")
    retain = " with the retain flag" if found.retain else ""
    verb = f"{'may' if found.is_allowed else 'may NOT'} {found.action} to"
    print(f"{text_of(found.clientid)} ({', '.join(map(text_of, details))})")
    print(f"{verb} {text_of(found.topic)} at QoS {found.qos}{retain}")
    decided = next(step for step in found.steps if step.source == found.decided_by)
    failed = [step.source for step in found.steps if step.said == "error"]
    print(f"decided by {_decided(decided)}" + (f"; {', '.join(failed)} could not be asked" if failed else ""))
    if not found.is_allowed:
        is_kept = found.deny_action == "ignore"
        print(f"a client that is denied {'keeps its connection' if is_kept else 'is disconnected'}"
              f" (authorization.deny_action = {found.deny_action})")  # fmt: skip
    print()
    columns = (
        TableColumn("asked", lambda step: step.source),
        "said",
        TableColumn("because", lambda step: "; ".join(part for part in (step.rule, step.place, step.why) if part)),
    )
    print_rows(found.steps, columns, as_json=False)


def _decided(step: proto.ExplainedStep) -> str:
    if step.source == "no_match":
        default = step.why or f"authorization.no_match = {step.said}"
        return f"{default}: no source has a rule for it"
    if step.source == "superuser":
        return "the superuser flag"
    rule = f": {text_of(step.rule)}" if step.rule else ""
    return f"{text_of(step.source)}{f' ({text_of(step.place)})' if step.place else ''}{rule}"


def _sources(args: argparse.Namespace) -> int:
    """List the sources in the order in which they are asked, whether they work, and what they counted."""
    columns = (
        *("type", "state", "total", "allow", "deny", "nomatch", "ignore", "error"),
        TableColumn("mean ms", lambda row: None if row.mean_s is None else round(row.mean_s * 1000, 3)),
    )
    return print_list(args, proto.AUTHZ_SOURCES(), columns)


def _status(args: argparse.Namespace) -> int:
    """Show the default decision, whether clients are checked at all, and the cache of backends' answers."""
    status = answer_of(args, proto.AUTHZ_STATUS())
    if args.json:
        print_json(status)
        return 0
    cache = status.node_cache
    facts = {
        "no_match": status.no_match,
        "deny_action": status.deny_action,
        "clients are checked": status.is_checked,
        "answers kept": f"{cache['count']:,} ({cache['memory_bytes']:,} bytes)",
        "answered by them": f"{cache['hit']:,} of {cache['hit'] + cache['miss']:,}",
    }
    print_facts(facts, as_json=False)
    return 0


def _change(args: argparse.Namespace) -> int:
    verb: str = args.authz_command
    text = _text(args.settings) if verb in ("add", "update") else ""
    wanted = proto.SourceChange(
        verb,
        getattr(args, "type", ""),
        text,
        getattr(args, "position", "front"),
        tuple(getattr(args, "types", ())),
    )
    done = answer_of(args, proto.AUTHZ_CHANGE(wanted))
    for part, why in done.failed.items():
        print(f"the part {part} did not take it: {why}; see the log", file=sys.stderr)
    message = f"sources in their order: {', '.join(done.types) or 'none'} (revision {done.revision})"
    print_done(done, message, args.json)
    return 1 if done.failed else 0


def _text(settings: str) -> str:
    if settings == "-":
        return sys.stdin.read()
    if not settings.startswith("@"):
        return settings
    try:
        return Path(settings[1:]).read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{settings[1:]} cannot be read: {error}") from error


def _clean(args: argparse.Namespace) -> int:
    """Forget the decisions and rules that are remembered, of one client or of all; without CLIENT also the answers of
    backends that the node keeps.
    """
    done = answer_of(args, proto.AUTHZ_CACHE_CLEAN(proto.CacheCleaning(args.clientid)))
    if args.clientid:
        text = f"what was remembered of {text_of(done.clientid)} is forgotten"
    else:
        text = f"what was remembered of all clients is forgotten, and {done.answers:,} answers of backends"
    return print_done(done, text, args.json)


def _recheck(args: argparse.Namespace) -> int:
    """Forget what is remembered of a client, and end the subscriptions that it may not have any more."""
    done = answer_of(args, proto.AUTHZ_RECHECK(proto.ClientName(args.clientid)))
    ended = ", ".join(map(text_of, done.removed))
    return print_done(done, f"these subscriptions ended: {ended}" if ended else "all subscriptions stay", args.json)
