"""What can be asked of the language of rules: its functions, what a rule reads and what evaluates it; schema checks."""

import asyncio
from collections.abc import Callable, Iterator

from heliograph.control.proto_v1 import rule_language as proto
from heliograph.control.slices import in_slices
from heliograph.rpc.methods import Call, Method
from heliograph.rules.environment import Environment


def methods(environment: Callable[[], Environment]) -> list[Method]:
    """`rules.functions`, `rules.explain` and `schemas.check`.

    Args:
        environment: What functions of rules may ask besides the message.
    """

    async def explain(args: proto.RuleText, call: Call) -> proto.RuleExplained:
        return await asyncio.to_thread(_explained, args.sql, environment())

    async def check(args: proto.PayloadToCheck, call: Call) -> proto.PayloadChecked:
        return await asyncio.to_thread(_checked, args, environment())

    return [
        proto.RULES_FUNCTIONS.by(lambda args, call: in_slices(_functions())),
        proto.RULES_EXPLAIN.by(explain),
        proto.SCHEMAS_CHECK.by(check),
    ]


def _functions() -> Iterator[proto.RuleFunction]:
    from heliograph.rules.functions import FUNCTIONS  # the rule language
    from heliograph.rules.reference import RESULTS

    for one in FUNCTIONS.values():
        yield proto.RuleFunction(one.name, one.family, one.signature, RESULTS[one.result], one.summary)


def _explained(sql: str, environment: Environment) -> proto.RuleExplained:
    from heliograph.rules.errors import RuleSyntaxError  # the rule language
    from heliograph.rules.evaluator import CompiledRule
    from heliograph.rules.events import NOT_PUBLISHED
    from heliograph.rules.functions import FUNCTIONS
    from heliograph.rules.output import functions_called

    try:
        rule = CompiledRule(sql, {"rule_id": "rule_test"}, environment)
    except RuleSyntaxError as error:
        place = error.place
        return proto.RuleExplained(proto.RuleProblem(error.problem, place.line, place.column, place.start, place.end))
    engine, problem, parts = _on_spark(rule)
    return proto.RuleExplained(
        topics=list(rule.topics),
        events=[topic for topic in rule.topics if topic.startswith(NOT_PUBLISHED)],
        may_block=rule.may_block,
        engine=engine,
        spark_problem=problem,
        parts=parts,
        unknown_functions=[name for name in functions_called(rule.tree) if name not in FUNCTIONS],
    )


def _on_spark(rule: object) -> tuple[str, str, list[proto.RulePart]]:
    from heliograph.rules.errors import RuleSyntaxError
    from heliograph.rules.evaluator import CompiledRule
    from heliograph.rules.spark.plan import plan_rule

    assert isinstance(rule, CompiledRule)
    try:
        plan = plan_rule(rule, rule_id="rule_test")
    except RuleSyntaxError as error:
        return "", error.problem, []
    types = dict(plan.outputs)
    return plan.engine, "", [proto.RulePart(name, types.get(name, ""), engine, why) for name, engine, why in plan.parts]


def _checked(args: proto.PayloadToCheck, environment: Environment) -> proto.PayloadChecked:
    from heliograph.rules.json_text import encode_exactly
    from heliograph.rules.schemas import SchemaError

    try:
        value = environment.schemas.get(args.schema).decode(args.payload, args.message_type or None)
        return proto.PayloadChecked("", encode_exactly(value))
    except SchemaError as error:
        return proto.PayloadChecked(str(error))
