"""A process that reads stored messages and tells what it finds, line by line; it has what it needs for that."""

import asyncio
import contextlib
import os
import signal
from collections.abc import AsyncGenerator, Coroutine
from typing import Any, Final

import orjson

from heliograph.processes.programs import Programs

_READ_AHEAD: Final = 64 << 10  # of a process whose lines are not taken; twice that, where it stops to write
_LINE_MAX: Final = 16 << 20
_END_S: Final = 15.0  # Spark takes some seconds to end in order


async def told_by(programs: Programs, module: str, request: bytes) -> AsyncGenerator[dict[str, Any], None]:
    """Run a program in a process of its own: what it tells, line by line.

    Close it (`contextlib.aclosing`): the process and all that it has started have ended behind that.

    Args:
        module: The program, which ends with its standard input.
        request: Its request, as JSON.
    """
    pipe = asyncio.subprocess.PIPE
    process = await programs.start(module, stdin=pipe, stdout=pipe, limit=_READ_AHEAD, start_new_session=True)
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        process.stdin.write(request + b"\n")
        async with contextlib.aclosing(_lines(process.stdout)) as lines:
            async for report in lines:
                yield report
        await process.wait()
    finally:
        await to_its_end(_ended(process))


async def to_its_end(work: Coroutine[Any, Any, None]) -> None:
    """Do something whole, however often this task is cancelled meanwhile: it goes on as cancelled behind that."""
    task, is_cancelled = asyncio.ensure_future(work), False
    while not task.done():
        try:
            await asyncio.wait([task])
        except asyncio.CancelledError:
            is_cancelled = True
    task.result()
    if is_cancelled:
        raise asyncio.CancelledError


async def _lines(stream: asyncio.StreamReader) -> AsyncGenerator[dict[str, Any], None]:
    """What the lines of a stream have; behind the one that is taken only a little is read.

    Raises:
        ValueError: One is too long.
    """
    line = bytearray()
    while piece := await stream.read(_READ_AHEAD):
        *ends, piece = piece.split(b"\n")
        for end in ends:
            line += end
            report = orjson.loads(line)
            line.clear()
            yield report
        line += piece
        if len(line) > _LINE_MAX:
            raise ValueError(f"it tells a line of more than {_LINE_MAX:,} bytes")


async def _ended(process: asyncio.subprocess.Process) -> None:
    """End a process with its input, and what is left of its group."""
    assert process.stdin is not None
    process.stdin.close()
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(process.wait(), _END_S)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    await process.wait()
