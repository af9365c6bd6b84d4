"""The language of rules: its functions, and what a rule is before it runs."""

from typing import Any, Final

import msgspec
from pydantic import ConfigDict, Field
from typing_extensions import TypedDict

from heliograph.control.proto_v1.rule_language import (
    RULES_EXPLAIN,
    RULES_FUNCTIONS,
    RuleText,
)
from heliograph.management.web.area import Area
from heliograph.management.web.asked_nodes import NodesDep
from heliograph.management.web.models import Body, Str

area = Area("Rule language", "The functions of rules, and the topics and columns of a rule.")

_EXAMPLE: Final[dict[str, Any]] = {"sql": 'SELECT payload.temp AS temp FROM "rooms/+/climate"'}


class RuleTextBody(Body):
    """A rule that need not be there."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [_EXAMPLE]})

    sql: Str = Field(max_length=65_536)


class RuleFunctionShown(TypedDict):
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


class RuleProblemShown(TypedDict):
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


class RulePartShown(TypedDict):
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


class RuleExplanation(TypedDict):
    """What a rule reads and gives, and what evaluates it.

    Attributes:
        problem: Why it is no rule; null where it is one.
        topics: What its FROM names.
        events: Those of them that are events.
        may_block: Whether the broker evaluates it in threads.
        engine: All of it on Spark: `native` is Spark SQL, `udf` the broker's engine in Python; empty for not at all.
        spark_problem: Why it does not run on Spark.
        parts: Its output columns, and WHERE.
        unknown_functions: What it calls that does not exist.
    """

    problem: RuleProblemShown | None
    topics: list[str]
    events: list[str]
    may_block: bool
    engine: str
    spark_problem: str
    parts: list[RulePartShown]
    unknown_functions: list[str]


@area.get("/heliograph/rule_functions", scope="rules:read")
async def list_rule_functions(nodes: NodesDep) -> list[RuleFunctionShown]:
    """The functions that rules can call, family by family."""
    return [msgspec.to_builtins(row) for row in await nodes.own.rows(RULES_FUNCTIONS())]


@area.post("/heliograph/rule_explain", scope="rules:write", errors={400: ("BAD_REQUEST",)})
async def explain_rule(body: RuleTextBody, nodes: NodesDep) -> RuleExplanation:
    """The topics and columns of a rule, and the engine that evaluates it; `problem` has the place of a syntax error."""
    told = await nodes.own.ask(RULES_EXPLAIN(RuleText(body.sql)))
    found: RuleExplanation = msgspec.to_builtins(told)
    return found
