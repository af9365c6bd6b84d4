"""SQL databases that know users and rules of MQTT clients, as settings of a node name them."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from support.mariadb import Mariadb, mariadb
from support.postgresql import Postgresql, postgresql

KINDS = ("postgresql", "mysql")
_TABLES = """
CREATE TABLE mqtt_user (username VARCHAR(200){exactly}, password_hash VARCHAR(200), salt VARCHAR(100),
  is_superuser {boolean});
CREATE TABLE mqtt_acl (id {serial}, username VARCHAR(200){exactly}, permission VARCHAR(5), action VARCHAR(9),
  topic VARCHAR(200), qos VARCHAR(10), retain VARCHAR(5), zone VARCHAR(50), ipaddr VARCHAR(60))
"""
_TYPES = {
    "postgresql": {"boolean": "BOOLEAN", "serial": "SERIAL PRIMARY KEY", "exactly": ""},
    "mysql": {
        "boolean": "TINYINT(1)",
        "serial": "INT AUTO_INCREMENT PRIMARY KEY",
        # Others take letters of both cases, and blanks at the end, for the same.
        "exactly": " CHARACTER SET utf8mb4 COLLATE utf8mb4_nopad_bin",
    },
}


@dataclass(frozen=True)
class SqlServer:
    """A running server with the tables `mqtt_user` and `mqtt_acl`.

    Attributes:
        kind: `postgresql` or `mysql`.
    """

    kind: str
    running: Postgresql | Mariadb

    @contextmanager
    def stopped(self) -> Iterator[None]:
        """Not there while the block runs; started again behind it, with all rows."""
        if self.kind == "postgresql":
            self.execute("CHECKPOINT")  # the tests' server keeps commits in its memory for a while
        assert self.running.server is not None
        with self.running.server.stopped():
            yield

    def execute(self, statement: str) -> tuple[tuple[Any, ...], ...]:
        """Execute a statement of the tests; the rows that it gives."""
        return tuple(self.running.query(statement))

    def add_user(
        self, username: str, password_hash: str | None, salt: str | None = "", superuser: bool = False
    ) -> None:
        """Add a row of a user."""
        values = ", ".join(map(_literal, (username, password_hash, salt)))
        self.execute(f"INSERT INTO mqtt_user VALUES ({values}, {superuser})")

    def add_rule(self, username: str, permission: str, action: str, topic: str, **more: str) -> None:
        """Add a row of a rule; of two for a user the first one counts."""
        columns = {"username": username, "permission": permission, "action": action, "topic": topic, **more}
        values = ", ".join(map(_literal, columns.values()))
        self.execute(f"INSERT INTO mqtt_acl ({', '.join(columns)}) VALUES ({values})")

    def remove_rules(self, username: str) -> None:
        """Remove all rows of a user's rules."""
        self.execute(f"DELETE FROM mqtt_acl WHERE username = {_literal(username)}")

    def settings(self, query: str, more: str = "", password: str = "") -> str:
        """The settings of a connection and its query."""
        return (
            f'server = "127.0.0.1:{self.running.port}", database = {self.running.database}, '
            f'username = {self.running.user}, password = "{password or self.running.password}", '
            f'query = """{query}""", {more}'
        )

    def authenticator(self, query: str, algorithm: str = "{ name = plain }", more: str = "") -> str:
        """An authenticator."""
        settings = self.settings(query, f"password_hash_algorithm {algorithm}, {more}")
        return f"{{ mechanism = password_based, backend = {self.kind}, {settings} }}"

    def source(self, query: str, more: str = "") -> str:
        """A source of authorization."""
        return f"{{ type = {self.kind}, {self.settings(query, more)} }}"

    def rows(self, count: int) -> str:
        """A table of so many rows."""
        return f"generate_series(1, {count}) AS s" if self.kind == "postgresql" else f"seq_1_to_{count}"

    def sleeping(self, seconds: float) -> str:
        """An expression that takes so long and is never null."""
        return f"pg_sleep({seconds})::text" if self.kind == "postgresql" else f"SLEEP({seconds})"


@contextmanager
def sql_server(kind: str, folder: Path) -> Iterator[SqlServer]:
    """A server of a kind, until the block ends."""
    with postgresql() if kind == "postgresql" else mariadb(folder) as running:
        server = SqlServer(kind, running)
        for statement in _TABLES.format(**_TYPES[kind]).split(";"):
            server.execute(statement)
        yield server


def _literal(value: str | None) -> str:
    """A text in SQL of both kinds as they are set when the tests write rows: with a backslash that is one."""
    if value is None:
        return "NULL"
    quoted = value.replace("'", "''")
    return f"'{quoted}'"
