"""A virtual kernel with the small parts of a node around it, built from a configuration as a file would hold it."""

from collections.abc import Collection, Coroutine, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

from heliograph.access.bans.ban_list import BanList
from heliograph.access.bans.parts import BansPart
from heliograph.channel.options import ChannelOptions
from heliograph.config.loading import load_config
from heliograph.config.rules import RuleConfig
from heliograph.config.settings import Config
from heliograph.message_policies.parts import TransformationPart, ValidationPart
from heliograph.message_policies.transformation import MessageTransformation
from heliograph.message_policies.validation import SchemaValidation
from heliograph.node.client_attrs import ZoneAttributes
from heliograph.node.data_dir import DataDirectory
from heliograph.node.databases import Databases
from heliograph.node.delayed import DelayedPart
from heliograph.node.kernel import KernelPart, Voice
from heliograph.node.metrics.clients import RETAINED
from heliograph.node.parts import make_policies
from heliograph.node.rules import RulesPart, make_rule_engine
from heliograph.observe.metric import Catalogue, Sample, plain
from heliograph.parts import Parts
from heliograph.policies.delayed import DelayedMessages
from heliograph.rules.environment import Environment
from heliograph.rules.parts import EnvironmentPart
from support.kernel import Kernel


class VirtualKernelPart(KernelPart):
    """The kernel of a test as a part of a node, with its retained messages."""

    metrics = (*KernelPart.metrics, *RETAINED)

    def __init__(self, config: Config, kernel: Kernel) -> None:
        super().__init__(config, kernel.broker, DataDirectory(config))
        self.context = kernel.context
        self.voice = Voice(config.node.name, kernel.context)
        self._kernel = kernel

    async def start(self) -> None:
        self.broker.protects_sys = not self._config.sys_topics.allow_publish

    def tick(self, uptime_us: int) -> None:
        """The kernel of a test ticks its channels itself."""

    def samples(self) -> Iterator[Sample]:
        kernel = self._kernel
        yield from plain(self.broker.counters.snapshot())
        for one in (self.broker, kernel.sessions, kernel.context.channels, kernel.retainer, self.voice):
            yield from plain(one.statistics())


class Surroundings:
    """The small parts of a node around a kernel, started.

    Attributes:
        parts: All of them.
    """

    def __init__(self, kernel: Kernel, config: Config) -> None:
        self.kernel = VirtualKernelPart(config, kernel)
        self._bans = BansPart(config, kernel.broker.hooks, lambda: kernel.now_us // 1_000_000)
        self._environment = EnvironmentPart(config)
        directory = DataDirectory(config)
        databases = Databases(config, directory, self.kernel)  # which is not started: nothing is stored
        self._delayed = DelayedPart(config, directory, self.kernel, self._bans, databases)
        given = (self.kernel, self._bans, self._environment)
        small = make_policies(config, *given, self._numbers, kernel.context.clock)
        self.parts = Parts(config, kernel.broker.faults, [*given, self._delayed, *small])
        at_once(self.parts.start())

    def _numbers(self, names: Collection[str]) -> Mapping[str, float]:
        return self.parts.numbers(names)

    @property
    def bans(self) -> BanList:
        return self._bans.bans

    @property
    def delayed(self) -> DelayedMessages:
        return self._delayed.messages

    @property
    def environment(self) -> Environment:
        return self._environment.environment


class Node(Kernel):
    """A kernel whose parts are ticked when time passes.

    Args:
        settings: The configuration, in HOCON.
        stored: Topic filters of what is stored; where there is any, rows for the pipeline are stored too.
    """

    def __init__(
        self, settings: str = "", channel_options: ChannelOptions | None = None, stored: Sequence[str] = ()
    ) -> None:
        super().__init__(channel_options, stored=stored)
        config = config_of(settings)
        store_row = self.sink.append_row if stored else None
        around = Surroundings(self, config)
        self.parts, self.bans, self.delayed, self.environment = (
            around.parts,
            around.bans,
            around.delayed,
            around.environment,
        )
        self.voice, self.alarms = around.kernel.voice, around.kernel.alarms
        self.rule_settings = config.rule_engine
        self.rules = make_rule_engine(config, self.context, self.environment, store_row, self.context.defer)
        self.rules.start()
        attributes = ZoneAttributes(config, self.context.clock, self.environment).of_zone(self.options.zone)
        listener = replace(self.options.listener, attributes_of=None if attributes is None else attributes.of)
        self.options = replace(self.options, listener=listener)

    @property
    def validation(self) -> SchemaValidation:
        """The validations."""
        chain = self.parts.get(ValidationPart).chain
        assert isinstance(chain, SchemaValidation)
        return chain

    @property
    def transformation(self) -> MessageTransformation:
        """The transformations."""
        chain = self.parts.get(TransformationPart).chain
        assert isinstance(chain, MessageTransformation)
        return chain

    def change_rules(self, **rules: RuleConfig | None) -> None:
        """Have rules come, change or, where there is None, go with a new configuration."""
        wanted = {rule.rule_id: rule.settings for rule in self.rules} | rules
        settings = {rule_id: rule for rule_id, rule in wanted.items() if rule is not None}
        self.rules.prepare(replace(self.rule_settings, rules=settings))()

    def stop(self) -> None:
        """Take every callback out again."""
        self.rules.stop()
        at_once(self.parts.stop())

    def now_s(self) -> int:
        """The wall clock."""
        return self.now_us // 1_000_000

    def advance(self, seconds: float) -> None:
        """Let time pass, as the node's ticker tells it."""
        super().advance(seconds)
        self.parts.tick(self.now_us)
        self.run()

    def statistics(self) -> dict[str, float]:
        """Every counter and size."""
        rules = Catalogue(RulesPart.metrics).flat(self.rules.samples())
        return {**self.parts.statistics(), **rules}


def at_once(work: Coroutine[object, None, object]) -> None:
    """Run what waits for nothing, without an event loop."""
    try:
        work.send(None)
    except StopIteration:
        return
    raise AssertionError(f"{work} waits")


def config_of(settings: str) -> Config:
    """The configuration of a file that holds this."""
    with TemporaryDirectory() as directory:
        file = Path(directory) / "node.conf"
        file.write_text(settings, encoding="utf-8")
        return load_config(file)
