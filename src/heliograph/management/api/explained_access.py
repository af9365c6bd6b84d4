"""Why a client may do something, or may not."""

from typing import Annotated, Any, Final, Literal

import msgspec
from fastapi import Query

from heliograph.control.proto_v1.authorization import AUTHZ_EXPLAIN, ExplainWanted, Explanation
from heliograph.management.web.answering import answering
from heliograph.management.web.area import MISSING, Area
from heliograph.management.web.asked_nodes import NodesDep
from heliograph.management.web.rows import ApiRow

area = Area("Explained access", "Why a client may do something, or may not.")


_EXPLAINED: Final = ApiRow("ExplainedAccess", Explanation)


@area.get(
    "/heliograph/authorization/explain",
    scope="authorization:read",
    errors=MISSING,
    answers=_EXPLAINED.one,
)
async def explain_access(
    nodes: NodesDep,
    clientid: Annotated[str, Query(min_length=1)],
    action: Annotated[Literal["publish", "subscribe"], Query()],
    topic: Annotated[str, Query(min_length=1, description="The topic, or the filter as the client writes it")],
    qos: Annotated[int, Query(ge=0, le=2)] = 0,
    retain: bool = False,
    username: Annotated[str | None, Query(description="Of a client that is not connected")] = None,
    peerhost: Annotated[str | None, Query(description="Its address")] = None,
    listener: Annotated[str | None, Query(description="Its listener, as tcp:default")] = None,
    zone: str | None = None,
    is_superuser: bool | None = None,
) -> dict[str, Any]:
    """Which source and rule decide. A client that is not connected is described by `username`, `peerhost` and so on."""
    described = {
        name: value
        for name, value in {
            "username": username,
            "peerhost": peerhost,
            "listener": listener,
            "zone": zone,
            "is_superuser": is_superuser,
        }.items()
        if value is not None
    }
    asked = {"clientid": clientid, "action": action, "topic": topic, "qos": qos, "retain": retain, **described}
    wanted = msgspec.convert({**asked, "is_described": bool(described)}, ExplainWanted)
    with answering():
        found = await nodes.own.ask(AUTHZ_EXPLAIN(wanted))
    return _EXPLAINED(found)
