"""Traces: started, listed, shown, stopped and deleted."""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, TypeVar

from heliograph.control.proto_v1.trace import (
    TRACE_DELETE,
    TRACE_LIST,
    TRACE_READ,
    TRACE_SHOW,
    TRACE_START,
    TRACE_STOP,
    TraceDeleted,
    TraceNameArgs,
    TraceReadArgs,
    TraceRecords,
    TraceRow,
    TraceShowArgs,
    TraceStartArgs,
)
from heliograph.rpc.codes import BAD_ARGUMENTS
from heliograph.rpc.methods import SLICE, Call, Method, NoArgs, RpcError

if TYPE_CHECKING:
    from heliograph.tracing.stored import StoredTrace
    from heliograph.tracing.traces import Traces

ValueT = TypeVar("ValueT")

_BYTES_MAX: Final = 262_144  # of records in one answer


def methods(traces: "Callable[[], Traces]") -> list[Method]:
    """`trace.start`, `trace.list`, `trace.show`, `trace.read`, `trace.stop`, `trace.delete`.

    Args:
        traces: The traces of the node; loaded with the first question.
    """

    async def start(args: TraceStartArgs, call: Call) -> TraceRow:
        from heliograph.tracing.trace import TraceOrder  # a node that is not asked does without

        limits = (args.duration_s, args.max_size, args.payload, args.start_at, args.formatter)
        order = TraceOrder(args.name, args.kind, args.value, args.file, *limits)
        return _row(await _answered(traces().start(order)))

    async def listed(args: NoArgs, call: Call) -> AsyncIterator[Sequence[TraceRow]]:
        rows = [_row(one) for one in await traces().listed()]
        for begin in range(0, len(rows), SLICE):
            yield rows[begin : begin + SLICE]

    async def show(args: TraceShowArgs, call: Call) -> AsyncIterator[Sequence[str]]:
        with _in_words():
            async for lines in traces().lines(args.name, args.follow):
                yield lines

    async def read(args: TraceReadArgs, call: Call) -> TraceRecords:
        if args.position < 0 or not 1 <= args.bytes <= _BYTES_MAX:
            raise RpcError(BAD_ARGUMENTS, f"a position is 0 or more, and bytes are 1 to {_BYTES_MAX:,}")
        piece = await _answered(traces().piece(args.name, args.position, args.bytes))
        return TraceRecords(piece.text, piece.position)

    async def stop(args: TraceNameArgs, call: Call) -> TraceRow:
        return _row(await _answered(traces().stop(args.name)))

    async def delete(args: TraceNameArgs, call: Call) -> TraceDeleted:
        await _answered(traces().delete(args.name))
        return TraceDeleted(args.name)

    return [
        TRACE_START.by(start),
        TRACE_LIST.by(listed),
        TRACE_SHOW.by(show),
        TRACE_READ.by(read),
        TRACE_STOP.by(stop),
        TRACE_DELETE.by(delete),
    ]


async def _answered(answer: Awaitable[ValueT]) -> ValueT:
    with _in_words():
        return await answer


@contextmanager
def _in_words() -> Iterator[None]:
    """Answer what a trace refuses with its code."""
    from heliograph.tracing.traces import TraceError

    try:
        yield
    except TraceError as error:
        raise RpcError(error.code, str(error)) from error


def _row(trace: "StoredTrace") -> TraceRow:
    return TraceRow(
        trace.name,
        trace.kind,
        trace.value,
        trace.state,
        trace.started_at,
        trace.left_s,
        trace.size,
        trace.dropped_count,
        str(trace.path),
        trace.duration_s,
        trace.payload,
        trace.formatter,
        trace.modified_at,
    )
