"""The configuration: all of it as text, some roots as objects, defaults again."""

import gzip
import hashlib
import json
from functools import cache
from typing import Annotated, Any, Final, Literal

import orjson
from fastapi import Body, Query, Request, Response

from heliograph.control.proto_v1.conf import CONF_CHANGE, CONF_SHOW, ConfChangeArgs, ConfSetting, ConfShowArgs
from heliograph.hocon.errors import HoconError
from heliograph.hocon.values import Node as Tree
from heliograph.hocon.values import to_json
from heliograph.management.api.setting_routes import SettingsTree
from heliograph.management.asking.settings_trees import (
    NO_SETTING,
    merge_settings,
    names_of,
    replace_root,
    settings_tree,
    tree_of,
)
from heliograph.management.web.answering import refused_as
from heliograph.management.web.area import OPEN, Area
from heliograph.management.web.asked_nodes import NodesDep
from heliograph.management.web.errors import ApiError
from heliograph.management.web.known_hosts import check_open
from heliograph.management.web.paging import json_response
from heliograph.rpc.methods import RpcError

READ_ONLY: Final = frozenset({"node", "rpc", "cluster"})
ROOTS: Final = ("alarm", "broker", "dashboard", "log", "sysmon", "sys_topics")
ZONE_ROOTS: Final = ("mqtt", "flapping_detect", "force_shutdown", "force_gc", "durable_sessions")
_TEXT: Final = {200: {"content": {"text/plain": {"schema": {"type": "string"}}}, "description": "HOCON"}}

area = Area("Configs", "The configuration of the node.", scope="config")


@area.get("/configs", answers=SettingsTree, errors={400: ("INVALID_ACCEPT",), 404: ("NOT_FOUND",)}, responses=_TEXT)
async def get_configs(
    request: Request,
    nodes: NodesDep,
    key: Annotated[str | None, Query(description="One root")] = None,
    node: Annotated[str | None, Query(description="Of which node")] = None,
) -> Response:
    """Everything in effect, defaults included, with stars for secrets: HOCON, or some roots as JSON."""
    accept = request.headers.get("accept", "*/*")
    (asked,) = nodes.chosen(node)
    with refused_as("NOT_FOUND", 404):
        rows = await asked.rows(CONF_SHOW(ConfShowArgs(key or "", hides_sent=nodes.hides_sent)))
    if "text/plain" in accept or "*/*" in accept:
        return Response(_as_hocon(rows), media_type="text/plain")
    if "application/json" in accept:
        tree = tree_of(rows)
        return json_response(tree if key else {root: tree[root] for root in ROOTS if root in tree})
    raise ApiError(400, "INVALID_ACCEPT", "the configuration is given as text/plain or as application/json")


@area.put(
    "/configs",
    response_class=Response,
    responses={400: {"content": {"text/plain": {"schema": {"type": "string"}}}, "description": "What is wrong"}},
    openapi_extra={"requestBody": {"content": {"text/plain": {"schema": {"type": "string"}}}, "required": True}},
)
async def put_configs(
    request: Request,
    nodes: NodesDep,
    mode: Annotated[Literal["merge", "replace"], Query(description="Whether roots are merged or replaced")] = "merge",
    ignore_readonly: Annotated[bool, Query(description="Whether roots that cannot change are passed over")] = False,
) -> Response:
    """Change the configuration by a text of HOCON."""
    from heliograph.hocon.document import parse_text  # the grammar takes memory, and is seldom needed
    from heliograph.hocon.files import MemoryFiles

    try:
        text = (await request.body()).decode()
        tree = parse_text(text, name="<change>", files=MemoryFiles({}))
    except UnicodeDecodeError:
        return _refused({"body": "it is not valid UTF-8"})
    except HoconError as error:
        return _refused({"body": str(error)})
    assert isinstance(tree.value, dict)
    fixed = sorted(READ_ONLY & tree.value.keys())
    if fixed and not ignore_readonly:
        return _refused(dict.fromkeys(fixed, "cannot be changed while the node runs"))
    kept = Tree({name: value for name, value in tree.value.items() if name not in READ_ONLY}, tree.position)
    args = ConfChangeArgs(text=to_json(kept, None), mode=mode)
    try:
        await nodes.own.ask(CONF_CHANGE(args))
    except RpcError as error:
        return _refused({"configuration": error.message})
    return Response(status_code=200)


@area.get("/configs/global_zone", answers=SettingsTree)
async def get_global_zone(nodes: NodesDep) -> Response:
    """The settings of zones that have none of their own."""
    return json_response(await _global_zone(nodes))


@area.put("/configs/global_zone", answers=SettingsTree, errors={400: ("UPDATE_FAILED",)})
async def put_global_zone(nodes: NodesDep, body: Annotated[dict[str, Any], Body()]) -> Response:
    """Change the settings of zones that have none of their own."""
    unknown = sorted(body.keys() - set(ZONE_ROOTS))
    if unknown:
        raise ApiError(400, "UPDATE_FAILED", f"found {', '.join(unknown)[:200]}; roots are {', '.join(ZONE_ROOTS)}")
    held = await _global_zone(nodes)
    changed = {root: tree for root, tree in body.items() if tree != held.get(root)}
    if changed:
        args = ConfChangeArgs(text=json.dumps(changed))
        with refused_as("UPDATE_FAILED"):
            await nodes.own.ask(CONF_CHANGE(args))
    return json_response(await _global_zone(nodes))


@area.get("/configs/{root}", answers=SettingsTree, errors={404: ("NOT_FOUND",)})
async def get_config_root(root: str, nodes: NodesDep) -> Response:
    """One root."""
    return json_response(await _root(root, nodes))


@area.put("/configs/{root}", answers=SettingsTree, errors={400: ("UPDATE_FAILED",), 404: ("NOT_FOUND",)})
async def put_config_root(root: str, nodes: NodesDep, body: Annotated[dict[str, Any], Body()]) -> Response:
    """Replace one root."""
    await _root(root, nodes)
    with refused_as("UPDATE_FAILED"):
        await replace_root(nodes.own, root, body)
    return json_response(await _root(root, nodes))


@area.post(
    "/configs_reset/{root}",
    response_class=Response,
    errors={400: ("NO_DEFAULT_VALUE", "REST_FAILED"), 404: ("NOT_FOUND",)},
)
async def reset_config(
    root: str,
    nodes: NodesDep,
    conf_path: Annotated[str, Query(description="The setting below the root")] = "",
) -> Response:
    """Reset a root, or one setting below it, to what lower layers and defaults say."""
    await _root(root, nodes)
    path = root
    if conf_path:
        names = names_of(conf_path)
        path = conf_path if names and names[0] == root else f"{root}.{conf_path}"
    with refused_as("NO_DEFAULT_VALUE"):
        await nodes.own.rows(CONF_SHOW(ConfShowArgs(path)))
    with refused_as("REST_FAILED"):
        await merge_settings(nodes.own, path, None, f"{path} is reset")
    return Response(status_code=200)


@area.get("/schemas/{name}", scope=OPEN, answers=dict[str, Any], errors={404: ("NOT_FOUND",)})
async def get_configuration_schema(name: str, request: Request) -> Response:
    """The JSON Schema of the configuration, for forms: `hotconf`. Browsers keep it while it stays as it is."""
    if name != "hotconf":
        raise ApiError(404, "NOT_FOUND", f"there is no schema {name[:100]!r}; there is hotconf")
    await check_open(request)
    data, tag = _schema()
    headers = {"etag": tag, "cache-control": "no-cache", "vary": "accept-encoding"}
    if request.headers.get("if-none-match") == tag:
        return Response(status_code=304, headers=headers)
    if "gzip" in request.headers.get("accept-encoding", ""):
        return Response(data, headers={**headers, "content-encoding": "gzip"}, media_type="application/json")
    return Response(gzip.decompress(data), headers=headers, media_type="application/json")


@cache
def _schema() -> tuple[bytes, str]:
    """The JSON Schema with gzip, which leaves a tenth of it in memory, and its tag."""
    from heliograph.config.json_schema import json_schema  # most processes are never asked for it

    data = orjson.dumps(json_schema())
    return gzip.compress(data, 9, mtime=0), f'"{hashlib.sha256(data).hexdigest()[:16]}"'


async def _root(root: str, nodes: NodesDep) -> dict[str, Any]:
    if root not in ROOTS:
        raise ApiError(404, "NOT_FOUND", f"there is no root {root[:100]!r} here; roots are {', '.join(ROOTS)}")
    return await settings_tree(nodes.own, root)


async def _global_zone(nodes: NodesDep) -> dict[str, Any]:
    zone: dict[str, Any] = {}
    for root in ZONE_ROOTS:
        try:
            zone[root] = await settings_tree(nodes.own, root)
        except RpcError as error:
            if error.code != NO_SETTING:  # such a root is one that this node does not have
                raise
    return zone


def _as_hocon(rows: list[ConfSetting]) -> str:
    """Rows as a file would have them; a setting without a value as a comment."""
    lines: list[str] = []
    last = ""
    for row in rows:
        root = row.path.partition(".")[0]
        if last and root != last:
            lines.append("")
        last = root
        lines.append(f"# {row.path} has no value" if row.plain == "null" else f"{row.path} = {row.value}")
    return "\n".join(lines) + "\n"


def _refused(errors: dict[str, str]) -> Response:
    return Response(orjson.dumps({"errors": errors}), 400, media_type="text/plain")
