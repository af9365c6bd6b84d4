"""`heliograph start` with an authorization callback that allows everything, as a plugin would add one.

Every publish and every delivery is then authorized, from the decisions that connections remember: what a broker with
access rules pays per message. Without any callback the kernel would not even ask.
"""

import sys

from heliograph.broker import hooks
from heliograph.cli import main, start
from heliograph.config import Config
from heliograph.node import Node


class GuardedNode(Node):
    """A node that asks before it lets anything through."""

    def __init__(self, config: Config) -> None:
        super().__init__(config)
        self.broker.hooks.point(hooks.CLIENT_AUTHORIZE).add(allow)


def allow(*_asked: object) -> tuple[str, str]:
    """The verdict on everything."""
    return hooks.STOP, "allow"


if __name__ == "__main__":
    vars(start)["Node"] = GuardedNode
    sys.exit(main.main())
