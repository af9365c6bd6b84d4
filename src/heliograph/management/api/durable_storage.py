"""Durable storage: its sites and storages, and ours beside them: databases, generations, streams."""

from typing import Annotated, Any, Final

from fastapi import Body as JsonBody
from fastapi import Response
from pydantic import Field
from typing_extensions import TypedDict

from heliograph.control.proto_v1.storage import (
    DS_DATABASES,
    DS_GENERATIONS,
    DS_READER,
    DS_SITE,
    DS_STREAMS,
    DatabaseRow,
    DatabaseWanted,
    GenerationRow,
    ReaderState,
    StreamRow,
)
from heliograph.management.web.answering import answering
from heliograph.management.web.area import MISSING, Area
from heliograph.management.web.asked_nodes import AskedNodes, NodesDep
from heliograph.management.web.errors import ApiError
from heliograph.management.web.models import Str
from heliograph.management.web.paging import PageDep, page_response, take_page
from heliograph.management.web.rows import ApiRow, typed_dict

area = Area("Durable storage", "Where messages are stored.", scope="storage")

_INVALID: Final = MISSING


class ShardOfSite(TypedDict):
    """A shard that a site has."""

    storage: str
    id: str
    status: str


class SiteObject(TypedDict):
    """A site."""

    node: str
    up: bool
    shards: list[ShardOfSite]


class Replica(TypedDict):
    """A site that keeps a shard."""

    site: str
    status: str


class ShardObject(TypedDict):
    """A shard of a storage."""

    id: str
    replicas: list[Replica]


class StorageObject(TypedDict):
    """A storage."""

    name: str
    shards: list[ShardObject]


_DATABASE: Final = ApiRow("DatabaseObject", DatabaseRow, without=("path",))
_DAMAGED: Final = Annotated[float, Field(description="Those that it has met")]
_READER: Final = ApiRow("ReaderObject", ReaderState, damaged_places=_DAMAGED)
_OVERVIEW: Final = typed_dict(
    "StorageOverview", "All databases of a node.", {"site": str, "databases": _DATABASE.rows(), "reader": _READER}
)
_GENERATION: Final = ApiRow("GenerationObject", GenerationRow)
_STREAM: Final = ApiRow("StreamObject", StreamRow)


@area.get("/ds/sites", errors=MISSING)
async def list_sites(nodes: NodesDep) -> list[str]:
    """The ids of all sites."""
    return [await _site(nodes)]


@area.get("/ds/sites/{site}", errors=MISSING)
async def get_site(site: str, nodes: NodesDep) -> SiteObject:
    """One site: its node, and the shards that it has."""
    _refuse_other(site, await _site(nodes))
    shards: list[ShardOfSite] = [
        {"storage": row.name, "id": str(shard), "status": _status(row)}
        for row in await _storages(nodes)
        for shard in range(row.shards)
    ]
    return {"node": nodes.own.name, "up": True, "shards": shards}


@area.get("/ds/storages", errors=MISSING)
async def list_storages(nodes: NodesDep) -> list[str]:
    """The names of all storages."""
    return [row.name for row in await _storages(nodes)]


@area.get("/ds/storages/{ds}", errors=MISSING)
async def get_storage(ds: str, nodes: NodesDep) -> StorageObject:
    """One storage: its shards and their replicas."""
    row, site = await _storage(nodes, ds), await _site(nodes)
    replicas: list[Replica] = [{"site": site, "status": _status(row)}]
    return {"name": ds, "shards": [{"id": str(shard), "replicas": replicas} for shard in range(row.shards)]}


@area.get("/ds/storages/{ds}/replicas", errors=MISSING)
async def list_replicas(ds: str, nodes: NodesDep) -> list[str]:
    """The sites that keep a replica of a storage."""
    await _storage(nodes, ds)
    return [await _site(nodes)]


@area.put("/ds/storages/{ds}/replicas", status=202, response_class=Response, errors=_INVALID)
async def put_replicas(ds: str, sites: Annotated[list[Str], JsonBody()], nodes: NodesDep) -> Response:
    """Set the sites that keep replicas of a storage; there is one site as yet."""
    await _storage(nodes, ds)
    site = await _site(nodes)
    if set(sites) != {site}:
        raise ApiError(400, "BAD_REQUEST", f"found {sites[:20]}; the storage is kept at {site}, the only site there is")
    return Response(status_code=202)


@area.put("/ds/storages/{ds}/replicas/{site}", status=202, response_class=Response, errors=MISSING)
async def add_replica(ds: str, site: str, nodes: NodesDep) -> Response:
    """Add a replica of a storage at a site."""
    await _storage(nodes, ds)
    _refuse_other(site, await _site(nodes))
    return Response(status_code=202)


@area.delete("/ds/storages/{ds}/replicas/{site}", status=202, response_class=Response, errors=_INVALID)
async def delete_replica(ds: str, site: str, nodes: NodesDep) -> Response:
    """Remove the replica of a storage at a site."""
    await _storage(nodes, ds)
    _refuse_other(site, await _site(nodes))
    raise ApiError(400, "BAD_REQUEST", f"the storage is kept at {site} only: it cannot leave its last site")


@area.get("/heliograph/storage", answers=_OVERVIEW)
async def get_heliograph_storage(nodes: NodesDep) -> dict[str, Any]:
    """Every database of the node, its faults, and the damage that the storage reader found."""
    reader = await nodes.own.ask(DS_READER())
    site = await nodes.own.ask(DS_SITE())
    rows = await nodes.own.rows(DS_DATABASES())
    damaged = reader.counts.get("damaged_places", 0)
    return {
        "site": site.id,
        "databases": [_DATABASE(row) for row in rows],
        "reader": _READER(reader, damaged_places=damaged),
    }


@area.get("/heliograph/storage/{database}/generations", errors=MISSING, answers=_GENERATION.rows)
async def list_generations(database: str, nodes: NodesDep) -> list[dict[str, Any]]:
    """The generations of a database of messages."""
    with answering():
        rows = await nodes.own.rows(DS_GENERATIONS(DatabaseWanted(database)))
    return [_GENERATION(row) for row in rows]


@area.get("/heliograph/storage/{database}/streams", answers=_STREAM.page, errors=MISSING)
async def list_streams(database: str, nodes: NodesDep, page: PageDep) -> Response:
    """The streams of a database of messages, each with the topic structure that it has learned."""
    with answering():
        slices = nodes.own.slices(DS_STREAMS(DatabaseWanted(database)))
        rows, has_next = await take_page(slices, page)
    return page_response([_STREAM(row) for row in rows], page, None, has_next)


async def _site(nodes: AskedNodes) -> str:
    site = await nodes.own.ask(DS_SITE())
    if not site.id:
        raise ApiError(404, "NOT_FOUND", "Durable storage is disabled")
    return site.id


async def _storages(nodes: AskedNodes) -> list[DatabaseRow]:
    await _site(nodes)
    return [row for row in await nodes.own.rows(DS_DATABASES()) if row.kind == "messages"]


async def _storage(nodes: AskedNodes, name: str) -> DatabaseRow:
    rows = await _storages(nodes)
    for row in rows:
        if row.name == name:
            return row
    names = ", ".join(row.name for row in rows)
    raise ApiError(404, "NOT_FOUND", f"there is no storage {name[:200]!r}; there are: {names}")


def _refuse_other(site: str, own: str) -> None:
    if site != own:
        raise ApiError(404, "NOT_FOUND", f"there is no site {site[:200]!r}; there is {own}")


def _status(row: DatabaseRow) -> str:
    return "up" if row.is_open and not row.problem else "down"
