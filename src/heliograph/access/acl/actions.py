"""The actions of a rule as bits: one for each of publish by QoS and retain flag, and subscribe by QoS."""

from collections.abc import Collection
from functools import cache
from typing import Final

from heliograph.broker.actions import PUBLISH, SUBSCRIBE, publish_action, subscribe_action

ALL: Final = "all"
KINDS: Final = (PUBLISH, SUBSCRIBE, ALL)
EVERY_QOS: Final = (0, 1, 2)


def action_bits(kind: str, qos: Collection[int] = EVERY_QOS, retain: bool | None = None) -> int:
    """The bits of the actions that a rule means.

    Args:
        retain: The retain flag that is meant, None for both; it does not count for subscriptions.
    """
    return _bits(kind, frozenset(qos), retain)


@cache
def _bits(kind: str, qos: frozenset[int], retain: bool | None) -> int:
    actions = []
    if kind != SUBSCRIBE:
        flags = (False, True) if retain is None else (retain,)
        actions += [publish_action(each, flag) for each in qos for flag in flags]
    if kind != PUBLISH:
        actions += [subscribe_action(each) for each in qos]
    return sum({1 << action.number for action in actions})


PUBLISHING: Final = action_bits(PUBLISH)
"""The bits of every publish."""
EVERYTHING: Final = action_bits(ALL)
"""The bits of all actions."""
