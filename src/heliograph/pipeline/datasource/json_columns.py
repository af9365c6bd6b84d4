"""JSON payloads as Arrow columns, parsed by Arrow's own parser: a struct of given fields, or Spark's VARIANT.

A field of another type gives null, a payload that is no JSON gives null as a whole, both with a reason, and its
neighbours are not touched.
"""

import json
import re
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json
from pyspark.errors import PySparkException
from pyspark.sql.variant_utils import VariantBuilder

from heliograph.pipeline.datasource.json_repair import Repair, fields_of, kind_name, object_of, with_maps, without_maps
from heliograph.rules.json_text import encode_json

#: The values of a column of payloads, and why a value is null, which is null for all others.
Decoded = tuple[pa.Array, pa.Array]

_PARSER_MARGIN: Final = 64
# A payload that does not fit has those of its block looked at one by one; Arrow needs some for its speed.
_BLOCK_ROWS: Final = 2048
_FIELD: Final = re.compile(r"Column\(/v/?(.*?)\)")
_NO_TEXT: Final = "it is not UTF-8"


def decode_structs(payloads: pa.Array, kind: pa.StructType) -> Decoded:
    """Payloads that are JSON objects, as a struct of some of their fields.

    A field that is missing is null, and so is one of another type, which has a reason; a string may be given as any
    JSON value. A payload that is no JSON object is null with a reason.
    """
    if not len(payloads):
        return pa.nulls(0, kind), pa.nulls(0, pa.string())
    plain = without_maps(kind)
    if plain != kind:
        repair = Repair(kind)
        starts = range(0, len(payloads), _BLOCK_ROWS)
        written = [_repaired(payloads[at : at + _BLOCK_ROWS], plain, repair, kind) for at in starts]
        values = pa.concat_arrays([part[0] for part in written])
        return with_maps(values, kind), pa.concat_arrays([part[1] for part in written])
    try:
        return _parsed(payloads, kind), pa.nulls(len(payloads), pa.string())
    except (pa.ArrowException, ValueError):
        repair = Repair(kind)
    starts = range(0, len(payloads), _BLOCK_ROWS)
    parts = [_repaired_block(payloads[at : at + _BLOCK_ROWS], kind, repair) for at in starts]
    return pa.concat_arrays([part[0] for part in parts]), pa.concat_arrays([part[1] for part in parts])


def _repaired_block(payloads: pa.Array, kind: pa.StructType, repair: Repair) -> Decoded:
    """Parse a part at once; only where that fails is each payload looked at."""
    try:
        return _parsed(payloads, kind), pa.nulls(len(payloads), pa.string())
    except (pa.ArrowException, ValueError):
        return _repaired(payloads, kind, repair, kind)


def _repaired(payloads: pa.Array, kind: pa.StructType, repair: Repair, wanted: pa.StructType) -> Decoded:
    """Repair the payloads one by one, and parse them; `kind` is `wanted` without maps."""
    texts: list[bytes] = []
    reasons: list[str | None] = []
    for payload in payloads.to_pylist():
        try:
            text, faults = repair.repaired(payload) or (payload, [])
        except (ValueError, RecursionError) as error:
            # A list of entries is no map, though Arrow would take it for one.
            text, faults = (b"null", [_reason(error)]) if kind != wanted else _if_parsed(payload, kind)
        texts.append(text)
        reasons.append(_as_text("; ".join(faults)) or None)
    return _halved(pa.array(texts, pa.binary()), reasons, kind, wanted)


def _if_parsed(payload: bytes, kind: pa.StructType) -> tuple[bytes, list[str]]:
    """What Python's parser does not take is as Arrow's says."""
    try:
        _parsed(pa.array([payload], pa.binary()), kind)
    except (pa.ArrowException, ValueError) as error:
        return b"null", [_reason(error)]
    return payload, []


def _halved(payloads: pa.Array, reasons: list[str | None], kind: pa.StructType, wanted: pa.StructType) -> Decoded:
    """Parse what is repaired; where that still fails, each half by itself, down to the payload that fails."""
    try:
        return _parsed(payloads, kind), pa.array(reasons, pa.string())
    except (pa.ArrowException, ValueError) as error:
        if len(payloads) == 1:
            return _field_by_field(payloads[0].as_py(), reasons[0], error, kind, wanted)
    middle = len(payloads) // 2
    halves = [
        _halved(payloads[:middle], reasons[:middle], kind, wanted),
        _halved(payloads[middle:], reasons[middle:], kind, wanted),
    ]
    return pa.concat_arrays([half[0] for half in halves]), pa.concat_arrays([half[1] for half in halves])


def _field_by_field(
    payload: bytes, reason: str | None, error: Exception, kind: pa.StructType, wanted: pa.StructType
) -> Decoded:
    """One payload whose fields have the right types and not all the right form, such as a time."""
    reasons = [reason] if reason else []
    fit: dict[str, str] = {}
    for name, text in fields_of(payload, kind).items():
        try:
            _parsed(pa.array([object_of({name: text})], pa.binary()), kind)
        except (pa.ArrowException, ValueError):
            of = wanted.field(name).type
            # Maps are written otherwise here than in the payload.
            shown = f"{_as_text(text[:40])}, which is " if of == kind.field(name).type else ""
            reasons.append(f"field {name} is {shown}no {kind_name(of)}")
        else:
            fit[name] = text
    if len(reasons) == bool(reason):  # each field fits alone, so it is the payload that does not
        return pa.nulls(1, kind), pa.array([_reason(error)])
    return _parsed(pa.array([object_of(fit)], pa.binary()), kind), pa.array(["; ".join(reasons)])


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


def _as_text(text: str) -> str:
    """Half a pair of surrogates, which JSON may have and no text may, as it was escaped."""
    return text.encode("utf-8", "backslashreplace").decode()


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
