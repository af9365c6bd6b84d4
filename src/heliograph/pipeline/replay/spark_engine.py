"""A replay on Spark: one batch job over the stretch, with the plans of the pipeline; tasks keep bounded findings."""

import json
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark import SparkContext
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 (Spark's own convention)

from heliograph.pipeline.datasource.source import FORMAT
from heliograph.pipeline.errors import sentence_of
from heliograph.pipeline.replay.findings import Example, ReplayFindings, RuleOutcome, rows_of_texts
from heliograph.pipeline.replay.request import ReplayError, ReplayRequest
from heliograph.pipeline.replay.resolving import ReplayedRule
from heliograph.pipeline.spark.session import spark_session
from heliograph.rules.errors import RuleSyntaxError
from heliograph.rules.spark import RulePlan, plan_rule
from heliograph.rules.spark.frames import arrow_function, evaluate_outcomes
from heliograph.rules.spark.rows import generating_function, struct_of_all_ddl

_PLACE: Final = ("stream", "position", "topic", "clientid")
_GROUP: Final = "replay"
_LOOK_S: Final = 0.5
_NO_REASON: Final = "the rule fails on this message"
_WITH_NULLS: Final = {"ignoreNullFields": "false"}

TellShare = Callable[[float], None]


def run_on_spark(
    request: ReplayRequest, rule: ReplayedRule, other: ReplayedRule | None, tell: TellShare
) -> tuple[ReplayFindings, float]:
    """Run the job: what it found, and in how many seconds, without the start of Spark."""
    rules = [rule, *([] if other is None else [other])]
    try:
        plans = [plan_rule(one.sql, one.columns, one.rule_id) for one in rules]
    except (RuleSyntaxError, ValueError) as error:
        raise ReplayError(str(error), "rule") from None
    with tempfile.TemporaryDirectory(prefix="heliograph-replay-") as directory:
        log_file = Path(directory) / "spark.log"
        conf = request.spark_conf
        with spark_session(request.spark_master, "heliograph rule replay", conf, log_file=log_file) as spark:
            begin = time.monotonic()
            with _deadline(spark.sparkContext, request.seconds_max, tell):
                stored = _messages(spark, request, rules)
                keep = _keeper(request.rows_max, len(rules))
                findings = _merged(_judged(stored, rules, plans).mapInArrow(keep, "findings string"), request.rows_max)
                _give_reasons(findings, stored, rule, plans[0])
            return findings, time.monotonic() - begin


def _messages(spark: SparkSession, request: ReplayRequest, rules: list[ReplayedRule]) -> DataFrame:
    options = {
        "endpoint": request.endpoint,
        "database": rules[0].database,
        "topics": json.dumps(list(dict.fromkeys(topic for rule in rules for topic in rule.topics))),
        "start": str(request.since) if request.since else "earliest",
        "end": str(request.until),
    }
    if request.token:
        options["token"] = request.token
    return spark.read.format(FORMAT).options(**options).load()


def _judged(stored: DataFrame, rules: list[ReplayedRule], plans: list[RulePlan]) -> DataFrame:
    """Each message with what each rule makes of it: whether it wants it, whether it passes, why it fails, its rows."""
    evaluated = stored
    for number, (rule, plan) in enumerate(zip(rules, plans, strict=True)):
        if not plan.native:
            function = generating_function(plan.rule.text, plan.outputs, plan.reads, plan.rule_id, rule.schemas)
            evaluate = arrow_function(function, struct_of_all_ddl(plan.outputs))
            arguments = [F.unix_micros(F.col(name)) if name == "received_at" else F.col(name) for name in plan.reads]
            evaluated = evaluated.withColumn(f"udf{number}", evaluate(*arguments))
    place = [*map(F.col, _PLACE), F.unix_micros("stored_at").alias("stored_at")]
    return evaluated.select(*place, *(_outcome(plan, number) for number, plan in enumerate(plans)))


def _outcome(plan: RulePlan, number: int) -> Column:
    if plan.native:
        row = F.struct(*(F.expr(column.sql or "NULL").alias(column.name) for column in plan.columns))
        passed, error = F.expr(plan.where_sql or "true"), F.lit(None).cast("string")
        texts = F.array(F.to_json(row, _WITH_NULLS))
    else:
        udf = F.col(f"udf{number}")
        fields = ", ".join(f"`{name.replace('`', '``')}`: {kind}" for name, kind in plan.outputs)
        passed, error = udf["passed"], udf["error"]
        rows = udf["rows"].cast(f"array<struct<{fields}>>")
        texts = F.transform(rows, lambda row: F.to_json(row, _WITH_NULLS))
    wanted = F.expr(plan.topics_sql)
    parts = (wanted.alias("wanted"), passed.alias("passed"), error.alias("error"), texts.alias("rows"))
    return F.struct(*parts).alias(f"outcome{number}")


def _keeper(examples_max: int, rules_count: int) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """What a task does with the messages that it judged: counts all, keeps some."""

    def keep(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        findings = ReplayFindings(examples_max)
        for batch in batches:
            for message in batch.to_pylist():
                outcome, *other = [_read(message[f"outcome{number}"]) for number in range(rules_count)]
                findings.add(partial(_place, message), outcome, other[0] if other else None, bool(other))
        yield pa.RecordBatch.from_pydict({"findings": [json.dumps(findings.to_json())]})

    return keep


def _read(judged: dict[str, Any]) -> RuleOutcome | None:
    if not judged["wanted"]:
        return None
    if judged["passed"] is None:
        return RuleOutcome((), judged["error"] or _NO_REASON)
    return RuleOutcome([*rows_of_texts(judged["rows"])] if judged["passed"] else ())


def _place(message: dict[str, Any]) -> Example:
    place = {name: message[name] for name in ("topic", "clientid", "stored_at")}
    return {"id": f"{message['stream']}@{message['position']}", **place}


def _merged(frame: DataFrame, examples_max: int) -> ReplayFindings:
    findings = ReplayFindings(examples_max)
    for row in frame.collect():
        findings.merge(json.loads(row["findings"]))
    return findings


@contextmanager
def _deadline(context: SparkContext, seconds_max: float, tell: TellShare) -> Iterator[None]:
    """Watch the jobs of a block, and cancel them where they take too long."""
    ended, is_late = threading.Event(), threading.Event()
    context.setJobGroup(_GROUP, "heliograph rule replay", interruptOnCancel=True)
    watching = threading.Thread(target=_watch, args=(context, ended, is_late, seconds_max, tell), daemon=True)
    watching.start()
    try:
        yield
    except (PySparkException, Py4JError) as error:
        if is_late.is_set():
            raise ReplayError(f"it took longer than {seconds_max:.0f} s: take a shorter stretch") from None
        raise ReplayError(f"Spark gave the job up: {sentence_of(error)[:400]}") from None
    finally:
        ended.set()
        watching.join()


def _watch(
    context: SparkContext, ended: threading.Event, is_late: threading.Event, seconds_max: float, tell: TellShare
) -> None:
    end = time.monotonic() + seconds_max
    tracker = context.statusTracker()
    while not ended.wait(_LOOK_S):
        if time.monotonic() > end:
            is_late.set()
            context.cancelJobGroup(_GROUP)
            return
        stages = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
        tasks = sum(stage.numTasks for stage in stages if stage is not None)
        if tasks:
            tell(sum(stage.numCompletedTasks for stage in stages if stage is not None) / tasks)


def _give_reasons(findings: ReplayFindings, stored: DataFrame, rule: ReplayedRule, plan: RulePlan) -> None:
    """Say of failures why: Spark's expressions tell no reasons, so the broker's engine looks at a few messages."""
    kept = findings.examples["failures"].kept
    if not any(one["error"] == _NO_REASON for one in kept):
        return
    failed = stored.filter(f"({plan.topics_sql}) AND ({plan.where_sql or 'true'}) IS NULL").limit(len(kept))
    judged = evaluate_outcomes(failed, rule.sql, rule.columns, rule.schemas).select("stream", "position", "error")
    reasons = {f"{row['stream']}@{row['position']}": row["error"] for row in judged.collect()}
    for one in kept:
        one["error"] = reasons.get(one["id"]) or one["error"]
