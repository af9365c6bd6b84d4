"""Alarms: what is asked of them, and answers."""

from typing import Annotated

import msgspec

from heliograph.control.columns import Fact
from heliograph.rpc.asks import ACTS, EQUAL, LISTED, OWNER, Ask, ListAsk
from heliograph.rpc.methods import Args, NoArgs


class AlarmsWanted(Args, frozen=True):
    """Which alarms: those that are active, or those that ended."""

    history: bool = False


class AlarmRow(msgspec.Struct, frozen=True):
    """An alarm, as EMQX names its fields; times are milliseconds since the epoch.

    Attributes:
        deactivate_at: None while it is active.
        severity: `critical` if it degrades the node, `warning` if not.
    """

    name: str
    message: str
    details: dict[str, object]
    activate_at: Annotated[int, Fact(time_us=1000)]
    deactivate_at: Annotated[int | None, Fact(time_us=1000, is_left_out=True)]
    severity: str = "critical"


class AlarmName(Args, frozen=True):
    """One active alarm."""

    name: str


class AlarmsCleared(msgspec.Struct, frozen=True):
    """How many alarms of the history were forgotten."""

    cleared: int


ALARMS_LIST = ListAsk("alarms.list", AlarmsWanted, AlarmRow, LISTED, is_vital=True)
ALARMS_DEACTIVATE = Ask("alarms.deactivate", AlarmName, AlarmRow, OWNER, ACTS)
ALARMS_CLEAR = Ask("alarms.clear", NoArgs, AlarmsCleared, EQUAL, ACTS)
