"""Checks a whole pipeline with Spark, without reading a message: what `heliograph pipeline validate` does."""

from collections.abc import Mapping
from typing import Any

from pyspark.errors import AnalysisException, ParseException, PySparkException
from pyspark.sql import DataFrame, SparkSession

from heliograph.pipeline.datasource.source import FORMAT
from heliograph.pipeline.errors import RuleFileError, SinkError, sentence_of
from heliograph.pipeline.files.definition import Pipeline
from heliograph.pipeline.running.views import ViewBuilder, ViewInput, complete_rows
from heliograph.pipeline.side_outputs.leftovers import REFUSED_METRICS
from heliograph.pipeline.side_outputs.lineage import analyzed
from heliograph.pipeline.sinks import ChecksRows
from heliograph.pipeline.sinks.libraries import library_fault


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
    sink = pipeline.sink(name)
    try:
        if isinstance(sink, ChecksRows):
            sink.check(rows.schema)
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
