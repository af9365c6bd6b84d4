"""The language of rules: its functions, what a rule is before it runs; and payloads that are held against schemas."""

import json
from typing import Annotated, Any

import msgspec

from heliograph.control.columns import Fact
from heliograph.rpc.asks import STATE, Ask, ListAsk
from heliograph.rpc.methods import Args, NoArgs


class RuleFunction(msgspec.Struct, frozen=True):
    """A function that rules can call.

    Attributes:
        family: What it is listed under.
        signature: Its parameters, as `S text[, I length]`.
        result: What it gives.
        summary: One sentence.
    """

    name: str
    family: str
    signature: str
    result: str
    summary: str


class RuleText(Args, frozen=True):
    """A rule that need not be there."""

    sql: str


class RuleProblem(msgspec.Struct, frozen=True):
    """Why a text is no rule.

    Attributes:
        line: From 1, as is `column`.
        start: Characters before the place.
        end: Characters before what follows it.
    """

    message: str
    line: int
    column: int
    start: int
    end: int


class RulePart(msgspec.Struct, frozen=True):
    """An output column of a rule, or its WHERE.

    Attributes:
        type: Of the column on Spark; empty for WHERE.
        engine: What it needs on Spark by itself, `native` or `udf`.
        reason: Why.
    """

    name: str
    type: str
    engine: str
    reason: str


class RuleExplained(msgspec.Struct, frozen=True):
    """What a rule reads and gives, and what evaluates it.

    Attributes:
        problem: Why it is no rule; None where it is one.
        topics: What its FROM names.
        events: Those of them that are events.
        may_block: Whether the broker evaluates it in threads.
        engine: All of it on Spark: `native` is Spark SQL, `udf` the broker's engine in Python; empty for not at all.
        spark_problem: Why it does not run on Spark.
        parts: Its output columns, and WHERE.
        unknown_functions: What it calls that does not exist.
    """

    problem: RuleProblem | None = None
    topics: list[str] = msgspec.field(default_factory=list)
    events: list[str] = msgspec.field(default_factory=list)
    may_block: bool = False
    engine: str = ""
    spark_problem: str = ""
    parts: list[RulePart] = msgspec.field(default_factory=list)
    unknown_functions: list[str] = msgspec.field(default_factory=list)


class PayloadToCheck(Args, frozen=True):
    """A payload and the schema that it is held against.

    Attributes:
        schema: Its name.
        message_type: Which message of a Protobuf schema; empty for none.
    """

    schema: str
    payload: bytes
    message_type: str = ""


class PayloadChecked(msgspec.Struct, frozen=True):
    """Whether a payload fits a schema.

    Attributes:
        fault: Why it does not; empty where it does.
        value: What it stands for, as JSON.
    """

    fault: str
    value: Annotated[str, Fact(answered=lambda text: json.loads(text or "null"), answers=Any)] = ""


RULES_FUNCTIONS = ListAsk("rules.functions", NoArgs, RuleFunction, STATE)
RULES_EXPLAIN = Ask("rules.explain", RuleText, RuleExplained, STATE)
SCHEMAS_CHECK = Ask("schemas.check", PayloadToCheck, PayloadChecked, STATE, secrets=frozenset({"payload"}))
