"""The mark of messages that have been at a node: a user property of MQTT, and a header of what actions send."""

from collections.abc import Iterable
from typing import Any, Final

VIA: Final = "heliograph-via"
"""Names the nodes, with commas between them."""

_NODES_MAX: Final = 32
_OF_ROW: Final = "${payload.pub_props.User-Property.heliograph-via}"
_WITH_HEADERS: Final = ("http", "nats")
_NULL: Final = "null"  # a value that a row lacks


def nodes_in(texts: Iterable[str]) -> list[str]:
    """The nodes that marks name."""
    found = (node.strip() for text in texts for node in text.split(","))
    return [node for node in dict.fromkeys(found) if node and node != _NULL]


def has_gone_round(nodes: list[str], site: str) -> bool:
    """Whether a message has been at a node, or at so many that it would never end."""
    return site in nodes or len(nodes) >= _NODES_MAX


def marked(sink: dict[str, Any], site: str) -> dict[str, Any]:
    """The section of a sink, whose requests or messages name this node, and the nodes of a row that has `pub_props`."""
    if sink["type"] not in _WITH_HEADERS or not site:
        return sink
    value = site if sink.get("batch_rows", 1) > 1 else f"{site},{_OF_ROW}"
    return {**sink, "headers": {**(sink.get("headers") or {}), VIA: value}}
