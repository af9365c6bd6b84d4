"""Which databases of a node refuse messages now, so that these are refused before delivery."""

from heliograph.broker.pubsub import Broker
from heliograph.config import Config, NamedAction, PipelineAction
from heliograph.mqtt import reason_codes as rc
from heliograph.storage.errors import StorageError, StorageFullError


class Refusals:
    """The databases that refuse messages, and why; owned by the node, which it keeps the broker informed for."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._errors: dict[str, StorageError] = {}

    def tell(self, database: str, error: StorageError | None) -> None:
        """A database refuses messages from now on, or takes them again."""
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
    """With which reason code an error of storage refuses a message; 0 for none."""
    if error is None:
        return rc.SUCCESS
    return rc.QUOTA_EXCEEDED if isinstance(error, StorageFullError) else rc.UNSPECIFIED_ERROR


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
