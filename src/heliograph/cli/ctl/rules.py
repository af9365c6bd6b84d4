"""`ctl rules`: the rules that run in the broker, and what became of what they matched."""

import argparse

from heliograph.cli.ctl.asking import add_command, add_group, answer_of, print_list
from heliograph.cli.ctl.printing import TableColumn, print_json, text_of
from heliograph.cli.ctl.times import time_of
from heliograph.cli.usage import Actions
from heliograph.control.proto_v1 import rules as proto


def _count(heading: str, name: str) -> TableColumn:
    return TableColumn(heading, lambda row: row.counts[name])


_COLUMNS = (
    "id",
    TableColumn("enabled", lambda row: row.enable),
    _count("matched", "matched"),
    _count("passed", "passed"),
    _count("failed", "failed.exception"),
    _count("no rows", "failed.no_result"),
    _count("actions done", "actions.success"),
    _count("actions pending", "actions.pending"),
    _count("actions failed", "actions.failed"),
    TableColumn("from", lambda row: row.topics),
    TableColumn("last error", lambda row: row.last_error.partition("\n")[0]),
)


def add_parser(actions: Actions) -> None:
    """Add `rules` and its commands."""
    group = add_group(
        actions,
        "rules",
        "list and show rules with their counts",
        "Rules of `rule_engine.rules`. `ctl conf` changes them while the node runs; `heliograph rule` tries one out.",
        "heliograph ctl rules list",
    )
    add_command(group, _list, "list", "list them", "heliograph ctl rules list --json")
    show = add_command(group, _show, "show", "show one", "heliograph ctl rules show my_rule")
    show.add_argument("id", metavar="ID")


def _list(args: argparse.Namespace) -> int:
    """List the rules with their counts since the start, and what the log said of each last."""
    return print_list(args, proto.RULES_LIST(), _COLUMNS)


def _show(args: argparse.Namespace) -> int:
    """Show one with its text, all of its counts, and what the log said of it last."""
    facts = answer_of(args, proto.RULES_SHOW(proto.RuleId(args.id)))
    if args.json:
        print_json(facts)
        return 0
    row = facts.row
    print(f"{text_of(row.id)}: {text_of(facts.description)}" if facts.description else text_of(row.id))
    print(f"  {'enabled' if row.enable else 'not enabled'}{', runs in a thread' if facts.may_block else ''}")
    for line in facts.sql.strip().splitlines():
        print(f"    {text_of(line)}")
    print(f"  actions: {text_of(facts.actions)}")
    for name, count in row.counts.items():
        print(f"  {name:<29} {count:,}")
    if row.last_error:
        print(f"  last error, at {time_of(row.last_error_at)}:")
        for line in row.last_error.splitlines():
            print(f"    {text_of(line)}")
    return 0
