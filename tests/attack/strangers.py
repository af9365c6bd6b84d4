"""Attacks of clients that have no password."""

import asyncio
import itertools
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Final

from attack.frame import World, attack
from heliograph.mqtt import packets as p
from heliograph.mqtt.encode import encode_packet
from heliograph.mqtt.properties import Properties

_AT_ONCE: Final = 100
# The victim needs no password; all others have that of a user whose hash is dear, known or not.
_SETTINGS: Final = """
authentication = [
  { mechanism = cinfo, checks = [{ is_match = "regex_match(clientid, '^victim')", result = allow }] }
  { mechanism = password_based, backend = built_in_database, password_hash_algorithm { name = bcrypt } }
]
"""
_BACKOFF: Final = _SETTINGS + "address_limits.exempt = []\n"


@attack("wrong passwords of one user name over 100 connections at a time, again as soon as refused", settings=_SETTINGS)
async def failed_logins(world: World) -> AsyncIterator[None]:
    async for _ in _guess(world, lambda: itertools.repeat("admin")):
        yield


@attack("the same where limits by address hold for them", settings=_BACKOFF)
async def failed_logins_limited(world: World) -> AsyncIterator[None]:
    async for _ in _guess(world, lambda: itertools.repeat("admin")):
        yield


@attack("the same with ever other user names", settings=_BACKOFF)
async def failed_logins_of_many(world: World) -> AsyncIterator[None]:
    numbers = itertools.count()
    async for _ in _guess(world, lambda: (f"user{number}" for number in numbers)):
        yield


async def _guess(world: World, names: Callable[[], Iterator[str]]) -> AsyncIterator[None]:
    yield
    await asyncio.gather(*[_refused_for_ever(world.port, names()) for _ in range(_AT_ONCE)])


async def _refused_for_ever(port: int, names: Iterator[str]) -> None:
    for name in names:
        try:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
        except OSError:  # the attack itself has no room left
            await asyncio.sleep(0.01)  # until the system has closed some
            continue
        packet = p.Connect(p.V5, "guesses", True, 0, None, name, b"wrong", Properties())
        writer.write(encode_packet(packet, p.V5))
        try:
            await reader.read()
        except OSError:
            pass
        finally:
            writer.transport.abort()
