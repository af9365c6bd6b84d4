"""What an attack is: a coroutine that prepares, yields, and then attacks until it is ended.

To add one, write an async generator below `attack` the package, decorate it with `attack`, and import its module in
`kinds`. `make attack` runs it in a process of its own against a real broker, while a victim in another process measures
its round trips.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import Final

from attack.client import Client

Preparation = Callable[["World"], AsyncIterator[None]]


@dataclass(frozen=True)
class Attack:
    """One kind of attack.

    Attributes:
        name: What `--only` chooses it by.
        what: One line for people.
        prepare: Called with a world; prepares up to its first `yield`, then attacks for as long as it is let.
        settings: HOCON that the broker under attack has besides its defaults.
        p99_ms_max: What the victim's p99 may be under attack, where five times the idle one is less.
        growth_mib_max: How much resident memory the broker may gain by it; None where that is not judged.
    """

    name: str
    what: str
    prepare: Preparation
    settings: str = ""
    p99_ms_max: float = 25.0
    growth_mib_max: float | None = None


ATTACKS: Final[dict[str, Attack]] = {}
API_ATTACKS: Final[dict[str, Attack]] = {}
"""Those on the HTTP API, whose victim is a caller of it."""


def attack(
    what: str, *, settings: str = "", p99_ms_max: float = 25.0, growth_mib_max: float | None = None
) -> Callable[[Preparation], Preparation]:
    """Register an attack under the name of its function."""

    def register(prepare: Preparation) -> Preparation:
        name: str = prepare.__name__
        ATTACKS[name] = Attack(name, what, prepare, settings, p99_ms_max, growth_mib_max)
        return prepare

    return register


def api_attack(what: str, *, settings: str = "") -> Callable[[Preparation], Preparation]:
    """Register an attack on the HTTP API under the name of its function."""

    def register(prepare: Preparation) -> Preparation:
        name: str = prepare.__name__
        API_ATTACKS[name] = Attack(name, what, prepare, settings)
        return prepare

    return register


@dataclass
class World:
    """What an attack has: the ports of the broker and of its HTTP API, if it has one, and how large it is to be."""

    port: int
    is_short: bool
    api_port: int = 0
    clients: list[Client] = field(default_factory=list)

    def size(self, whole: int, short: int) -> int:
        """How many of something: in a short run fewer."""
        return short if self.is_short else whole

    async def client(self, clientid: str, *, clean: bool = True, expiry_s: int = 0) -> Client:
        """A client that is connected; it stays so, and what it is sent is thrown away unless it waits for it."""
        client = await Client.connect(self.port, clientid, clean=clean, expiry_s=expiry_s)
        self.clients.append(client)
        return client

    async def crowd(
        self, prefix: str, count: int, topic_filter: str, qos: int = 0, *, expiry_s: int = 0
    ) -> list[Client]:
        """So many clients that are subscribed to one filter."""
        crowd: list[Client] = []
        for first in range(0, count, 100):
            numbers = range(first, min(count, first + 100))
            some = [self.client(f"{prefix}-{number}", expiry_s=expiry_s) for number in numbers]
            crowd += await asyncio.gather(*some)
        await asyncio.gather(*[client.subscribe([topic_filter], qos) for client in crowd])
        return crowd

    async def flood(self, *clients: Client, data: bytes) -> None:
        """Have clients send the same bytes again and again, as fast as the broker takes them."""
        await asyncio.gather(*[client.flood(data) for client in clients])
