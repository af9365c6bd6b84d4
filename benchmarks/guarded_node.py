"""`heliograph start` with an authorization callback that allows everything, as a plugin would add one.

Every publish and every delivery is then authorized, from the decisions that connections remember: what a broker with
access rules pays per message. Without any callback the kernel would not even ask.
"""

import asyncio
import sys

from heliograph import node
from heliograph.broker import hooks
from heliograph.cli import main
from heliograph.config import Config, Layers


class GuardedNode(node.Node):
    """A node that asks before it lets anything through."""

    def __init__(
        self,
        config: Config,
        reader_process: asyncio.subprocess.Process | None = None,
        layers: Layers | None = None,
    ) -> None:
        super().__init__(config, reader_process, layers)
        self.broker.hooks.point(hooks.CLIENT_AUTHORIZE).add(allow)


def allow(*_asked: object) -> tuple[str, str]:
    """The verdict on everything."""
    return hooks.STOP, "allow"


if __name__ == "__main__":
    vars(node)["Node"] = GuardedNode  # the command takes it from there when it starts
    sys.exit(main.main())
