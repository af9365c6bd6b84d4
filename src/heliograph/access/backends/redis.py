"""A Redis that is asked for the fields of hashes: one server, the primary that sentinels name, or a cluster.

A question is a command whose words stand fixed; only its key is made for each client, as one argument of the protocol,
so no value can become another word.
"""

from collections.abc import Collection
from importlib import import_module
from typing import Any, Final, Protocol

from heliograph.access.backends.interface import Connector, Fault, PoolLimits
from heliograph.access.backends.live import Backends
from heliograph.access.backends.store import AccessStore
from heliograph.access.templates import Template, Values
from heliograph.access.templates.template import warn_of_unknown
from heliograph.config.backends.redis import RedisCommand, RedisConnection
from heliograph.outbound import Dialer
from heliograph.settings.redis import RedisType, connection_arguments
from heliograph.settings.secrets import Secret
from heliograph.settings.units import Address

_CONNECT_S: Final = 5.0
# The library has RESP3 as its default, in which answers have other forms and servers may send unasked.
_PROTOCOL: Final = 2
# Errors of a server after which another connection may find one that answers.
_PASSING: Final = ("LOADING", "MASTERDOWN", "READONLY", "CLUSTERDOWN", "TRYAGAIN", "MOVED", "ASK")


class RedisClient(Protocol):
    async def command(self, *words: str) -> Any: ...

    async def end(self) -> None: ...


class Redis(AccessStore[RedisClient, tuple[str, ...]]):
    """Its row is the fields of a hash that it has, in the order of the command or of the server."""

    def __init__(
        self, name: str, settings: RedisConnection, command: RedisCommand, names: Collection[str], backends: Backends
    ) -> None:
        limits = PoolLimits(questions=settings.pool_size, deadline_s=settings.query_timeout, connect_s=_CONNECT_S)
        super().__init__(name, RedisConnector(settings, backends.outbound.dialer(name)), limits, backends)
        self._command = command
        self._key = Template(command.key, names)
        warn_of_unknown(name, self._key.unknown)
        self.names = self._key.names

    def question(self, values: Values) -> tuple[str, ...]:
        return (self._key.render(values),)

    async def rows(self, question: tuple[str, ...]) -> list[dict[str, bytes]]:
        fields = await self._fields(question[0])
        return [fields] if fields else []

    async def _fields(self, key: str) -> dict[str, bytes]:
        command = self._command
        found = await self.pool.ask(lambda client: client.command(command.name, key, *command.fields))
        if command.name == "HGETALL":
            pairs = found.items() if isinstance(found, dict) else zip(found[::2], found[1::2], strict=True)
            return {name.decode("utf-8", "replace"): value for name, value in pairs}
        values = found if isinstance(found, list) else [found]
        return {name: value for name, value in zip(command.fields, values, strict=True) if value is not None}


class RedisConnector(Connector[RedisClient]):
    kind = "redis"

    def __init__(self, settings: RedisConnection, dialer: Dialer) -> None:
        self.server = settings.place
        self.questions_each = settings.pool_size if settings.redis_type is RedisType.CLUSTER else 1
        self._settings = settings
        self._dialer = dialer
        self._secrets: dict[str, str] = {}  # as they were used last, by setting

    async def open(self) -> RedisClient:
        """A connection to a server that takes questions, or a client that knows the nodes of the cluster."""
        import asyncio

        # It takes a tenth of a second to load, which the event loop has not.
        await asyncio.to_thread(import_module, "redis.asyncio")
        if self._settings.redis_type is RedisType.CLUSTER:
            return await self._open_cluster()
        if self._settings.redis_type is RedisType.SENTINEL:
            return await self._open_primary()
        return await self._open_server(self._settings.addresses[0])

    async def close(self, client: RedisClient) -> None:
        await client.end()

    async def check(self, client: RedisClient) -> None:
        """Ping; of a primary that sentinels named, ask whether it is one still."""
        if self._settings.redis_type is RedisType.SENTINEL:
            await _demand_primary(client)
        else:
            await _allowed(client, "PING")

    def fault(self, error: Exception) -> Fault:
        from redis.exceptions import ClusterError, RedisClusterException, ResponseError

        # A server tells the arguments of a command that it does not know: what a client sent.
        text = str(error).partition(", with args beginning with")[0] or type(error).__name__
        if isinstance(error, ResponseError) and not isinstance(error, ClusterError):
            return Fault(text, text.startswith(_PASSING) or type(error).__name__ in ("ReadOnlyError", "TryAgainError"))
        return Fault(text, isinstance(error, ClusterError | RedisClusterException | _lost()))

    def secrets(self) -> tuple[str, ...]:
        return tuple(self._secrets.values())

    # --- one server

    async def _open_server(self, address: Address) -> RedisClient:
        return await self._connect(address, self._arguments(), self._settings.database)

    async def _connect(self, address: Address, arguments: dict[str, Any], database: int) -> "_OneServer":
        from heliograph.outbound.redis import async_connection_class

        kind: Any = async_connection_class(has_tls=arguments.pop("ssl", False))
        made = kind(
            dialer=self._dialer, host=address.host, port=address.port, db=database, protocol=_PROTOCOL, **arguments
        )
        client = _OneServer(made)
        try:
            await made.connect()
        except BaseException:
            await client.end()
            raise
        return client

    # --- the primary that sentinels name

    async def _open_primary(self) -> RedisClient:
        client = await self._open_server(await self._ask_sentinels())
        try:
            await _demand_primary(client)
        except BaseException:
            await client.end()
            raise
        return client

    async def _ask_sentinels(self) -> Address:
        """Where the primary is, as the first sentinel says that knows it."""
        faults = []
        for address in self._settings.addresses:
            try:
                found = await self._ask_sentinel(address)
            except Exception as error:  # noqa: BLE001  # the next one may answer
                faults.append(f"{address}: {self.fault(error).text}")
                continue
            if found is not None:
                return found
            faults.append(f"{address}: it does not know {self._settings.sentinel}")
        raise ConnectionError(f"no sentinel names a primary: {'; '.join(faults)}")

    async def _ask_sentinel(self, address: Address) -> Address | None:
        sentinel = await self._connect(address, self._sentinel_arguments(), 0)
        try:
            name = self._settings.sentinel or ""
            found = await sentinel.command("SENTINEL", "GET-MASTER-ADDR-BY-NAME", name)
        finally:
            await sentinel.end()
        return None if found is None else Address(found[0].decode(), int(found[1]))

    # --- a cluster

    async def _open_cluster(self) -> RedisClient:
        from redis.asyncio.cluster import ClusterNode, RedisCluster

        arguments = self._arguments()
        nodes = [ClusterNode(address.host, address.port) for address in self._settings.addresses]
        cluster = RedisCluster(
            startup_nodes=nodes,
            max_connections=self._settings.pool_size,
            require_full_coverage=False,
            protocol=_PROTOCOL,
            **arguments,
        )
        self._dial(cluster)
        client = _Cluster(cluster)
        try:
            await client.demand_ok()
        except BaseException:
            await client.end()
            raise
        return client

    def _dial(self, cluster: Any) -> None:
        """Set the class of connections, for which a client has no argument; nodes that it finds get the same."""
        from heliograph.outbound.redis import async_connection_class

        opened = {
            "connection_class": async_connection_class(has_tls=self._settings.tls is not None),
            "dialer": self._dialer,
        }
        cluster.connection_kwargs.update(opened)
        for node in cluster.startup_nodes:
            node.connection_class = opened["connection_class"]
            node.connection_kwargs["dialer"] = self._dialer

    def _arguments(self) -> dict[str, Any]:
        settings = self._settings
        return self._timed() | connection_arguments(
            settings.username, self._revealed("password", settings.password), settings.tls
        )

    def _sentinel_arguments(self) -> dict[str, Any]:
        settings = self._settings
        password = self._revealed("sentinel_password", settings.sentinel_password)
        return self._timed() | connection_arguments(settings.sentinel_username, password, settings.tls)

    def _timed(self) -> dict[str, Any]:
        """Timeouts that leave time for another server where there are several, and no tries of the library's own."""
        from redis.asyncio.retry import Retry
        from redis.backoff import NoBackoff

        each_s = _CONNECT_S / (len(self._settings.addresses) + 1)
        timeout_s = max(self._settings.query_timeout, each_s)
        return {"socket_connect_timeout": each_s, "socket_timeout": timeout_s, "retry": Retry(NoBackoff(), 0)}

    def _revealed(self, setting: str, secret: Secret | None) -> str | None:
        if secret is None:
            return None
        self._secrets[setting] = secret.reveal()
        return self._secrets[setting]


class _OneServer:
    def __init__(self, connection: Any) -> None:
        self._connection = connection

    async def command(self, *words: str) -> Any:
        await self._connection.send_command(*words)
        return await self._connection.read_response()

    async def end(self) -> None:
        await self._connection.disconnect(nowait=True)


class _Cluster:
    def __init__(self, client: Any) -> None:
        self._client = client

    async def command(self, *words: str) -> Any:
        if words == ("PING",):
            return await self._client.execute_command("PING", target_nodes=self._client.RANDOM)
        return await self._client.execute_command(*words)

    async def demand_ok(self) -> None:
        """Find the nodes; raise if the cluster says that it is not whole."""
        from redis.exceptions import NoPermissionError

        await self._client.initialize()
        try:
            state = await self._client.execute_command("CLUSTER INFO", target_nodes=self._client.RANDOM)
        except NoPermissionError:
            return
        if isinstance(state, dict) and state.get("cluster_state", "ok") != "ok":
            raise ConnectionError(f"the state of the cluster is {state['cluster_state']}")

    async def end(self) -> None:
        await self._client.aclose()


async def _demand_primary(client: RedisClient) -> None:
    """Raise if the server says that it is not the primary, as after a failover that the sentinels tell later."""
    role = await _allowed(client, "ROLE")
    if role is not None and role[0] != b"master":
        raise ConnectionError(f"the server that the sentinels name is a {role[0].decode()} now")


async def _allowed(client: RedisClient, command: str) -> Any:
    """The answer to a command; None where our user may not give it, so that a Redis with few rights will do."""
    from redis.exceptions import NoPermissionError

    try:
        return await client.command(command)
    except NoPermissionError:
        return None


def _lost() -> Any:
    """The errors that say that a connection is of no use."""
    from redis.exceptions import ConnectionError as RedisConnectionError
    from redis.exceptions import InvalidResponse
    from redis.exceptions import TimeoutError as RedisTimeoutError

    return OSError | EOFError | RedisConnectionError | RedisTimeoutError | InvalidResponse
