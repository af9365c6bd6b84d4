"""What an authenticator has answered, as metrics."""

from collections.abc import Sequence
from typing import Final

from heliograph.broker.authentication import AuthStep
from heliograph.mqtt import reason_codes as rc
from heliograph.observe.histogram import Histogram
from heliograph.observe.metric import Metric, Sample, counter, histogram, labelled

_LABELS: Final = ("chain", "authenticator")
METRICS: Final[Sequence[Metric]] = (
    counter("authenticator.total", "Attempts of clients that it was asked about.", labels=_LABELS),
    counter("authenticator.success", "Clients that it accepted.", labels=_LABELS),
    counter("authenticator.failed", "Clients that it refused.", labels=_LABELS),
    counter("authenticator.nomatch", "Clients that it left to the next one.", labels=_LABELS),
    counter("authenticator.ignored", "Clients that its precondition left out.", labels=_LABELS),
    counter("authenticator.error", "Attempts at which it raised, or was late.", labels=_LABELS),
    histogram("authenticator.latency", "Answers that took at most so long.", "seconds", labels=_LABELS),
)
_BOUNDS_S: Final = (0.000_1, 0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0)


class AuthenticatorCounts:
    """The counts of one authenticator; they last as long as it does."""

    def __init__(self) -> None:
        self.success = 0
        self.failed = 0
        self.nomatch = 0
        self.ignored = 0
        self.error = 0
        self._latency = Histogram(_BOUNDS_S)

    def answered(self, step: AuthStep | None, took_us: int) -> None:
        """It has answered; a challenge is not the end of an attempt."""
        self._latency.add(took_us / 1e6)
        if step is None:
            self.nomatch += 1
        elif step.code == rc.SUCCESS:
            self.success += 1
        elif step.code != rc.CONTINUE_AUTHENTICATION:
            self.failed += 1

    def numbers(self) -> dict[str, int]:
        """The counts by their names."""
        asked = self.success + self.failed + self.nomatch + self.error
        return {
            "total": asked,
            "success": self.success,
            "failed": self.failed,
            "nomatch": self.nomatch,
            "ignored": self.ignored,
            "error": self.error,
        }

    def samples(self, chain: str, authenticator: str) -> list[Sample]:
        """The same as samples."""
        labels = (chain or "global", authenticator)
        return [
            *labelled("authenticator", self.numbers(), *labels),
            *self._latency.samples("authenticator.latency", *labels),
        ]
