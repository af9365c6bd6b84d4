"""Which databases of a node refuse messages now, so that these are refused before delivery."""

from heliograph.broker.pubsub import Broker
from heliograph.config.rules import NamedAction, PipelineAction
from heliograph.config.settings import Config
from heliograph.mqtt import reason_codes as rc
from heliograph.storage.errors import StorageError, StorageFullError


class Refusals:
    """The databases that refuse messages, and why; keeps the broker informed."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._errors: dict[str, StorageError] = {}

    def tell(self, database: str, error: StorageError | None) -> None:
        if error is None:
            self._errors.pop(database, None)
        else:
            self._errors[database] = error
        self._broker.is_refusing = bool(self._errors)
        self._broker.refusal_reason = next((error.reason for error in self._errors.values()), "")

    def code(self, database: str) -> int:
        """The reason code with which a database refuses messages now; 0 where it takes them."""
        return refusal_code(self._errors.get(database))

    def __repr__(self) -> str:
        return f"Refusals({', '.join(self._errors) or 'none'})"


def refusal_code(error: StorageError | None) -> int:
    if error is None:
        return rc.SUCCESS
    return rc.QUOTA_EXCEEDED if isinstance(error, StorageFullError) else rc.UNSPECIFIED_ERROR


def is_anything_stored(config: Config) -> bool:
    storage = config.durable_storage
    return bool(storage.messages.topics or storage.databases or is_retained_on_disk(config) or _has_rows(config))


def _has_rows(config: Config) -> bool:
    rules = config.rule_engine.rules.values()
    return any(isinstance(action, PipelineAction | NamedAction) for rule in rules for action in rule.actions)


def is_retained_on_disk(config: Config) -> bool:
    return config.retainer.enable and config.retainer.backend.storage_type == "disc"
