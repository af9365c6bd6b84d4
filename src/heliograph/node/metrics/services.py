"""The metrics of rules, message policies, Sparkplug and what the broker tells of itself."""

from typing import Final

from heliograph.observe.metric import Metric, counter, gauge

_LIFE: Final = (
    ("client.connected", "Clients that were connected."),
    ("client.disconnected", "Clients that were connected and no longer are."),
    ("session.created", "Sessions that began."),
    ("session.resumed", "Sessions that went on with a new connection."),
    ("session.takenover", "Connections that lost their session to another one."),
    ("session.discarded", "Sessions that ended since their clients wanted new ones."),
    ("session.terminated", "Sessions that ended."),
)
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
_OF_POLICIES: Final = [
    counter(f"{root}.{name}", f"Messages that a {title} {what}.", "", f"{root}.{{name}}.{name}")
    for root, title in (("schema_validation", "validation"), ("message_transformation", "transformation"))
    for name, what in (("matched", "was for"), ("succeeded", "let through"), ("failed", "failed for"))
]

RULES: Final[tuple[Metric, ...]] = (
    *(counter(f"rules.{name}", f"{meaning[:-1]}, of all rules.") for name, meaning in _RULES),
    *(counter(f"rule.{name}", meaning, "", f"rules.{{rule}}.{name}") for name, meaning in _RULES),
    gauge("rules.count", "Rules that the node has."),
    gauge("rules.messages_waiting", "Messages of rules that wait to be published."),
    counter("rules.pipeline_publish_refused", "Messages to topics that only rows for the pipeline may have."),
)
POLICIES: Final[tuple[Metric, ...]] = (
    counter("messages.validation_succeeded", "Messages that every validation let through."),
    counter("messages.validation_failed", "Messages that a validation failed for."),
    counter("messages.transformation_succeeded", "Messages that were transformed."),
    counter("messages.transformation_failed", "Messages that a transformation failed for."),
    *_OF_POLICIES,
)
SERVICES: Final[tuple[Metric, ...]] = (
    *(counter(name, meaning) for name, meaning in _LIFE),
    gauge("sparkplug.edge_nodes", "Sparkplug edge nodes whose births are known."),
    counter("sparkplug.edge_nodes.evicted", "Edge nodes that were forgotten to bound memory."),
    gauge("sparkplug.aliases", "Aliases that they declared."),
    counter("sparkplug.births.refused", "Births that declared too many aliases."),
    counter("sparkplug.births.malformed", "Births that cannot be read."),
    counter("sparkplug.metrics.published", "Metrics that were published as messages."),
    counter("sparkplug.metrics.unnamed", "Metrics whose alias no birth declared."),
    counter("sparkplug.metrics.unpublishable", "Metrics whose name no topic can hold."),
    counter("sparkplug.payloads.malformed", "Sparkplug messages that cannot be read."),
    counter("sys_topics.rounds_skipped", "Rounds of `$SYS` that were left out since the last one was not through."),
    gauge("clientid_conflict.active", "Clients that take each other's client id over and over."),
    counter("clientid_conflict.missed", "Of these, those that found no room for an alarm."),
    gauge("delivery.droppers", "Receivers that do not get all of their messages."),
    counter("delivery.droppers.unwatched", "Of these, those that found no room to be watched."),
    gauge("mqueue_overflow.active", "Clients whose queues are full."),
    counter("mqueue_overflow.missed", "Of these, those that found no room for an alarm."),
    gauge("flapping.count", "Clients whose disconnections are counted."),
    counter("flapping.detected", "Clients that were banned since they came and went too often."),
    counter("flapping.forgotten", "Clients whose counts were forgotten to bound memory."),
    counter("rewrite.rewritten", "Topics and filters that were rewritten."),
    counter("rewrite.invalid", "Of these, those that came to something invalid and were left as they were."),
    counter("rewrite.timeouts", "Regular expressions that took too long."),
    counter("auto_subscribe.subscribed", "Automatic subscriptions."),
    counter("auto_subscribe.skipped", "Automatic subscriptions that were not possible."),
)
