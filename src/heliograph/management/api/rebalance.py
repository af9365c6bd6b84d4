"""Rebalancing and evacuation of connections, neither of which is ever under way on a node that is alone."""

from typing import Any

from typing_extensions import TypedDict

from heliograph.control.proto_v1.node import NODE_STATUS
from heliograph.management.web.area import OPEN, Area
from heliograph.management.web.asked_nodes import NodesDep
from heliograph.management.web.errors import ApiError
from heliograph.rpc.conversation import UnreachableError

area = Area("Rebalance", "Connections that move from one node to another.", scope="nodes")


class Rebalances(TypedDict):
    """What moves from node to node."""

    evacuations: list[dict[str, Any]]
    purges: list[dict[str, Any]]
    rebalances: list[dict[str, Any]]


class RebalanceStatus(TypedDict):
    """Whether it is under way."""

    status: str


@area.get("/load_rebalance/availability_check", scope=OPEN)
async def check_availability(nodes: NodesDep) -> dict[str, Any]:
    """Whether load balancers may send clients here."""
    try:
        await nodes.own.ask(NODE_STATUS(), timeout_s=5.0)
    except UnreachableError as error:
        raise ApiError(503, "SERVICE_UNAVAILABLE", f"the node does not answer: {error}") from None
    return {}


@area.get("/load_rebalance/status")
async def get_rebalance_status() -> RebalanceStatus:
    """The rebalancing of this node."""
    return {"status": "disabled"}


@area.get("/load_rebalance/global_status")
async def get_rebalance_global_status() -> Rebalances:
    """The rebalancing of all nodes."""
    return {"evacuations": [], "purges": [], "rebalances": []}


@area.get("/node_eviction/status")
async def get_eviction_status() -> RebalanceStatus:
    """Whether this node evicts clients."""
    return {"status": "disabled"}
