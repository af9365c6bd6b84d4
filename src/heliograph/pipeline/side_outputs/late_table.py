"""The table of late rows: counts and shows them, and brings them to a place that the user names, each once.

They do not go to the sink of their query. What the query made of their windows or keys is final, and its state is
forgotten: a sink that appends would get a second row of a window, one with a key would have its result replaced by that
of the late rows alone, and whether a row that was deduplicated came before is not known any more. So they go as they
arrived to a table or sink of their own, as late data does in a side output of Flink.
"""

import re
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession

from heliograph.pipeline.errors import OptionError
from heliograph.pipeline.files.definition import Pipeline
from heliograph.pipeline.running.identity import query_directory, read_identity
from heliograph.pipeline.running.queries import RunSettings
from heliograph.pipeline.side_outputs.late_rows import rows_as_they_were
from heliograph.pipeline.side_outputs.replayed_files import REPLAYED_AT, RefusedAgain, ReplayedFile
from heliograph.pipeline.side_outputs.side_tables import files_in, queries_in, with_zone
from heliograph.pipeline.sinks import MicroBatch, Sink
from heliograph.pipeline.sinks.parquet import ParquetSink
from heliograph.pipeline.sinks.spark.arrow_rows import ArrowRows
from heliograph.pipeline.sinks.spark.writing import check_rows, write_batch

_TABLE: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,255}")
_NUMBER: Final = "_late"


@dataclass
class LateCount:
    """The late rows of one view of a query; the newest is of those that wait."""

    query: str
    view: str
    waiting: int = 0
    replayed: int = 0
    newest: datetime | None = None

    def to_json(self) -> dict[str, Any]:
        newest = None if self.newest is None else self.newest.isoformat()
        counts = {"waiting": self.waiting, "replayed": self.replayed}
        return {"query": self.query, "view": self.view, **counts, "newest": newest}

    def cells(self) -> tuple[str, ...]:
        newest = "" if self.newest is None else self.newest.isoformat(timespec="seconds")
        return (self.query, self.view, f"{self.waiting:,}", f"{self.replayed:,}", newest)


def count_late_rows(table: Path) -> list[LateCount]:
    counts: dict[tuple[str, str], LateCount] = {}
    for query in queries_in(table):
        for file in files_in(query):
            for row in pq.read_table(file, columns=["view", "event_time", REPLAYED_AT]).to_pylist():
                count = counts.setdefault((query.name, row["view"]), LateCount(query.name, row["view"]))
                if row[REPLAYED_AT] is not None:
                    count.replayed += 1
                    continue
                count.waiting += 1
                at = with_zone(row["event_time"])
                if count.newest is None or at > count.newest:
                    count.newest = at
    return sorted(counts.values(), key=lambda count: (count.query, count.view))


def show_late_rows(table: Path, query: str, limit: int, with_replayed: bool = False) -> Iterator[dict[str, Any]]:
    shown = 0
    for file in reversed(list(files_in(table / query))):
        for row in pq.read_table(file).drop_columns(["row_schema"]).to_pylist():
            if row[REPLAYED_AT] is not None and not with_replayed:
                continue
            if shown == limit:
                return
            shown += 1
            yield {name: _plain(value) for name, value in row.items()}


def _plain(value: Any) -> Any:
    return with_zone(value).isoformat() if isinstance(value, datetime) else value


@dataclass
class LateReplay:
    """What a replay came to: rows that were brought, those that stay since the sink refuses them, and why it does."""

    target: str
    rows: int = 0
    kept: int = 0
    reason: str | None = None

    def to_json(self) -> dict[str, int | str | None]:
        return {"target": self.target, "rows": self.rows, "kept": self.kept, "reason": self.reason}

    def to_text(self) -> str:
        reason = f" ({self.reason})" if self.reason else ""
        return f"{self.rows:,} late rows replayed to {self.target}, {self.kept:,} stay{reason}"


def late_target(pipeline: Pipeline, table: str | None, sink: str | None) -> Sink:
    option, name = ("--table", table or "") if sink is None else ("--sink", sink)
    if sink is None:
        _check_table(pipeline, name)
        target: Sink = ParquetSink(name)
    elif sink in pipeline.sinks:
        target = pipeline.sinks[sink]
    else:
        named = ", ".join(pipeline.sinks) or "none"
        raise OptionError(option, name, f"a sink with a name of its own in the pipeline's file; there are: {named}")
    for query in pipeline.query_names:
        for owned in pipeline.sink(query).owned:
            if any(_is_within(owned, own) or _is_within(own, owned) for own in target.owned):
                raise OptionError(option, name, f"a place that no query writes: {query} writes {owned}")
    return target


def replay_late_rows(
    session: SparkSession, pipeline: Pipeline, name: str, settings: RunSettings, target: Sink, view: str | None = None
) -> LateReplay:
    """Bring the waiting late rows of a query to a target: of one view, or of the only one that has any."""
    identity = read_identity(query_directory(settings.checkpoint, pipeline.job(name)))
    if identity is None:
        raise OptionError("--checkpoint", str(settings.checkpoint), f"the checkpoint with which {name} has run")
    replay = LateReplay(target.target)
    files = list(files_in(settings.output / pipeline.late.path / name))
    views = [view] if view is not None else _views_waiting(files)
    if len(views) > 1:
        raise OptionError("--view", "", f"one of {', '.join(views)}: the rows of each have columns of their own")
    for file in files if views else ():
        _ViewReplay(session, settings, identity.id, name, views[0], target).run(ReplayedFile(file), replay)
    return replay


def _check_table(pipeline: Pipeline, name: str) -> None:
    if not _TABLE.fullmatch(name):
        raise OptionError("--table", name, "the name of a table below --output: letters, digits, - and _")
    if name in (Path(path).parts[0] for path, _ in pipeline.side_tables.values()):
        raise OptionError("--table", name, "another name: the pipeline keeps what was left out there")


def _is_within(one: str, other: str) -> bool:
    return one == other or one.startswith(f"{other}/")


def _views_waiting(files: Sequence[Path]) -> list[str]:
    views = set()
    for file in files:
        for row in pq.read_table(file, columns=["view", REPLAYED_AT]).to_pylist():
            if row[REPLAYED_AT] is None:
                views.add(row["view"])
    return sorted(views)


@dataclass(frozen=True)
class _ViewReplay:
    session: SparkSession
    settings: RunSettings
    identity: str
    query: str
    view: str
    target: Sink

    def run(self, file: ReplayedFile, replay: LateReplay) -> None:
        views, schemas = file.column("view"), file.column("row_schema")
        waiting = [number for number in file.waiting if views[number] == self.view]
        by_schema: dict[str, list[int]] = {}
        for number in waiting:
            by_schema.setdefault(schemas[number], []).append(number)
        stay: dict[int, str] = {}
        for row_schema, numbers in by_schema.items():
            texts = file.rows.select(["row"]).take(numbers).append_column(_NUMBER, pa.array(numbers, pa.int64()))
            rows = rows_as_they_were(self.session.createDataFrame(texts), row_schema)
            owner = file.owner(self.identity, f"late:{self.view}:{self.target.target}:{row_schema}")
            stay |= self._write(rows, owner, file.refused_again(owner))
        if waiting:
            file.mark([number for number in waiting if number not in stay])
        replay.rows += len(waiting) - len(stay)
        replay.kept += len(stay)
        replay.reason = replay.reason or next(iter(stay.values()), None)

    def _write(self, rows: DataFrame, owner: str, refused: RefusedAgain) -> dict[int, str]:
        """The numbers of the rows that the target refuses, with the reasons."""
        given = rows.drop(_NUMBER)
        check_rows(self.target, given.schema)
        # A table belongs to the late rows of one view, whose columns it has.
        table_owner = str(uuid.uuid5(uuid.UUID(self.identity), f"late:{self.view}"))
        output, mqtt = self.settings.output, self.settings.mqtt
        batch = MicroBatch(self.query, owner, 0, output, mqtt, refused.refuse, table_owner)
        write_batch(self.target, given, batch)
        return refused.among(ArrowRows(rows), _NUMBER) if refused.count else {}
