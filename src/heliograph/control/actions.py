"""What can be asked of connectors and actions, and done with them: changes are changes of the configuration."""

import asyncio
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar

from heliograph.config.actions.fallback_ways import fallback_users
from heliograph.config.actions.roots import all_actions, all_connectors
from heliograph.config.layers import node_at
from heliograph.config.outbound_targets import group_faults
from heliograph.config.settings import Config
from heliograph.config.sources.roots import all_sources
from heliograph.config_changes.groups import NamedGroups, group_in
from heliograph.config_changes.manager import ConfigManager
from heliograph.control.configured import ACTIONS, CONNECTORS, MESSAGE_SOURCES, RULES, ConfiguredGroups, Resource
from heliograph.control.proto_v1 import actions as proto
from heliograph.control.proto_v1 import groups as groups_proto
from heliograph.control.slices import in_slices
from heliograph.hocon.errors import SourcePosition
from heliograph.hocon.values import Node
from heliograph.hocon.writing import key_text
from heliograph.rpc.codes import BAD_ARGUMENTS
from heliograph.rpc.methods import Call, Method, NoArgs, RpcError
from heliograph.settings.fields import Named, Section, settings_of
from heliograph.settings.masking import NoSecretError, kept_secrets
from heliograph.settings.outbound import OutboundPolicy
from heliograph.settings.reading import read_group

if TYPE_CHECKING:
    from heliograph.config.actions.interface import ActionConfig, ConnectorConfig

RowT = TypeVar("RowT", proto.ConnectorRow, proto.ActionRow, proto.SourceRow)

_NOTHING: Final = Node({}, SourcePosition("<change>"))


class AskedActions(Protocol):
    """The connectors and actions of a node; `node.actions` implements it. Ids are as `http:my_action`."""

    @property
    def config(self) -> Config:
        """The configuration that holds."""

    def connector_state(self, connector_id: str) -> tuple[str, str]:
        """The status of a connector, and the reason."""

    def state(self, action_id: str) -> tuple[str, str]:
        """The status of an action, and the reason."""

    def rules_of(self, action_id: str) -> list[str]:
        """The rules that name an action."""

    def counts(self, action_id: str) -> dict[str, int]:
        """What is counted of an action."""

    def rates(self, action_id: str) -> dict[str, float]:
        """How fast rows come to an action."""

    def reset(self, action_id: str) -> None:
        """Count from zero for an action."""

    async def look(self, connector_id: str) -> None:
        """See now whether a connector can be reached."""

    async def try_again(self, connector_id: str) -> None:
        """Look at the server of a connector now, and start again what waits after a failure."""

    async def test(self, kind: str, connector: "ConnectorConfig", action: "ActionConfig | None") -> str:
        """Why a target cannot be reached, or does not let us in; empty where it can."""


def methods(actions: AskedActions, manager: ConfigManager | None) -> list[Method]:
    """`connectors.*`, `actions.*`; the manager writes changes and refused attempts into the audit log itself."""
    answers = ActionsAnswers(actions)
    asked = [
        proto.CONNECTORS.list.by(answers.connectors),
        proto.ACTIONS.list.by(answers.actions),
        proto.CONNECTORS.start.by(answers.start_connector),
        proto.ACTIONS.start.by(answers.start_action),
        proto.ACTIONS_RESET.by(answers.reset),
    ]
    if manager is None:
        return asked
    connectors, changed = (
        ConfiguredConnectors(manager, CONNECTORS, actions),
        ConfiguredActions(manager, ACTIONS, actions),
    )
    return [*asked, *changes_of(proto.CONNECTORS, connectors), *changes_of(proto.ACTIONS, changed)]


def changes_of(asks: proto.IntegrationAsks[RowT], one: "ConfiguredIntegrations") -> list[Method]:
    """What shows the settings of one kind, tries and changes them."""
    return [*one.methods(asks), asks.show.by(one.shown), asks.switch.by(one.switch), asks.probe.by(one.probe)]


class ActionsAnswers:
    def __init__(self, actions: AskedActions) -> None:
        self._asked = actions

    def connectors(self, args: NoArgs, call: Call) -> Iterator[Sequence[proto.ConnectorRow]]:
        """All connectors with the actions and sources that use them."""
        config = self._asked.config
        actions: dict[str, list[str]] = {}
        sources: dict[str, list[str]] = {}
        for kind, name, action in all_actions(config.actions):
            actions.setdefault(f"{kind}:{action.connector}", []).append(name)
        for kind, name, source in all_sources(config.sources):
            sources.setdefault(f"{kind}:{source.connector_name}", []).append(name)

        def row(kind: str, name: str, is_enabled: bool) -> proto.ConnectorRow:
            one = f"{kind}:{name}"
            state = self._asked.connector_state(one)
            return proto.ConnectorRow(kind, name, is_enabled, *state, actions.get(one, []), sources.get(one, []))

        return in_slices(row(kind, name, one.enable) for kind, name, one in all_connectors(config.connectors))

    def actions(self, args: NoArgs, call: Call) -> Iterator[Sequence[proto.ActionRow]]:
        """All actions with their counts."""
        return in_slices(self._row(kind, name, one) for kind, name, one in all_actions(self._asked.config.actions))

    async def start_connector(self, args: groups_proto.NamedGroup, call: Call) -> proto.ConnectorRow:
        """Connect now."""
        settings_in(self._asked.config, CONNECTORS, args.name)
        await self._asked.try_again(args.name)
        settings_in(self._asked.config, CONNECTORS, args.name)  # it may have been deleted meanwhile
        rows = (row for part in self.connectors(NoArgs(), call) for row in part)
        return next(row for row in rows if f"{row.type}:{row.name}" == args.name)

    async def start_action(self, args: groups_proto.NamedGroup, call: Call) -> proto.ActionRow:
        """Connect now, and start in the pipeline what waits after a failure."""
        kind, action = settings_in(self._asked.config, ACTIONS, args.name)
        await self._asked.try_again(f"{kind}:{action.connector}")
        return self._named(args.name)  # it may have been deleted meanwhile

    def reset(self, args: groups_proto.NamedGroup, call: Call) -> proto.ActionRow:
        settings_in(self._asked.config, ACTIONS, args.name)
        self._asked.reset(args.name)
        return self._named(args.name)

    def _named(self, name: str) -> proto.ActionRow:
        kind, action = settings_in(self._asked.config, ACTIONS, name)
        return self._row(kind, name.partition(":")[2], action)

    def _row(self, kind: str, name: str, action: "ActionConfig") -> proto.ActionRow:
        asked, action_id = self._asked, f"{kind}:{name}"
        rules, counts, rates = asked.rules_of(action_id), asked.counts(action_id), asked.rates(action_id)
        state = asked.state(action_id)
        return proto.ActionRow(kind, name, action.connector, action.enable, *state, rules, counts, rates)


class HasConfig(Protocol):
    """What has the configuration that holds."""

    @property
    def config(self) -> Config: ...


class ConfiguredIntegrations(ConfiguredGroups):
    """What connectors, actions and sources share."""

    def __init__(self, manager: ConfigManager, resource: Resource, holder: HasConfig) -> None:
        super().__init__(manager, resource)
        self._holder = holder

    async def probe(self, args: groups_proto.GroupSettings, call: Call) -> groups_proto.NamedGroup:
        """Look whether the target can be reached; nothing is changed, and nothing written there."""
        settings = await asyncio.to_thread(self._read, args)
        for path, fault in group_faults(OutboundPolicy(self._holder.config.outbound), settings):
            raise RpcError(BAD_ARGUMENTS, f"{args.name}: {'.'.join(path)} {fault}")
        if problem := await self._problem(args.name.partition(":")[0], settings):
            raise RpcError("action_test_failed", problem)
        return groups_proto.NamedGroup(args.name)

    async def _problem(self, kind: str, settings: Any) -> str:
        """Why what these settings name cannot be used; empty where it can."""
        raise NotImplementedError

    def _read(self, args: groups_proto.GroupSettings) -> Any:
        """Settings that were given to be tried, in which stars are the secrets of the one of that name."""
        place, name = self._resource.place(args.name)
        path = (*place, name)
        node = group_in(args.text, self._resource.word)
        there = node_at(self._manager.layers.merged, path) or _NOTHING
        try:
            node = kept_secrets(node, there, there)
        except NoSecretError as error:
            raise RpcError(BAD_ARGUMENTS, str(error)) from None
        root = settings_of(Config)[place[0]].kind
        assert isinstance(root, Section)
        kind = settings_of(root.model)[place[1]].kind
        assert isinstance(kind, Named)
        try:
            node = self._manager.pem_files.stored(node, Section(kind.model))
        except OSError as error:
            raise RpcError("action_test_failed", f"a certificate or key cannot be written: {error}") from None
        settings, problems = read_group(kind.model, node, path)
        if settings is None or problems:
            raise RpcError(BAD_ARGUMENTS, "; ".join(f"{one.path}: {one.message}" for one in problems))
        return settings


class _OfActions(ConfiguredIntegrations):
    """What connectors and actions share: rules name actions."""

    def __init__(self, manager: ConfigManager, resource: Resource, actions: AskedActions) -> None:
        super().__init__(manager, resource, actions)
        self._asked = actions

    async def _without(self, actions: Sequence[str]) -> list[tuple[str, str]]:
        """What takes actions out of the rules that name them, and out of the fallbacks of other actions."""
        return [*await self._rules_without(actions), *await self._fallbacks_without(actions)]

    async def _fallbacks_without(self, actions: Sequence[str]) -> list[tuple[str, str]]:
        changed = []
        users = {user for action in actions for user in fallback_users(self._asked.config.actions, action)}
        for user in sorted(users.difference(actions)):
            path, name = ACTIONS.place(user)
            groups = await asyncio.to_thread(NamedGroups, self._manager.layers, path, ACTIONS.word)
            found = groups.plain(name).get("fallback_actions", [])
            kept = [one for one in found if f"{one.get('type')}:{one.get('name')}" not in actions]
            changed.append((".".join((*path, key_text(name), "fallback_actions")), json.dumps(kept)))
        return changed

    async def _rules_without(self, actions: Sequence[str]) -> list[tuple[str, str]]:
        """What takes actions out of the rules that name them."""
        groups = await self._groups(RULES.path)
        changed = []
        rules = {rule for action in actions for rule in self._asked.rules_of(action)}
        for rule in sorted(rules.intersection(groups.names)):
            named = groups.plain(rule).get("actions", [])
            kept = [one for one in (named if isinstance(named, list) else [named]) if _name_in(one) not in actions]
            changed.append((".".join((*RULES.path, key_text(rule), "actions")), json.dumps(kept, ensure_ascii=False)))
        return changed


class ConfiguredConnectors(_OfActions):
    """Changes connectors; owned by the control socket."""

    async def put(self, args: groups_proto.GroupSettings, call: Call) -> groups_proto.GroupChanged:
        """The same, and look whether it can be reached, so that the caller sees its status."""
        changed = await super().put(args, call)
        await self._asked.look(args.name)
        return changed

    def _dependents(self, name: str) -> Mapping[str, list[str]]:
        return {"actions": self._users(name), "sources": self._sources(name)}

    async def _released(self, name: str) -> Sequence[tuple[str, str]]:
        values: list[tuple[str, str]] = []
        for resource, user in (
            *((ACTIONS, one) for one in self._users(name)),
            *((MESSAGE_SOURCES, one) for one in self._sources(name)),
        ):
            path, own_name = resource.place(user)
            groups = await asyncio.to_thread(NamedGroups, self._manager.layers, path, resource.word)
            values += groups.delete(own_name).values
        return [*values, *await self._without(self._users(name))]

    def _users(self, name: str) -> list[str]:
        kind, _, own_name = name.partition(":")
        named: Mapping[str, ActionConfig] = getattr(self._asked.config.actions, kind)
        return [f"{kind}:{one}" for one, action in named.items() if action.connector == own_name]

    def _sources(self, name: str) -> list[str]:
        sources = all_sources(self._asked.config.sources)
        ids = ((f"{kind}:{own}", f"{kind}:{one.connector_name}") for kind, own, one in sources)
        return [source for source, connector in ids if connector == name]

    async def _problem(self, kind: str, settings: Any) -> str:
        return await self._asked.test(kind, settings, None)


class ConfiguredActions(_OfActions):
    """Changes actions; owned by the control socket."""

    def _dependents(self, name: str) -> Mapping[str, list[str]]:
        users = fallback_users(self._asked.config.actions, name)
        return {"rules": sorted(self._asked.rules_of(name)), "actions": users}

    async def _released(self, name: str) -> Sequence[tuple[str, str]]:
        return await self._without([name])

    async def _problem(self, kind: str, settings: Any) -> str:
        _, connector = settings_in(self._asked.config, CONNECTORS, f"{kind}:{settings.connector}")
        return await self._asked.test(kind, connector, settings)


def settings_in(config: Config, resource: Resource, name: str) -> tuple[str, Any]:
    """The type and the settings of a connector, an action or a source.

    Raises:
        RpcError: There is none.
    """
    (root, kind), own_name = resource.place(name)
    named: Mapping[str, Any] = getattr(getattr(config, root), kind)
    if own_name not in named:
        there_are = ", ".join(list(named)[:20]) or "none"
        raise RpcError("not_found", f"there is no {resource.word} {name[:100]}; there are: {there_are}")
    return kind, named[own_name]


def _name_in(action: object) -> object:
    return action.get("function") if isinstance(action, dict) else action
