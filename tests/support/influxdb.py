"""An InfluxDB to test against, with a password, on a free port of the loopback: Debian's, which is version 1.6."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from support.mosquitto import free_port
from support.servers import KeptRunning, kept_running, program

_USER = "writer"
_PASSWORD = "p's wörd"
_READY = "Listening on HTTP"


@dataclass(frozen=True)
class Influxdb:
    """A running server with the database `weather`."""

    port: int
    server: KeptRunning
    user: str = _USER
    password: str = _PASSWORD

    def query(self, statement: str) -> list[list[Any]]:
        """The rows that a statement gives, each with its time first."""
        login = (self.user.encode(), self.password.encode())
        parameters = {"q": statement, "db": "weather", "epoch": "ns"}
        answer = httpx.post(f"http://127.0.0.1:{self.port}/query", params=parameters, auth=login)
        (result,) = answer.json()["results"]
        return [row for series in result.get("series", ()) for row in series["values"]]

    def section(self, more: str) -> str:
        """The section of a sink that writes to it."""
        return (
            f'{{ type = influxdb, server = "127.0.0.1:{self.port}", influxdb_type = influxdb_api_v1, '
            f'database = weather, username = {self.user}, password = "{self.password}", {more} }}'
        )


@contextmanager
def influxdb(folder: Path) -> Iterator[Influxdb]:
    """A server until the block ends; it is started again when it was killed."""
    server, port, other = program("influxd"), free_port(), free_port()
    config = folder / "influxdb.conf"
    config.write_text(
        f'reporting-disabled = true\nbind-address = "127.0.0.1:{other}"\n[meta]\ndir = "{folder}/meta"\n'
        f'[data]\ndir = "{folder}/data"\nwal-dir = "{folder}/wal"\n[monitor]\nstore-enabled = false\n'
        f'[http]\nbind-address = "127.0.0.1:{port}"\nauth-enabled = true\nlog-enabled = false\n'
    )
    with kept_running([server, "-config", str(config)], _READY) as running:
        made = Influxdb(port, running)
        # Without a user yet, who makes the first one need not log in.
        quoted = _PASSWORD.replace("'", "\\'")
        create = f"CREATE USER {_USER} WITH PASSWORD '{quoted}' WITH ALL PRIVILEGES"
        httpx.post(f"http://127.0.0.1:{port}/query", params={"q": create}).raise_for_status()
        made.query("CREATE DATABASE weather")
        yield made
