"""Joins the rule engine to a node."""

from collections.abc import Callable

from heliograph.broker.guid import IdSource
from heliograph.broker.message import Message
from heliograph.channel.context import ChannelContext
from heliograph.config import Config
from heliograph.rules.engine import RuleEngine
from heliograph.rules.environment import Environment


def make_rule_engine(
    config: Config,
    context: ChannelContext,
    environment: Environment,
    store_row: Callable[[Message], int] | None,
    from_thread: Callable[[Callable[[], None]], object],
) -> RuleEngine:
    """The rule engine of a node, not started.

    Args:
        environment: What functions of rules may ask besides the message.
        store_row: Stores a row for the pipeline; None where nothing is stored.
        from_thread: Calls what it is given in a turn of the event loop, callable in any thread.
    """
    return RuleEngine(
        config.rule_engine,
        context.broker,
        IdSource(context.node, context.next_number()),
        environment,
        config.node.name,
        context.channels.find_client,
        context.defer,
        from_thread,
        context.clock,
        store_row,
    )
