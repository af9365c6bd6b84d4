"""Protection against overload: what is asked of it, and answers."""

import msgspec

from heliograph.rpc.asks import CONFIGURES, ONE, Ask
from heliograph.rpc.methods import NoArgs


class OverloadReading(msgspec.Struct, frozen=True):
    """One thing that is measured.

    Attributes:
        name: As its threshold below `sysmon.overload`.
        value: What was measured last.
        threshold: Where it is too much.
        unit: `s` or `%`.
    """

    name: str
    value: float
    threshold: float
    unit: str


class OverloadStatus(msgspec.Struct, frozen=True):
    """Whether a node is overloaded, and what it sheds.

    Attributes:
        node: The name of the node.
        enabled: Whether anything may be shed, in any zone.
        stage: How much is shed, 0 to 4; 0 while the node is not overloaded.
        sheds: What is shed now, in words.
        readings: What is measured.
        counts: What was shed since the start, by the names of the metrics.
    """

    node: str
    enabled: bool
    overloaded: bool
    stage: int
    sheds: list[str]
    readings: list[OverloadReading]
    counts: dict[str, int]


class OverloadSwitched(msgspec.Struct, frozen=True):
    """Protection is enabled or disabled now; the change of the configuration has this revision."""

    enabled: bool
    revision: int


OLP_STATUS = Ask("olp.status", NoArgs, OverloadStatus, ONE, is_vital=True)
OLP_ENABLE = Ask("olp.enable", NoArgs, OverloadSwitched, ONE, CONFIGURES, is_vital=True)
OLP_DISABLE = Ask("olp.disable", NoArgs, OverloadSwitched, ONE, CONFIGURES, is_vital=True)
