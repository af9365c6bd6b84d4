"""MySQL and MariaDB as a backend: each connection in a thread of its own, since the library blocks.

Parameters are sent as hexadecimal digits behind their character set (`_utf8mb4 X'616263'`). Nothing is escaped, so what
escaping depends on (the SQL mode `NO_BACKSLASH_ESCAPES`, character sets in which a backslash is a part of a character)
does not matter: a value has no byte that could end its place in the statement.
"""

import socket
from collections.abc import Collection, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from heliograph.access.backends.interface import Fault
from heliograph.access.backends.live import Backends
from heliograph.access.backends.sql import Row, SqlStore, TooManyRowsError, check_count
from heliograph.access.backends.threads import BlockingConnector, Threaded
from heliograph.config.backends.sql import MysqlConnection
from heliograph.outbound import Dialer

if TYPE_CHECKING:
    from pymysql.connections import Connection

_CONNECT_S: Final = 5.0
# Errors about logging in and about the statement; texts of others may hold values of clients.
_PLAIN_TEXTS: Final = frozenset(
    {1040, 1044, 1045, 1049, 1054, 1129, 1130, 1142, 1143, 1146, 1193, 1203, 1226, 1251, 1305, 1370, 1698, 1862}
    | {2002, 2003, 2005, 2006, 2012, 2013, 2026, 2055, 2059, 2061}
)
# Shutdown, a killed connection, and what the library finds: the server has gone, or says nothing that it understands.
_LOST_CODES: Final = frozenset({0, 1053, 1077, 1078, 1079, 1152, 1158, 1159, 1160, 1161, 1927, 4031})
_LIBRARY_CODES: Final = range(2000, 2100)


class Mysql(SqlStore[Threaded["MysqlSession"]]):
    def __init__(self, name: str, settings: MysqlConnection, names: Collection[str], backends: Backends) -> None:
        super().__init__(name, settings, names, MysqlConnector(settings, backends.outbound.dialer(name)), backends)

    async def rows(self, question: tuple[str, ...]) -> Sequence[Row]:
        query = self._statement.text % tuple(map(literal, question))
        return await self.pool.ask(lambda session: session.run(lambda client: client.rows(query)))


def literal(value: str) -> str:
    """A text as a literal of SQL that holds hexadecimal digits alone."""
    return f"_utf8mb4 X'{value.encode().hex()}'"


class MysqlSession:
    def __init__(self, connection: "Connection[Any]", twin: socket.socket) -> None:
        self.connection = connection
        self.twin = twin

    def rows(self, query: str) -> list[Row]:
        with self.connection.cursor() as cursor:
            cursor.execute(query)
            names = [column[0] for column in cursor.description or ()]
            check_count(cursor.rowcount)
            return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]


class MysqlConnector(BlockingConnector[MysqlSession]):
    kind = "mysql"

    def __init__(self, settings: MysqlConnection, dialer: Dialer) -> None:
        self.server = str(settings.server)
        self._settings = settings
        self._dialer = dialer
        self._secret = ""

    def connect(self) -> MysqlSession:
        from pymysql.connections import Connection

        settings = self._settings
        self._secret = settings.password.reveal() if settings.password is not None else ""
        connection = Connection(
            host=settings.server.host,
            port=settings.server.port,
            database=settings.database,
            user=settings.username,
            password=self._secret.encode(),  # as text it would be sent in Latin-1
            charset="utf8mb4",
            autocommit=True,
            read_timeout=settings.query_timeout,
            write_timeout=settings.query_timeout,
            ssl=settings.tls.context() if settings.tls is not None else None,
            program_name="heliograph",
            defer_connect=True,
        )
        sock = self._dialer.connect(settings.server.host, settings.server.port, _CONNECT_S)
        twin = sock.dup()  # TLS takes the first one for itself
        try:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            connection.connect(sock)
            self._limit(connection)
        except BaseException:
            twin.close()
            sock.close()
            raise
        return MysqlSession(connection, twin)

    def ping(self, client: MysqlSession) -> None:
        client.connection.ping(reconnect=False)

    def disconnect(self, client: MysqlSession) -> None:
        with suppress(Exception):
            client.connection.close()
        client.twin.close()

    def interrupt(self, client: MysqlSession) -> None:
        client.twin.shutdown(socket.SHUT_RDWR)

    def fault(self, error: Exception) -> Fault:
        from pymysql import MySQLError

        if isinstance(error, TooManyRowsError):
            return Fault(str(error), is_lost=False)
        if not isinstance(error, MySQLError):
            return Fault(str(error) if isinstance(error, OSError) else type(error).__name__, isinstance(error, OSError))
        code = error.args[0] if error.args and isinstance(error.args[0], int) else None
        is_lost = code is None or code in _LOST_CODES or code in _LIBRARY_CODES
        if code in _PLAIN_TEXTS:
            return Fault(f"{error.args[-1]} ({code})", is_lost)
        return Fault(f"{_name_of(code)} ({code})" if code else "the connection was lost", is_lost)

    def secrets(self) -> tuple[str, ...]:
        return (self._secret,)

    def _limit(self, connection: "Connection[Any]") -> None:
        from pymysql import MySQLError

        seconds = self._settings.query_timeout
        with suppress(MySQLError), connection.cursor() as cursor:  # a proxy or an old server may not know it
            cursor.execute("SELECT VERSION()")
            if "MariaDB" in str(cursor.fetchone()):
                cursor.execute(f"SET SESSION max_statement_time = {seconds}")
            else:
                cursor.execute(f"SET SESSION max_execution_time = {max(1, int(seconds * 1000))}")


def _name_of(code: int) -> str:
    """What the library calls an error of the server."""
    from pymysql.constants import ER

    return next((name for name, number in vars(ER).items() if number == code), "an error")
