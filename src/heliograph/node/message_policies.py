"""Schema validation and message transformation as a part of a node."""

import logging
from collections.abc import Callable
from typing import Final

from heliograph.broker.client import ClientInfo
from heliograph.broker.hook_order import TRANSFORMATION, VALIDATION
from heliograph.channel.context import ChannelContext
from heliograph.config import Config
from heliograph.message_policies import MessageTransformation, SchemaValidation
from heliograph.node.kernel import KernelPart
from heliograph.node.metrics.services import POLICIES
from heliograph.node.options import levels_max
from heliograph.node.schemas import EnvironmentPart
from heliograph.parts import Apply, Part
from heliograph.rules.environment import Environment

_log: Final = logging.getLogger(__name__)


class MessagePolicies:
    """Validation and transformation of one node, from `start` to `stop`; owned by `PoliciesPart`.

    Args:
        config: The whole configuration.
        context: The node's kernel.
        environment: What SQL and expressions may ask besides the message.

    Raises:
        MessagePolicyError: One of them cannot be used.
    """

    def __init__(self, config: Config, context: ChannelContext, environment: Environment) -> None:
        node = NodeInfo(config.node.name, context.channels.find_client)
        broker = context.broker
        self.validation = SchemaValidation(broker, environment, node, _log)
        self.transformation = MessageTransformation(broker, environment, node, levels_max(config), _log)
        self.validation.replace(config.schema_validation.validations)
        self.transformation.replace(config.message_transformation.transformations)

    def prepare(self, config: Config) -> Callable[[], None]:
        """Make those of another configuration ready; what is returned has them take the place of those before.

        Raises:
            MessagePolicyError: One of them cannot be used.
        """
        validate = self.validation.prepare(config.schema_validation.validations)
        transform = self.transformation.prepare(config.message_transformation.transformations)

        def apply() -> None:
            validate()
            transform()

        return apply

    def start(self) -> None:
        """Take part in publishing."""
        self.validation.start(VALIDATION)
        self.transformation.start(TRANSFORMATION)

    def stop(self) -> None:
        """Take no part in publishing any more."""
        self.validation.stop()
        self.transformation.stop()

    def statistics(self) -> dict[str, int]:
        """What became of messages, in all and by name."""
        return {**self.validation.statistics(), **self.transformation.statistics()}


class PoliciesPart(Part):
    """Schema validation and message transformation as a part of a node; owned by the node."""

    name = "message_policies"
    metrics = POLICIES
    needs = ("kernel", "environment", "commits")
    roots = ("schema_validation", "message_transformation")
    live = ("schema_validation.validations", "message_transformation.transformations")

    policies: MessagePolicies

    def __init__(self, config: Config, kernel: KernelPart, environment: EnvironmentPart) -> None:
        self._config = config
        self._kernel = kernel
        self._environment = environment

    async def start(self) -> None:
        """Take part in publishing.

        Raises:
            MessagePolicyError: One of them cannot be used.
        """
        self.policies = MessagePolicies(self._config, self._kernel.context, self._environment.environment)
        self.policies.start()

    async def stop(self) -> None:
        """Take no part in publishing any more."""
        self.policies.stop()

    def check(self, new: Config) -> Apply:
        """Make those of another configuration ready.

        Raises:
            MessagePolicyError: One of them cannot be used.
        """
        return self.policies.prepare(new)

    def statistics(self) -> dict[str, int]:
        """What became of messages, in all and by name."""
        return self.policies.statistics()


class NodeInfo:
    """What SQL and expressions see beside a message.

    Args:
        node_name: The name of the node.
        find_client: The client that is connected with a client id.
    """

    def __init__(self, node_name: str, find_client: Callable[[str], ClientInfo | None]) -> None:
        self.node_name = node_name
        self.find_client = find_client
