"""The sink `clickhouse`: an INSERT of many rows over ClickHouse's HTTP interface, by a statement with templates.

The statement is sent as text, as EMQX does it, so values become literals here: in quotes they are escaped, elsewhere a
text gets quotes of its own. Nothing of a row becomes a part of the statement.

Each request is one block with a token made of the batch and its rows. Tables that deduplicate inserts (Replicated...,
or those with `non_replicated_deduplication_window`) take a block with a token once, so there a batch that runs again
adds nothing, as long as their window reaches. Other tables get its rows once more.
"""

import hashlib
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from heliograph.hocon.values import Content
from heliograph.outbound.http_connection import HttpClientAnswer, HttpConnections
from heliograph.pipeline.errors import SinkError
from heliograph.pipeline.sinks.http_database import DatabaseRequest, HttpDatabaseSink, RequestOutcome, RowPortion
from heliograph.pipeline.sinks.http_delivery import RefusedRequestError, sentence_of_answer
from heliograph.pipeline.sinks.retry import TransientError
from heliograph.pipeline.sinks.row_values import RowValues, json_text, text_of
from heliograph.pipeline.sinks.template import parts_of, template_fault
from heliograph.settings.fields import required, setting
from heliograph.settings.kinds import AnyText, Kind, RefusedError, Text, detailed

_INSERT: Final = re.compile(r"(?is)(\s*INSERT\s+INTO\s[^$]*?\bVALUES)\s*(\(.*\))\s*;?\s*")
_EXCEPTION_CODE: Final = b"x-clickhouse-exception-code"
_CODE_IN_TEXT: Final = re.compile(rb"Code: (\d+)")

# Errors by which a server says that a value does not fit: 6 to 72 of parsing and types, 117 incorrect data, 130 arrays,
# 321 and 407 ranges, 349 null, 376, 467, 675, 676 of UUIDs, booleans and addresses, 469 a constraint, 691 an enum.
_OF_ROWS: Final = frozenset(
    {6, 26, 27, 38, 41, 43, 53, 69, 70, 72, 117, 130, 131, 321, 349, 376, 407, 467, 469, 675, 676, 691}
)
_UNKNOWN_SETTING: Final = 115


@dataclass(frozen=True)
class InsertTemplate:
    """An INSERT taken apart: what stands before the first row, and the pieces of a row.

    Attributes:
        pieces: Text, the placeholder after it, and whether that stands in quotes.
    """

    head: str
    pieces: tuple[tuple[str, str | None, bool], ...]

    @classmethod
    def parse(cls, text: str) -> "InsertTemplate":
        if fault := template_fault(text):
            raise ValueError(fault)
        found = _INSERT.fullmatch(text)
        if found is None:
            raise ValueError("expected a statement as in \"INSERT INTO t (id, temp) VALUES ('${id}', ${temp})\"")
        pieces, is_quoted = [], False
        for part, name in parts_of(found[2]):
            is_quoted = _is_quoted_after(part, is_quoted)
            pieces.append((part, name, is_quoted))
        if is_quoted or all(name is None for _, name, _ in pieces):
            raise ValueError("a quote is not closed" if is_quoted else "it takes nothing of a row")
        return cls(found[1].strip(), tuple(pieces))

    def rows(self, values: RowValues, count: int) -> list[str]:
        """The text of each row, as `('a', 1)`."""
        columns: list[tuple[str, list[Any] | None, Callable[[Any], str]]] = [
            (text, None if name is None else values.of(name), _in_quotes if is_quoted else literal)
            for text, name, is_quoted in self.pieces
        ]
        return [
            "".join(text if found is None else text + write(found[row]) for text, found, write in columns)
            for row in range(count)
        ]


class InsertStatement(Kind[InsertTemplate]):
    expected = "a statement as in \"INSERT INTO t (id, temp) VALUES ('${id}', ${temp})\""

    def convert(self, value: Content) -> InsertTemplate:
        if not isinstance(value, str):
            raise RefusedError
        return detailed(InsertTemplate.parse, value)


@dataclass(frozen=True, kw_only=True)
class ClickhouseSink(HttpDatabaseSink):
    url: str = required(
        Text("a URL that begins with http:// or https://, without a login", r"https?://[^\s?#$@]+"), "Where it is."
    )
    database: str = setting(Text("the name of a database"), "default", "The database.")
    insert: InsertTemplate = required(
        InsertStatement(),
        "An INSERT with the values of one row, made of templates; several rows are sent in one statement.",
        name="sql",
    )
    separator: str = setting(AnyText(), ", ", "What stands between two rows.", name="batch_value_separator")

    @property
    def base_url(self) -> str:
        return self.url.rstrip("/")

    @property
    def target(self) -> str:
        return f"ClickHouse {self.database} at {self.url}"

    @property
    def templates(self) -> Sequence[str]:
        return tuple(f"${{{name}}}" for _, name, _ in self.insert.pieces if name is not None)

    @property
    def headers(self) -> Mapping[str, str]:
        # Header fields have no encoding of their own; ClickHouse reads UTF-8.
        if self.username is None:
            return {}
        return {"X-ClickHouse-User": self.username, "X-ClickHouse-Key": self.password_text or ""}

    def request(self, part: RowPortion) -> DatabaseRequest:
        rows = self.insert.rows(RowValues(part.rows), part.rows.num_rows)
        body = f"{self.insert.head} {self.separator.join(rows)}".encode("utf-8", "replace")
        token = f"{part.batch}-{part.name}-{hashlib.sha256(body).hexdigest()[:16]}"
        # Not collected by the server with others: then its answer would come before the rows are there.
        once = {"insert_deduplication_token": token, "async_insert": "0"}
        return DatabaseRequest("/", {"database": self.database, **once}, body)

    def exchange(self, connections: HttpConnections, request: DatabaseRequest) -> HttpClientAnswer:
        answer = super().exchange(connections, request)
        if _code(answer) == _UNKNOWN_SETTING:  # before ClickHouse 22.2
            return super().exchange(connections, DatabaseRequest("/", {"database": self.database}, request.body))
        return answer

    def outcome(self, answer: HttpClientAnswer, part: RowPortion) -> RequestOutcome:
        if answer.status == 200:
            return RequestOutcome()
        text = sentence_of_answer(answer)
        if _code(answer) in _OF_ROWS:
            raise RefusedRequestError(text)
        if answer.status >= 500 or answer.status in (408, 429):
            raise TransientError(f"{self.target} {text}")
        raise SinkError(f"{self.target} {text}")

    def probe(self) -> DatabaseRequest:
        return DatabaseRequest("/", {"database": self.database}, b"SELECT 1")


def literal(value: Any) -> str:
    """A value as ClickHouse writes it in a statement."""
    if isinstance(value, list):
        return f"[{','.join(map(literal, value))}]"
    if isinstance(value, str | dict):
        return f"'{_in_quotes(value)}'"
    return "NULL" if value is None else json_text(value)


def _in_quotes(value: Any) -> str:
    return text_of(value).replace("\\", "\\\\").replace("'", "\\'")


def _is_quoted_after(text: str, is_quoted: bool) -> bool:
    place = 0
    while place < len(text):
        if text[place] == "\\" and is_quoted:
            place += 1
        elif text[place] == "'":
            is_quoted = not is_quoted
        place += 1
    return is_quoted


def _code(answer: HttpClientAnswer) -> int:
    found = answer.headers.get(_EXCEPTION_CODE)
    if found is None and answer.status != 200:
        in_text = _CODE_IN_TEXT.match(answer.content)
        found = in_text[1] if in_text is not None else None
    return int(found) if found is not None and found.isdigit() else 0
