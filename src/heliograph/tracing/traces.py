"""The traces of a node: which are on, what they are joined to, and when they end."""

import asyncio
import re
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import ClassVar, Final

from heliograph.channel.context import ChannelContext
from heliograph.tracing.joint import Joint, WatchRules
from heliograph.tracing.recorder import TraceRecorder
from heliograph.tracing.stored import StoredTrace, TracePiece, lines_of, piece_of, remove_oldest, stored_traces
from heliograph.tracing.subject import Subject
from heliograph.tracing.trace import FORMATTERS, PAYLOADS, Trace, TraceOrder, iso
from heliograph.tracing.trace_file import TraceFile

SUFFIX: Final = ".jsonl"
DURATION_S_MAX: Final = 86_400
START_S_MAX: Final = 30 * 86_400
SIZE_BYTES_MIN: Final = 4_096

_AT_ONCE_US: Final = 1_000_000  # clocks of askers differ a little
_TRACES_MAX: Final = 30
_FILES_MAX: Final = 1_000
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,248}")  # with its suffix the name of a file
_CLOSING_S: Final = 2.0  # for which a list waits for files that a slow disk has yet to take


class TraceError(Exception):
    """A trace cannot be started, stopped or shown; `code` is for programs."""

    code: ClassVar[str] = "trace"


class TraceExistsError(TraceError):
    code: ClassVar[str] = "trace_exists"


class TraceDuplicateError(TraceError):
    """A trace that is on is about the same and begins at the same time."""

    code: ClassVar[str] = "trace_duplicate"


class TraceNotFoundError(TraceError):
    code: ClassVar[str] = "trace_not_found"


class Traces:
    """Starts and ends traces; owned by the part `tracing`.

    While none is on, it is joined to nothing.

    Args:
        bytes_max: What the files of ended traces may take together; see `diagnose.traces.max_bytes`.
        tell: Called with a line for the log.
        watch_rules: Sets the rules that a recorder follows.
    """

    def __init__(
        self,
        folder: Path,
        context: ChannelContext,
        bytes_max: int,
        tell: Callable[[str], object],
        watch_rules: WatchRules = lambda rule_ids, recorder: None,
    ) -> None:
        self._folder = folder
        self._context = context
        self._broker = context.broker
        self.bytes_max = bytes_max
        self._tell = tell
        self._recorder = TraceRecorder(context)
        self._joint = Joint(self._recorder, context, watch_rules)
        self._running: dict[str, Trace] = {}
        self._closing: dict[str, asyncio.Task[None]] = {}
        self._beginning: set[asyncio.Task[None]] = set()
        self._executor: ThreadPoolExecutor | None = None
        self._dropped_count = 0  # by traces that have ended

    # --- asked for by people

    async def start(self, order: TraceOrder) -> StoredTrace:
        subject = self._checked(order)
        path = self._folder / (order.file or order.name + SUFFIX)
        executor = self._executor or ThreadPoolExecutor(1, "trace")
        self._executor = executor
        try:
            self._folder.mkdir(mode=0o700, exist_ok=True)
            file = TraceFile(path, executor, order.size_max, lambda why: self._end_soon(order.name, why))
        except FileExistsError:
            detail = f"the file {path} exists: choose another name, or `trace delete {order.name}`"
            raise TraceExistsError(detail) from None
        except OSError as error:
            raise TraceError(f"the file {path} cannot be made: {error.strerror}") from error
        self._context.begin_turn()
        trace = self._made(order, subject, file)
        self._running[order.name] = trace
        if trace.begins_us <= int(self._broker.uptime_us):
            await self._begin(trace)
        return self._row(trace)

    def _made(self, order: TraceOrder, subject: Subject, file: TraceFile) -> Trace:
        now_us, uptime_us = int(self._broker.now_us), int(self._broker.uptime_us)
        waits_us = int(order.start_at * 1_000_000) - now_us
        if waits_us < _AT_ONCE_US:
            waits_us = 0
        begins_us = uptime_us + waits_us
        due_us = begins_us + order.duration_s * 1_000_000
        trace = Trace(order.name, subject, file, now_us + waits_us, begins_us, due_us, order)
        described = {"name": order.name, "about": subject.kind, "value": subject.value, "payload": order.payload}
        limits = {"duration_s": order.duration_s, "max_size": order.size_max, "formatter": order.formatter}
        trace.put(now_us + waits_us, "trace_started", {**described, **limits})
        return trace

    async def _begin(self, trace: Trace) -> None:
        trace.is_on = True
        self._recorder.traces.append(trace)
        self._joint.join()
        try:
            await self._joint.mark(trace)
        except asyncio.CancelledError:
            self._end(trace, "given up by its asker")
            raise
        if self._running.get(trace.name) is not trace:  # it has ended before all were marked
            self._joint.unmark(trace)
            return
        self._tell(f"trace {trace.name!r} about {trace.subject} began, for {trace.order.duration_s} s at the most")

    async def stop(self, name: str, why: str = "stopped") -> StoredTrace:
        """End a trace; its file stays."""
        trace = self._running.get(name)
        if trace is None:
            running = ", ".join(self._running) or "none"
            raise TraceNotFoundError(f"no trace {name!r} is on; on are: {running}")
        self._end(trace, why)
        await asyncio.wait([self._closing[name]])  # which is written also where nothing waits for it any more
        try:
            return StoredTrace.read(trace.file.path)
        except FileNotFoundError:
            raise TraceNotFoundError(f"the trace {name!r} was deleted meanwhile") from None

    async def delete(self, name: str) -> None:
        """End a trace if it is on, and remove its file."""
        path = await self._path_of(name)
        if name in self._running:
            await self.stop(name)
        path.unlink(missing_ok=True)

    async def listed(self) -> list[StoredTrace]:
        """The traces that are on, and those whose files are there; by their names."""
        if self._closing:  # their files say why they ended when they are written
            await asyncio.wait(self._closing.values(), timeout=_CLOSING_S)
        running = self._rows()
        stored = await asyncio.to_thread(stored_traces, self._folder, _FILES_MAX)
        running |= self._rows()  # the files of those that begin or end meanwhile do not say how they are
        return sorted(
            [*running.values(), *(one for one in stored if one.path not in running)], key=lambda one: one.name
        )

    async def lines(self, name: str, follows: bool) -> AsyncIterator[list[str]]:
        """The records of a trace in the order they came, some at a time.

        Args:
            follows: Whether to wait for further ones until the trace ends.
        """
        path, at = await self._path_of(name), 0
        trace = self._running.get(name)
        if trace is not None:
            await trace.file.flushed()
        while True:
            trace = self._running.get(name)
            lines, at = await asyncio.to_thread(lines_of, path, at)
            if lines:
                yield lines
            elif trace is None or not follows:
                closing = self._closing.get(name)
                if closing is None or closing.done():
                    return
                await asyncio.wait([closing])
            elif trace.file.size <= at:
                await trace.file.changed()

    async def piece(self, name: str, position: int, size: int) -> TracePiece:
        """A piece of a trace for people, of whole records.

        Args:
            position: Where in its file it begins.
            size: Bytes of it, about; one record comes whole.
        """
        path = await self._path_of(name)
        trace = self._running.get(name)
        if trace is not None:
            await trace.file.flushed()
        return await asyncio.to_thread(piece_of, path, position, size)

    # --- called by the part

    def tick(self, uptime_us: int) -> None:
        for trace in list(self._running.values()):
            if uptime_us >= trace.due_us:
                self._end(trace, "its duration is over")
            elif uptime_us >= trace.begins_us and not trace.is_on:
                beginning = asyncio.get_running_loop().create_task(self._begin(trace), name=f"trace {trace.name}")
                self._beginning.add(beginning)
                beginning.add_done_callback(self._beginning.discard)
        for name in [name for name, closing in self._closing.items() if closing.done()]:
            del self._closing[name]

    async def close(self) -> None:
        if self._beginning:
            await asyncio.wait(self._beginning)
        for trace in list(self._running.values()):
            self._end(trace, "the node stops")
        if self._closing:
            await asyncio.wait(self._closing.values())
        if self._executor is not None:
            self._executor.shutdown()

    def statistics(self) -> dict[str, int]:
        running = self._running.values()
        dropped = self._dropped_count + sum(trace.file.dropped_count for trace in running)
        return {"traces.count": len(running), "traces.records_dropped": dropped}

    # --- inside

    def _checked(self, order: TraceOrder) -> Subject:
        for what, name in (("name", order.name), ("file", order.file or order.name)):
            if not _NAME.fullmatch(name):
                valid = "1 to 249 letters, digits, '-', '_' and '.', beginning with a letter or digit"
                raise TraceError(f"{name!r} is no {what} of a trace: expected {valid}")
        if order.name in self._running:
            raise TraceExistsError(f"a trace {order.name!r} is on: `trace stop {order.name}` ends it")
        if len(self._running) >= _TRACES_MAX:
            raise TraceError(f"{_TRACES_MAX} traces are on, and more cannot be: stop one of them")
        for one in self._running.values():
            same = (one.subject.kind, one.subject.value) == (order.kind, order.value)
            if same and order.start_at and int(one.order.start_at) == int(order.start_at):
                raise TraceDuplicateError(f"the trace {one.name!r} is about the same, from the same second on")
        if order.formatter not in FORMATTERS:
            raise TraceError(f"formatter {order.formatter!r}: expected one of {', '.join(FORMATTERS)}")
        if order.start_at > self._now_s() + START_S_MAX:
            raise TraceError("a trace begins within 30 days")
        if order.payload not in PAYLOADS:
            raise TraceError(f"payload {order.payload!r}: expected one of {', '.join(PAYLOADS)}")
        if not 1 <= order.duration_s <= DURATION_S_MAX:
            raise TraceError(f"a trace lasts 1 to {DURATION_S_MAX} seconds, not {order.duration_s}")
        if order.size_max < SIZE_BYTES_MIN:
            raise TraceError(f"the file of a trace may have {SIZE_BYTES_MIN} bytes at least, not {order.size_max}")
        try:
            return Subject.parse(order.kind, order.value)
        except ValueError as error:
            raise TraceError(str(error)) from None

    async def _path_of(self, name: str) -> Path:
        trace = self._running.get(name)
        if trace is not None:
            return trace.file.path
        for one in await asyncio.to_thread(stored_traces, self._folder, _FILES_MAX):
            if one.name == name:
                return one.path
        raise TraceNotFoundError(f"there is no trace {name!r}; `trace list` tells which there are")

    def _rows(self) -> dict[Path, StoredTrace]:
        return {trace.file.path: self._row(trace) for trace in self._running.values()}

    def _row(self, trace: Trace) -> StoredTrace:
        left_s = max(0, (trace.due_us - int(self._broker.uptime_us)) // 1_000_000)
        file = trace.file
        return StoredTrace(
            trace.name,
            trace.subject.kind,
            trace.subject.value,
            "running" if trace.is_on else "waiting",
            iso(trace.started_at_us),
            left_s,
            file.size,
            file.dropped_count,
            file.path,
            trace.order.duration_s,
            trace.order.payload,
            trace.order.formatter,
        )

    def _now_s(self) -> float:
        return int(self._broker.now_us) / 1_000_000

    def _end_soon(self, name: str, why: str) -> None:
        """End a trace in a turn of its own: it is in the middle of a record."""
        trace = self._running.get(name)
        if trace is not None:
            self._context.defer(lambda: self._end(trace, why))

    def _end(self, trace: Trace, why: str) -> None:
        if self._running.get(trace.name) is not trace:
            return
        del self._running[trace.name]
        if trace.is_on:
            self._recorder.ended(trace)
            self._joint.unmark(trace)
            self._joint.join()
        now_us, dropped = int(self._broker.now_us), trace.file.dropped_count
        self._dropped_count += dropped
        trace.file.end({"at": iso(now_us), "event": "trace_ended", "why": why, "dropped": dropped})
        self._closing[trace.name] = asyncio.get_running_loop().create_task(self._close(trace))
        self._tell(f"trace {trace.name!r} ended: {why}; {trace.records_count} records, {dropped} dropped")

    async def _close(self, trace: Trace) -> None:
        """Close the file of a trace that has ended, and make room for it."""
        await trace.file.close()
        running, path = {one.file.path for one in self._running.values()}, trace.file.path
        if removed := await asyncio.to_thread(remove_oldest, self._folder, self.bytes_max, path, running):
            self._tell(
                f"the files of ended traces had more than {self.bytes_max:,} bytes (diagnose.traces.max_bytes): "
                f"removed are the oldest, {', '.join(removed)}"
            )
