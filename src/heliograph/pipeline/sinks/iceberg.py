"""The sink `iceberg`: rows in an Apache Iceberg table, each batch in one commit that also says which batch it was."""

import logging
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame

from heliograph.hocon.values import Content
from heliograph.pipeline.errors import SinkError
from heliograph.pipeline.sinks.interface import INSTALL, MicroBatch, OutputMode, Written
from heliograph.pipeline.sinks.keyed_rows import last_of_each
from heliograph.pipeline.sinks.lakes import LakeSink, StagedRows, staged_rows
from heliograph.pipeline.sinks.rejected_rows import Naming
from heliograph.settings.fields import ListOf, list_setting, optional, required, setting
from heliograph.settings.kinds import Duration, Kind, RefusedError, Size, Texts

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyiceberg.table import Table, Transaction
    from pyiceberg.transforms import Transform

_log = logging.getLogger(__name__)
_NAMESPACE: Final = "default"
_CATALOG_FILE: Final = "iceberg.db"
_CATALOG_NAME: Final = "heliograph"
_EXPIRE_EVERY: Final = 100
# Of rows in memory that become a file at least.
_CHUNK_BYTES: Final = 256 << 20
_OWNER: Final = "heliograph.owner"
_BATCH: Final = "heliograph.batch"
_QUERY: Final = "heliograph.query"
# A commit for each batch makes many small manifests and old metadata files: have them merged, and removed.
_TABLE_PROPERTIES: Final = {
    "commit.manifest-merge.enabled": "true",
    "write.metadata.delete-after-commit.enabled": "true",
    "write.metadata.previous-versions-max": "100",
}
_CALL: Final = re.compile(r"(\w+)\((?:\s*(\d+)\s*,)?\s*([^(),]+?)\s*\)")
_PLAIN: Final = ("identity", "year", "month", "day", "hour")
_COUNTED: Final = ("bucket", "truncate")


class TableName(Kind[str]):
    expected = "a name such as obs, or weather.obs with a namespace"

    def convert(self, value: Content) -> str:
        parts = value.split(".") if isinstance(value, str) else [""]
        if not all(part.replace("_", "").replace("-", "").isalnum() for part in parts):
            raise RefusedError
        return ".".join(parts if len(parts) > 1 else [_NAMESPACE, *parts])


@dataclass(frozen=True)
class Partition:
    """One field of a partition; `count` is of buckets, or the width to truncate to."""

    column: str
    transform: str = "identity"
    count: int | None = None

    @property
    def name(self) -> str:
        return self.column if self.transform == "identity" else f"{self.column}_{self.transform}"


class PartitionKind(Kind[Partition]):
    expected = (
        f"a column such as station, or one of {', '.join(f'{name}(column)' for name in _PLAIN[1:])}, "
        "bucket(16, column), truncate(4, column)"
    )

    def convert(self, value: Content) -> Partition:
        if not isinstance(value, str) or not value:
            raise RefusedError
        if "(" not in value:
            return Partition(value)
        call = _CALL.fullmatch(value.strip())
        count = int(call[2]) if call is not None and call[2] is not None else None
        if call is None or call[1] not in (_PLAIN if count is None else _COUNTED) or count == 0:
            raise RefusedError
        return Partition(call[3], call[1], count)


@dataclass(frozen=True)
class IcebergSink(LakeSink):
    """Rows go to an Apache Iceberg table; one in which a column of the key is null is refused.

    A batch is one commit. The summary of its snapshot names the checkpoint and the number of the batch, and so does a
    property of the table, which stays when the snapshot expires. A batch whose number is there is not written again.
    """

    naming: ClassVar[Naming] = Naming.ICEBERG

    table: str = required(TableName(), f"The table, in the namespace `{_NAMESPACE}` where none is given.")
    partitions: tuple[Partition, ...] = list_setting(
        ListOf(PartitionKind(), at_least=1),
        (),
        "How a new table is parted; all but plain columns need the package `pyiceberg-core`.",
        name="partition_by",
    )
    snapshots_kept_s: float = setting(
        Duration(needs_unit=True),
        5 * 86_400.0,
        f"How old snapshots become; every {_EXPIRE_EVERY} batches older ones expire.",
        name="snapshots_kept",
    )
    target_file_bytes: int | None = optional(
        Size(1 << 20), "Size of a file of a new table; without, pyiceberg's (512 MB)."
    )
    catalog: Mapping[str, str] = setting(
        Texts(),
        {},
        "Properties of the catalog as pyiceberg names them, and its `name` (`heliograph`); keys with a dot stand in "
        "quotes. Without, SQLite `iceberg.db` in `--output`, and the tables beside it.",
        is_secret=True,
    )

    @property
    def target(self) -> str:
        return f"Iceberg table {self.table}"

    @property
    def partition_columns(self) -> Sequence[str]:
        return [partition.column for partition in self.partitions]

    @property
    def directory_columns(self) -> Sequence[str]:
        if self.catalog:
            return ()
        return [partition.column for partition in self.partitions if partition.transform == "identity"]

    def held_columns(self, output: Path) -> Collection[str] | None:
        with _translated(self.table):
            from pyiceberg.exceptions import NoSuchTableError

            if not self.catalog and not (output / _CATALOG_FILE).exists():
                return None  # asking for the table would create the catalog
            try:
                return list(self._catalog(output).load_table(self.table).schema().column_names)
            except NoSuchTableError:
                return None

    def write_batch(self, rows: DataFrame, batch: MicroBatch) -> Written:
        with _translated(self.table):
            table = self.find(batch)
            if table is not None and self.has(table, batch):
                return Written(_total(table), {"rows": 0, "files": 0, "bytes": 0})
            with staged_rows(rows, batch.output, f"iceberg/{self.table}/{batch.owner}") as staged:
                table = table if table is not None else self.create(staged.schema, batch)
                row_count = self.commit(table, staged, batch)
        self._maintain(table, batch.number)
        snapshot = table.current_snapshot()
        summary = dict(snapshot.summary.additional_properties) if snapshot is not None and snapshot.summary else {}
        files, size = (int(summary.get(name, 0)) for name in ("added-data-files", "added-files-size"))
        return Written(_total(table), {"rows": row_count, "files": files, "bytes": size})

    def find(self, batch: MicroBatch) -> "Table | None":
        from pyiceberg.exceptions import NoSuchTableError

        try:
            table: Table = self._catalog(batch.output).load_table(self.table)
        except NoSuchTableError:
            return None
        self.check_owner(table.properties.get(_OWNER, "something else"), batch.backfill_of or batch.owner)
        return table

    def has(self, table: "Table", batch: MicroBatch) -> bool:
        return _newest(table, batch.owner) >= batch.number

    def create(self, schema: pa.Schema, batch: MicroBatch) -> "Table":
        catalog = self._catalog(batch.output)
        catalog.create_namespace_if_not_exists(self.table.rpartition(".")[0])
        properties = {**_TABLE_PROPERTIES, _OWNER: batch.backfill_of or batch.owner}
        if self.target_file_bytes is not None:
            properties["write.target-file-size-bytes"] = str(self.target_file_bytes)
        with catalog.create_table_transaction(self.table, schema, properties=properties) as transaction:
            add_partitions(transaction, self.partitions)
        return catalog.load_table(self.table)

    def commit(self, table: "Table", staged: StagedRows, batch: MicroBatch) -> int:
        if not staged.rows and self.mode is not OutputMode.COMPLETE:
            return 0
        summary = {_OWNER: batch.owner, _QUERY: batch.query, _BATCH: str(batch.number)}
        row_count = staged.rows
        with table.transaction() as transaction:
            if self.merge_schema:
                with transaction.update_schema() as update:
                    update.union_by_name(staged.schema)
            if self.mode is OutputMode.UPDATE:
                row_count = self._merge(transaction, staged, batch, summary)
            else:
                replacing = self.mode is OutputMode.COMPLETE and bool(_total(table))
                self._add(transaction, staged, summary, replacing=replacing)
            transaction.set_properties({_batch_property(batch.owner): str(batch.number)})
        return row_count

    def _add(self, transaction: "Transaction", staged: StagedRows, summary: dict[str, str], *, replacing: bool) -> None:
        """Add the rows, the first of them in the place of all that were there if `replacing`."""
        if not self.partitions:
            write = transaction.overwrite if replacing else transaction.append
            write(staged.reader(), snapshot_properties=summary)
            return
        # The library takes rows that have to be parted as tables only. A large batch is several snapshots then, which
        # still appear together.
        for number, table in enumerate(staged.tables(_CHUNK_BYTES)):
            write = transaction.overwrite if replacing and number == 0 else transaction.append
            write(table, snapshot_properties=summary)
        if replacing and not staged.rows:
            transaction.overwrite(staged.schema.empty_table(), snapshot_properties=summary)

    def _merge(self, transaction: "Transaction", staged: StagedRows, batch: MicroBatch, summary: dict[str, str]) -> int:
        table = staged.reader().read_all()
        is_keyed = pc.and_kleene  # of a key that is null the library would add a row each time
        valid = None
        for name in self.key:
            column = pc.is_valid(table.column(name))
            valid = column if valid is None else is_keyed(valid, column)
        for row in table.filter(pc.invert(valid)).to_pylist():
            batch.refuse(
                row, f"a column of the key ({', '.join(self.key)}) is null, which an Iceberg table cannot take"
            )
        keyed = last_of_each(table.filter(valid), self.key)
        transaction.upsert(keyed, list(self.key), snapshot_properties=summary)
        return int(keyed.num_rows)

    def _maintain(self, table: "Table", batch: int) -> None:
        """Expire old snapshots now and then. What fails is left to the next time: the batch has arrived."""
        if (batch + 1) % _EXPIRE_EVERY != 0:
            return
        try:
            oldest = datetime.now(UTC).replace(tzinfo=None) - timedelta(seconds=self.snapshots_kept_s)
            table.maintenance.expire_snapshots().older_than(oldest).commit()
        except Exception as error:  # noqa: BLE001 (whatever its library raises)
            _log.warning("old snapshots of the Iceberg table %s could not be expired: %s", self.table, error)

    def _catalog(self, output: Path) -> "Catalog":
        from pyiceberg.catalog import load_catalog

        properties = dict(self.catalog)
        if not properties:
            output.mkdir(parents=True, exist_ok=True)
            home = output.resolve()
            properties = {
                "type": "sql",
                "uri": f"sqlite:///{home}/{_CATALOG_FILE}",
                "warehouse": f"file://{home}/iceberg",
            }
        else:
            self.check_store("", properties)
        # A catalog in an SQL database holds the tables of several names.
        return load_catalog(properties.pop("name", _CATALOG_NAME), **properties)


def _newest(table: "Table", owner: str) -> int:
    """The number of the last batch that a checkpoint brought; -1 if it has brought none."""
    numbers = [int(table.properties.get(_batch_property(owner), -1))]
    for snapshot in table.snapshots():
        summary = snapshot.summary.additional_properties if snapshot.summary is not None else {}
        if summary.get(_OWNER) == owner:
            numbers.append(int(summary.get(_BATCH, -1)))
    return max(numbers)


def _batch_property(owner: str) -> str:
    return f"{_BATCH}.{owner}"


def _total(table: "Table") -> int | None:
    snapshot = table.current_snapshot()
    if snapshot is None or snapshot.summary is None:
        return 0
    total = snapshot.summary.additional_properties.get("total-records")
    return int(total) if total is not None else None


@contextmanager
def _translated(table: str) -> Iterator[None]:
    try:
        import pyiceberg.exceptions as exceptions
        from sqlalchemy.exc import SQLAlchemyError
    except ImportError as error:
        raise SinkError(f"the sink iceberg needs the package pyiceberg: {INSTALL} ({error})") from None
    foreign: tuple[Any, ...] = (SQLAlchemyError, pa.ArrowException, OSError, ValueError, NotImplementedError)
    try:
        yield
    except exceptions.CommitFailedException as error:
        raise SinkError(f"the Iceberg table {table} was changed by another writer at the same time: {error}") from error
    except exceptions.NotInstalledError as error:
        raise SinkError(f"the Iceberg table {table} needs more of pyiceberg: {INSTALL} ({error})") from error
    except foreign as error:
        raise SinkError(f"the Iceberg table {table} cannot be written: {error}") from error


def add_partitions(transaction: "Transaction", partitions: Sequence[Partition]) -> None:
    if not partitions:
        return
    with transaction.update_spec() as update:
        for partition in partitions:
            update.add_field(partition.column, _transform(partition), partition.name)


def _transform(partition: Partition) -> "Transform[object, object]":
    from pyiceberg.transforms import parse_transform

    text = partition.transform if partition.count is None else f"{partition.transform}[{partition.count}]"
    transform: Transform[object, object] = parse_transform(text)
    return transform
