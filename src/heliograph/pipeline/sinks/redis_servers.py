"""Where the sink `redis` writes: one server, the primary that sentinels name, or the nodes of a cluster.

A connection is made for each attempt to write a batch and speaks for itself: one policy tries again, and it begins the
transaction again, so the library must not. What the library raises is translated here.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

from heliograph.outbound.dialing import denial_in
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
        with self.connected(target, self._named_primary(target)) as connection:
            yield connection

    @contextmanager
    def connected(self, target: str, address: Address) -> Iterator[Any]:
        settings = self._settings(self.username, self.password)
        with _connection(target, self._client(address, self.database, settings)) as connection:
            yield connection

    def _named_primary(self, target: str) -> Address:
        """Where the primary is, as the first sentinel says that knows it."""
        asking = self._settings(self.sentinel_username, self.sentinel_password)
        faults = []
        for address in self.addresses:
            try:
                with _connection(target, self._client(address, 0, dict(asking))) as connection:
                    connection.send_command("SENTINEL", "GET-MASTER-ADDR-BY-NAME", self.sentinel or "")
                    found = connection.read_response()
            except (SinkError, TransientError) as error:
                faults.append(str(error))
                continue
            if found is not None:
                return Address(found[0].decode(), int(found[1]))
            faults.append(f"{target}: the sentinel {address} does not know {self.sentinel}")
        raise TransientError("; ".join(faults))

    def _client(self, address: Address, database: int, settings: dict[str, Any]) -> Any:
        from heliograph.outbound.redis import connection_class

        pool = _library().ConnectionPool(
            connection_class=connection_class(has_tls=settings.pop("ssl", False)),
            dialer=self.dialer,
            host=address.host,
            port=address.port,
            db=database,
            **settings,
        )
        return _library().Redis(connection_pool=pool)

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
            raise _unreached(target, error) from error
        # What reading the rows raises passes: a connection raises the library's own errors from here on.
        yield connection
    except (errors.AuthenticationError, errors.NoPermissionError) as error:
        raise SinkError(f"{target}: {error}") from error
    except (errors.ConnectionError, errors.TimeoutError) as error:
        raise _unreached(target, error) from error
    except errors.RedisError as error:
        raise _translated(target, error) from error
    finally:
        client.close()
        client.connection_pool.disconnect()


def _unreached(target: str, error: Exception) -> Exception:
    """A server that is not allowed is not tried again."""
    denial = denial_in(error)
    return SinkError(f"{target}: {denial}") if denial is not None else TransientError(f"{target}: {error}")


def _translated(target: str, error: Exception) -> Exception:
    text = f"{target}: {str(error)[:_TEXT_MAX]}"
    passes = any(begin in str(error)[:60] for begin in _TRANSIENT_ANSWERS)
    return TransientError(text) if passes or type(error).__name__ in _TRANSIENT_ERRORS else SinkError(text)
