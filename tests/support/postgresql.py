"""A PostgreSQL to test against, with a password and TLS, on a free port of the loopback."""

import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
import pytest

from support.certificates import Authority
from support.mosquitto import free_port
from support.servers import KeptRunning, kept_running, program

_USER = "heliograph"
_PASSWORD = "p'ss wörd"

# It is thrown away after the tests, so nothing is forced to the disk. With synchronous_commit off, a server that is
# killed may lose what it has confirmed, unless a client asks for more, as the sink does.
_SETTINGS = (
    "fsync=off",
    "synchronous_commit=off",
    "full_page_writes=off",
    "max_prepared_transactions=0",
    "max_connections=20",
)


@dataclass(frozen=True)
class Postgresql:
    """A running server and its only user, who may do everything."""

    port: int
    cafile: Path
    user: str = _USER
    password: str = _PASSWORD
    database: str = "postgres"
    server: KeptRunning | None = None

    def connect(self) -> "psycopg.Connection[tuple[Any, ...]]":
        """A connection of the user."""
        return psycopg.connect(
            host="127.0.0.1", port=self.port, user=self.user, password=self.password, dbname=self.database
        )

    def query(self, statement: str) -> list[tuple[Any, ...]]:
        """Execute a statement; the rows that it gives, if it gives rows."""
        with self.connect() as connection:
            cursor = connection.execute(statement.encode())
            return cursor.fetchall() if cursor.description else []

    def section(self, more: str) -> str:
        """The section of a sink that writes to it."""
        return (
            f'{{ type = postgresql, server = "127.0.0.1:{self.port}", database = {self.database}, '
            f'username = {self.user}, password = "{self.password}", {more} }}'
        )


@contextmanager
def postgresql() -> Iterator[Postgresql]:
    """A server until the block ends; it is started again when it was killed."""
    folders = sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    initdb, postgres = program("initdb", *folders), program("postgres", *folders)
    # Its own folder, since the user postgres cannot pass through those of pytest.
    folder = Path(tempfile.mkdtemp(prefix="heliograph-postgresql-"))
    try:
        password_file = folder / "password"
        password_file.write_text(_PASSWORD)
        authority = Authority(folder)
        certificate = authority.server()
        certificate.chmod(0o600)
        as_user = _give_to_postgres(folder)
        data = folder / "data"
        options = ["-A", "scram-sha-256", "-E", "UTF8", "--locale=C.UTF-8", "--no-sync", "--no-instructions"]
        command = [*as_user, initdb, "-D", str(data), "-U", _USER, f"--pwfile={password_file}", *options]
        subprocess.run(command, check=True, capture_output=True)
        port = free_port()
        tls = (f"ssl_cert_file={certificate}", f"ssl_key_file={certificate}", "ssl=on")
        bind = ("listen_addresses=127.0.0.1", f"unix_socket_directories={folder}")
        settings = [part for setting in (*_SETTINGS, *tls, *bind) for part in ("-c", setting)]
        command = [*as_user, postgres, "-D", str(data), "-p", str(port), *settings]
        with kept_running(command, "ready to accept") as server:
            yield Postgresql(port, authority.cafile, server=server)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _give_to_postgres(folder: Path) -> list[str]:
    """Let the server's user have a folder; the beginning of a command that runs as that user."""
    if os.geteuid() != 0:
        return []
    try:
        user = pwd.getpwnam("postgres")
    except KeyError:
        pytest.skip("PostgreSQL refuses to run as root, and there is no user postgres")
    for path in (folder, *folder.rglob("*")):
        os.chown(path, user.pw_uid, user.pw_gid)
    return [program("setpriv"), f"--reuid={user.pw_uid}", f"--regid={user.pw_gid}", "--clear-groups", "--"]
