"""What replays of messages and of rules share: who finds them, and the routes of one."""

from collections.abc import Callable
from typing import Any, Final

from fastapi import Request
from starlette.responses import StreamingResponse

from heliograph.management.replays.jobs import Job, Jobs
from heliograph.management.web.area import Area
from heliograph.management.web.errors import ApiError
from heliograph.management.web.event_streams import StreamEnd, event_stream

MISSING: Final = {404: ("NOT_FOUND",)}


def jobs_of(kind: str, at_once_max: int, kept_max: int) -> Callable[[Request], Jobs]:
    """What finds the replays of one kind.

    Args:
        kind: In paths and operations: `rule_replay`.
    """

    def jobs(request: Request) -> Jobs:
        found: Jobs = request.app.state.jobs.setdefault(kind, Jobs(at_once_max, kept_max))
        return found

    return jobs


def found(jobs: Callable[[Request], Jobs], request: Request, replay_id: str) -> Job:
    return jobs(request).find(replay_id, request.state.caller)


def add_replay_routes(
    area: Area, kind: str, jobs: Callable[[Request], Jobs], reads: str, writes: str, answers: Any, got: str, ended: str
) -> None:
    """Add the routes that get, watch and end a replay.

    Args:
        reads: The scope that sees replays.
        writes: The scope that ends them.
        answers: The type of one.
        got: What the document says that one gets.
        ended: What the document says of the end.
    """
    one = f"/heliograph/{kind}s/{{id}}"

    @area.get(one, scope=reads, name=f"get_{kind}", description=got, answers=answers, errors=MISSING)
    async def get(id: str, request: Request) -> dict[str, Any]:
        return found(jobs, request, id).whole()

    @area.get(
        f"{one}/events",
        scope=reads,
        name=f"watch_{kind}",
        response_class=StreamingResponse,
        events={"progress": answers, "end": answers, "refused": StreamEnd},
        errors=MISSING,
    )
    async def watch(id: str, request: Request) -> StreamingResponse:
        """The progress of a replay as events `progress`, and `end` when it has ended."""
        return event_stream(request, reads, found(jobs, request, id).events(), "refused")

    @area.delete(
        one, scope=writes, name=f"delete_{kind}", description=f"End and forget a replay; {ended}.", errors=MISSING
    )
    async def delete(id: str, request: Request) -> None:
        await jobs(request).remove(found(jobs, request, id))


def wrong(field: str, fault: str) -> ApiError:
    return ApiError(400, "INVALID_PARAMETER", f"{field}: {fault}", field=field)
