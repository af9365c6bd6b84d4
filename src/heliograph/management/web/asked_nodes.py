"""What routes ask: nodes, on behalf of the caller."""

from typing import Annotated

from fastapi import Depends, Request

from heliograph.management.asking.nodes import Node, Nodes
from heliograph.management.web.callers import NOBODY, Caller
from heliograph.management.web.errors import ApiError


class AskedNodes:
    """The nodes, as one caller asks them.

    Args:
        on_behalf: The caller and the id of the request, for the audit.
        owner: The caller, for its share of the requests in flight.
        hides_sent: Whether the caller sees no constant texts of what actions send, since it may not change them.
    """

    def __init__(self, nodes: Nodes, on_behalf: str, owner: str, hides_sent: bool) -> None:
        self.hides_sent = hides_sent
        self._nodes = nodes
        self._for = (on_behalf, owner)

    @property
    def own(self) -> Node:
        return self._nodes.own(*self._for)

    def all(self) -> list[Node]:
        return self._nodes.all(*self._for)

    def named(self, name: str) -> Node:
        """The node of that name, which the path names.

        Raises:
            ApiError: 404, there is none.
        """
        if (node := self._nodes.named(name, *self._for)) is None:
            known = ", ".join(self._nodes.names())
            raise ApiError(404, "NOT_FOUND", f"there is no node {name[:200]!r}; nodes: {known}")
        return node

    def chosen(self, name: str | None) -> list[Node]:
        """The nodes that a list is of: the one of the parameter `node`, or all.

        Raises:
            ApiError: 500, there is none of that name.
        """
        if name is None:
            return self.all()
        if (node := self._nodes.named(name, *self._for)) is None:
            raise ApiError(500, "NODE_DOWN", f"there is no node {name[:200]!r}")
        return [node]


def _asked_nodes(request: Request) -> AskedNodes:
    caller: Caller = getattr(request.state, "caller", NOBODY)
    hides_sent = not caller.may("actions:write", "PUT")
    return AskedNodes(request.app.state.nodes, on_behalf_of(caller, request), caller.owner, hides_sent)


def asked_for(caller: Caller, request: Request) -> Node:
    """The node beside this process, asked on behalf of a caller who is known only since the body was read."""
    nodes: Nodes = request.app.state.nodes
    return nodes.own(on_behalf_of(caller, request), caller.owner)


def on_behalf_of(caller: Caller, request: Request) -> str:
    """What the audit of a node says of a caller; empty without one."""
    if not caller.name:
        return ""
    address = request.client.host if request.client is not None else "nowhere"
    return f"{caller.kind} {caller.name} from {address}, request {request.state.request_id}"


NodesDep = Annotated[AskedNodes, Depends(_asked_nodes)]
