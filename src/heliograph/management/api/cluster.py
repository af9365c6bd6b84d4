"""The cluster: one node, which others cannot join yet; answers are those of EMQX for a cluster of one."""

from typing import Any, Final

from typing_extensions import TypedDict

from heliograph.management.web.area import MISSING, Area
from heliograph.management.web.asked_nodes import NodesDep
from heliograph.management.web.errors import ApiError
from heliograph.management.web.models import Body, Whole

_NAME: Final = "heliograph"
_ALONE: Final = "this version forms no cluster: a node is alone"

area = Area("Cluster", "Which nodes belong together.", scope="nodes")


class Invitation(Body):
    """How to invite.

    Attributes:
        timeout: Milliseconds.
    """

    timeout: Whole = 15_000


class ClusterObject(TypedDict):
    """The cluster; `self` is the node that answers."""

    name: str
    nodes: list[str]
    self: str


class CoreNode(TypedDict):
    """A core node and the nodes that follow it."""

    core_node: str
    replicant_nodes: list[str]


class Invitations(TypedDict):
    """Invitations to the cluster."""

    succeed: list[dict[str, Any]]
    in_progress: list[dict[str, Any]]
    failed: list[dict[str, Any]]


@area.get("/cluster")
async def get_cluster(nodes: NodesDep) -> ClusterObject:
    """The cluster: its name, its nodes and the node that answers."""
    return {"name": _NAME, "nodes": [node.name for node in nodes.all()], "self": nodes.own.name}


@area.get("/cluster/topology")
async def get_cluster_topology(nodes: NodesDep) -> list[CoreNode]:
    """Core nodes, each with the nodes that follow it; all nodes are core nodes."""
    return [{"core_node": node.name, "replicant_nodes": []} for node in nodes.all()]


@area.get("/cluster/invitation")
async def get_cluster_invitation() -> Invitations:
    """Invitations under way and ended."""
    return {"succeed": [], "in_progress": [], "failed": []}


@area.put("/cluster/{node}/invite", scope="config:write")
async def invite_node(node: str, body: Invitation | None = None) -> dict[str, Any]:
    """Make a node join the cluster."""
    raise ApiError(400, "BAD_REQUEST", _ALONE)


@area.put("/cluster/{node}/invite_async", scope="config:write")
async def invite_node_async(node: str, body: Invitation | None = None) -> dict[str, Any]:
    """Make a node join the cluster, without waiting for it."""
    raise ApiError(400, "BAD_REQUEST", _ALONE)


@area.delete("/cluster/{node}/force_leave", scope="config:write", errors=MISSING)
async def force_leave(node: str, nodes: NodesDep) -> None:
    """Make a node leave the cluster."""
    nodes.named(node)
    raise ApiError(400, "BAD_REQUEST", f"{_ALONE}, and cannot leave itself")
