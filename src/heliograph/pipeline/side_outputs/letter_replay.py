"""Replays dead letters on Spark: a rule runs again over the messages of its letters, and its rows go to its sink.

How letters go to the sink once is `heliograph.pipeline.side_outputs.replayed_files`'s.
"""

import json
from pathlib import Path

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 (Spark's own convention)

from heliograph.pipeline.errors import OptionError
from heliograph.pipeline.files.definition import Pipeline, RuleJob
from heliograph.pipeline.running.identity import query_directory, read_identity
from heliograph.pipeline.running.queries import RunSettings
from heliograph.pipeline.side_outputs.dead_letter_table import Replayed
from heliograph.pipeline.side_outputs.replayed_files import ReplayedFile
from heliograph.pipeline.side_outputs.side_tables import files_in
from heliograph.pipeline.sinks import MicroBatch
from heliograph.pipeline.sinks.spark.arrow_rows import ArrowRows
from heliograph.pipeline.sinks.spark.template_columns import quoted
from heliograph.pipeline.sinks.spark.writing import write_batch
from heliograph.rules.spark.frames import evaluate_outcomes


def replay_letters(session: SparkSession, pipeline: Pipeline, name: str, settings: RunSettings) -> Replayed:
    """Run a rule as it is now over its waiting letters, and bring the rows to its sink."""
    rule = pipeline.rules.get(name)
    if rule is None:
        raise OptionError("RULE", name, "a rule: what a job in Spark SQL refused is of no single message")
    identity = read_identity(query_directory(settings.checkpoint, rule))
    if identity is None:
        raise OptionError("--checkpoint", str(settings.checkpoint), f"the checkpoint with which {name} has run")
    replayed = Replayed()
    for file in list(files_in(settings.output / pipeline.dead_letters.path / name)):
        _Replay(session, pipeline, rule, settings, identity.id, file).run(replayed)
    return replayed


class _Replay:
    def __init__(
        self,
        session: SparkSession,
        pipeline: Pipeline,
        rule: RuleJob,
        settings: RunSettings,
        query: str,
        file: Path,
    ) -> None:
        self._session = session
        self._pipeline = pipeline
        self._rule = rule
        self._settings = settings
        self._query = query
        self._file = ReplayedFile(file)
        self._owner = self._file.owner(query, "replay")
        self._refused = self._file.refused_again(self._owner)

    def run(self, replayed: Replayed) -> None:
        letters, unread = self._file.rows, self._file.waiting
        texts = _kept_as_text(letters, unread)
        waiting = [number for number in unread if number not in texts]
        replayed.kept += len(texts)
        if not waiting:
            return
        judged = self._judged(letters, waiting)
        outcome = {row["_letter"]: row["error"] for row in judged.select("_letter", "error").collect()}
        rows = judged.where("error IS NULL").select("_letter", F.explode("rows").alias("out")).persist()
        try:
            lacking = self._lacking(rows)
            whole = rows.where(~F.col("_letter").isin(lacking)) if lacking else rows
            count = self._write(whole.select("out.*"))
            refused = {}
            if self._refused.count:
                refused = self._refused.among(ArrowRows(whole.select("_letter", "out.*")), "_letter")
        finally:
            rows.unpersist()
        stay = {number: error for number, error in outcome.items() if error is not None}
        stay |= dict.fromkeys(lacking, "a required column has no value") | refused
        reasons = [stay.get(number, reason) for number, reason in enumerate(self._file.column("reason"))]
        self._file.mark([number for number in waiting if number not in stay], {"reason": reasons})
        replayed.letters += len(waiting) - len(stay)
        replayed.rows += count - self._refused.count
        replayed.kept += len(stay)

    def _judged(self, letters: pa.Table, waiting: list[int]) -> DataFrame:
        pending = letters.take(waiting).append_column("_letter", pa.array(waiting, pa.int64()))
        frame = self._session.createDataFrame(pending)
        messages = frame.where(F.col("topic").isNotNull()).drop("row")
        of_messages = evaluate_outcomes(messages, self._rule.sql, self._rule.columns, self._pipeline.schemas)
        kind = of_messages.schema["rows"].dataType
        known = of_messages.select("_letter", "error", "rows")
        # Rows whose message was not found are brought as they are.
        parsed = F.array(F.from_json("row", kind.elementType))  # type: ignore[attr-defined]  # the type is an array
        alone = frame.where(F.col("topic").isNull())
        return known.unionByName(
            alone.select("_letter", F.lit(None).cast("string").alias("error"), parsed.cast(kind).alias("rows"))
        )

    def _lacking(self, rows: DataFrame) -> list[int]:
        if not self._rule.required:
            return []
        absent = F.lit(False)
        for column in self._rule.required:
            absent = absent | F.col(f"out.{quoted(column)}").isNull()
        return [row["_letter"] for row in rows.where(absent).select("_letter").distinct().collect()]

    def _write(self, rows: DataFrame) -> int:
        count = rows.count()
        if count == 0:
            return 0
        settings, refuse = self._settings, self._refused.refuse
        batch = MicroBatch(self._rule.name, self._owner, 0, settings.output, settings.mqtt, refuse, self._query)
        write_batch(self._pipeline.sink(self._rule.name), rows, batch)
        return count


def _kept_as_text(letters: pa.Table, waiting: list[int]) -> set[int]:
    """Those without a message whose row could not be kept as JSON, so that nothing can be made of it again."""
    topics, rows = letters["topic"].to_pylist(), letters["row"].to_pylist()
    return {number for number in waiting if topics[number] is None and not _is_json(rows[number])}


def _is_json(text: str | None) -> bool:
    try:
        return text is not None and isinstance(json.loads(text), dict)
    except ValueError:
        return False
