"""The sink `influxdb`: points in InfluxDB's line protocol, over the HTTP API of version 1 or 2.

A point is what its measurement, tags and time make it, so a row that is sent again with the same time changes nothing.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from heliograph.hocon.values import Content
from heliograph.outbound.http_connection import HttpClientAnswer
from heliograph.pipeline.sinks.http_database import DatabaseRequest, HttpDatabaseSink, RowPortion
from heliograph.pipeline.sinks.row_values import RowValues, TextTemplate, text_of
from heliograph.pipeline.sinks.servers import revealed
from heliograph.pipeline.sinks.sql_batches import RefusedRowsError
from heliograph.pipeline.sinks.template import only_column
from heliograph.settings.addresses import ServerAddress
from heliograph.settings.fields import optional, required, setting
from heliograph.settings.influxdb import EXAMPLE, FieldTemplate, LineTemplate, parse_lines
from heliograph.settings.kinds import Choice, Kind, RefusedError, SecretText, Text, detailed
from heliograph.settings.secrets import Secret
from heliograph.settings.units import Address

V1: Final = "influxdb_api_v1"
V2: Final = "influxdb_api_v2"
#: Nanoseconds of a time's unit.
PRECISIONS: Final = {"ns": 1, "us": 1_000, "ms": 1_000_000, "s": 1_000_000_000}

_NUMBER: Final = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
_INTEGER: Final = re.compile(r"[+-]?\d+")
_BOOLEANS: Final = frozenset({"t", "T", "true", "True", "TRUE", "f", "F", "false", "False", "FALSE"})
_NO_POINTS: Final = 400


class LineTemplates(Kind[tuple[LineTemplate, ...]]):
    expected = f'lines as in "{EXAMPLE}"'

    def convert(self, value: Content) -> tuple[LineTemplate, ...]:
        if not isinstance(value, str):
            raise RefusedError
        return detailed(parse_lines, value)


@dataclass(frozen=True, kw_only=True)
class InfluxdbSink(HttpDatabaseSink):
    server: Address = required(ServerAddress(8086), "Where the server is.")
    influxdb_type: str = setting(Choice(V1, V2), V2, "Whose API is spoken.")
    database: str | None = optional(Text("the name of a database"), f"Of `{V1}`: the database.")
    org: str | None = optional(Text("the name of an organization"), f"Of `{V2}`: the organization.")
    bucket: str | None = optional(Text("the name of a bucket"), f"Of `{V2}`: the bucket.")
    token: Secret | None = optional(SecretText(), f"Of `{V2}`: the token that may write to it.")
    lines: tuple[LineTemplate, ...] = required(
        LineTemplates(), "Templates of the lines that a row becomes.", name="write_syntax"
    )
    precision: str = setting(Choice(*PRECISIONS), "ms", "The unit of the times in `write_syntax`.")

    def __post_init__(self) -> None:
        needed = ("database",) if self.influxdb_type == V1 else ("org", "bucket", "token")
        for name in needed:
            if getattr(self, name) is None:
                raise RefusedError(f"is missing: {self.influxdb_type} needs {', '.join(needed)}", name)

    @property
    def base_url(self) -> str:
        return f"{'http' if self.tls is None else 'https'}://{self.server}"

    @property
    def target(self) -> str:
        return f"InfluxDB {self.database if self.influxdb_type == V1 else self.bucket} at {self.server}"

    @property
    def templates(self) -> Sequence[str]:
        return [text for line in self.lines for text in line.templates]

    @property
    def headers(self) -> Mapping[str, str]:
        return super().headers if self.influxdb_type == V1 else {"Authorization": f"Token {revealed(self.token)}"}

    def request(self, part: RowPortion) -> DatabaseRequest:
        values, count = RowValues(part.rows), part.rows.num_rows
        lines = [self._texts(line, values, part, count) for line in self.lines]
        body = "\n".join(text for row in zip(*lines, strict=True) for text in row)
        return self._written(body.encode("utf-8", "replace"))

    def probe(self) -> DatabaseRequest:
        return self._written(b"")

    def check_probe(self, answer: HttpClientAnswer) -> None:
        if answer.status != _NO_POINTS:  # it lets us in, and says that there are no points
            super().check_probe(answer)

    def _written(self, body: bytes) -> DatabaseRequest:
        headers = {"Content-Type": "text/plain; charset=utf-8"}
        if self.influxdb_type == V1:
            return DatabaseRequest("/write", {"db": self.database or "", "precision": "ns"}, body, headers)
        query = {"org": self.org or "", "bucket": self.bucket or "", "precision": "ns"}
        return DatabaseRequest("/api/v2/write", query, body, headers)

    def _texts(self, line: LineTemplate, values: RowValues, part: RowPortion, count: int) -> list[str]:
        """The line of each row."""
        measurements = TextTemplate(line.measurement).texts(values, count)
        tags = [(TextTemplate(key).texts(values, count), TextTemplate(value)) for key, value in line.tags]
        tag_values = [(keys, template.values(values, count)) for keys, template in tags]
        fields = [
            (TextTemplate(one.key).texts(values, count), _field_values(one, values, count)) for one in line.fields
        ]
        times = self._times(line.timestamp, values, part, count)
        return [
            _line(
                measurements[row],
                [(keys[row], found[row]) for keys, found in tag_values],
                [(keys[row], found[row]) for keys, found in fields],
                times[row],
            )
            for row in range(count)
        ]

    def _times(self, template: str | None, values: RowValues, part: RowPortion, count: int) -> list[int]:
        """The time of each row in nanoseconds; without one, rows of a batch have different ones."""
        if template is None:
            return [part.time_ns + number for number in part.numbers]
        texts = TextTemplate(template).texts(values, count)
        for text in texts:
            if _INTEGER.fullmatch(text) is None:
                raise RefusedRowsError(f"the timestamp is {text[:100]!r}, which is no integer")
        return [int(text) * PRECISIONS[self.precision] for text in texts]


def _field_values(one: FieldTemplate, values: RowValues, count: int) -> list[str | None]:
    """The value of a field as the line protocol has it; None where the row has none."""
    if one.is_quoted:
        return [_quoted(text) for text in TextTemplate(one.value).texts(values, count)]
    number, suffix = one.value[:-1], one.value[-1:]
    if suffix in ("i", "u") and (name := only_column(number)) is not None:
        return [None if value is None else _whole(value, suffix, one.key) for value in values.of(name)]
    template = TextTemplate(one.value)
    if template.only is None:
        return [text if _is_plain(text) else _quoted(text) for text in template.texts(values, count)]
    return [None if value is None else _unquoted(value) for value in values.of(template.only)]


def _is_plain(text: str) -> bool:
    return text in _BOOLEANS or _NUMBER.fullmatch(text.rstrip("iu")) is not None


def _whole(value: Any, suffix: str, key: str) -> str:
    text = f"{value:.0f}" if isinstance(value, float) and value.is_integer() else text_of(value)
    if _INTEGER.fullmatch(text) is None:
        raise RefusedRowsError(f"the field {key} is {text[:100]!r}, which is no integer")
    return text + suffix


def _unquoted(value: Any) -> str:
    """A number or boolean as it is, and a text in quotes."""
    if isinstance(value, float) and not abs(value) < float("inf"):
        raise RefusedRowsError(f"{value} is no number of the line protocol")
    return text_of(value) if isinstance(value, bool | int | float) else _quoted(text_of(value))


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _line(
    measurement: str, tags: Sequence[tuple[str, Any]], fields: Sequence[tuple[str, str | None]], time_ns: int
) -> str:
    if measurement.startswith("#"):
        raise RefusedRowsError("the measurement begins with #, as comments do")
    head = [_name(measurement, ", ", "the measurement")]
    for key, value in tags:
        if value is not None and value != "":
            head.append(f"{_name(key, ',= ', 'a tag')}={_name(text_of(value), ',= ', f'the tag {key}')}")
    held = [f"{_name(key, ',= ', 'a field')}={value}" for key, value in fields if value is not None]
    if not held:
        raise RefusedRowsError("no field of the row has a value")
    return f"{','.join(head)} {','.join(held)} {time_ns}"


def _name(text: str, escaped: str, what: str) -> str:
    """A name, or the value of a tag; the line protocol cannot say all texts."""
    if not text or "\n" in text or text.endswith("\\"):
        fault = "is empty" if not text else "has a line break" if "\n" in text else "ends with a backslash"
        raise RefusedRowsError(f"{what} {fault}, which the line protocol cannot say")
    for character in escaped:
        text = text.replace(character, f"\\{character}")
    return text
