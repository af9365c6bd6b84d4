"""Where the sink `redis` writes: one server, the primary that sentinels name, or the nodes of a cluster.

A connection is made for each attempt to write a batch and speaks for itself: one policy tries again, and it begins the
transaction again, so the library must not. What the library raises is translated here.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from heliograph.hocon.values import Content
from heliograph.pipeline.errors import SinkError
from heliograph.pipeline.sinks.interface import INSTALL
from heliograph.pipeline.sinks.retry import TransientError
from heliograph.pipeline.sinks.servers import ServerAddress, ServerSink, revealed
from heliograph.settings.fields import optional, setting
from heliograph.settings.kinds import Duration, Integer, Kind, RefusedError, SecretText, Text, Words
from heliograph.settings.secrets import Secret
from heliograph.settings.units import Address

_TEXT_MAX: Final = 500

# How the answers begin that pass: memory, a replica or a script in the way, a server that starts, a slot that moves.
_TRANSIENT_ANSWERS: Final = ("OOM", "READONLY", "LOADING", "BUSY", "MASTERDOWN", "TRYAGAIN", "NOREPLICAS", "MISCONF")
# The library takes those words away from answers that it knows.
_TRANSIENT_ERRORS: Final = frozenset(
    {"BusyLoadingError", "OutOfMemoryError", "ReadOnlyError", "MovedError", "AskError", "TryAgainError"}
    | {"ClusterDownError", "MasterDownError"}
)


class RedisType(StrEnum):
    """What there is at the addresses; the words are EMQX's."""

    SINGLE = "single"
    SENTINEL = "sentinel"
    CLUSTER = "cluster"


_PORT: Final = 6379
_SENTINEL_PORT: Final = 26379
# Of each type the settings that it needs, and all that it has.
_KEYS: Final = {
    RedisType.SINGLE: (("server",), ("server", "database")),
    RedisType.SENTINEL: (
        ("servers", "sentinel"),
        ("servers", "sentinel", "database", "sentinel_username", "sentinel_password"),
    ),
    RedisType.CLUSTER: (("servers",), ("servers",)),
}


class ServerAddresses(Kind[tuple[str, ...]]):
    """Where several servers are."""

    expected = "a list of host:port or hosts, or a text with commas between"

    def convert(self, value: Content) -> tuple[str, ...]:
        """Their addresses, of which the port may be missing."""
        parts: list[Content] = list(value.split(",")) if isinstance(value, str) else []
        parts = [item.value for item in value] if isinstance(value, list) else parts
        addresses = [str(part).strip() for part in parts]
        for address in addresses:
            ServerAddress(_PORT).convert(address)
        if not parts:
            raise RefusedError
        return tuple(addresses)


@dataclass(frozen=True, kw_only=True)
class RedisServers(ServerSink):
    """A sink whose rows go to Redis: where that is."""

    redis_type: RedisType = setting(
        Words({kind.value: kind for kind in RedisType}), RedisType.SINGLE, "What there is at the addresses."
    )
    address: Address | None = optional(ServerAddress(_PORT), "Of `single`: where the server is.", name="server")
    several: tuple[str, ...] | None = optional(
        ServerAddresses(),
        "Of `sentinel` the sentinels (port 26379), of `cluster` some of its nodes (port 6379).",
        name="servers",
    )
    sentinel: str | None = optional(
        Text("a name"), "Of `sentinel`: the name under which the sentinels know the primary."
    )
    sentinel_username: str | None = optional(Text("a user name"), "Who asks the sentinels.")
    sentinel_password: Secret | None = optional(SecretText(), "The password for it.")
    database: int = setting(Integer(0, 1023), 0, "Number of the database; a cluster has none.")
    timeout_s: float = setting(Duration(0.001, needs_unit=True), 30.0, "How long an answer may take.", name="timeout")

    def __post_init__(self) -> None:
        given = {
            "server": self.address,
            "servers": self.several,
            "sentinel": self.sentinel,
            "database": self.database,
            "sentinel_username": self.sentinel_username,
            "sentinel_password": self.sentinel_password,
        }
        needed, own = _KEYS[self.redis_type]
        for name, value in given.items():
            if value and name not in own:
                raise RefusedError(f"is not for redis_type = {self.redis_type}, which has {', '.join(own)}", name)
            if not value and name in needed:
                raise RefusedError(f"has no {name}, which redis_type = {self.redis_type} needs")

    @property
    def addresses(self) -> tuple[Address, ...]:
        """The server, the sentinels, or some nodes of the cluster."""
        if self.address is not None:
            return (self.address,)
        each = ServerAddress(_SENTINEL_PORT if self.redis_type is RedisType.SENTINEL else _PORT)
        return tuple(map(each.convert, self.several or ()))

    @property
    def place(self) -> str:
        """Where, for people."""
        where = ",".join(map(str, self.addresses))
        if self.redis_type is RedisType.CLUSTER:
            return f"the cluster {where}"
        return f"{self.sentinel} of the sentinels {where}" if self.sentinel else f"{where}/{self.database}"

    @contextmanager
    def primary(self, target: str) -> Iterator[Any]:
        """A connection to the server, or to the primary that a sentinel names.

        Args:
            target: What is written, for messages.

        Raises:
            TransientError: It cannot be reached now.
            SinkError: It does not let us in.
        """
        if self.redis_type is RedisType.SINGLE:
            with self.connected(target, self.addresses[0]) as connection:
                yield connection
            return
        library = _library()
        asking = self._settings(self.sentinel_username, self.sentinel_password)
        sentinels = library.sentinel.Sentinel(
            [(each.host, each.port) for each in self.addresses], sentinel_kwargs=asking
        )
        try:
            settings = self._settings(self.username, self.password)
            with _connection(
                target, sentinels.master_for(self.sentinel or "", db=self.database, **settings)
            ) as connection:
                yield connection
        finally:
            for client in sentinels.sentinels:
                client.close()

    @contextmanager
    def connected(self, target: str, address: Address) -> Iterator[Any]:
        """A connection to one server.

        Raises:
            TransientError: It cannot be reached now, or was lost.
            SinkError: It does not let us in, or answered with an error.
        """
        settings = self._settings(self.username, self.password)
        with _connection(
            target, _library().Redis(address.host, address.port, db=self.database, **settings)
        ) as connection:
            yield connection

    def _settings(self, username: str | None, password: Secret | None) -> dict[str, Any]:
        """How the library connects."""
        from redis.backoff import NoBackoff
        from redis.retry import Retry

        tls: dict[str, Any] = {}
        if self.tls is not None:
            tls = {
                "ssl": True,
                "ssl_cert_reqs": "required" if self.tls.verify else "none",
                "ssl_check_hostname": self.tls.verify,
                "ssl_ca_certs": self.tls.cacertfile or None,
                "ssl_certfile": self.tls.certfile or None,
                "ssl_keyfile": self.tls.keyfile or self.tls.certfile or None,
            }
        return {
            "username": username,
            "password": revealed(password),
            "socket_timeout": self.timeout_s,
            "socket_connect_timeout": self.timeout_s,
            "retry": Retry(NoBackoff(), 0),
            **tls,
        }


def _library() -> Any:
    try:
        import redis
        import redis.sentinel
    except ImportError as error:
        raise SinkError(f"Redis needs the package redis: {INSTALL}") from error
    return redis


@contextmanager
def _connection(target: str, client: Any) -> Iterator[Any]:
    """A connection of a client, which is closed afterwards; what the library raises comes out translated."""
    errors = _library().exceptions
    try:
        try:
            connection = client.connection_pool.get_connection()
        except OSError as error:
            raise TransientError(f"{target}: {error}") from error
        # What reading the rows raises passes: a connection raises the library's own errors from here on.
        yield connection
    except (errors.AuthenticationError, errors.NoPermissionError) as error:
        raise SinkError(f"{target}: {error}") from error
    except (errors.ConnectionError, errors.TimeoutError) as error:
        raise TransientError(f"{target}: {error}") from error
    except errors.RedisError as error:
        raise _translated(target, error) from error
    finally:
        client.close()
        client.connection_pool.disconnect()


def _translated(target: str, error: Exception) -> Exception:
    text = f"{target}: {str(error)[:_TEXT_MAX]}"
    passes = any(begin in str(error)[:60] for begin in _TRANSIENT_ANSWERS)
    return TransientError(text) if passes or type(error).__name__ in _TRANSIENT_ERRORS else SinkError(text)
