"""PostgreSQL as a backend: a query that is prepared once for each connection, and parameters that travel beside it.

A question that is cancelled goes on in a task of its connection until that is closed: the library first asks the server
to end it, which may take longer than its asker waits.
"""

import asyncio
from collections.abc import Collection, Sequence
from contextlib import suppress
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from heliograph.access.backends.interface import Connector, Fault, LostConnectionError
from heliograph.access.backends.live import Backends
from heliograph.access.backends.sql import Row, SqlStore, TooManyRowsError, check_count
from heliograph.config.backends.sql import PostgresqlConnection
from heliograph.outbound import Dialer
from heliograph.outbound.postgresql import server_arguments

if TYPE_CHECKING:
    from psycopg import AsyncConnection

# Errors about the statement: what is missing, misspelt or not granted. Texts of others may hold values of clients.
_ABOUT_STATEMENTS: Final = "42"
# Connection exception, and operator intervention but a query that was cancelled.
_LOST_CLASSES: Final = ("08", "57")
_CANCELLED: Final = "57014"


class Postgresql(SqlStore["PostgresqlSession"]):
    def __init__(self, name: str, settings: PostgresqlConnection, names: Collection[str], backends: Backends) -> None:
        super().__init__(name, settings, names, PostgresqlConnector(settings, backends.outbound.dialer(name)), backends)
        self._query = self._statement.text.encode()

    async def rows(self, question: tuple[str, ...]) -> Sequence[Row]:
        """Texts of PostgreSQL have no NUL, so what has one is in no row."""
        if any("\0" in param for param in question):
            return ()
        return await self.pool.ask(lambda session: session.rows(self._query, question))


class PostgresqlSession:
    def __init__(self, connection: "AsyncConnection[Any]", is_prepared: bool) -> None:
        self._connection = connection
        self._is_prepared = is_prepared
        self._asking: asyncio.Task[list[Row]] | None = None

    async def rows(self, query: bytes, params: Sequence[str]) -> list[Row]:
        self._asking = asyncio.get_running_loop().create_task(self._rows(query, params), name="postgresql")
        return await asyncio.shield(self._asking)

    async def settle(self) -> None:
        """Wait until the question that was cancelled has ended; the server knows how long it may take."""
        if self._asking is not None:
            await asyncio.wait([self._asking])
        if self._connection.closed:
            raise LostConnectionError("it was closed")

    async def end(self) -> None:
        """End the question that was cancelled, if there is one, and close."""
        if self._asking is not None and not self._asking.done():
            self._asking.cancel()
            with suppress(asyncio.CancelledError, Exception):
                await self._asking
        await self._connection.close()

    async def _rows(self, query: bytes, params: Sequence[str]) -> list[Row]:
        cursor = await self._connection.execute(query, params, prepare=self._is_prepared)
        names = [column.name for column in cursor.description or ()]
        check_count(cursor.rowcount)
        return [dict(zip(names, row, strict=True)) for row in await cursor.fetchall()]


class PostgresqlConnector(Connector[PostgresqlSession]):
    kind = "postgresql"

    def __init__(self, settings: PostgresqlConnection, dialer: Dialer) -> None:
        self.server = str(settings.server)
        self._settings = settings
        self._dialer = dialer
        self._secret = ""

    async def open(self) -> PostgresqlSession:
        psycopg = await asyncio.to_thread(import_module, "psycopg")
        settings = self._settings
        self._secret = settings.password.reveal() if settings.password is not None else ""
        is_prepared = not settings.disable_prepared_statements
        addresses = await self._dialer.resolve(settings.server.host, settings.server.port)
        connection: AsyncConnection[Any] = await psycopg.AsyncConnection.connect(
            "",
            autocommit=True,
            prepare_threshold=5 if is_prepared else None,
            cursor_factory=psycopg.AsyncRawCursor,
            **self._arguments(),
            **server_arguments(settings.server.host, addresses),
        )
        return PostgresqlSession(connection, is_prepared)

    async def close(self, client: PostgresqlSession) -> None:
        await client.end()

    async def settle(self, client: PostgresqlSession) -> None:
        await client.settle()

    async def check(self, client: PostgresqlSession) -> None:
        await client.rows(b"SELECT 1", ())

    def fault(self, error: Exception) -> Fault:
        import psycopg

        if isinstance(error, TooManyRowsError):
            return Fault(str(error), is_lost=False)
        if not isinstance(error, psycopg.Error):
            return Fault(str(error) if isinstance(error, OSError) else type(error).__name__, isinstance(error, OSError))
        state = error.sqlstate
        if state is None:  # of the library: it could not connect, lost the connection, or has no form for a value
            is_lost = isinstance(error, psycopg.OperationalError | psycopg.InterfaceError)
            return Fault(str(error).partition("\n")[0], is_lost)  # one line for each way that was tried
        is_lost = state[:2] in _LOST_CLASSES and state != _CANCELLED
        if is_lost or state[:2] == _ABOUT_STATEMENTS:
            return Fault(f"{error.diag.message_primary} ({state})", is_lost)
        return Fault(f"{type(error).__name__} ({state})", is_lost=False)

    def secrets(self) -> tuple[str, ...]:
        return (self._secret,)

    def _arguments(self) -> dict[str, object]:
        """What the library's connect takes: all that it would else find in the environment, too."""
        settings, tls = self._settings, self._settings.tls
        milliseconds = max(1, round(settings.query_timeout * 1000))
        arguments: dict[str, object] = {
            "port": settings.server.port,
            "dbname": settings.database,
            "user": settings.username,
            "password": self._secret,
            "passfile": "/dev/null",
            "application_name": "heliograph",
            "client_encoding": "UTF8",
            "gssencmode": "disable",
            "tcp_user_timeout": milliseconds,
            "sslmode": "prefer" if tls is None else "verify-full" if tls.verify else "require",
        }
        if not settings.disable_prepared_statements:  # what stands between may know no options
            arguments["options"] = f"-c statement_timeout={milliseconds}"
        if tls is not None:
            arguments["sslrootcert"] = (tls.cacertfile or "system") if tls.verify else None
            arguments["sslcert"] = tls.certfile or None
            arguments["sslkey"] = tls.keyfile or tls.certfile or None
        return {name: value for name, value in arguments.items() if value is not None}
