"""Topic rewriting and automatic subscriptions: lists of the configuration."""

from typing import Final, Literal, NotRequired

from fastapi import Response
from typing_extensions import TypedDict

from heliograph.management.api.setting_routes import change_settings, read_list
from heliograph.management.api.subscriptions import WantedSubscription
from heliograph.management.web.area import Area
from heliograph.management.web.asked_nodes import NodesDep
from heliograph.management.web.errors import ApiError
from heliograph.management.web.models import Body, Str
from heliograph.management.web.paging import json_response

area = Area("MQTT", "Topic rewriting and automatic subscriptions.", scope="config")

_REWRITES_MAX: Final = 19
_SUBSCRIPTIONS_MAX: Final = 20


class Rewrite(Body):
    """A rule that gives messages or subscriptions another topic."""

    action: Literal["publish", "subscribe", "all"]
    source_topic: Str
    dest_topic: Str
    re: Str


class AutoSubscription(WantedSubscription):
    """A filter that every client is subscribed to when it connects."""


class AutoSubscriptionShown(TypedDict):
    """An automatic subscription; what it leaves out is 0."""

    topic: str
    qos: NotRequired[int]
    rh: NotRequired[int]
    rap: NotRequired[int]
    nl: NotRequired[int]


@area.get("/mqtt/topic_rewrite", answers=list[Rewrite])
async def get_topic_rewrite(nodes: NodesDep) -> Response:
    """The rules that rewrite topics, in their order."""
    return json_response(await read_list(nodes.own, "rewrite"))


@area.put("/mqtt/topic_rewrite", answers=list[Rewrite], errors={400: ("UPDATE_FAILED",)})
async def put_topic_rewrite(body: list[Rewrite], nodes: NodesDep) -> Response:
    """Replace the rules that rewrite topics."""
    if len(body) > _REWRITES_MAX:
        raise ApiError(413, "EXCEED_LIMIT", f"Max rewrite rules count is {_REWRITES_MAX}; found {len(body)}")
    await change_settings(nodes.own, "rewrite", [one.model_dump() for one in body])
    return json_response(await read_list(nodes.own, "rewrite"))


@area.get("/mqtt/auto_subscribe", answers=list[AutoSubscriptionShown])
async def get_auto_subscribe(nodes: NodesDep) -> Response:
    """The automatic subscriptions, which clients get when they connect."""
    return json_response(await read_list(nodes.own, "auto_subscribe.topics"))


@area.put(
    "/mqtt/auto_subscribe",
    answers=list[AutoSubscriptionShown],
    errors={400: ("UPDATE_FAILED",), 409: ("EXCEED_LIMIT",)},
)
async def put_auto_subscribe(body: list[AutoSubscription], nodes: NodesDep) -> Response:
    """Replace the automatic subscriptions."""
    if len(body) > _SUBSCRIPTIONS_MAX:
        raise ApiError(
            409, "EXCEED_LIMIT", f"Max auto subscribe topic count is {_SUBSCRIPTIONS_MAX}; found {len(body)}"
        )
    await change_settings(nodes.own, "auto_subscribe.topics", [one.model_dump() for one in body])
    return json_response(await read_list(nodes.own, "auto_subscribe.topics"))
