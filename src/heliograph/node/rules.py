"""The rule engine as a part of a node."""

import asyncio
from collections.abc import Callable

from heliograph.broker.guid import IdSource
from heliograph.broker.message import Message
from heliograph.channel.context import ChannelContext
from heliograph.config import Config
from heliograph.node.databases import Databases
from heliograph.node.kernel import KernelPart
from heliograph.node.metrics.rules import RULES
from heliograph.observe.metric import Sample
from heliograph.parts import Change, Part
from heliograph.rules.engine.engine import RuleEngine
from heliograph.rules.environment import Environment
from heliograph.rules.parts import EnvironmentPart


class RulesPart(Part):
    """Rules that run in the broker; owned by the node.

    Args:
        databases: Where rules store rows for the pipeline.

    Attributes:
        engine: The rules.
    """

    name = "rules"
    metrics = RULES
    needs = ("kernel", "environment", "schema_validation", "message_transformation", "databases", "commits")
    roots = ("rule_engine",)

    engine: RuleEngine

    def __init__(self, config: Config, kernel: KernelPart, environment: EnvironmentPart, databases: Databases) -> None:
        self._config = config
        self._kernel = kernel
        self._environment = environment
        self._databases = databases

    async def start(self) -> None:
        """Have the configured rules.

        Raises:
            RuleError: A rule cannot be used.
        """
        databases, from_thread = self._databases, asyncio.get_running_loop().call_soon_threadsafe
        store_row = self._append_row if databases.is_open else None
        self.engine = make_rule_engine(
            self._config, self._kernel.context, self._environment.environment, store_row, from_thread
        )
        databases.on_stored.append(self.engine.on_rows_stored)
        self.engine.start()

    async def stop(self) -> None:
        """Take every callback out again; what was made is published."""
        self.engine.stop()

    async def check(self, new: Config) -> Change:
        """Make other rules ready.

        Raises:
            RuleError: A rule cannot be used.
        """
        if self._databases.is_open:
            self.engine.store_in(self._append_row)
        return Change(self.engine.prepare(new.rule_engine, anew=self._environment.environment.schemas.is_changing))

    def _append_row(self, message: Message) -> int:
        return self._databases.sink.append_row(message)

    def samples(self) -> list[Sample]:
        """Counts of each rule, and of all."""
        return self.engine.samples()


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
