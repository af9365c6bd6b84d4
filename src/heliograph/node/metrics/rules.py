"""The metrics of rules."""

from typing import Final

from heliograph.observe.metric import Metric, counter, gauge

_RULES: Final = (
    ("matched", "Messages and events that a rule was for."),
    ("passed", "Of these, those that it made a row of."),
    ("failed", "Of these, those that it failed for, for any reason."),
    ("failed.exception", "Failures of its text."),
    ("failed.no_result", "Messages that its WHERE did not let through."),
    ("failed.out_of_service", "Messages that found no room to wait for it."),
    ("actions.total", "Actions that were begun."),
    ("actions.success", "Of these, those that succeeded."),
    ("actions.failed", "Of these, those that failed, for any reason."),
    ("actions.failed.out_of_service", "Actions whose target took nothing."),
    ("actions.failed.unknown", "Actions that failed for another reason."),
    ("recursive_republish_detected", "Messages of a rule that would have come back to it."),
)
RULES: Final[tuple[Metric, ...]] = (
    *(counter(f"rules.{name}", f"{meaning[:-1]}, of all rules.") for name, meaning in _RULES),
    *(counter(f"rule.{name}", meaning, "", ("rule",), f"rules.{{rule}}.{name}") for name, meaning in _RULES),
    gauge("rules.count", "Rules that the node has."),
    gauge("rules.messages_waiting", "Messages of rules that wait to be published."),
    counter("rules.pipeline_publish_refused", "Messages to topics that only rows for the pipeline may have."),
)
