"""The settings that sinks to SQL databases share, and SQL templates, whose placeholders become parameters."""

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Final, Self

from heliograph.hocon.values import Content
from heliograph.pipeline.errors import SinkError
from heliograph.pipeline.sinks.interface import (
    COLUMNS,
    NEWEST_BY,
    ColumnNames,
    Guarantee,
    OutputMode,
    check_key,
    check_newest_by,
)
from heliograph.pipeline.sinks.keyed_rows import check_newest_columns
from heliograph.pipeline.sinks.rows import RowField, check_names
from heliograph.pipeline.sinks.servers import ServerSink
from heliograph.pipeline.sinks.table_columns import RowColumn, TypeFamily, check_types, said_of
from heliograph.pipeline.sinks.template import WHOLE_ROW, parts_of, template_fault
from heliograph.settings.addresses import ServerAddress
from heliograph.settings.fields import list_setting, optional, required, setting
from heliograph.settings.kinds import Boolean, Choice, Duration, Integer, Kind, RefusedError, Text, detailed
from heliograph.settings.units import Address

_log = logging.getLogger(__name__)

# Everyone who comes while a change of a table waits has to wait behind it.
_LOCK_WAIT_S: Final = 5.0

#: What an insert does with a row whose key is there already.
UPDATE: Final = "update"
NOTHING: Final = "nothing"

# What begins a quote or a comment in SQL, with what ends it.
_ENDS: Final = {"'": "'", '"': '"', "`": "`", "--": "\n", "/*": "*/"}


@dataclass(frozen=True)
class SqlTemplate:
    """A statement with parameters, made of a text such as ``INSERT INTO obs (id, t) VALUES (${id}, ${temp})``.

    Attributes:
        names: What each parameter is: a column, or a path into one.
    """

    statement: str
    names: tuple[str, ...]

    @classmethod
    def parse(cls, text: str) -> Self:
        """Take a template apart; its placeholders stand in no quotes or comments, where they would be text."""
        names: list[str] = []
        statement: list[str] = []
        if fault := template_fault(text):
            raise ValueError(fault)
        opened: tuple[str, ...] = ("", "")
        for part, name in parts_of(text):
            # By both readings, since a database may be set to either: with a backslash as an escape, and without.
            opened = (_left_open(part, opened[0], ""), _left_open(part, opened[1], "\\"))
            statement.append(part.replace("%", "%%"))
            if name is None:
                break
            if any(opened):
                where = "a comment" if {"--", "/*"} & set(opened) else "quotes"
                raise ValueError(f"${{{name}}} stands in {where}: leave these out, as it becomes a parameter, not text")
            if not name or name == WHOLE_ROW:
                raise ValueError(f"${{{name}}} is no parameter: name a column")
            statement.append("%s")
            names.append(name)
        if not names:
            raise ValueError("it takes nothing of a row: it needs placeholders such as ${id}")
        return cls("".join(statement), tuple(names))


class SqlStatement(Kind[SqlTemplate]):
    expected = 'a statement as in "INSERT INTO obs (id, temp) VALUES (${id}, ${temp})"'

    def convert(self, value: Content) -> SqlTemplate:
        if not isinstance(value, str):
            raise RefusedError
        return detailed(SqlTemplate.parse, value)


def batch_rows(default: int) -> int:
    return setting(Integer(1, 1_000_000), default, "Rows that are sent at a time.")


@dataclass(frozen=True)
class SqlSink(ServerSink):
    guarantee: ClassVar[Guarantee] = Guarantee.EXACTLY_ONCE

    server: Address = required(ServerAddress(), "Where the server is.")
    database: str = required(Text("the name of a database"), "The database.")
    table: str | None = optional(
        Text("the name of a table"), "The table, with a schema before a dot if wanted; this or `sql`."
    )
    template: SqlTemplate | None = optional(
        SqlStatement(),
        "A statement for each row; its placeholders become parameters, never text, so they stand without quotes.",
        name="sql",
    )
    key: tuple[str, ...] = list_setting(
        COLUMNS, (), "Columns with a unique index: a row that is there is updated, or kept; without, rows are added."
    )
    on_conflict: str = setting(Choice(UPDATE, NOTHING), UPDATE, "What is done with a row that is there already.")
    newest_by: tuple[str, ...] = setting(ColumnNames(), (), NEWEST_BY)
    merge_schema: bool = setting(Boolean(), False, "Whether columns that the table does not have yet are added to it.")
    create: bool = setting(
        Boolean(), False, "Whether a table that is not there is created, with `key` as its primary key."
    )
    ledger: str = setting(
        Text("the name of a table"), "heliograph_batches", "The table of the last batches; created where it is missing."
    )
    batch_rows: int = batch_rows(10_000)
    timeout_s: float = setting(
        Duration(0.001, needs_unit=True), 60.0, "How long one statement may take.", name="timeout"
    )
    mode: OutputMode = OutputMode.APPEND

    def __post_init__(self) -> None:
        if (self.table is None) == (self.template is None):
            raise RefusedError("needs either table or sql: where the rows go, or what is done with each")
        if self.template is None:
            check_key(self.mode, self.key)
            check_newest_by(self.newest_by, self.key)
            if self.newest_by and self.on_conflict == NOTHING:
                raise RefusedError("is for rows that are updated, and on_conflict = nothing keeps them", "newest_by")
            return
        for name, is_given in (
            ("key", self.key),
            ("on_conflict", self.on_conflict != UPDATE),
            ("newest_by", self.newest_by),
            ("merge_schema", self.merge_schema),
            ("create", self.create),
        ):
            if is_given:
                raise RefusedError("is for a table: with sql, the statement says it", name)
        if self.mode is OutputMode.COMPLETE:
            raise RefusedError("cannot take mode complete: name a table, which is replaced", "sql")

    @property
    def place(self) -> str:
        return f"{self.server}/{self.database}"

    @property
    def what(self) -> str:
        return f"table {self.table}" if self.table is not None else "by a statement"

    @property
    def owned(self) -> tuple[str, ...]:
        """The table, where a batch replaces all of it."""
        if self.mode is OutputMode.COMPLETE:
            return (f"the table {self.table} at {self.place}",)
        return ()

    @property
    def paths(self) -> Sequence[str]:
        return self.template.names if self.template is not None else ()

    def check_fields(self, fields: Sequence[RowField]) -> None:
        check_names(self.key, fields, f"the key of {self.what}")
        check_newest_columns(self.newest_by, fields, f"newest_by of {self.what}")

    def missing_of(
        self, columns: Sequence[RowColumn], held: Callable[[str], str | None], families: Mapping[str, TypeFamily]
    ) -> list[RowColumn]:
        """The columns of rows that the table does not have; see `check_types`.

        Types are compared where columns are added. Elsewhere the database says for each value whether it fits: a text
        may well be a time.
        """
        if self.merge_schema:
            check_types(columns, held, families, self.target)
        return [column for column in columns if held(column.name) is None]

    def changes_of(self, missing: Sequence[RowColumn], *, is_there: bool) -> tuple[str, ...]:
        """What a batch changes in the table, which lacks some columns of the rows; see `AltersTable`."""
        if not is_there:
            if not self.create:
                raise SinkError(f"{self.target}: there is no such table: create it, or set create = true")
            return (f"creates the table {self.table} with {', '.join(map(str, missing))}",)
        return said_of(missing, self.target, may_add=self.merge_schema)

    @property
    def lock_wait_s(self) -> float:
        """How long a change of the table waits for those who use it."""
        return min(self.timeout_s / 2, _LOCK_WAIT_S)

    def log_added(self, added: Sequence[RowColumn]) -> None:
        _log.warning("%s: added the columns %s", self.target, ", ".join(map(str, added)))


def _left_open(text: str, opened: str, escape: str) -> str:
    """The quote or comment that is open after a text, given the one that is open before it."""
    place = 0
    while place < len(text):
        end = _ENDS.get(opened, "")
        if opened and text.startswith(end, place):
            place, opened = place + len(end), ""
        elif opened in ("'", '"') and escape and text.startswith(escape, place):
            place += 2
        elif not opened and (begin := next((begin for begin in _ENDS if text.startswith(begin, place)), "")):
            place, opened = place + len(begin), begin
        else:
            place += 1
    return opened
