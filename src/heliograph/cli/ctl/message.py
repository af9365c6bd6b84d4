"""`ctl message`: what became of messages, as far as the node recorded it."""

import argparse
import sys
import time
from typing import Final

from heliograph.cli.ctl.asking import add_command, add_group, answer_of, asked
from heliograph.cli.ctl.printing import TableColumn, print_json, print_rows, text_of
from heliograph.cli.ctl.times import time_of
from heliograph.cli.usage import Actions, UsageError
from heliograph.control.proto_v1.message_ways import (
    MESSAGE_WAYS_LIST,
    MESSAGE_WAYS_SHOW,
    MESSAGE_WAYS_STATE,
    MessageWay,
    WayReceiver,
    WaysState,
    WaysWanted,
    WayWanted,
)
from heliograph.settings.units import parse_duration

_COLUMNS: Final = ("message_id", "topic", "clientid", "qos", "outcome", "why")


def add_parser(actions: Actions) -> None:
    """Add `message` and its commands."""
    within = add_group(
        actions,
        "message",
        "what became of a message, and why it did not arrive",
        "What became of messages: who published them, what hooks and rules said, where they were stored, and what "
        "became of them at each receiver. The node records it while diagnose.messages.enable is true; "
        "docs/message_ways.md.",
        "heliograph ctl message explain --topic 'room/#' --since 10m",
    )
    explain = add_command(
        within,
        _explain,
        "explain",
        "tell what became of a message, or list those that were recorded",
        "heliograph ctl message explain 00065e0b1a2c3d4e0001000000070003",
        "heliograph ctl message explain 00065e0b1a2c3d4e0001000000070003 --client lamp-4",
        "heliograph ctl message explain --topic 'room/#' --since 10m",
        "heliograph ctl message explain --client lamp-4 --limit 20",
        "heliograph ctl message explain --outcome dropped --since 1h",
    )
    explain.add_argument("message_id", metavar="ID", nargs="?", default="", help="the id of a message, 32 digits")
    explain.add_argument("--topic", metavar="FILTER", default="", help="list those to topics that match")
    explain.add_argument(
        "--client", metavar="CLIENTID", default="", help="list those that it published or should have received"
    )
    explain.add_argument("--since", metavar="D", default="", help="list those of the last 30s, 10m or 2h")
    explain.add_argument(
        "--outcome",
        metavar="NAME",
        dest="outcomes",
        action="append",
        default=[],
        help="list those with this outcome, as waiting, or `dropped` for all that a client does not get; repeatable",
    )
    explain.add_argument("--reason", metavar="WORD", default="", help="list those dropped for this reason: queue_full")
    explain.add_argument("--limit", metavar="N", type=int, default=50, help="list so many at most (default: 50)")


def _explain(args: argparse.Namespace) -> int:
    """With a message id, tell its way. Without, list the recorded messages, the newest first, with what became of each.
    With an id and --client, also say why that client did not get it.
    """
    if not args.message_id:
        return _list(args)
    way = answer_of(args, MESSAGE_WAYS_SHOW(WayWanted(args.message_id.lower(), args.client)))
    if args.json:
        print_json(way)
    else:
        _print_way(way)
    return 0


def _list(args: argparse.Namespace) -> int:
    since_us = 0
    if args.since:
        try:
            since_us = int((time.time() - parse_duration(args.since)) * 1e6)
        except ValueError as error:
            raise UsageError(f"--since {args.since!r}: {error}") from None
    with asked(args) as node:
        wanted = WaysWanted(args.topic, args.client, since_us, "", args.limit, tuple(args.outcomes), args.reason)
        rows = node.rows(MESSAGE_WAYS_LIST(wanted))
        at = TableColumn("at", lambda row: time_of(row.at_us))
        count = print_rows(rows, (at, *_COLUMNS), args.json)
        if not count and not args.json:
            _tell_nothing(node.ask(MESSAGE_WAYS_STATE()))
    return 0


def _tell_nothing(state: WaysState) -> None:
    if not state.is_recording:
        print("nothing is recorded: `heliograph ctl conf set diagnose.messages.enable true`", file=sys.stderr)
    else:
        topics = ", ".join(state.topics)
        print(f"no recorded message is one of these; recorded are messages to {topics}", file=sys.stderr)


def _print_way(way: MessageWay) -> None:
    retained = ", retained" if way.retain else ""
    print(f"message   {way.message_id}")
    print(f"topic     {text_of(way.topic)}")
    print(f"published {time_of(way.at_us)} by {text_of(way.clientid) or 'the broker'} at QoS {way.qos}{retained}")
    if way.made_by:
        print(f"made by   the rule {', '.join(text_of(one) for one in way.made_by)}")
    print(f"outcome   {text_of(way.summary)}")
    if way.retained:
        print(f"retained  {way.retained}")
    if way.later:
        print(f"later     message {way.later}")
    if way.asked:
        print(f"asked     {text_of(way.asked)}")
    if not way.is_begun:
        print("its PUBLISH was not recorded: what follows is what came later")
    print()
    for step in way.steps:
        who = f" {text_of(step.who)}:" if step.who else ""
        print(f"{_after(step.after_us):>11}  {step.stage:<8}{who} {text_of(step.text)}")
    for one in way.receivers:
        print(f"{_after(_first(one)):>11}  receiver {text_of(one.clientid)}: {_receiver(one)}")
    if way.left_out:
        print(f"{way.left_out} further steps were left out")


def _first(one: WayReceiver) -> int:
    times = (one.queued_after_us, one.sent_after_us, one.dropped_after_us, one.acknowledged_after_us)
    return min((at for at in times if at >= 0), default=0)


def _receiver(one: WayReceiver) -> str:
    parts = [f"{one.state.replace('_', ' ')} ({text_of(one.topic_filter)}, QoS {one.qos})"]
    if one.reason:
        parts = [f"dropped, {one.reason}"]
    if one.why:
        parts.append(text_of(one.why))
    if one.queued_after_us >= 0 and one.sent_after_us >= 0:
        parts.append(f"waited {_after(one.sent_after_us - one.queued_after_us).removeprefix('+')}")
    if one.acknowledged_after_us >= 0 and one.sent_after_us >= 0:
        parts.append(f"acknowledged after {_after(one.acknowledged_after_us - one.sent_after_us).removeprefix('+')}")
    if one.sent_count > 1:
        parts.append(f"sent {one.sent_count} times")
    return "; ".join(parts)


def _after(microseconds: int) -> str:
    if microseconds < 1_000_000:
        return f"+{microseconds / 1000:.3f} ms"
    return f"+{microseconds / 1_000_000:.3f} s"
