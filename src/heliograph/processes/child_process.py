"""A process beside this one, in an event loop: ended with its owner, and where that is wanted started again."""

import asyncio
import contextlib
from typing import Final

from heliograph.processes.backoff import Backoff

STEADY_S: Final = 60.0  # what has lived so long has recovered: the next failure is the first again


class ChildProcess:
    """A process that may run; its owner calls `stop`, in its event loop, which gives it `stop_s` to end in order."""

    def __init__(self, stop_s: float) -> None:
        self._stop_s = stop_s
        self._process: asyncio.subprocess.Process | None = None

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process is not None and self._process.returncode is None else None

    async def stop(self) -> None:
        """End it in order, and wait until it is gone."""
        process, self._process = self._process, None
        if process is not None:
            await self._end(process)

    async def _end(self, process: asyncio.subprocess.Process) -> None:
        """End its input and ask it to stop, then make it."""
        if process.stdin is not None:
            process.stdin.close()
        if process.returncode is None:
            self._ask_to_stop(process)
        try:
            await asyncio.wait_for(process.wait(), self._stop_s)
        except TimeoutError:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()

    def _ask_to_stop(self, process: asyncio.subprocess.Process) -> None:
        """Ask a process to stop that does not when its input ends."""
        with contextlib.suppress(ProcessLookupError):
            process.terminate()


class SupervisedProcess(ChildProcess):
    """A process that is started again when it dies. Owned by the node, from `_watch` to `stop`.

    A kind of process says in `_spawn` how it is started, and in `_failed` what its end means.
    """

    def __init__(self, name: str, stop_s: float, backoff: Backoff) -> None:
        super().__init__(stop_s)
        self._name = name
        self._backoff = backoff
        self._supervisor: asyncio.Task[None] | None = None
        self._restarts = 0
        self._hurried = asyncio.Event()

    async def stop(self) -> None:
        if self._supervisor is not None:
            self._supervisor.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._supervisor
            self._supervisor = None
        await super().stop()

    def _watch(self) -> None:
        """Supervise the process that runs, or one that is started now."""
        self._supervisor = asyncio.create_task(self._supervise(), name=self._name)

    def _hurry(self) -> None:
        """What it goes by has changed: after an end it is started again without a pause."""
        self._hurried.set()

    async def _supervise(self) -> None:
        loop = asyncio.get_running_loop()
        is_first, failures = True, 0
        while True:
            began = loop.time()
            steady = loop.call_later(STEADY_S, self._is_steady)
            problem: Exception | None = None
            try:
                if self._process is None:
                    self._hurried.clear()
                    self._process = await self._spawn()
                    self._restarts += not is_first
                    self._runs(self._process, is_first)
                await self._until_end(self._process)
            except Exception as error:  # noqa: BLE001 - whatever it was, the process is started again
                problem = error
            finally:
                steady.cancel()
            process, self._process, is_first = self._process, None, False
            failures = 1 if loop.time() - began >= STEADY_S else failures + 1
            pause_s = self._backoff.pause_s(failures)
            self._failed(process, problem, failures, pause_s)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._hurried.wait(), pause_s)

    async def _spawn(self) -> asyncio.subprocess.Process:
        """Start it; after what it raises, `_failed` is called."""
        raise NotImplementedError(type(self).__name__)

    async def _until_end(self, process: asyncio.subprocess.Process) -> None:
        """Wait for the end of a process, and take what it says until then."""
        await process.wait()

    def _runs(self, process: asyncio.subprocess.Process, is_first: bool) -> None: ...

    def _is_steady(self) -> None:
        """It has run for a minute."""

    def _failed(
        self, process: asyncio.subprocess.Process | None, problem: Exception | None, failures: int, pause_s: float
    ) -> None:
        """It ended, or did not start (None). `failures` in a row include this one; it starts again after `pause_s`."""
        raise NotImplementedError(type(self).__name__)
