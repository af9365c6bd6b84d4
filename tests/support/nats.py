"""NATS to test against, with JetStream, on a free port."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import nats
from nats.aio.client import Client

from support.mosquitto import free_port
from support.servers import Stoppable, program

Answer = TypeVar("Answer")
_USERS = """
authorization { users = [
  { user = all, password = "s3cret" }
  { user = some, password = "s3cret"
    permissions { publish { deny = ["denied.>"] }, subscribe { deny = ["denied.>"] } } }
] }
max_payload = 10000
"""


@dataclass(frozen=True)
class Nats:
    """A running server, which `server` stops and starts again; it keeps its streams."""

    port: int
    server: Stoppable

    def section(self, more: str, user: str = "all") -> str:
        """The section of a sink that publishes to it."""
        login = f'username = {user}, password = "s3cret"'
        return f'{{ type = nats, server = "localhost:{self.port}", {login}, {more} }}'

    def ask(self, question: Callable[[Client], Awaitable[Answer]]) -> Answer:
        """What comes of a question to a client of it."""
        return asyncio.run(self.answer(question))

    async def answer(self, question: Callable[[Client], Awaitable[Answer]]) -> Answer:
        """The same in an event loop."""
        client = await nats.connect(f"nats://127.0.0.1:{self.port}", user="all", password="s3cret")
        try:
            return await question(client)
        finally:
            await client.close()


@contextmanager
def nats_server(folder: Path, more: str = "") -> Iterator[Nats]:
    """A server until the block ends.

    Args:
        more: Further lines of its configuration.
    """
    port, settings = free_port(), folder / "nats.conf"
    settings.write_text(
        f'listen = "127.0.0.1:{port}"\njetstream {{ store_dir = "{folder}" }}\n{_USERS}\n{more}\n', "utf-8"
    )
    with Stoppable([program("nats-server"), "-c", str(settings)], "Server is ready") as server:
        yield Nats(port, server)
