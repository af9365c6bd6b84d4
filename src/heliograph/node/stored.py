"""What of a configuration has something kept on the disk."""

from heliograph.config import Config, NamedAction, PipelineAction


def is_anything_stored(config: Config) -> bool:
    """Whether a node keeps any message, or anything that waits for messages to be kept."""
    storage = config.durable_storage
    return bool(storage.messages.topics or storage.databases or is_retained_on_disk(config) or _has_rows(config))


def _has_rows(config: Config) -> bool:
    """Whether a rule hands its rows to the pipeline, which reads what is stored."""
    rules = config.rule_engine.rules.values()
    return any(isinstance(action, PipelineAction | NamedAction) for rule in rules for action in rule.actions)


def is_retained_on_disk(config: Config) -> bool:
    """Whether a node keeps retained messages on its disk."""
    return config.retainer.enable and config.retainer.backend.storage_type == "disc"
