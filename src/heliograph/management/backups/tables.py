"""The tables of an archive: what a node keeps beside its configuration, row by row, out and in."""

import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from heliograph.control.proto_v1 import acl, bans, people, retained, users
from heliograph.control.proto_v1.authn import AUTHN_LIST
from heliograph.management.asking.nodes import Node
from heliograph.rpc.methods import RpcError

_RETAINED_BYTES: Final = 1 << 20  # of one request
_GLOBAL: Final = "global"
_WITH_USERS: Final = ("password_based:built_in_database", "scram:built_in_database")


class OwnedUser(msgspec.Struct, frozen=True):
    """A user of a built-in database, and whose it is."""

    chain: str
    mechanism: str
    user: users.UserData


@dataclass(frozen=True, slots=True)
class Table:
    """A table.

    Attributes:
        kind: The type of a row.
        rows: All of them, of a node, in slices.
        take: Gives rows to a node, in the place of those of the same key; how many it did not take.
    """

    kind: Any
    rows: Callable[[Node], AsyncIterator[Sequence[Any]]]
    take: Callable[[Node, list[Any]], Awaitable[int]]


async def _users(node: Node) -> AsyncIterator[list[OwnedUser]]:
    for row in await node.rows(AUTHN_LIST()):
        if row.id not in _WITH_USERS:
            continue
        chain, mechanism = "" if row.chain == _GLOBAL else row.chain, row.id.partition(":")[0]
        async for found in node.slices(users.USERS_EXPORT(users.UsersWanted(chain, mechanism)), timeout_s=None):
            yield [OwnedUser(chain, mechanism, one) for one in found]


async def _take_users(node: Node, rows: list[OwnedUser]) -> int:
    owners: dict[tuple[str, str], list[users.UserData]] = {}
    for row in rows:
        owners.setdefault((row.chain, row.mechanism), []).append(row.user)
    for (chain, mechanism), found in owners.items():
        await node.ask(users.USERS_IMPORT(users.UsersImport(chain, mechanism, tuple(found))))
    return 0


def _rules(node: Node) -> AsyncIterator[list[acl.AclRules]]:
    return node.slices(acl.ACL_LIST(acl.AclWanted()), timeout_s=None)


async def _take_rules(node: Node, rows: list[acl.AclRules]) -> int:
    await node.ask(acl.ACL_CHANGE(acl.AclChange(rows)))
    return 0


def _bans(node: Node) -> AsyncIterator[list[bans.BanRow]]:
    return node.slices(bans.BANNED_LIST(bans.BansWanted()), timeout_s=None)


async def _take_bans(node: Node, rows: list[bans.BanRow]) -> int:
    for row in rows:
        ban = bans.NewBan(row.kind, row.who, row.reason, row.by, row.until, at=row.at, kicks=False, replaces=True)
        try:
            await node.ask(bans.BANNED_ADD(ban))
        except RpcError:
            if row.until is None or row.until > time.time():
                raise
            # It has ended since the archive was written.
    return 0


def _retained(node: Node) -> AsyncIterator[list[retained.RetainedRecord]]:
    return node.slices(retained.RETAINER_EXPORT(retained.RetainedTopics()), timeout_s=None)


def _is_about_node(row: retained.RetainedRecord) -> bool:
    """Whether a node says it of itself, as its version: another node says its own."""
    return row.topic.startswith("$SYS/") and not row.clientid


async def _take_retained(node: Node, rows: list[retained.RetainedRecord]) -> int:
    refused, size = 0, 0
    part: list[retained.RetainedRecord] = []
    for row in [*(row for row in rows if not _is_about_node(row)), None]:
        if row is None or size + len(row.payload) > _RETAINED_BYTES:
            if part:
                done = await node.ask(retained.RETAINER_IMPORT(retained.RetainedImport(tuple(part))), timeout_s=None)
                refused += done.refused
            size, part = 0, []
        if row is not None:
            part.append(row)
            size += len(row.payload) + len(row.topic)
    return refused


def _api_keys(node: Node) -> AsyncIterator[list[people.ApiKeySecrets]]:
    return node.slices(people.PEOPLE_KEY_SECRETS())


async def _take_api_keys(node: Node, rows: list[people.ApiKeySecrets]) -> int:
    for row in rows:
        key = row.key
        new = people.NewApiKey(
            key.name, key.api_key, row.secret_hash, key.role, key.description, key.enable, key.expires, replaces=True
        )
        await node.ask(people.PEOPLE_KEY_ADD(new))
    return 0


def _people(node: Node) -> AsyncIterator[list[people.ManagementUserSecrets]]:
    return node.slices(people.PEOPLE_USER_SECRETS())


async def _take_people(node: Node, rows: list[people.ManagementUserSecrets]) -> int:
    held = {row.username for row in await node.rows(people.PEOPLE_USERS())}
    for row in rows:
        name, shown = row.user.username, row.user
        if name in held:
            change = people.ManagementUserChange(name, row.password_hash, shown.role, shown.description)
            await node.ask(people.PEOPLE_USER_SET(change))
        else:
            new = people.NewManagementUser(name, row.password_hash, shown.role, shown.description)
            await node.ask(people.PEOPLE_USER_ADD(new))
        factor = people.SecondFactor(name, row.totp_secret, row.recovery, row.totp_step)
        await node.ask(people.PEOPLE_USER_SECOND_FACTOR(factor))
    return 0


TABLES: Final = {
    "api_keys": Table(people.ApiKeySecrets, _api_keys, _take_api_keys),
    "banned": Table(bans.BanRow, _bans, _take_bans),
    "builtin_authn": Table(OwnedUser, _users, _take_users),
    "builtin_authz": Table(acl.AclRules, _rules, _take_rules),
    "builtin_retainer": Table(retained.RetainedRecord, _retained, _take_retained),
    "dashboard_users": Table(people.ManagementUserSecrets, _people, _take_people),
}
