"""The checks of a validation: functions from a message to what is wrong with it, or None.

Whatever happens in a check, a message that was not found good has not passed.
"""

import logging
from collections.abc import Callable
from dataclasses import replace
from typing import Final

from heliograph.broker.message import Message
from heliograph.config.message_policies import ValidationCheck
from heliograph.message_policies.errors import MessagePolicyError
from heliograph.message_policies.schemas import find_schema
from heliograph.rules.engine.columns import ColumnsOfMessages
from heliograph.rules.environment import Environment
from heliograph.rules.errors import RuleEvaluationError, RuleSyntaxError
from heliograph.rules.evaluator import CompiledRule
from heliograph.rules.parser import parse_check
from heliograph.rules.schemas import SchemaError, SchemaRegistry
from heliograph.rules.tree import Select, Star

Check = Callable[[Message], str | None]
"""What is wrong with a message; None when it passes."""

_log: Final = logging.getLogger(__name__)


def compile_check(
    settings: ValidationCheck, path: tuple[str, ...], environment: Environment, columns: ColumnsOfMessages
) -> Check:
    if settings.type == "sql":
        return _contained(_sql_check(compile_sql(settings.sql, (*path, "sql"), environment), columns))
    find_schema(environment.schemas, settings.type, settings.schema, settings.message_type, path)
    return _contained(_schema_check(settings.schema, settings.message_type or None, environment.schemas))


def all_pass(checks: list[Check]) -> Check:
    if len(checks) == 1:
        return checks[0]

    def check(message: Message) -> str | None:
        for one in checks:
            problem = one(message)
            if problem is not None:
                return problem
        return None

    return check


def any_pass(checks: list[Check]) -> Check:
    if len(checks) == 1:
        return checks[0]

    def check(message: Message) -> str | None:
        problems: list[str] = []
        for one in checks:
            problem = one(message)
            if problem is None:
                return None
            problems.append(problem)
        return "; ".join(problems)

    return check


def _schema_check(name: str, message_type: str | None, schemas: SchemaRegistry) -> Check:
    # The registry is read each time: a schema may be replaced while the node runs.
    get = schemas.get

    def check(message: Message) -> str | None:
        schema = get(name)
        if schema.may_block:
            return f"the schema {name!r} may keep the broker waiting"
        return schema.check(message.payload, message_type)

    return check


def compile_sql(sql: str, path: tuple[str, ...], environment: Environment) -> CompiledRule:
    try:
        rule = CompiledRule(_without_star(parse_check(sql)), environment=environment)
    except RuleSyntaxError as error:
        raise MessagePolicyError(path, str(error)) from None
    if rule.may_block:
        raise MessagePolicyError(
            path, "the SQL calls a function that may take long, and a publish does not wait for a check"
        )
    return rule


def _sql_check(rule: CompiledRule, columns: ColumnsOfMessages) -> Check:
    apply, columns_of = rule.apply, columns.of

    def check(message: Message) -> str | None:
        return None if apply(columns_of(message)) else "the SQL selects nothing"

    return check


def _without_star(tree: Select) -> Select:
    """The same check without a `*` at its beginning, which only copies all columns: the row is not used."""
    fields = tree.fields
    while fields and isinstance(fields[0], Star):
        fields = fields[1:]
    return replace(tree, fields=fields)


def _contained(check: Check) -> Check:
    def contained(message: Message) -> str | None:
        try:
            return check(message)
        except RuleEvaluationError as error:
            return f"the SQL fails: {error.problem}"
        except SchemaError as error:
            return str(error)
        except Exception as error:  # noqa: BLE001 - what a library cannot cope with must not pass
            _log.debug("a check cannot cope with message %s", message.guid.hex().upper(), exc_info=True)
            return f"the check cannot cope with it: {type(error).__name__}: {error}"

    return contained
