"""A ClickHouse to test against, with a password, on a free port of the loopback.

It is Debian's 18.16: later ones have the same HTTP interface, and tokens of inserts, which this one refuses.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx

from support.mosquitto import free_port
from support.servers import KeptRunning, kept_running, program

_USER = "writer"
_PASSWORD = "p's wörd"
_READY = "Ready for connections"


@dataclass(frozen=True)
class Clickhouse:
    """A running server."""

    port: int
    server: KeptRunning
    user: str = _USER
    password: str = _PASSWORD

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def query(self, statement: str) -> str:
        """What the server answers to a statement."""
        login = {b"X-ClickHouse-User": self.user.encode(), b"X-ClickHouse-Key": self.password.encode()}
        answer = httpx.post(self.url, content=statement.encode(), headers=login)
        assert answer.is_success, answer.text
        return answer.text

    def section(self, more: str) -> str:
        """The section of a sink that writes to it."""
        return (
            f'{{ type = clickhouse, url = "{self.url}", username = {self.user}, password = "{self.password}", {more} }}'
        )


@contextmanager
def clickhouse(folder: Path) -> Iterator[Clickhouse]:
    """A server until the block ends; it is started again when it was killed."""
    server, port = program("clickhouse-server"), free_port()
    (folder / "users.xml").write_text(
        f"<yandex><profiles><default/></profiles><quotas><default/></quotas><users><{_USER}><password>{_PASSWORD}"
        f"</password><networks><ip>::/0</ip></networks><profile>default</profile><quota>default</quota></{_USER}>"
        "</users></yandex>",
        encoding="utf-8",
    )
    config = folder / "config.xml"
    config.write_text(
        f"<yandex><logger><level>information</level><console>1</console></logger><http_port>{port}</http_port>"
        f"<listen_host>127.0.0.1</listen_host><path>{folder}/data/</path><tmp_path>{folder}/tmp/</tmp_path>"
        "<users_config>users.xml</users_config><default_profile>default</default_profile>"
        "<default_database>default</default_database><mark_cache_size>1048576</mark_cache_size></yandex>"
    )
    with kept_running([server, f"--config-file={config}"], _READY) as running:
        yield Clickhouse(port, running)
