"""A MongoDB that is asked for documents.

The library has its own connections and tells which servers there are; one client of it answers all questions of a pool.
"""

import logging
from collections.abc import Collection
from importlib import import_module
from typing import Any, Final

from heliograph.access.backends.interface import Connector, Fault, PoolLimits
from heliograph.access.backends.live import Backends
from heliograph.access.backends.store import AccessStore
from heliograph.access.templates import Values
from heliograph.access.templates.documents import DocumentTemplate
from heliograph.access.templates.template import warn_of_unknown
from heliograph.config.backends.mongodb import MongoConnection, MongoType
from heliograph.outbound import Dialer

# The library writes whole documents, and with them hashes of passwords, into a log of level debug.
logging.getLogger("pymongo").setLevel(logging.INFO)

_CONNECT_S: Final = 5.0
# How long the library looks for a server that takes questions before the pool says that there is none.
_SELECTION_S: Final = 3.0
_AUTHENTICATION_FAILED: Final = 18


class MongoDb(AccessStore[Any, tuple[str, ...]]):
    """Documents of a collection, `limit` at most; a question is the values of the placeholders in its filter."""

    def __init__(
        self,
        name: str,
        settings: MongoConnection,
        names: Collection[str],
        backends: Backends,
        limit: int,
        skip: int,
    ) -> None:
        limits = PoolLimits(questions=settings.pool_size, deadline_s=settings.query_timeout, connect_s=_CONNECT_S)
        super().__init__(name, MongoConnector(settings, backends.outbound.dialer(name)), limits, backends)
        self._settings = settings
        self._filter = DocumentTemplate(dict(settings.filter), names)
        warn_of_unknown(f"the filter of {name}", self._filter.unknown)
        self.names = self._filter.names
        self._limit, self._skip = limit, skip

    def question(self, values: Values) -> tuple[str, ...]:
        return tuple(values.get(name, "") for name in self.names)

    async def rows(self, question: tuple[str, ...]) -> list[dict[str, object]]:
        query = self._filter.query(dict(zip(self.names, question, strict=True)))

        async def ask(client: Any) -> list[dict[str, object]]:
            collection = client[self._settings.database][self._settings.collection]
            found = collection.find(query, limit=self._limit, skip=self._skip, batch_size=self._limit)
            return [document async for document in found]

        return await self.pool.ask(ask)


class MongoConnector(Connector[Any]):
    kind = "mongodb"

    def __init__(self, settings: MongoConnection, dialer: Dialer) -> None:
        self.server = settings.place
        self.questions_each = settings.pool_size
        self._settings = settings
        self._dialer = dialer
        self._password = ""

    async def open(self) -> Any:
        """A client that has reached a server which takes questions, and has logged in there."""
        import asyncio

        # It takes a quarter of a second to load, which the event loop has not.
        await asyncio.to_thread(import_module, "pymongo")
        from pymongo import AsyncMongoClient

        if not self._settings.srv_record:
            for address in self._settings.addresses:
                await self._dialer.resolve(address.host, address.port)
        client: Any = AsyncMongoClient(**self._arguments())
        try:
            await self.check(client)
        except BaseException:
            await client.close()
            raise
        return client

    async def close(self, client: Any) -> None:
        await client.close()

    async def check(self, client: Any) -> None:
        """Ping; the servers that the library has found must be allowed too: it resolves and connects by itself."""
        await client[self._settings.auth_source].command("ping", read_preference=self._read_preference())
        for host, port in client.nodes:
            await self._dialer.resolve(host, port)

    def fault(self, error: Exception) -> Fault:
        """What a server says about a question may have values of clients."""
        from pymongo import errors

        if isinstance(error, errors.OperationFailure):
            name = (error.details or {}).get("codeName") or f"code {error.code}"
            if error.code == _AUTHENTICATION_FAILED:
                return Fault("the server does not accept the user name or the password", True)
            return Fault(f"the server answers with {name}", False)
        if isinstance(error, errors.ConnectionFailure):
            return Fault(str(error).partition(", Topology Description:")[0], True)
        return Fault(type(error).__name__, isinstance(error, OSError))

    def secrets(self) -> tuple[str, ...]:
        return (self._password,) if self._password else ()

    def _read_preference(self) -> Any:
        from pymongo import ReadPreference

        return ReadPreference.SECONDARY_PREFERRED if self._settings.r_mode else ReadPreference.PRIMARY

    def _arguments(self) -> dict[str, Any]:
        settings = self._settings
        milliseconds = round(1000 * _CONNECT_S)
        arguments: dict[str, Any] = {
            "maxPoolSize": settings.pool_size,
            "serverSelectionTimeoutMS": round(1000 * _SELECTION_S),
            "connectTimeoutMS": milliseconds,
            "socketTimeoutMS": round(1000 * max(settings.query_timeout, _CONNECT_S)),
            "readPreference": "secondaryPreferred" if settings.r_mode else "primary",
            "retryReads": False,  # the pool asks once more
            "serverMonitoringMode": "poll",  # one connection that watches a server instead of two
            "appname": "heliograph",
        }
        if settings.srv_record:
            arguments["host"] = f"mongodb+srv://{settings.addresses[0].host}"
        else:
            arguments["host"] = [str(address) for address in settings.addresses]
            arguments["directConnection"] = settings.mongo_type is MongoType.SINGLE
        if settings.replica_set_name is not None:
            arguments["replicaSet"] = settings.replica_set_name
        if settings.username is not None:
            self._password = settings.password.reveal() if settings.password is not None else ""
            arguments |= {"username": settings.username, "password": self._password, "authSource": settings.auth_source}
        if settings.tls is not None:
            arguments |= {
                "tls": True,
                "tlsCAFile": settings.tls.cacertfile or None,
                "tlsCertificateKeyFile": settings.tls.certfile or None,
                "tlsAllowInvalidCertificates": not settings.tls.verify,
            }
        return arguments
