"""Nodes and the cluster."""

import asyncio
import os
import platform
from pathlib import Path
from typing import Final, Literal, NotRequired

from typing_extensions import TypedDict

from heliograph.control.proto_v1.node import NODE_STATUS
from heliograph.management.asking.nodes import Node
from heliograph.management.prometheus.machine import MachineMeter
from heliograph.management.web.area import MISSING, Area
from heliograph.management.web.asked_nodes import NodesDep
from heliograph.rpc.conversation import UnreachableError

area = Area("Nodes", "The nodes of the cluster.", scope="nodes")

_PROCESSES: Final = Path("/proc")
_LOG: Final = "the log goes where log.console and log.file say"


class NodeObject(TypedDict):
    """A node; of one that does not answer, only its name and status.

    Attributes:
        uptime: Milliseconds.
        connections: Sessions.
        live_connections: Connections.
        memory_total: Of the machine, as `23.54G`.
        memory_used: Of the machine.
        max_fds: Files that its process may have open.
        process_available: The same.
        process_used: Files that its process has open.
    """

    node: str
    node_status: Literal["running", "stopped"]
    version: NotRequired[str]
    edition: NotRequired[str]
    role: NotRequired[str]
    otp_release: NotRequired[str]
    uptime: NotRequired[int]
    connections: NotRequired[int]
    live_connections: NotRequired[int]
    cluster_sessions: NotRequired[int]
    load1: NotRequired[float]
    load5: NotRequired[float]
    load15: NotRequired[float]
    memory_total: NotRequired[str]
    memory_used: NotRequired[str]
    log_path: NotRequired[str]
    sys_path: NotRequired[str]
    max_fds: NotRequired[int]
    process_available: NotRequired[int]
    process_used: NotRequired[int]


class _OpenFiles(TypedDict):
    max_fds: int
    process_available: int
    process_used: int


@area.get("/nodes")
async def list_nodes(nodes: NodesDep) -> list[NodeObject]:
    """All nodes."""
    return [await _node(node) for node in nodes.all()]


@area.get("/nodes/{node}", errors=MISSING)
async def get_node(node: str, nodes: NodesDep) -> NodeObject:
    """One node."""
    return await _node(nodes.named(node))


async def _node(node: Node) -> NodeObject:
    try:
        status = await node.ask(NODE_STATUS())
    except UnreachableError:
        return {"node": node.name, "node_status": "stopped"}
    load1, load5, load15 = os.getloadavg()
    machine = MachineMeter().look()
    files = await asyncio.to_thread(_open_files, _PROCESSES / str(status.pid))
    return {
        "node": node.name,
        "node_status": "running",
        "version": status.version,
        "edition": "Opensource",
        "role": "core",
        "otp_release": f"Python {platform.python_version()}",
        "uptime": status.uptime_s * 1000,
        "connections": status.sessions,
        "live_connections": status.connections,
        "cluster_sessions": status.sessions,
        "load1": load1,
        "load5": load5,
        "load15": load15,
        "memory_total": _in_words(machine.memory_bytes),
        "memory_used": _in_words(machine.used_bytes),
        "log_path": _LOG,
        "sys_path": str(node.data_dir),
        **files,
    }


def _open_files(process: Path) -> _OpenFiles:
    """What EMQX counts in processes of its own are open files of ours; a connection is one."""
    try:
        limits = (process / "limits").read_text().splitlines()
        soft = next(line for line in limits if line.startswith("Max open files")).split()[3]
        files = process / "fd"
        used = files.stat().st_size or len(os.listdir(files))
    except OSError:  # another system
        soft, used = "0", 0
    most = int(soft) if soft.isdecimal() else 0
    return {"max_fds": most, "process_available": most, "process_used": used}


def _in_words(size: int) -> str:
    """A size as EMQX writes it: `512.00M`."""
    for unit, letter in ((1 << 30, "G"), (1 << 20, "M"), (1 << 10, "K")):
        if size > unit:
            return f"{size / unit:.2f}{letter}"
    return f"{size:.2f}"
