"""Reads the dead-letter table: counts, shows, and brings letters to their sink after the rule was mended.

A letter that was replayed stays in the table with the time of it, until its retention ends. How letters go to the sink
once is `heliograph.pipeline.side_outputs.replayed_files`'s.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from datetime import datetime
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 (Spark's own convention)

from heliograph.pipeline.errors import OptionError
from heliograph.pipeline.files.definition import Pipeline, RuleJob
from heliograph.pipeline.running.identity import query_directory, read_identity
from heliograph.pipeline.running.queries import RunSettings
from heliograph.pipeline.side_outputs.replayed_files import RefusedAgain, ReplayedFile
from heliograph.pipeline.side_outputs.side_tables import files_in, queries_in
from heliograph.pipeline.sinks import MicroBatch
from heliograph.pipeline.sinks.spark.template_columns import quoted
from heliograph.pipeline.sinks.spark.writing import write_batch
from heliograph.rules.spark.frames import evaluate_outcomes

_PAYLOAD_SHOWN: Final = 200


@dataclass
class LetterCount:
    rule: str
    cause: str
    waiting: int = 0
    replayed: int = 0
    newest: datetime | None = None
    reason: str = ""

    def to_json(self) -> dict[str, Any]:
        document = {item.name: getattr(self, item.name) for item in fields(self)}
        return document | {"newest": self.newest.isoformat() if self.newest is not None else None}

    def cells(self) -> tuple[str, ...]:
        newest = self.newest.isoformat(timespec="seconds") if self.newest is not None else ""
        return (self.rule, self.cause, f"{self.waiting:,}", f"{self.replayed:,}", newest, self.reason.split("\n")[0])


@dataclass(frozen=True)
class Letter:
    """One dead letter: its columns by name."""

    values: Mapping[str, Any]

    def to_json(self) -> dict[str, Any]:
        """As a JSON object; bytes that are no text are hexadecimal."""
        return {name: _plain(value) for name, value in self.values.items()}

    def to_text(self) -> str:
        of = self.to_json()
        replayed = f", replayed {of['replayed_at']}" if of["replayed_at"] else ""
        lines = [f"{of['refused_at']}  {of['cause']}: {of['reason']}{replayed}"]
        if of["topic"] is not None:
            lines.append(f"  message {of['guid']} of {of['clientid']} to {of['topic']}")
            lines.append(f"  stored {of['stored_at']} in {of['stream']}; payload {str(of['payload'])[:_PAYLOAD_SHOWN]}")
        if of["row"] is not None:
            lines.append(f"  row {of['row']}")
        return "\n".join(lines)


@dataclass
class Replayed:
    """What a replay came to: letters that the sink has, their rows, and the letters that stay."""

    letters: int = 0
    rows: int = 0
    kept: int = 0

    def to_json(self) -> dict[str, int]:
        return {"letters": self.letters, "rows": self.rows, "kept": self.kept}


def count_letters(table: Path) -> list[LetterCount]:
    counts: dict[tuple[str, str], LetterCount] = {}
    for file in (file for query in queries_in(table) for file in files_in(query)):
        for row in pq.read_table(file, columns=["rule", "cause", "reason", "refused_at", "replayed_at"]).to_pylist():
            count = counts.setdefault((row["rule"], row["cause"]), LetterCount(row["rule"], row["cause"]))
            if row["replayed_at"] is not None:
                count.replayed += 1
                continue
            count.waiting += 1
            if count.newest is None or row["refused_at"] >= count.newest:
                count.newest, count.reason = row["refused_at"], row["reason"]
    return sorted(counts.values(), key=lambda count: (count.rule, count.cause))


def show_letters(table: Path, rule: str, limit: int, with_replayed: bool = False) -> Iterator[Letter]:
    shown = 0
    files = [file for query in queries_in(table) for file in files_in(query)]
    for file in sorted(files, key=lambda file: file.parent.stat().st_mtime_ns, reverse=True):
        for row in pq.read_table(file).to_pylist():
            if row["rule"] != rule or (row["replayed_at"] is not None and not with_replayed):
                continue
            if shown == limit:
                return
            shown += 1
            yield Letter(row)


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
        self._refused = RefusedAgain()

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
            refused = self._refused.among(whole.select("_letter", "out.*"), "_letter")
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
        owner, refuse = self._file.owner(self._query, "replay"), self._refused.refuse
        settings = self._settings
        batch = MicroBatch(self._rule.name, owner, 0, settings.output, settings.mqtt, refuse, self._query)
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


def _plain(value: Any) -> Any:
    if isinstance(value, bytes):
        try:
            return value.decode("utf-8") if len(value) != 16 or value.isascii() else value.hex()
        except UnicodeDecodeError:
            return value.hex()
    if isinstance(value, datetime):
        return value.isoformat()
    return dict(value) if isinstance(value, list) else value
