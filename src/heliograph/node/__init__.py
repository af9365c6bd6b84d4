"""A node: puts everything together, builds every part from the configuration, starts and stops them in order."""

from heliograph.node.data_dir import NodeError
from heliograph.node.node import Node

__all__ = ["Node", "NodeError"]
