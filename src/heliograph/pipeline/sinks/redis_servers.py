"""Where the sink `redis` writes: one server, the primary that sentinels name, or the nodes of a cluster.

A connection is made for each attempt to write a batch and speaks for itself: one policy tries again, and it begins the
transaction again, so the library must not. What the library raises is translated here.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

from heliograph.pipeline.errors import SinkError
from heliograph.pipeline.sinks.interface import INSTALL
from heliograph.pipeline.sinks.retry import TransientError
from heliograph.pipeline.sinks.servers import ServerSink, revealed
from heliograph.settings.fields import setting
from heliograph.settings.kinds import Duration
from heliograph.settings.redis import RedisPlace, RedisType, connection_arguments
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


@dataclass(frozen=True, kw_only=True)
class RedisServers(RedisPlace, ServerSink):
    timeout_s: float = setting(Duration(0.001, needs_unit=True), 30.0, "How long an answer may take.", name="timeout")

    @contextmanager
    def primary(self, target: str) -> Iterator[Any]:
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
        settings = self._settings(self.username, self.password)
        with _connection(
            target, _library().Redis(address.host, address.port, db=self.database, **settings)
        ) as connection:
            yield connection

    def _settings(self, username: str | None, password: Secret | None) -> dict[str, Any]:
        from redis.backoff import NoBackoff
        from redis.retry import Retry

        return {
            **connection_arguments(username, revealed(password), self.tls),
            "socket_timeout": self.timeout_s,
            "socket_connect_timeout": self.timeout_s,
            "retry": Retry(NoBackoff(), 0),
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
    """A connection of a client, which is closed afterwards; errors of the library are translated."""
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
