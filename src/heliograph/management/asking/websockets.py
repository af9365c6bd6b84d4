"""Where a page in a browser can speak MQTT to a node: its listeners of WebSockets."""

from dataclasses import dataclass
from urllib.parse import urlsplit

from heliograph.control.proto_v1.listeners import LISTENERS_LIST
from heliograph.management.asking.nodes import Node


@dataclass(frozen=True, slots=True)
class WebSocketPlace:
    """A listener of WebSockets that accepts connections.

    Attributes:
        id: Its kind and name, as `ws:default`.
        scheme: `ws` or `wss`.
        host: The address that it is bound to.
    """

    id: str
    scheme: str
    host: str
    port: int
    path: str


async def websocket_places(node: Node, timeout_s: float) -> list[WebSocketPlace]:
    """All that accept connections now; those of Unix sockets are for programs.

    Raises:
        UnreachableError: The node does not answer.
    """
    rows = await node.rows(LISTENERS_LIST(), timeout_s=timeout_s)
    found = [(row.id, urlsplit(row.address)) for row in rows if row.is_listening]
    return [
        WebSocketPlace(name, url.scheme, url.hostname or "", url.port, url.path)
        for name, url in found
        if url.scheme in ("ws", "wss") and url.port is not None
    ]
