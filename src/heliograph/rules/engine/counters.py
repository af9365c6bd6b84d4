"""What is counted of each rule, under EMQX's names."""

from typing import Final

from heliograph.broker.internal_publish_queue import PublishCounters
from heliograph.observe.rate import CountRate

NAMES: Final = (
    "matched",
    "passed",
    "failed",
    "failed.exception",
    "failed.no_result",
    "failed.out_of_service",
    "actions.total",
    "actions.success",
    "actions.pending",
    "actions.failed",
    "actions.failed.out_of_service",
    "actions.failed.unknown",
    "recursive_republish_detected",
)


class RuleCounters:
    """The counts of one rule since it was added; they stay when it is replaced.

    Attributes:
        matched: Messages and events that it was for.
        passed: Of them, those that gave rows.
        turned_away: Those that found no place among the ones that wait, for a rule that may block, or lost it.
        actions_success: Actions that were done, apart from messages.
        actions_pending: Rows that were stored for the pipeline, which brings them to their targets later.
        actions_failed: Actions that could not be done, apart from messages.
        actions_off: Actions that are disabled, or are not there.
        recursions: Messages that were not made because the rule had made their cause.
    """

    __slots__ = (
        "actions_failed",
        "actions_off",
        "actions_pending",
        "actions_success",
        "exceptions",
        "matched",
        "messages",
        "no_result",
        "passed",
        "rate",
        "recursions",
        "turned_away",
    )

    def __init__(self) -> None:
        self.messages = PublishCounters()
        self.rate = CountRate()
        self.reset()

    def reset(self) -> None:
        self.matched = 0
        self.passed = 0
        self.exceptions = 0
        self.no_result = 0
        self.turned_away = 0
        self.actions_success = 0
        self.actions_pending = 0
        self.actions_failed = 0
        self.actions_off = 0
        self.recursions = 0
        self.messages.published = self.messages.dropped = self.messages.failed = 0

    def snapshot(self) -> dict[str, int]:
        published, dropped = int(self.messages.published), int(self.messages.dropped)
        dropped += self.actions_off
        success, broken = self.actions_success + published, self.actions_failed + int(self.messages.failed)
        return {
            "matched": self.matched,
            "passed": self.passed,
            "failed": self.exceptions + self.no_result + self.turned_away,
            "failed.exception": self.exceptions,
            "failed.no_result": self.no_result,
            "failed.out_of_service": self.turned_away,
            "actions.total": success + self.actions_pending + dropped + broken,
            "actions.success": success,
            "actions.pending": self.actions_pending,
            "actions.failed": dropped + broken,
            "actions.failed.out_of_service": dropped,
            "actions.failed.unknown": broken,
            "recursive_republish_detected": self.recursions,
        }
