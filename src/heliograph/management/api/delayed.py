"""Delayed messages: their settings, which there are, one with its payload, letting them go."""

import base64
from typing import Annotated, Any, Final, NotRequired

from fastapi import Body, Query, Response
from pydantic import Field

from heliograph.control.proto_v1.delayed import (
    DELAYED_DELETE,
    DELAYED_INFO,
    DELAYED_LIST,
    DELAYED_SHOW,
    DelayedNumber,
    DelayedPage,
    DelayedRow,
)
from heliograph.management.api.setting_routes import SettingsTree, change_settings, read_settings
from heliograph.management.asking.nodes import Node
from heliograph.management.web.area import Area
from heliograph.management.web.asked_nodes import AskedNodes, NodesDep
from heliograph.management.web.errors import ApiError
from heliograph.management.web.paging import PageDep, json_response, page_response, take_whole_page
from heliograph.management.web.rows import ApiRow
from heliograph.management.web.times import NowDep
from heliograph.mqtt.topic import topic_name_fault
from heliograph.rpc.methods import RpcError

area = Area("Delayed", "Messages to `$delayed/SECONDS/TOPIC`, which are published later.", scope="clients")

_SHOWN_BYTES_MAX: Final = 2048
_PAYLOAD_BYTES_MAX: Final = 256 << 10
_DIGITS: Final = 32
_LEVELS_MAX: Final = 65_536
_ABOUT_ONE: Final = {400: ("MESSAGE_ID_SCHEMA_ERROR", "INVALID_NODE"), 404: ("MESSAGE_ID_NOT_FOUND",)}


_MESSAGE: Final = ApiRow(
    "DelayedMessage",
    DelayedRow,
    node=str,
    delayed_interval=Annotated[int, Field(description="Seconds")],
    delayed_remaining=Annotated[int, Field(description="Seconds")],
    payload=NotRequired[Annotated[str, Field(description="In base64, or `PAYLOAD_TOO_LARGE`; left out of lists")]],
)


@area.get("/mqtt/delayed", scope="config:read", answers=SettingsTree)
async def get_delayed(nodes: NodesDep) -> Response:
    """The settings of delayed messages."""
    return json_response(_settings(await read_settings(nodes.own, "delayed")))


@area.put("/mqtt/delayed", scope="config:write", answers=SettingsTree)
async def put_delayed(nodes: NodesDep, body: Annotated[dict[str, Any], Body()]) -> Response:
    """Change settings of delayed messages; what is left out stays."""
    await change_settings(nodes.own, "delayed", body, "BAD_REQUEST")
    return json_response(_settings(await read_settings(nodes.own, "delayed")))


@area.get("/mqtt/delayed/messages", answers=_MESSAGE.page)
async def list_delayed_messages(nodes: NodesDep, now_s: NowDep, page: PageDep) -> Response:
    """A page of the delayed messages, without payloads."""
    node = nodes.own
    wanted = DelayedPage(skip=page.skip, limit=page.limit + 1)
    rows, has_next = await take_whole_page(node.slices(DELAYED_LIST(wanted)), page.limit)
    info = await node.ask(DELAYED_INFO())
    return page_response(
        [_message(row, node, now_s) for row in rows], page, int(info.counts["delayed.count"]), has_next
    )


@area.get("/mqtt/delayed/messages/{node}/{msgid}", errors=_ABOUT_ONE, answers=_MESSAGE.one)
async def get_delayed_message(
    node: str,
    msgid: str,
    nodes: NodesDep,
    now_s: NowDep,
    max_payload_bytes: Annotated[
        int | None, Query(ge=0, le=_PAYLOAD_BYTES_MAX, description="Show its beginning, where it is longer")
    ] = None,
) -> dict[str, Any]:
    """One delayed message with its payload; of more than 2048 bytes only a beginning, on request."""
    asked, number = _place(nodes, node, msgid)
    try:
        found = await asked.ask(DELAYED_SHOW(DelayedNumber(number)))
    except RpcError as error:
        raise _refused(error, msgid) from error
    is_too_large = max_payload_bytes is None and found.row.bytes > _SHOWN_BYTES_MAX
    payload = "PAYLOAD_TOO_LARGE" if is_too_large else base64.b64encode(found.payload[:max_payload_bytes]).decode()
    return _message(found.row, asked, now_s, payload=payload)


@area.delete("/mqtt/delayed/messages/{node}/{msgid}", errors=_ABOUT_ONE)
async def delete_delayed_message(node: str, msgid: str, nodes: NodesDep) -> None:
    """Delete a delayed message; it is not published."""
    asked, number = _place(nodes, node, msgid)
    try:
        await asked.ask(DELAYED_DELETE(DelayedNumber(number)))
    except RpcError as error:
        raise _refused(error, msgid) from error


@area.delete("/mqtt/delayed/messages/{topic}", errors={400: ("INVALID_TOPIC_NAME",), 404: ("MESSAGE_NOT_FOUND",)})
async def delete_delayed_messages_of_topic(topic: str, nodes: NodesDep) -> None:
    """Delete all delayed messages to a topic; they are not published."""
    fault = topic_name_fault(topic, _LEVELS_MAX)
    if fault is not None:
        raise ApiError(400, "INVALID_TOPIC_NAME", f"{topic[:200]!r} is no topic name: {fault}")
    rows = await nodes.own.rows(DELAYED_LIST(DelayedPage(topic=topic)))
    if not rows:
        raise ApiError(404, "MESSAGE_NOT_FOUND", f"no delayed message is to {topic[:200]!r}")
    for row in rows:
        try:
            await nodes.own.ask(DELAYED_DELETE(DelayedNumber(row.id)))
        except RpcError as error:
            if error.code != "not_found":  # it may be published meanwhile
                raise


def _place(nodes: AskedNodes, node: str, msgid: str) -> tuple[Node, int]:
    try:
        number = int(msgid, 16) if len(msgid) == _DIGITS and msgid.isalnum() else -1
    except ValueError:
        number = -1
    if not 0 <= number < 1 << 63:
        raise ApiError(400, "MESSAGE_ID_SCHEMA_ERROR", f"{msgid[:100]!r} is no id; it has {_DIGITS} hexadecimal digits")
    if node not in {one.name for one in nodes.all()}:
        raise ApiError(400, "INVALID_NODE", f"there is no node {node[:200]!r}")
    return nodes.named(node), number


def _refused(error: RpcError, msgid: str) -> Exception:
    if error.code == "not_found":
        return ApiError(404, "MESSAGE_ID_NOT_FOUND", f"no delayed message has the id {msgid}")
    return error


def _settings(tree: dict[str, Any]) -> dict[str, Any]:
    return {name: 0 if value == "infinity" else value for name, value in tree.items()}


def _message(row: DelayedRow, node: Node, now_s: float, **more: str) -> dict[str, Any]:
    interval_s = round((row.expected_at - row.received_at) / 1_000_000)
    remaining_s = max(0, round(row.expected_at / 1_000_000 - now_s))
    return _MESSAGE(row, node=node.name, delayed_interval=interval_s, delayed_remaining=remaining_s, **more)
