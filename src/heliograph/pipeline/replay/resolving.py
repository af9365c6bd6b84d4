"""Finds the rules of a replay: those of the broker, those of the pipeline's files, and SQL as it is given."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Final

from heliograph.pipeline.errors import RuleFileError
from heliograph.pipeline.replay.request import BrokerRule, ReplayError, ReplayRequest
from heliograph.rules.errors import RuleSyntaxError
from heliograph.rules.events import NOT_PUBLISHED
from heliograph.rules.parser import parse_rule
from heliograph.rules.schemas.settings import SchemaSettings
from heliograph.rules.tree import Statement

PIPELINE: Final = "pipeline"
BROKER: Final = "broker"
SQL: Final = "sql"

_OF_PIPELINE: Final = "pipeline:"
_NAME: Final = re.compile(r"(pipeline:)?[A-Za-z0-9_][A-Za-z0-9_.-]*")
_DATABASE: Final = "messages"
_LISTED_NAMES_MAX: Final = 20


@dataclass(frozen=True)
class ReplayedRule:
    """A rule that is replayed.

    Attributes:
        kind: Whose it is: `broker`, `pipeline` or `sql`.
        is_edited: Whether the text is another one than the rule's own.
        targets: What is done with each row: the kind of action, and where it goes.
    """

    name: str
    kind: str
    sql: str
    tree: Statement
    is_edited: bool = False
    columns: Mapping[str, str] = field(default_factory=dict)
    database: str = _DATABASE
    schemas: tuple[SchemaSettings, ...] = ()
    targets: tuple[tuple[str, str], ...] = ()

    @property
    def rule_id(self) -> str | None:
        return self.name if self.kind == BROKER else None

    @property
    def topics(self) -> tuple[str, ...]:
        """The topic filters of FROM that stored messages may match: events, and messages of sources, are not stored."""
        return tuple(topic for topic in self.tree.topics if not topic.startswith(NOT_PUBLISHED))


class Resolver:
    def __init__(self, request: ReplayRequest) -> None:
        self._request = request

    def rule(self) -> ReplayedRule:
        request = self._request
        if not request.rule and not request.sql:
            raise ReplayError("give the name of a rule, or SQL", "rule")
        if not request.rule:
            return self._readable(self._of_text(request.sql, "sql"), "sql")
        named = self._named(request.rule, "rule")
        if request.sql and request.sql != named.sql:
            edited = self._of_text(request.sql, "sql")
            columns = named.columns if named.kind == PIPELINE else {}
            named = replace(named, sql=edited.sql, tree=edited.tree, is_edited=True, columns=columns)
        return self._readable(named, "rule")

    def compared(self) -> ReplayedRule | None:
        text = self._request.compare
        if not text:
            return None
        found = self._named(text, "compare") if _NAME.fullmatch(text) else self._of_text(text, "compare")
        return self._readable(found, "compare")

    def _readable(self, rule: ReplayedRule, blamed: str) -> ReplayedRule:
        if not rule.topics:
            text = ", ".join(rule.tree.topics)
            raise ReplayError(f"its FROM names only events ({text}), and events are not stored", blamed)
        return replace(rule, database=self._request.database or rule.database)

    def _named(self, name: str, blamed: str) -> ReplayedRule:
        plain = name.removeprefix(_OF_PIPELINE)
        of_broker = {rule.id: rule for rule in self._request.rules}
        if plain == name and name in of_broker:
            return self._of_broker(of_broker[name], blamed)
        if plain in self._of_pipeline:
            return self._of_pipeline[plain]
        there = [*(f"{_OF_PIPELINE}{one}" for one in self._of_pipeline)][:_LISTED_NAMES_MAX]
        more = f"; the pipeline has {', '.join(there)}" if there else ""
        raise ReplayError(f"there is no rule {name!r} in the broker or the pipeline{more}", blamed)

    def _of_broker(self, rule: BrokerRule, blamed: str) -> ReplayedRule:
        tree = self._tree(rule.sql, blamed)
        targets = tuple(_target(action) for action in json.loads(rule.actions))
        return ReplayedRule(rule.id, BROKER, rule.sql, tree, schemas=self._request.schemas, targets=targets)

    def _of_text(self, sql: str, blamed: str) -> ReplayedRule:
        return ReplayedRule("", SQL, sql, self._tree(sql, blamed), schemas=self._request.schemas)

    def _tree(self, sql: str, blamed: str) -> Statement:
        try:
            return parse_rule(sql)
        except RuleSyntaxError as error:
            raise ReplayError(f"[{error.code}] {error}", blamed) from None

    @cached_property
    def _of_pipeline(self) -> dict[str, ReplayedRule]:
        files = [Path(file) for file in self._request.pipeline_files if Path(file).exists()]
        if not files:
            return {}
        # Imported here: what knows all kinds of sinks is for those who name a rule of the pipeline.
        from heliograph.pipeline.files.rulefile import load_pipeline
        from heliograph.pipeline.running.views import source_options

        try:
            pipeline = load_pipeline(*files)
        except RuleFileError as error:
            raise ReplayError(f"the pipeline's files cannot be read: {error}", "rule") from None
        found: dict[str, ReplayedRule] = {}
        for name, rule in pipeline.rules.items():
            options = source_options(pipeline, name, {})
            found[name] = ReplayedRule(
                *(name, PIPELINE, rule.sql, self._tree(rule.sql, "rule")),
                columns=rule.columns,
                database=options.get("database", _DATABASE),
                schemas=pipeline.schemas,
                targets=() if rule.sink is None else ((PIPELINE, rule.sink.target),),
            )
        return found


def _target(action: object) -> tuple[str, str]:
    if isinstance(action, dict):
        args = action.get("args") or {}
        return str(action.get("function")), str(args.get("topic", ""))
    kind, _, name = str(action).partition(":")
    return kind, name
