"""Retained messages: their settings, which there are, one with its payload, deleting them."""

from typing import Annotated, Any, Final, NotRequired

from fastapi import Body, Query, Response
from pydantic import Field

from heliograph.control.proto_v1.retained import (
    RETAINER_CLEAN,
    RETAINER_INFO,
    RETAINER_SHOW,
    RETAINER_TOPICS,
    RetainedClean,
    RetainedRow,
    RetainedTopic,
    RetainedTopics,
)
from heliograph.management.api.setting_routes import SettingsTree, change_settings, read_settings
from heliograph.management.web.answering import answering, refused_as
from heliograph.management.web.area import Area
from heliograph.management.web.asked_nodes import NodesDep
from heliograph.management.web.errors import ApiError
from heliograph.management.web.paging import PageDep, json_response, page_response, take_whole_page
from heliograph.management.web.payloads import shown_payload
from heliograph.management.web.rows import ApiRow

area = Area("Retainer", "Retained messages.", scope="clients")

_EVERYTHING: Final = ("#", "$SYS/#")
_SHOWN_BYTES_MAX: Final = 1 << 20
# What a table of an Erlang node wants: read as it is there, and taken without effect.
_WITHOUT_EFFECT: Final = {"msg_clear_interval": "0s"}
_BACKEND_WITHOUT_EFFECT: Final = {"index_specs": [[1, 2, 3], [1, 3], [2, 3], [3]]}


_PAYLOAD: Final = "In base64; left out of lists, and where it is longer than 1 MiB"
_MESSAGE: Final = ApiRow(
    "RetainedMessage", RetainedRow, payload=NotRequired[Annotated[str, Field(description=_PAYLOAD)]]
)


@area.get("/mqtt/retainer", scope="config:read", answers=SettingsTree)
async def get_retainer(nodes: NodesDep) -> Response:
    """The settings of retained messages."""
    return json_response(_shown(await read_settings(nodes.own, "retainer")))


@area.put("/mqtt/retainer", scope="config:write", answers=SettingsTree, errors={400: ("UPDATE_FAILED",)})
async def put_retainer(nodes: NodesDep, body: Annotated[dict[str, Any], Body()]) -> Response:
    """Change settings of retained messages; what is left out stays."""
    wanted = {name: value for name, value in body.items() if name not in _WITHOUT_EFFECT}
    if isinstance(wanted.get("backend"), dict):
        wanted["backend"] = {
            name: value for name, value in wanted["backend"].items() if name not in _BACKEND_WITHOUT_EFFECT
        }
    await change_settings(nodes.own, "retainer", wanted)
    return json_response(_shown(await read_settings(nodes.own, "retainer")))


@area.get("/mqtt/retainer/messages", answers=_MESSAGE.page)
async def list_retained_messages(
    nodes: NodesDep, page: PageDep, topic: Annotated[str, Query(description="Those that this filter matches")] = ""
) -> Response:
    """A page of the retained messages, without payloads."""
    node, wanted = nodes.own, RetainedTopics(topic, page.limit + 1, page.skip)
    with refused_as("BAD_REQUEST"), answering():
        rows, has_next = await take_whole_page(node.slices(RETAINER_TOPICS(wanted)), page.limit)
        count = None if topic else (await node.ask(RETAINER_INFO())).messages
    return page_response([_MESSAGE(row) for row in rows], page, count, has_next)


@area.delete("/mqtt/retainer/messages")
async def delete_retained_messages(nodes: NodesDep) -> None:
    """Delete all retained messages."""
    for topic_filter in _EVERYTHING:
        await _delete(nodes, topic_filter)


@area.get("/mqtt/retainer/message/{topic}", errors={404: ("NOT_FOUND",)}, answers=_MESSAGE.one)
async def get_retained_message(topic: str, nodes: NodesDep) -> dict[str, Any]:
    """The retained message of a topic, with its payload up to 1 MiB."""
    with refused_as("BAD_REQUEST"), answering():
        found = await nodes.own.ask(RETAINER_SHOW(RetainedTopic(topic, _SHOWN_BYTES_MAX)))
    return _MESSAGE(
        found.row, **shown_payload(found.payload, "base64" if found.row.bytes <= _SHOWN_BYTES_MAX else "none")
    )


@area.delete("/mqtt/retainer/message/{topic}", errors={404: ("NOT_FOUND",)})
async def delete_retained_message(topic: str, nodes: NodesDep) -> None:
    """Delete the retained message of a topic, or those that a filter matches."""
    if not await _delete(nodes, topic):
        raise ApiError(404, "NOT_FOUND", f"no message is retained for {topic[:200]!r}")


async def _delete(nodes: NodesDep, topic_filter: str) -> int:
    with refused_as("BAD_REQUEST"), answering():
        cleaned = await nodes.own.ask(RETAINER_CLEAN(RetainedClean(topic_filter)), timeout_s=None)
    return cleaned.deleted


def _shown(tree: dict[str, Any]) -> dict[str, Any]:
    return {**tree, **_WITHOUT_EFFECT, "backend": {**tree.get("backend", {}), **_BACKEND_WITHOUT_EFFECT}}
