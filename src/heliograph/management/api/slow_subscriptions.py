"""Slow subscriptions: the receivers and topics whose messages take longest."""

import json
from typing import Annotated, Any, Final, Literal

from pydantic import Field

from heliograph.control.proto_v1.conf import CONF_CHANGE, ConfChangeArgs
from heliograph.control.proto_v1.slow_subscriptions import (
    SLOW_SUBSCRIPTIONS_CLEAR,
    SLOW_SUBSCRIPTIONS_LIST,
    SlowSubscriptionRow,
)
from heliograph.management.api.setting_routes import read_settings
from heliograph.management.asking.nodes import Node
from heliograph.management.web.area import Area
from heliograph.management.web.asked_nodes import NodesDep
from heliograph.management.web.models import Body, Bool, Str, Whole
from heliograph.management.web.rows import ApiRow
from heliograph.settings.units import parse_duration

area = Area("Slow subscriptions", "The receivers and topics whose messages take longest.", scope="metrics")

_ROOT = "slow_subs"
_UPDATE_ERRORS = {400: ("BAD_REQUEST",)}


_SLOW: Final = ApiRow("ListedSlowSubscription", SlowSubscriptionRow, node=str)


class SlowSubscriptionSettings(Body):
    """What is looked for."""

    enable: Bool = False
    threshold: Str = "500ms"
    expire_interval: Str = "300s"
    top_k_num: Annotated[Whole, Field(ge=1, le=1000)] = 10
    stats_type: Literal["whole", "internal", "response"] = "whole"


@area.get("/slow_subscriptions", answers=_SLOW.listed("SlowSubscriptionList", {}))
async def list_slow_subscriptions(nodes: NodesDep) -> dict[str, Any]:
    """The slow subscriptions of all nodes."""
    found = [_SLOW(row, node=node.name) for node in nodes.all() for row in await node.rows(SLOW_SUBSCRIPTIONS_LIST())]
    found.sort(key=lambda one: -int(one["timespan"]))
    return {"data": found}


@area.delete("/slow_subscriptions")
async def clear_slow_subscriptions(nodes: NodesDep) -> None:
    """Clear the list of slow subscriptions."""
    for node in nodes.all():
        await node.ask(SLOW_SUBSCRIPTIONS_CLEAR())


@area.get("/slow_subscriptions/settings", scope="config:read")
async def get_slow_subscription_settings(nodes: NodesDep) -> SlowSubscriptionSettings:
    """The settings."""
    return await _settings(nodes.own)


@area.put("/slow_subscriptions/settings", scope="config:write", errors=_UPDATE_ERRORS)
async def update_slow_subscription_settings(
    body: SlowSubscriptionSettings, nodes: NodesDep
) -> SlowSubscriptionSettings:
    """Replace the settings, and clear the list."""
    text = json.dumps({_ROOT: body.model_dump()})
    await nodes.own.ask(CONF_CHANGE(ConfChangeArgs(text=text, name="<request>")))
    return await _settings(nodes.own)


async def _settings(node: Node) -> SlowSubscriptionSettings:
    held = await read_settings(node, _ROOT)
    return SlowSubscriptionSettings(
        **held
        | {
            "threshold": f"{parse_duration(held['threshold']) * 1000:g}ms",
            "expire_interval": f"{parse_duration(held['expire_interval']):g}s",
        }
    )
