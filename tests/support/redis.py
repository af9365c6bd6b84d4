"""Redis to test against, with a password, on free ports: a server, a cluster, a primary with a sentinel."""

import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import redis

from support.certificates import Authority
from support.mosquitto import free_port
from support.servers import KeptRunning, Stoppable, kept_running, program, running
from support.waiting import wait_until

_PASSWORD = "p'ss-wörd"
_READY = "Ready to accept connections"
_FAILS_OVER_MS = 300


@dataclass(frozen=True)
class RedisServer:
    """A running server."""

    port: int
    password: str = _PASSWORD
    server: KeptRunning | None = None
    stoppable: Stoppable | None = None
    tls_port: int = 0
    cafile: Path | None = None

    def client(self) -> redis.Redis:
        """A client that gives texts."""
        return redis.Redis(port=self.port, password=self.password, decode_responses=True)

    def section(self, more: str) -> str:
        """The section of a sink that writes to it."""
        return f'{{ type = redis, server = "127.0.0.1:{self.port}", password = "{self.password}", {more} }}'


@dataclass(frozen=True)
class RedisCluster:
    """Three nodes without replicas."""

    ports: tuple[int, ...]
    password: str = _PASSWORD

    def client(self) -> redis.RedisCluster:
        """A client of all of them that gives texts."""
        return redis.RedisCluster("127.0.0.1", self.ports[0], password=self.password, decode_responses=True)

    def section(self, more: str) -> str:
        """The section of a sink that writes to it; the first address is of nobody."""
        servers = f"127.0.0.1:9,127.0.0.1:{self.ports[1]}"
        return f'{{ type = redis, redis_type = cluster, servers = "{servers}", password = "{self.password}", {more} }}'


@dataclass(frozen=True)
class RedisSentinel:
    """A primary with a replica, and a sentinel that knows them as `weather`."""

    port: int
    primary: "subprocess.Popen[str]"
    replica: RedisServer

    @contextmanager
    def patient(self) -> Iterator[None]:
        """While the block runs no other server becomes the primary, whatever becomes of that."""
        self._fails_over_after(3_600_000)
        yield
        self._fails_over_after(_FAILS_OVER_MS)

    def _fails_over_after(self, silence_ms: int) -> None:
        with redis.Redis(port=self.port) as sentinel:
            sentinel.execute_command("SENTINEL SET", "weather", "down-after-milliseconds", str(silence_ms))

    def client(self) -> redis.Redis:
        """A client of the primary that gives texts."""
        with redis.Redis(port=self.port, decode_responses=True) as sentinel:
            _, port = sentinel.execute_command("SENTINEL GET-MASTER-ADDR-BY-NAME weather")
        return RedisServer(int(port)).client()

    def section(self, more: str) -> str:
        """The section of a sink that writes to the primary, whichever it is."""
        return (
            f'{{ type = redis, redis_type = sentinel, servers = ["127.0.0.1:9", "127.0.0.1:{self.port}"], '
            f'sentinel = weather, password = "{_PASSWORD}", {more} }}'
        )


@contextmanager
def redis_server(folder: Path) -> Iterator[RedisServer]:
    """A server until the block ends, with its log of commands on disk; it is started again when it was killed."""
    port, command = _command(folder, "appendonly yes", "appendfsync no")
    with kept_running(command, _READY) as server:
        yield RedisServer(port, server=server)


@contextmanager
def stoppable_redis(folder: Path) -> Iterator[RedisServer]:
    """A server until the block ends, which `stoppable` stops and starts again; it forgets nothing, and has TLS."""
    authority, tls_port = Authority(folder), free_port()
    certificate = authority.server()
    tls = (f"tls-port {tls_port}", f'tls-cert-file "{certificate}"', f'tls-key-file "{certificate}"')
    trusted = (f'tls-ca-cert-file "{authority.cafile}"', "tls-auth-clients no")
    port, command = _command(folder, "appendonly yes", "appendfsync no", *tls, *trusted)
    with Stoppable(command, _READY) as server:
        yield RedisServer(port, stoppable=server, tls_port=tls_port, cafile=authority.cafile)


@contextmanager
def redis_cluster(folder: Path) -> Iterator[RedisCluster]:
    """Three nodes until the block ends."""
    ports = []
    with ExitStack() as stack:
        for number in range(3):
            own = folder / str(number)
            own.mkdir()
            port, command = _command(own, "cluster-enabled yes", f"cluster-port {free_port()}")
            stack.enter_context(running(command, _READY))
            ports.append(port)
        nodes = [f"127.0.0.1:{port}" for port in ports]
        create = ["--cluster", "create", *nodes, "--cluster-yes"]
        subprocess.run(
            [program("redis-cli"), "-a", _PASSWORD, "--no-auth-warning", *create], check=True, capture_output=True
        )
        for port in ports:
            with RedisServer(port).client() as client:
                wait_until(partial(_is_ready, client), "Redis is ready")
        yield RedisCluster(tuple(ports))


@contextmanager
def redis_sentinel(folder: Path) -> Iterator[RedisSentinel]:
    """A primary, a replica and a sentinel until the block ends."""
    with ExitStack() as stack:
        folders = [folder / name for name in ("primary", "replica", "sentinel")]
        for own in folders:
            own.mkdir()
        port, command = _command(folders[0], f'masterauth "{_PASSWORD}"', "repl-diskless-sync-delay 0")
        primary = stack.enter_context(running(command, _READY))
        replica_port, command = _command(folders[1], f"replicaof 127.0.0.1 {port}", f'masterauth "{_PASSWORD}"')
        stack.enter_context(running(command, _READY))
        replica = RedisServer(replica_port)
        with replica.client() as client:
            wait_until(
                lambda: client.info("replication")["master_link_status"] == "up",
                "Redis is ready",
            )
        sentinel_port = free_port()
        settings = folders[2] / "sentinel.conf"
        settings.write_text(
            f'bind 127.0.0.1\nport {sentinel_port}\ndir "{folders[2]}"\nsentinel monitor weather 127.0.0.1 {port} 1\n'
            f'sentinel auth-pass weather "{_PASSWORD}"\nsentinel down-after-milliseconds weather {_FAILS_OVER_MS}\n'
            "sentinel failover-timeout weather 2000\n",
            encoding="utf-8",
        )
        stack.enter_context(running([program("redis-server"), str(settings), "--sentinel"], "+monitor master"))
        with redis.Redis(port=sentinel_port, decode_responses=True) as client:
            wait_until(
                lambda: len(client.execute_command("SENTINEL REPLICAS weather")) == 1,
                "Redis is ready",
            )
        yield RedisSentinel(sentinel_port, primary, replica)


def _command(folder: Path, *more: str) -> tuple[int, list[str]]:
    port = free_port()
    settings = folder / "redis.conf"
    lines = ("bind 127.0.0.1", f"port {port}", 'save ""', f'dir "{folder}"', f'requirepass "{_PASSWORD}"', *more)
    settings.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return port, [program("redis-server"), str(settings)]


def _is_ready(client: redis.Redis) -> bool:
    return bool(client.cluster("INFO")["cluster_state"] == "ok")
