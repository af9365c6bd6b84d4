"""The sink `postgresql`: rows into a table by COPY, or by a statement of the user's, each micro-batch exactly once.

Every chunk of rows is copied behind a savepoint: straight into the table, or with a `key` into a temporary table from
which they are inserted or updated. The whole batch is one transaction, see `sql_batches`.
"""

import json
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.csv as pa_csv

from heliograph.outbound.postgresql import server_arguments
from heliograph.pipeline.errors import SinkError
from heliograph.pipeline.sinks.interface import INSTALL, MicroBatch, OutputMode, Written
from heliograph.pipeline.sinks.keyed_rows import newer_condition
from heliograph.pipeline.sinks.retry import TransientError
from heliograph.pipeline.sinks.rows import RowField, Rows
from heliograph.pipeline.sinks.sql_batches import (
    RefusedRowsError,
    SlowStatementError,
    python_rows,
    write_exactly_once,
)
from heliograph.pipeline.sinks.sql_settings import NOTHING, SqlSink
from heliograph.pipeline.sinks.table_columns import RowColumn, TypeFamily
from heliograph.settings.addresses import ServerAddress
from heliograph.settings.fields import optional, required, setting
from heliograph.settings.kinds import Boolean, Choice
from heliograph.settings.units import Address

if TYPE_CHECKING:
    import psycopg
    from psycopg import sql


_CONNECT_S: Final = 10
# What is executed so often is prepared.
_PREPARED_FROM: Final = 5

# Of the timeout of a statement: the results of several come together.
_SILENCE_TIMES: Final = 4

# Of the temporary table; the ordinal tells which of several rows with one key came last.
_STAGING: Final = "heliograph_staging"
_ORDINAL: Final = "heliograph_ordinal"

# A server that is killed may lose what it has confirmed with `off`; what confirms more than `on` stays.
_DURABLE: Final = (
    "SELECT set_config('synchronous_commit', 'on', false) WHERE current_setting('synchronous_commit') = 'off'"
)
_TYPES: Final = {
    "tinyint": "smallint",
    "smallint": "smallint",
    "int": "integer",
    "bigint": "bigint",
    "float": "real",
    "double": "double precision",
    "boolean": "boolean",
    "date": "date",
    "timestamp": "timestamptz",
    "timestamp_ntz": "timestamp",
    "binary": "bytea",
}

# Elements whose text in JSON says all of them; times there have no microseconds, and bytes are in Base64.
_ARRAYS_OF: Final = frozenset({"tinyint", "smallint", "int", "bigint", "float", "double", "boolean", "string", "date"})
_OF_ARRAY: Final = "[]"
_ARRAY: Final = re.compile(r"array<(.*)>")
_DECIMAL: Final = re.compile(r"decimal\((\d+),(\d+)\)")
_FAMILIES: Final = {
    **dict.fromkeys(("smallint", "integer", "bigint"), TypeFamily.INTEGER),
    **dict.fromkeys(("real", "double precision", "numeric"), TypeFamily.FRACTION),
    "boolean": TypeFamily.BOOLEAN,
    "date": TypeFamily.DATE,
    **dict.fromkeys(("timestamp", "timestamptz"), TypeFamily.TIME),
    "bytea": TypeFamily.BINARY,
    **dict.fromkeys(("text", "character", "character varying"), TypeFamily.TEXT),
    **dict.fromkeys(("json", "jsonb"), TypeFamily.JSON),
}

# Classes of SQLSTATE: data exception, integrity constraint violation, a check of a view or a partition.
_ROW_CLASSES: Final = ("22", "23", "44")

# Limits of the server: of an index entry or a row, and of the stack, by JSON of many levels. Others of their class, too
# many columns or arguments, are of the statement.
_ROW_LIMITS: Final = ("54000", "54001")

# What a function of the user's, such as a trigger that looks at rows, raises without another state.
_RAISED: Final = "P0001"

# Connection, transaction rolled back (deadlock, serialization), resources, operator intervention, system error; and an
# object in use, as by a lock that was waited for too long.
_TRANSIENT_CLASSES: Final = ("08", "40", "53", "57", "58", "55")

# A server that became a replica, or was set to be read only.
_READ_ONLY: Final = "25006"

# Of the classes: a database that was dropped or takes no connections by configuration is nothing that passes.
_LASTING_STATES: Final = ("57P04", "55000")
_CONSTRAINTS: Final = "23"
_STATEMENT_TIMEOUT: Final = "57014"
_TEXT_MAX: Final = 500


@dataclass(frozen=True)
class PostgresqlSink(SqlSink):
    server: Address = required(ServerAddress(5432), "Where the server is.")
    prepared_statements: bool = setting(
        Boolean(), True, "Whether statements are prepared; PgBouncer that pools transactions needs false."
    )
    sslmode: str | None = optional(
        Choice("disable", "allow", "prefer", "require", "verify-ca", "verify-full"),
        "PostgreSQL's word for TLS; without, `prefer`, and with `ssl` `verify-full`.",
    )

    @property
    def target(self) -> str:
        return f"PostgreSQL {self.what} at {self.place}"

    @property
    def takes_bytes_as_hex(self) -> bool:
        return self.template is None

    def write(self, rows: Rows, batch: MicroBatch) -> Written:
        statements = _Statements(self, rows.fields)

        @contextmanager
        def transaction() -> Iterator[_Transaction]:
            with batch.connections.opened(lambda: self.connected(batch.query)) as connection:
                with translated(self.target, rows=False):
                    statements.prepare(connection)
                yield _Transaction(connection, statements, self.target)
                with translated(self.target, rows=False):
                    connection.rollback()

        return write_exactly_once(
            transaction,
            rows,
            batch,
            self.retry,
            chunk_rows=self.batch_rows,
            replace=self.mode is OutputMode.COMPLETE,
        )

    def changes(self, fields: Sequence[RowField], output: Path) -> Sequence[str]:
        if self.table is None:
            return ()
        statements = _Statements(self, fields)
        with self.connected("plan") as connection, translated(self.target, rows=False):
            return statements.changes(connection)

    @contextmanager
    def connected(self, query: str) -> Iterator["psycopg.Connection[tuple[Any, ...]]"]:
        """A connection; the query is what the server knows it by."""
        try:
            from heliograph.pipeline.sinks.postgresql_connection import WatchedConnection
        except ImportError as error:
            raise SinkError(f"PostgreSQL needs psycopg: {INSTALL}") from error
        tls = self.tls
        default = "prefer" if tls is None else "verify-full" if tls.verify else "require"
        milliseconds = max(1, round(self.timeout_s * 1000))
        place = server_arguments(self.server.host, self.addresses_of(self.server))
        with translated(self.target):
            connection = WatchedConnection.connect(
                host=place["host"],
                hostaddr=place["hostaddr"],
                port=self.server.port,
                dbname=self.database,
                user=self.username,
                password=self.password_text,
                sslmode=self.sslmode or default,
                sslrootcert=(tls.cacertfile or "system") if tls is not None and tls.verify else None,
                sslcert=tls.certfile or None if tls is not None else None,
                sslkey=(tls.keyfile or tls.certfile or None) if tls is not None else None,
                connect_timeout=_CONNECT_S,
                tcp_user_timeout=milliseconds,
                application_name=f"heliograph {query}"[:63],
                prepare_threshold=_PREPARED_FROM if self.prepared_statements else None,
                options=f"-c timezone=UTC -c statement_timeout={milliseconds}",
            )
        connection.silence_max_s = self.timeout_s * _SILENCE_TIMES
        try:
            yield connection
        finally:
            connection.close()


class _Statements:
    """The statements of one batch. They are made once and used by each attempt."""

    def __init__(self, sink: SqlSink, fields: Sequence[RowField]) -> None:
        from psycopg import sql

        self.settings = sink
        self.ledger = sql.Identifier(*sink.ledger.split("."))
        self.columns = [field.name for field in fields]
        self.table = sql.Identifier(*sink.table.split(".")) if sink.table is not None else None
        sink.check_fields(fields)
        self._fields = fields
        #: Columns of arrays that the table has as arrays of its own; in others, such as jsonb, they are JSON.
        self.arrays: tuple[str, ...] = ()
        self._row_columns = [RowColumn(field.name, field.kind, _type(field.kind)) for field in fields]

    def prepare(self, connection: "psycopg.Connection[tuple[Any, ...]]") -> None:
        """Create what is to be there, and begin with constraints that answer at once."""
        from psycopg import sql

        connection.execute(_DURABLE)
        if not _exists(connection, self.ledger):
            columns = "owner text, query text, batch bigint NOT NULL, written_at timestamptz"
            create = sql.SQL("CREATE TABLE IF NOT EXISTS {} (" + columns + ", PRIMARY KEY (owner, query))")
            connection.execute(create.format(self.ledger))
        if self.table is not None and self.settings.create and not _exists(connection, self.table):
            connection.execute(self._create_table(self.table))
        if self.table is not None and self.settings.merge_schema:
            self._add_columns(connection, self.table)
        if self.table is not None and (arrays := [field.name for field in self._fields if _element_of(field.kind)]):
            held = self._held(connection)
            self.arrays = tuple(name for name in arrays if held.get(name, "").endswith(_OF_ARRAY))
        connection.commit()
        # CockroachDB defers no constraint, and has no such statement.
        if connection.info.parameter_status("crdb_version") is None:
            connection.execute("SET CONSTRAINTS ALL IMMEDIATE")
        if self.table is not None and self.settings.key:
            columns_of = sql.SQL(
                "CREATE TEMPORARY TABLE {} ON COMMIT DROP AS SELECT {}, 0::bigint AS {} FROM {} LIMIT 0"
            )
            staging, ordinal = sql.Identifier(_STAGING), sql.Identifier(_ORDINAL)
            connection.execute(columns_of.format(staging, self._names(self.columns), ordinal, self.table))

    def changes(self, connection: "psycopg.Connection[tuple[Any, ...]]") -> tuple[str, ...]:
        assert self.table is not None
        return self.settings.changes_of(self._missing(connection), is_there=_exists(connection, self.table))

    def _add_columns(self, connection: "psycopg.Connection[tuple[Any, ...]]", table: "sql.Identifier") -> None:
        from psycopg import sql

        missing = self._missing(connection)
        if not missing:
            return
        add = [
            sql.SQL("ADD COLUMN IF NOT EXISTS {} {}").format(sql.Identifier(column.name), sql.SQL(column.type))
            for column in missing
        ]
        milliseconds = max(1, round(self.settings.lock_wait_s * 1000))
        connection.execute(f"SET LOCAL lock_timeout = {milliseconds}")
        connection.execute(sql.SQL("ALTER TABLE {} {}").format(table, sql.SQL(", ").join(add)))
        # Another writer may have added one in the meantime, with a type of its own.
        self._missing(connection)
        connection.commit()
        self.settings.log_added(missing)

    def _missing(self, connection: "psycopg.Connection[tuple[Any, ...]]") -> list[RowColumn]:
        return self.settings.missing_of(self._row_columns, self._held(connection).get, _FAMILIES)

    def _held(self, connection: "psycopg.Connection[tuple[Any, ...]]") -> dict[str, str]:
        """The types of the columns that the table has, by name."""
        assert self.table is not None
        rows = connection.execute(
            "SELECT attname, format_type(atttypid, atttypmod) FROM pg_attribute "
            "WHERE attrelid = to_regclass(%s) AND attnum > 0 AND NOT attisdropped",
            (self.table.as_string(connection),),
        )
        return {str(name): str(kind) for name, kind in rows}

    def copy(self) -> "sql.Composed":
        from psycopg import sql

        copy = sql.SQL("COPY {} ({}) FROM STDIN (FORMAT csv)")
        if self.settings.key:
            return copy.format(sql.Identifier(_STAGING), self._names([*self.columns, _ORDINAL]))
        assert self.table is not None
        return copy.format(self.table, self._names(self.columns))

    def merge(self) -> "sql.Composed":
        """Brings the rows of the temporary table into the table: of several with one key, one."""
        from psycopg import sql

        key = self._names(self.settings.key)
        others = [name for name in self.columns if name not in self.settings.key]
        first = self.settings.on_conflict == NOTHING
        action: sql.Composable = sql.SQL("DO NOTHING")
        if others and not first:
            sets = [sql.SQL("{0} = EXCLUDED.{0}").format(sql.Identifier(name)) for name in others]
            action = sql.SQL("DO UPDATE SET {}").format(sql.SQL(", ").join(sets))
        newest = [sql.SQL("{} DESC NULLS LAST, ").format(sql.Identifier(name)) for name in self.settings.newest_by]
        if newest:
            action += sql.SQL(f" WHERE {self._newer()}")
        return sql.SQL(
            "INSERT INTO {table} AS held ({columns}) SELECT {columns} FROM "
            "(SELECT DISTINCT ON ({key}) * FROM {staging} ORDER BY {key}, {newest}{ordinal} "
            + ("ASC" if first else "DESC")
            + ") AS rows ON CONFLICT ({key}) {action}"
        ).format(
            newest=sql.Composed(newest),
            table=self.table,
            columns=self._names(self.columns),
            key=key,
            staging=sql.Identifier(_STAGING),
            ordinal=sql.Identifier(_ORDINAL),
            action=action,
        )

    def _newer(self) -> str:
        from psycopg import sql

        def of(row: str, name: str) -> str:
            return f"{row}.{sql.Identifier(name).as_string()}"

        names = self.settings.newest_by
        return newer_condition(
            names, lambda name: of("EXCLUDED", name), lambda name: of("held", name), "IS NOT DISTINCT FROM"
        )

    def _create_table(self, table: "sql.Identifier") -> "sql.Composed":
        from psycopg import sql

        columns: list[sql.Composable] = [
            sql.SQL("{} {}").format(sql.Identifier(field.name), sql.SQL(_type(field.kind))) for field in self._fields
        ]
        if self.settings.key:
            columns.append(sql.SQL("PRIMARY KEY ({})").format(self._names(self.settings.key)))
        return sql.SQL("CREATE TABLE IF NOT EXISTS {} ({})").format(table, sql.SQL(", ").join(columns))

    @staticmethod
    def _names(names: list[str] | tuple[str, ...]) -> "sql.Composed":
        from psycopg import sql

        return sql.SQL(", ").join(map(sql.Identifier, names))


class _Transaction:
    def __init__(self, connection: "psycopg.Connection[tuple[Any, ...]]", statements: _Statements, target: str) -> None:
        self._connection = connection
        self._statements = statements
        self._target = target

    def last_batch(self, owner: str, query: str) -> int | None:
        from psycopg import sql

        ledger = self._statements.ledger
        claim = sql.SQL("INSERT INTO {} VALUES (%s, %s, -1, now()) ON CONFLICT DO NOTHING")
        ask = sql.SQL("SELECT batch FROM {} WHERE owner = %s AND query = %s FOR UPDATE")
        with translated(self._target):
            self._connection.execute(claim.format(ledger), (owner, query))
            row = self._connection.execute(ask.format(ledger), (owner, query)).fetchone()
        return int(row[0]) if row is not None else None

    def empty_table(self) -> None:
        from psycopg import sql

        with translated(self._target):
            self._connection.execute(sql.SQL("DELETE FROM {}").format(self._statements.table))

    def write(self, chunk: pa.RecordBatch) -> None:
        # Leaving the inner block by an error goes back to a savepoint.
        with translated(self._target), self._connection.transaction():
            if self._statements.settings.template is not None:
                self._execute_each(chunk)
            else:
                self._copy(chunk)

    def record(self, owner: str, query: str, batch: int) -> None:
        from psycopg import sql

        update = sql.SQL("UPDATE {} SET batch = %s, written_at = now() WHERE owner = %s AND query = %s")
        with translated(self._target):
            values = (batch, owner, query)
            self._connection.execute(update.format(self._statements.ledger), values)

    def commit(self) -> None:
        with translated(self._target):
            self._connection.commit()

    def _copy(self, chunk: pa.RecordBatch) -> None:
        statements = self._statements
        has_key = bool(statements.settings.key)
        for name in statements.arrays:
            place = chunk.schema.get_field_index(name)
            values = pa.array(map(_array_text, chunk.column(place).to_pylist()), pa.string())
            chunk = chunk.set_column(place, name, values)
        if has_key:
            chunk = chunk.append_column(_ORDINAL, pa.array(range(chunk.num_rows), pa.int64()))
        with self._connection.cursor() as cursor:
            with cursor.copy(statements.copy()) as copy:
                copy.write(_csv(chunk))
            if has_key:
                cursor.execute(statements.merge())
                cursor.execute(f"TRUNCATE {_STAGING}")

    def _execute_each(self, chunk: pa.RecordBatch) -> None:
        template = self._statements.settings.template
        assert template is not None
        rows = python_rows(chunk, template.names)
        with self._connection.cursor() as cursor:
            cursor.executemany(template.statement.encode(), rows)


def _csv(chunk: pa.RecordBatch) -> bytes:
    # Every value in quotes and null without, which is how PostgreSQL tells "" from null.
    columns = [column.cast(pa.string()) if pa.types.is_decimal(column.type) else column for column in chunk.columns]
    buffer = pa.BufferOutputStream()
    options = pa_csv.WriteOptions(include_header=False, quoting_style="all_valid")
    pa_csv.write_csv(pa.RecordBatch.from_arrays(columns, names=chunk.schema.names), buffer, options)
    text: bytes = buffer.getvalue().to_pybytes()
    return text


def _array_text(text: str | None) -> str | None:
    """An array as PostgreSQL writes it, of its JSON."""
    if text is None:
        return None
    elements = json.loads(text, parse_int=str, parse_float=str)
    return "{" + ",".join(map(_element_text, elements)) + "}"


def _element_text(element: str | bool | None) -> str:
    if element is None:
        return "NULL"
    if isinstance(element, bool):
        return "t" if element else "f"
    escaped = element.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _element_of(kind: str) -> str | None:
    """The type of the elements of an array that a created table has as one; None for other values."""
    found = _ARRAY.fullmatch(kind)
    element = found[1] if found is not None else ""
    return element if element in _ARRAYS_OF or _DECIMAL.fullmatch(element) else None


def _type(kind: str) -> str:
    """The type of a column, for values of a type in Spark's words."""
    if (element := _element_of(kind)) is not None:
        return _type(element) + _OF_ARRAY
    if (decimal := _DECIMAL.fullmatch(kind)) is not None:
        return f"numeric({decimal[1]}, {decimal[2]})"
    return "jsonb" if RowField("", kind).is_complex else _TYPES.get(kind, "text")


def _exists(connection: "psycopg.Connection[tuple[Any, ...]]", table: "sql.Identifier") -> bool:
    row = connection.execute("SELECT to_regclass(%s)", (table.as_string(connection),)).fetchone()
    return row is not None and row[0] is not None


@contextmanager
def translated(target: str, *, rows: bool = True) -> Iterator[None]:
    """Translate what psycopg raises. Two that create one table meet at a constraint: no fault of a row."""
    import psycopg

    try:
        yield
    except psycopg.Error as error:
        state = error.sqlstate or ""
        text = f"{target}: {_sentence(error)}"
        is_row = state[:2] in _ROW_CLASSES or state in (*_ROW_LIMITS, _RAISED)
        is_row = is_row or (not state and isinstance(error, psycopg.DataError))
        if is_row and rows:
            raise RefusedRowsError(_sentence(error)) from error
        if state == _STATEMENT_TIMEOUT and rows:
            raise SlowStatementError(text) from error
        is_passing = state[:2] in _TRANSIENT_CLASSES and state not in _LASTING_STATES
        is_passing = is_passing or state == _READ_ONLY or (not rows and state[:2] == _CONSTRAINTS)
        if is_passing or (not state and isinstance(error, psycopg.OperationalError) and not _is_login(error)):
            raise TransientError(text) from error
        raise SinkError(text) from error


def _sentence(error: BaseException) -> str:
    diagnosis = getattr(error, "diag", None)
    primary = getattr(diagnosis, "message_primary", None)
    if primary is None:
        return " ".join(str(error).split())[:_TEXT_MAX]
    detail = getattr(diagnosis, "message_detail", None)
    return (f"{primary} ({detail})" if detail else str(primary))[:_TEXT_MAX]


def _is_login(error: BaseException) -> bool:
    # While connecting, libpq gives a text and no SQLSTATE.
    return any(text in str(error) for text in ("authentication failed", "does not exist", "pg_hba.conf", "certificate"))
