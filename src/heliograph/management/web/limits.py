"""What one caller may take: the size of a body, and requests at once; its place is free when it has gone."""

import asyncio
import re
from collections import deque
from collections.abc import Callable
from contextlib import ExitStack
from typing import Final

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from heliograph.management.asking.places import Places
from heliograph.management.web.addresses import is_local, place_of
from heliograph.management.web.area import BASE
from heliograph.management.web.errors import error_response

REQUESTS_MAX: Final = 200
STRANGERS_MAX: Final = 40  # of them, for callers without credentials
BODY_BYTES_MAX: Final = 8 << 20
UPLOAD_BYTES_MAX: Final = 1 << 30  # of files, which are kept on the disk while they come
# What is answered in a second, beyond a first burst as large; a request costs a millisecond or two.
_PER_S_OF_STRANGERS: Final = 100.0
_PER_S_OF_A_CALLER: Final = 200.0
_CALLERS_MAX: Final = 1024  # whose pace is remembered
_BEGUN_AT_ONCE: Final = 4  # requests in a turn of the loop: those of a crowd come between the steps of others
_PACE_WAIT_S: Final = 2.0  # who would have to wait longer is refused,
_REFUSED_S: Final = 1.0  # after a while;
_WAITING_MAX: Final = 400  # where so many wait, at once,
_WAITING_OF_A_CALLER: Final = 8  # unless no more than so many are its own
_PIECE_S: Final = 20.0  # a caller whose body comes slower is taken for gone
_BODY_S: Final = 120.0
_UPLOAD_S: Final = 3600.0
_OK_BELOW: Final = 300  # statuses of a request that was answered
_CREDENTIALS: Final = frozenset((b"authorization", b"cookie"))
_SENDS_BODY: Final = frozenset((b"content-length", b"transfer-encoding"))
_READS: Final = frozenset(("GET", "HEAD"))
_UPLOADS: Final = re.compile(rf"{BASE}/(data/files|(listeners/[^/]+/)?authentication/[^/]+/import_users)")


_AGAIN: Final = {"retry-after": "1"}
_GAVE_WAY: Final = error_response(
    503,
    "SERVICE_UNAVAILABLE",
    f"{STRANGERS_MAX} requests without credentials are answered now, and one gave way whose body was not there",
    {**_AGAIN, "connection": "close"},
)


class _RefusedBodyError(Exception):
    """A body is longer than is taken."""


class Limits:
    """Refuses bodies that are too long, with 413, and requests beyond `REQUESTS_MAX` at once, with 503.

    One address may have as many requests at once as there are free places: however many of its own it holds open, there
    are some left for others. What is on this machine may have all of them.

    Strangers, which send no credentials or ask what needs none, have `STRANGERS_MAX` of them. Where these are taken,
    the oldest stranger whose body is not there yet gives way.

    However fast callers read again, the process has most of its time for others: strangers of one address have a pace,
    and all requests with the same credentials. Who is ahead of it waits, and is refused if that would take long.
    Changes and publishing have none: who makes many in a row does not give them up.

    A few requests begin in a turn of the loop, and callers take turns there: a request waits for one of each other
    caller at the most, and not behind a crowd. Credentials are a caller of their own once they were good: until then
    all of one address are one, or a crowd with false ones would be as many callers.

    Args:
        app: What is called.
        is_open: Whether a request needs no credentials.
        has_pace: Whether a request that reads asks more than for a file of the dashboard.
        per_s: How many requests begin in a second, of strangers and of a caller.
        refused_s: After what time one is refused that comes too soon.
    """

    def __init__(
        self,
        app: ASGIApp,
        is_open: Callable[[Scope], bool] = lambda scope: False,
        has_pace: Callable[[Scope], bool] = lambda scope: True,
        per_s: tuple[float, float] = (_PER_S_OF_STRANGERS, _PER_S_OF_A_CALLER),
        refused_s: float = _REFUSED_S,
    ) -> None:
        self._app = app
        self._is_open = is_open
        self._has_pace = has_pace
        self._places = Places(REQUESTS_MAX)
        self._strangers = Places(STRANGERS_MAX)
        self._stranger_per_s, self._caller_per_s = per_s
        self._entrance = _Entrance()
        self._paces: dict[int, _Pace] = {}  # of strangers by their addresses, of callers by their credentials
        self._proved: dict[int, None] = {}  # credentials that were good; the one that was here last is at the end
        self._refused_s = refused_s
        self._waiting = 0  # for their pace, or to be refused
        # The places of strangers whose bodies are not there yet, the oldest first.
        self._sending: dict[_Body, ExitStack] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        address = scope["client"][0] if scope.get("client") else ""
        place = None if is_local(address) else place_of(address)
        is_stranger = self._is_stranger(scope)
        owner = hash(place_of(address) if is_stranger else _credentials(scope))
        await self._entrance.enter(owner if is_stranger or self._is_proved(owner) else ~hash(place_of(address)))
        pace = self._pace_of(scope, owner, is_stranger)
        if pace is not None and not await self._has_turn(pace):
            whose = "without credentials from there" if is_stranger else "with these credentials"
            refusal = f"at most {pace.per_s:g} requests a second that read {whose} are answered"
            await error_response(503, "SERVICE_UNAVAILABLE", refusal, _AGAIN)(scope, receive, send)
            return
        if is_stranger and not self._strangers.free and self._sending:
            slow = next(iter(self._sending))
            self._sending.pop(slow).close()
            slow.give_way()
        if refusal := self._refusal(address, place, is_stranger):
            answer = error_response(503, "SERVICE_UNAVAILABLE", refusal, _AGAIN)
            await answer(scope, receive, send)
            return
        body = _Body(receive, _most(scope))
        with self._places.taken(place):
            if is_stranger:
                await self._of_stranger(scope, body, send, place)
            else:
                await self._bounded(scope, body, self._watched(send, owner))
        if body.has_given_way and not body.has_answer:
            await asyncio.sleep(self._refused_s)  # the pace of its next try
            await _GAVE_WAY(scope, body.receive, send)

    def _is_proved(self, owner: int) -> bool:
        """Whether credentials were good before."""
        if owner not in self._proved:
            return False
        self._proved[owner] = self._proved.pop(owner)  # the one that was here last leaves last
        return True

    def _watched(self, send: Send, owner: int) -> Send:
        """Remember credentials with which something is answered."""

        async def send_and_look(message: Message) -> None:
            if (
                message["type"] == "http.response.start"
                and message["status"] < _OK_BELOW
                and not self._is_proved(owner)
            ):
                if len(self._proved) >= _CALLERS_MAX:
                    del self._proved[next(iter(self._proved))]
                self._proved[owner] = None
            await send(message)

        return send_and_look

    async def _of_stranger(self, scope: Scope, body: "_Body", send: Send, place: int | None) -> None:
        body.on_whole = lambda: self._sending.pop(body, None)
        try:
            with ExitStack() as held:
                held.enter_context(self._strangers.taken(place))
                self._sending[body] = held
                await self._bounded(scope, body, send)
        finally:
            self._sending.pop(body, None)

    def _pace_of(self, scope: Scope, owner: int, is_stranger: bool) -> "_Pace | None":
        """That of a request that reads."""
        if scope["method"] not in _READS or not self._has_pace(scope):
            return None
        pace = self._paces.get(owner)
        if pace is None:
            if len(self._paces) >= _CALLERS_MAX:
                self._paces = {key: one for key, one in self._paces.items() if one.is_ahead or one.waiting}
            pace = self._paces[owner] = _Pace(self._stranger_per_s if is_stranger else self._caller_per_s)
        return pace

    async def _has_turn(self, pace: "_Pace") -> bool:
        """Whether a request may begin, once its turn has come; one that may not waits too, since it would ask again."""
        if self._waiting >= _WAITING_MAX and pace.waiting >= _WAITING_OF_A_CALLER:
            return False
        self._waiting += 1
        pace.waiting += 1
        try:
            if pace.may_wait:
                await pace.take()
                return True
            await asyncio.sleep(self._refused_s)  # the pace of its next try
            return False
        finally:
            self._waiting -= 1
            pace.waiting -= 1

    def _is_stranger(self, scope: Scope) -> bool:
        return not any(name in _CREDENTIALS for name, _ in scope["headers"]) or self._is_open(scope)

    def _refusal(self, address: str, place: int | None, is_stranger: bool) -> str:
        """Why one more request from there is not answered now; empty where it is."""
        for places, whose in ((self._places, ""), (self._strangers, " without credentials"))[: 1 + is_stranger]:
            if places.may_take(place):
                continue
            if not places.free:
                return f"{places.count} requests{whose} are answered now"
            own = places.taken_by(place)
            return f"{own} requests{whose} of {address} are answered now, and others need the rest"
        return ""

    async def _bounded(self, scope: Scope, body: "_Body", send: Send) -> None:
        refusal = error_response(
            413, "EXCEED_LIMIT", f"a body of at most {body.most:,} bytes is taken", {"connection": "close"}
        )
        if _declared_bytes(scope) > body.most:
            await refusal(scope, body.receive, send)
            return
        is_complete = False

        async def send_or_refuse(message: Message) -> None:
            nonlocal is_complete
            if body.has_given_way:
                return  # it is answered when its places are free
            if body.is_refused:
                if not body.has_answer:  # the framework makes an answer of its own of any error while it reads a body
                    body.has_answer = is_complete = True
                    await refusal(scope, body.receive, send)
                return
            body.has_answer = True
            is_complete = message["type"] == "http.response.body" and not message.get("more_body", False)
            await send(message)

        if scope["method"] in _READS and not any(name in _SENDS_BODY for name, _ in scope["headers"]):
            await _until_gone(self._app, scope, body, send_or_refuse, lambda: is_complete)
            return
        try:
            await self._app(scope, body.receive, send_or_refuse)
        except _RefusedBodyError:
            if not body.has_answer:
                await refusal(scope, body.receive, send)


async def _until_gone(app: ASGIApp, scope: Scope, body: "_Body", send: Send, is_complete: Callable[[], bool]) -> None:
    """Answer a request that only reads, and end when its caller has gone: what it asked for is then given up.

    A change goes on to its end: half of one is worse than one whose answer nothing reads.
    """
    while not body.is_whole and (await body.receive())["type"] == "http.request":
        pass
    answering = asyncio.current_task()
    assert answering is not None
    has_gone, is_over = asyncio.Event(), False

    async def watch() -> None:
        while (await body.receive())["type"] != "http.disconnect":
            pass
        has_gone.set()
        if not is_over and not is_complete():
            answering.cancel()

    messages: list[Message] = [{"type": "http.request", "body": b"", "more_body": False}]

    async def receive() -> Message:
        if messages:
            return messages.pop()
        await has_gone.wait()
        return {"type": "http.disconnect"}

    watching = asyncio.create_task(watch(), name="wait for the caller to go")
    try:
        await asyncio.sleep(0)  # it sees a caller who has gone already
        await app(scope, receive, send)
    except asyncio.CancelledError:
        if not has_gone.is_set() or answering.uncancel() > 0:
            raise
    finally:
        is_over = True
        watching.cancel()


class _Entrance:
    """Lets a few requests begin in a turn of the loop; owned by `Limits`. Owners take turns."""

    def __init__(self) -> None:
        self._waiting: dict[int, deque[asyncio.Future[None]]] = {}  # the next owner first
        self._is_taken = False  # in this turn of the loop

    async def enter(self, owner: int) -> None:
        """Wait for the turn of a request; where no other has begun in this one, it is now."""
        loop = asyncio.get_running_loop()
        if not self._is_taken:
            self._is_taken = True
            loop.call_soon(self._let_in)
            return
        turn = loop.create_future()
        self._waiting.setdefault(owner, deque()).append(turn)
        await turn

    def _let_in(self) -> None:
        self._is_taken = bool(self._waiting)
        if self._is_taken:
            asyncio.get_running_loop().call_soon(self._let_in)
        for _ in range(min(_BEGUN_AT_ONCE, len(self._waiting))):
            owner = next(iter(self._waiting))
            turns = self._waiting.pop(owner)
            if not (turn := turns.popleft()).done():
                turn.set_result(None)
            if turns:
                self._waiting[owner] = turns


class _Pace:
    """Lets so many requests begin in a second, after a first burst of as many; owned by `Limits`."""

    def __init__(self, per_s: float) -> None:
        self.per_s = per_s
        self.waiting = 0  # for it, or to be refused
        self._next = 0.0

    @property
    def is_ahead(self) -> bool:
        """Whether a request that comes now must wait."""
        return self._next > _now()

    @property
    def may_wait(self) -> bool:
        """Whether a request that comes now has its turn soon."""
        now = _now()
        return self._turn(now) <= now + _PACE_WAIT_S

    async def take(self) -> None:
        """Wait until one more may begin."""
        now = _now()
        self._next = self._turn(now)
        if self._next > now:
            await asyncio.sleep(self._next - now)  # its turn

    def _turn(self, now: float) -> float:
        return max(self._next + 1 / self.per_s, now - 1.0)


def _now() -> float:
    return asyncio.get_running_loop().time()


class _Body:
    """The body of a request while it comes, in time and not too long."""

    def __init__(self, receive: Receive, most: int) -> None:
        self._receive = receive
        self.most = most
        self._end = asyncio.get_running_loop().time() + (_BODY_S if most == BODY_BYTES_MAX else _UPLOAD_S)
        self._size = 0
        self._waiting: asyncio.Timeout | None = None
        self.is_whole = False
        self.is_refused = False
        self.has_given_way = False
        self.has_answer = False
        self.on_whole: Callable[[], object] = lambda: None

    def give_way(self) -> None:
        """Take its caller for gone now."""
        self.has_given_way = True
        self._end = 0.0
        if self._waiting is not None:
            self._waiting.reschedule(0.0)

    async def receive(self) -> Message:
        if self.is_whole:
            return await self._receive()
        try:
            end = min(self._end, asyncio.get_running_loop().time() + _PIECE_S)
            async with asyncio.timeout_at(end) as self._waiting:
                message = await self._receive()
        except TimeoutError:
            return {"type": "http.disconnect"}
        finally:
            self._waiting = None
        if message["type"] == "http.request":
            self._size += len(message.get("body", b""))
            self.is_whole = not message.get("more_body", False)
            if self.is_whole:
                self.on_whole()
            if self._size > self.most:
                self.is_refused = True
                raise _RefusedBodyError
        return message


def _credentials(scope: Scope) -> tuple[bytes, ...]:
    return tuple(value for name, value in scope["headers"] if name in _CREDENTIALS)


def _declared_bytes(scope: Scope) -> int:
    text = dict(scope["headers"]).get(b"content-length", b"0")
    return int(text) if text.isdigit() else 0


def _most(scope: Scope) -> int:
    return UPLOAD_BYTES_MAX if _UPLOADS.fullmatch(scope["path"]) else BODY_BYTES_MAX
