"""What can be asked of sources, and done with them: changes are changes of the configuration."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from heliograph.config.sources.interface import MessageSourceConfig
from heliograph.config.sources.roots import all_sources
from heliograph.config_changes.manager import ConfigManager
from heliograph.control.actions import ConfiguredIntegrations, changes_of, settings_in
from heliograph.control.configured import CONNECTORS, MESSAGE_SOURCES
from heliograph.control.proto_v1 import actions as proto
from heliograph.control.proto_v1 import groups as groups_proto
from heliograph.control.slices import in_slices
from heliograph.control.sources import AskedSources
from heliograph.rpc.methods import Call, Method, NoArgs


def methods(sources: AskedSources, manager: ConfigManager | None) -> list[Method]:
    """`sources.*` but for what their process asks."""
    answers = SourcesAnswers(sources)
    asked = [
        proto.SOURCES.list.by(answers.sources),
        proto.SOURCES.start.by(answers.start),
        proto.SOURCES_RESET.by(answers.reset),
    ]
    if manager is None:
        return asked
    return [*asked, *changes_of(proto.SOURCES, ConfiguredSources(manager, sources))]


class SourcesAnswers:
    def __init__(self, sources: AskedSources) -> None:
        self._asked = sources

    def sources(self, args: NoArgs, call: Call) -> Iterator[Sequence[proto.SourceRow]]:
        """All sources with their counts."""
        return in_slices(self._row(kind, name, one) for kind, name, one in all_sources(self._asked.config.sources))

    async def start(self, args: groups_proto.NamedGroup, call: Call) -> proto.SourceRow:
        """Connect now."""
        settings_in(self._asked.config, MESSAGE_SOURCES, args.name)
        await self._asked.try_again()
        return self._named(args.name)  # it may have been deleted meanwhile

    def reset(self, args: groups_proto.NamedGroup, call: Call) -> proto.SourceRow:
        settings_in(self._asked.config, MESSAGE_SOURCES, args.name)
        self._asked.reset(args.name)
        return self._named(args.name)

    def _named(self, name: str) -> proto.SourceRow:
        kind, source = settings_in(self._asked.config, MESSAGE_SOURCES, name)
        return self._row(kind, name.partition(":")[2], source)

    def _row(self, kind: str, name: str, source: MessageSourceConfig) -> proto.SourceRow:
        asked, one = self._asked, f"{kind}:{name}"
        status, reason = asked.state(one)
        return proto.SourceRow(
            type=kind,
            name=name,
            connector=source.connector_name,
            is_enabled=source.enable,
            status=status,
            reason=reason,
            rules=asked.rules_of(one),
            counts=asked.counts(one),
            rates=asked.rates(one),
            last_error=asked.last_error(one),
        )


class ConfiguredSources(ConfiguredIntegrations):
    """Changes sources; owned by the control socket."""

    def __init__(self, manager: ConfigManager, sources: AskedSources) -> None:
        super().__init__(manager, MESSAGE_SOURCES, sources)
        self._sources = sources

    def _dependents(self, name: str) -> Mapping[str, list[str]]:
        return {"rules": self._sources.rules_of(name)}

    async def _problem(self, kind: str, settings: Any) -> str:
        if settings.connector_name:
            settings_in(self._sources.config, CONNECTORS, f"{kind}:{settings.connector_name}")
        return await self._sources.test(kind, settings)
