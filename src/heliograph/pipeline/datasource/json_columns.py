"""JSON payloads as Arrow columns, parsed by Arrow's own parser: a struct of given fields, or Spark's VARIANT.

A payload that is not what is expected gives null and a reason, and its neighbours are not touched.
"""

import json
import re
from collections.abc import Callable
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json
from pyspark.errors import PySparkException
from pyspark.sql.variant_utils import VariantBuilder

from heliograph.rules.json_text import encode_json

#: The values of a column of payloads, and why a value is null, which is null for all others.
Decoded = tuple[pa.Array, pa.Array]

_PARSER_MARGIN: Final = 64
_FIELD: Final = re.compile(r"Column\(/v/?(.*?)\)")
_NO_TEXT: Final = "it is not UTF-8"


def decode_structs(payloads: pa.Array, kind: pa.StructType) -> Decoded:
    """Payloads that are JSON objects, as a struct of some of their fields.

    A field that is missing is null. A payload is no value at all if it is not JSON, or if a field has another type.
    """
    return _halved(payloads, kind, lambda part: _parsed(part, kind))


def _halved(payloads: pa.Array, kind: pa.DataType, parse: Callable[[pa.Array], pa.Array]) -> Decoded:
    """Parse all at once; where that fails, each half by itself, so that one bad payload costs a few attempts."""
    if not len(payloads):
        return pa.nulls(0, kind), pa.nulls(0, pa.string())
    try:
        return parse(payloads), pa.nulls(len(payloads), pa.string())
    except (pa.ArrowException, ValueError) as error:
        if len(payloads) == 1:
            return pa.nulls(1, kind), pa.array([_reason(error)])
    middle = len(payloads) // 2
    halves = [_halved(payloads[:middle], kind, parse), _halved(payloads[middle:], kind, parse)]
    return pa.concat_arrays([half[0] for half in halves]), pa.concat_arrays([half[1] for half in halves])


def _parsed(payloads: pa.Array, kind: pa.StructType) -> pa.Array:
    """All payloads; each must be fit.

    Each is put into an object beside its number. So what is cut off, or goes on behind its end, cannot be read as a
    part of its neighbour: it would have to close the object and bring a number that is not its own.
    """
    numbers = pa.array(range(len(payloads)), pa.int64())
    texts = pc.binary_join_element_wise(
        '{"v":', payloads.cast(pa.string()), ',"n":', numbers.cast(pa.string()), "}\n", ""
    )
    data = _bytes_of(texts)
    table = pa.json.read_json(
        pa.BufferReader(data),
        # One block: a value may be longer than any block size that could be chosen beforehand.
        read_options=pa.json.ReadOptions(use_threads=False, block_size=data.size + _PARSER_MARGIN),
        parse_options=pa.json.ParseOptions(
            explicit_schema=pa.schema([("v", kind), ("n", pa.int64())]), unexpected_field_behavior="ignore"
        ),
    ).combine_chunks()
    values = table.column("v").combine_chunks()
    found = table.column("n").combine_chunks()
    if not found.equals(numbers):
        raise ValueError("it is more than one value")
    return values if values.type == kind else values.cast(kind)


def _bytes_of(texts: pa.Array) -> pa.Buffer:
    """The bytes of all texts, one after another; they are in one piece already."""
    offsets = texts.buffers()[1]
    ends = memoryview(offsets).cast("i")
    begin, end = ends[texts.offset], ends[texts.offset + len(texts)]
    return texts.buffers()[2].slice(begin, end - begin)


def decode_variants(payloads: pa.Array, kind: pa.StructType) -> Decoded:
    """JSON payloads as Spark's VARIANT, whatever is in them.

    They are taken apart one by one in Python, some ten thousand a second: Spark's own `try_parse_json` is much faster.
    """
    values: list[bytes] = []
    metadata: list[bytes] = []
    reasons: list[str | None] = []
    for payload in payloads.to_pylist():
        try:
            value, names = VariantBuilder().build(payload.decode())
            reasons.append(None)
        except (ValueError, PySparkException, RecursionError) as error:
            value = names = b""
            reasons.append(_reason(error))
        values.append(value)
        metadata.append(names)
    why = pa.array(reasons, pa.string())
    columns = {"value": pa.array(values, pa.binary()), "metadata": pa.array(metadata, pa.binary())}
    fields = [kind.field(index) for index in range(kind.num_fields)]
    return pa.StructArray.from_arrays([columns[one.name] for one in fields], fields=fields, mask=why.is_valid()), why


def _reason(error: Exception) -> str:
    if isinstance(error, UnicodeDecodeError) or "UTF8" in str(error):
        return _NO_TEXT
    if isinstance(error, json.JSONDecodeError):
        return f"it is not JSON: {error}"
    text = str(error).removeprefix("JSON parse error: ").removesuffix(" in row 0")
    return _FIELD.sub(lambda found: f"field {found[1]}" if found[1] else "it", text)


def column_text(value: Any) -> str | None:
    """The JSON text of a decoded value, with bytes in hexadecimal, since JSON has no place for them; None stays."""
    return None if value is None else encode_json(_writable(value))


def _writable(value: Any) -> Any:
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, dict):
        return {key: _writable(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_writable(item) for item in value]
    return value if isinstance(value, str | int | float | None) else str(value)
