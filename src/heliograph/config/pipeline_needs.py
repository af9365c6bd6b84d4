"""What of a configuration needs the pipeline while that is off: nothing fails, and rows wait."""

from collections.abc import Iterator

from heliograph.config.rules import NamedAction, PipelineAction, RuleConfig
from heliograph.config.settings import Config

PIPELINE_OFF = "set pipeline.enable = true"
FLIGHT_OFF = "it reads from the storage reader: set durable_storage.flight.enable = true"


def needs_pipeline(rule: RuleConfig) -> bool:
    """Whether rows of a rule go to the pipeline."""
    return rule.enable and any(isinstance(one, NamedAction | PipelineAction) for one in rule.actions)


def pipeline_needs(config: Config) -> Iterator[tuple[tuple[str, ...], str]]:
    """The path of each setting that needs the pipeline while it is off, and what comes of it."""
    if config.pipeline.enable and config.durable_storage.flight.enable:
        return
    do = FLIGHT_OFF if config.pipeline.enable else PIPELINE_OFF
    if config.pipeline.file:
        yield ("pipeline", "file"), f"nothing runs this file, since the pipeline is off: {do}"
    for rule_id, rule in config.rule_engine.rules.items():
        if needs_pipeline(rule):
            text = f"the rows of this rule wait for the pipeline, which is off: {do}"
            yield ("rule_engine", "rules", rule_id, "actions"), text
