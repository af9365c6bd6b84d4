"""What a user of the built-in database may read, as rules for the storage reader: those of its subscriptions."""

import logging
from collections.abc import Awaitable
from typing import Final

from heliograph.access.acl.conditions import CheckedClient
from heliograph.access.acl.index import EVERY_TOPIC, EXACT, TopicEntry
from heliograph.access.acl.rules import Rules
from heliograph.access.authentication.built_in_database import ID
from heliograph.access.authorization.interface import RulesSource
from heliograph.access.authorization.part import AuthorizationPart
from heliograph.access.templates.values import client_values
from heliograph.access.users.records import PasswordUser
from heliograph.access.users.store import UserStore
from heliograph.broker.actions import subscribe_action
from heliograph.broker.client import ClientInfo
from heliograph.storage.reader.user_rights import Rights

_log = logging.getLogger(__name__)

_EVERYTHING: Final[Rights] = ((True, None),)
_CLIENT_EVENTS: Final[Rights] = ((False, "$events/#"), (False, "$SYS/+/+/clients/#"))  # closed unless a rule opens them
_SUBSCRIBING: Final = 1 << subscribe_action(0).number


async def rights_of(username: str, users: UserStore, authorization: AuthorizationPart) -> Rights | None:
    """The rules for a user of the chain of all listeners, at a client without id and address.

    None if they are not known: a source fails, or decides on each action itself. Nothing if there is no such user.
    """
    user = users.group(PasswordUser, "", ID).find(username)
    if user is None:
        return ()
    if user.is_superuser:
        return _EVERYTHING
    client = ClientInfo("", username, "")
    client.listener = client.zone = ""
    found: list[tuple[bool, str | None]] = []
    for source in authorization.sources.values():
        if not source.has_rules:
            continue
        if not isinstance(source, RulesSource):
            _log.warning("what %r may read of stored messages is not known: %s has no rules", username, source.type)
            return None
        try:
            rules = source.fetch(client)
            if isinstance(rules, Awaitable):
                rules = await rules
        except Exception as error:  # noqa: BLE001 - a source is a boundary; what it might allow is not read
            _log.warning("what %r may read of stored messages is not known: %s: %s", username, source.type, error)
            return None
        found += reading_rules(rules, client)
    return (*found, *_CLIENT_EVENTS, (authorization.settings.no_match == "allow", None))


def reading_rules(rules: Rules, client: ClientInfo) -> list[tuple[bool, str | None]]:
    checked, values = CheckedClient(client), client_values(client)
    found: list[tuple[bool, str | None]] = []
    for at, rule in enumerate(rules.rules):
        if not rule.actions & _SUBSCRIBING or not rule.is_about(checked):
            continue
        for topic in rule.topics:
            entry = topic.entry(at, rule.actions, rule.is_allowing, values)
            if entry is not None and entry.actions & _SUBSCRIBING:
                found += [(rule.is_allowing, one) for one in _filters(entry)]
    return found


def _filters(entry: TopicEntry) -> list[str | None]:
    """None where no topic name can be what the entry names, as one with a literal `+`."""
    if entry.kind == EVERY_TOPIC:
        return [None]
    levels: list[str | None] = list(entry.topic.split("/")) if entry.kind == EXACT else list(entry.levels)
    if any(level is not None and ("+" in level or "#" in level) for level in levels):
        return []
    rest = ["#"] if entry.has_rest else []
    return ["/".join(["+" if level is None else level for level in levels] + rest)]
