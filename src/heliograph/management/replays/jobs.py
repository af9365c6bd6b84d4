"""Jobs: processes that read stored messages for a while, and their state, until they are forgotten."""

import asyncio
import uuid
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any, Final

from heliograph.access.people.names import ADMINISTRATOR
from heliograph.management.replays.process import to_its_end, told_by
from heliograph.management.web.callers import Caller
from heliograph.management.web.errors import ApiError
from heliograph.management.web.event_streams import CHECK_S, event_of, refusal_of
from heliograph.processes.programs import Programs

RUNNING: Final = "running"
FINISHED: Final = "finished"
FAILED: Final = "failed"
CANCELLED: Final = "cancelled"

State = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Owner:
    """Who began a job, and may see and end it, as administrators may.

    Attributes:
        check: Raises `ApiError` when its caller may not go on with it.
    """

    caller: Caller
    check: Callable[[], Awaitable[None]]


class Job(ABC):
    """One job, from its beginning until it is forgotten; owned by `Jobs`.

    Args:
        module: The program of its process.
        owner: Who began it; it ends when that one may not go on with it.
        order: What was asked for, as its asker sees it again.
        seconds_max: How long it may take.

    Attributes:
        error: Why it failed; empty while it has not.
    """

    def __init__(self, module: str, owner: Owner, order: State, seconds_max: float) -> None:
        self.id = uuid.uuid4().hex
        self.owner = owner
        self.state = RUNNING
        self.error: State = {}
        self.order = order
        self.progress: State = {"share": 0.0}
        self.changed = asyncio.Event()
        self._module = module
        self._seconds_max = seconds_max
        self._tasks: list[asyncio.Task[None]] = []
        self._guards: list[asyncio.Task[None]] = []

    @abstractmethod
    async def take(self, report: State) -> None:
        """Take a line of its process; the next one is read after this."""

    @abstractmethod
    async def ended(self) -> None:
        """It has ended, whatever came of it."""

    def run(self, request: bytes, programs: Programs) -> None:
        """Begin it.

        Args:
            programs: Starts its process.
        """
        self.work(self._run(request, programs), self.owner.check, self._refuse)

    async def cancel(self) -> None:
        """End it; its process has ended behind this."""
        running = [*self._tasks, *self._guards]
        for task in running:
            task.cancel()
        if running:
            await asyncio.wait(running)

    def is_seen_by(self, caller: Caller) -> bool:
        """Whether a caller may see and end it."""
        own = self.owner.caller
        return (own.kind, own.name) == (caller.kind, caller.name) or caller.role == ADMINISTRATOR

    @property
    def is_idle(self) -> bool:
        """Whether nothing of it runs, or is about to."""
        return self.state != RUNNING and all(task.done() for task in self._tasks)

    def whole(self) -> State:
        """The same as `shown`, with its result when it has one."""
        return self.shown()

    def shown(self) -> State:
        shown = {"id": self.id, "state": self.state, **self.order, "progress": self.progress}
        return {**shown, "error": self.error} if self.error else shown

    async def events(self) -> AsyncGenerator[bytes, None]:
        """What becomes of it, as server-sent events, until nothing of it runs."""
        while True:
            changed, is_idle = self.changed, self.is_idle
            yield event_of("end" if is_idle else "progress", self.shown())
            if is_idle:
                return
            await changed.wait()

    def fail(self, message: str) -> None:
        self.state, self.error = FAILED, {"code": "job", "message": message}

    def tell(self) -> None:
        changed, self.changed = self.changed, asyncio.Event()
        changed.set()

    def work(
        self,
        work: Coroutine[Any, Any, None],
        check: Callable[[], Awaitable[None]],
        refuse: Callable[[str], None],
    ) -> None:
        """Do something for it, as long as that is allowed.

        Args:
            check: Raises `ApiError` when it is not.
            refuse: Takes why, before the work is cancelled.
        """
        task = asyncio.create_task(work, name="job")
        self._tasks.append(task)
        self._guards.append(asyncio.create_task(_guard(task, check, refuse), name="check of a job"))

    def _refuse(self, why: str) -> None:
        if self.state == RUNNING:
            self.fail(why)

    async def _run(self, request: bytes, programs: Programs) -> None:
        try:
            async with asyncio.timeout(self._seconds_max):
                async with aclosing(told_by(programs, self._module, request)) as lines:
                    async for report in lines:
                        await self.take(report)
                        self.tell()
            if self.state == RUNNING:
                self.fail("its process ended too soon; the log of the node says why")
        except TimeoutError:
            self.fail(f"it did not end within {self._seconds_max:.0f} s: ask for less")
        except asyncio.CancelledError:
            if self.state == RUNNING:
                self.state = CANCELLED
            raise
        except (OSError, ValueError) as error:
            self.fail(f"its process cannot be run: {error}")
        finally:
            try:
                await to_its_end(self.ended())
            finally:
                asyncio.get_running_loop().call_soon(self.tell)  # when this task has ended


async def _guard(task: asyncio.Task[None], check: Callable[[], Awaitable[None]], refuse: Callable[[str], None]) -> None:
    while not task.done():
        await asyncio.wait([task], timeout=CHECK_S)  # the pace of checks
        refusal = None if task.done() else await refusal_of(check)
        if refusal is not None:
            refuse(f"it was ended: {refusal.message}")
            task.cancel()
            return


class Jobs:
    """The jobs of one kind.

    Args:
        at_once_max: How many may run.
        kept_max: How many are kept, with those that have ended.
    """

    def __init__(self, at_once_max: int, kept_max: int) -> None:
        self._at_once_max = at_once_max
        self._kept_max = kept_max
        self._jobs: dict[str, Job] = {}

    def check_room(self) -> None:
        """Make room for another one.

        Raises:
            ApiError: 503, as many run as there may.
        """
        if sum(not one.is_idle for one in self._jobs.values()) >= self._at_once_max:
            text = f"{self._at_once_max} replays are under way: end one, or try again"
            raise ApiError(503, "SERVICE_UNAVAILABLE", text)

    def add(self, job: Job) -> None:
        """Keep one; the oldest that have ended are forgotten."""
        idle = [one.id for one in self._jobs.values() if one.is_idle]
        for old in idle[: max(0, len(self._jobs) - self._kept_max + 1)]:
            del self._jobs[old]
        self._jobs[job.id] = job

    def all(self, caller: Caller) -> list[Job]:
        """Those that a caller may see, the oldest first."""
        return [job for job in self._jobs.values() if job.is_seen_by(caller)]

    def find(self, job_id: str, caller: Caller) -> Job:
        """One by its id.

        Raises:
            ApiError: 404, there is none that the caller may see.
        """
        found = self._jobs.get(job_id)
        if found is None or not found.is_seen_by(caller):
            text = f"there is no replay {job_id[:100]!r} of yours; the oldest are forgotten"
            raise ApiError(404, "NOT_FOUND", text)
        return found

    async def remove(self, job: Job) -> None:
        await job.cancel()
        self._jobs.pop(job.id, None)

    async def stop(self) -> None:
        for job in [*self._jobs.values()]:
            await self.remove(job)

    def __repr__(self) -> str:
        return f"Jobs({len(self._jobs)})"
