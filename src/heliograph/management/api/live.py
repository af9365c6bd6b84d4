"""What nodes do now, as server-sent events for pages that are open."""

from contextlib import ExitStack
from typing import Annotated, Final

from fastapi import Query, Request
from starlette.responses import StreamingResponse

from heliograph.management.live.events import LIVE_EVENTS
from heliograph.management.live.hub import LiveHub
from heliograph.management.web.area import Area
from heliograph.management.web.callers import authorize, require
from heliograph.management.web.errors import ApiError
from heliograph.management.web.event_streams import EventStream
from heliograph.management.web.places import place

area = Area("Live", "What nodes do now, as it happens.")

_SCOPE: Final = "metrics:read"
_STREAMS_MAX: Final = 50


@area.get(
    "/heliograph/live",
    scope=_SCOPE,
    response_class=StreamingResponse,
    events=LIVE_EVENTS,
    errors={400: ("INVALID_PARAMETER",)},
)
async def watch_live(
    request: Request,
    of: Annotated[str, Query(max_length=1000, description="Names of subjects with commas between them")] = "overview",
) -> StreamingResponse:
    """The present state: an event for each subject at the beginning and at each change, at most one a second.

    An event has the name of its subject; `failed` says that one cannot be looked at now, and `end` why the stream ends:
    it does so with the login of its caller. A slow reader gets the newest events only.
    """
    hub: LiveHub = request.app.state.live
    names = {name.strip() for name in of.split(",")}
    if unknown := sorted(names - hub.subjects.keys()):
        known = ", ".join(hub.subjects)
        raise ApiError(400, "INVALID_PARAMETER", f"of: there is no {unknown[0][:100]!r}; valid are {known}")

    def check_scopes() -> None:
        for name in sorted(names):
            require(request.state.caller, hub.subjects[name].scope, request.method)

    async def check() -> None:
        await authorize(request, _SCOPE)
        check_scopes()

    check_scopes()
    with ExitStack() as held:
        held.enter_context(place(request, "live streams", _STREAMS_MAX))
        stream = hub.open(names, check)
        held.callback(hub.close, stream)
        return EventStream(stream.events(), held.pop_all())
