"""How many requests are answered at once, and how many of them may come from one address."""

import asyncio

import httpx
import pytest
from starlette.responses import PlainTextResponse
from starlette.types import Message, Receive, Scope, Send

from heliograph.management.web.limits import REQUESTS_MAX, STRANGERS_MAX, Limits

KNOWN = {"authorization": "Basic eA=="}
EVER = float("inf")
OTHER, STRANGER, NEIGHBOUR = "192.0.2.1", "2001:db8::1", "2001:db8::2"


class _Slow:
    """An application that answers when it may, behind the limits."""

    def __init__(self) -> None:
        self.may_answer = asyncio.Event()
        self.app = Limits(self._answer, per_s=(EVER, EVER))
        self._begun = asyncio.Semaphore(0)

    async def ask(self, address: str, is_known: bool = True) -> httpx.Response:
        """What is answered to a request from there."""
        transport = httpx.ASGITransport(self.app, client=(address, 1))
        async with httpx.AsyncClient(transport=transport, base_url="http://test") as client:
            return await client.get("/", headers=KNOWN if is_known else {})

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
    others = []
    for address in (OTHER, "127.0.0.1"):
        others += slow.begin(address, half // 2)
        await slow.begun(half // 2)
    assert (await slow.ask(OTHER)).json()["message"] == f"{REQUESTS_MAX} requests are answered now"
    slow.may_answer.set()
    answers = await asyncio.gather(*own, *others)
    assert [answer.status_code for answer in answers].count(200) == REQUESTS_MAX


async def test_this_machine_may_have_all_places(slow: _Slow) -> None:
    own = slow.begin("127.0.0.1", REQUESTS_MAX) + slow.begin("::1", 1)
    assert (await refused(own, 1)).json()["message"] == f"{REQUESTS_MAX} requests are answered now"
    slow.may_answer.set()
    assert sum(answer.status_code == 200 for answer in await asyncio.gather(*own)) == REQUESTS_MAX


async def test_strangers_have_a_small_part_of_the_places(slow: _Slow) -> None:
    strangers = [asyncio.create_task(slow.ask("127.0.0.1", is_known=False)) for _ in range(2 * REQUESTS_MAX)]
    refusal = await refused(strangers, 2 * REQUESTS_MAX - STRANGERS_MAX)
    assert refusal.json()["message"] == f"{STRANGERS_MAX} requests without credentials are answered now"
    known = slow.begin("127.0.0.1", REQUESTS_MAX - STRANGERS_MAX)
    await slow.begun(REQUESTS_MAX)
    slow.may_answer.set()
    assert {answer.status_code for answer in await asyncio.gather(*known)} == {200}
    await asyncio.gather(*strangers)


def _request(method: str, *headers: tuple[bytes, bytes]) -> Scope:
    return {"type": "http", "method": method, "path": "/", "headers": list(headers), "client": ("127.0.0.1", 1)}


async def test_callers_that_ask_again_at_once_have_a_pace() -> None:
    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        await PlainTextResponse("answered")(scope, receive, send)

    limits = Limits(answer, per_s=(0.1, 0.1), refused_s=0.0)  # the first one takes the pace of ten seconds
    transport = httpx.ASGITransport(limits, client=("127.0.0.1", 1))
    async with httpx.AsyncClient(transport=transport, base_url="http://test") as client:
        for headers, whose in (({}, "without credentials from there"), (KNOWN, "with these credentials")):
            assert (await client.get("/", headers=headers)).status_code == 200
            refused = await client.get("/", headers=headers)
            assert (refused.status_code, refused.headers["retry-after"]) == (503, "1")
            assert refused.json()["message"] == f"at most 0.1 requests a second that read {whose} are answered"
            assert (await client.post("/", headers=headers)).status_code == 200
        assert (await client.get("/", headers={"authorization": "Basic eTo="})).status_code == 200
    elsewhere = httpx.ASGITransport(limits, client=("192.0.2.1", 1))
    async with httpx.AsyncClient(transport=elsewhere, base_url="http://test") as client:
        assert (await client.get("/")).status_code == 200


async def test_a_crowd_of_one_caller_that_waits_has_no_other_refused() -> None:
    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        await PlainTextResponse("answered")(scope, receive, send)

    limits = Limits(answer, per_s=(0.1, 0.1), refused_s=EVER)  # who comes too soon is not refused while this runs
    transport = httpx.ASGITransport(limits, client=("127.0.0.1", 1))
    async with httpx.AsyncClient(transport=transport, base_url="http://test") as client:
        crowd = [asyncio.create_task(client.get("/", headers=KNOWN)) for _ in range(3 * REQUESTS_MAX)]
        await refused([crowd[-1]], 1)  # where so many wait, at once
        assert (await client.get("/", headers={"authorization": "Basic eTo="})).status_code == 200
        for one in crowd:
            one.cancel()
        await asyncio.wait(crowd)


async def test_a_request_does_not_wait_behind_a_crowd() -> None:
    begun: list[bytes] = []

    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        begun.append(dict(scope["headers"]).get(b"authorization", b""))
        await PlainTextResponse("answered")(scope, receive, send)

    transport = httpx.ASGITransport(Limits(answer, per_s=(EVER, EVER)), client=("127.0.0.1", 1))
    async with httpx.AsyncClient(transport=transport, base_url="http://test") as client:
        callers = [{"authorization": f"Basic {name}"} for name in ("eTo=", "ejo=")]
        for proved in (KNOWN, *callers):
            await client.get("/", headers=proved)
        begun.clear()
        crowd = [client.get("/") for _ in range(100)] + [client.get("/", headers=KNOWN) for _ in range(100)]
        await asyncio.gather(*crowd, *(client.get("/", headers=one) for one in callers))
    assert sorted(begun.index(one["authorization"].encode()) for one in callers)[-1] < 20


async def test_false_credentials_are_one_caller_however_many_there_are() -> None:
    begun: list[bytes] = []

    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        credentials = dict(scope["headers"])[b"authorization"]
        begun.append(credentials)
        is_good = credentials == KNOWN["authorization"].encode()
        await PlainTextResponse("answered", 200 if is_good else 401)(scope, receive, send)

    transport = httpx.ASGITransport(Limits(answer, per_s=(EVER, EVER)), client=("127.0.0.1", 1))
    async with httpx.AsyncClient(transport=transport, base_url="http://test") as client:
        await client.get("/", headers=KNOWN)
        for _ in range(2):  # what was refused once proves nothing
            begun.clear()
            crowd = [client.get("/", headers={"authorization": f"Basic {number}"}) for number in range(300)]
            await asyncio.gather(*crowd, client.get("/", headers=KNOWN))
            assert begun.index(KNOWN["authorization"].encode()) < 20


async def test_bodies_of_strangers_that_do_not_come_give_way() -> None:
    ended, reading, sent = asyncio.Semaphore(0), asyncio.Semaphore(0), asyncio.Queue[Message]()

    async def read(scope: Scope, receive: Receive, send: Send) -> None:
        reading.release()
        message = await receive()
        await PlainTextResponse("whole" if message["type"] == "http.request" else "gone")(scope, receive, send)
        ended.release()

    async def nothing_comes() -> Message:
        await asyncio.Event().wait()
        raise AssertionError

    async def comes() -> Message:
        return {"type": "http.request", "body": b"x", "more_body": False}

    async def drop(message: Message) -> None:
        """Nothing reads it."""

    limits, scope = Limits(read), _request("POST", (b"content-length", b"1"))
    half = [asyncio.create_task(limits(scope, nothing_comes, drop)) for _ in range(STRANGERS_MAX)]
    for _ in half:
        await reading.acquire()
    await limits(scope, comes, sent.put)
    assert (await sent.get())["status"] == 200
    for one in half:
        one.cancel()
    await asyncio.wait(half)


async def test_a_place_is_free_when_its_caller_has_gone() -> None:
    has_gone, begun = asyncio.Event(), asyncio.Event()
    messages: list[Message] = [{"type": "http.request", "body": b"", "more_body": False}]

    async def receive() -> Message:
        if messages:
            return messages.pop()
        await has_gone.wait()
        return {"type": "http.disconnect"}

    async def answer_never(scope: Scope, receive: Receive, send: Send) -> None:
        begun.set()
        await asyncio.Event().wait()

    async def drop(message: Message) -> None:
        """Nothing reads it."""

    asked = asyncio.create_task(Limits(answer_never)(_request("GET"), receive, drop))
    await begun.wait()
    has_gone.set()
    await asked  # it would not end otherwise
