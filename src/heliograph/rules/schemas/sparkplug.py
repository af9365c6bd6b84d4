"""Sparkplug B: its payload as a schema, its topics, and what a metric's value is.

The payload definition is in the package. A metric says in `datatype` what its value is, and carries it in a field that
several data types share: a negative integer, for one, as an unsigned one. `metric_value` makes the value of it.
"""

import struct
from base64 import b64decode, b64encode
from binascii import Error as Base64Error
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Final

from heliograph.rules.schemas.interface import SPARKPLUG_B, SchemaError
from heliograph.rules.schemas.protobuf import ProtobufSchema
from heliograph.rules.values import UNDEFINED, Value, string_of

NAMESPACE: Final = "spBv1.0"
NBIRTH: Final = "NBIRTH"
NDEATH: Final = "NDEATH"
DBIRTH: Final = "DBIRTH"
DDEATH: Final = "DDEATH"
NDATA: Final = "NDATA"
DDATA: Final = "DDATA"

_PAYLOAD: Final = "Payload"
_FILE: Final = "sparkplug_b.proto"

_DATA_TYPES: Final = (
    *("Unknown", "Int8", "Int16", "Int32", "Int64", "UInt8", "UInt16", "UInt32", "UInt64", "Float", "Double"),
    *("Boolean", "String", "DateTime", "Text", "UUID", "DataSet", "Bytes", "File", "Template", "PropertySet"),
    *("PropertySetList", "Int8Array", "Int16Array", "Int32Array", "Int64Array", "UInt8Array", "UInt16Array"),
    *("UInt32Array", "UInt64Array", "FloatArray", "DoubleArray", "BooleanArray", "StringArray", "DateTimeArray"),
)
_SIGNED_BITS: Final = {1: 8, 2: 16, 3: 32, 4: 64}
_BYTES_TYPES: Final = frozenset({17, 18})
_ARRAYS: Final = {22: "b", 23: "h", 24: "i", 25: "q", 26: "B", 27: "H", 28: "I", 29: "Q", 30: "f", 31: "d", 34: "q"}
_BOOLEAN_ARRAY: Final = 32
_STRING_ARRAY: Final = 33
_VALUE_FIELDS: Final = (
    *("int_value", "long_value", "float_value", "double_value", "boolean_value", "string_value", "bytes_value"),
    *("dataset_value", "template_value", "extension_value"),
)


class SparkplugSchema(ProtobufSchema):
    """The built-in schema of Sparkplug B payloads; made once in a process, by `sparkplug_schema`."""

    kind = SPARKPLUG_B

    def __init__(self) -> None:
        text = files("heliograph.rules.schemas").joinpath(_FILE).read_text(encoding="utf-8")
        super().__init__(SPARKPLUG_B, {_FILE: text}, _FILE, _PAYLOAD)


@cache
def sparkplug_schema() -> SparkplugSchema:
    """The schema; compiled when it is first asked for."""
    return SparkplugSchema()


@dataclass(frozen=True, slots=True)
class EdgeTopic:
    """A Sparkplug topic taken apart; it has no device where the message is of the edge node itself."""

    group: str
    type: str
    edge: str
    device: str | None

    @staticmethod
    def of(topic: str) -> "EdgeTopic | None":
        """What the topic `spBv1.0/<group>/<type>/<edge node>[/<device>]` says; None for any other topic."""
        levels = topic.split("/")
        if len(levels) not in (4, 5) or levels[0] != NAMESPACE:
            return None
        kind, device = levels[2], levels[4] if len(levels) == 5 else None
        expected = (DBIRTH, DDEATH, DDATA, "DCMD") if device is not None else (NBIRTH, NDEATH, NDATA, "NCMD")
        return EdgeTopic(levels[1], kind, levels[3], device) if kind in expected else None


def decode_payload(data: bytes) -> dict[str, Value]:
    payload = sparkplug_schema().decode(data)
    assert isinstance(payload, dict)
    return payload


def metrics_of(payload: Mapping[str, Value]) -> list[dict[str, Value]]:
    metrics = payload.get("metrics")
    return [metric for metric in metrics if isinstance(metric, dict)] if isinstance(metrics, list) else []


def with_bytes_as_base64(payload: dict[str, Value]) -> dict[str, Value]:
    """The payload with the bytes of its metrics in base64, so that it has a JSON text."""
    return _with_metrics(payload, lambda content: b64encode(_bytes(content)).decode())


def with_bytes_of_base64(payload: dict[str, Value]) -> dict[str, Value]:
    """The payload with the bytes of its metrics as such."""
    return _with_metrics(payload, _decoded_base64)


def _with_metrics(payload: dict[str, Value], change: Callable[[Value], Value]) -> dict[str, Value]:
    metrics = payload.get("metrics")
    if not isinstance(metrics, list):
        return payload
    changed: list[Value] = [
        {**metric, "bytes_value": change(metric["bytes_value"])}
        if isinstance(metric, dict) and "bytes_value" in metric
        else metric
        for metric in metrics
    ]
    return {**payload, "metrics": changed}


def _decoded_base64(content: Value) -> Value:
    try:
        return string_of(b64decode(_bytes(content), validate=True))
    except (Base64Error, ValueError):
        raise SchemaError("bytes_value of a metric must be base64") from None


def _bytes(content: Value) -> bytes:
    if isinstance(content, str):
        return content.encode()
    return content if isinstance(content, bytes) else b""


def data_type_name(datatype: Value) -> Value:
    """The name of a data type by its number; what has no name stays."""
    return _DATA_TYPES[datatype] if type(datatype) is int and 0 <= datatype < len(_DATA_TYPES) else datatype


def metric_value(metric: Mapping[str, Value], datatype: Value = UNDEFINED) -> Value:
    """The value of a decoded metric: null if it says so, undefined if it carries none."""
    if metric.get("is_null") is True:
        return None
    kind = metric.get("datatype", datatype)
    number = kind if type(kind) is int else 0
    for field in _VALUE_FIELDS:
        if field in metric:
            return _typed(metric[field], number, field)
    return UNDEFINED


def _typed(content: Value, datatype: int, field: str) -> Value:
    if datatype in _SIGNED_BITS and type(content) is int:
        bits = _SIGNED_BITS[datatype]
        low = content & ((1 << bits) - 1)
        return low - (1 << bits) if low >> (bits - 1) else low
    if field == "bytes_value" and datatype not in _BYTES_TYPES:
        return _array(_bytes(content), datatype, content)
    if field == "dataset_value" and isinstance(content, dict):
        return _rows(content)
    if field == "template_value" and isinstance(content, dict):
        return {str(metric["name"]): metric_value(metric) for metric in metrics_of(content) if "name" in metric}
    return content


def _array(data: bytes, datatype: int, content: Value) -> Value:
    """The elements of an array, which is packed into bytes; other bytes stay what they are."""
    if datatype in _ARRAYS:
        code = _ARRAYS[datatype]
        count, rest = divmod(len(data), struct.calcsize(f"<{code}"))
        return list(struct.unpack(f"<{count}{code}", data)) if not rest else content
    if datatype == _BOOLEAN_ARRAY and len(data) >= 4:
        count = int.from_bytes(data[:4], "little")
        bits = data[4:]
        return [bool(bits[at >> 3] >> (7 - (at & 7)) & 1) for at in range(count)] if count <= 8 * len(bits) else content
    if datatype == _STRING_ARRAY:
        return [string_of(text) for text in data.removesuffix(b"\0").split(b"\0")] if data else []
    return content


def _rows(dataset: Mapping[str, Value]) -> Value:
    columns, types, rows = (dataset.get(key) for key in ("columns", "types", "rows"))
    if not isinstance(columns, list) or not isinstance(rows, list):
        return []
    numbers = types if isinstance(types, list) else []
    kinds = [*numbers, *([UNDEFINED] * (len(columns) - len(numbers)))]
    result: list[Value] = []
    for row in rows:
        elements = row.get("elements") if isinstance(row, dict) else None
        named = zip(columns, kinds, elements if isinstance(elements, list) else [], strict=False)
        result.append(
            {
                str(name): metric_value(element, kind) if isinstance(element, dict) else UNDEFINED
                for name, kind, element in named
            }
        )
    return result
