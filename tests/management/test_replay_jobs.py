"""Jobs that are cancelled while they end, apart from a node."""

import asyncio

from heliograph.management.replays.jobs import FAILED, Job, Jobs, Owner, State
from heliograph.management.web.callers import Caller
from heliograph.processes.programs import PROGRAMS
from support.waiting import until

_SILENT = "abc"  # a program that tells nothing, and ends


async def _may() -> None:
    """The owner may have it go on."""


class _Slow(Job):
    """A job whose end takes as long as a test wants."""

    def __init__(self) -> None:
        super().__init__(_SILENT, Owner(Caller("ann", "user", "operator"), _may), {}, 60.0)
        self.is_ending = self.has_ended = False
        self.may_end = asyncio.Event()

    async def take(self, told: State) -> None:
        """Its process tells nothing."""

    async def ended(self) -> None:
        self.is_ending = True
        await self.may_end.wait()
        self.has_ended = True


async def test_a_job_that_is_cancelled_while_it_ends_has_ended_behind_that() -> None:
    jobs, job = Jobs(1, 1), _Slow()
    jobs.add(job)
    job.run(b"", PROGRAMS)
    await until(lambda: job.is_ending)
    watching = asyncio.create_task(_last_of(job))
    removing = [asyncio.create_task(jobs.remove(job)) for _ in range(2)]  # by two callers at once
    for _ in range(20):
        await asyncio.sleep(0)
    assert not any(one.done() for one in removing), "it has not ended"
    job.may_end.set()
    await asyncio.gather(*removing)
    assert job.has_ended
    assert await asyncio.wait_for(watching, 30) == b"event: end"
    assert (job.state, repr(jobs)) == (FAILED, "Jobs(0)")


async def _last_of(job: Job) -> bytes:
    """The name of the last event of a job."""
    events = [event async for event in job.events()]
    return events[-1].split(b"\n")[0]
