"""`ctl pipeline`: the pipeline that a node runs beside itself, and the dead letters of it and of all actions."""

import argparse
import json
from operator import itemgetter
from typing import Any

from heliograph.cli.ctl.asking import add_command, add_group, answer_of
from heliograph.cli.ctl.printing import TableColumn, print_json, print_rows, text_of
from heliograph.cli.output import counted
from heliograph.cli.usage import Actions
from heliograph.control.proto_v1 import pipeline as proto
from heliograph.rpc.asks import Question


def _figure(heading: str, name: str) -> TableColumn:
    return TableColumn(heading, lambda row: row.figures.get(name))


_COLUMNS = (
    TableColumn("query", lambda row: row.name),
    "state",
    _figure("batches", "batches"),
    _figure("read", "rows_read"),
    _figure("written", "rows_written"),
    _figure("failed", "rows_failed"),
    _figure("dead letters", "dead_letters"),
    "lag",
    _figure("restarts", "restarts"),
    TableColumn("last error", lambda row: row.last_error.partition("\n")[0]),
)


_LETTERS_S = 60.0
_SPARK_S = 600.0

_COUNTS = (
    TableColumn("rule", lambda row: row["action"] or row["rule"]),
    *(TableColumn(name, itemgetter(name)) for name in ("cause", "waiting", "replayed", "newest")),
    TableColumn("reason of the newest", lambda row: row["reason"].partition("\n")[0]),
)


def add_parser(actions: Actions) -> None:
    """Add `pipeline` and its commands."""
    group = add_group(
        actions,
        "pipeline",
        "show the pipeline of the node, and its dead letters",
        "The pipeline that the node runs (`pipeline.enable`), and the dead letters of all actions, also without one. A "
        "pipeline that runs by itself is shown by `heliograph pipeline status`.",
        "heliograph ctl pipeline status",
    )
    add_command(
        group,
        _status,
        "status",
        "show its driver and queries, and how far they are behind",
        "heliograph ctl pipeline status --json",
    )

    letters = add_group(
        group,
        "dlq",
        "dead letters: what rules and targets refused",
        "The rows of actions and rules that were refused, with the reason. Actions are named TYPE:NAME.",
        "heliograph ctl pipeline dlq ls",
    )
    add_command(letters, _count_letters, "ls", "count them by rule and cause")
    show = add_command(
        letters, _show_letters, "show", "show those of a rule", "heliograph ctl pipeline dlq show http:alarms"
    )
    show.add_argument("--limit", type=int, default=20, metavar="N", help="letters at most, 1 to 1000 (default: 20)")
    show.add_argument("--all", action="store_true", help="those that were replayed, too")
    replay = add_command(
        letters, _replay, "replay", "bring them to their target", "heliograph ctl pipeline dlq replay http:alarms"
    )
    for parser in (show, replay):
        parser.add_argument("rule", metavar="RULE", help="name of the rule or job, or TYPE:NAME of the action")


def _status(args: argparse.Namespace) -> int:
    """Show the driver, the queries, and how many messages each has yet to read. Exit code 1: the driver does not
    run.
    """
    status = answer_of(args, proto.PIPELINE_STATUS())
    if args.json:
        print_json(status)
    elif status.is_enabled:
        driver = "its driver does not run" if status.pid is None else f"driver in process {status.pid}"
        print(f"{text_of(status.file)}: {driver}, {status.restarts:,} restarts, {status.failures:,} failures")
        print(f"log: {text_of(status.log_file)}")
        if status.queries:
            print_rows(status.queries, _COLUMNS, False)
    if status.note and not args.json:
        print(text_of(status.note))
    return 0 if status.pid is not None else 1


def _count_letters(args: argparse.Namespace) -> int:
    """Count dead letters by rule and cause."""
    print_rows(_lines(args, proto.PIPELINE_DEAD_LETTERS(proto.DeadLettersWanted()), _LETTERS_S), _COUNTS, args.json)
    return 0


def _show_letters(args: argparse.Namespace) -> int:
    """Show the dead letters of a rule or action, the newest first."""
    wanted = proto.DeadLettersWanted(args.rule, args.limit, args.all)
    for letter in _lines(args, proto.PIPELINE_DEAD_LETTERS(wanted), _LETTERS_S):
        print(json.dumps(letter) if args.json else _letter_text(letter))
    return 0


def _replay(args: argparse.Namespace) -> int:
    """Bring the rows of dead letters to the target of their action, or run a rule as it is now over them (which starts
    Spark). Letters that are refused again stay.
    """
    for of in _lines(args, proto.PIPELINE_REPLAY(proto.PipelineRule(args.rule)), _SPARK_S):
        rows, kept = counted(of["rows"], "row"), counted(of["kept"], "letter stays", "letters stay")
        print(json.dumps(of) if args.json else f"{counted(of['letters'], 'letter')} replayed, {rows} written, {kept}")
    return 0


def _lines(args: argparse.Namespace, question: Question[proto.PipelineLines], timeout_s: float) -> list[dict[str, Any]]:
    return [json.loads(line) for line in answer_of(args, question, timeout_s).lines]


def _letter_text(of: dict[str, Any]) -> str:
    replayed = f", replayed {of['replayed_at']}" if of["replayed_at"] else ""
    parts = [f"{of['refused_at']}  {of['cause']}: {of['reason']}{replayed}"]
    parts += [f"  {name} {of[name]}" for name in ("topic", "clientid", "payload") if of[name] is not None]
    return "\n".join(text_of(part) for part in parts)
