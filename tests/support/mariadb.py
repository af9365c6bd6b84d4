"""A MariaDB to test against, on a free port of the loopback."""

import getpass
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pymysql
from pymysql.cursors import Cursor

from support.mosquitto import free_port
from support.servers import KeptRunning, kept_running, program

_USER = "heliograph"
_PASSWORD = "p'ss wörd"
_DATABASE = "weather"


@dataclass(frozen=True)
class Mariadb:
    """A running server and a user of its only database."""

    port: int
    socket: Path
    user: str = _USER
    password: str = _PASSWORD
    database: str = _DATABASE
    server: KeptRunning | None = None

    def connect(self) -> "pymysql.Connection[Cursor]":
        """A connection of the user, each of whose statements is a transaction unless it begins one."""
        return pymysql.connect(
            host="127.0.0.1",
            port=self.port,
            user=self.user,
            password=self.password.encode(),
            database=self.database,
            autocommit=True,
            charset="utf8mb4",
        )

    def query(self, statement: str) -> tuple[tuple[Any, ...], ...]:
        """Execute a statement; the rows that it gives."""
        with self.connect() as connection, connection.cursor() as cursor:
            cursor.execute(statement)
            return cursor.fetchall()

    def as_root(self, statement: str) -> None:
        """Execute a statement that only the superuser may."""
        connection = pymysql.connect(unix_socket=str(self.socket), user="root", autocommit=True)
        with connection, connection.cursor() as cursor:
            cursor.execute(statement)

    def section(self, more: str) -> str:
        """The section of a sink that writes to it."""
        return (
            f'{{ type = mysql, server = "127.0.0.1:{self.port}", database = {self.database}, '
            f'username = {self.user}, password = "{self.password}", {more} }}'
        )


@contextmanager
def mariadb(folder: Path) -> Iterator[Mariadb]:
    """A server until the block ends; it is started again when it was killed."""
    install, server = program("mariadb-install-db"), program("mariadbd")
    data = folder / "data"
    options = ["--no-defaults", f"--datadir={data}", f"--user={getpass.getuser()}"]
    without = ["--skip-test-db", "--auth-root-authentication-method=normal", "--skip-name-resolve"]
    subprocess.run([install, *options, *without], check=True, capture_output=True)
    first = folder / "first.sql"
    password = _PASSWORD.replace("'", "''")
    first.write_text(
        f"CREATE DATABASE IF NOT EXISTS {_DATABASE};\n"
        f"CREATE USER IF NOT EXISTS '{_USER}'@'127.0.0.1' IDENTIFIED BY '{password}';\n"
        f"GRANT ALL ON {_DATABASE}.* TO '{_USER}'@'127.0.0.1';\n",
        encoding="utf-8",
    )
    port = free_port()
    command = [server, *options, "--bind-address=127.0.0.1", f"--port={port}", f"--socket={folder / 's'}"]
    # It is thrown away after the tests, so nothing is forced to the disk; what the system has survives a kill.
    quick = ["--innodb-flush-log-at-trx-commit=2", "--skip-log-bin", "--innodb-buffer-pool-size=32M"]
    names = ["--skip-name-resolve", "--character-set-server=utf8mb4", f"--init-file={first}"]
    with kept_running([*command, *quick, *names], "ready for connections") as kept:
        yield Mariadb(port, folder / "s", server=kept)
