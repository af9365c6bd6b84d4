"""Schema validation and message transformation as parts of a node."""

import logging
from collections.abc import Callable
from typing import Any, Final

from heliograph.broker.client import ClientInfo
from heliograph.broker.hook_order import TRANSFORMATION, VALIDATION
from heliograph.broker.pubsub import Broker
from heliograph.config.settings import Config
from heliograph.message_policies.chain import PolicyChain
from heliograph.message_policies.transformation import MessageTransformation
from heliograph.message_policies.validation import SchemaValidation
from heliograph.observe.metric import Metric, Sample, counter
from heliograph.parts import Change, Part
from heliograph.rules.parts import EnvironmentPart

_log: Final = logging.getLogger(__name__)


def _of_each(root: str, title: str) -> tuple[Metric, ...]:
    counted = (("matched", "was for"), ("succeeded", "let through"), ("failed", "failed for"))
    return tuple(
        counter(f"{root}.{name}", f"Messages that a {title} {what}.", "", ("name",), f"{root}.{{name}}.{name}")
        for name, what in counted
    )


class NodeInfo:
    def __init__(self, node_name: str, find_client: Callable[[str], ClientInfo | None]) -> None:
        self.node_name = node_name
        self.find_client = find_client


class _PolicyPart(Part):
    """Policies of one kind; owned by the node."""

    needs = ("kernel", "environment", "commits")

    chain: PolicyChain[Any, Any]

    def __init__(self, config: Config, broker: Broker, environment: EnvironmentPart, node: NodeInfo) -> None:
        self._config = config
        self._broker = broker
        self._environment = environment
        self._node = node

    async def stop(self) -> None:
        self.chain.stop()

    def samples(self) -> list[Sample]:
        return self.chain.samples()


class ValidationPart(_PolicyPart):
    name = "schema_validation"
    metrics = (
        counter("messages.validation_succeeded", "Messages that every validation let through."),
        counter("messages.validation_failed", "Messages that a validation failed for."),
        *_of_each("schema_validation", "validation"),
    )
    roots = ("schema_validation",)

    async def start(self) -> None:
        self.chain = SchemaValidation(self._broker, self._environment.environment, self._node, _log)
        self.chain.replace(self._config.schema_validation.validations)
        self.chain.start(VALIDATION)

    async def check(self, new: Config) -> Change:
        return Change(self.chain.prepare(new.schema_validation.validations))


class TransformationPart(_PolicyPart):
    name = "message_transformation"
    metrics = (
        counter("messages.transformation_succeeded", "Messages that were transformed."),
        counter("messages.transformation_failed", "Messages that a transformation failed for."),
        *_of_each("message_transformation", "transformation"),
    )
    roots = ("message_transformation",)

    async def start(self) -> None:
        self.chain = MessageTransformation(self._broker, self._environment.environment, self._node, _log)
        self.chain.replace(self._config.message_transformation.transformations)
        self.chain.start(TRANSFORMATION)

    async def check(self, new: Config) -> Change:
        return Change(self.chain.prepare(new.message_transformation.transformations))
