"""Rules that run in the broker: what is asked of them, and answers."""

import msgspec

from heliograph.rpc.methods import Args


class RuleId(Args, frozen=True):
    """One rule."""

    id: str


class RuleRow(msgspec.Struct, frozen=True):
    """A rule.

    Attributes:
        topics: What its FROM names.
        counts: By the names that metrics have.
        last_error: What the log said of it last; empty for nothing.
        last_error_at: When that was, in microseconds since the epoch; 0 for never.
    """

    id: str
    enable: bool
    topics: list[str]
    counts: dict[str, int]
    last_error: str
    last_error_at: int


class RuleFacts(msgspec.Struct, frozen=True):
    """A rule with its text.

    Attributes:
        actions: Their kinds.
        may_block: Whether it is evaluated in threads.
    """

    row: RuleRow
    description: str
    sql: str
    actions: list[str]
    may_block: bool
