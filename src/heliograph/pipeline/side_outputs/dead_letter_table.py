"""Reads the dead-letter table: counts, shows, and brings letters to their sink after the rule was mended.

A letter that was replayed stays in the table with the time of it, until its retention ends. A file of letters is
replayed as one batch with an identity of its own, so that a replay which is interrupted between the sink and the mark
brings nothing twice to a sink that knows batches.
"""

import json
import os
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 (Spark's own convention)

from heliograph.pipeline.errors import OptionError, SinkError
from heliograph.pipeline.files.definition import Pipeline, RuleJob
from heliograph.pipeline.running.identity import query_directory, read_identity
from heliograph.pipeline.running.queries import RunSettings
from heliograph.pipeline.side_outputs.side_tables import batches_in
from heliograph.pipeline.sinks import MicroBatch
from heliograph.pipeline.sinks.arrow_rows import ArrowRows
from heliograph.pipeline.sinks.template import quoted
from heliograph.rules.spark.outcomes import evaluate_outcomes
from heliograph.storage.durable_files import force_to_disk

_REPLAYS: Final = b"heliograph.replays"
_PAYLOAD_SHOWN: Final = 200
_CHUNK_ROWS: Final = 10_000


@dataclass
class LetterCount:
    """The dead letters of one rule and cause."""

    rule: str
    cause: str
    waiting: int = 0
    replayed: int = 0
    newest: datetime | None = None
    reason: str = ""

    def to_json(self) -> dict[str, Any]:
        """As a JSON object."""
        document = {item.name: getattr(self, item.name) for item in fields(self)}
        return document | {"newest": self.newest.isoformat() if self.newest is not None else None}

    def cells(self) -> tuple[str, ...]:
        """As cells of a table."""
        newest = self.newest.isoformat(timespec="seconds") if self.newest is not None else ""
        return (self.rule, self.cause, f"{self.waiting:,}", f"{self.replayed:,}", newest, self.reason.split("\n")[0])


@dataclass(frozen=True)
class Letter:
    """One dead letter: its columns by name."""

    values: Mapping[str, Any]

    def to_json(self) -> dict[str, Any]:
        """As a JSON object; bytes are text where they are text, else hexadecimal."""
        return {name: _plain(value) for name, value in self.values.items()}

    def to_text(self) -> str:
        """As lines for people."""
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
    """What a replay came to: letters that were brought to the sink, their rows, and the letters that stay."""

    letters: int = 0
    rows: int = 0
    kept: int = 0

    def to_json(self) -> dict[str, int]:
        """As a JSON object."""
        return {"letters": self.letters, "rows": self.rows, "kept": self.kept}


def count_letters(table: Path) -> list[LetterCount]:
    """How many letters a table holds of each rule and cause."""
    counts: dict[tuple[str, str], LetterCount] = {}
    for file in (file for query in _queries(table) for file in _files(query)):
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
    """The letters of a rule, the newest batches first."""
    shown = 0
    files = [file for query in _queries(table) for file in _files(query)]
    for file in sorted(files, key=lambda file: file.parent.stat().st_mtime_ns, reverse=True):
        for row in pq.read_table(file).to_pylist():
            if row["rule"] != rule or (row["replayed_at"] is not None and not with_replayed):
                continue
            if shown == limit:
                return
            shown += 1
            yield Letter(row)


def replay_letters(session: SparkSession, pipeline: Pipeline, name: str, settings: RunSettings) -> Replayed:
    """Run a rule as it is now over its waiting letters, and bring the rows to its sink.

    Raises:
        OptionError: It is no rule with a sink, or never ran.
        SinkError: The sink did not take the rows; the letters wait on.
    """
    rule = pipeline.rules.get(name)
    if rule is None:
        raise OptionError("RULE", name, "a rule: what a job in Spark SQL refused is of no single message")
    identity = read_identity(query_directory(settings.checkpoint, rule))
    if identity is None:
        raise OptionError("--checkpoint", str(settings.checkpoint), f"the checkpoint with which {name} has run")
    replayed = Replayed()
    for file in list(_files(settings.output / pipeline.dead_letters.path / name)):
        _Replay(session, pipeline, rule, settings, identity.id, file).run(replayed)
    return replayed


class _Replay:
    """The replay of one file of letters."""

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
        self._file = file
        self._refused: list[tuple[str, str]] = []

    def run(self, replayed: Replayed) -> None:
        letters = pq.read_table(self._file)
        unread = [number for number, at in enumerate(letters["replayed_at"].to_pylist()) if at is None]
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
            count = self._write(whole.select("out.*"), letters)
            refused = self._refused_letters(whole)
        finally:
            rows.unpersist()
        stay = {number: error for number, error in outcome.items() if error is not None}
        stay |= dict.fromkeys(lacking, "a required column has no value") | refused
        self._mark(letters, [number for number in waiting if number not in stay], stay)
        replayed.letters += len(waiting) - len(stay)
        replayed.rows += count - len(self._refused)
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

    def _write(self, rows: DataFrame, letters: pa.Table) -> int:
        count = rows.count()
        if count == 0:
            return 0
        attempt = int((letters.schema.metadata or {}).get(_REPLAYS, b"0"))
        place = f"replay:{self._file.parent.name}/{self._file.name}:{attempt}"
        owner = str(uuid.uuid5(uuid.UUID(self._query), place))
        settings = self._settings
        batch = MicroBatch(self._rule.name, owner, 0, settings.output, settings.mqtt, self._refuse, self._query)
        self._pipeline.sink(self._rule.name).write(rows, batch)
        return count

    def _refuse(self, row: Mapping[str, Any], reason: str) -> None:
        self._refused.append((_comparable(row), reason))

    def _refused_letters(self, rows: DataFrame) -> dict[int, str]:
        """The letters whose rows the sink refused again; told by the rows' values as text."""
        if not self._refused:
            return {}
        reasons = dict(self._refused)
        found = {}
        # By Arrow, as the sinks have them: Spark's own rows have other times and bytes.
        given = ArrowRows(rows.select("_letter", "out.*"))
        for chunk in given.chunks(_CHUNK_ROWS):
            for index in range(chunk.num_rows):
                row = given.row(chunk, index)
                letter = row.pop("_letter")
                text = _comparable(row)
                if text in reasons:
                    found[letter] = reasons[text]
        return found

    def _mark(self, letters: pa.Table, done: list[int], stay: Mapping[int, str]) -> None:
        now = datetime.now(UTC)
        kind = letters.schema.field("replayed_at").type
        times = [now if number in set(done) else at for number, at in enumerate(letters["replayed_at"].to_pylist())]
        reasons = [stay.get(number, reason) for number, reason in enumerate(letters["reason"].to_pylist())]
        marked = _replaced(letters, "replayed_at", pa.array(times, kind))
        marked = _replaced(marked, "reason", pa.array(reasons, pa.string()))
        metadata = dict(letters.schema.metadata or {})
        metadata[_REPLAYS] = str(int(metadata.get(_REPLAYS, b"0")) + 1).encode()
        unfinished = self._file.with_name(f".{self._file.name}.unfinished")
        kept_time = self._file.parent.stat()
        try:
            pq.write_table(marked.replace_schema_metadata(metadata), unfinished, compression="zstd")
            force_to_disk(unfinished)
            unfinished.rename(self._file)
            force_to_disk(self._file.parent)
            # The age of a batch is that of its letters, not of their replay.
            os.utime(self._file.parent, ns=(kept_time.st_atime_ns, kept_time.st_mtime_ns))
        except OSError as error:
            raise SinkError(f"{self._file} cannot be written: {error}") from error


def _kept_as_text(letters: pa.Table, waiting: list[int]) -> set[int]:
    """Those without a message whose row could not be kept as JSON, so that nothing can be made of it again."""
    topics, rows = letters["topic"].to_pylist(), letters["row"].to_pylist()
    return {number for number in waiting if topics[number] is None and not _is_json(rows[number])}


def _is_json(text: str | None) -> bool:
    try:
        return text is not None and isinstance(json.loads(text), dict)
    except ValueError:
        return False


def _comparable(value: object) -> str:
    """A row as text that is the same however a sink has read it."""
    if isinstance(value, Mapping):
        return "{" + ", ".join(sorted(f"{key}: {_comparable(item)}" for key, item in value.items())) + "}"
    if isinstance(value, list):
        is_map = bool(value) and all(isinstance(item, tuple) and len(item) == 2 for item in value)
        return _comparable(dict(value)) if is_map else "[" + ", ".join(map(_comparable, value)) + "]"
    if isinstance(value, datetime):
        return (value if value.tzinfo is None else value.astimezone(UTC)).isoformat()
    return bytes(value).hex() if isinstance(value, bytes | bytearray) else str(value)


def _replaced(table: pa.Table, name: str, values: pa.Array) -> pa.Table:
    return table.set_column(table.schema.get_field_index(name), name, values)


def _queries(table: Path) -> list[Path]:
    return sorted(place for place in table.iterdir() if place.is_dir()) if table.is_dir() else []


def _files(query: Path) -> Iterator[Path]:
    for place in batches_in(query):
        yield from sorted(place.glob("*.parquet"))


def _plain(value: Any) -> Any:
    if isinstance(value, bytes):
        try:
            return value.decode("utf-8") if len(value) != 16 or value.isascii() else value.hex()
        except UnicodeDecodeError:
            return value.hex()
    if isinstance(value, datetime):
        return value.isoformat()
    return dict(value) if isinstance(value, list) else value
