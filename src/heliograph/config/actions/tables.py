"""Settings of connectors and actions whose rows have columns: `parquet`, `delta`, `iceberg`, `s3`, `spark`."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from heliograph.config.actions.interface import ActionConfig, ConnectorConfig
from heliograph.hocon.values import Content
from heliograph.settings.column_types import NESTED_TYPES, column_type
from heliograph.settings.fields import ListOf, list_setting, optional, required, required_section, section, setting
from heliograph.settings.kinds import (
    AnyText,
    Boolean,
    Choice,
    CodeName,
    Integer,
    RefusedError,
    SecretText,
    StoreOptions,
    Text,
    Texts,
)
from heliograph.settings.secrets import Secret

_COLUMN: Final = r"[A-Za-z_][A-Za-z0-9_]*"
_TYPES: Final = ("string", "boolean", "tinyint", "smallint", "int", "bigint", "float", "double", "timestamp", "date")
_VALID: Final = f"{', '.join(_TYPES)}, decimal(P, S), and of these {NESTED_TYPES}"
_DECIMAL: Final = r"decimal\(\d{1,2}, ?\d{1,2}\)"


class TableColumns(Texts):
    """The columns of a table, with their types."""

    expected = f"an object of columns and their types, as in {{ temp = double }}; types are {_VALID}"

    def convert(self, value: Content) -> Mapping[str, str]:
        """Names must be ones that the rule language takes as they are."""
        columns = super().convert(value)
        if not columns:
            raise RefusedError("a table has at least one column")
        for name, kind in columns.items():
            if re.fullmatch(_COLUMN, name) is None:
                raise RefusedError(f"{name!r} is no name of a column: letters, digits and _, first no digit")
            try:
                column_type(kind, _scalar)
            except ValueError as error:
                raise RefusedError(str(error)) from error
        if len({name.casefold() for name in columns}) != len(columns):
            raise RefusedError("two columns differ in letter case only, which Spark does not tell apart")
        return columns


def _scalar(name: str) -> str:
    if name not in _TYPES and re.fullmatch(_DECIMAL, name) is None:
        raise ValueError(f"{name!r} is no type: there are {_VALID}")
    return name


class TablePlace(Text):
    """A directory below the output directory, or a URI."""

    is_place = True

    def __init__(self, *, may_be_empty: bool = False) -> None:
        expected = "a path below the output directory without a leading . or _, or a URI such as s3://bucket/path"
        super().__init__(
            f"{expected}, or empty" if may_be_empty else expected, r"(?s).*" if may_be_empty else r"(?s).*\S.*"
        )
        self._may_be_empty = may_be_empty

    def convert(self, value: Content) -> str:
        if value == "" and self._may_be_empty:
            return ""
        if not isinstance(value, str) or not value.strip() or "\0" in value:
            raise RefusedError
        parts = [part for part in value.split("/") if part]
        if "://" not in value and (value.startswith("/") or not parts or any(part[0] in "._" for part in parts)):
            raise RefusedError
        return value.rstrip("/")


@dataclass(frozen=True, kw_only=True)
class TableConnectorConfig(ConnectorConfig):
    place: str = setting(
        TablePlace(may_be_empty=True),
        "",
        "Directory of the tables below `pipeline.output`, or a URI; empty is the former.",
    )
    storage_options: Mapping[str, str] = setting(
        StoreOptions(),
        {},
        "For a URI: options of the store, as docs/sinks.md has them for this type.",
        is_secret=True,
    )


@dataclass(frozen=True, kw_only=True)
class TableParameters:
    path: str = required(TablePlace(), "Directory of the table, below the place of the connector.")
    columns: Mapping[str, str] = required(
        TableColumns(), "Its columns, each the value of that name in a row; what a row lacks is null."
    )
    partition_by: tuple[str, ...] = list_setting(
        ListOf(Text("the name of a column")), (), "Columns that part the table."
    )

    def __post_init__(self) -> None:
        _check_named("partition_by", self.partition_by, self.columns)


@dataclass(frozen=True, kw_only=True)
class ParquetParameters(TableParameters):
    compression: str = setting(Choice("zstd", "snappy", "gzip", "lz4", "none"), "zstd", "How files are compressed.")


@dataclass(frozen=True, kw_only=True)
class ParquetAction(ActionConfig):
    parameters: ParquetParameters = required_section(ParquetParameters, "The table.")


@dataclass(frozen=True, kw_only=True)
class DeltaParameters(TableParameters):
    merge_schema: bool = setting(Boolean(), False, "Whether columns that the table does not have are added to it.")
    key: tuple[str, ...] = list_setting(
        ListOf(Text("the name of a column")),
        (),
        "With `newest_by`: columns that identify a row; a newer one replaces it.",
    )
    newest_by: tuple[str, ...] = list_setting(
        ListOf(Text("the name of a column")), (), "With `key`: columns by which a row is newer, the first first."
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_named("key", self.key, self.columns)
        _check_named("newest_by", self.newest_by, self.columns)
        if bool(self.key) != bool(self.newest_by):
            raise RefusedError("needs newest_by, and newest_by needs key: rows are replaced by newer ones", "key")
        for name in set(self.key) & set(self.newest_by):
            raise RefusedError(f"names {name!r}, which is in key: rows that differ there are other rows", "newest_by")


@dataclass(frozen=True, kw_only=True)
class DeltaAction(ActionConfig):
    parameters: DeltaParameters = required_section(DeltaParameters, "The table.")


@dataclass(frozen=True, kw_only=True)
class IcebergConnectorConfig(ConnectorConfig):
    catalog: Mapping[str, str] = setting(
        StoreOptions(may_load_code=True),
        {},
        "Properties of the catalog as pyiceberg names them, and its `name`; keys with a dot stand in quotes. Without, "
        "SQLite in `pipeline.output`.",
        is_secret=True,
    )


@dataclass(frozen=True, kw_only=True)
class IcebergParameters:
    table: str = required(Text("a name such as obs, or weather.obs", r"[\w-]+(\.[\w-]+)*"), "The table.")
    columns: Mapping[str, str] = required(
        TableColumns(), "Its columns, each the value of that name in a row; what a row lacks is null."
    )
    partition_by: tuple[str, ...] = list_setting(
        ListOf(Text("a column, or one of year(column), bucket(16, column), ...")), (), "How a new table is parted."
    )


@dataclass(frozen=True, kw_only=True)
class IcebergAction(ActionConfig):
    parameters: IcebergParameters = required_section(IcebergParameters, "The table.")


@dataclass(frozen=True, kw_only=True)
class S3Transport:
    use_tls: bool = setting(Boolean(), True, "Whether over TLS, with the system's authorities.")
    region: str = setting(AnyText(), "", "The region; empty for what the environment says.")


@dataclass(frozen=True, kw_only=True)
class S3ConnectorConfig(ConnectorConfig):
    host: str = required(Text("a host", r"[A-Za-z0-9.\[\]:_-]+"), "The host.", is_place=True)
    port: int = setting(Integer(1, 65_535), 443, "Its port.", is_place=True)
    access_key_id: Secret = required(SecretText(), "The key.")
    secret_access_key: Secret = required(SecretText(), "Its secret.")
    transport_options: S3Transport = section(S3Transport, "How it is spoken to.")

    def addresses(self) -> tuple[tuple[str, int], ...]:
        return ((self.host, self.port),)


@dataclass(frozen=True, kw_only=True)
class S3Container:
    type: str = setting(Choice("json_lines", "csv", "parquet", "orc"), "json_lines", "Their type.")
    compression: str | None = optional(Text("a compression"), "How they are compressed, as docs/sinks.md has it.")


@dataclass(frozen=True, kw_only=True)
class S3Parameters:
    bucket: str = required(Text("the name of a bucket", r"[A-Za-z0-9][A-Za-z0-9._-]*"), "The bucket.")
    key: str = required(TablePlace(), "Directory of the files in it; names of files are made of batch and number.")
    mode: str = setting(
        Choice("aggregated"), "aggregated", "Rows go to files together; one object for each row is not there."
    )
    container: S3Container = section(S3Container, "What files are.")
    columns: Mapping[str, str] = required(
        TableColumns(), "Their columns, each the value of that name in a row; what a row lacks is null."
    )
    partition_by: tuple[str, ...] = list_setting(
        ListOf(Text("the name of a column")), (), "Columns that become directories."
    )

    def __post_init__(self) -> None:
        _check_named("partition_by", self.partition_by, self.columns)
        for name, kind in self.columns.items():
            if self.container.type == "csv" and "<" in kind:
                raise RefusedError(
                    f"{name!r} is {kind}, and CSV has no such values: make it a string, which is JSON then", "columns"
                )


@dataclass(frozen=True, kw_only=True)
class S3Action(ActionConfig):
    parameters: S3Parameters = required_section(S3Parameters, "The files.")


@dataclass(frozen=True, kw_only=True)
class SparkConnectorConfig(ConnectorConfig):
    format: str = required(CodeName("the name of a format of Spark, such as jdbc"), "The format, by Spark's name.")
    options: Mapping[str, str] = setting(
        StoreOptions(may_load_code=True),
        {},
        "Its options, by Spark's names; those of an action go before them.",
        is_secret=True,
    )


@dataclass(frozen=True, kw_only=True)
class SparkParameters:
    columns: Mapping[str, str] = required(
        TableColumns(), "The columns of the rows, each the value of that name in a row; what a row lacks is null."
    )
    options: Mapping[str, str] = setting(
        StoreOptions(may_load_code=True), {}, "More options of the format, such as `path` or `dbtable`.", is_secret=True
    )


@dataclass(frozen=True, kw_only=True)
class SparkAction(ActionConfig):
    parameters: SparkParameters = required_section(SparkParameters, "The rows.")


def _check_named(key: str, names: tuple[str, ...], columns: Mapping[str, str]) -> None:
    for name in names:
        if name not in columns:
            raise RefusedError(f"names {name!r}, but the columns are {', '.join(columns)}", key)
