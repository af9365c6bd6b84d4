"""What the processes have in common that a node keeps running beside itself: who owns them, and how they end."""

import asyncio
import contextlib


class ChildProcess:
    """A process that is started again when it dies. Owned by the node, from `start` to `stop`, in its event loop.

    A kind of process says how it is started, and in `_supervise` what follows its death.

    Args:
        name: What it is called among the tasks of the loop.
        stop_s: How long it may take to end in order.
    """

    def __init__(self, name: str, stop_s: float) -> None:
        self._name = name
        self._stop_s = stop_s
        self._process: asyncio.subprocess.Process | None = None
        self._supervisor: asyncio.Task[None] | None = None
        self._restarts = 0

    @property
    def pid(self) -> int | None:
        """The id of the process that runs now."""
        return self._process.pid if self._process is not None and self._process.returncode is None else None

    async def stop(self) -> None:
        """Have it end in order, and wait until it is gone."""
        if self._supervisor is not None:
            self._supervisor.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._supervisor
            self._supervisor = None
        if self._process is not None:
            await self._end(self._process)
            self._process = None

    def _watch(self) -> None:
        self._supervisor = asyncio.create_task(self._supervise(), name=self._name)

    async def _supervise(self) -> None:
        """Run until cancelled: wait for the process's end, and start another."""
        raise NotImplementedError(type(self).__name__)

    async def _end(self, process: asyncio.subprocess.Process) -> None:
        """Ask it to stop, then make it."""
        if process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                process.terminate()
        try:
            await asyncio.wait_for(process.wait(), self._stop_s)
        except TimeoutError:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()
