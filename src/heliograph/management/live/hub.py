"""Takes a look at each subject that any stream wants, and gives it to all of them."""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping
from typing import Final

from heliograph.management.asking.nodes import Nodes
from heliograph.management.live.subject import LiveSubject, Look
from heliograph.management.web.errors import ApiError
from heliograph.management.web.event_streams import ALIVE, ALIVE_S, CHECK_S, event_of, refusal_of
from heliograph.rpc.conversation import UnreachableError
from heliograph.rpc.methods import RpcError

_BEGIN: Final = b"retry: 2000\n\n"  # milliseconds after which a browser connects again


class LiveStream:
    """The events of some subjects for one reader; owned by the hub from `open` to `close`.

    Args:
        names: Of the subjects.
        check: Raises `ApiError` when the reader may not watch them any more.
    """

    def __init__(self, names: Collection[str], check: Callable[[], Awaitable[None]]) -> None:
        self.names = frozenset(names)
        self.check = check
        self._waiting: dict[str, bytes] = {}
        self._came = asyncio.Event()
        self._end = b""

    def put(self, name: str, event: bytes) -> None:
        """Send an event, in the place of an older one of the same subject."""
        self._waiting.pop(name, None)
        self._waiting[name] = event
        self._came.set()

    def end(self, code: str, message: str) -> None:
        self._end = event_of("end", {"code": code, "message": message})
        self._came.set()

    async def events(self) -> AsyncIterator[bytes]:
        yield _BEGIN
        while True:
            try:
                async with asyncio.timeout(ALIVE_S):
                    await self._came.wait()
            except TimeoutError:
                yield ALIVE
                continue
            self._came.clear()
            taken, self._waiting = self._waiting, {}
            yield b"".join(taken.values()) + self._end
            if self._end:
                return

    def __repr__(self) -> str:
        return f"LiveStream({', '.join(sorted(self.names))})"


_log = logging.getLogger(__name__)

_LOOK_S: Final = 5.0  # so long a look may take: a node that hangs is reported
_SOON_S: Final = 0.25  # after the first look the second follows so soon: rates need two


class Watch:
    """One subject while a stream wants it; owned by the hub.

    Attributes:
        readers: The streams.
    """

    def __init__(self, subject: LiveSubject, nodes: Nodes, look_s: float) -> None:
        self.readers: set[LiveStream] = set()
        self._look_s = look_s
        self._subject = subject
        self._last = b""
        self._task = asyncio.create_task(self._run(subject.begin(nodes)), name=f"live {subject.name}")

    def add(self, reader: LiveStream) -> None:
        """One more stream, which gets the newest event at once."""
        self.readers.add(reader)
        if self._last:
            reader.put(self._subject.name, self._last)

    def stop(self) -> asyncio.Task[None]:
        self._task.cancel()
        return self._task

    async def _run(self, look: Look) -> None:
        loop, period_s = asyncio.get_running_loop(), self._subject.period_s
        wait_s = min(_SOON_S, period_s)
        while True:
            event = await self._event(look)
            if event != self._last:
                self._last = event
                for reader in self.readers:
                    reader.put(self._subject.name, event)
            await asyncio.sleep(wait_s)  # the pace of the subject
            wait_s = period_s - loop.time() % period_s  # all subjects at the same moments: the process wakes up once

    async def _event(self, look: Look) -> bytes:
        name = self._subject.name
        try:
            async with asyncio.timeout(self._look_s):
                return event_of(name, await look())
        except TimeoutError:
            return _failed(name, "NODE_DOWN", f"the node does not answer within {self._look_s:g} s")
        except UnreachableError as error:
            return _failed(name, "NODE_DOWN", f"the node does not answer: {error}")
        except RpcError as error:
            return _failed(name, "SERVICE_UNAVAILABLE", error.message)
        except Exception:  # noqa: BLE001 - the next look may succeed
            _log.exception("a look at the subject %s failed", name)
            return _failed(name, "INTERNAL_ERROR", "an error of ours; the log has more of it")


class LiveHub:
    """All streams of the process; owned by the program, which stops it.

    Args:
        subjects: What can be watched.
        look_s: How long a look may take, in seconds.

    Attributes:
        subjects: What can be watched, by name.
    """

    def __init__(self, subjects: Collection[LiveSubject], nodes: Nodes, look_s: float = _LOOK_S) -> None:
        self._look_s = look_s
        self.subjects: Mapping[str, LiveSubject] = {one.name: one for one in subjects}
        self._nodes = nodes
        self._streams: set[LiveStream] = set()
        self._watches: dict[str, Watch] = {}
        self._checking: asyncio.Task[None] | None = None
        self._is_stopping = False

    def open(self, names: Collection[str], check: Callable[[], Awaitable[None]]) -> LiveStream:
        """Begin a stream, which `close` ends.

        Args:
            names: Of subjects.
            check: Raises `ApiError` when the reader may not watch them any more.

        Raises:
            ApiError: 503, the process stops.
        """
        if self._is_stopping:
            raise ApiError(503, "SERVICE_UNAVAILABLE", "the process stops", headers={"retry-after": "5"})
        stream = LiveStream(names, check)
        self._streams.add(stream)
        for name in stream.names:
            if name not in self._watches:
                self._watches[name] = Watch(self.subjects[name], self._nodes, self._look_s)
            self._watches[name].add(stream)
        if self._checking is None:
            self._checking = asyncio.create_task(self._check(), name="live streams")
        return stream

    def close(self, stream: LiveStream) -> None:
        """A stream has ended; what only it wanted is not looked at any more."""
        self._streams.discard(stream)
        for name in stream.names:
            watch = self._watches.get(name)
            if watch is not None:
                watch.readers.discard(stream)
                if not watch.readers:
                    self._watches.pop(name).stop()
        if not self._streams and self._checking is not None:
            self._checking.cancel()
            self._checking = None

    async def stop(self) -> None:
        self._is_stopping = True
        for stream in self._streams:
            stream.end("SERVICE_UNAVAILABLE", "the process stops")
        tasks = [watch.stop() for watch in self._watches.values()]
        if self._checking is not None:
            self._checking.cancel()
            tasks.append(self._checking)
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _check(self) -> None:
        while True:
            await asyncio.sleep(CHECK_S)  # the pace of checks
            await asyncio.gather(*(_check_one(stream) for stream in list(self._streams)))

    def __repr__(self) -> str:
        return f"LiveHub({len(self._streams)} streams, {len(self._watches)} subjects)"


async def _check_one(stream: LiveStream) -> None:
    if (refusal := await refusal_of(stream.check)) is not None:
        stream.end(refusal.code, refusal.message)


def _failed(name: str, code: str, message: str) -> bytes:
    return event_of("failed", {"of": name, "code": code, "message": message})
