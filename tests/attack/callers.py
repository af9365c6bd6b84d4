"""Attacks on the HTTP API: of strangers, and of callers whose roles may only read or publish."""

import asyncio
import base64
import itertools
import json
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Final

from attack.frame import World, api_attack
from support.packets import publish

_ADMINISTRATOR: Final = "first-key:first-secret"  # that of the node's `support.management`
VIEWER: Final = "viewer:viewer-secret"
PUBLISHER: Final = "publisher:publisher-secret"
ROLES: Final = (_ADMINISTRATOR, f"{VIEWER}:viewer", f"{PUBLISHER}:publisher")
_GIVEN_UP_S: Final = 1.0
_EVER_S: Final = 0xFFFFFFFF
_numbers = itertools.count()


@api_attack("100 scrapes at a time without credentials, given up after a second")
async def scrapes_given_up(world: World) -> AsyncIterator[None]:
    yield
    await _callers(world, 100, lambda: _get("/prometheus/stats"), _GIVEN_UP_S)


@api_attack("100 scrapes at a time without credentials that wait for their answers")
async def scrapes(world: World) -> AsyncIterator[None]:
    yield
    await _callers(world, 100, lambda: _get("/prometheus/stats"))


@api_attack("600 connections with half of a body for /login, begun again when they end")
async def half_bodies(world: World) -> AsyncIterator[None]:
    begin = _request("/login", "POST", "", b"", b"content-length: 100\r\n") + b"{"
    yield
    await _callers(world, 600, lambda: begin)


@api_attack("300 connections with forged credentials and half of a body, begun again when they end")
async def forged_half_bodies(world: World) -> AsyncIterator[None]:
    numbers = itertools.count()

    def begin() -> bytes:
        return _request("/rules", "POST", f"{next(numbers)}:x", b"", b"content-length: 100\r\n") + b"{"

    yield
    await _callers(world, 300, begin)


@api_attack("300 connections of a viewer with half of a body, begun again when they end")
async def half_bodies_of_a_viewer(world: World) -> AsyncIterator[None]:
    begin = _request("/rules", "POST", VIEWER, b"", b"content-length: 100\r\n") + b"{"
    yield
    await _callers(world, 300, lambda: begin)


@api_attack("1,000 connections with half of a head, begun again when they end")
async def half_heads(world: World) -> AsyncIterator[None]:
    yield
    await _callers(world, 1000, lambda: b"POST /api/v5/rules HTTP/1.1\r\nhost: x\r\nx: ")


@api_attack("60 logins at a time with wrong passwords of one user")
async def api_logins(world: World) -> AsyncIterator[None]:
    body = json.dumps({"username": "admin", "password": "wrong-Password-1"}).encode()
    yield
    await _callers(world, 60, lambda: _request("/login", "POST", "", body))


@api_attack("60 logins at a time with wrong passwords of ever other users")
async def api_logins_of_many(world: World) -> AsyncIterator[None]:
    numbers = itertools.count()

    def login() -> bytes:
        body = json.dumps({"username": f"user-{next(numbers)}", "password": "wrong-Password-1"}).encode()
        return _request("/login", "POST", "", body)

    yield
    await _callers(world, 60, login)


@api_attack("60 lists of a viewer at a time that find none of 100,000 subscriptions, given up after a second")
async def subscriptions_given_up(world: World) -> AsyncIterator[None]:
    await _subscribed(world)
    paths = itertools.cycle(
        (
            "/subscriptions?match_topic=zz/%23",
            "/subscriptions?match_topic=%2B/%2B/%2B/%2B",
            "/subscriptions?qos=2",
            "/heliograph/subscriptions?receives=zz",
        )
    )
    yield
    await _callers(world, 60, lambda: _get(next(paths), VIEWER), _GIVEN_UP_S)


@api_attack("60 lists of a viewer at a time that find none of 100,000 subscriptions of sessions that are away")
async def subscriptions_away(world: World) -> AsyncIterator[None]:
    await _subscribed(world, expiry_s=_EVER_S)
    for client in world.clients:
        await client.close()
    yield
    await _callers(world, 60, lambda: _get("/subscriptions?match_topic=zz/%23", VIEWER), _GIVEN_UP_S)


@api_attack("60 deep pages of a viewer at a time, of clients, topics, subscriptions and retained messages")
async def deep_pages(world: World) -> AsyncIterator[None]:
    await _subscribed(world)
    count = world.size(20_000, 1_000)
    (client, *_) = world.clients
    client.send(b"".join(publish(f"r/{number}", b"x", retain=True).data for number in range(count)))
    last = count // 1000
    names = ("clients", "topics", "subscriptions", "mqtt/retainer/messages")
    paths = itertools.cycle([f"/{name}?limit=1000&page={last}" for name in names])
    yield
    await _callers(world, 60, lambda: _get(next(paths), VIEWER), _GIVEN_UP_S)


@api_attack("requests of a viewer that are given up as soon as they are sent, 50 at a time")
async def given_up_at_once(world: World) -> AsyncIterator[None]:
    await _subscribed(world)
    yield
    await _callers(world, 50, lambda: _get("/subscriptions?limit=10000", VIEWER), 0.0)


@api_attack("100 connections of a viewer that ask for long lists and do not read them")
async def unread_lists(world: World) -> AsyncIterator[None]:
    await _subscribed(world)
    yield

    async def ask() -> None:
        while True:
            _, writer = await _connected(world)  # its buffer is full soon
            writer.write(_get("/subscriptions?limit=10000", VIEWER) * 10)
            await asyncio.sleep(10.0)  # the pace of the attack
            writer.transport.abort()

    await asyncio.gather(*[ask() for _ in range(world.size(100, 20))])


@api_attack("messages of a publisher's key to topics of 60,000 bytes, 20 at a time")
async def long_topics(world: World) -> AsyncIterator[None]:
    numbers = itertools.count()

    def message() -> bytes:
        body = json.dumps({"topic": f"{next(numbers)}/" + "x" * 60_000, "payload": "x"}).encode()
        return _request("/publish", "POST", PUBLISHER, body)

    yield
    await _callers(world, 20, message)


@api_attack("paths of 60,000 bytes and forged credentials, 100 at a time")
async def forged(world: World) -> AsyncIterator[None]:
    requests: Iterator[bytes] = itertools.cycle(
        (
            _get("/clients/" + "a" * 60_000),
            _get("/clients", "viewer:guessed"),
            _request("/nodes", "GET", "", b"", b"authorization: Bearer " + b"e30." * 1000 + b"\r\n"),
            _get("/clients?page=99999999999999999999", VIEWER),
        )
    )
    yield
    await _callers(world, 100, lambda: next(requests))


async def _subscribed(world: World, expiry_s: int = 0) -> None:
    """Two clients with as many subscriptions as one may have."""
    count = world.size(50_000, 1_000)
    first = next(_numbers)
    for name in (f"subscriber-{first}-0", f"subscriber-{first}-1"):
        client = await world.client(name, expiry_s=expiry_s)
        await client.subscribe([f"{name}/{number}/temp" for number in range(count)], 1)


def _get(path: str, key: str = "") -> bytes:
    return _request(path, "GET", key)


def _request(path: str, method: str, key: str, body: bytes = b"", more: bytes = b"") -> bytes:
    head = f"{method} /api/v5{path} HTTP/1.1\r\nhost: 127.0.0.1\r\nconnection: close\r\n".encode()
    if key:
        head += b"authorization: Basic " + base64.b64encode(key.encode()) + b"\r\n"
    if body:
        head += b"content-type: application/json\r\ncontent-length: %d\r\n" % len(body)
    return head + more + b"\r\n" + body


async def _callers(world: World, count: int, request: Callable[[], bytes], given_up_s: float | None = None) -> None:
    """So many connections at a time that send a request and wait for the end of its answer, or for so long."""
    await asyncio.gather(*[_caller(world, request, given_up_s) for _ in range(world.size(count, min(count, 50)))])


async def _caller(world: World, request: Callable[[], bytes], given_up_s: float | None) -> None:
    while True:
        reader, writer = await _connected(world)
        writer.write(request())
        try:
            async with asyncio.timeout(given_up_s):
                while await reader.read(1 << 16):
                    pass
        except (OSError, TimeoutError):
            pass
        finally:
            writer.transport.abort()


async def _connected(world: World) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    while True:
        try:
            return await asyncio.open_connection("127.0.0.1", world.api_port)
        except OSError:  # the attack itself has no room left
            await asyncio.sleep(0.01)  # until the system has closed some
