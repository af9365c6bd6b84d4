"""Traces: what happens to one client, topic, address or rule, recorded in files."""

import asyncio
import zipfile
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from tempfile import SpooledTemporaryFile
from typing import IO, Annotated, Final, Literal, NotRequired, cast

from fastapi import Query
from pydantic import Field
from starlette.responses import StreamingResponse
from typing_extensions import TypedDict

from heliograph.control.proto_v1.trace import (
    TRACE_DELETE,
    TRACE_LIST,
    TRACE_READ,
    TRACE_START,
    TRACE_STOP,
    TraceNameArgs,
    TraceReadArgs,
    TraceRecords,
    TraceRow,
    TraceStartArgs,
)
from heliograph.management.asking.nodes import Node
from heliograph.management.web.answering import answering
from heliograph.management.web.area import MISSING, Area
from heliograph.management.web.asked_nodes import AskedNodes, NodesDep
from heliograph.management.web.errors import ApiError
from heliograph.management.web.models import Body, Str, Whole
from heliograph.management.web.times import NowDep, rfc3339

area = Area("Trace", "Records of what happens to one client, topic, address or rule.", scope="traces")

KINDS: Final = {"clientid": "client", "topic": "topic", "ip_address": "ip_address", "ruleid": "rule"}
_TYPES: Final = {kind: name for name, kind in KINDS.items()}
_DURATION_S: Final = 600
_PIECE_BYTES: Final = 262_144
_IN_MEMORY: Final = 1 << 20
_MISSING_NODE: Final = {404: ("NOT_FOUND", "NODE_ERROR")}

TraceType = Literal["clientid", "topic", "ip_address", "ruleid"]
NodeQuery = Annotated[str | None, Query(description="The node whose records are wanted")]


class TraceBody(Body):
    """A trace: of its four subjects, the one that `type` names."""

    name: Str = Field(min_length=1, max_length=249, pattern=r"^[A-Za-z]+[A-Za-z0-9-_]*$")
    type: TraceType
    clientid: Str | None = None
    topic: Str | None = None
    ip_address: Str | None = None
    ruleid: Str | None = None
    start_at: Str | Whole | None = Field(default=None, description="RFC 3339, or seconds since the epoch")
    end_at: Str | Whole | None = Field(
        default=None, description="The same; ten minutes behind its beginning if left out"
    )
    payload_encode: Literal["text", "hex", "hidden"] = "text"
    formatter: Literal["text", "json"] = "text"

    def order(self, now: float) -> TraceStartArgs:
        """What the node is asked for at a time, in seconds since the epoch.

        Raises:
            ApiError: 400, it makes no sense.
        """
        value = getattr(self, self.type)
        if not value:
            raise ApiError(400, "INVALID_PARAMS", f"the trace needs {self.type}, which its type says")
        begin = now if self.start_at is None else max(_seconds(self.start_at, "start_at"), now)
        end = begin + _DURATION_S if self.end_at is None else _seconds(self.end_at, "end_at")
        if end <= begin or end <= now:
            raise ApiError(400, "INVALID_PARAMS", "end_at has to be after start_at, and in the future")
        return TraceStartArgs(
            self.name,
            KINDS[self.type],
            value,
            duration_s=max(1, round(end - begin)),
            payload=self.payload_encode,
            start_at=float(int(begin)),
            formatter=self.formatter,
        )


class TraceShown(TypedDict):
    """A trace: of its four subjects, the one that `type` names.

    Attributes:
        status: `waiting`, `running` or `stopped`.
        log_size: Bytes, by node.
    """

    name: str
    type: TraceType
    clientid: NotRequired[str]
    topic: NotRequired[str]
    ip_address: NotRequired[str]
    ruleid: NotRequired[str]
    enable: bool
    status: str
    start_at: str
    end_at: str
    payload_encode: str
    formatter: str
    log_size: dict[str, int]


class StoppedTrace(TypedDict):
    """A trace that has ended."""

    name: str
    enable: bool


class TracePosition(TypedDict):
    """Where the next records begin."""

    bytes: int
    position: int


class TraceLog(TypedDict):
    """Some records of a trace, a line each."""

    items: str
    meta: TracePosition


class TraceFileObject(TypedDict):
    """How much a trace has recorded on a node.

    Attributes:
        size: Bytes.
        mtime: Milliseconds since the epoch.
    """

    node: str
    size: int
    mtime: int


@area.get("/trace")
async def list_traces(nodes: NodesDep) -> list[TraceShown]:
    """All traces, the newest first."""
    rows = await nodes.own.rows(TRACE_LIST())
    return [_trace(nodes.own, row) for row in sorted(rows, key=lambda row: row.started_at, reverse=True)]


@area.post("/trace", errors={400: ("INVALID_PARAMS",), 409: ("ALREADY_EXISTS", "DUPLICATE_CONDITION")})
async def create_trace(body: TraceBody, nodes: NodesDep, now_s: NowDep) -> TraceShown:
    """Begin a trace, now or at its time."""
    with answering(
        trace=(400, "INVALID_PARAMS"),
        trace_exists=(409, "ALREADY_EXISTS"),
        trace_duplicate=(409, "DUPLICATE_CONDITION"),
    ):
        row = await nodes.own.ask(TRACE_START(body.order(now_s)))
    return _trace(nodes.own, row)


@area.delete("/trace")
async def delete_traces(nodes: NodesDep) -> None:
    """End and delete all traces."""
    for row in await nodes.own.rows(TRACE_LIST()):
        await _delete(nodes.own, row.name, is_missing_ok=True)


@area.delete("/trace/{name}", errors=MISSING)
async def delete_trace(name: str, nodes: NodesDep) -> None:
    """End a trace, and delete what it has recorded."""
    await _delete(nodes.own, name, is_missing_ok=False)


@area.put("/trace/{name}/stop", errors=MISSING)
async def stop_trace(name: str, nodes: NodesDep) -> StoppedTrace:
    """End a trace; what it has recorded stays."""
    row = await _found(nodes.own, name)
    if row.state in ("running", "waiting"):
        with answering(trace_not_found=(404, "NOT_FOUND")):
            await nodes.own.ask(TRACE_STOP(TraceNameArgs(name)))
    return {"name": name, "enable": False}


@area.get("/trace/{name}/download", response_class=StreamingResponse, errors=_MISSING_NODE)
async def download_trace(name: str, nodes: NodesDep, node: NodeQuery = None) -> StreamingResponse:
    """What a trace has recorded, as a zip archive."""
    asked = _chosen(nodes, node)
    await _found(asked, name)
    # Closed when it was sent, or with an answer whose reader is gone.
    archive = SpooledTemporaryFile(_IN_MEMORY)  # noqa: SIM115
    try:
        await _pack(asked, name, archive)
    except BaseException:
        archive.close()
        raise
    headers = {"content-disposition": f'attachment; filename="{name}.zip"'}
    return StreamingResponse(_chunks(archive), headers=headers, media_type="application/octet-stream")


@area.get("/trace/{name}/log", errors=_MISSING_NODE)
async def get_trace_log(
    name: str,
    nodes: NodesDep,
    position: Annotated[int, Query(ge=0, le=2**53, description="Where to begin: `meta.position` of before")] = 0,
    size: Annotated[int, Query(alias="bytes", ge=1, le=2**31 - 1, description="How many bytes, about")] = 1000,
    node: NodeQuery = None,
) -> TraceLog:
    """Some records of a trace, whole ones."""
    found = await _read(_chosen(nodes, node), name, position, min(size, _PIECE_BYTES))
    return {"items": found.text, "meta": {"bytes": size, "position": found.position}}


@area.get("/trace/{name}/log_detail", errors=MISSING)
async def get_trace_log_detail(name: str, nodes: NodesDep, now_s: NowDep) -> list[TraceFileObject]:
    """How much a trace has recorded, and when last, in milliseconds since the epoch."""
    row = await _found(nodes.own, name)
    written = row.modified_at or now_s
    return [{"node": nodes.own.name, "size": row.size, "mtime": int(written * 1000)}]


def _trace(node: Node, row: TraceRow) -> TraceShown:
    begin_us = int(datetime.fromisoformat(row.started_at).timestamp() * 1_000_000) if row.started_at else 0
    kind = _TYPES.get(row.about, "clientid")
    state = row.state if row.state in ("running", "waiting") else "stopped"
    found: dict[str, object] = {
        "name": row.name,
        "type": kind,
        kind: row.value,
        "enable": state != "stopped",
        "status": state,
        "start_at": rfc3339(begin_us),
        "end_at": rfc3339(begin_us + row.duration_s * 1_000_000),
        "payload_encode": row.payload,
        "formatter": row.formatter,
        "log_size": {node.name: row.size},
    }
    return cast("TraceShown", found)  # its subject has one of four names


def _seconds(given: str | int, name: str) -> float:
    if isinstance(given, int) or (given.isascii() and given.isdigit()):
        seconds = int(given)
        if seconds > 1 << 40:
            raise ApiError(400, "INVALID_PARAMS", f"{name}: found {seconds}, expected seconds since the epoch")
        return seconds
    try:
        moment = datetime.fromisoformat(given)
    except ValueError:
        raise ApiError(
            400, "INVALID_PARAMS", f"{name}: found {given[:100]!r}; a time as 2026-01-31T12:00:00Z, or seconds"
        ) from None
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


def _chosen(nodes: AskedNodes, name: str | None) -> Node:
    if name is not None and name != nodes.own.name:
        raise ApiError(404, "NODE_ERROR", f"there is no node {name[:200]!r}")
    return nodes.own


async def _found(node: Node, name: str) -> TraceRow:
    for row in await node.rows(TRACE_LIST()):
        if row.name == name:
            return row
    raise ApiError(404, "NOT_FOUND", f"there is no trace {name[:300]!r}")


async def _read(node: Node, name: str, position: int, size: int) -> TraceRecords:
    with answering(trace_not_found=(404, "NOT_FOUND")):
        return await node.ask(TRACE_READ(TraceReadArgs(name, position, size)))


async def _delete(node: Node, name: str, *, is_missing_ok: bool) -> None:
    try:
        with answering(trace_not_found=(404, "NOT_FOUND")):
            await node.ask(TRACE_DELETE(TraceNameArgs(name)))
    except ApiError:
        if not is_missing_ok:
            raise


async def _pack(node: Node, name: str, archive: IO[bytes]) -> None:
    """Write an archive of all records; compressed in threads."""
    name_inside = f"{node.name}/{name}.log"
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as packed, packed.open(name_inside, "w") as entry:
        position = 0
        while (piece := await _read(node, name, position, _PIECE_BYTES)).text:
            await asyncio.to_thread(entry.write, piece.text.encode())
            position = piece.position
    archive.seek(0)


async def _chunks(archive: IO[bytes]) -> AsyncIterator[bytes]:
    with archive:
        while chunk := archive.read(_PIECE_BYTES):
            yield chunk
