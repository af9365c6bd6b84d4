"""A node: puts everything together, builds every part from the configuration, starts and stops them in order."""

from heliograph.node.node import Node, NodeError

__all__ = ["Node", "NodeError"]
