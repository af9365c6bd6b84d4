"""`heliograph rule test --batch`: many rules, each on columns of its own, with either engine."""

import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from itertools import repeat
from pathlib import Path
from typing import TYPE_CHECKING

from heliograph.cli.batch import Answer, Case, CaseError, read_case, run_batch, text_of_case, texts_of_case, written
from heliograph.rules.columns import Columns
from heliograph.rules.environment import Environment
from heliograph.rules.errors import EvaluationFault, RuleError, RuleSyntaxError
from heliograph.rules.evaluator import CompiledRule
from heliograph.rules.events import EVENTS, find_event
from heliograph.rules.json_text import decode_json, encode_exactly
from heliograph.rules.schemas import SchemaRegistry
from heliograph.rules.schemas.registry import build
from heliograph.rules.values import Value

if TYPE_CHECKING:
    from heliograph.rules.schemas.settings import SchemaSettings
    from heliograph.rules.spark import ContextCase


@dataclass(frozen=True, slots=True)
class RuleCase:
    """One case.

    Attributes:
        rule: A rule that parses.
        columns: The columns that it reads.
        added: Those of them that the case does not say but implies.
        is_wanted: Whether the rule wants the message or event.
        variables: What `getenv` sees.
    """

    rule: CompiledRule
    columns: dict[str, Value]
    added: Mapping[str, Value]
    is_wanted: bool
    variables: Mapping[str, str]


def run_cases(engine: str, schemas: "tuple[SchemaSettings, ...]" = ()) -> int:
    """Answer the cases on standard input, with schemas that they may name; the exit code."""
    environment = Environment(SchemaRegistry(build(schemas)))
    if engine == "broker":
        return run_batch(partial(_answer_in_broker, environment), refusal={"phase": "parse"})
    return _run_on_spark(environment, schemas)


def _answer_in_broker(environment: Environment, case: Case) -> Answer:
    """The rows of a case, or why there are none."""
    try:
        read = _read_rule_case(environment, case)
        if not read.is_wanted:
            return {"rows": []}
        return {"rows": list[Value](read.rule.apply(Columns(read.columns)))}
    except RuleError as error:
        return _refused(error)


def _read_rule_case(environment: Environment, case: Case) -> RuleCase:
    """What a case asks for.

    Args:
        environment: What rules may ask, but for the variables that the case gives.

    Raises:
        CaseError: It says too little, or something else.
        RuleSyntaxError: Its rule does not parse.
    """
    context = case.get("context", {})
    if not isinstance(context, dict):
        raise CaseError('"context" must be an object of columns')
    variables = texts_of_case(case, "env")
    rule = CompiledRule(text_of_case(case, "sql"), environment=environment.with_variables(variables))
    if "event" in case:
        event = find_event(text_of_case(case, "event"))
        if event is None:
            known = ", ".join(event.topics[0] for event in EVENTS)
            raise CaseError(f"there is no event {case['event']!r}; there are {known}")
        added: dict[str, Value] = {"event": event.name}
        is_wanted = any(event.matches(topic_filter) for topic_filter in rule.topics)
    else:
        topic = text_of_case(case, "topic") if "topic" in case else context.get("topic")
        if not isinstance(topic, str):
            raise CaseError('a case needs "topic" or "event"')
        added = {"topic": topic, "event": "message.publish"}
        is_wanted = rule.matches(topic)
    added = {name: value for name, value in added.items() if name not in context}
    return RuleCase(rule, {**context, **added}, added, is_wanted, variables)


def _refused(error: RuleError) -> Answer:
    return {"error": str(error), "phase": "parse" if isinstance(error, RuleSyntaxError) else "eval"}


class _JobError(Exception):
    """Spark gave a job up, so that no case of it has an answer; the message says why."""


def _run_on_spark(environment: Environment, schemas: "tuple[SchemaSettings, ...]") -> int:
    """All cases in one Spark job; the answers come in the order of the lines."""
    from heliograph.rules.spark import ContextCase

    answers: list[Answer | None] = []
    cases: list[ContextCase] = []
    failed = False
    for number, line in enumerate(sys.stdin.buffer, start=1):
        if not line.strip():
            continue
        try:
            case = read_case(line)
            read = _read_rule_case(environment, case)
            if read.is_wanted:
                cases.append(ContextCase(read.rule.tree.text, _columns_text(line, read.added), read.variables))
        except EvaluationFault:
            # It has more levels than can be written: its columns cannot travel, and here is the same engine.
            answers.append(_answer_in_broker(environment, case))
        except RuleError as error:
            answers.append(_refused(error))
        except CaseError as error:
            failed = True
            answers.append({"error": f"line {number}: {error}", "phase": "parse"})
        else:
            answers.append(None if read.is_wanted else {"rows": []})
    try:
        evaluated = iter(_evaluate(cases, schemas) if cases else ())
    except _JobError as error:
        failed = True
        evaluated = repeat(written({"error": str(error), "phase": "eval"}))
    for answer in answers:
        sys.stdout.buffer.write((next(evaluated) if answer is None else written(answer)).encode() + b"\n")
    sys.stdout.flush()
    return 1 if failed else 0


def _columns_text(line: bytes, added: Mapping[str, Value]) -> str:
    """The columns of a case as they are written there: what is long only when it is read stays short on its way.

    Raises:
        EvaluationFault: They have too many levels to be written again.
    """
    case = decode_json(line)
    assert isinstance(case, dict)
    context = case.get("context", {})
    assert isinstance(context, dict)
    return encode_exactly({**context, **added})


def _evaluate(cases: "list[ContextCase]", schemas: "tuple[SchemaSettings, ...]") -> list[str]:
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    from heliograph.pipeline.spark.session import spark_session
    from heliograph.rules.spark import evaluate_contexts_on_spark

    with tempfile.TemporaryDirectory(prefix="heliograph-rule-") as directory:
        log_file = Path(directory) / "spark.log"
        with spark_session("local[*]", "heliograph rule test", log_file=log_file) as spark:
            try:
                outcomes = evaluate_contexts_on_spark(spark, cases, schemas)
            except (PySparkException, Py4JError) as error:
                # More than the memory of its processes holds, for example.
                raise _JobError(f"Spark gave the job up: {' '.join(str(error).split())[:400]}") from None
    return [
        written({"error": outcome.error or "", "phase": "eval"})
        if outcome.rows is None
        else f'{{"rows":[{",".join(outcome.rows)}]}}'
        for outcome in outcomes
    ]
