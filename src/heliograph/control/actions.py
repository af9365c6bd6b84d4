"""What can be asked of connectors and actions, and done with them: changes are changes of the configuration."""

import asyncio
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Protocol

from heliograph.config import Config
from heliograph.config.actions.roots import TYPES, all_actions, all_connectors
from heliograph.config.layers import node_at
from heliograph.config_changes.edits import Edit
from heliograph.config_changes.manager import ConfigManager
from heliograph.config_changes.named_edits import NamedGroups, group_in
from heliograph.config_changes.terms import Terms
from heliograph.control.conf import author_of, told
from heliograph.control.proto_v1 import actions as proto
from heliograph.control.slices import in_slices
from heliograph.hocon import Node, SourcePosition
from heliograph.hocon.writing import key_text
from heliograph.rpc.codes import BAD_ARGUMENTS
from heliograph.rpc.methods import Call, Method, NoArgs, RpcError
from heliograph.settings.fields import Named, Section, settings_of
from heliograph.settings.masking import NoSecretError, kept_secrets
from heliograph.settings.reading import read_group

if TYPE_CHECKING:
    from heliograph.config.actions.interface import ActionConfig, ConnectorConfig

CONNECTORS: Final = "connectors"
ACTIONS: Final = "actions"
_WHAT: Final = {CONNECTORS: "connector", ACTIONS: "action"}
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
    for asks in (proto.CONNECTORS, proto.ACTIONS):
        one = ActionChanges(actions, manager, asks.area)
        asked += [
            asks.put.by(one.put),
            asks.delete.by(one.delete),
            asks.switch.by(one.switch),
            asks.probe.by(one.probe),
        ]
    return asked


class ActionsAnswers:
    """Answers what is asked of connectors and actions; owned by the control socket."""

    def __init__(self, actions: AskedActions) -> None:
        self._asked = actions

    def connectors(self, args: NoArgs, call: Call) -> Iterator[Sequence[proto.ConnectorRow]]:
        """Answer `connectors.list`: all of them."""
        config = self._asked.config
        users: dict[str, list[str]] = {}
        for kind, name, action in all_actions(config.actions):
            users.setdefault(f"{kind}:{action.connector}", []).append(name)
        return in_slices(
            proto.ConnectorRow(
                kind, name, one.enable, *self._asked.connector_state(f"{kind}:{name}"), users.get(f"{kind}:{name}", [])
            )
            for kind, name, one in all_connectors(config.connectors)
        )

    def actions(self, args: NoArgs, call: Call) -> Iterator[Sequence[proto.ActionRow]]:
        """Answer `actions.list`: all of them, with their counts."""
        return in_slices(self._row(kind, name, one) for kind, name, one in all_actions(self._asked.config.actions))

    def _row(self, kind: str, name: str, action: "ActionConfig") -> proto.ActionRow:
        asked, action_id = self._asked, f"{kind}:{name}"
        rules, counts, rates = asked.rules_of(action_id), asked.counts(action_id), asked.rates(action_id)
        state = asked.state(action_id)
        return proto.ActionRow(kind, name, action.connector, action.enable, *state, rules, counts, rates)

    async def start_connector(self, args: proto.ActionId, call: Call) -> proto.ConnectorRow:
        """Answer `connectors.start`: connect now."""
        self._found(CONNECTORS, args)
        await self._asked.try_again(f"{args.type}:{args.name}")
        self._found(CONNECTORS, args)  # it may have been deleted meanwhile
        rows = (row for part in self.connectors(NoArgs(), call) for row in part)
        return next(row for row in rows if (row.type, row.name) == (args.type, args.name))

    async def start_action(self, args: proto.ActionId, call: Call) -> proto.ActionRow:
        """Answer `actions.start`: connect now, and have the pipeline start what waits after a failure."""
        action = self._found(ACTIONS, args)
        await self._asked.try_again(f"{args.type}:{action.connector}")
        return self._row(args.type, args.name, self._found(ACTIONS, args))  # it may have been deleted meanwhile

    def reset(self, args: proto.ActionId, call: Call) -> proto.ActionRow:
        """Answer `actions.reset`: have one count from zero."""
        action = self._found(ACTIONS, args)
        self._asked.reset(f"{args.type}:{args.name}")
        return self._row(args.type, args.name, action)

    def _found(self, root: str, args: proto.ActionId) -> Any:
        named: Mapping[str, Any] = getattr(getattr(self._asked.config, root), _known_type(args.type))
        if args.name not in named:
            raise _missing(root, args.type, args.name, list(named))
        return named[args.name]


class ActionChanges:
    """Changes connectors, or actions; owned by the control socket.

    Args:
        root: `connectors` or `actions`.
    """

    def __init__(self, actions: AskedActions, manager: ConfigManager, root: str) -> None:
        self._asked = actions
        self._manager = manager
        self._root = root

    async def put(self, args: proto.ActionPut, call: Call) -> proto.ActionChanged:
        """Answer `*.put`: have one with these settings, and no others."""
        revision, groups = self._manager.revision, await self._groups(self._root, args.type)
        is_there = args.name in groups.names
        if args.is_new and is_there:
            what = f"{_WHAT[self._root]} {args.type}:{args.name}"
            raise RpcError("already_exists", f"the {what} is there already: change it, or delete it first")
        edit = await told(asyncio.to_thread(groups.put, args.name, args.text))
        verb = "changed" if is_there else "made"
        changed = await self._change(args.type, args.name, call, verb, edit, revision)
        if self._root == CONNECTORS:  # so that who made it sees whether it can be reached
            await self._asked.look(f"{args.type}:{args.name}")
        return changed

    async def delete(self, args: proto.ActionDelete, call: Call) -> proto.ActionChanged:
        """Answer `*.delete`: delete one."""
        revision = self._manager.revision
        await self._there(args.type, args.name)
        actions = self._users_of(args) if self._root == CONNECTORS else [f"{args.type}:{args.name}"]
        rules = sorted({rule for action in actions for rule in self._asked.rules_of(action)})
        if not args.with_dependents:
            key, users, what = ("active_channels", actions, "actions")
            if self._root == ACTIONS:
                key, users, what = "rules", rules, "rules"
            if users:
                in_use = f"{what} {', '.join(users)} use the {_WHAT[self._root]} {args.type}:{args.name}"
                message = f"{in_use}; change them first, or delete it with them"
                raise RpcError("action_in_use", message, {key: users})
        values = [*(await self._groups(self._root, args.type)).delete(args.name).values]
        if self._root == CONNECTORS:
            for action in actions:
                values += (await self._groups(ACTIONS, args.type)).delete(action.partition(":")[2]).values
        for rule in rules:
            values.append(await self._rule_without(rule, actions))
        return await self._change(args.type, args.name, call, "deleted", Edit(values=values), revision)

    async def switch(self, args: proto.ActionSwitch, call: Call) -> proto.ActionChanged:
        """Answer `*.switch`: enable one, or disable it."""
        revision = self._manager.revision
        await self._there(args.type, args.name)
        path = f"{self._root}.{args.type}.{key_text(args.name)}.enable"
        edit = Edit(values=((path, "true" if args.is_enabled else "false"),))
        verb = "enabled" if args.is_enabled else "disabled"
        return await self._change(args.type, args.name, call, verb, edit, revision)

    async def probe(self, args: proto.ActionPut, call: Call) -> proto.ActionTested:
        """Answer `*.probe`: see whether the target can be reached; nothing is changed, and nothing written there."""
        settings = await asyncio.to_thread(self._read, args)
        if self._root == CONNECTORS:
            problem = await self._asked.test(args.type, settings, None)
        else:
            named: Mapping[str, Any] = getattr(self._asked.config.connectors, args.type)
            if settings.connector not in named:
                raise _missing(CONNECTORS, args.type, settings.connector, list(named))
            problem = await self._asked.test(args.type, named[settings.connector], settings)
        if problem:
            raise RpcError("action_test_failed", problem)
        return proto.ActionTested(args.type, args.name)

    # --- inside

    async def _change(
        self, kind: str, name: str, call: Call, verb: str, edit: Edit, revision: int
    ) -> proto.ActionChanged:
        terms = Terms(revision=revision, comment=f"the {_WHAT[self._root]} {kind}:{name} is {verb}")
        outcome = await told(self._manager.change(edit, author_of(call), terms))
        return proto.ActionChanged(kind, name, outcome.revision)

    async def _groups(self, root: str, kind: str) -> NamedGroups:
        path = (root, _known_type(kind))
        return await asyncio.to_thread(NamedGroups, self._manager.layers, path, f"{_WHAT[root]} of type {kind}")

    async def _there(self, kind: str, name: str) -> None:
        named: Mapping[str, Any] = getattr(getattr(self._asked.config, self._root), _known_type(kind))
        if name not in named:
            raise _missing(self._root, kind, name, list(named))

    def _users_of(self, args: proto.ActionDelete) -> list[str]:
        named: Mapping[str, ActionConfig] = getattr(self._asked.config.actions, args.type)
        return [f"{args.type}:{name}" for name, action in named.items() if action.connector == args.name]

    async def _rule_without(self, rule: str, actions: Sequence[str]) -> tuple[str, str]:
        """What takes actions out of a rule."""
        groups = await asyncio.to_thread(NamedGroups, self._manager.layers, ("rule_engine", "rules"), "rule")
        said = groups.plain(rule).get("actions", [])
        kept = [one for one in (said if isinstance(said, list) else [said]) if _name_in(one) not in actions]
        return f"rule_engine.rules.{key_text(rule)}.actions", json.dumps(kept, ensure_ascii=False)

    def _read(self, args: proto.ActionPut) -> Any:
        """Settings that were given to be tried, in which stars are the secrets of the one of that name."""
        path = (self._root, _known_type(args.type), args.name)
        node = group_in(args.text, _WHAT[self._root])
        there = node_at(self._manager.layers.merged, path) or _NOTHING
        try:
            node = kept_secrets(node, there, there)
        except NoSecretError as error:
            raise RpcError(BAD_ARGUMENTS, str(error)) from None
        root = settings_of(Config)[self._root].kind
        assert isinstance(root, Section)
        kind = settings_of(root.model)[args.type].kind
        assert isinstance(kind, Named)
        settings, problems = read_group(kind.model, node, path)
        if settings is None or problems:
            raise RpcError(BAD_ARGUMENTS, "; ".join(f"{one.path}: {one.message}" for one in problems))
        return settings


def _name_in(action: object) -> object:
    return action.get("function") if isinstance(action, dict) else action


def _known_type(kind: str) -> str:
    if kind not in TYPES:
        raise RpcError(BAD_ARGUMENTS, f"there is no type {kind[:100]!r}; there are {', '.join(TYPES)}")
    return kind


def _missing(root: str, kind: str, name: str, names: Sequence[str]) -> RpcError:
    there_are = ", ".join(names[:20]) or "none"
    return RpcError("not_found", f"there is no {_WHAT[root]} {kind}:{name[:100]}; there are: {there_are}")
