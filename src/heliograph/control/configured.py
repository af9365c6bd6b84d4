"""Groups of settings that have names: made, replaced and removed by changes of the configuration.

The manager writes changes and refused attempts into the audit log itself.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Mapping, Sequence

from heliograph.config_changes.edits import Edit
from heliograph.config_changes.list_edits import REAR, GroupList
from heliograph.config_changes.manager import ConfigManager
from heliograph.config_changes.named_edits import NamedGroups
from heliograph.config_changes.terms import Terms
from heliograph.control.conf import author_of, sliced, told
from heliograph.control.proto_v1 import groups as proto
from heliograph.rpc.methods import Call, RpcError

Counts = Callable[[str], Mapping[str, int]]


def _nothing(name: str) -> Mapping[str, int]:
    return {}


class _Configured:
    """What both kinds share."""

    def __init__(self, manager: ConfigManager, path: Sequence[str], what: str) -> None:
        self._manager = manager
        self._path = tuple(path)
        self._what = what

    async def _change(self, name: str, call: Call, verb: str, edit: Edit, revision: int) -> proto.GroupChanged:
        terms = Terms(revision=revision, comment=f"the {self._what} {name} is {verb}")
        outcome = await told(self._manager.change(edit, author_of(call), terms))
        return proto.GroupChanged(name, outcome.revision)

    def _missing(self, name: str, names: Sequence[str]) -> RpcError:
        return RpcError("not_found", f"there is no {self._what} {name!r}; there are: {', '.join(names[:20]) or 'none'}")

    def _there(self, name: str) -> RpcError:
        return RpcError("already_exists", f"the {self._what} {name!r} is there already: change it, or delete it first")


class ConfiguredGroups(_Configured):
    """Groups under the names of one setting; owned by what answers questions about them.

    Args:
        manager: What changes the configuration.
        path: Where the groups stand.
        what: What one of them is called.
    """

    async def listed(self) -> AsyncIterator[Sequence[proto.GroupShown]]:
        """All of them."""
        groups = await self._groups()
        for names in sliced(groups.names):
            yield [proto.GroupShown(name, _json(groups.plain(name))) for name in names]

    async def shown(self, args: proto.NamedGroup, call: Call) -> proto.GroupShown:
        """One of them."""
        groups = await self._groups()
        if args.name not in groups.names:
            raise self._missing(args.name, groups.names)
        return proto.GroupShown(args.name, _json(groups.plain(args.name)))

    async def put(self, args: proto.GroupSettings, call: Call) -> proto.GroupChanged:
        """Create one, or replace its settings."""
        revision, groups = self._manager.revision, await self._groups()
        is_there = args.name in groups.names
        if args.is_new and is_there:
            raise self._there(args.name)
        edit = await told(asyncio.to_thread(groups.put, args.name, args.text))
        return await self._change(args.name, call, "changed" if is_there else "made", edit, revision)

    async def delete(self, args: proto.NamedGroup, call: Call) -> proto.GroupChanged:
        """Delete one."""
        revision, groups = self._manager.revision, await self._groups()
        if args.name not in groups.names:
            raise self._missing(args.name, groups.names)
        edit = await told(asyncio.to_thread(groups.delete, args.name))
        return await self._change(args.name, call, "deleted", edit, revision)

    async def _groups(self) -> NamedGroups:
        """As they hold, with stars for secrets; made in a thread, since it looks at the whole configuration."""
        return await asyncio.to_thread(NamedGroups, self._manager.layers, self._path, self._what)


class ConfiguredList(_Configured):
    """Groups with names in a list whose order counts; owned by what answers questions about them.

    Args:
        manager: What changes the configuration.
        path: Where the list stands.
        what: What one of them is called.
        counts: What is counted of the one of a name.
    """

    def __init__(self, manager: ConfigManager, path: Sequence[str], what: str, counts: Counts = _nothing) -> None:
        super().__init__(manager, path, what)
        self._counts = counts

    async def listed(self) -> AsyncIterator[Sequence[proto.GroupShown]]:
        """All of them in their order."""
        groups = await self._groups()
        for rows in sliced(list(zip(groups.names, groups.plain(), strict=True))):
            yield [self._row(name, plain) for name, plain in rows]

    async def shown(self, args: proto.NamedGroup, call: Call) -> proto.GroupShown:
        """One of them."""
        groups = await self._groups()
        if args.name not in groups.names:
            raise self._missing(args.name, groups.names)
        return self._row(args.name, groups.plain()[groups.names.index(args.name)])

    async def add(self, args: proto.GroupSettings, call: Call) -> proto.GroupChanged:
        """Add one at the end."""
        revision, groups = self._manager.revision, await self._groups()
        if args.name in groups.names:
            raise self._there(args.name)
        await told(asyncio.to_thread(groups.add, args.text, REAR))
        return await self._change(args.name, call, "made", groups.edit(), revision)

    async def update(self, args: proto.GroupSettings, call: Call) -> proto.GroupChanged:
        """Replace the settings of one."""
        revision, groups = self._manager.revision, await self._groups()
        if args.name not in groups.names:
            raise self._missing(args.name, groups.names)
        await told(asyncio.to_thread(groups.update, args.text))
        return await self._change(args.name, call, "changed", groups.edit(), revision)

    async def delete(self, args: proto.NamedGroup, call: Call) -> proto.GroupChanged:
        """Delete one."""
        revision, groups = self._manager.revision, await self._groups()
        if args.name not in groups.names:
            raise self._missing(args.name, groups.names)
        groups.delete(args.name)
        return await self._change(args.name, call, "deleted", groups.edit(), revision)

    async def switch(self, args: proto.GroupSwitch, call: Call) -> proto.GroupChanged:
        """Enable or disable one."""
        revision, groups = self._manager.revision, await self._groups()
        if args.name not in groups.names:
            raise self._missing(args.name, groups.names)
        groups.enable(args.name, is_enabled=args.is_enabled)
        return await self._change(
            args.name, call, "enabled" if args.is_enabled else "disabled", groups.edit(), revision
        )

    async def order(self, args: proto.GroupOrder, call: Call) -> proto.GroupChanged:
        """Set the order of all."""
        revision, groups = self._manager.revision, await self._groups()
        await told(asyncio.to_thread(groups.order, args.names))
        return await self._change(", ".join(args.names), call, "put in order", groups.edit(), revision)

    def _row(self, name: str, plain: Mapping[str, object]) -> proto.GroupShown:
        return proto.GroupShown(name, _json(plain), dict(self._counts(name)))

    async def _groups(self) -> GroupList:
        return await asyncio.to_thread(GroupList, self._manager.layers, self._path, self._what)


def _json(plain: Mapping[str, object]) -> str:
    return json.dumps(plain, ensure_ascii=False)
