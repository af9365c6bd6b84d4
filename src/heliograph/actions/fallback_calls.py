"""How an engine of actions hands refused rows to its node, which gives them to the fallback actions.

Both ends have it from here: the answers are `heliograph.control.fallbacks`', the questions
`heliograph.pipeline.side_outputs.fallbacks`'.
"""

import msgspec

from heliograph.rpc.asks import CARRIES, ONE, Ask
from heliograph.rpc.methods import Args


class FallbackRow(Args, frozen=True):
    """A row that the target of an action refused.

    Attributes:
        topic: Under which it was stored; it ends with the rule that made the row.
        clientid: Of the stored message: the rule, or the action that the row came from as a fallback.
        payload: The row as JSON.
    """

    topic: str
    clientid: str
    payload: bytes


class FallbackRows(Args, frozen=True):
    """Rows of one action."""

    action: str
    rows: list[FallbackRow]


class FallbackOutcome(msgspec.Struct, frozen=True):
    """What became of them.

    Attributes:
        failures: Why a fallback action did not take a row, by its number; the others are committed.
    """

    failures: dict[int, str]


ACTIONS_FALL_BACK = Ask("actions.fall_back", FallbackRows, FallbackOutcome, ONE, CARRIES)
