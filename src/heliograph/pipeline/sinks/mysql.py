"""The sink `mysql`: rows into a table of MariaDB or MySQL, or by a statement, each micro-batch exactly once.

Rows are sent as inserts of many rows; with a `key`, those that are there already are updated or kept. The whole batch
is one transaction, see `sql_batches`.
"""

import socket
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

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
from heliograph.pipeline.sinks.sql_settings import NOTHING, SqlSink, batch_rows
from heliograph.pipeline.sinks.table_columns import RowColumn, TypeFamily
from heliograph.pipeline.tls import tls_context
from heliograph.settings.addresses import ServerAddress
from heliograph.settings.fields import optional, required, setting
from heliograph.settings.kinds import Text
from heliograph.settings.units import Address

if TYPE_CHECKING:
    from pymysql.connections import Connection
    from pymysql.cursors import Cursor


_CONNECT_S: Final = 10

# What a server takes as one statement where it does not say, and what it needs of that besides the text.
_PACKET_BYTES: Final = 1 << 20
_PACKET_SPARE: Final = 16

# Of a character at most, by UTF-8 or an escape of each byte, and of a value that is no text.
_ESCAPED_BYTES: Final = 4
_VALUE_BYTES: Final = 64

# Without the strict modes a value that does not fit would be changed in silence.
_SESSION: Final = (
    "SET SESSION time_zone = '+00:00', SESSION sql_mode = 'STRICT_ALL_TABLES,NO_ZERO_DATE,NO_ZERO_IN_DATE'"
)
_TYPES: Final = {
    "tinyint": "TINYINT",
    "smallint": "SMALLINT",
    "int": "INT",
    "bigint": "BIGINT",
    "float": "FLOAT",
    "double": "DOUBLE",
    "boolean": "BOOLEAN",
    "date": "DATE",
    "timestamp": "DATETIME(6)",
    "timestamp_ntz": "DATETIME(6)",
    "binary": "LONGBLOB",
}
_FAMILIES: Final = {
    **dict.fromkeys(("tinyint", "smallint", "mediumint", "int", "bigint", "boolean"), TypeFamily.INTEGER),
    **dict.fromkeys(("float", "double", "decimal"), TypeFamily.FRACTION),
    "date": TypeFamily.DATE,
    **dict.fromkeys(("datetime", "timestamp"), TypeFamily.TIME),
    **dict.fromkeys(("tinyblob", "blob", "mediumblob", "longblob", "binary", "varbinary"), TypeFamily.BINARY),
    **dict.fromkeys(("tinytext", "text", "mediumtext", "longtext", "char", "varchar"), TypeFamily.TEXT),
    "json": TypeFamily.JSON,
}

# Another writer has added the column in the meantime.
_DOUBLE_COLUMN: Final = 1060

# pymysql takes a percent sign for the mark of a parameter.
_TABLE: Final = Text("the name of a table, without a percent sign", r"[^%]+")

# Null where there must be none, a double key, a foreign key, a value that does not fit, a CHECK, malformed JSON, a row
# that is too large for its page, and what a trigger of the user's says (1644).
_ROW_CODES: Final = frozenset(
    {1022, 1048, 1062, 1118, 1169, 1216, 1264, 1265, 1292, 1301, 1364, 1365, 1366, 1367, 1406, 1411, 1416, 1441, 1451}
    | {1452, 1526, 1557, 1586, 1644, 1690, 1713, 1748, 1761, 1762, 3140, 3141, 3156, 3819, 3903, 3988, 4025}
)

# A connection that the client has ended, since the answer took too long.
_LOST: Final = 2013
_TIMED_OUT: Final = "timed out"
# Too many connections, shutdown, lock wait timeout, deadlock, read-only for now, and a lost connection's.
_TRANSIENT_CODES: Final = frozenset(
    {0, 1040, 1053, 1077, 1078, 1079, 1158, 1159, 1160, 1161, 1203, 1205, 1206, 1213, 1226, 1290, 1317, 1637, 1836}
    | {1927, 1969, 2002, 2003, 2006, 2013, 2014, 2055, 3024, 3572, 4031}
)

# Disk full, file full, write and out-of-memory errors of the server, and a node of Galera that is not in step.
_RESOURCE_CODES: Final = frozenset({3, 1021, 1026, 1037, 1038, 1041, 1047, 1114, 1180, 1792})

# The storage engine's own number stands in the text of this one.
_ENGINE_CODE: Final = 1030
_DISK_FULL: Final = "28"

# pymysql has no number for what it finds itself, such as a NaN, which SQL cannot say.
_TEXT_MAX: Final = 500


@dataclass(frozen=True)
class MysqlSink(SqlSink):
    server: Address = required(ServerAddress(3306), "Where the server is.")
    table: str | None = optional(_TABLE, "The table, with a schema before a dot if wanted; this or `sql`.")
    ledger: str = setting(_TABLE, "heliograph_batches", "The table of the last batches; created where it is missing.")
    batch_rows: int = batch_rows(5_000)

    @property
    def target(self) -> str:
        return f"MySQL {self.what} at {self.place}"

    def write(self, rows: Rows, batch: MicroBatch) -> Written:
        statements = _Statements(self, rows.fields)

        @contextmanager
        def transaction() -> Iterator[_Transaction]:
            with batch.connections.opened(self.connected) as connection:
                with translated(self.target, rows=False):
                    packet_bytes = statements.prepare(connection)
                yield _Transaction(connection, statements, self.target, packet_bytes)
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
        with self.connected() as connection, translated(self.target, rows=False), connection.cursor() as cursor:
            return statements.changes(cursor, self.table)

    @contextmanager
    def connected(self) -> Iterator["Connection[Cursor]"]:
        try:
            import pymysql
        except ImportError as error:
            raise SinkError(f"MariaDB and MySQL need pymysql: {INSTALL}") from error
        with translated(self.target):
            connection = pymysql.Connection(
                defer_connect=True,
                host=self.server.host,
                port=self.server.port,
                database=self.database,
                user=self.username,
                # As text it would be sent in Latin-1.
                password=(self.password_text or "").encode(),
                ssl=tls_context(self.tls, SinkError) if self.tls is not None else None,
                charset="utf8mb4",
                read_timeout=self.timeout_s,
                write_timeout=self.timeout_s,
                init_command=_SESSION,
            )
        connected = self.dial(self.server, _CONNECT_S)
        with translated(self.target):
            connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            connected.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            connection.connect(connected)  # which closes it where it fails
        try:
            yield connection
        finally:
            if connection.open:
                connection.close()


class _Statements:
    """The statements of one batch. They are made once and used by each attempt."""

    def __init__(self, sink: SqlSink, fields: Sequence[RowField]) -> None:
        self.settings = sink
        self.ledger = _table(sink.ledger)
        self.parameters: tuple[str, ...] = tuple(field.name for field in fields)
        self._fields = fields
        self._row_columns = [RowColumn(field.name, field.kind, _type(field.kind, None).lower()) for field in fields]
        for name in self.parameters:
            # It is pymysql's mark of a parameter, and nothing takes it out of an insert of many rows.
            if "%" in name:
                raise SinkError(f"the column {name!r} has a percent sign, which no column may have here: rename it")
        sink.check_fields(fields)
        if sink.template is not None:
            self.parameters = sink.template.names
            self.insert = sink.template.statement
        else:
            self.insert = self._insert()

    def prepare(self, connection: "Connection[Cursor]") -> int:
        """Create what is missing, which would end a transaction; returns the bytes of a statement at most."""
        with connection.cursor() as cursor:
            if not _exists(cursor, self.settings.ledger):
                cursor.execute(
                    f"CREATE TABLE IF NOT EXISTS {self.ledger} (owner VARCHAR(100), query VARCHAR(150), "
                    "batch BIGINT NOT NULL, written_at DATETIME(6) NOT NULL, "
                    "PRIMARY KEY (owner, query)) ENGINE=InnoDB CHARACTER SET utf8mb4"
                )
            table = self.settings.table
            if table is not None and self.settings.create and not _exists(cursor, table):
                cursor.execute(self._create_table(table, _collation(cursor)))
            if table is not None and self.settings.merge_schema:
                self._add_columns(cursor, table)
            cursor.execute("SELECT @@max_allowed_packet")
            (packet_bytes,) = cursor.fetchone() or (_PACKET_BYTES,)
        connection.commit()
        return int(packet_bytes)

    def changes(self, cursor: "Cursor", table: str) -> tuple[str, ...]:
        return self.settings.changes_of(self._missing(cursor, table), is_there=_exists(cursor, table))

    def _add_columns(self, cursor: "Cursor", table: str) -> None:
        import pymysql

        missing = self._missing(cursor, table)
        if missing:
            cursor.execute(f"SET SESSION lock_wait_timeout = {max(1, int(self.settings.lock_wait_s))}")
        added = []
        for column in missing:
            # One by one, since not every server has IF NOT EXISTS here.
            try:
                cursor.execute(f"ALTER TABLE {_table(table)} ADD COLUMN {_column(column.name)} {column.type} NULL")
            except pymysql.OperationalError as error:
                if error.args[0] != _DOUBLE_COLUMN:
                    raise
            else:
                added.append(column)
        if added:
            self.settings.log_added(added)
        if missing:
            # What another writer has added may have a type of its own.
            self._missing(cursor, table)

    def _missing(self, cursor: "Cursor", table: str) -> list[RowColumn]:
        schema, _, name = table.rpartition(".")
        cursor.execute(
            "SELECT column_name, column_type FROM information_schema.columns "
            "WHERE table_schema = COALESCE(%s, DATABASE()) AND table_name = %s",
            (schema or None, name),
        )
        held = {str(column).casefold(): str(kind) for column, kind in cursor.fetchall()}
        return self.settings.missing_of(self._row_columns, lambda name: held.get(name.casefold()), _FAMILIES)

    def _insert(self) -> str:
        assert self.settings.table is not None
        names = [_column(name) for name in self.parameters]
        values = ", ".join(["%s"] * len(names))
        statement = f"INSERT INTO {_table(self.settings.table)} ({', '.join(names)}) VALUES ({values})"
        if not self.settings.key:
            return statement
        others = [name for name in self.parameters if name not in self.settings.key]
        if self.settings.on_conflict == NOTHING or not others:
            # IGNORE would do it too, but also lets values pass that do not fit.
            first = _column(self.settings.key[0])
            return f"{statement} ON DUPLICATE KEY UPDATE {first} = {first}"
        newest = self.settings.newest_by
        if newest:
            newer = newer_condition(newest, lambda name: f"VALUES({_column(name)})", _column, "<=>")
            # A set sees what those before it have set. What is compared comes last, the first of it at the very end:
            # a row that is newer stays so when the others have its values.
            ordered = [*(name for name in others if name not in newest), *reversed(newest)]
            sets = [f"{name} = IF({newer}, VALUES({name}), {name})" for name in map(_column, ordered)]
        else:
            sets = [f"{name} = VALUES({name})" for name in map(_column, others)]
        return f"{statement} ON DUPLICATE KEY UPDATE {', '.join(sets)}"

    def _create_table(self, table: str, collation: str) -> str:
        key = self.settings.key
        columns = [
            f"{_column(field.name)} {_type(field.kind, collation if field.name in key else None)}"
            for field in self._fields
        ]
        if key:
            columns.append(f"PRIMARY KEY ({', '.join(_column(name) for name in key)})")
        text = ", ".join(columns)
        return f"CREATE TABLE IF NOT EXISTS {_table(table)} ({text}) ENGINE=InnoDB CHARACTER SET utf8mb4"


class _Transaction:
    def __init__(
        self, connection: "Connection[Cursor]", statements: _Statements, target: str, packet_bytes: int
    ) -> None:
        self._connection = connection
        self._statements = statements
        self._target = target
        # The server cuts the connection at a larger one, which looks like a lost connection.
        self._statement_bytes_max = packet_bytes - _PACKET_SPARE

    def last_batch(self, owner: str, query: str) -> int | None:
        ledger = self._statements.ledger
        claim = (
            f"INSERT INTO {ledger} (owner, query, batch, written_at) VALUES (%s, %s, -1, NOW(6)) "
            "ON DUPLICATE KEY UPDATE owner = owner"
        )
        with translated(self._target), self._connection.cursor() as cursor:
            cursor.execute(claim, (owner, query))
            cursor.execute(f"SELECT batch FROM {ledger} WHERE owner = %s AND query = %s FOR UPDATE", (owner, query))
            row = cursor.fetchone()
        return int(row[0]) if row is not None else None

    def empty_table(self) -> None:
        assert self._statements.settings.table is not None
        with translated(self._target), self._connection.cursor() as cursor:
            cursor.execute(f"DELETE FROM {_table(self._statements.settings.table)}")

    def write(self, chunk: pa.RecordBatch) -> None:
        rows = python_rows(chunk, self._statements.parameters)
        with translated(self._target), self._connection.cursor() as cursor:
            self._check_size(cursor, rows)
            # pymysql joins rows into statements of this length.
            limit = min(cursor.max_stmt_length, self._statement_bytes_max)
            cursor.max_stmt_length = limit  # type: ignore[misc]  # of the class, which must not change
            cursor.execute("SAVEPOINT heliograph")
            try:
                cursor.executemany(self._statements.insert, rows)
            except Exception:
                if self._connection.open:
                    _back_to_savepoint(cursor)
                raise
            cursor.execute("RELEASE SAVEPOINT heliograph")

    def _check_size(self, cursor: "Cursor", rows: Sequence[tuple[Any, ...]]) -> None:
        """Refuse rows that make a larger statement than the server takes."""
        limit = self._statement_bytes_max
        fixed = len(self._statements.insert) * 4 + _VALUE_BYTES * len(self._statements.parameters)
        for row in rows:
            text = sum(len(value) for value in row if isinstance(value, str | bytes))
            if text * _ESCAPED_BYTES + fixed <= limit:
                continue
            size = len(cursor.mogrify(self._statements.insert, row).encode("utf-8", "surrogateescape"))
            if size > limit:
                raise RefusedRowsError(
                    f"the row makes a statement of {size:,} bytes, and the server takes {limit:,} (max_allowed_packet)"
                )

    def record(self, owner: str, query: str, batch: int) -> None:
        update = f"UPDATE {self._statements.ledger} SET batch = %s, written_at = NOW(6) WHERE owner = %s AND query = %s"
        with translated(self._target), self._connection.cursor() as cursor:
            cursor.execute(update, (batch, owner, query))

    def commit(self) -> None:
        with translated(self._target):
            self._connection.commit()


def _back_to_savepoint(cursor: "Cursor") -> None:
    import pymysql

    try:
        cursor.execute("ROLLBACK TO SAVEPOINT heliograph")
    except pymysql.MySQLError:
        # A deadlock has undone the whole transaction and the savepoint with it; the first error says what happened.
        return


def _table(name: str) -> str:
    return ".".join(_column(part) for part in name.split("."))


def _column(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def _exists(cursor: "Cursor", table: str) -> bool:
    schema, _, name = table.rpartition(".")
    cursor.execute(
        "SELECT 1 FROM information_schema.tables WHERE table_schema = COALESCE(%s, DATABASE()) AND table_name = %s",
        (schema or None, name),
    )
    return cursor.fetchone() is not None


def _collation(cursor: "Cursor") -> str:
    """The collation of texts of a key that tells all of them apart; most take blanks at the end for nothing."""
    cursor.execute("SELECT VERSION()")
    return "utf8mb4_nopad_bin" if "MariaDB" in str(cursor.fetchone()) else "utf8mb4_0900_bin"


def _type(kind: str, collation_of_key: str | None) -> str:
    """The type of a column, for values of a type in Spark's words."""
    # Long texts and blobs cannot be keys.
    is_key = collation_of_key is not None
    if is_key and kind == "string":
        return f"VARCHAR(255) CHARACTER SET utf8mb4 COLLATE {collation_of_key}"
    if is_key and kind == "binary":
        return "VARBINARY(255)"
    if kind.startswith("decimal("):
        return kind.upper().replace(",", ", ")
    return "JSON" if RowField("", kind).is_complex else _TYPES.get(kind, "LONGTEXT")


@contextmanager
def translated(target: str, *, rows: bool = True) -> Iterator[None]:
    """Translate what pymysql raises; where tables are created it is not the fault of a row."""
    import pymysql

    try:
        yield
    except pymysql.MySQLError as error:
        code = error.args[0] if error.args and isinstance(error.args[0], int) else None
        text = " ".join(str(part) for part in (error.args[1:] if code is not None else error.args))[:_TEXT_MAX]
        if rows and (code in _ROW_CODES or (code is None and isinstance(error, pymysql.ProgrammingError))):
            raise RefusedRowsError(text) from error
        if rows and code == _LOST and _TIMED_OUT in text:
            raise SlowStatementError(f"{target}: {text}") from error
        is_full = code == _ENGINE_CODE and _DISK_FULL in text
        if code in _TRANSIENT_CODES or code in _RESOURCE_CODES or is_full:
            raise TransientError(f"{target}: {text or 'the connection was lost'}") from error
        raise SinkError(f"{target}: {text}") from error
    except OSError as error:
        raise TransientError(f"{target}: {error}") from error
