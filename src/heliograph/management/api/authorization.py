"""Authorization: its settings, the sources that are asked about rights, and what is remembered."""

import json
from pathlib import Path
from typing import Annotated, Any, Final, NotRequired

from fastapi import Body as Json
from fastapi import Depends, Request, Response
from typing_extensions import TypedDict

from heliograph.control.proto_v1.authorization import (
    AUTHZ_CACHE_CLEAN,
    AUTHZ_CHANGE,
    AUTHZ_SOURCES,
    CacheCleaning,
    SourceChange,
)
from heliograph.control.proto_v1.conf import CONF_CHANGE, ConfChangeArgs
from heliograph.management.api.acl_files import AclFiles
from heliograph.management.api.authentication import LinkStatus, status_of
from heliograph.management.api.setting_routes import SettingsTree
from heliograph.management.asking.nodes import Node
from heliograph.management.asking.settings_trees import settings_tree
from heliograph.management.asking.states import source_state
from heliograph.management.web.answering import answering
from heliograph.management.web.area import MISSING, Area
from heliograph.management.web.asked_nodes import NodesDep
from heliograph.management.web.errors import ApiError
from heliograph.management.web.models import Body, Str
from heliograph.management.web.paging import json_response
from heliograph.rpc.methods import RpcError

Settings = dict[str, Any]

_FILE: Final = "file"


def _files(request: Request) -> AclFiles:
    return AclFiles(Path(request.app.state.settings.data_dir) / "authz")


FilesDep = Annotated[AclFiles, Depends(_files)]

area = Area("Authorization", "What clients may do.", scope="authorization")


class SourceMove(Body):
    """Another place for a source."""

    position: Str


class SourceObject(TypedDict):
    """A source of authorization with its settings, which have more keys than these; stars for secrets.

    Attributes:
        rules: What the file has, of a source of the type `file`.
    """

    type: str
    enable: bool
    rules: NotRequired[str]


class SourceList(TypedDict):
    """The sources, in the order in which they are asked."""

    sources: list[SourceObject]


@area.get("/authorization/settings", answers=SettingsTree)
async def get_authorization_settings(nodes: NodesDep) -> Response:
    """The settings of authorization other than its sources."""
    return json_response(await _shown_settings(nodes.own))


@area.put("/authorization/settings", answers=SettingsTree)
async def put_authorization_settings(nodes: NodesDep, body: Annotated[Settings, Json()]) -> Response:
    """Change the settings of authorization other than its sources."""
    settings = {name: value for name, value in body.items() if name != "sources"}
    text = json.dumps({"authorization": settings})
    await nodes.own.ask(CONF_CHANGE(ConfChangeArgs(text=text, comment="authorization settings")))
    return json_response(await _shown_settings(nodes.own))


@area.get("/authorization/sources", answers=SourceList)
async def list_authorization_sources(nodes: NodesDep) -> Response:
    """All sources in the order in which they are asked."""
    return json_response({"sources": [_with_rules(one) for one in await _sources(nodes.own)]})


@area.post("/authorization/sources", status=204)
async def create_authorization_source(nodes: NodesDep, files: FilesDep, body: Annotated[Settings, Json()]) -> None:
    """Add a source in front of the others."""
    await _change(nodes.own, files, body, SourceChange("add"))


@area.put("/authorization/sources/order", status=204)
async def order_authorization_sources(nodes: NodesDep, body: Annotated[list[Settings], Json()]) -> None:
    """Set the order of all sources."""
    types = tuple(str(one.get("type", "")) for one in body)
    with answering(not_found=(400, "BAD_REQUEST")):
        await nodes.own.ask(AUTHZ_CHANGE(SourceChange("order", types=types)))


@area.get("/authorization/sources/{type}", answers=SourceObject, errors=MISSING)
async def get_authorization_source(type: str, nodes: NodesDep) -> Response:
    """One source, with stars for secrets."""
    return json_response(_with_rules(await _source(nodes.own, type)))


@area.put("/authorization/sources/{type}", status=204, errors=MISSING)
async def update_authorization_source(
    type: str, nodes: NodesDep, files: FilesDep, body: Annotated[Settings, Json()]
) -> None:
    """Replace the settings of a source; its type stays."""
    await _source(nodes.own, type)
    if body.get("type") != type:
        raise ApiError(400, "BAD_REQUEST", f"the body is of the type {body.get('type')!r}, not of {type!r}")
    await _change(nodes.own, files, body, SourceChange("update", type))


@area.delete("/authorization/sources/{type}", errors=MISSING)
async def delete_authorization_source(type: str, nodes: NodesDep) -> None:
    """Delete a source."""
    await _source(nodes.own, type)
    await nodes.own.ask(AUTHZ_CHANGE(SourceChange("delete", type)))


@area.get("/authorization/sources/{type}/status", answers=LinkStatus, errors=MISSING)
async def get_authorization_source_status(type: str, nodes: NodesDep) -> Response:
    """The state and the counters of a source."""
    row = next((one for one in await nodes.own.rows(AUTHZ_SOURCES()) if one.type == type), None)
    if row is None:
        raise _missing(type)
    return json_response(status_of(nodes.own.name, *source_state(row)))


@area.post("/authorization/sources/{type}/move", status=204, errors=MISSING)
async def move_authorization_source(type: str, nodes: NodesDep, body: SourceMove) -> None:
    """Move a source in the order: `front`, `rear`, `before:TYPE` or `after:TYPE`."""
    await _source(nodes.own, type)
    await nodes.own.ask(AUTHZ_CHANGE(SourceChange("move", type, position=body.position)))


@area.delete("/authorization/cache")
async def delete_all_authorization_caches(nodes: NodesDep) -> None:
    """Forget the decisions that are cached for all clients."""
    await nodes.own.ask(AUTHZ_CACHE_CLEAN(CacheCleaning()))


async def _shown_settings(node: Node) -> Settings:
    settings = await settings_tree(node, "authorization")
    settings.pop("sources", None)
    return settings


async def _sources(node: Node) -> list[Settings]:
    settings = await settings_tree(node, "authorization")
    found: list[Settings] = settings.get("sources") or []
    return [{"enable": True, **one} for one in found]


async def _source(node: Node, kind: str) -> Settings:
    found = next((one for one in await _sources(node) if one["type"] == kind), None)
    if found is None:
        raise _missing(kind)
    return found


def _missing(kind: str) -> ApiError:
    return ApiError(404, "NOT_FOUND", f"there is no source {kind[:100]!r}")


def _with_rules(source: Settings) -> Settings:
    """A source of a file with the rules that the file has."""
    if source["type"] != _FILE or "path" not in source:
        return source
    return {**source, "rules": AclFiles.text_of(source["path"])}


async def _change(node: Node, files: AclFiles, body: Settings, change: SourceChange) -> None:
    """Add or change a source. Rules of a file are written to a new one first, which is removed if they are refused."""
    settings = dict(body)
    rules, path = settings.pop("rules", None), None
    if settings.get("type") == _FILE and isinstance(rules, str):
        path = files.write(rules)
        settings["path"] = str(path)
    change = SourceChange(change.verb, change.type, json.dumps(settings))
    try:
        await node.ask(AUTHZ_CHANGE(change))
    except RpcError as error:
        if path is not None:
            files.remove_new(path)
        raise ApiError(400, "BAD_REQUEST", error.message) from None
