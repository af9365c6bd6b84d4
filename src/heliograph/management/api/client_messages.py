"""Messages that wait for a client, or are in flight to it."""

from dataclasses import dataclass
from typing import Annotated, Any, Final, NotRequired

from fastapi import Depends, Query
from pydantic import Field

from heliograph.control.proto_v1.clients import CLIENTS_QUEUE, QueuedMessage, QueueWanted
from heliograph.management.api.clients import about_client
from heliograph.management.asking.nodes import Node
from heliograph.management.web.area import Area
from heliograph.management.web.asked_nodes import NodesDep
from heliograph.management.web.errors import ApiError
from heliograph.management.web.paging import LIMIT_MAX
from heliograph.management.web.payloads import PayloadQuery, shown_payload
from heliograph.management.web.rows import ApiRow
from heliograph.rpc.methods import RpcError
from heliograph.settings.kinds import RefusedError, Size

area = Area("Clients", scope="clients")

_NONE: Final = "none"
_END: Final = "end_of_data"
_BYTES_MAX: Final = 16 << 20
_SIZE: Final = Size(1)
_ERRORS: Final = {
    404: ("CLIENTID_NOT_FOUND", "CLIENT_SHUTDOWN"),
    400: ("INVALID_PARAMETER",),
    501: ("NOT_IMPLEMENTED",),
}


@dataclass(frozen=True, slots=True)
class QueuePart:
    """Which messages of a client are wanted, and how."""

    clientid: str
    payload: PayloadQuery = "base64"
    max_payload_bytes: Annotated[
        str, Query(description="Bytes of all payloads of an answer, as 1MB; a longer one is cut")
    ] = "1MB"
    position: Annotated[str, Query(description="`none`, or `meta.position` of the answer before")] = _NONE
    limit: Annotated[int, Query(ge=1, le=LIMIT_MAX, description="Messages of an answer")] = 100


PartDep = Annotated[QueuePart, Depends()]
_PAYLOAD: Final = Annotated[str, Field(description="As the request wants it; left out with `none`")]
_PRIORITY: Final = Annotated[int, Field(description="Of a message that was not sent yet")]
_MESSAGE: Final = ApiRow(
    "ClientMessage", QueuedMessage, payload=NotRequired[_PAYLOAD], mqueue_priority=NotRequired[_PRIORITY]
)
_MESSAGES: Final = _MESSAGE.listed(
    "ClientMessages",
    {
        "start": Annotated[str, Field(description="Where the first message of all stands; `none` where there is none")],
        "position": Annotated[str, Field(description="For the next request; `end_of_data` after the last message")],
    },
)


@area.get("/clients/{clientid}/mqueue_messages", errors=_ERRORS, answers=_MESSAGES)
async def list_mqueue_messages(part: PartDep, nodes: NodesDep) -> dict[str, Any]:
    """Messages that wait for a client, in the order in which it gets them; reading changes nothing."""
    return await _listed(nodes.own, part, is_inflight=False)


@area.get("/clients/{clientid}/inflight_messages", errors=_ERRORS, answers=_MESSAGES)
async def list_inflight_messages(part: PartDep, nodes: NodesDep) -> dict[str, Any]:
    """Messages that were sent to a client and are not acknowledged; reading changes nothing."""
    return await _listed(nodes.own, part, is_inflight=True)


async def _listed(node: Node, part: QueuePart, is_inflight: bool) -> dict[str, Any]:
    wanted = QueueWanted(part.clientid, is_inflight, _read(part.position), part.limit, _bytes(part.max_payload_bytes))
    rows = await _rows(node, wanted)
    head = rows[:1] if not wanted.position else await _rows(node, _one_behind(wanted, ""))
    has_next = bool(rows) and bool(await _rows(node, _one_behind(wanted, rows[-1].position)))
    return {
        "data": [_shown(row, part.payload, is_inflight) for row in rows],
        "meta": {
            "start": head[0].position if head else _NONE,
            "position": rows[-1].position if has_next else _END,
        },
    }


def _one_behind(wanted: QueueWanted, position: str) -> QueueWanted:
    return QueueWanted(wanted.clientid, wanted.inflight, position, 1, 1)


def _shown(row: QueuedMessage, payload: str, is_inflight: bool) -> dict[str, Any]:
    priority = {} if is_inflight else {"mqueue_priority": row.priority}
    return _MESSAGE(row, **shown_payload(row.payload, payload), **priority)


async def _rows(node: Node, wanted: QueueWanted) -> list[QueuedMessage]:
    try:
        async with about_client(wanted.clientid):
            return await node.rows(CLIENTS_QUEUE(wanted))
    except RpcError as error:
        if error.code == "session_asleep":
            raise ApiError(501, "NOT_IMPLEMENTED", error.message) from error
        if error.code == "bad_arguments":
            raise ApiError(400, "INVALID_PARAMETER", f"position: {error.message}") from error
        raise


def _read(position: str) -> str:
    if position == _END:
        raise ApiError(
            400, "INVALID_PARAMETER", f"position: {_END} ends a list, and nothing follows; give {_NONE} to begin"
        )
    return "" if position == _NONE else position


def _bytes(text: str) -> int:
    """A size as 1MB; one that is larger than an answer may be counts as that.

    Raises:
        ApiError: 400, it is not one.
    """
    try:
        return min(_SIZE.convert(text), _BYTES_MAX)
    except RefusedError as error:
        raise ApiError(400, "BAD_REQUEST", f"max_payload_bytes: found {text[:50]!r}; {_SIZE.expected}") from error
