"""`heliograph start` with an authorization callback that allows everything, as a plugin would add one.

Every publish and every delivery is then authorized, from the decisions that connections remember: what a broker with
access rules pays per message. Without any callback the kernel would not even ask.
"""

import sys
from typing import Any

from heliograph import node
from heliograph.broker import hooks
from heliograph.cli import main


class GuardedNode(node.Node):
    """A node that asks before it lets anything through."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)  # also of an earlier tree, which is given less
        self.broker.hooks.point(hooks.CLIENT_AUTHORIZE).add(allow)


def allow(*_asked: object) -> tuple[str, str]:
    """The verdict on everything."""
    return hooks.STOP, "allow"


if __name__ == "__main__":
    vars(node)["Node"] = GuardedNode  # the command takes it from there when it starts
    sys.exit(main.main())
