"""Joins schema validation and message transformation to a node."""

import logging
from collections.abc import Callable, Sequence
from typing import Final

from heliograph.broker.client import ClientInfo
from heliograph.broker.hook_order import TRANSFORMATION, VALIDATION
from heliograph.channel.context import ChannelContext
from heliograph.config import Config
from heliograph.message_policies import MessageTransformation, SchemaValidation
from heliograph.node.options import levels_max
from heliograph.rules.environment import Environment

_log: Final = logging.getLogger(__name__)


class MessagePolicies:
    """Validation and transformation of one node, from `start` to `stop`; owned by its services.

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

    def prepare(self, config: Config) -> Sequence[Callable[[], None]]:
        """Make those of another configuration ready; what is returned has them take the place of those before.

        Raises:
            MessagePolicyError: One of them cannot be used.
        """
        return (
            self.validation.prepare(config.schema_validation.validations),
            self.transformation.prepare(config.message_transformation.transformations),
        )

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


class NodeInfo:
    """What SQL and expressions see beside a message.

    Args:
        node_name: The name of the node.
        find_client: The client that is connected with a client id.
    """

    def __init__(self, node_name: str, find_client: Callable[[str], ClientInfo | None]) -> None:
        self.node_name = node_name
        self.find_client = find_client
