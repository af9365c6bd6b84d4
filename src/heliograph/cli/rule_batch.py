"""`heliograph rule test --batch`: many rules, each on columns of its own, with either engine."""

import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from heliograph.cli.batch import Answer, Case, CaseError, read_case, run_batch, text_of_case, texts_of_case, written
from heliograph.rules import CompiledRule, RuleError, RuleSyntaxError, Value
from heliograph.rules.columns import Columns
from heliograph.rules.events import EVENTS, find_event
from heliograph.rules.functions.others import environment

if TYPE_CHECKING:
    from heliograph.rules.spark import ContextCase


@dataclass(frozen=True, slots=True)
class RuleCase:
    """One case: a rule that parses, the columns that it reads, and the variables that `getenv` sees."""

    rule: CompiledRule
    columns: dict[str, Value]
    is_wanted: bool
    variables: Mapping[str, str]


def run_cases(engine: str) -> int:
    """Answer the cases on standard input; the exit code."""
    return run_batch(answer_in_broker, refusal={"phase": "parse"}) if engine == "broker" else _run_on_spark()


def answer_in_broker(case: Case) -> Answer:
    """The rows of a case, or why there are none."""
    try:
        read = read_rule_case(case)
        if not read.is_wanted:
            return {"rows": []}
        with environment(read.variables):
            return {"rows": list[Value](read.rule.apply(Columns(read.columns)))}
    except RuleError as error:
        return _refused(error)


def read_rule_case(case: Case) -> RuleCase:
    """What a case asks for.

    Raises:
        CaseError: It says too little, or something else.
        RuleSyntaxError: Its rule does not parse.
    """
    context = case.get("context", {})
    if not isinstance(context, dict):
        raise CaseError('"context" must be an object of columns')
    columns = dict(context)
    rule = CompiledRule(text_of_case(case, "sql"))
    if "event" in case:
        event = find_event(text_of_case(case, "event"))
        if event is None:
            known = ", ".join(event.topics[0] for event in EVENTS)
            raise CaseError(f"there is no event {case['event']!r}; there are {known}")
        columns.setdefault("event", event.name)
        is_wanted = any(event.matches(topic_filter) for topic_filter in rule.topics)
    else:
        topic = text_of_case(case, "topic") if "topic" in case else context.get("topic")
        if not isinstance(topic, str):
            raise CaseError('a case needs "topic" or "event"')
        columns.setdefault("topic", topic)
        columns.setdefault("event", "message.publish")
        is_wanted = rule.matches(topic)
    return RuleCase(rule, columns, is_wanted, texts_of_case(case, "env"))


def _refused(error: RuleError) -> Answer:
    return {"error": str(error), "phase": "parse" if isinstance(error, RuleSyntaxError) else "eval"}


def _run_on_spark() -> int:
    """All cases in one Spark job; the answers come in the order of the lines."""
    answers: list[Answer | None] = []
    cases: list[ContextCase] = []
    failed = False
    for number, line in enumerate(sys.stdin.buffer, start=1):
        if not line.strip():
            continue
        try:
            read = read_rule_case(read_case(line))
        except RuleError as error:
            answers.append(_refused(error))
        except CaseError as error:
            failed = True
            answers.append({"error": f"line {number}: {error}", "phase": "parse"})
        else:
            if read.is_wanted:
                cases.append((read.rule.tree.text, read.columns, read.variables))
            answers.append(None if read.is_wanted else {"rows": []})
    evaluated = iter(_evaluate(cases) if cases else ())
    for answer in answers:
        print(written(next(evaluated) if answer is None else answer))
    return 1 if failed else 0


def _evaluate(cases: "list[ContextCase]") -> list[Answer]:
    from heliograph.pipeline.spark.session import spark_session
    from heliograph.rules.spark import evaluate_contexts_on_spark

    with tempfile.TemporaryDirectory(prefix="heliograph-rule-") as directory:
        log_file = Path(directory) / "spark.log"
        with spark_session("local[*]", "heliograph rule test", log_file=log_file) as spark:
            outcomes = evaluate_contexts_on_spark(spark, cases)
    return [
        {"error": outcome.error or "", "phase": "eval"} if outcome.rows is None else {"rows": list[Value](outcome.rows)}
        for outcome in outcomes
    ]
