"""What is under way from one source to the node: bounded, in order, and acknowledged after the node's commit."""

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

import msgspec

from heliograph.actions.loops import VIA
from heliograph.control.proto_v1.sources import Delivered, SourceBatch, SourceMessage
from heliograph.processes.backoff import Backoff
from heliograph.rpc.conversation import UnreachableError
from heliograph.rpc.frames import ARGS_BYTES_MAX
from heliograph.rpc.methods import RpcError

_log = logging.getLogger("heliograph.sources")

MESSAGE_BYTES_MAX: Final = ARGS_BYTES_MAX - 8192
"""Of a message that the node can be brought: topic, payload and properties."""
WINDOW: Final = 512
"""Messages of one source that may be under way, where its type has no window of its own."""
WINDOW_BYTES: Final = 32 * 1024 * 1024
"""Bytes of these, beyond which a source waits too."""

_BATCH_MESSAGES: Final = 512
_OVERHEAD_BYTES: Final = 64  # of the names and numbers of a message in a frame
_AGAIN: Final = Backoff(first_s=0.05, longest_s=2.0)

Deliver = Callable[[SourceBatch], Awaitable[Delivered]]


@dataclass(frozen=True, slots=True)
class Incoming:
    """A message, and what acknowledges it at its origin: called once, when the node has it or never can.

    Attributes:
        size: Bytes in a frame, about.
    """

    message: SourceMessage
    done: Callable[[], None]
    size: int = field(init=False)

    def __post_init__(self) -> None:
        one = self.message
        columns = len(msgspec.msgpack.encode(one.columns)) if one.columns else 0
        texts = len(one.topic.encode()) + len(one.properties) + len(one.fault)
        object.__setattr__(self, "size", len(one.payload) + texts + columns + _OVERHEAD_BYTES)


class Inlet:
    """Brings the messages of one source to the node, one batch after another; owned by its worker.

    Args:
        deliver: Asks the node.
        hold: Called with why the node takes nothing at present; empty when it does again.
    """

    def __init__(self, source_id: str, deliver: Deliver, hold: Callable[[str], None], window: int = WINDOW) -> None:
        self.server = ""
        self.window = window
        self._source_id = source_id
        self._deliver = deliver
        self._hold = hold
        self._waiting: deque[Incoming] = deque()
        self._under_way = 0
        self._bytes = 0
        self._changed: list[asyncio.Future[None]] = []  # of those who wait for a change

    @property
    def is_full(self) -> bool:
        """Whether its source has to wait."""
        return len(self._waiting) + self._under_way >= self.window or self._bytes >= WINDOW_BYTES

    async def put(self, incoming: Incoming) -> None:
        """Bring a message to the node; returns when it is in the window, which may take long."""
        if self.is_full:
            await self._until(lambda: not self.is_full)
        incoming = fitting(incoming)
        self._waiting.append(incoming)
        self._bytes += incoming.size
        self._notify()

    async def drop_unacknowledged(self) -> None:
        """Forget what waits and is sent again by its origin, whose connection was lost; wait for what is under way."""
        self._drop_waiting()
        await self._until(lambda: not self._under_way)
        # What the node did not take waits again. Acknowledged in the next session, it would be the message there
        # that has its identifier by then, and that never came.
        self._drop_waiting()
        self._bytes = sum(one.size for one in self._waiting)
        self._notify()

    def _drop_waiting(self) -> None:
        kept = [one for one in self._waiting if one.message.qos == 0]
        self._waiting.clear()
        self._waiting.extend(kept)

    async def run(self) -> None:
        """Bring batches until this is cancelled."""
        failures = 0
        while True:
            batch = await self._next_batch()
            done = 0
            try:
                args = SourceBatch(self._source_id, self.server, [one.message for one in batch])
                answer = await self._deliver(args)
                done, problem = answer.taken, answer.hold
            except RpcError as error:
                problem = f"the node does not take its messages: {error}"
            except UnreachableError as error:
                problem = f"the node cannot be asked: {error}"
            except Exception as error:  # noqa: BLE001 - whatever it is, its source is not to stand still unseen
                _log.exception("%s: a batch", self._source_id)
                problem = f"a batch cannot be brought: {type(error).__name__}: {error}"
            for one in batch[:done]:
                self._acknowledge(one)
            self._settle(batch[:done], batch[done:])
            self._hold(problem)
            failures = failures + 1 if problem else 0
            if problem:
                await asyncio.sleep(_AGAIN.pause_s(failures))  # the node takes nothing now

    def _acknowledge(self, one: Incoming) -> None:
        try:
            one.done()
        except Exception:  # noqa: BLE001 - the connection may be gone; then its origin sends the message again
            _log.exception("%s: an acknowledgement", self._source_id)

    async def _next_batch(self) -> list[Incoming]:
        batch: list[Incoming] = []
        await self._until(lambda: bool(self._waiting))
        left = MESSAGE_BYTES_MAX
        while self._waiting and len(batch) < _BATCH_MESSAGES:
            left -= self._waiting[0].size
            if batch and left < 0:
                break
            batch.append(self._waiting.popleft())
        self._under_way = len(batch)
        return batch

    def _settle(self, taken: list[Incoming], again: list[Incoming]) -> None:
        self._bytes -= sum(one.size for one in taken)
        self._waiting.extendleft(reversed(again))
        self._under_way = 0
        self._notify()

    async def _until(self, is_so: Callable[[], bool]) -> None:
        """Wait for something; it is so when this returns, since what waits for a change looks one after another."""
        while not is_so():
            changed = asyncio.get_running_loop().create_future()
            self._changed.append(changed)
            await changed

    def _notify(self) -> None:
        changed, self._changed = self._changed, []
        for one in changed:
            if not one.done():  # it was cancelled
                one.set_result(None)

    def __repr__(self) -> str:
        return f"Inlet({self._source_id}, {len(self._waiting)} wait, {self._under_way} under way)"


def mark_of(headers: Mapping[str, object]) -> dict[str, str]:
    """The header that names the nodes where a message has been, by which one that goes round is known."""
    found = headers.get(VIA)
    if isinstance(found, bytes):
        found = found.decode(errors="replace")
    return {VIA: found} if isinstance(found, str) else {}


def fitting(incoming: Incoming) -> Incoming:
    """The message, without its payload where that is larger than the node can be brought."""
    one = incoming.message
    if incoming.size <= MESSAGE_BYTES_MAX:
        return incoming
    fault = f"packet_too_large: a message of {len(one.payload)} bytes; the node can be brought {MESSAGE_BYTES_MAX}"
    return Incoming(SourceMessage(one.topic, received_at_ms=one.received_at_ms, fault=fault), incoming.done)
