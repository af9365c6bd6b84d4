"""Makes Spark streaming queries of the jobs of a pipeline: views, rule or SQL, and the writing of micro-batches.

How long queries run and what happens when one fails is `heliograph.pipeline.running.driver`'s.
"""

import json
import sys
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from threading import Event, Lock
from typing import Any, Final

from pyspark.errors import AnalysisException, ParseException, PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 (Spark's own convention)
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from heliograph.pipeline.datasource.offsets import Offset
from heliograph.pipeline.datasource.source import FORMAT
from heliograph.pipeline.errors import DefinitionChangedError, RuleFileError, SinkError, sentence_of
from heliograph.pipeline.files.definition import Pipeline, RuleJob
from heliograph.pipeline.running.identity import (
    Identity,
    definition_of,
    new_identity,
    query_directory,
    read_identity,
    unsound_change,
    write_identity,
)
from heliograph.pipeline.running.ranges import stream_until
from heliograph.pipeline.running.starts import first_starts, positions_reached
from heliograph.pipeline.running.views import ViewBuilder, ViewInput, complete_rows
from heliograph.pipeline.side_outputs.leftovers import OUTPUT_METRICS, REFUSED_METRICS, BatchFacts, Kept, Leftovers
from heliograph.pipeline.side_outputs.lineage import analyzed, streaming_inputs
from heliograph.pipeline.side_outputs.refused_rows import RefusedRows
from heliograph.pipeline.sinks import MicroBatch, OutputMode, Sink, Written
from heliograph.pipeline.sinks.libraries import library_fault
from heliograph.pipeline.sinks.spark import writing

_START_S: Final = 60.0


@dataclass(frozen=True)
class RunSettings:
    """How the queries of a driver run.

    Attributes:
        trigger_s: Seconds between the starts of micro-batches; None reads what is stored now and ends.
    """

    checkpoint: Path
    output: Path
    mqtt: str
    source: Mapping[str, str] = field(repr=False)
    trigger_s: float | None = None


@dataclass(frozen=True)
class Span:
    """The part of the past that a backfill brings to a sink.

    Attributes:
        start: Where it begins: ``earliest`` or microseconds since the epoch, as text.
        until: Commit time to stop before, in microseconds since the epoch.
        border: The offset at which the query itself began, behind which nothing is read; None where it began at a time.
    """

    start: str
    until: int
    border: Offset | None
    directory: Path
    owner: str
    backfill_of: str


@dataclass
class BatchCounters:
    """What the batches of a running query have added up to, beside what Spark tells."""

    letters: int = 0
    late: int = 0
    fallen_back: int = 0
    refused: int = 0
    rows_total: int | None = None
    figures: Counter[str] = field(default_factory=Counter)

    def add(self, written: Written, kept: Kept, refused: int) -> None:
        self.refused += refused
        self.letters += kept.letters
        self.late += kept.late
        self.fallen_back += kept.fallen_back
        self.rows_total = written.rows_total if written.rows_total is not None else self.rows_total
        self.figures.update(written.figures)


class RunningQuery:
    """One Spark query from its start to its end. Owned by the driver, which starts a new one after a failure.

    Args:
        positions: Where each input goes on, by stream; none where it begins.
    """

    def __init__(self, inputs: tuple[ViewInput, ...], positions: list[dict[str, str]]) -> None:
        self.inputs = inputs
        self.positions = positions
        self._query: StreamingQuery | None = None
        self._is_known = Event()
        self._sink_error: str | None = None
        #: The failure of its sink after which that tries again, within a micro-batch; None while there is none.
        self.retried_after: str | None = None
        self._progress_seen = ""
        self._counters = BatchCounters()
        self._lock = Lock()

    def __repr__(self) -> str:
        return f"RunningQuery({self._query.name if self._query is not None else 'not started'})"

    @property
    def is_active(self) -> bool:
        return self._started.isActive

    def recent_progress(self) -> list[dict[str, Any]]:
        """Spark's figures of the last micro-batches, the oldest first; none if there are no newer ones."""
        query = self._started._jsq
        newest = query.lastProgress()
        if newest is None:
            return []
        # Most looks find nothing new, and Spark writes each of the figures out again.
        stamp = f"{newest.batchId()} {newest.timestamp()}"
        if stamp == self._progress_seen:
            return []
        found = [json.loads(progress.json()) for progress in query.recentProgress()]
        self._progress_seen = stamp
        return found

    def take_counters(self) -> BatchCounters:
        with self._lock:
            counters, self._counters = self._counters, BatchCounters()
        return counters

    def count(self, written: Written, kept: Kept, refused: int) -> None:
        with self._lock:
            self._counters.add(written, kept, refused)

    def tell_retry(self, error: str | None) -> None:
        self.retried_after = error

    def facts(self) -> BatchFacts:
        """What Spark has counted of the batch that is being written; asked by the function that writes it."""
        self._is_known.wait(_START_S)
        return BatchFacts.of(self._started._jsq.streamingQuery().lastExecution())

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
                self.retried_after = None
            except Exception as error:  # noqa: BLE001 (whatever it is, Spark must get it as a sentence)
                self._sink_error = sentence_of(error)
                # Without the stack traces of Spark, which Spark would take for the failure of this function.
                raise SinkError(self._sink_error) from None

        self._query = writer.foreachBatch(write_batch).start()
        self._is_known.set()

    @property
    def _started(self) -> StreamingQuery:
        if self._query is None:
            raise RuntimeError("the query was not started")
        return self._query


@dataclass(frozen=True)
class PreparedQuery:
    """A query that Spark has analyzed and that fits its checkpoint; `start` runs it."""

    name: str
    rows: DataFrame
    sink: Sink
    mode: OutputMode
    directory: Path
    identity: Identity
    leftovers: Leftovers
    inputs: tuple[ViewInput, ...]
    settings: RunSettings
    letters_max: int
    span: Span | None = None

    def start(self) -> RunningQuery:
        """Start it from where its checkpoint says, or from the beginning."""
        write_identity(self.directory, self.identity)
        running = RunningQuery(self.inputs, positions_reached(self.directory))
        owner = self.span.owner if self.span is not None else self.identity.id
        backfill_of = self.span.backfill_of if self.span is not None else None
        settings = self.settings

        def write(rows: DataFrame, number: int) -> None:
            refusals = RefusedRows(self.name, self.directory, number, self.letters_max)
            output, mqtt = settings.output, settings.mqtt
            refuse, tell_retry = refusals.refuse, running.tell_retry
            batch = MicroBatch(self.name, owner, number, output, mqtt, refuse, backfill_of, tell_retry)
            written = writing.write_batch(self.sink, rows, batch)
            facts = running.facts()
            # What a run that was killed had refused is of rows that are not counted now.
            refused = refusals.count if facts.output else 0
            running.count(written, self.leftovers.keep(number, facts, refusals, rows.schema), refused)

        # Counted inside Spark while the batch is written; counting the rows apart would compute the batch twice.
        counted = self.rows.observe(OUTPUT_METRICS, F.count(F.lit(1)).alias("rows"))
        writer = counted.writeStream.queryName(self.name).outputMode(self.mode.value)
        writer = writer.option("checkpointLocation", str(self.directory.resolve()))
        if settings.trigger_s is None:
            writer = writer.trigger(availableNow=True)
        else:
            writer = writer.trigger(processingTime=f"{max(1, round(settings.trigger_s * 1000))} milliseconds")
        running.start(writer, write)
        return running


def prepare_query(
    session: SparkSession, pipeline: Pipeline, name: str, settings: RunSettings, span: Span | None = None
) -> PreparedQuery:
    """Analyze one query of a pipeline by Spark, and compare it with its checkpoint."""
    job = pipeline.job(name)
    directory = span.directory if span is not None else query_directory(settings.checkpoint, job)
    identity = read_identity(directory)
    if identity is None:
        starts = first_starts(pipeline, job, settings.source) if span is None else {name: span.start}
        identity = new_identity(starts)

    def read(session: SparkSession, messages: ViewInput) -> DataFrame:
        if span is not None:
            return stream_until(session, dict(messages.options), span.until, span.border)
        return session.readStream.format(FORMAT).options(**messages.options).load()

    builder = ViewBuilder(session, pipeline, settings.source, read, identity.starts)
    rows = builder.rows(name)
    check_rows(pipeline, name, rows)
    definition = definition_of(pipeline, name, builder, rows)
    if identity.definition is not None and (why := unsound_change(identity.definition, definition)):
        raise DefinitionChangedError(
            f"{job.origin}: {name} cannot go on with its checkpoint {directory}: {why}. Undo the change, or set "
            f"version = {job.version + 1} in {name}: it then begins again, with a checkpoint of its own"
        )
    inputs = streaming_inputs(rows, job.views, job.mode is not OutputMode.COMPLETE)
    owner = span.owner if span is not None else identity.id
    fallbacks = job.fallbacks if isinstance(job, RuleJob) else None
    leftovers = Leftovers(
        session, pipeline, name, settings.source, settings.output, directory, owner, identity.starts, inputs
    )
    return PreparedQuery(
        name=name,
        rows=complete_rows(rows, job.required, REFUSED_METRICS),
        sink=pipeline.sink(name),
        mode=job.mode,
        directory=directory,
        identity=replace(identity, definition=definition),
        leftovers=leftovers,
        inputs=tuple(builder.messages(each.view) for each in inputs),
        settings=settings,
        letters_max=pipeline.dead_letters.batch_rows_max if fallbacks is None else sys.maxsize,
        span=span,
    )


def check_pipeline(session: SparkSession, pipeline: Pipeline, source: Mapping[str, str]) -> list[str]:
    """Analyze every query and view of a pipeline by Spark; return the names of the queries."""
    mistakes = []
    for name in pipeline.query_names:
        fault = library_fault(pipeline.sink(name), session)
        if fault is not None:
            mistakes.append(f"{pipeline.job(name).origin}: {name}: {fault}")
        try:
            _check(session, pipeline, name, source)
        except RuleFileError as error:
            mistakes += error.mistakes
        except (AnalysisException, ParseException, PySparkException, ValueError) as error:
            mistakes.append(f"{pipeline.job(name).origin}: {name}: {sentence_of(error)}")
    if mistakes:
        raise RuleFileError(*mistakes)
    return pipeline.query_names


def check_rows(pipeline: Pipeline, name: str, rows: DataFrame) -> None:
    try:
        writing.check_rows(pipeline.sink(name), rows.schema)
    except SinkError as error:
        raise RuleFileError(f"{pipeline.job(name).origin}: {name}: {error}") from error


def _check(session: SparkSession, pipeline: Pipeline, name: str, source: Mapping[str, str]) -> None:
    builder = ViewBuilder(session, pipeline, source, _stream)
    job = pipeline.job(name)
    rows = complete_rows(builder.rows(name), job.required, REFUSED_METRICS)
    check_rows(pipeline, name, rows)
    jvm: Any = session._jvm
    mode = getattr(jvm.org.apache.spark.sql.streaming.OutputMode, job.mode.value.capitalize())()
    # What Spark itself asks when a query starts: not every query that it can analyze can be a stream.
    jvm.org.apache.spark.sql.catalyst.analysis.UnsupportedOperationChecker.checkForStreaming(analyzed(rows), mode)


def _stream(session: SparkSession, messages: ViewInput) -> DataFrame:
    return session.readStream.format(FORMAT).options(**messages.options).load()
