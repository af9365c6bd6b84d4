"""Alarms: what is wrong with a node for longer than a moment."""

from typing import Annotated, Any, Final

from fastapi import Query, Response
from pydantic import ConfigDict, Field

from heliograph.control.proto_v1.alarms import (
    ALARMS_CLEAR,
    ALARMS_DEACTIVATE,
    ALARMS_LIST,
    AlarmName,
    AlarmRow,
    AlarmsWanted,
)
from heliograph.management.asking.nodes import Node
from heliograph.management.web.area import Area
from heliograph.management.web.asked_nodes import NodesDep
from heliograph.management.web.errors import ApiError
from heliograph.management.web.models import Body, Str
from heliograph.management.web.paging import PageDep, page_of
from heliograph.management.web.rows import ApiRow
from heliograph.management.web.times import NowDep
from heliograph.rpc.methods import RpcError

area = Area("Alarms", "What is wrong for longer than a moment, and what was.", scope="alarms")

_NOT_ACTIVE = "not_found"  # of `alarms.deactivate`


_Duration = Annotated[int, Field(description="Milliseconds from its begin to its end, or until now")]
_ALARM: Final = ApiRow("AlarmShown", AlarmRow, node=str, duration=_Duration)


class AlarmToEnd(Body):
    """An active alarm."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [{"name": "high_cpu_usage"}]})

    name: Str = Field(min_length=1, max_length=1000)


@area.get("/alarms", answers=_ALARM.page)
async def list_alarms(
    nodes: NodesDep,
    now_s: NowDep,
    page: PageDep,
    activated: Annotated[bool, Query(description="Those that go on, or those that ended")] = True,
) -> Response:
    """Active alarms, or those that ended, the newest first."""
    rows = [
        _shown(node, row, now_s)
        for node in nodes.all()
        for row in await node.rows(ALARMS_LIST(AlarmsWanted(history=not activated)))
    ]
    rows.sort(key=lambda row: str(row["deactivate_at" if not activated else "activate_at"]), reverse=True)
    return page_of(rows, page)


@area.delete("/alarms")
async def delete_alarms(nodes: NodesDep) -> None:
    """Forget the alarms that ended."""
    for node in nodes.all():
        await node.ask(ALARMS_CLEAR())


@area.post("/alarms/force_deactivate", status=204, errors={400: ("NOT_FOUND", "INVALID_PARAMETER")})
async def force_deactivate_alarm(body: AlarmToEnd, nodes: NodesDep) -> None:
    """End an alarm by hand. It comes back when its cause ends and occurs again."""
    found, message = False, ""
    for node in nodes.all():
        try:
            await node.ask(ALARMS_DEACTIVATE(AlarmName(body.name)))
            found = True
        except RpcError as error:
            if error.code != _NOT_ACTIVE:
                raise
            message = error.message
    if not found:
        raise ApiError(400, "NOT_FOUND", message)


def _shown(node: Node, row: AlarmRow, now_s: float) -> dict[str, Any]:
    until = int(now_s * 1000) if row.deactivate_at is None else row.deactivate_at
    return _ALARM(row, node=node.name, duration=max(0, until - row.activate_at))
