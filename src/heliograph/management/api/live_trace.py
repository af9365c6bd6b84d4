"""A trace that is watched while it is on, as server-sent events; a slow reader gets a notice of what it lost."""

import asyncio
import uuid
from collections import deque
from collections.abc import AsyncGenerator
from contextlib import ExitStack, suppress
from typing import Annotated, Final, Literal, NotRequired

import orjson
from fastapi import Query, Request
from starlette.responses import StreamingResponse
from typing_extensions import TypedDict

from heliograph.control.proto_v1.trace import (
    TRACE_DELETE,
    TRACE_SHOW,
    TRACE_START,
    TraceNameArgs,
    TraceShowArgs,
    TraceStartArgs,
)
from heliograph.management.api.traces import KINDS, TraceType
from heliograph.management.asking.nodes import Node
from heliograph.management.web.answering import answering
from heliograph.management.web.area import Area
from heliograph.management.web.asked_nodes import NodesDep
from heliograph.management.web.event_streams import StreamEnd, event_of, event_stream
from heliograph.management.web.places import place
from heliograph.management.web.rows import typed_dict
from heliograph.rpc.conversation import UnreachableError
from heliograph.rpc.methods import RpcError

area = Area("Live trace", "A trace that is watched while it is on.")

_SCOPE: Final = "traces:write"
_WAITING_MAX: Final = 1000  # records that wait for a slow reader
_AT_ONCE_MAX: Final = 5


class TraceRecord(TypedDict):
    """What a trace records of an event, which has further facts of its own."""

    at: str
    event: str
    client: NotRequired[str]
    message: NotRequired[str]


_EVENTS: Final = {
    "record": TraceRecord,
    "lost": typed_dict("LostRecords", "How many records did not reach a slow reader.", {"records": int}),
    "end": StreamEnd,
}


class LiveTrace:
    """One trace and its reader; from `begin` to `end`, or until the trace ends.

    Args:
        node: The node.
        order: What is traced.
    """

    def __init__(self, node: Node, order: TraceStartArgs) -> None:
        self._alone = ExitStack()
        self._node = self._alone.enter_context(node.alone())  # it lasts long
        self._order = order
        self._records: deque[str] = deque(maxlen=_WAITING_MAX)
        self._lost = 0
        self._came = asyncio.Event()
        self._why = ""
        self.task: asyncio.Task[None] | None = None

    async def begin(self) -> None:
        """Begin the trace.

        Raises:
            RpcError: It is refused.
        """
        try:
            await self._node.ask(TRACE_START(self._order))
        except BaseException:
            self._alone.close()
            raise
        self.task = asyncio.create_task(self._follow(), name=self._order.name)
        self.task.add_done_callback(lambda _: self._alone.close())

    async def events(self) -> AsyncGenerator[bytes, None]:
        """What is sent; ends with the trace."""
        while True:
            await self._came.wait()
            self._came.clear()
            if self._lost:
                lost, self._lost = self._lost, 0
                yield event_of("lost", {"records": lost})
            while self._records:
                yield event_of("record", orjson.Fragment(self._records.popleft()))
            if self._why:
                yield event_of("end", {"why": self._why})
                return

    def end(self) -> None:
        """End the trace, if it has not."""
        if self.task is not None:
            self.task.cancel()

    async def _follow(self) -> None:
        name = self._order.name
        why = "the trace has ended"
        try:
            async for lines in self._node.slices(TRACE_SHOW(TraceShowArgs(name, follow=True)), timeout_s=None):
                self._put(lines)
        except (RpcError, UnreachableError) as error:
            why = str(error)
        finally:
            self._why = why
            self._came.set()
            await self._delete()

    def _put(self, lines: list[str]) -> None:
        for line in lines:
            self._lost += len(self._records) == _WAITING_MAX
            self._records.append(line)
        self._came.set()

    async def _delete(self) -> None:
        with suppress(RpcError, UnreachableError):  # it is gone already, or ends by itself
            await self._node.ask(TRACE_DELETE(TraceNameArgs(self._order.name)))


class LiveTraces:
    """The live traces of this process; one for an application."""

    def __init__(self) -> None:
        self._running: set[asyncio.Task[None]] = set()

    async def begin(self, node: Node, order: TraceStartArgs) -> LiveTrace:
        """Begin one.

        Raises:
            RpcError: It is refused.
        """
        live = LiveTrace(node, order)
        await live.begin()
        assert live.task is not None
        self._running.add(live.task)
        live.task.add_done_callback(self._running.discard)
        return live


@area.get(
    "/heliograph/trace/live",
    scope=_SCOPE,
    response_class=StreamingResponse,
    events=_EVENTS,
    errors={400: ("INVALID_PARAMS",)},
)
async def watch_live_trace(
    request: Request,
    nodes: NodesDep,
    type: TraceType,
    value: Annotated[str, Query(min_length=1, description="The client id, topic filter, address or rule")],
    seconds: Annotated[int, Query(ge=1, le=3600, description="When it ends by itself")] = 600,
    payload_encode: Annotated[Literal["text", "hex", "hidden"], Query()] = "hidden",
) -> StreamingResponse:
    """Begin a trace and stream its records as events `record` until it ends; `lost` counts what a slow reader missed.

    It ends when the connection does, and leaves no file behind.
    """
    state = request.app.state
    if not hasattr(state, "live_traces"):
        state.live_traces = LiveTraces()
    traces: LiveTraces = state.live_traces
    name = f"live-{uuid.uuid4().hex}"
    order = TraceStartArgs(name, KINDS[type], value, duration_s=seconds, payload=payload_encode)
    with ExitStack() as held, answering(trace=(400, "INVALID_PARAMS")):
        held.enter_context(place(request, "live traces", _AT_ONCE_MAX))
        live = await traces.begin(nodes.own, order)
        held.callback(live.end)
        return event_stream(request, _SCOPE, live.events(), held=held.pop_all())
