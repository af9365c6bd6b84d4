"""The language of rules: its functions, and what a rule is before it runs."""

from typing import Any, Final

from pydantic import ConfigDict, Field

from heliograph.control.proto_v1.rule_language import (
    RULES_EXPLAIN,
    RULES_FUNCTIONS,
    RuleExplained,
    RuleFunction,
    RuleText,
)
from heliograph.management.web.area import Area
from heliograph.management.web.asked_nodes import NodesDep
from heliograph.management.web.models import Body, Str
from heliograph.management.web.rows import ApiRow

area = Area("Rule language", "The functions of rules, and the topics and columns of a rule.", scope="rules")

_EXAMPLE: Final[dict[str, Any]] = {"sql": 'SELECT payload.temp AS temp FROM "rooms/+/climate"'}


class RuleTextBody(Body):
    """A rule that need not be there."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [_EXAMPLE]})

    sql: Str = Field(max_length=65_536)


_FUNCTION: Final = ApiRow("RuleFunctionShown", RuleFunction)
_EXPLAINED: Final = ApiRow("RuleExplanation", RuleExplained)


@area.get("/heliograph/rule_functions", answers=_FUNCTION.rows)
async def list_rule_functions(nodes: NodesDep) -> list[dict[str, Any]]:
    """The functions that rules can call, family by family."""
    return [_FUNCTION(row) for row in await nodes.own.rows(RULES_FUNCTIONS())]


@area.post("/heliograph/rule_explain", answers=_EXPLAINED.one)
async def explain_rule(body: RuleTextBody, nodes: NodesDep) -> dict[str, Any]:
    """The topics and columns of a rule, and the engine that evaluates it; `problem` has the place of a syntax error."""
    return _EXPLAINED(await nodes.own.ask(RULES_EXPLAIN(RuleText(body.sql))))
