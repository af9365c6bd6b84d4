"""What nodes did in the last seven days, as charts show it."""

import sqlite3
from typing import Annotated, Final

from fastapi import Query, Request, Response

from heliograph.management.history.history import History
from heliograph.management.history.series import NAMES
from heliograph.management.web.area import Area
from heliograph.management.web.asked_nodes import NodesDep
from heliograph.management.web.errors import ApiError
from heliograph.management.web.models import Row
from heliograph.management.web.paging import json_response

area = Area("Charts", "What nodes did in the last seven days, in few points.")

_WEEK_S: Final = 7 * 86_400
_DEFAULT: Final = "received,sent,dropped,live_connections"


class Chart(Row):
    """Points of several values.

    Attributes:
        at: When the stretch of each point begins, in milliseconds since the epoch.
    """

    step_s: int
    at: list[int]
    values: dict[str, list[float | None]]


@area.get(
    "/heliograph/history", scope="metrics:read", response_model=Chart, errors={400: ("INVALID_PARAMETER", "BAD_RPC")}
)
async def get_history(
    request: Request,
    nodes: NodesDep,
    of: Annotated[str, Query(max_length=1000, description=f"Of {', '.join(NAMES)}")] = _DEFAULT,
    seconds: Annotated[int, Query(ge=60, le=_WEEK_S, description="Of so many last seconds")] = 3600,
    points: Annotated[int, Query(ge=10, le=1000, description="So many points at the most")] = 360,
    node: Annotated[str | None, Query(description="One node; otherwise the sum of all")] = None,
) -> Response:
    """Rates per second and sizes for each stretch of time; null where no node ran."""
    names = [name.strip() for name in of.split(",")]
    if unknown := [name for name in names if name not in NAMES]:
        raise ApiError(400, "INVALID_PARAMETER", f"of: there is no {unknown[0][:100]!r}; valid are {', '.join(NAMES)}")
    history: History = request.app.state.history
    try:
        return json_response(await history.points(nodes.chosen(node), names, seconds, points))
    except sqlite3.Error as error:
        raise ApiError(400, "BAD_RPC", f"the history cannot be read: {error}") from error
