"""A Redis to test against, with a password, on a free port of the loopback."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import redis

from support.mosquitto import free_port
from support.servers import program, running

_PASSWORD = "p'ss-wörd"


@dataclass(frozen=True)
class RedisServer:
    """A running server."""

    port: int
    password: str = _PASSWORD

    def client(self) -> redis.Redis:
        """A client that gives texts."""
        return redis.Redis(port=self.port, password=self.password, decode_responses=True)

    def section(self, more: str) -> str:
        """The section of a sink that writes to it."""
        return f'{{ type = redis, server = "127.0.0.1:{self.port}", password = "{self.password}", {more} }}'


@contextmanager
def redis_server(folder: Path) -> Iterator[RedisServer]:
    """A server until the block ends."""
    port = free_port()
    settings = folder / "redis.conf"
    settings.write_text(
        f'bind 127.0.0.1\nport {port}\nsave ""\nappendonly no\ndir "{folder}"\nrequirepass "{_PASSWORD}"\n',
        encoding="utf-8",
    )
    with running([program("redis-server"), str(settings)], "Ready to accept connections"):
        yield RedisServer(port)
