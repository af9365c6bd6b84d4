"""Creates, changes and deletes what has a name in the configuration: connectors, rules, schemas, listeners and others.

One table has them all. What something else uses is not deleted: `in_use`.

The manager writes changes and refused attempts into the audit log itself.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from heliograph.config.actions.roots import ACTION_TYPES, CONNECTOR_TYPES
from heliograph.config.sources.roots import SOURCE_TYPES
from heliograph.config_changes.edits import Edit
from heliograph.config_changes.errors import GroupExistsError, GroupMissingError
from heliograph.config_changes.groups import GroupList, NamedGroups
from heliograph.config_changes.manager import ConfigManager
from heliograph.config_changes.terms import ChangeOutcome, Terms
from heliograph.control.conf import answered, author_of, refused, sliced
from heliograph.control.proto_v1 import groups as proto
from heliograph.hocon.writing import key_text
from heliograph.rpc.codes import BAD_ARGUMENTS
from heliograph.rpc.methods import Call, Method, RpcError


@dataclass(frozen=True, slots=True)
class Resource:
    """A kind of things that have names in the configuration.

    Attributes:
        path: The setting below which they are.
        word: The word for one of them.
        kinds: Where it is not empty, names are `kind:name`, and each is below its kind.
        always: A name that is there always: to delete it is to disable it.
        tags: For a list: the settings of a group whose words are its name.
    """

    path: tuple[str, ...]
    word: str
    kinds: tuple[str, ...] = ()
    always: str = ""
    tags: tuple[str, ...] = ("name",)

    def place(self, name: str) -> tuple[tuple[str, ...], str]:
        """The setting below which one is, and its name there.

        Raises:
            RpcError: There is no such kind.
        """
        if not self.kinds:
            return self.path, name
        kind, _, own_name = name.partition(":")
        if kind not in self.kinds:
            raise RpcError(BAD_ARGUMENTS, f"there is no type {kind[:100]!r}; there are {', '.join(self.kinds)}")
        if not own_name:
            raise RpcError(BAD_ARGUMENTS, f"{name[:200]!r} is not the name of a {self.word}; valid is TYPE:NAME")
        return (*self.path, kind), own_name


SCHEMAS: Final = Resource(("schema_registry", "schemas"), "schema")
SCHEMA_REGISTRIES: Final = Resource(("schema_registry", "external"), "schema registry")
RULES: Final = Resource(("rule_engine", "rules"), "rule")
LISTENERS: Final = Resource(("listeners",), "listener", ("tcp", "ssl", "ws", "wss"), always="tcp:default")
CONNECTORS: Final = Resource(("connectors",), "connector", CONNECTOR_TYPES)
ACTIONS: Final = Resource(("actions",), "action", ACTION_TYPES)
MESSAGE_SOURCES: Final = Resource(("sources",), "source", SOURCE_TYPES)
VALIDATIONS: Final = Resource(("schema_validation", "validations"), "validation")
TRANSFORMATIONS: Final = Resource(("message_transformation", "transformations"), "transformation")
AUTHENTICATORS: Final = Resource(("authentication",), "authenticator", tags=("mechanism", "backend"))
SOURCES: Final = Resource(("authorization", "sources"), "source", tags=("type",))
COUNTED_TOPICS: Final = Resource(("topic_metrics",), "counted topic", tags=("topic",))


class _Configured:
    def __init__(self, manager: ConfigManager, resource: Resource) -> None:
        self._manager = manager
        self._resource = resource

    async def _make(self, edit: Edit, call: Call, revision: int, done: str) -> ChangeOutcome:
        """Change the configuration that was seen in a revision."""
        return await answered(self._manager.change(edit, author_of(call), Terms(revision=revision, comment=done)))


class ConfiguredGroups(_Configured):
    """Things under the names of one setting; owned by what answers questions about them.

    A subclass says what depends on one of them, and how that goes on without it.
    """

    def methods(self, asks: proto.ChangeAsks) -> list[Method]:
        """What changes them, and what shows their settings."""
        changes = [asks.put.by(self.put), asks.delete.by(self.delete)]
        if not isinstance(asks, proto.NamedAsks):
            return changes
        return [asks.list.by(lambda args, call: self.listed()), asks.show.by(self.shown), *changes]

    async def listed(self) -> AsyncIterator[Sequence[proto.GroupShown]]:
        """All of a resource without kinds."""
        groups = await self._groups(self._resource.path)
        for names in sliced(groups.names):
            yield [proto.GroupShown(name, json_text(groups.plain(name))) for name in names]

    async def shown(self, args: proto.NamedGroup, call: Call) -> proto.GroupShown:
        groups, name = await self._found(args.name)
        return proto.GroupShown(args.name, json_text(groups.plain(name)))

    async def put(self, args: proto.GroupSettings, call: Call) -> proto.GroupChanged:
        """Create one, or replace its settings."""
        path, name = self._resource.place(args.name)
        revision, groups = self._manager.revision, await self._groups(path)
        is_there = name in groups.names
        if args.is_new and is_there:
            raise refused(GroupExistsError(self._resource.word, args.name))
        edit = await answered(asyncio.to_thread(groups.put, name, args.text))
        return await self._change(args.name, call, "changed" if is_there else "made", edit, revision)

    async def delete(self, args: proto.GroupRemoval, call: Call) -> proto.GroupChanged:
        if args.name and args.name == self._resource.always:
            return await self.put(proto.GroupSettings(args.name, "enable = false"), call)
        revision = self._manager.revision
        groups, name = await self._found(args.name)
        dependents = {kind: names for kind, names in self._dependents(args.name).items() if names}
        if dependents and not args.with_dependents:
            (what, names), *_ = dependents.items()
            in_use = f"{what} {', '.join(names)} use the {self._resource.word} {args.name}"
            raise RpcError("in_use", f"{in_use}; change them first, or delete it with them", dependents)
        edit = await answered(asyncio.to_thread(groups.delete, name))
        values = [*edit.values, *await self._released(args.name)]
        return await self._change(args.name, call, "deleted", Edit(values=tuple(values)), revision)

    async def switch(self, args: proto.GroupSwitch, call: Call) -> proto.GroupChanged:
        """Enable one, or disable it."""
        revision = self._manager.revision
        await self._found(args.name)
        path, name = self._resource.place(args.name)
        place = ".".join((*path, key_text(name), "enable"))
        edit = Edit(values=((place, "true" if args.is_enabled else "false"),))
        return await self._change(args.name, call, "enabled" if args.is_enabled else "disabled", edit, revision)

    async def _change(self, name: str, call: Call, verb: str, edit: Edit, revision: int) -> proto.GroupChanged:
        outcome = await self._make(edit, call, revision, f"the {self._resource.word} {name} is {verb}")
        return proto.GroupChanged(name, outcome.revision)

    def _dependents(self, name: str) -> Mapping[str, list[str]]:
        """The names of what depends on one, by what that is."""
        return {}

    async def _released(self, name: str) -> Sequence[tuple[str, str]]:
        """What else is set where one is deleted with its dependents."""
        return ()

    async def _found(self, name: str) -> tuple[NamedGroups, str]:
        path, own_name = self._resource.place(name)
        groups = await self._groups(path)
        if own_name not in groups.names:
            raise refused(GroupMissingError(self._resource.word, name, groups.names))
        return groups, own_name

    async def _groups(self, path: Sequence[str]) -> NamedGroups:
        """As they hold, with stars for secrets; made in a thread, since it looks at the whole configuration."""
        return await asyncio.to_thread(NamedGroups, self._manager.layers, path, self._resource.word)


@dataclass(frozen=True, slots=True)
class ListChanged:
    """What a change of a list came to.

    Attributes:
        name: Of the group that it was about; empty where that is all.
        names: All of them in their order.
    """

    name: str
    names: list[str]
    outcome: ChangeOutcome


class ConfiguredList(_Configured):
    """Groups in a list whose order counts; owned by what answers questions about them."""

    async def groups(self) -> GroupList:
        """As they hold, with stars for secrets."""
        return await asyncio.to_thread(self._groups)

    async def shown(self, name: str) -> dict[str, Any]:
        """The settings of one; raises `RpcError`."""
        groups = await self.groups()
        return await answered(asyncio.to_thread(groups.plain, name))

    async def change(self, call: Call, change: Callable[[GroupList], str]) -> ListChanged:
        """Change the list, by a change of the configuration.

        Args:
            change: Returns the name of the group that it is about; it runs in a thread.

        Raises:
            RpcError: It was refused, and why.
        """
        revision, groups = self._manager.revision, await self.groups()
        name = await answered(asyncio.to_thread(change, groups))
        return ListChanged(name, groups.names, await self._make(groups.edit(), call, revision, groups.done))

    def _groups(self) -> GroupList:
        return GroupList(self._manager.layers, self._resource.path, self._resource.word, self._resource.tags)


def json_text(plain: Mapping[str, object]) -> str:
    return json.dumps(plain, ensure_ascii=False)
