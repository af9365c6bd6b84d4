"""How a node is."""

import os
from collections.abc import Callable

from heliograph import __version__
from heliograph.channel.context import ChannelContext
from heliograph.control.proto_v1.node import NODE_STATUS, NodeStatus, Reason
from heliograph.observe.alarms import Alarms
from heliograph.parts import Parts
from heliograph.rpc.methods import Call, Method, NoArgs

READY = "ready"
DEGRADED = "degraded"


def methods(
    name: str, parts: Parts, context: ChannelContext, alarms: Alarms, uptime_s: Callable[[], int]
) -> list[Method]:
    """`node.status`.

    Args:
        name: The name of the node.
        uptime_s: Seconds since it was ready.
    """

    def status(args: NoArgs, call: Call) -> NodeStatus:
        reasons = [Reason(part, message) for part, message in parts.health().items()]
        reasons += [Reason(alarm.name, alarm.message) for alarm in alarms.active() if alarm.degrades]
        connected = context.channels.statistics()["live_connections.count"]
        return NodeStatus(
            name,
            __version__,
            DEGRADED if reasons else READY,
            reasons,
            os.getpid(),
            uptime_s(),
            connected,
            len(context.sessions),
            parts.places(),
            tuple(parts.waiting),
        )

    return [NODE_STATUS.by(status)]
