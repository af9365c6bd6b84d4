"""The sinks `json`, `csv` and `orc`, and what `parquet` shares with them: rows appended to a directory of files."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Any, ClassVar, Final, Self

from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from heliograph.pipeline.files.section import Section
from heliograph.pipeline.sinks.append_table import AppendTable, TargetSize
from heliograph.pipeline.sinks.file_format import COMPRESSIONS, FileFormat
from heliograph.pipeline.sinks.interface import Guarantee, MicroBatch, OutputMode, Written
from heliograph.pipeline.sinks.rejected_rows import Naming, faults_of_directories, write_without_rejected
from heliograph.pipeline.sinks.table_locations import is_uri, open_location, store_fault
from heliograph.pipeline.sinks.template import check_columns

_KEYS: Final = (
    "type",
    "path",
    "partition_by",
    "compression",
    "target_file_rows",
    "target_file_bytes",
    "storage_options",
)
_ROWS_MAX: Final = 1 << 40

# Spark's own form of times as text leaves out microseconds.
_TIMES: Final = {
    "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX",
    "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS",
}
# Spark cuts them off by default.
_BLANKS: Final = {"ignoreLeadingWhiteSpace": "false", "ignoreTrailingWhiteSpace": "false"}


@dataclass(frozen=True)
class FilesSink:
    """Rows go to a directory of files; each kind of file has a class of its own below.

    Attributes:
        path: Directory of the table below the pipeline's output directory, or a URI.
        mode: Which rows the batches bring.
        partition_by: Columns that become directories.
        key: Columns that identify a row of a result that changes (mode update).
        compression: How files are compressed; None is the format's first.
        size: How large files should be.
        options: Options of Spark's writer.
        storage_options: Arguments of the file system of a URI; they may be secret.
    """

    guarantee: ClassVar[Guarantee] = Guarantee.EXACTLY_ONCE
    format_name: ClassVar[str]
    more_keys: ClassVar[tuple[str, ...]] = ()

    path: str
    mode: OutputMode = OutputMode.APPEND
    partition_by: tuple[str, ...] = ()
    key: tuple[str, ...] = ()
    compression: str | None = None
    size: TargetSize = field(default_factory=TargetSize)
    options: Mapping[str, str] = field(default_factory=dict)
    storage_options: Mapping[str, str] = field(default_factory=dict, repr=False)

    @classmethod
    def read(cls, section: Section, mode: OutputMode, more_keys: tuple[str, ...]) -> Self:
        """See `Sink.read`."""
        section.check_keys(*_KEYS, *cls.more_keys, *more_keys)
        cls.check_mode(section, mode)
        return cls(
            table_path(section),
            mode,
            section.names("partition_by"),
            section.names("key"),
            _compression(section, cls.format_name),
            target_size(section),
            cls.read_options(section),
            section.texts("storage_options"),
        )

    @classmethod
    def check_mode(cls, section: Section, mode: OutputMode) -> None:
        """Refuse a mode that this kind of file cannot take.

        Raises:
            RuleFileError: It is one.
        """
        if mode is not OutputMode.APPEND:
            raise section.mistake(
                f"{section.path}.type is {cls.format_name!r}, which takes mode append only: a result that changes "
                "(mode update or complete) goes to parquet, delta or iceberg"
            )

    @classmethod
    def read_options(cls, section: Section) -> dict[str, str]:
        """Options of Spark's writer that the section has."""
        return {}

    @property
    def owned(self) -> tuple[str, ...]:
        """The table."""
        return (f"the table {self.path}",)

    @property
    def target(self) -> str:
        """The table."""
        return f"{self.format_name} files {self.path}"

    def check(self, schema: StructType) -> None:
        """See `ChecksRows.check`."""
        check_columns(self.partition_by, schema, "partition_by")
        check_columns(self.key, schema, "key")

    def write(self, rows: DataFrame, batch: MicroBatch) -> Written:
        """Append to the table."""
        # Spark stages files by directories on a disk, wherever they go from there.
        faults = faults_of_directories(rows.schema, self.partition_by, Naming.SPARK)
        return write_without_rejected(rows, batch, faults, lambda kept: self._append(kept, batch))

    def _append(self, rows: DataFrame, batch: MicroBatch) -> Written:
        place = open_location(self.path, self.storage_options, batch.output)
        file_format = FileFormat(self.format_name, self.compression, self.options)
        table = AppendTable(place, batch.owner, file_format, self.partition_by, self.size, batch.backfill_of)
        manifest = table.write(rows, batch.number)
        figures = {"rows": manifest.rows, "bytes": manifest.bytes, "files": len(manifest.files)}
        return Written(table.rows(), figures)


@dataclass(frozen=True)
class JsonSink(FilesSink):
    """Rows go to files with a JSON object in each line; columns that are null are written as null."""

    format_name: ClassVar[str] = "json"

    @classmethod
    def read_options(cls, section: Section) -> dict[str, str]:
        """None of its own."""
        return {"ignoreNullFields": "false", **_TIMES}


@dataclass(frozen=True)
class CsvSink(FilesSink):
    """Rows go to files with values between delimiters."""

    format_name: ClassVar[str] = "csv"
    more_keys: ClassVar[tuple[str, ...]] = ("header", "delimiter", "null_value")

    @classmethod
    def read_options(cls, section: Section) -> dict[str, str]:
        """Header, delimiter, and what stands for null."""
        delimiter = section.fields["delimiter"].value if "delimiter" in section.fields else ","
        header = section.flag("header") if "header" in section.fields else True
        if not isinstance(delimiter, str) or len(delimiter) != 1 or delimiter in '"\r\n\\':
            raise section.mistake(
                f"{section.path}.delimiter is {delimiter!r}, but must be one character, such as , or ; or |",
                section.fields["delimiter"],
            )
        options = {"header": "true" if header else "false", "sep": delimiter, "escape": '"', **_BLANKS, **_TIMES}
        if "null_value" in section.fields:
            options["nullValue"] = section.text("null_value")
        return options


@dataclass(frozen=True)
class OrcSink(FilesSink):
    """Rows go to ORC files."""

    format_name: ClassVar[str] = "orc"


def table_path(section: Section) -> str:
    """The key `path` of a sink: a table below the output directory, or a URI with its `storage_options`."""
    path = section.text("path")
    options: Mapping[str, Any] = section.texts("storage_options")
    fault = None
    if is_uri(path):
        fault = store_fault(path, options)
    elif options:
        fault = f"is {path!r}, but storage_options are for a URI, such as s3://bucket/path"
    else:
        parts = PurePosixPath(path).parts
        if PurePosixPath(path).is_absolute() or any(part.startswith((".", "_")) for part in parts):
            fault = (
                f"is {path!r}, but must be a path below the output directory without a leading . or _, or a URI such "
                "as s3://bucket/path"
            )
    if fault is not None:
        raise section.mistake(f"{section.path}.path {fault}", section.fields["path"])
    return path.rstrip("/")


def target_size(section: Section) -> TargetSize:
    """The keys `target_file_rows` and `target_file_bytes`."""
    limits = {key: section.number(f"target_file_{key}", 0, range(1, _ROWS_MAX)) or None for key in ("rows", "bytes")}
    return TargetSize(limits["rows"], limits["bytes"])


def _compression(section: Section, format_name: str) -> str | None:
    if "compression" not in section.fields:
        return None
    compression, valid = section.text("compression"), COMPRESSIONS[format_name]
    if compression not in valid:
        raise section.mistake(
            f"{section.path}.compression is {compression!r}, but must be one of {', '.join(valid)}",
            section.fields["compression"],
        )
    return compression
