"""Brings batches to a database and dies at each step of its transaction; run by the tests of the databases.

`python -m pipeline.database_driver SECTIONS FILE...` brings the rows of the files, one after another, to each of the
sinks in SECTIONS: a JSON object of their sections by name, which ends with the output mode. No process needs Spark:
what a sink asks for is columns and rows as Arrow.
"""

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import psycopg
import pyarrow as pa
import pyarrow.parquet as pq
import pymysql
from pymysql.constants.COMMAND import COM_QUERY
from pyspark.sql.pandas.types import from_arrow_schema
from redis.connection import AbstractConnection

from heliograph.pipeline.sinks import OutputMode, mysql, postgresql
from heliograph.pipeline.sinks import redis as redis_sink
from heliograph.pipeline.sinks.interface import RowSink, Written
from heliograph.pipeline.sinks.redis import RedisSink
from heliograph.pipeline.sinks.redis_commands import Command, PreparedCommands, RowCommand
from heliograph.pipeline.sinks.spark.arrow_rows import ArrowRows
from heliograph.pipeline.sinks.sql_batches import write_exactly_once
from support.dying import bring_each, die, die_at
from support.reach import reachable
from support.sinks import batch_of, sink_of

#: Where it dies: the connection has a transaction; the batch is claimed in the ledger; the table is emptied; one row of
#: two is written; both are; the ledger has the batch; the end of the transaction is sent and not answered; it is.
SQL_STEPS = {
    "append": ("begun", "claimed", "row", "rows", "recorded"),
    "update": ("begun", "claimed", "row", "rows", "recorded"),
    "complete": ("begun", "claimed", "emptied", "row", "rows", "recorded"),
}
#: Redis notes the batch with the end of the transaction.
REDIS_STEPS = ("claimed", "row", "rows")
# What died at one of these has most likely written the batch, so each batch has one of them.
_LAST_STEPS = ("sent", "committed")


def main(sections: str, *files: str) -> None:
    """Bring every batch, dying at every step."""
    modes = {name: name.split()[-1] for name in json.loads(sections)}
    sinks = {name: sink_of(section, OutputMode(modes[name])) for name, section in json.loads(sections).items()}
    steps = {
        name: REDIS_STEPS if isinstance(sink, RedisSink) else SQL_STEPS[modes[name]] for name, sink in sinks.items()
    }
    # Read here, since what is needed for it takes longer to import than a batch to write.
    rows = {Path(file): _Rows(pq.read_table(file)) for file in files}

    def bring(name: str, file: Path, number: int, step: str) -> None:
        if step == "last":
            step = _LAST_STEPS[number % len(_LAST_STEPS)]
        _let_die(step)
        sink = sinks[name]
        assert isinstance(sink, RowSink)
        sink.write(rows[file], batch_of(number, query=modes[name]))
        die_at(step, "committed")

    bring_each(list(rows), {name: (*some, "last") for name, some in steps.items()}, bring)


class _Rows(ArrowRows):
    """Rows that no Spark has computed."""

    def __init__(self, table: pa.Table) -> None:
        self._schema = from_arrow_schema(table.schema)
        self._held = table.combine_chunks()


class _Commands(PreparedCommands):
    """Commands of rows that no Spark has computed."""

    def __init__(self, rows: _Rows, commands: tuple[Command, ...]) -> None:
        self.commands = commands
        self._rows = rows

    def chunks(self, rows_max: int) -> Iterator[list[RowCommand]]:
        for number, row in enumerate(chunk.to_pylist()[0] for chunk in self._rows.chunks(1)):
            yield [RowCommand(number, (b"RPUSH", row["station"].encode(), b"%d" % row["n"]))]


class _DyingTransaction:
    """A transaction of a sink whose process dies at a step of it.

    Args:
        transaction: The sink's own.
        step: Where to die.
        send_end: Sends what ends the transaction, and awaits no answer.
    """

    def __init__(self, transaction: Any, step: str, send_end: Callable[[], object]) -> None:
        self._transaction = transaction
        self._step = step
        self._send_end = send_end
        die_at(step, "begun")

    def last_batch(self, owner: str, query: str) -> int | None:
        last: int | None = self._transaction.last_batch(owner, query)
        die_at(self._step, "claimed")
        return last

    def empty_table(self) -> None:
        self._transaction.empty_table()
        die_at(self._step, "emptied")

    def write(self, chunk: pa.RecordBatch) -> None:
        self._transaction.write(chunk)
        die_at(self._step, "row")

    def record(self, owner: str, query: str, batch: int) -> None:
        die_at(self._step, "rows")
        self._transaction.record(owner, query, batch)
        die_at(self._step, "recorded")

    def commit(self) -> None:
        if self._step == "sent":
            self._send_end()
            die()
        self._transaction.commit()


def _send_end(transaction: object) -> None:
    """Send what ends a transaction, over the connection that it holds, and await no answer."""
    for postgresql_connection in reachable(transaction, psycopg.Connection):
        postgresql_connection.pgconn.send_query(b"COMMIT")
        postgresql_connection.pgconn.flush()
    for mysql_connection in reachable(transaction, pymysql.Connection):
        connection: Any = mysql_connection
        connection._execute_command(COM_QUERY, "COMMIT")  # the library's only way to send and not to wait


def _let_die(step: str) -> None:
    """Have the sinks of this process die at a step, and take rows without Spark."""

    def write_until_dead(connect: Callable[[], Any], *more: Any, **named: Any) -> Written:
        @contextmanager
        def connect_and_die() -> Iterator[_DyingTransaction]:
            with connect() as transaction:
                yield _DyingTransaction(transaction, step, partial(_send_end, transaction))

        return write_exactly_once(connect_and_die, *more, **named)

    replaced: tuple[tuple[Any, str, object], ...] = (
        (postgresql, "write_exactly_once", write_until_dead),
        (mysql, "write_exactly_once", write_until_dead),
        (redis_sink, "PreparedCommands", _Commands),
        (AbstractConnection, "send_packed_command", _dying_redis(step)),
    )
    for place, name, value in replaced:
        setattr(place, name, value)


def _dying_redis(step: str) -> Callable[..., None]:
    """What sends commands to Redis, and dies."""
    send: Any = AbstractConnection.send_packed_command

    def send_and_die(connection: Any, packed: Any, *more: Any, **options: Any) -> None:
        sent = packed if isinstance(packed, bytes) else b"".join(packed)
        if b"MULTI" in sent:
            die_at(step, "claimed")
        if b"EXEC" in sent:
            die_at(step, "rows")
        send(connection, packed, *more, **options)
        if b"RPUSH" in sent:
            die_at(step, "row")
        if b"EXEC" in sent:
            die_at(step, "sent")

    return send_and_die


if __name__ == "__main__":
    main(*sys.argv[1:])
