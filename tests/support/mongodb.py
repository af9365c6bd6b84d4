"""A server of MongoDB's wire protocol to test against, with a password, on a free port of the loopback.

MongoDB itself is in no package index. SecantusDB, which is, is another implementation of its protocol and its language,
and calls itself a replica set of one.
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pymongo import MongoClient

from support.certificates import Authority
from support.mosquitto import free_port
from support.servers import Stoppable, program

REPLICA_SET = "secantus"
_READY = "listening on"


@dataclass(frozen=True)
class MongoServer:
    """A running server.

    Attributes:
        port: Where it listens.
        server: What stops it and starts it again.
        cafile: Who has signed its certificate: it speaks TLS only.
    """

    port: int
    server: Stoppable
    cafile: Path
    user: str = "h'lio"
    password: str = "p'ss-wörd"
    database: str = "mqtt"

    def insert(self, collection: str, *documents: dict[str, Any]) -> None:
        """Add documents."""
        client: MongoClient[dict[str, Any]] = MongoClient(
            "127.0.0.1",
            self.port,
            username=self.user,
            password=self.password,
            tls=True,
            tlsCAFile=str(self.cafile),
        )
        with client:
            client[self.database][collection].insert_many(documents)


@contextmanager
def mongodb(folder: Path) -> Iterator[MongoServer]:
    """A server until the block ends."""
    port, authority = free_port(), Authority(folder)
    certificate = authority.server()
    tls = ["--tls-cert-file", str(certificate), "--tls-key-file", str(certificate)]
    server = program("secantusd-py", Path(sys.executable).parent)
    command = [
        server,
        "--port",
        str(port),
        "--storage-path",
        str(folder / "data"),
        "--cache-size",
        "64M",
        "--sync-on-commit",
    ]
    found = MongoServer(port, Stoppable([*command, "--auth", *tls], _READY, is_killed=True), authority.cafile)
    # Users are made before the server asks who one is.
    client: MongoClient[dict[str, Any]] = MongoClient("127.0.0.1", port, connect=False)
    with Stoppable(command, _READY, is_killed=True), client:
        roles = [{"role": "readWrite", "db": found.database}]
        client.admin.command("createUser", found.user, pwd=found.password, roles=roles)
    with found.server:
        yield found
