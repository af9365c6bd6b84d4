"""What of a configuration needs the pipeline, or the storage reader, while that is off: nothing fails, rows wait."""

from collections.abc import Iterator

from heliograph.config.actions.roots import SPARK, ActionSettings, engine_of
from heliograph.config.rules import NamedAction, PipelineAction, RuleConfig
from heliograph.config.settings import Config

PIPELINE_OFF = "set pipeline.enable = true"
FLIGHT_OFF = "rows are read from the storage reader: set durable_storage.flight.enable = true"


def engines_of(rule: RuleConfig, actions: ActionSettings) -> set[str]:
    """The engines to which the rows of a rule go."""
    if not rule.enable:
        return set()
    named = {
        engine_of(actions.engine, one.id.partition(":")[0]) for one in rule.actions if isinstance(one, NamedAction)
    }
    return named | {SPARK for one in rule.actions if isinstance(one, PipelineAction)}


def pipeline_needs(config: Config) -> Iterator[tuple[tuple[str, ...], str]]:
    """The path of each setting that needs the pipeline while it is off, and what comes of it."""
    has_reader = config.durable_storage.flight.enable
    if config.pipeline.enable and has_reader:
        return
    do = FLIGHT_OFF if config.pipeline.enable else PIPELINE_OFF
    if config.pipeline.file:
        yield ("pipeline", "file"), f"nothing runs this file, since the pipeline is off: {do}"
    for rule_id, rule in config.rule_engine.rules.items():
        engines, place = engines_of(rule, config.actions), ("rule_engine", "rules", rule_id, "actions")
        if SPARK in engines:
            yield place, f"the rows of this rule wait for the pipeline, which is off: {do}"
        elif engines and not has_reader:
            yield place, f"the rows of this rule wait for their engine: {FLIGHT_OFF}"
