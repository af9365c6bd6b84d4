"""Generations as Parquet files, in a directory or an object store, through `pyarrow.fs`.

    TARGET/database=DATABASE/shard=SHARD/day=YYYY-MM-DD/generation-N.parquet   rows of one day (UTC, of `stored_at`)
    TARGET/database=DATABASE/_generation-N.json                                written last: what there is

The columns are `arrow_rows.FILE_COLUMNS`: those of the reader but `position`, and `shard`, which Hive's way of naming
directories gives back when the directory is read as one table. A generation whose `.json` is there was exported
whole and is left out the next time; one that was cut off in the middle is written again. Streams come one after
another, each in its order.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import fs, parquet

from heliograph.storage.columnar.arrow_rows import FILE_COLUMNS, RowCollector
from heliograph.storage.columnar.catalog import Catalog, Generation
from heliograph.storage.columnar.damage import SKIP, readable_slices
from heliograph.storage.columnar.replay import Fetch, Selection, block_slices, select, whole_slices
from heliograph.storage.columnar.salvage import Damage
from heliograph.storage.engine import Rdict
from heliograph.storage.errors import StorageError
from heliograph.storage.interface import BEGINNING, END, StreamId
from heliograph.storage.topic_filter import TopicFilter
from heliograph.storage.topic_structure import StreamMatch

_ROW_GROUP_ROWS: Final = 128 << 10
_WAITING_BYTES_MAX: Final = 64 << 20
_OPEN_FILES_MAX: Final = 32


class ExportError(StorageError):
    """The target cannot be written."""

    code = "storage_export"
    advice = "Give a directory, or a URI that pyarrow.fs knows, such as s3://bucket/path."


@dataclass(frozen=True, slots=True)
class ExportOptions:
    """What to export.

    Attributes:
        topics: Only messages of these topics; all if empty.
        with_current: Also generations that are still written, as far as they are; those are not marked as complete.
    """

    topics: tuple[TopicFilter, ...] = ()
    with_current: bool = False
    on_damage: str = "fail"
    fetch: Fetch | None = None


@dataclass(slots=True)
class ExportReport:
    """What was done: files and messages written, generations that had been exported before, and what was left out."""

    files: int = 0
    messages: int = 0
    generations: int = 0
    known_generations: int = 0
    damages: int = 0


def open_target(target: str) -> tuple[fs.FileSystem, str]:
    """The file system and path of a directory or URI."""
    try:
        if "://" in target:
            found: tuple[fs.FileSystem, str] = fs.FileSystem.from_uri(target)
            return found
        return fs.LocalFileSystem(), target
    except (pa.ArrowException, OSError) as error:
        raise ExportError(f"{target!r} cannot be used: {error}", database="") from error


def export_database(
    database: Rdict, catalog: Catalog, target: tuple[fs.FileSystem, str], options: ExportOptions
) -> ExportReport:
    """Write what was not exported before."""
    filesystem, path = target
    root = f"{path.rstrip('/')}/database={catalog.name}"
    report = ExportReport()
    try:
        for number in sorted({generation.info.number for generation in catalog.generations()}):
            parts = [one for one in catalog.generations() if one.info.number == number]
            is_sealed = all(one.info.until is not None for one in parts)
            note = f"{root}/_generation-{number}.json"  # readers of Parquet leave out names that begin so
            if not is_sealed and not options.with_current:
                continue
            if filesystem.get_file_info(note).type == fs.FileType.File:
                report.known_generations += 1
                continue
            damages_before = report.damages
            files = [
                file for generation in parts for file in _export(database, catalog, generation, target, options, report)
            ]
            report.generations += 1
            if is_sealed:
                since, until = parts[0].info.since, parts[0].info.until
                fields = {"generation": number, "since": since, "until": until, "files": files, "site": catalog.site}
                fields["topics"] = [topic.text for topic in options.topics]
                fields["damages"] = report.damages - damages_before
                filesystem.create_dir(root, recursive=True)
                with filesystem.open_output_stream(note) as out:
                    out.write(json.dumps(fields).encode())
    except (pa.ArrowException, OSError) as error:
        raise ExportError(f"{path!r} cannot be written: {error}", database=catalog.name) from error
    return report


def _export(
    database: Rdict,
    catalog: Catalog,
    generation: Generation,
    target: tuple[fs.FileSystem, str],
    options: ExportOptions,
    report: ExportReport,
) -> list[str]:
    """Write one generation of one shard; returns the names of its files below the target."""
    with _DayFiles(target, catalog.name, generation) as days:
        for stream in catalog.streams_in(generation):
            for batch in _rows(database, catalog, stream, options, report):
                days.write(batch)
    report.files += len(days.files)
    report.messages += days.rows
    return days.files


def _rows(
    database: Rdict, catalog: Catalog, stream: StreamId, options: ExportOptions, report: ExportReport
) -> Iterator[pa.RecordBatch]:
    selection: Selection | None = Selection([StreamMatch(stream.number, "", None, True)])
    if options.topics:
        selection = select(catalog, stream, options.topics)
    if selection is None:
        return
    rows = RowCollector(stream, None if selection.covered else options.topics, FILE_COLUMNS)
    if options.on_damage != SKIP:
        slices = block_slices(database, stream, selection, BEGINNING, END)
        yield from rows.batches(whole_slices(database, slices, stream, options.fetch))
        return
    damages: list[Damage] = []
    slices = readable_slices(database, stream, selection, BEGINNING, END, damages.append)
    yield from rows.batches(whole_slices(database, slices, stream, options.fetch))
    report.damages += len(damages)


class _DayFiles:
    """The files of one generation of one shard while they are written, one for each day; few are open at a time."""

    def __init__(self, target: tuple[fs.FileSystem, str], database: str, generation: Generation) -> None:
        self._filesystem, path = target
        self._path = path.rstrip("/")
        self._folder = f"database={database}/shard={generation.info.shard}"
        self._name = f"generation-{generation.info.number}"
        self._open: dict[str, parquet.ParquetWriter] = {}
        self._parts: dict[str, int] = {}
        self._waiting: dict[str, list[pa.RecordBatch]] = {}
        self._waiting_bytes = 0
        self.files: list[str] = []
        self.rows = 0

    def __enter__(self) -> "_DayFiles":
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        try:
            if kind is None:
                self._write_waiting()
        finally:
            for writer in self._open.values():
                writer.close()
            self._open.clear()

    def write(self, batch: pa.RecordBatch) -> None:
        """Take rows for the files of their days; those of several streams become one row group."""
        days = pc.strftime(batch.column("stored_at"), format="%Y-%m-%d")
        self.rows += batch.num_rows
        self._waiting_bytes += batch.nbytes
        if days[0] == days[-1]:  # a stream's times only grow
            self._waiting.setdefault(days[0].as_py(), []).append(batch)
        else:
            for day in pc.unique(days).to_pylist():
                self._waiting.setdefault(day, []).append(batch.filter(pc.equal(days, day)))
        if self._waiting_bytes >= _WAITING_BYTES_MAX:
            self._write_waiting()

    def _write_waiting(self) -> None:
        waiting, self._waiting, self._waiting_bytes = self._waiting, {}, 0
        for day, batches in sorted(waiting.items()):
            table = pa.Table.from_batches(batches)
            self._writer(day, table.schema).write_table(table, row_group_size=_ROW_GROUP_ROWS)

    def _writer(self, day: str, schema: pa.Schema) -> parquet.ParquetWriter:
        writer = self._open.get(day)
        if writer is None:
            if len(self._open) >= _OPEN_FILES_MAX:
                self._open.pop(next(iter(self._open))).close()
            part = self._parts[day] = self._parts.get(day, 0) + 1
            folder = f"{self._folder}/day={day}"
            file = f"{folder}/{self._name}{'' if part == 1 else f'-{part}'}.parquet"
            self._filesystem.create_dir(f"{self._path}/{folder}", recursive=True)
            writer = parquet.ParquetWriter(
                f"{self._path}/{file}", schema, filesystem=self._filesystem, compression="zstd"
            )
            self._open[day] = writer
            self.files.append(file)
        return writer
