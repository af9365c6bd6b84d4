"""Makes Spark streaming queries of the jobs of a pipeline: source, rule or SQL, and the writing of micro-batches.

How long queries run and what happens when one fails is `heliograph.pipeline.driver`'s.
"""

import json
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 (Spark's own convention)
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from heliograph.pipeline.definition import Pipeline, RuleJob, StreamSqlJob
from heliograph.pipeline.errors import SinkError, sentence_of
from heliograph.pipeline.schema import MESSAGE_SCHEMA
from heliograph.pipeline.sinks import Batch, OutputMode, Sink
from heliograph.pipeline.source import FORMAT
from heliograph.rules import CompiledRule
from heliograph.rules.spark import apply_rule, plan_rule

logger = logging.getLogger(__name__)

#: Names of the metrics in a query's progress: the rows of its output, what the rule did with the messages, and the rows
#: that the sink did not get because a required column was null.
OUTPUT_METRICS: Final = "heliograph_output"
RULE_METRICS: Final = "heliograph_rule"
REFUSED_METRICS: Final = "heliograph_refused"


@dataclass(frozen=True)
class RunSettings:
    """How the queries of a driver run.

    Attributes:
        checkpoint: Directory of all checkpoints; each query has its own in it.
        output: Directory of all Parquet tables.
        mqtt: host:port of the MQTT broker.
        source: Options of the data source, without the topics.
        trigger_s: Seconds between the starts of micro-batches; None reads what is stored now and ends.
    """

    checkpoint: Path
    output: Path
    mqtt: str
    source: Mapping[str, str]
    trigger_s: float | None


class RunningQuery:
    """One Spark query from its start to its end. Owned by the driver, which starts a new one after a failure."""

    def __init__(self) -> None:
        self._query: StreamingQuery | None = None
        self._sink_error: str | None = None

    def __repr__(self) -> str:
        return f"RunningQuery({self._query.name if self._query is not None else 'not started'})"

    @property
    def is_active(self) -> bool:
        """Whether Spark still runs it."""
        return self._started.isActive

    def recent_progress(self) -> list[dict[str, Any]]:
        """Spark's figures of the last micro-batches, the oldest first."""
        return [json.loads(progress.json) for progress in self._started.recentProgress]

    def why_it_ended(self) -> str | None:
        """The failure that ended it, in a sentence; None when it ended well."""
        error = self._started.exception()
        # Spark loses the failure of a sink when looking through its text overflows the stack; it was noted here before.
        return self._sink_error or (sentence_of(error) if error is not None else None)

    def stop(self) -> None:
        """End it, in the middle of a micro-batch if need be."""
        self._started.stop()

    def start(self, writer: DataStreamWriter, write: Callable[[DataFrame, int], object]) -> None:
        """Start it with a function that brings each micro-batch to the sink."""

        def write_batch(rows: DataFrame, batch: int) -> None:
            try:
                write(rows, batch)
            except Exception as error:  # noqa: BLE001 (whatever it is, Spark must get it as a sentence)
                self._sink_error = sentence_of(error)
                # Without the stack traces of Spark, which Spark would take for the failure of this function.
                raise SinkError(self._sink_error) from None

        self._query = writer.foreachBatch(write_batch).start()

    @property
    def _started(self) -> StreamingQuery:
        if self._query is None:
            raise RuntimeError("the query was not started")
        return self._query


def start_query(session: SparkSession, pipeline: Pipeline, name: str, settings: RunSettings) -> RunningQuery:
    """Start one query of a pipeline from where its checkpoint says, or from the beginning."""
    rows, sink, mode = _rows(session, pipeline, name, settings)
    checkpoint = settings.checkpoint / name

    def write(batch_rows: DataFrame, batch: int) -> None:
        owner = checkpoint_identity(checkpoint)
        refuse = _refuser(name)
        sink.write(batch_rows, Batch(name, owner, batch, settings.output, settings.mqtt, refuse))

    # Counted inside Spark while the batch is written; counting the rows apart would compute the batch twice.
    counted = rows.observe(OUTPUT_METRICS, F.count(F.lit(1)).alias("rows"))
    writer = counted.writeStream.queryName(name).outputMode(mode.value)
    writer = writer.option("checkpointLocation", str(checkpoint.resolve()))
    if settings.trigger_s is None:
        writer = writer.trigger(availableNow=True)
    else:
        writer = writer.trigger(processingTime=f"{max(1, round(settings.trigger_s * 1000))} milliseconds")
    running = RunningQuery()
    running.start(writer, write)
    return running


def _refuser(name: str) -> Callable[[Mapping[str, Any], str], None]:
    def refuse(row: Mapping[str, Any], reason: str) -> None:
        logger.warning("%s: the sink refuses a row: %s", name, reason)

    return refuse


def checkpoint_identity(checkpoint: Path) -> str:
    """The id that Spark gave a checkpoint when it began; a checkpoint that is made anew gets another one."""
    identity: str = json.loads((checkpoint / "metadata").read_text())["id"]
    return identity


def _rows(
    session: SparkSession, pipeline: Pipeline, name: str, settings: RunSettings
) -> tuple[DataFrame, Sink, OutputMode]:
    if name in pipeline.rules:
        rule = pipeline.rules[name]
        if rule.sink is None:
            raise ValueError(f"the rule {name} has no sink, so it is no query of its own")
        return _complete(_rule_rows(session, rule, settings), rule.required), rule.sink, OutputMode.APPEND
    job = pipeline.stream_sql[name]
    return _stream_sql_rows(session, pipeline, job, settings), job.sink, job.mode


def _rule_rows(session: SparkSession, job: RuleJob, settings: RunSettings) -> DataFrame:
    rule = CompiledRule(job.sql)
    wanted = {"topic", *plan_rule(rule, job.columns).reads}
    columns = [name for name in MESSAGE_SCHEMA.fieldNames() if name in wanted]
    options = {**settings.source, "topics": json.dumps(list(rule.topics)), "columns": ",".join(columns)}
    messages = session.readStream.format(FORMAT).options(**options).load()
    return apply_rule(messages, rule, job.columns, observe_as=RULE_METRICS)


def _complete(rows: DataFrame, required: Sequence[str]) -> DataFrame:
    """The rows that have every required column; the others are counted."""
    if not required:
        return rows
    has_all = F.lit(True)
    for column in required:
        has_all = has_all & F.col(f"`{column}`").isNotNull()
    return rows.observe(REFUSED_METRICS, F.count_if(~has_all).alias("rows")).where(has_all)


def _stream_sql_rows(session: SparkSession, pipeline: Pipeline, job: StreamSqlJob, settings: RunSettings) -> DataFrame:
    rows = _rule_rows(session, pipeline.rules[job.source], settings)
    if job.watermark is not None:
        rows = rows.withWatermark(job.watermark.column, job.watermark.delay)
    rows.createOrReplaceTempView(job.source)
    return session.sql(job.sql)
