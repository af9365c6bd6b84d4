"""A virtual kernel with the services of a node around it, built from a configuration as a file would hold it."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

from heliograph.access.banned import BanList
from heliograph.access.bootstrap import load_bans
from heliograph.channel.options import ChannelOptions
from heliograph.config import Config, load_config
from heliograph.node.client_attrs import ZoneAttributes
from heliograph.node.delayed import make_delayed
from heliograph.node.kernel import Voice
from heliograph.node.message_policies import MessagePolicies
from heliograph.node.rules import make_rule_engine
from heliograph.node.schemas import make_environment
from heliograph.node.services import Services
from heliograph.rules.engine import RuleEngine
from support.kernel import Kernel


class Node(Kernel):
    """A kernel whose services are ticked when time passes.

    Args:
        settings: The configuration, in HOCON.
        stored: Topic filters of what is stored; where there is any, rows for the pipeline are stored too.
    """

    def __init__(
        self, settings: str = "", channel_options: ChannelOptions | None = None, stored: Sequence[str] = ()
    ) -> None:
        super().__init__(channel_options, stored=stored)
        config = config_of(settings)
        store_row = self.sink.append if stored else None
        self.broker.protects_sys = not config.sys_topics.allow_publish
        self.voice = Voice(config.node.name, self.context)
        self.alarms = self.voice.alarms
        self.bans = BanList(self.now_s, config.banned.max_entries)
        if config.banned.bootstrap_file:
            load_bans(self.bans, config.banned.bootstrap_file, self.now_s())
        self.delayed = make_delayed(config, self.context, self.bans)
        self.environment = make_environment(config)
        self.services = Services(
            config,
            self.context,
            self.voice,
            self.bans,
            self.delayed,
            self.environment,
            self.statistics,
            self.now_s,
        )
        self.message_policies = MessagePolicies(config, self.context, self.environment)
        self.rules = make_rule_engine(config, self.context, self.environment, store_row, self.context.defer)
        for part in self._parts:
            part.start()
        attributes = ZoneAttributes(config, self.context.clock, self.environment).of_zone(self.options.zone)
        self.options = replace(self.options, attributes_of=None if attributes is None else attributes.of)

    @property
    def _parts(self) -> tuple[MessagePolicies, RuleEngine, Services]:
        return self.message_policies, self.rules, self.services

    def stop(self) -> None:
        """Take every callback out again."""
        for part in self._parts:
            part.stop()

    def now_s(self) -> int:
        """The wall clock."""
        return self.now_us // 1_000_000

    def advance(self, seconds: float) -> None:
        """Let time pass, as the node's ticker tells it."""
        super().advance(seconds)
        self.bans.expire()
        self.delayed.tick(self.now_us)
        self.services.tick(self.now_us)
        self.run()

    def statistics(self) -> dict[str, float]:
        """Every counter and size."""
        numbers: dict[str, float] = dict(self.broker.counters.snapshot())
        own = (self.voice, self.bans, self.delayed, *self._parts)
        for part in (self.broker, self.sessions, self.context.channels, self.retainer, *own):
            numbers.update(part.statistics())
        return numbers


def config_of(settings: str) -> Config:
    """The configuration of a file that holds this."""
    with TemporaryDirectory() as directory:
        file = Path(directory) / "node.conf"
        file.write_text(settings, encoding="utf-8")
        return load_config(file)
