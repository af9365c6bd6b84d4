"""Values of rows by the names in templates, with their types: a number stays one, which a text made by Spark is not.

A sink whose target tells `5` from `"5"` makes its texts of these, on either engine.
"""

import json
from collections.abc import Callable, Sequence
from datetime import date, datetime
from decimal import Decimal
from typing import Any, Final

import pyarrow as pa

from heliograph.pipeline.sinks.rows import PREFIX, RowField, check_names
from heliograph.pipeline.sinks.sql_batches import RefusedRowsError
from heliograph.pipeline.sinks.template import WHOLE_ROW, only_column, parts_of, placeholders, template_fault

_NULL: Final = "null"


class RowValues:
    """The values of the rows of a chunk; a step into text looks into the JSON that it holds."""

    def __init__(self, chunk: pa.RecordBatch) -> None:
        self._chunk = chunk
        self._columns: dict[str, list[Any]] = {}
        self._parsed: dict[str, list[Any]] = {}

    def __repr__(self) -> str:
        return f"RowValues({self._chunk.num_rows})"

    def of(self, name: str) -> list[Any]:
        """For each row the value that `${name}` stands for; None where there is none."""
        if name == WHOLE_ROW:
            own = [each for each in self._chunk.schema.names if not each.startswith(PREFIX)]
            columns = [self._column(each) for each in own]
            return [json_text(dict(zip(own, row, strict=True))) for row in zip(*columns, strict=True)]
        if name in self._chunk.schema.names:
            return self._column(name)
        first, *path = name.split(".")
        if first not in self._parsed:
            self._parsed[first] = [_parsed(value) for value in self._column(first)]
        return [_at(value, path) for value in self._parsed[first]]

    def _column(self, name: str) -> list[Any]:
        if name not in self._columns:
            try:
                values = self._chunk.column(name).to_pylist()
            except (ValueError, OverflowError) as error:
                raise RefusedRowsError(f"a value of {name} cannot be sent: {error}") from error
            self._columns[name] = [_plain(value) for value in values]
        return self._columns[name]


def check_template_columns(templates: Sequence[str], fields: Sequence[RowField], where: str) -> None:
    """Refuse rows without a column that a template names. Raises `SinkError`."""
    known = {field.name for field in fields}
    names = [name for text in templates for name in placeholders(text) if name != WHOLE_ROW]
    check_names([name if name in known else name.split(".")[0] for name in names], fields, where)


class TextTemplate:
    """A text with values of a row; one that the row lacks is `null`. Raises `ValueError` for what is no template."""

    def __init__(self, text: str) -> None:
        if fault := template_fault(text):
            raise ValueError(fault)
        self.parts = parts_of(text)
        #: The name of a template that is nothing but its placeholder.
        self.only = only_column(text)

    @property
    def has_values(self) -> bool:
        return any(name is not None for _, name in self.parts)

    def texts(self, values: RowValues, count: int, escape: Callable[[str], str] = str) -> list[str]:
        """The text for each of the rows, of which values are escaped."""
        columns = [(text, None if name is None else values.of(name)) for text, name in self.parts]
        return [
            "".join(text if found is None else text + escape(text_of(found[row])) for text, found in columns)
            for row in range(count)
        ]

    def values(self, values: RowValues, count: int) -> list[Any]:
        """The value itself where the template is nothing but its placeholder, otherwise the text."""
        return values.of(self.only) if self.only is not None else list(self.texts(values, count))


def text_of(value: Any) -> str:
    """A value as text: texts as they are, others as JSON."""
    if isinstance(value, str):
        return value
    return _NULL if value is None else json_text(value)


def json_text(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _parsed(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value)
    except (ValueError, RecursionError):
        return None


def _at(value: Any, path: Sequence[str]) -> Any:
    for step in path:
        if isinstance(value, str):
            value = _parsed(value)
        if isinstance(value, dict):
            value = value.get(step)
        elif isinstance(value, list) and step.isascii() and step.isdigit() and int(step) < len(value):
            value = value[int(step)]
        else:
            return None
    return value


def _plain(value: Any) -> Any:
    """A value of a column as JSON has it."""
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if isinstance(value, datetime | date):
        return value.isoformat()
    if isinstance(value, Decimal):
        return int(value) if value == value.to_integral_value() else float(value)
    return value
