"""`ctl connectors`, `actions` and `sources`: where rows of rules go, where messages come from, and changes of it."""

import argparse
import json
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from heliograph.cli.ctl.asking import Act, add_command, add_group, answer_of, asked, print_list
from heliograph.cli.ctl.printing import TableColumn, print_done, print_facts, print_json, text_of
from heliograph.cli.usage import Actions
from heliograph.control.proto_v1 import actions as proto
from heliograph.control.proto_v1.groups import GroupRemoval, GroupSettings, GroupSwitch, NamedGroup
from heliograph.rpc.client import RpcClient
from heliograph.rpc.methods import RpcError

_Row: TypeAlias = proto.ConnectorRow | proto.ActionRow | proto.SourceRow

_TEST_S: Final = 60.0


@dataclass(frozen=True)
class _Integration:
    """One of the groups of commands.

    Attributes:
        word: The word for one.
        example: The id and the settings of one.
        columns: Of the list, between what all have.
        dependents: What the deletion of one can take with it.
    """

    asks: "proto.IntegrationAsks[Any]"
    word: str
    about: str
    example: tuple[str, str]
    columns: tuple[str | TableColumn, ...]
    dependents: str

    @property
    def a_word(self) -> str:
        return f"{'an' if self.word[0] in 'aeiou' else 'a'} {self.word}"


def _id(row: _Row) -> str:
    return f"{row.type}:{row.name}"


def _count(heading: str, name: str) -> TableColumn:
    return TableColumn(heading, lambda row: row.counts[name])


_CONNECTORS: Final = _Integration(
    proto.CONNECTORS,
    "connector",
    "Servers and places to which actions bring the rows of rules, and of which sources take messages.",
    ("http:alarms", 'url = "https://example.org"'),
    (TableColumn("actions", lambda row: row.actions), TableColumn("sources", lambda row: row.sources)),
    "its sources, and its actions, which are taken out of the rules that name them",
)
_ACTIONS: Final = _Integration(
    proto.ACTIONS,
    "action",
    "What is done with the rows of the rules that name an action.",
    ("http:tell", "connector = alarms"),
    (
        "connector",
        TableColumn("rules", lambda row: row.rules),
        _count("success", "success"),
        _count("failed", "failed"),
        _count("waiting", "queuing"),
    ),
    "what names it: the action is taken out of the rules",
)
_SOURCES: Final = _Integration(
    proto.SOURCES,
    "source",
    "Where messages come in from.",
    ("mqtt:plant", 'connector = hub, parameters.topic = "plant/#", local.topic = "plant/${topic}"'),
    (
        "connector",
        TableColumn("rules", lambda row: row.rules),
        _count("received", "received"),
        _count("dropped", "dropped"),
    ),
    "where rules read it, which then get nothing of it",
)


def add_parser(actions: Actions) -> None:
    """Add `connectors`, `actions` and `sources`, and their commands."""
    _add_group(actions, _CONNECTORS)
    for kind, reset in ((_ACTIONS, proto.ACTIONS_RESET), (_SOURCES, proto.SOURCES_RESET)):
        group = _add_group(actions, kind)
        for act, name, summary in (
            (_metrics, "metrics", "show all counts and rates of one"),
            (_reset, "reset", "count from zero for one"),
        ):
            example = f"heliograph ctl {kind.asks.area} {name} {kind.example[0]}"
            parser = add_command(group, act, name, summary, example)
            parser.set_defaults(kind=kind, reset=reset)
            _add_id(parser, kind)


def _add_group(actions: Actions, kind: _Integration) -> Actions:
    area = kind.asks.area
    one, settings = kind.example
    group = add_group(
        actions,
        area,
        f"list, test, start and change {area}",
        f"{kind.about} Changes are changes of the configuration, as by `ctl conf`: they hold at once, also after the "
        "next start; what the node's file, the environment or the command line sets cannot be changed here. "
        f"docs/{'sources' if area == 'sources' else 'actions'}.md says more.",
        f"heliograph ctl {area} list",
        f"heliograph ctl {area} create {one} '{settings}'",
    )

    def add(
        act: Act, name: str, summary: str, example: str = "", description: str = "", alias: str = ""
    ) -> argparse.ArgumentParser:
        command = f"heliograph ctl {area} {name}{example and ' '}{example}"
        parser = add_command(group, act, name, summary, command, description=description, alias=alias)
        parser.set_defaults(kind=kind)
        return parser

    add(_list, "list", "list them with their status", description=f"List the {area}.", alias="summary")
    add(_types, "types", "list the types", description=f"List the types of {area}.")
    by_id = [
        add(_show, "show", "show one with its status and settings", one),
        add(_start, "start", "connect now", one, alias="restart"),
        add(_switch, "enable", "enable one", one, f"Enable {kind.a_word}."),
        add(_switch, "disable", "disable one; its settings stay", one, f"Disable {kind.a_word}; its settings stay."),
    ]
    delete = add(_delete, "delete", "delete one", one, f"Delete {kind.a_word}.")
    delete.add_argument("--with-dependents", action="store_true", help=f"also {kind.dependents}")
    create = add(_create, "create", "create one", f"{one} '{settings}'", f"Create {kind.a_word}.")
    update = add(
        _update,
        "update",
        "change the settings of one",
        f"{one} '{settings}'",
        f"Replace the settings of {kind.a_word}; what `show` prints can be sent back. ****** keeps a secret as it is.",
    )
    test = add(_test, "test", "test the connection; nothing is written", one, alias="probe")
    for parser in (*by_id, delete, create, update, test):
        _add_id(parser, kind)
    for parser in (create, update):
        parser.add_argument("settings", metavar="SETTINGS", help="as in a file (HOCON), or - for standard input")
    test.add_argument(
        "settings",
        metavar="SETTINGS",
        nargs="?",
        help="others than it has, as in a file (HOCON), or - for standard input",
    )
    return group


def _add_id(parser: argparse.ArgumentParser, kind: _Integration) -> None:
    parser.add_argument("id", metavar="TYPE:NAME", help=f"as {kind.example[0]}")


def _list(args: argparse.Namespace) -> int:
    kind: _Integration = args.kind
    columns = (
        TableColumn(kind.word, _id),
        TableColumn("enabled", lambda row: row.is_enabled),
        "status",
        *kind.columns,
        "reason",
    )
    return print_list(args, kind.asks.list(), columns)


def _types(args: argparse.Namespace) -> int:
    # The settings take longer to load than most commands.
    from heliograph.config.actions.roots import ACTION_TYPES, CONNECTOR_TYPES
    from heliograph.config.sources.roots import SOURCE_TYPES

    types = {_SOURCES.word: SOURCE_TYPES, _CONNECTORS.word: CONNECTOR_TYPES}.get(args.kind.word, ACTION_TYPES)
    if args.json:
        print_json(types)
    else:
        print("\n".join(types))
    return 0


def _show(args: argparse.Namespace) -> int:
    """Show one: its status with the reason, what uses it, and the settings that it was given, with stars for secrets.

    The settings of all that it was not given are in `ctl conf show`. What is printed can be sent back with `update`.
    """
    asks = args.kind.asks
    with asked(args) as node:
        row, shown = _row(node, args), node.ask(asks.show(NamedGroup(args.id)))
    settings = json.loads(shown.text)
    if args.json:
        print_json({**_facts(row), "settings": settings})
        return 0
    for name, value in _facts(row).items():
        print(f"# {name.replace('_', ' '):<10}  {text_of(value)}")
    print(json.dumps(settings, indent=2, ensure_ascii=False))
    return 0


def _facts(row: _Row) -> dict[str, object]:
    facts: dict[str, object] = {"id": _id(row), "enabled": row.is_enabled, "status": row.status, "reason": row.reason}
    if isinstance(row, proto.ConnectorRow):
        return {**facts, "actions": row.actions, "sources": row.sources}
    if isinstance(row, proto.SourceRow) and row.last_error:
        facts["last_error"] = row.last_error
    return {**facts, "connector": row.connector, "rules": row.rules}


def _metrics(args: argparse.Namespace) -> int:
    """Show what is counted of one since the node started, or since its reset, and its rates in a second."""
    with asked(args) as node:
        row: proto.ActionRow | proto.SourceRow = _row(node, args)
    print_facts({**row.counts, **row.rates}, args.json)
    return 0


def _reset(args: argparse.Namespace) -> int:
    """Count from zero for one; what the engine of an action says of lags stays."""
    row = answer_of(args, args.reset(NamedGroup(args.id)))
    return print_done(row, f"the {args.kind.word} {text_of(_id(row))} counts from zero", args.json)


def _start(args: argparse.Namespace) -> int:
    """Connect now, and start again at once what waits after a failure. Exit code 1: it is not connected."""
    kind: _Integration = args.kind
    row = answer_of(args, kind.asks.start(NamedGroup(args.id)), _TEST_S)
    why = f": {text_of(row.reason)}" if row.reason else ""
    print_done(row, f"the {kind.word} {text_of(args.id)} is {row.status}{why}", args.json)
    return 1 if row.status == "disconnected" else 0


def _switch(args: argparse.Namespace) -> int:
    kind: _Integration = args.kind
    is_enabled = getattr(args, f"{kind.asks.area}_command") == "enable"
    changed = answer_of(args, kind.asks.switch(GroupSwitch(args.id, is_enabled)))
    return _done(args, changed, "is enabled" if is_enabled else "is disabled")


def _create(args: argparse.Namespace) -> int:
    changed = answer_of(args, args.kind.asks.put(GroupSettings(args.id, _settings(args), is_new=True)))
    return _done(args, changed, "is made")


def _update(args: argparse.Namespace) -> int:
    asks, text = args.kind.asks, _settings(args)
    with asked(args) as node:
        node.ask(asks.show(NamedGroup(args.id)))  # refused where there is none
        changed = node.ask(asks.put(GroupSettings(args.id, text)))
    return _done(args, changed, "is changed")


def _delete(args: argparse.Namespace) -> int:
    changed = answer_of(args, args.kind.asks.delete(GroupRemoval(args.id, args.with_dependents)))
    return _done(args, changed, "is deleted")


def _test(args: argparse.Namespace) -> int:
    """Test whether the target can be reached and accepts the login, with the settings that it has or with others.

    Nothing is written there, and nothing is changed here.
    """
    asks = args.kind.asks
    with asked(args) as node:
        text = node.ask(asks.show(NamedGroup(args.id))).text if args.settings is None else _settings(args)
        tested = node.ask(asks.probe(GroupSettings(args.id, text)), _TEST_S)
    return print_done(tested, f"the {args.kind.word} {text_of(args.id)} can be reached", args.json)


def _settings(args: argparse.Namespace) -> str:
    text: str = sys.stdin.read() if args.settings == "-" else args.settings
    return text


def _row(node: RpcClient, args: argparse.Namespace) -> Any:
    rows: Iterable[Any] = node.rows(args.kind.asks.list())
    for row in rows:
        if _id(row) == args.id:
            return row
    raise RpcError("not_found", f"there is no {args.kind.word} {args.id[:200]}")


def _done(args: argparse.Namespace, changed: Any, verb: str) -> int:
    sentence = f"revision {changed.revision}: the {args.kind.word} {text_of(args.id)} {verb}"
    return print_done(changed, sentence, args.json)
