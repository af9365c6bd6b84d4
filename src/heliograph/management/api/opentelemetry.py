"""What an OpenTelemetry collector gets: the settings, and the lists of clients and topics that are always traced."""

from typing import Annotated, Any, Literal

from fastapi import Body, Response

from heliograph.control.proto_v1.opentelemetry import (
    OPENTELEMETRY_SET_WHITELIST,
    OPENTELEMETRY_WHITELIST,
    NewWhitelistArgs,
    WhitelistArgs,
)
from heliograph.management.api.setting_routes import SettingsTree
from heliograph.management.asking.settings_trees import replace_root, settings_tree
from heliograph.management.web.answering import refused_as
from heliograph.management.web.area import Area
from heliograph.management.web.asked_nodes import NodesDep
from heliograph.management.web.models import Str
from heliograph.management.web.paging import json_response

area = Area("OpenTelemetry", "Traces, metrics and the log for an OpenTelemetry collector.", scope="config")

ROOT = "opentelemetry"
Kind = Literal["clientid", "topic"]


@area.get("/opentelemetry", answers=SettingsTree)
async def get_opentelemetry(nodes: NodesDep) -> Response:
    """The settings."""
    return json_response(await settings_tree(nodes.own, ROOT))


@area.put("/opentelemetry", answers=SettingsTree)
async def put_opentelemetry(nodes: NodesDep, body: Annotated[dict[str, Any], Body()]) -> Response:
    """Replace the settings."""
    with refused_as("BAD_REQUEST"):
        await replace_root(nodes.own, ROOT, body)
    return json_response(await settings_tree(nodes.own, ROOT))


@area.get("/opentelemetry/whitelist/{type}")
async def get_opentelemetry_whitelist(type: Kind, nodes: NodesDep) -> list[str]:
    """The clients, or the topic filters, that are always traced."""
    return await nodes.own.rows(OPENTELEMETRY_WHITELIST(WhitelistArgs(type)))


@area.post("/opentelemetry/whitelist/{type}")
async def post_opentelemetry_whitelist(type: Kind, nodes: NodesDep, body: list[Str]) -> list[str]:
    """Replace the list."""
    await _set(nodes, type, body)
    return await nodes.own.rows(OPENTELEMETRY_WHITELIST(WhitelistArgs(type)))


@area.delete("/opentelemetry/whitelist/{type}")
async def delete_opentelemetry_whitelist(type: Kind, nodes: NodesDep) -> None:
    """Clear the list."""
    await _set(nodes, type, [])


async def _set(nodes: NodesDep, type: Kind, values: list[str]) -> None:
    with refused_as("BAD_REQUEST"):
        await nodes.own.ask(OPENTELEMETRY_SET_WHITELIST(NewWhitelistArgs(type, values)))
