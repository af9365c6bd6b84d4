"""What a node says of itself."""

import msgspec

from heliograph.rpc.asks import ONE, Ask
from heliograph.rpc.methods import NoArgs


class Reason(msgspec.Struct, frozen=True):
    """Why a node is degraded.

    Attributes:
        what: The part of the node, or the alarm.
        message: What is wrong, for people.
    """

    what: str
    message: str


class NodeStatus(msgspec.Struct, frozen=True):
    """How a node is: the answer of `node.status`.

    Attributes:
        name: Its name.
        version: Of the program.
        state: `ready`, or `degraded` for the reasons that are given.
        pid: Its process.
        uptime_s: Seconds since it was ready.
        connections: Clients that are connected.
        sessions: Sessions, of clients that are away too.
        places: Where it is reached, each with what is spoken there.
        waiting: Paths of the settings that were changed and hold from its next start on.
    """

    name: str
    version: str
    state: str
    reasons: list[Reason]
    pid: int
    uptime_s: int
    connections: int
    sessions: int
    places: list[str]
    waiting: tuple[str, ...] = ()


NODE_STATUS = Ask("node.status", NoArgs, NodeStatus, ONE, is_vital=True)
