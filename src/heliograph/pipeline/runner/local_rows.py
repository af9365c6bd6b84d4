"""The rows of a batch for a sink, made of stored messages whose payloads are the rows that rules made, as JSON."""

import json
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property, lru_cache
from typing import Any, Final

import pyarrow as pa

from heliograph.actions.loops import VIA
from heliograph.actions.sinks import ROW
from heliograph.pipeline.errors import SinkError
from heliograph.pipeline.runner.json_texts import NotJson, bytes_at, parsed, quickly_parsed, string_at, text_at
from heliograph.pipeline.sinks.interface import RowSink
from heliograph.pipeline.sinks.rows import PREFIX, Derived, RowField
from heliograph.pipeline.sinks.template import BASE64_MARK, WHOLE_ROW, only_column, parts_of, template_fault

MESSAGE_ID: Final = f"{PREFIX}message_id"
"""The column with the ids of messages."""

_NULL: Final = "null"
_BELOW_ROW: Final = f"{ROW}."

_Value = Callable[["LocalRows"], list[str | None]]


class LocalRows:
    """Rows with the one column `payload`; see `heliograph.pipeline.sinks.rows.Rows`.

    Args:
        payloads: The payload of each message.
        is_text: Whether the column is text, as a parameter of a statement needs it.
        ids: Of the messages; then `row` has them too, since equal rows may not be refused alike.
    """

    def __init__(
        self, payloads: Sequence[bytes], sink: RowSink, *, is_text: bool = False, ids: Sequence[bytes] | None = None
    ) -> None:
        self._payloads = payloads
        self._is_text = is_text
        self._has_ids = ids is not None
        self._values: dict[int, Any] = {}  # of those that had to be parsed
        columns = {ROW: pa.array(self._texts if is_text else payloads, pa.string() if is_text else pa.binary())}
        for path in sink.paths:
            if path != ROW:
                columns[path] = pa.array(_value(path, "the statement")(self), pa.string())
        for derived in sink.derived:
            kind = pa.string() if derived.is_text else pa.binary()
            columns[derived.column] = pa.array(self._derived(derived), kind)
        if ids is not None:
            columns[MESSAGE_ID] = pa.array(ids, pa.binary())
        self._batch = pa.RecordBatch.from_pydict(columns)

    def __repr__(self) -> str:
        return f"LocalRows({len(self._payloads)})"

    @property
    def fields(self) -> Sequence[RowField]:
        return (RowField(ROW, "string" if self._is_text else "binary"),)

    def chunks(self, rows_max: int) -> Iterator[pa.RecordBatch]:
        for begin in range(0, self._batch.num_rows, rows_max):
            yield self._batch.slice(begin, rows_max)

    def row(self, chunk: pa.RecordBatch, index: int) -> dict[str, Any]:
        names = (ROW, MESSAGE_ID) if self._has_ids else (ROW,)
        return {name: chunk.column(name)[index].as_py() for name in names}

    @cached_property
    def _texts(self) -> list[str]:
        return [payload.decode("utf-8", "replace") for payload in self._payloads]

    @cached_property
    def _quick(self) -> list[Any]:
        return [quickly_parsed(text) for text in self._texts]

    def _value(self, number: int) -> Any:
        """The value of a row, with its numbers as they are written."""
        if number not in self._values:
            self._values[number] = parsed(self._texts[number])
        return self._values[number]

    def _texts_at(self, path: Sequence[str]) -> list[str | None]:
        texts: list[str | None] = []
        for number, value in enumerate(self._quick):
            found = string_at(value, path)
            texts.append(text_at(self._value(number), path) if isinstance(found, NotJson) else found)
        return texts

    def _derived(self, derived: Derived) -> list[Any]:
        if derived.template is None:
            texts = [json.dumps({ROW: text}, ensure_ascii=False, separators=(",", ":")) for text in self._texts]
            return texts if derived.is_text else [text.encode() for text in texts]
        if not derived.is_text and only_column(derived.template) == ROW:
            return list(self._payloads)
        texts = _compiled(derived)(self)
        return texts if derived.is_text else self._bytes(derived.template, texts)

    def _bytes(self, template: str, texts: Sequence[str | None]) -> list[bytes | None]:
        """The bytes of texts; those that a row has in Base64, where the template is nothing but its placeholder."""
        name = only_column(template) or ""
        path = name.removeprefix(_BELOW_ROW).split(".") if name.startswith(_BELOW_ROW) else None
        made: list[bytes | None] = []
        for number, text in enumerate(texts):
            coded = None
            if path is not None and text is not None and text.startswith(BASE64_MARK):
                coded = bytes_at(self._value(number), path)
            made.append(text.encode() if coded is None and text is not None else coded)
        return made


def check_templates(sink: RowSink) -> None:
    """Look whether rows have what the templates of a sink name.

    Raises:
        SinkError: A template names another column than `payload`.
    """
    for derived in sink.derived:
        if derived.template is not None:
            _compiled(derived)
    for path in sink.paths:
        if path != ROW:
            _value(path, "the statement")


@lru_cache(maxsize=1024)
def _compiled(derived: Derived) -> Callable[[LocalRows], list[Any]]:
    template = derived.template or ""
    where = f"{derived.where} is {template!r}"
    if fault := template_fault(template):
        raise SinkError(f"{derived.where}: {fault}")
    if (name := only_column(template)) is not None:
        values = _value(name, where)
        return values if derived.keep_null else lambda rows: [_NULL if text is None else text for text in values(rows)]
    parts = [(text, None if name is None else _value(name, where)) for text, name in parts_of(template)]

    def texts(rows: LocalRows) -> list[str]:
        columns = [(text, None if values is None else values(rows)) for text, values in parts]
        return [
            "".join(
                text if values is None else f"{text}{_NULL if values[number] is None else values[number]}"
                for text, values in columns
            )
            for number in range(len(rows._payloads))
        ]

    return texts


def _value(name: str, where: str) -> _Value:
    if name == ROW:
        return lambda rows: list(rows._texts)
    if name == WHOLE_ROW:
        return lambda rows: [json.dumps({ROW: text}, ensure_ascii=False) for text in rows._texts]
    if not name.startswith(_BELOW_ROW):
        raise SinkError(f"{where}, but the rows have no column {name!r}: {ROW}")
    path = name.removeprefix(_BELOW_ROW).split(".")
    if path[-1] == VIA:  # few rows have it, and the others are not parsed for it
        return lambda rows: [text_at(parsed(text), path) if VIA in text else None for text in rows._texts]
    return lambda rows: rows._texts_at(path)
