"""A request from its first turn to its end."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

import msgspec

from heliograph.rpc import codes
from heliograph.rpc.frames import FrameError, raw
from heliograph.rpc.methods import DONE, Action, Answered, Audit, Call, Method, RpcError, arguments_of
from heliograph.rpc.proto_v1 import Answer, End, Failure, Slice, ToAsker
from heliograph.rpc.turns import RequestTurns

GIVEN_UP: Final = RpcError(codes.CANCELLED, "it was given up by its asker")
OUT_OF_TIME: Final = RpcError(codes.DEADLINE_EXCEEDED, "it did not end before its deadline")


class RequestWire(Protocol):
    @property
    def is_full(self) -> bool: ...

    def send(self, frame: ToAsker) -> None:
        """Raises `FrameError` if it is too long."""

    def ended(self, request: "RunningRequest") -> None:
        """Called once, at the end of a request."""


@dataclass(frozen=True, slots=True)
class Services:
    """What all requests of a server share; `on_fault` gets a method's name and the fault of the program it raised."""

    turns: RequestTurns
    audit: Audit
    on_fault: Callable[[str, Exception], object]


class RunningRequest:
    """One request in flight; owned by its connection. Without a deadline, `deadline_ms` is 0."""

    def __init__(
        self,
        number: int,
        method: Method,
        args: msgspec.Struct,
        call: Call,
        deadline_ms: int,
        wire: RequestWire,
        services: Services,
    ) -> None:
        self.number = number
        self.spent_s = 0.0
        self._method = method
        self._args = args
        self._call = call
        self._wire = wire
        self._services = services
        self._slices: Iterator[Sequence[object]] | None = None
        self._has_turns = True
        self._room: asyncio.Future[None] | None = (
            None  # what an asynchronous answer waits for while the peer does not read
        )
        self._task: asyncio.Task[None] | None = None
        self._is_waiting = False  # a task that is cancelled before its first turn would never get one
        self._given_up: RpcError | None = None
        self._is_over = False
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(deadline_ms / 1000, self.give_up, OUT_OF_TIME) if deadline_ms else None
        services.turns.add(self)

    @property
    def task(self) -> asyncio.Task[None] | None:
        return self._task

    def step(self) -> bool:
        """Begin, or send the next slice; whether there is more to do in later turns."""
        self._has_turns = False
        if self._is_over:
            return False
        try:
            if self._slices is None:
                self._begin(self._method.handler(self._args, self._call))
            elif not self._wire.is_full:
                self._send_rows(next(self._slices))
                self._has_turns = True
        except StopIteration:
            self._end(End(self.number))
        except Exception as error:  # noqa: BLE001 - a method's fault is not its server's
            self._fail(error)
        return self._has_turns

    def go_on(self) -> None:
        if self._room is not None and not self._room.done():
            self._room.set_result(None)
        if self._slices is not None and not self._has_turns and not self._is_over:
            self._has_turns = True
            self._services.turns.add(self)

    def give_up(self, why: RpcError) -> None:
        """End it before its answer is complete. What waits may still end well: then that is the answer."""
        if self._is_over:
            return
        if self._task is not None:
            self._given_up = self._given_up or why
            if self._is_waiting:
                self._task.cancel()
            return
        try:
            if (close := getattr(self._slices, "close", None)) is not None:
                close()
        except Exception as error:  # noqa: BLE001 - it ends all the same
            self._services.on_fault(self._method.name, error)
        self._fail(why)

    def _begin(self, answered: Answered) -> None:
        if isinstance(answered, Iterator):
            self._slices = answered
            self._has_turns = True
        elif isinstance(answered, AsyncIterator | Awaitable):
            self._task = asyncio.create_task(self._until_end(answered), name=f"rpc {self._method.name}")
        else:
            self._end(Answer(self.number, raw(answered)))

    async def _until_end(self, answered: AsyncIterator[Sequence[object]] | Awaitable[object]) -> None:
        self._is_waiting = True
        try:
            if self._given_up is not None:
                raise asyncio.CancelledError  # before its first turn
            await (self._stream(answered) if isinstance(answered, AsyncIterator) else self._wait(answered))
        except asyncio.CancelledError:
            if isinstance(answered, Coroutine):
                answered.close()
            if self._given_up is None:
                raise
            self._fail(self._given_up)
        except Exception as error:  # noqa: BLE001 - a method's fault is not its server's
            self._fail(error)

    async def _wait(self, answer: Awaitable[object]) -> None:
        value = await answer
        self._end(Answer(self.number, raw(value)))

    async def _stream(self, slices: AsyncIterator[Sequence[object]]) -> None:
        try:
            async for rows in slices:
                self._send_rows(rows)
                while self._wire.is_full:
                    self._room = asyncio.get_running_loop().create_future()
                    await self._room
                await asyncio.sleep(0)
        finally:
            if (close := getattr(slices, "aclose", None)) is not None:
                await close()
        self._end(End(self.number))

    def _send_rows(self, rows: Sequence[object]) -> None:
        if rows:
            self._wire.send(Slice(self.number, raw(rows)))

    def _fail(self, error: Exception) -> None:
        code, message = self._said(error)
        details = error.details if isinstance(error, RpcError) else {}
        self._end(Failure(self.number, code, message, details), code, message)

    def _said(self, error: Exception) -> tuple[str, str]:
        """The code and the message of what was raised; a fault of the program is reported here only."""
        code = codes.ANSWER_TOO_LARGE if isinstance(error, FrameError) else getattr(error, "code", None)
        if isinstance(code, str):
            # It may name a file whose name is no UTF-8, which no frame takes.
            return code, str(error).encode("utf-8", "backslashreplace").decode()
        self._services.on_fault(self._method.name, error)
        return codes.INTERNAL, f"{self._method.name} failed: {type(error).__name__}; the log of the node says more"

    def _end(self, last: ToAsker, outcome: str = DONE, message: str = "") -> None:
        try:
            self._wire.send(last)
        except FrameError as error:
            self._fail(error)
            return
        self._is_over = True
        self._has_turns = False
        if self._timer is not None:
            self._timer.cancel()
        self._wire.ended(self)
        if self._method.is_action:
            args = arguments_of(self._method, self._args)
            call = self._call
            self._services.audit.record(Action(call.who, call.origin, self._method.name, args, outcome, message))

    def __repr__(self) -> str:
        return f"RunningRequest({self.number}, {self._method.name})"
