"""Messages that wait for a client, or are in flight to it."""

from collections.abc import Callable
from typing import Annotated, Final, Literal

from fastapi import Query
from typing_extensions import TypedDict

from heliograph.control.proto_v1.clients import CLIENTS_QUEUE, QueuedMessage, QueueWanted
from heliograph.management.api.client_objects import ClientMessage, message_object
from heliograph.management.api.clients import about_client
from heliograph.management.asking.nodes import Node
from heliograph.management.web.area import Area
from heliograph.management.web.asked_nodes import NodesDep
from heliograph.management.web.errors import ApiError
from heliograph.management.web.paging import LIMIT_MAX
from heliograph.rpc.methods import RpcError
from heliograph.settings.kinds import RefusedError, Size

area = Area("Clients")

_NONE: Final = "none"
_END: Final = "end_of_data"
_BYTES_MAX: Final = 16 << 20
_SIZE: Final = Size(1)
_ERRORS: Final = {
    404: ("CLIENTID_NOT_FOUND", "CLIENT_SHUTDOWN"),
    400: ("INVALID_PARAMETER", "BAD_REQUEST"),
    501: ("NOT_IMPLEMENTED",),
}

PayloadParameter = Annotated[Literal["base64", "plain", "none"], Query(description="How payloads are shown")]
BytesParameter = Annotated[str, Query(description="Bytes of all payloads of an answer, as 1MB; a longer one is cut")]
PositionParameter = Annotated[str, Query(description="`none`, or `meta.position` of the answer before")]
LimitParameter = Annotated[int, Query(ge=1, le=LIMIT_MAX, description="Messages of an answer")]


class MessagesMeta(TypedDict):
    """Which part of a queue it is.

    Attributes:
        start: The position of the first message of all; `none` where there is none.
        position: What the next request gives; `end_of_data` after the last message.
    """

    start: str
    position: str


class ClientMessages(TypedDict):
    """Messages of a client."""

    data: list[ClientMessage]
    meta: MessagesMeta


@area.get("/clients/{clientid}/mqueue_messages", scope="clients:read", errors=_ERRORS)
async def list_mqueue_messages(
    clientid: str,
    nodes: NodesDep,
    payload: PayloadParameter = "base64",
    max_payload_bytes: BytesParameter = "1MB",
    position: PositionParameter = _NONE,
    limit: LimitParameter = 100,
) -> ClientMessages:
    """Messages that wait for a client, in the order in which it gets them; reading changes nothing."""
    wanted = QueueWanted(clientid, False, _read(position), limit, _bytes(max_payload_bytes))
    return await _listed(nodes.own, wanted, lambda row: message_object(row, payload, is_inflight=False))


@area.get("/clients/{clientid}/inflight_messages", scope="clients:read", errors=_ERRORS)
async def list_inflight_messages(
    clientid: str,
    nodes: NodesDep,
    payload: PayloadParameter = "base64",
    max_payload_bytes: BytesParameter = "1MB",
    position: PositionParameter = _NONE,
    limit: LimitParameter = 100,
) -> ClientMessages:
    """Messages that were sent to a client and are not acknowledged; reading changes nothing."""
    wanted = QueueWanted(clientid, True, _read(position), limit, _bytes(max_payload_bytes))
    return await _listed(nodes.own, wanted, lambda row: message_object(row, payload, is_inflight=True))


async def _listed(node: Node, wanted: QueueWanted, shown: Callable[[QueuedMessage], ClientMessage]) -> ClientMessages:
    first = QueueWanted(wanted.clientid, wanted.inflight, "", 1, 1)
    rows = await _rows(node, wanted)
    head = rows[:1] if not wanted.position else await _rows(node, first)
    position = _END
    if rows:
        following = QueueWanted(wanted.clientid, wanted.inflight, rows[-1].position, 1, 1)
        position = rows[-1].position if await _rows(node, following) else _END
    meta: MessagesMeta = {"start": head[0].position if head else _NONE, "position": position}
    return {"data": [shown(row) for row in rows], "meta": meta}


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
