"""Which durable sessions are members of which groups, as it is kept beside the sessions, in the same commits.

With it lie the notes of QoS 2 messages that are a session's own while its group may not count them yet.
"""

import logging
from collections.abc import Callable, Iterable, Iterator
from typing import Protocol

from heliograph.broker.subscription import Subscriber, Subscription
from heliograph.shared_groups import record
from heliograph.shared_groups.deliveries import SessionNotes
from heliograph.shared_groups.durable_group import DurableGroup
from heliograph.shared_groups.protocol import GroupName, MessageId
from heliograph.storage.errors import UnknownStreamError

_log = logging.getLogger(__name__)

Notes = list[tuple[bytes, bytes]]


class SessionStore(SessionNotes, Protocol):
    """The methods of durable sessions that are used here."""

    def notes(self, prefix: bytes) -> Iterable[tuple[bytes, bytes]]:
        """All records that were kept under keys with a prefix."""


class Roster:
    """The members of all groups of a node that outlive their connections; owned by the node's durable groups.

    Attributes:
        sessions: Who keeps sessions; None where sessions are in memory only, so that there are no such members.
    """

    def __init__(self) -> None:
        self.sessions: SessionStore | None = None
        # By client, with the subscription that makes it a member, where its session is known already.
        self._groups: dict[str, dict[DurableGroup, Subscription | None]] = {}
        # `$queue/...` and `$share/$queue/...` are one group, so a session may be its member twice.
        self._others: dict[tuple[DurableGroup, str], list[Subscription]] = {}

    # --- what the disk has

    def read(self) -> tuple[Notes, Notes]:
        """What was kept: of members, and of messages that sessions have."""
        if self.sessions is None:
            return [], []
        return list(self.sessions.notes(record.MEMBER)), list(self.sessions.notes(record.BORROWED))

    def members(self, notes: Notes, knows: Callable[[str], bool]) -> Iterator[tuple[GroupName, str, int]]:
        """Group, client and beginning of each membership; those of sessions that are gone are forgotten."""
        for key, value in notes:
            group, clientid = record.member_of_key(key)
            if knows(clientid):
                yield group, clientid, int(value)
            else:
                self._forget(key)

    def borrowed(self, notes: Notes, is_durable: Callable[[GroupName], bool]) -> Iterator[tuple[record.Borrowed, str]]:
        """Each message that a session has, with the client; those of groups that are gone are forgotten."""
        for key, value in notes:
            try:
                borrowed = record.decode_borrowed(key, value)
            except (ValueError, UnknownStreamError) as error:
                _log.error("what a session has of a shared group cannot be read: %r: %s", key, error)
                continue
            if is_durable(borrowed.group):
                yield borrowed, record.client_of_borrowed(key)
            else:
                self._forget(key)

    # --- changes

    def unknown_groups(self, clientid: str) -> list[DurableGroup]:
        """The groups that a client's durable session is a member of, of which only the disk has its subscription."""
        return [group for group, subscription in self._groups.get(clientid, {}).items() if subscription is None]

    def memberships(self, session: Subscriber) -> Iterator[tuple[DurableGroup, Subscription]]:
        """The groups that a durable session is a member of, with its subscriptions."""
        for group, subscription in self._groups.get(session.clientid, {}).items():
            for one in (subscription, *self._others.get((group, session.clientid), ())):
                if one is not None and one.subscriber is session:
                    yield group, one

    def add(self, group: DurableGroup, clientid: str) -> None:
        groups = self._groups.setdefault(clientid, {})
        if group not in groups:
            groups[group] = None
            group.clients_count += 1

    def join(self, group: DurableGroup, subscription: Subscription, now_us: int) -> None:
        """A durable session becomes a member, if it is not one yet."""
        if self.sessions is None:
            return
        clientid = subscription.subscriber.clientid
        groups = self._groups.get(clientid)
        if groups is None or group not in groups:
            self.add(group, clientid)
            groups = self._groups[clientid]
            self.sessions.note(record.member_key(group.name, clientid), b"%d" % now_us)
        before = groups[group]
        if before is None or before.slot < 0:
            groups[group] = subscription
        elif before is not subscription:
            self._others.setdefault((group, clientid), []).append(subscription)

    def leave(self, group: DurableGroup, subscription: Subscription) -> None:
        """A subscription ends: without another one its durable session is no member any more."""
        clientid = subscription.subscriber.clientid
        groups = self._groups.get(clientid)
        if groups is None or group not in groups:
            return
        others = self._others.pop((group, clientid), [])
        if groups[group] is not subscription:
            others = [one for one in others if one is not subscription]
        elif others:
            groups[group] = others.pop()
        else:
            self.remove(group, clientid)
        if others:
            self._others[group, clientid] = others

    def remove(self, group: DurableGroup, clientid: str) -> None:
        """A durable session is no member any more."""
        groups = self._groups.get(clientid, {})
        if group in groups:
            del groups[group]
            group.clients_count -= 1
        if not groups:
            self._groups.pop(clientid, None)
        self._others.pop((group, clientid), None)
        self._forget(record.member_key(group.name, clientid))

    def forget_borrowed(self, clientid: str, message: MessageId) -> None:
        """A group counts a message of a session now."""
        self._forget(record.borrowed_key(clientid, message))

    def _forget(self, key: bytes) -> None:
        if self.sessions is not None:
            self.sessions.note(key, None)

    def __repr__(self) -> str:
        return f"Roster({len(self._groups)} clients)"
