"""`heliograph rule test` on one message or event: the columns that options give, and sample values for the others."""

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from heliograph.cli.batch import CaseError, read_case
from heliograph.cli.usage import UsageError
from heliograph.mqtt.topic import topic_name_fault
from heliograph.rules.columns import MESSAGE_COLUMN_NAMES, Columns, MessageColumns
from heliograph.rules.environment import VARIABLE_PREFIX, Environment
from heliograph.rules.errors import RuleEvaluationError
from heliograph.rules.evaluator import CompiledRule
from heliograph.rules.events import EVENTS, PREFIX, Event, find_event
from heliograph.rules.json_text import decode_exactly, encode_exactly
from heliograph.rules.output import variables_read
from heliograph.rules.samples import SAMPLES, sample_columns, sample_topic
from heliograph.rules.schemas import SchemaRegistry
from heliograph.rules.schemas.registry import build
from heliograph.rules.values import Value, bytes_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from heliograph.rules.schemas.settings import SchemaSettings

_LEVELS_MAX: Final = 65_536


def try_rule(text: str, args: argparse.Namespace, schemas: "tuple[SchemaSettings, ...]" = ()) -> list[dict[str, Value]]:
    """The output rows of a rule on what the options say; standard error tells why there are none.

    Raises:
        UsageError: An option does not make sense.
        CaseError: `--context` is no JSON object.
        RuleError: The rule is refused or fails.
    """
    rule = CompiledRule(text, environment=Environment(SchemaRegistry(build(schemas))))
    context = {} if args.context is None else _context(args.context)
    event = _event_of(rule, args)
    if event is None:
        message = _message(rule, args, context)
        given: Mapping[str, Value] = message.all()
        what, is_wanted = f"the topic {message.message[0]}", rule.matches(message.message[0])
    else:
        message, given = None, _given_columns(args)
        what, is_wanted = f"the event {event.name}", any(map(event.matches, rule.topics))
    if not is_wanted:
        print(f"no match: {what} is matched by none of {', '.join(rule.topics)}", file=sys.stderr)
        return []
    columns = {**sample_columns(event), **given, **context}
    on_spark = args.engine == "spark"
    rows = _rows_on_spark(rule, columns, None if context else message, schemas) if on_spark else None
    rows = rule.apply(Columns(columns)) if rows is None else rows
    if not rows:
        print("no match: WHERE is not true, or there is no element", file=sys.stderr)
    return rows


def _context(text: str) -> Mapping[str, Value]:
    try:
        return read_case(text.encode(errors="surrogateescape"))
    except CaseError as error:
        raise CaseError(f"--context: {error}") from None


def _event_of(rule: CompiledRule, args: argparse.Namespace) -> Event | None:
    """The event that is asked for, or None for a message."""
    if args.event is not None:
        event = find_event(args.event)
        if event is None:
            raise UsageError(
                f"there is no event {args.event!r}; there are {', '.join(event.topics[-1] for event in EVENTS)}"
            )
        return event
    first = rule.topics[0]
    if args.topic is not None or not first.startswith(PREFIX):
        return None
    return next((event for event in EVENTS if event.matches(first)), None)


def _message(rule: CompiledRule, args: argparse.Namespace, context: Mapping[str, Value]) -> MessageColumns:
    topic = args.topic or context.get("topic") or sample_topic(rule.topics[0])
    fault = topic_name_fault(topic, _LEVELS_MAX) if isinstance(topic, str) else "it must be a text"
    if fault is not None:
        raise UsageError(f"--topic: {fault}")
    assert isinstance(topic, str)
    now = time.time_ns() // 1000
    given: dict[str, Any] = {**SAMPLES, **_given_columns(args)}
    return MessageColumns(
        topic,
        bytes_of(given["payload"]),
        given["qos"],
        args.retain,
        given["clientid"],
        given["username"],
        dict(args.property),
        now.to_bytes(8) + bytes(8),
        now,
    )


def _given_columns(args: argparse.Namespace) -> dict[str, Value]:
    """The columns that options say, for messages and events alike."""
    given: dict[str, Value] = {
        "qos": args.qos,
        "clientid": args.clientid,
        "username": args.username,
        "payload": _payload(args),
        "flags": {"dup": False, "retain": True} if args.retain else None,
    }
    return {name: value for name, value in given.items() if value is not None}


def _payload(args: argparse.Namespace) -> bytes | None:
    if args.payload_file is None:
        # Bytes of the command line that are not UTF-8 reach the rule as they are.
        return None if args.payload is None else os.fsencode(args.payload)
    return sys.stdin.buffer.read() if args.payload_file == "-" else Path(args.payload_file).read_bytes()


def _rows_on_spark(
    rule: CompiledRule,
    columns: Mapping[str, Value],
    message: MessageColumns | None,
    schemas: "tuple[SchemaSettings, ...]",
) -> list[dict[str, Value]]:
    """The rows from Spark: by the plan of pipelines, where the rule reads what stored messages have."""
    names = variables_read(rule.tree)
    beyond = set(columns) - set(MESSAGE_COLUMN_NAMES)
    with _session() as spark:
        from heliograph.rules.spark import ContextCase, evaluate_contexts_on_spark, evaluate_on_spark

        if message is None or names is None or names & beyond:
            case = ContextCase(rule.tree.text, encode_exactly(dict(columns)), _variables())
            (outcome,) = evaluate_contexts_on_spark(spark, [case], schemas)
            rows = None if outcome.rows is None else [_row_of_text(text) for text in outcome.rows]
            error = outcome.error
        else:
            (judged,) = evaluate_on_spark(spark, [(rule.tree.text, message)], schemas)
            rows, error = judged.rows, judged.error
    if rows is None:
        raise UsageError(f"[{RuleEvaluationError.code}] {error}")  # the text was parsed before
    return rows


def _row_of_text(text: str) -> dict[str, Value]:
    row = decode_exactly(text)
    assert isinstance(row, dict)
    return row


def _variables() -> dict[str, str]:
    return {name: text for name, text in os.environ.items() if name.startswith(VARIABLE_PREFIX)}


@contextmanager
def _session() -> "Iterator[SparkSession]":
    try:
        from heliograph.pipeline.errors import PipelineError
        from heliograph.pipeline.spark.session import spark_session
    except ImportError as error:
        raise UsageError(f"--engine spark needs Spark: pip install 'heliograph[pipeline]' ({error})") from None
    with tempfile.TemporaryDirectory(prefix="heliograph-rule-") as directory:
        try:
            with spark_session("local[1]", "heliograph rule test", log_file=Path(directory) / "spark.log") as spark:
                yield spark
        except PipelineError as error:
            raise UsageError(f"[{error.code}] {error}") from None
