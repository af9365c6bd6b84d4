"""The sinks `json`, `csv` and `orc`, and what `parquet` shares with them: rows appended to a directory of files."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import ClassVar, Final

from pyspark.sql import DataFrame

from heliograph.hocon.values import Content
from heliograph.pipeline.errors import SinkError
from heliograph.pipeline.sinks.append_table import AppendTable, TargetSize
from heliograph.pipeline.sinks.file_format import COMPRESSIONS, TIMES_AS_TEXT, FileFormat
from heliograph.pipeline.sinks.interface import COLUMNS, Guarantee, MicroBatch, OutputMode, TableSink, Written
from heliograph.pipeline.sinks.outward import OutwardSink
from heliograph.pipeline.sinks.rejected_rows import Naming, faults_of_directories, write_without_rejected
from heliograph.pipeline.sinks.rows import RowField, check_names
from heliograph.pipeline.sinks.table_locations import TableLocation, is_uri, open_location, store_fault
from heliograph.settings.fields import list_setting, optional, required, setting
from heliograph.settings.kinds import Boolean, Choice, Integer, Kind, RefusedError, Size, Text, Texts

# Spark cuts them off by default.
_BLANKS: Final = {"ignoreLeadingWhiteSpace": "false", "ignoreTrailingWhiteSpace": "false"}


class TablePath(Kind[str]):
    expected = "a path below the output directory without a leading . or _, or a URI such as s3://bucket/path"

    def convert(self, value: Content) -> str:
        if not isinstance(value, str) or not value.strip():
            raise RefusedError
        parts = PurePosixPath(value).parts
        if not is_uri(value) and (value.startswith("/") or any(part.startswith((".", "_")) for part in parts)):
            raise RefusedError
        return value.rstrip("/")


def compression(format_name: str) -> str:
    valid = COMPRESSIONS[format_name]
    return setting(Choice(*valid), valid[0], f"How files of type {format_name} are compressed.")


@dataclass(frozen=True)
class FilesSink(OutwardSink, TableSink):
    """Rows go to a directory of files; each kind of file has a class of its own below."""

    guarantee: ClassVar[Guarantee] = Guarantee.EXACTLY_ONCE
    modes: ClassVar[tuple[OutputMode, ...]] = (OutputMode.APPEND,)
    format_name: ClassVar[str]

    path: str = required(
        TablePath(),
        "Directory of the table below `--output`, or a URI: `s3://bucket/path`, `gs://`, "
        "`abfs://container@account.../path`, `file:///`.",
    )
    mode: OutputMode = OutputMode.APPEND
    compression: str = ""
    key: tuple[str, ...] = ()
    partition_by: tuple[str, ...] = list_setting(COLUMNS, (), "Columns that become directories (`station=JFK`).")
    target_file_rows: int | None = optional(Integer(1), "Rows of a file at most.")
    target_file_bytes: int | None = optional(
        Size(1), "Bytes of a file, about: estimated by the size of a row in the batch before."
    )
    storage_options: Mapping[str, str] = setting(
        Texts(),
        {},
        "For a URI: arguments of pyarrow's file system (`endpoint_override`, `access_key`, `secret_key`, `region`, "
        "`scheme`, `anonymous`, ...); what they do not say, the environment does.",
        is_secret=True,
    )

    def __post_init__(self) -> None:
        if is_uri(self.path):
            fault = store_fault(self.path, self.storage_options)
            if fault is not None:
                raise RefusedError(fault, "path")
        elif self.storage_options:
            raise RefusedError("are for a URI, such as s3://bucket/path", "storage_options")

    @property
    def options(self) -> dict[str, str]:
        return {}

    @property
    def owned(self) -> tuple[str, ...]:
        return (f"the table {self.path}",)

    @property
    def target(self) -> str:
        return f"{self.format_name} files {self.path}"

    def check_fields(self, fields: Sequence[RowField]) -> None:
        check_names(self.partition_by, fields, "partition_by")
        check_names(self.key, fields, "key")

    def write(self, rows: DataFrame, batch: MicroBatch) -> Written:
        # Spark stages files by directories on a disk, wherever they go from there.
        faults = faults_of_directories(rows.schema, self.partition_by, Naming.SPARK)
        return write_without_rejected(rows, batch, faults, lambda kept: self._append(kept, batch))

    def place(self, output: Path) -> TableLocation:
        """Where the files lie; the store of a URI must be one that the pipeline file allows."""
        if is_uri(self.path):
            self.check_store(self.path, self.storage_options)
        return open_location(self.path, self.storage_options, output)

    def check_place(self) -> None:
        """See whether the store of a URI can be reached."""
        if is_uri(self.path):
            self.place(Path()).owner()

    def _append(self, rows: DataFrame, batch: MicroBatch) -> Written:
        place = self.place(batch.output)
        file_format = FileFormat(self.format_name, self.compression, self.options)
        size = TargetSize(self.target_file_rows, self.target_file_bytes)
        table = AppendTable(place, batch.owner, file_format, self.partition_by, size, batch.backfill_of)
        manifest = table.write(rows, batch.number)
        figures = {"rows": manifest.rows, "bytes": manifest.bytes, "files": len(manifest.files)}
        return Written(table.rows(), figures)


@dataclass(frozen=True)
class JsonSink(FilesSink):
    """Rows go to files with a JSON object in each line; columns that are null are written as null."""

    format_name: ClassVar[str] = "json"

    compression: str = compression("json")

    @property
    def options(self) -> dict[str, str]:
        return {"ignoreNullFields": "false", **TIMES_AS_TEXT}


@dataclass(frozen=True)
class CsvSink(FilesSink):
    format_name: ClassVar[str] = "csv"

    compression: str = compression("csv")
    header: bool = setting(Boolean(), True, "Whether the first line names columns.")
    delimiter: str = setting(
        Text("one character, such as , or ; or |", r'[^"\r\n\\]'), ",", "What stands between two values."
    )
    null_value: str | None = optional(Text("a text"), "What stands for null; without, nothing.")

    def check_fields(self, fields: Sequence[RowField]) -> None:
        super().check_fields(fields)
        for field in fields:
            if field.is_complex:
                raise SinkError(
                    f"the column {field.name!r} is {field.kind}, and CSV has no such values: "
                    "make it a text, by to_json in Spark SQL or as a column of type string of a rule"
                )

    @property
    def options(self) -> dict[str, str]:
        header = "true" if self.header else "false"
        options = {"header": header, "sep": self.delimiter, "escape": '"', **_BLANKS, **TIMES_AS_TEXT}
        return options if self.null_value is None else options | {"nullValue": self.null_value}


@dataclass(frozen=True)
class OrcSink(FilesSink):
    format_name: ClassVar[str] = "orc"

    compression: str = compression("orc")
