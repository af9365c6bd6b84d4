"""How many requests are answered at once, and how many of them may come from one address."""

import asyncio

import httpx
import pytest
from starlette.responses import PlainTextResponse
from starlette.types import Receive, Scope, Send

from heliograph.management.web.limits import REQUESTS_MAX, Limits

OTHER, STRANGER, NEIGHBOUR = "192.0.2.1", "2001:db8::1", "2001:db8::2"


class _Slow:
    """An application that answers when it may, behind the limits."""

    def __init__(self) -> None:
        self.may_answer = asyncio.Event()
        self.app = Limits(self._answer)
        self._begun = asyncio.Semaphore(0)

    async def ask(self, address: str) -> httpx.Response:
        """What is answered to a request from there."""
        transport = httpx.ASGITransport(self.app, client=(address, 1))
        async with httpx.AsyncClient(transport=transport, base_url="http://test") as client:
            return await client.get("/")

    def begin(self, address: str, count: int) -> list["asyncio.Task[httpx.Response]"]:
        """So many requests from there."""
        return [asyncio.create_task(self.ask(address)) for _ in range(count)]

    async def begun(self, count: int) -> None:
        """Wait until so many more are being answered."""
        for _ in range(count):
            await self._begun.acquire()

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        self._begun.release()
        await self.may_answer.wait()
        await PlainTextResponse("answered")(scope, receive, send)


@pytest.fixture
async def slow() -> _Slow:
    return _Slow()


async def refused(requests: "list[asyncio.Task[httpx.Response]]", count: int) -> httpx.Response:
    """One of so many that are refused; the others wait."""
    done: set[asyncio.Task[httpx.Response]] = set()
    waiting = set(requests)
    while len(done) < count:
        ended, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        done |= ended
    assert {request.result().status_code for request in done} == {503}
    return done.pop().result()


async def test_one_address_leaves_places_for_others(slow: _Slow) -> None:
    half = REQUESTS_MAX // 2
    own = slow.begin(STRANGER, half) + slow.begin(NEIGHBOUR, 20)  # which is the same network
    refusal = await refused(own, 20)
    await slow.begun(half)
    assert refusal.headers["retry-after"] == "1"
    assert refusal.json()["message"] == f"{half} requests of {NEIGHBOUR} are answered now, and others need the rest"
    others = slow.begin(OTHER, half // 2) + slow.begin("127.0.0.1", half // 2)
    await slow.begun(half)
    assert (await slow.ask(OTHER)).json()["message"] == f"{REQUESTS_MAX} requests are answered now"
    slow.may_answer.set()
    answers = await asyncio.gather(*own, *others)
    assert [answer.status_code for answer in answers].count(200) == REQUESTS_MAX


async def test_this_machine_may_have_all_places(slow: _Slow) -> None:
    own = slow.begin("127.0.0.1", REQUESTS_MAX) + slow.begin("::1", 1)
    assert (await refused(own, 1)).json()["message"] == f"{REQUESTS_MAX} requests are answered now"
    slow.may_answer.set()
    assert sum(answer.status_code == 200 for answer in await asyncio.gather(*own)) == REQUESTS_MAX
