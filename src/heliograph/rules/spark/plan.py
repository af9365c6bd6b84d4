"""Decides how a rule runs on Spark: as Spark SQL over the message columns, or in an Arrow UDF with the broker's engine.

One rule runs one way. Where a single field needs the UDF, every row goes to Python and has its payload decoded there,
and the other fields come at next to no cost with it; computing them in Spark as well would read the message twice.

This module needs no Spark, so that a rule can be explained where none is.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from heliograph.rules.columns import STORED_BY_COLUMN, STORED_NAMES
from heliograph.rules.errors import RuleSyntaxError
from heliograph.rules.evaluator import CompiledRule, implied_target
from heliograph.rules.output import ValueKind, columns_read, output_kinds
from heliograph.rules.spark.native import NativeCompiler, as_type, topic_condition
from heliograph.rules.spark.output_types import inferred_type, output_type
from heliograph.rules.spark.sql import Native, NotNativeError
from heliograph.rules.tree import Field, Foreach, Place, Star, Statement

_EXACT = "exact in Spark"
_TOGETHER = "exact in Spark too, but another part of the rule needs the UDF"


@dataclass(frozen=True, slots=True)
class PlannedColumn:
    """One output column, whose engine is `native` or `udf`."""

    name: str
    type: str
    declared: bool
    engine: str
    reason: str
    sql: str | None


@dataclass(frozen=True, slots=True)
class RulePlan:
    """How a rule runs on Spark.

    Attributes:
        topics_sql: The condition that chooses the messages.
        where_sql: The Spark SQL of a native WHERE.
        reads: The columns of stored messages that the UDF is given.
    """

    rule: Statement
    native: bool
    topics_sql: str
    columns: tuple[PlannedColumn, ...]
    where_reason: str | None
    where_sql: str | None
    reads: tuple[str, ...]
    rule_id: str | None = None

    @property
    def generates(self) -> bool:
        return isinstance(self.rule, Foreach)

    @property
    def engine(self) -> str:
        return "native" if self.native else "udf"

    @property
    def parts(self) -> tuple[tuple[str, str, str], ...]:
        """Of each output column, and of WHERE, its name, the engine that it needs by itself, and why."""
        reasons = [(column.name, column.reason) for column in self.columns]
        if self.where_reason is not None:
            reasons.append(("WHERE", self.where_reason))
        return tuple((name, "native" if why in (_EXACT, _TOGETHER) else "udf", why) for name, why in reasons)

    @property
    def outputs(self) -> tuple[tuple[str, str], ...]:
        return tuple((column.name, column.type) for column in self.columns)


def plan_rule(
    rule: Statement | CompiledRule | str, output_types: Mapping[str, str] | None = None, rule_id: str | None = None
) -> RulePlan:
    """Decide how a rule runs on Spark; with an id, `*` outputs `metadata` too."""
    tree = rule.tree if isinstance(rule, CompiledRule) else CompiledRule(rule).tree
    kinds = output_kinds(tree, has_metadata=rule_id is not None)
    _check_names(tree, list(kinds))
    types = _column_types(kinds, output_types or {})
    natives, where = _try_natively(tree, kinds, types, frozenset(output_types or {}))
    all_native = all(isinstance(native, str) for native in (*natives.values(), where or ""))
    columns = tuple(
        _planned(name, kind, name in (output_types or {}), natives[name], all_native) for name, kind in types.items()
    )
    where_reason = None if where is None else _reason(where, all_native)
    where_sql = where if all_native and isinstance(where, str) else None
    return RulePlan(
        tree, all_native, topic_condition(tree.topics), columns, where_reason, where_sql, _reads(tree), rule_id
    )


def _check_names(tree: Statement, names: list[str]) -> None:
    by_folded: dict[str, str] = {}
    for name in names:
        other = by_folded.setdefault(name.casefold(), name)
        if other != name:
            problem = (
                f"the output columns {other} and {name} differ in letter case only, which Spark does not tell apart"
            )
            raise RuleSyntaxError(problem, tree.text, Place(0, len(tree.text), 1, 1))


def _column_types(kinds: Mapping[str, ValueKind], declared: Mapping[str, str]) -> dict[str, str]:
    for name in declared:
        if name not in kinds:
            raise ValueError(f"the rule has no output column {name}; it has {', '.join(kinds)}")
    return {
        name: output_type(declared[name]).name if name in declared else inferred_type(kind).name
        for name, kind in kinds.items()
    }


def _try_natively(
    tree: Statement, kinds: Mapping[str, ValueKind], types: Mapping[str, str], declared: frozenset[str]
) -> tuple[dict[str, str | NotNativeError], str | NotNativeError | None]:
    """Each output column, and WHERE, as Spark SQL or as the reason why it has none."""
    if isinstance(tree, Foreach):
        why = NotNativeError("FOREACH makes rows of elements whose kinds turn out per message")
        return dict.fromkeys(kinds, why), None if tree.where is None else why
    compiler = NativeCompiler()
    columns: dict[str, str | NotNativeError] = {}
    for position, field in enumerate(tree.fields):
        if isinstance(field, Star):
            columns |= dict.fromkeys(kinds, NotNativeError("* gathers columns that the broker's engine puts together"))
            continue
        name, native = _field_natively(field, position, compiler)
        # A field that a later one of the same name replaces is evaluated all the same, and can fail the rule.
        if isinstance(columns.get(name), NotNativeError):
            continue
        try:
            columns[name] = (
                native if isinstance(native, NotNativeError) else _typed(native, types[name], name in declared)
            )
        except NotNativeError as error:
            columns[name] = error
    if tree.where is None:
        return columns, None
    try:
        return columns, compiler.condition(tree.where).sql
    except NotNativeError as error:
        return columns, error


def _typed(native: Native, name: str, declared: bool) -> str:
    if not declared and inferred_type(native.kind).name != name:
        raise NotNativeError(f"its column is {name} wherever it runs, and Spark would make {native.kind} of it")
    return as_type(native, name)


def _field_natively(field: Field, position: int, compiler: NativeCompiler) -> tuple[str, Native | NotNativeError]:
    target = field.alias or implied_target(field.expression, position)
    try:
        native = compiler.compile(field.expression)
        if target.steps:
            raise NotNativeError(f"{target.root} becomes a map")
        compiler.stored(target.root, native)
    except NotNativeError as error:
        return target.root, error
    return target.root, native


def _planned(name: str, kind: str, declared: bool, native: str | NotNativeError, all_native: bool) -> PlannedColumn:
    sql = native if all_native and isinstance(native, str) else None
    return PlannedColumn(name, kind, declared, "native" if all_native else "udf", _reason(native, all_native), sql)


def _reason(native: str | NotNativeError, all_native: bool) -> str:
    if isinstance(native, NotNativeError):
        return str(native)
    return _EXACT if all_native else _TOGETHER


def _reads(tree: Statement) -> tuple[str, ...]:
    stored = {STORED_BY_COLUMN[name] for name in columns_read(tree)}
    # An Arrow UDF needs at least one column to know how many rows there are.
    return tuple(name for name in STORED_NAMES if name in stored) or ("topic",)
