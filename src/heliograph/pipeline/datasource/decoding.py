"""The option ``schema`` of the data source: payloads decoded to a column ``value`` while they are read.

`PayloadFormat` is what the options say, a plain value that travels to the workers; `PayloadDecoder` is what a worker
makes of it. A payload that cannot be decoded is no reason to stop: its row has a null ``value``, or null in a field of
another type, the payload as it came, and the reason in ``decode_error``; the option ``mode`` has Spark's words for what
else may become of it.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.pandas.types import from_arrow_type, to_arrow_type
from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    ByteType,
    DataType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    ShortType,
    StringType,
    StructType,
    TimestampNTZType,
    TimestampType,
    VariantType,
)

from heliograph.pipeline.datasource.spark_versions import IN_UTC
from heliograph.pipeline.errors import OptionError, PayloadError

if TYPE_CHECKING:
    from heliograph.pipeline.datasource.json_columns import Decoded
    from heliograph.rules.schemas.settings import SchemaSettings

VALUE: Final = "value"
DECODE_ERROR: Final = "decode_error"
#: The column of Spark's own sources for what cannot be decoded: the payload as text, or null where it can.
CORRUPT_RECORD: Final = "_corrupt_record"

_RAW: Final = "raw"
_JSON: Final = "json"
_VARIANT: Final = "variant"
_AVRO: Final = "avro"
_PROTOBUF: Final = "protobuf"
PERMISSIVE: Final = "PERMISSIVE"
DROP: Final = "DROPMALFORMED"
_FAIL: Final = "FAILFAST"
_MODES: Final = (PERMISSIVE, DROP, _FAIL)

_VALID: Final = "raw, json, variant, avro:NAME, protobuf:NAME or protobuf:NAME:MESSAGE"
_SCALARS: Final = (
    BooleanType,
    ByteType,
    ShortType,
    IntegerType,
    LongType,
    MapType,
    FloatType,
    DoubleType,
    DecimalType,
    StringType,
    TimestampType,
    TimestampNTZType,
)
_STRUCT: Final = "struct<"


@dataclass(frozen=True)
class PayloadFormat:
    """What payloads are decoded to.

    Attributes:
        json_fields: ``jsonSchema``: the fields of JSON objects, in Spark's DDL.
        mode: ``mode``: what becomes of a payload that cannot be decoded: ``PERMISSIVE`` (null), ``DROPMALFORMED`` or
            ``FAILFAST``.
    """

    kind: str = _RAW
    name: str | None = None
    message_type: str | None = None
    json_fields: str | None = None
    schema: "SchemaSettings | None" = None
    mode: str = PERMISSIVE

    @staticmethod
    def of(options: Mapping[str, str]) -> "PayloadFormat":
        """What the options of a read say."""
        text = options.get("schema", _RAW)
        kind, _, rest = text.partition(":")
        mode = options.get("mode", PERMISSIVE).upper()
        if mode not in _MODES:
            raise OptionError("mode", options["mode"], f"one of {', '.join(_MODES)}")
        if kind in (_RAW, _JSON, _VARIANT) and not rest and not text.endswith(":"):
            json_fields = _json_fields(options.get("jsonSchema")) if kind == _JSON else None
            return PayloadFormat(kind, json_fields=json_fields, mode=mode)
        name, _, message_type = rest.partition(":")
        if kind not in (_AVRO, _PROTOBUF) or not name or (message_type and kind == _AVRO):
            raise OptionError("schema", text, _VALID)
        schema = _schema_named(options, text, kind, name)
        found = PayloadFormat(kind, name, message_type or None, schema=schema, mode=mode)
        found.columns_ddl()
        return found

    @property
    def is_decoded(self) -> bool:
        """Whether rows have the columns of decoded payloads."""
        return self.kind != _RAW

    @property
    def columns_on_demand(self) -> tuple[str, ...]:
        """Columns of text that a read has only if it names them."""
        return (CORRUPT_RECORD,) if self.is_decoded else ()

    def columns_ddl(self) -> dict[str, str]:
        """The columns that come to those of stored messages, with their types in Spark's DDL."""
        return {VALUE: self._value_ddl(), DECODE_ERROR: "string"} if self.is_decoded else {}

    def check_type(self, column: str, kind: DataType) -> None:
        """Check the type that a read wants for one of these columns."""
        if column in (DECODE_ERROR, CORRUPT_RECORD):
            _check_is(column, kind, StringType())
        elif self.kind == _VARIANT:
            _check_is(column, kind, VariantType())
        elif self.kind == _JSON:
            if not isinstance(kind, StructType) or not kind.fields:
                raise OptionError("schema", f"{column} {kind.simpleString()}", "struct<...> with a field at least")
            _check_json_type(kind, column)
        else:
            _check_is(column, kind, from_arrow_type(self._named_type()))

    def decoder(self, kind: DataType | None) -> Callable[[pa.Array], "Decoded"]:
        """What decodes a column of payloads, on a worker; without a type of ``value``, only errors are wanted."""
        if self.kind in (_AVRO, _PROTOBUF):
            return self._decode_named
        from heliograph.pipeline.datasource.json_columns import decode_structs, decode_variants

        if self.kind == _VARIANT:
            variant = to_arrow_type(VariantType(), **IN_UTC)
            return lambda payloads: decode_variants(payloads, variant)
        struct = to_arrow_type(kind, **IN_UTC) if kind is not None else pa.struct([])
        return lambda payloads: decode_structs(payloads, struct)

    def _value_ddl(self) -> str:
        if self.kind == _JSON:
            return self.json_fields or ""
        if self.kind == _VARIANT:
            return VariantType().simpleString()
        return str(from_arrow_type(self._named_type()).simpleString())

    def _named_type(self) -> pa.DataType:
        from heliograph.pipeline.datasource.schemas import arrow_type, built_schema
        from heliograph.rules.schemas.interface import SchemaError

        assert self.schema is not None
        try:
            return arrow_type(built_schema(self.schema), self.message_type)
        except SchemaError as error:
            raise OptionError(
                "schema", ":".join(filter(None, (self.kind, self.name, self.message_type))), str(error)
            ) from None

    def _decode_named(self, payloads: pa.Array) -> "Decoded":
        from heliograph.pipeline.datasource.schemas import built_schema, decode_column

        assert self.schema is not None
        schema = built_schema(self.schema)
        values = decode_column(schema, payloads, self.message_type)
        if not values.null_count:
            return values, pa.nulls(len(values), pa.string())
        why = [
            None if is_valid else schema.check(payload, self.message_type) or "it does not fit the schema"
            for is_valid, payload in zip(values.is_valid().to_pylist(), payloads.to_pylist(), strict=True)
        ]
        return values, pa.array(why, pa.string())


RAW: Final = PayloadFormat()
_DECODED: Final = (VALUE, DECODE_ERROR, CORRUPT_RECORD)


class PayloadDecoder:
    """Adds the decoded columns to record batches. Made on a worker for each partition."""

    def __init__(self, payload_format: PayloadFormat, schema: StructType) -> None:
        names = schema.fieldNames()
        drops = payload_format.mode == DROP
        self.is_needed = payload_format.is_decoded and (drops or any(name in names for name in _DECODED))
        #: The columns of stored messages that are needed.
        self.reads = [name for name in names if name not in _DECODED]
        self._mode = payload_format.mode
        self._wants_corrupt = CORRUPT_RECORD in names
        if self.is_needed:
            if "payload" not in self.reads:
                self.reads.append("payload")
            self._decode = payload_format.decoder(schema[VALUE].dataType if VALUE in names else None)

    def decoded(self, batch: pa.RecordBatch, stream: str) -> pa.RecordBatch:
        """The batch with the columns ``value``, ``decode_error`` and, where it is wanted, ``_corrupt_record``."""
        if not self.is_needed:
            return batch
        values, errors = self._decode(batch.column("payload"))
        is_bad = errors.null_count < len(errors)
        if is_bad and self._mode == _FAIL:
            row = pc.index(errors.is_valid(), True).as_py()
            payload = batch.column("payload")[row].as_py()
            raise PayloadError(
                f"a payload of the stream {stream} cannot be decoded: {errors[row].as_py()}. It begins "
                f"{payload[:64]!r}. With mode=PERMISSIVE such rows say why in the column decode_error, with "
                "mode=DROPMALFORMED they are left out"
            )
        columns = dict(zip([*batch.schema.names, VALUE, DECODE_ERROR], [*batch.columns, values, errors], strict=True))
        if self._wants_corrupt:
            columns[CORRUPT_RECORD] = _corrupt_records(batch.column("payload"), errors)
        decoded = pa.RecordBatch.from_pydict(columns)
        return decoded.filter(errors.is_null()) if is_bad and self._mode == DROP else decoded


def _corrupt_records(payloads: pa.Array, errors: pa.Array) -> pa.Array:
    """The payloads that have an error, as text; what is no UTF-8 in them is replaced."""
    if errors.null_count == len(errors):
        return pa.nulls(len(errors), pa.string())
    pairs = zip(payloads.to_pylist(), errors.is_valid().to_pylist(), strict=True)
    return pa.array([payload.decode(errors="replace") if bad else None for payload, bad in pairs], pa.string())


def _check_is(column: str, kind: DataType, expected: DataType) -> None:
    if kind != expected:
        raise OptionError("schema", f"{column} {kind.simpleString()}", expected.simpleString())


def _json_fields(text: str | None) -> str:
    if text is None or not text.strip():
        raise OptionError("jsonSchema", text, 'the fields of the payloads, such as "temp DOUBLE, station STRING"')
    return text if text.strip().lower().startswith(_STRUCT) else f"{_STRUCT}{text}>"


def _check_json_type(kind: DataType, path: str) -> None:
    if isinstance(kind, StructType):
        for one in kind.fields:
            _check_json_type(one.dataType, f"{path}.{one.name}")
    elif isinstance(kind, ArrayType):
        _check_json_type(kind.elementType, f"{path}[]")
    elif isinstance(kind, MapType) and isinstance(kind.keyType, StringType):
        _check_json_type(kind.valueType, f"{path}.*")
    elif not isinstance(kind, _SCALARS):
        valid = "struct, array, map of string, boolean, a number, string or timestamp"
        raise OptionError("jsonSchema", f"{path} {kind.simpleString()}", valid)


def _schema_named(options: Mapping[str, str], text: str, kind: str, name: str) -> "SchemaSettings":
    from heliograph.hocon.document import parse_file, parse_text
    from heliograph.hocon.errors import HoconError
    from heliograph.pipeline.datasource.schemas import read_schemas
    from heliograph.pipeline.errors import RuleFileError
    from heliograph.pipeline.files.section import FileSection

    given = options.get("schemas")
    if given is None:
        raise OptionError("schemas", None, f"a file with a section schemas that has {name}, since schema is {text}")
    is_text = given.lstrip().startswith("{")
    try:
        node = parse_text(f"schemas {given}", name="option schemas") if is_text else parse_file(Path(given))
        found = {settings.name: settings for settings in read_schemas(FileSection(node))}
    except (HoconError, RuleFileError, OSError) as error:
        raise OptionError("schemas", given[:80], f"readable ({error})") from None
    if name not in found or found[name].type != kind:
        there = ", ".join(f"{one.type}:{one.name}" for one in found.values()) or "none"
        raise OptionError("schema", text, f"one of the schemas that there are: {there}")
    return found[name]
