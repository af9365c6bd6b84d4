"""What a member's client is sent: its shares take turns, and at QoS 2 each message waits for a commit.

What counts as done, and so goes to no other member:

- QoS 0: sent. QoS 1: PUBACK. A message that has expired, is too large for the client, or that it refuses: at once.
- QoS 2 to a durable session: when the session has saved its packet identifier. With that it saves a note that the
  message is its own, which is deleted when the group's progress that counts it is saved.
- QoS 2 to a session in memory: when that progress is saved; only then is it sent. Until then it is claimed.
"""

from typing import Final, Protocol

from heliograph.broker.subscription import Subscription
from heliograph.session.durable import DurableSession
from heliograph.session.group_delivery import GroupDelivery
from heliograph.session.session import Session
from heliograph.shared_groups import record
from heliograph.shared_groups.open_share import Entry, OpenShare, ShareReaders
from heliograph.shared_groups.protocol import GroupName
from heliograph.shared_groups.stored_message import message_of

_CLAIMS_MAX: Final = 64


class SessionNotes(Protocol):
    """What members keep beside the sessions of their clients, in the same commits."""

    def note(self, key: bytes, value: bytes | None) -> int:
        """Keep a record, or delete it, in the commit that gathers now: its ticket, which is saved some time."""


class Deliveries:
    """The messages on their way to one client of a group; owned by the member."""

    __slots__ = (
        "_claimed_count",
        "_claims",
        "_group",
        "_notes",
        "_queue",
        "_readers",
        "_saving",
        "_sendable",
        "session",
        "subscription",
    )

    def __init__(
        self,
        group: GroupName,
        subscription: Subscription,
        session: Session,
        readers: ShareReaders,
        notes: SessionNotes | None,
    ) -> None:
        self.session = session
        self.subscription = subscription
        self._group = group
        self._readers = readers
        self._notes = notes if isinstance(session, DurableSession) else None
        self._queue: list[OpenShare] = []  # shares with messages that wait
        self._saving: list[tuple[int, Entry]] = []  # at QoS 2, by the ticket of their session's commit
        self._claims: list[Entry] = []  # at QoS 2 for a session in memory, not reported yet
        self._sendable: list[Entry] = []  # claims that are saved
        self._claimed_count = 0  # claims that are not sent yet

    @property
    def waits(self) -> bool:
        """Whether messages wait that the client could be sent."""
        queue = self._queue
        while queue and queue[0].is_closed:
            queue.pop(0)
        return bool(queue or self._sendable)

    @property
    def is_idle(self) -> bool:
        return not (self._saving or self._claims or self._sendable)

    @property
    def is_saving(self) -> bool:
        """Whether the session has yet to save a message as its own."""
        return bool(self._saving)

    def saves_of(self, share: OpenShare) -> bool:
        return any(entry.share is share for _, entry in self._saving)

    def queue(self, share: OpenShare) -> None:
        if share.waiting and not share.is_queued:
            share.is_queued = True
            self._queue.append(share)

    def next(self) -> Entry | None:
        """The next message to be sent, unless it is a claim; None if there is none now."""
        queue = self._queue
        while queue:
            if self._claimed_count >= _CLAIMS_MAX:
                return None
            share = queue[0]
            entry = None if share.is_closed else share.take()
            if entry is not None:
                queue.append(queue.pop(0))
                return entry
            queue.pop(0).is_queued = False
            if not share.is_closed:
                self._readers.open_share(share)  # there is room for more
        return None

    def send_claimed(self) -> bool:
        """Send a claim that is saved; whether there was one."""
        if not self._sendable:
            return False
        entry = self._sendable.pop(0)
        if entry.is_claimed:
            entry.is_claimed = False
            self._claimed_count -= 1
            self._send(entry, 2)
            entry.touch()
        return True

    def may_have(self, entry: Entry) -> bool:
        return self.session.may_borrow(entry.stored.topic, self.subscription)

    def lend(self, entry: Entry) -> bool:
        """Send a message that the client may have, or claim it first; whether its session is to save it as its own."""
        qos = int(self.subscription.qos)
        if entry.stored.qos < qos and not self.session.options.upgrade_qos:  # [MQTT-4.8.2-3]
            qos = entry.stored.qos
        if qos == 2 and self._notes is None:
            entry.is_claimed = True
            self._claims.append(entry)
            self._claimed_count += 1
            entry.settle(soon=True)
            return False
        return self._send(entry, qos)

    def _send(self, entry: Entry, qos: int) -> bool:
        stored, subscription = entry.stored, self.subscription
        retain = stored.retain and subscription.retain_as_published
        delivery = GroupDelivery(message_of(stored), qos, retain, subscription, stored.stored_at - 1, entry)
        if not self.session.borrow(delivery):
            entry.settle()
            return False
        if qos != 2 or self._notes is None:
            return False
        entry.holder = self.session.clientid
        key = record.borrowed_key(entry.holder, entry.message)
        ticket = self._notes.note(key, record.encode_borrowed(self._group, entry.share.share))
        self._saving.append((ticket, entry))
        return True

    def take_saved(self, ticket: int) -> list[Entry]:
        """The messages that are the session's own, now that its state is durable up to a ticket."""
        saved = []
        while self._saving and self._saving[0][0] <= ticket:
            saved.append(self._saving.pop(0)[1])
        return saved

    def take_claims(self) -> list[Entry]:
        """The claims that were not reported yet, and are now."""
        if not self._claims:
            return []
        claims, self._claims = self._claims, []
        return claims

    def allow(self, claims: list[Entry]) -> bool:
        """Progress that counts these claims is saved; whether some are still to be sent."""
        self._sendable.extend(entry for entry in claims if entry.is_claimed)
        return bool(self._sendable)

    def unclaim(self, share: OpenShare) -> None:
        """What was claimed of a share and not sent is not the client's."""
        self._claimed_count -= share.unclaim()

    def forget_sendable(self) -> None:
        """Nothing is to be sent any more."""
        self._sendable.clear()

    def __repr__(self) -> str:
        return f"Deliveries({self.session.clientid!r}, {len(self._queue)} shares wait)"
