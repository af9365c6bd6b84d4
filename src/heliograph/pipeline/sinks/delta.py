"""The sink `delta`: rows in a Delta Lake table, each batch in one commit that also says which batch it was."""

import logging
import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final
from urllib.parse import urlsplit

import pyarrow as pa
from pyspark.sql import DataFrame

from heliograph.pipeline.errors import SinkError
from heliograph.pipeline.sinks.files import TablePath
from heliograph.pipeline.sinks.interface import (
    COLUMNS,
    INSTALL,
    NEWEST_BY,
    ColumnNames,
    MicroBatch,
    OutputMode,
    Written,
    check_newest_by,
)
from heliograph.pipeline.sinks.keyed_rows import check_newest_columns, newer_condition
from heliograph.pipeline.sinks.lakes import LakeSink, StagedRows, staged_rows
from heliograph.pipeline.sinks.rejected_rows import Naming
from heliograph.pipeline.sinks.rows import RowField
from heliograph.pipeline.sinks.spark.keyed_rows import last_of_each_in_spark
from heliograph.pipeline.sinks.table_locations import is_uri
from heliograph.settings.fields import list_setting, optional, required, setting
from heliograph.settings.kinds import Duration, Integer, RefusedError, Size, Texts

if TYPE_CHECKING:
    from deltalake import CommitProperties, DeltaTable

_log = logging.getLogger(__name__)
_DESCRIPTION: Final = "Written by Heliograph, checkpoint "
_EVERY: Final = Integer(1, 1_000_000)


@dataclass(frozen=True)
class DeltaSink(LakeSink):
    """Rows go to a Delta Lake table.

    A batch is one commit with a transaction identifier (application and version) in the table's log: the application
    is the query with its checkpoint, the version is the number of the batch. A batch whose number is in the log already
    is not written again.
    """

    naming: ClassVar[Naming] = Naming.DELTA

    path: str = required(TablePath(), "The table below `--output`, or a URI that delta-rs knows.")
    newest_by: tuple[str, ...] = setting(ColumnNames(), (), f"{NEWEST_BY} Mode append merges by key then, too.")
    partition_by: tuple[str, ...] = list_setting(COLUMNS, (), "Columns that part a new table.")
    target_file_bytes: int | None = optional(
        Size(1), "Size of a file, about, for writing and optimising; without, delta-rs's."
    )
    optimize_every: int | None = optional(
        _EVERY, "After how many batches small files are made into large ones; without, never."
    )
    vacuum_every: int | None = optional(
        _EVERY, "After how many batches files that the table no longer needs are removed; without, never."
    )
    retention_s: float = setting(
        Duration(3600.0, needs_unit=True), 7 * 86_400.0, "How old such a file must be.", name="retention"
    )
    storage_options: Mapping[str, str] = setting(
        Texts(),
        {},
        "Options of delta-rs for a URI, in its own names; what they do not say, the environment does.",
        is_secret=True,
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        check_newest_by(self.newest_by, self.key)
        if self.newest_by and self.mode is OutputMode.COMPLETE:
            raise RefusedError("is for rows that are merged by key, and mode complete replaces them all", "newest_by")
        if is_uri(self.path):
            parts = urlsplit(self.path)
            if "@" in parts.netloc and not self.path.startswith("abfs"):  # the path is shown everywhere
                raise RefusedError("has a login: give it in storage_options", "path")
            if not parts.path.strip("/"):
                raise RefusedError("must have a path after the bucket", "path")

    @property
    def target(self) -> str:
        return f"Delta table {self.path}"

    @property
    def partition_columns(self) -> Sequence[str]:
        return self.partition_by

    @property
    def directory_columns(self) -> Sequence[str]:
        return () if is_uri(self.path) else self.partition_by

    @property
    def merges(self) -> bool:
        """Whether the rows of a batch take the place of those with their key."""
        return self.mode is OutputMode.UPDATE or bool(self.newest_by)

    def check_fields(self, fields: Sequence[RowField]) -> None:
        super().check_fields(fields)
        check_newest_columns(self.newest_by, fields, "newest_by")

    def held_columns(self, output: Path) -> Collection[str] | None:
        with _translated(self.path):
            uri, options = self._uri(output), dict(self.storage_options)
            if not _library().DeltaTable.is_deltatable(uri, options):
                return None
            return [field.name for field in _library().DeltaTable(uri, storage_options=options or None).schema().fields]

    def write_batch(self, rows: DataFrame, batch: MicroBatch) -> Written:
        with _translated(self.path):
            table = self.find(batch)
            if self.has(table, batch):
                return Written(_count(table), {"rows": 0, "files": 0, "bytes": 0})
            name = f"{self.path.replace('://', '/')}/{batch.owner}"
            changes = last_of_each_in_spark(rows, self.key, self.newest_by) if self.merges else rows
            with staged_rows(changes, batch.output, name) as staged:
                files = self.commit(table, staged, batch)
                figures = {"rows": staged.rows, "files": files, "bytes": staged.bytes}
        table = self.find(batch)
        self._maintain(table, batch.number)
        return Written(_count(table), figures)

    def has(self, table: "DeltaTable | None", batch: MicroBatch) -> bool:
        version = table.transaction_version(_application(batch)) if table is not None else None
        return version is not None and version >= batch.number

    def commit(self, table: "DeltaTable | None", staged: StagedRows, batch: MicroBatch) -> int:
        """Write the rows of a batch in one commit; returns how many files it added."""
        from deltalake import CommitProperties, Transaction

        if not staged.rows and self.mode is not OutputMode.COMPLETE:
            return 0
        metadata = {"heliograph.query": batch.query, "heliograph.batch": str(batch.number)}
        properties = CommitProperties(metadata, None, [Transaction(_application(batch), batch.number)])
        if self.merges and table is not None:
            table = self._widened(table, staged)
            same = " AND ".join(f"(held.{_quoted(name)} <=> new.{_quoted(name)})" for name in self.key)
            merger = table.merge(
                staged.reader(),
                same,
                source_alias="new",
                target_alias="held",
                commit_properties=properties,
            )
            merger = (
                merger.when_matched_update_all(self._newer(table))
                if self.newest_by
                else merger.when_matched_update_all()
            )
            metrics = merger.when_not_matched_insert_all().execute()
            return int(metrics["num_target_files_added"])
        self._write(table, staged, batch, properties)
        metrics = self._opened(batch).history(1)[0].get("operationMetrics", {})
        return int(metrics.get("num_added_files", 0))

    def _widened(self, table: "DeltaTable", staged: StagedRows) -> "DeltaTable":
        """The table with all columns of the rows, where these may be added: a merge would leave the others out.

        A merge that adds them gives the table another id and takes its description away, by which it is ours; an
        append, here one of no rows, does not.
        """
        from deltalake import write_deltalake

        held = pa.schema(table.schema())
        if _has_more(pa.struct(list(staged.schema)), pa.struct(list(held))):
            if not self.merge_schema:
                missing = _missing(staged.schema, held)
                raise SinkError(
                    f"the {self.target} lacks columns of the rows: {missing}. Add them, or set merge_schema = true"
                )
            write_deltalake(table, staged.schema.empty_table(), mode="append", schema_mode="merge")
            table.update_incremental()
        return table

    def _newer(self, table: "DeltaTable") -> str:
        names = {field.name for field in table.schema().fields}

        def held(name: str) -> str | None:
            return f"held.{_quoted(name)}" if name in names else None

        return newer_condition(self.newest_by, lambda name: f"new.{_quoted(name)}", held, "IS NOT DISTINCT FROM")

    def _write(
        self, table: "DeltaTable | None", staged: StagedRows, batch: MicroBatch, properties: "CommitProperties"
    ) -> None:
        from deltalake import WriterProperties, write_deltalake

        is_complete = self.mode is OutputMode.COMPLETE
        write_deltalake(
            # The table as it was when the log was looked at: another commit of this batch since then is a conflict.
            table if table is not None else self._uri(batch.output),
            staged.reader(),
            mode="overwrite" if is_complete else "append",
            partition_by=list(self.partition_by) or None,
            schema_mode=("overwrite" if is_complete else "merge") if self.merge_schema else None,
            description=f"{_DESCRIPTION}{_owner(batch)}" if table is None else None,
            storage_options=dict(self.storage_options) if table is None else None,
            target_file_size=self.target_file_bytes,
            writer_properties=WriterProperties(compression="ZSTD"),
            commit_properties=properties,
        )

    def _maintain(self, table: "DeltaTable | None", batch: int) -> None:
        """Optimise and vacuum when it is time. A failure is logged and left to the next time: the batch is written."""
        if table is None:
            return
        try:
            if self.optimize_every is not None and (batch + 1) % self.optimize_every == 0:
                table.optimize.compact(target_size=self.target_file_bytes)
            if self.vacuum_every is not None and (batch + 1) % self.vacuum_every == 0:
                hours = math.ceil(self.retention_s / 3600)
                table.vacuum(hours, dry_run=False, enforce_retention_duration=False)
        except Exception as error:  # noqa: BLE001 (whatever its library raises)
            _log.warning("the Delta table %s could not be tidied up: %s", self.path, error)

    def find(self, batch: MicroBatch) -> "DeltaTable | None":
        deltalake = _library()
        if not deltalake.DeltaTable.is_deltatable(self._uri(batch.output), dict(self.storage_options)):
            return None
        table = self._opened(batch)
        description = table.metadata().description or ""
        is_ours = description.startswith(_DESCRIPTION)
        self.check_owner(description.removeprefix(_DESCRIPTION) if is_ours else "something else", _owner(batch))
        return table

    def _opened(self, batch: MicroBatch) -> "DeltaTable":
        table: DeltaTable = _library().DeltaTable(
            self._uri(batch.output), storage_options=dict(self.storage_options) or None
        )
        return table

    def _uri(self, output: Path) -> str:
        """Where the table is; all that reads or writes it comes by here, and the store must be allowed."""
        if is_uri(self.path):
            self.check_store(self.path, self.storage_options)
        return self.path if is_uri(self.path) else str((output / self.path).resolve())


def _application(batch: MicroBatch) -> str:
    return f"heliograph/{batch.query}/{batch.owner}"


def _owner(batch: MicroBatch) -> str:
    return batch.backfill_of or batch.owner


def _count(table: "DeltaTable | None") -> int:
    return int(table.count()) if table is not None else 0


def _has_more(new: pa.DataType, held: pa.DataType) -> bool:
    """Whether a type has fields, at any depth, which another lacks."""
    if pa.types.is_struct(new) and pa.types.is_struct(held):
        fields = {field.name: field.type for field in held}
        return any(field.name not in fields or _has_more(field.type, fields[field.name]) for field in new)
    if pa.types.is_list(new) and pa.types.is_list(held):
        return _has_more(new.value_type, held.value_type)
    if pa.types.is_map(new) and pa.types.is_map(held):
        return _has_more(new.item_type, held.item_type)
    return False


def _missing(new: pa.Schema, held: pa.Schema) -> str:
    """The columns of rows that a table lacks, or whose fields it lacks."""
    there = {field.name: field.type for field in held}
    return ", ".join(
        f"{one.name} ({one.type})" for one in new if one.name not in there or _has_more(one.type, there[one.name])
    )


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _library() -> Any:
    try:
        import deltalake
    except ImportError as error:
        raise SinkError(f"the sink delta needs the package deltalake: {INSTALL} ({error})") from None
    return deltalake


@contextmanager
def _translated(path: str) -> Iterator[None]:
    exceptions = _library().exceptions
    try:
        yield
    except exceptions.SchemaMismatchError as error:
        raise SinkError(
            f"the Delta table {path} has other columns than the rows: {error}. Set merge_schema = true to have columns "
            "added, or name the columns as the table does"
        ) from error
    except exceptions.CommitFailedError as error:
        raise SinkError(f"the Delta table {path} was changed by another writer at the same time: {error}") from error
    except (exceptions.DeltaError, pa.ArrowException, OSError, ValueError) as error:
        raise SinkError(f"the Delta table {path} cannot be written: {error}") from error
