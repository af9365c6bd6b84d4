"""Why a client may do something, or may not."""

from typing import Annotated, Literal

import msgspec
from fastapi import Query
from typing_extensions import TypedDict

from heliograph.control.proto_v1.authorization import AUTHZ_EXPLAIN, ExplainWanted
from heliograph.management.web.answering import answering
from heliograph.management.web.area import Area
from heliograph.management.web.asked_nodes import NodesDep

area = Area("Explained access", "Why a client may do something, or may not.")


class AccessStep(TypedDict):
    """What was asked, and what it said.

    Attributes:
        source: `superuser`, `client_info` (or what else made the ACL that the client carries), the type of a source, or
            `no_match`.
        said: `allow`, `deny`, `nomatch`, `ignore`, `error`, `no`, `disabled` or `not asked`.
        rule: The rule that decided, as it is written; empty if none did.
        place: Where the rule stands, as `/etc/heliograph/acl.conf:12`; empty if that is not known.
        why: What went wrong, or what else there is to say.
    """

    source: str
    said: str
    rule: str
    place: str
    why: str


class ExplainedAccess(TypedDict):
    """Whether a client may do something, and why.

    Attributes:
        is_connected: Whether it is connected; else it was described.
        topic: What was checked: without `$delayed/N/` and `$share/GROUP/`.
        decided_by: The step that decided.
        deny_action: What happens to a client that is denied.
    """

    clientid: str
    username: str | None
    peerhost: str
    listener: str
    is_connected: bool
    action: str
    topic: str
    qos: int
    retain: bool
    is_allowed: bool
    decided_by: str
    steps: list[AccessStep]
    deny_action: str


@area.get(
    "/heliograph/authorization/explain",
    scope="authorization:read",
    errors={400: ("BAD_REQUEST",), 404: ("NOT_FOUND",)},
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
) -> ExplainedAccess:
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
    answer: ExplainedAccess = msgspec.to_builtins(found)
    return answer
