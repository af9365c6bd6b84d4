"""The leaders of one node: how leadership is won, kept and given up, and how what they save depends on it.

Leadership is a record in the database `shared_groups` that names the leader and the end of its lease. It is won by a
batch that expects the record as it was read, and every later batch of the leader expects the record as the leader wrote
it: a deposed leader cannot save anything any more, and so notices it.

Only a group that is awake has a leader. One that sleeps has its record, and whatever its leader saved.

Messages at QoS 2 that sessions own are claims, until their groups know that for good.
"""

import logging
from collections import deque
from collections.abc import Callable, Sequence
from itertools import islice
from typing import Final

from heliograph.shared_groups import record
from heliograph.shared_groups.database import GroupDatabase
from heliograph.shared_groups.first_records import FirstRecords
from heliograph.shared_groups.leader import Leader
from heliograph.shared_groups.leased_leader import FindStreams, LeasedLeader
from heliograph.shared_groups.protocol import (
    BorrowerId,
    Disconnect,
    GroupName,
    LeaderWanted,
    MessageId,
    Messenger,
    Share,
    Timers,
    ToLeader,
)
from heliograph.storage.errors import PreconditionFailedError, StorageError
from heliograph.storage.interface import Position, StreamId
from heliograph.storage.state.interface import StateBatch, StateDatabase

_log = logging.getLogger(__name__)
_RENEW_STREAMS_US: Final = 30_000_000


# What one turn does for leaders and groups, each less than 1 ms.
_SETTLED_AT_ONCE: Final = 8
_TICKED_AT_ONCE: Final = 32
_ANSWERED_AT_ONCE: Final = 8
_REPLACED: Final = "another has taken its place"
OnKnown = Callable[[], object]
OfGroup = dict[Share, dict[MessageId, OnKnown]]


class LeaderRegistry:
    """Finds or makes the leader of a group; owned by the node's durable groups.

    Attributes:
        node: The node's permanent name, set before the first `open`. Leases of the same name may be taken over at once:
            only one process bears it.
        claims: Messages that sessions have as their own, which groups may not know.
        on_more: Called when `go_on` is to be called in a later turn; without it, all is done at once.

        find_streams: The streams of a group's filter that have messages from a commit time on.
    """

    def __init__(
        self,
        state: StateDatabase,
        find_streams: FindStreams,
        messenger: Messenger,
        now_us: Callable[[], int],
        timers: Timers,
        node: str = "",
    ) -> None:
        self.node = node
        self.database = GroupDatabase(state)
        self.database.on_answers = self._want_more
        self.claims = Claims()
        self._find_streams = find_streams
        self._messenger = messenger
        self._now_us = now_us
        self._timers = timers
        self._leased: dict[GroupName, LeasedLeader] = {}
        self.on_more: Callable[[], None] | None = None
        self._unsettled: dict[LeasedLeader, None] = {}  # those that have heard something in this turn
        self._unticked: deque[LeasedLeader] = deque()  # those that have yet to be ticked
        self._unopened: deque[GroupName] = deque()  # groups that may have to find a leader
        self._seeking: set[GroupName] = set()
        self._begins: dict[GroupName, tuple[int, int]] = {}  # of all groups that are to have a leader
        self._first_records = FirstRecords(self.database, self._want_more)
        self._wanted: dict[GroupName, dict[BorrowerId, None]] = {}
        self._known_streams: set[StreamId] = set()
        self._streams_due_us = 0
        self._counts = {"elections": 0, "lost_leases": 0, "saves": 0}

    # --- groups

    def enter(self, group: GroupName, since_us: int, made_us: int) -> None:
        """A group begins without a leader: write a record of it soon."""
        self._first_records.add(group, (since_us, made_us))

    def open(self, group: GroupName, since_us: int, made_us: int) -> int | None:
        """Find a leader for a group, here if it can be.

        Args:
            since_us: Where the group begins if there is no record of it;
            made_us: likewise.

        Returns:
            From when on messages are the group's; None if that cannot be known now.
        """
        now = self._now_us()
        key = record.group_key(group)
        try:
            found = self.database.value(group)
        except StorageError as error:
            self.database.refuse(group, error)
            return None
        before = self.database.decode(group, found)
        begins = self._first_records.take(group) or self._begins.get(group) or (since_us, made_us)
        if before is not None:
            begins = before.since_us, before.made_us
        self._begins[group] = begins
        if group in self._leased or group in self._seeking:
            return begins[1]
        if before is not None and before.leader not in ("", self.node) and before.lease_until_us > now:
            return begins[1]  # another node leads it
        held = record.GroupRecord(
            self.node, now + self._timers.lease_us, 1 if before is None else before.term + 1, *begins
        )
        batch = StateBatch()
        batch.expect(key, found)
        batch.put(key, record.encode_group(held))
        try:
            self.database.submit(batch, lambda is_saved: self._on_elected(group, held, found, is_saved))
        except StorageError as error:
            self.database.refuse(group, error)
        else:
            self._seeking.add(group)
        return begins[1]

    def close(self, group: GroupName) -> None:
        """A quiet group falls asleep: it has no leader, and the disk has all of it."""
        leased = self._leased.pop(group, None)
        if leased is not None:
            self._unsettled.pop(leased, None)
        self._begins.pop(group, None)
        self._wanted.pop(group, None)

    def is_quiet(self, group: GroupName, borrowers_count: int) -> bool:
        """Whether the leader of a group is here, has so many borrowers and nothing to do, and everything is saved."""
        leased = self._leased.get(group)
        if leased is None or leased in self._unsettled or group in self.claims:
            return False
        return leased.is_quiet(borrowers_count)

    def has_granted_all(self, group: GroupName, streams: Sequence[StreamId]) -> bool:
        leased = self._leased.get(group)
        return leased is not None and leased.leader.has_granted_all(streams)

    def drop(self, group: GroupName, has_progress: bool = True) -> None:
        leased = self._leased.pop(group, None)
        if leased is not None:
            leased.leader.resign()
            leased.post(self._messenger)
        self._begins.pop(group, None)
        self._seeking.discard(group)
        self._wanted.pop(group, None)
        self._first_records.take(group)
        self.claims.settle(group, self.claims.take(group), True)
        batch = StateBatch()
        try:
            batch.delete(record.group_key(group))
            if has_progress:
                batch.delete_prefix(record.progress_prefix(group))
            self.database.submit(batch, lambda _: None)
        except StorageError as error:
            self.database.refuse(group, error)

    def claim(self, group: GroupName, share: Share, message: MessageId, on_known: Callable[[], object]) -> None:
        """A session has a message of a group, which the group may not know; no other member may get it.

        Args:
            on_known: Called when the group knows it for good.
        """
        self.claims.add(group, share, message, on_known)
        leased = self._leased.get(group)
        if leased is not None:
            self._save_claims(leased)

    # --- what happens

    def on_message(self, group: GroupName, sender: BorrowerId, message: ToLeader) -> None:
        """A message for the leader of a group, which is answered in `settle`."""
        leased = self._leased.get(group)
        if leased is not None:
            self._unsettled[leased] = None
            leased.leader.on_message(self._now_us(), sender, message)
        elif isinstance(message, LeaderWanted):
            self._wanted.setdefault(group, {})[sender] = None
        elif isinstance(message, Disconnect):
            self._wanted.get(group, {}).pop(sender, None)

    def settle(self) -> None:
        """All messages of this turn are read: share out, answer, and save what has changed; some leaders at once."""
        now = self._now_us()
        for leased in list(islice(self._unsettled, _SETTLED_AT_ONCE)):
            del self._unsettled[leased]
            if self._leased.get(leased.group) is not leased:
                continue
            if leased.is_behind:
                leased.find_streams(self._find_streams)
            leased.leader.balance(now)
            leased.post(self._messenger)
            if leased.leader.has_changes:
                self._save(leased)
        if self._unsettled:
            self._want_more()

    def go_on(self) -> None:
        if self.database.answer(_ANSWERED_AT_ONCE):
            self._want_more()
        self._tick_some()
        self._first_records.write_some()
        self.settle()

    def settle_all(self) -> None:
        """Settle, however many leaders there are: it is the end."""
        while self._unsettled:
            self.settle()
        self._first_records.write_now()

    def _want_more(self) -> None:
        if self.on_more is None:
            self.go_on()
        else:
            self.on_more()

    def on_grown(self, streams: Sequence[StreamId]) -> None:
        if self._known_streams.issuperset(streams):
            return
        self._known_streams.update(streams)
        self._look_for_streams()

    def tick(self) -> None:
        now = self._now_us()
        if now >= self._streams_due_us:  # streams go with their generations, which no commit tells
            self._streams_due_us = now + _RENEW_STREAMS_US
            self._known_streams.clear()
            self._look_for_streams()
        self._first_records.retry()
        if not (self._begins or self._leased or self._seeking or self._wanted or self._unsettled):
            # Empty tables keep the room that they had.
            self._begins, self._leased, self._seeking, self._wanted, self._unsettled = {}, {}, set(), {}, {}
        if not self._unticked and not self._unopened:
            self._unticked.extend(self._leased.values())
            self._unopened.extend(self._begins)
        self.go_on()

    def _tick_some(self) -> None:
        now = self._now_us()
        left = _TICKED_AT_ONCE
        while self._unticked and left > 0:
            left -= 1
            self._tick_leader(self._unticked.popleft(), now)
        while self._unopened and left > 0:
            group = self._unopened.popleft()
            if group in self._begins and group not in self._leased:
                left -= 1
                self.open(group, *self._begins[group])
        if self._unticked or self._unopened:
            self._want_more()

    def _tick_leader(self, leased: LeasedLeader, now: int) -> None:
        if self._leased.get(leased.group) is not leased:
            return
        if leased.is_over(now):
            self._depose(leased, "its lease could not be renewed in time")
            return
        try:
            leased.renew_if_due(now)
        except PreconditionFailedError:
            self._depose(leased, _REPLACED)
            return
        leased.leader.tick(now)
        if leased.leader.has_to_settle or leased.is_behind:
            self._unsettled[leased] = None

    def statistics(self) -> dict[str, int]:
        numbers = {"leaders": len(self._leased), "refused_saves": self.database.refused_saves, **self._counts}
        for leased in self._leased.values():
            for name, count in leased.leader.statistics().items():
                numbers[name] = numbers.get(name, 0) + count
        return numbers

    # --- leadership

    def _on_elected(self, group: GroupName, held: record.GroupRecord, found: bytes | None, is_saved: bool) -> None:
        """Lead a group, unless another has become its leader.

        While the disk takes nothing a group is led without a lease, as long as its record is as it was `found`: what is
        saved for it is refused as soon as there is another leader.
        """
        if group not in self._seeking:
            return
        self._seeking.discard(group)
        value: bytes | None = record.encode_group(held)
        try:
            if not is_saved:
                value = self.database.value(group)
                if value not in (found, record.encode_group(held)):
                    return
            progress = self.database.progress(group)
        except StorageError as error:
            self.database.refuse(group, error)
            return
        self._counts["elections"] += 1
        beginning = Position.before(held.since_us + 1)
        leader = Leader(group, f"{self.node}/{held.term}", self._timers, held.term << 32, beginning, progress)
        leased = LeasedLeader(leader, self.database, self._timers.lease_us, held, value, is_saved)
        self._leased[group] = leased
        self._unsettled[leased] = None
        self._save_claims(leased)
        for borrower in self._wanted.pop(group, {}):
            leader.on_message(self._now_us(), borrower, LeaderWanted())
        self._want_more()

    def _depose(self, leased: LeasedLeader, reason: str) -> None:
        _log.warning("%r no longer leads: %s", leased.leader, reason)
        self._counts["lost_leases"] += 1
        del self._leased[leased.group]
        leased.leader.resign()
        leased.post(self._messenger)

    # --- saving

    def _save(self, leased: LeasedLeader) -> None:
        self._counts["saves"] += 1
        try:
            leased.save(lambda is_saved: self._on_saved(leased, is_saved))
        except PreconditionFailedError:
            self._depose(leased, _REPLACED)

    def _on_saved(self, leased: LeasedLeader, is_saved: bool) -> None:
        if self._leased.get(leased.group) is not leased:
            return
        self._unsettled[leased] = None
        if is_saved:  # what was refused is tried again at the next tick
            self._want_more()  # in a turn of its own: one commit may answer for thousands of groups

    def _save_claims(self, leased: LeasedLeader) -> None:
        group = leased.group
        claims = self.claims.take(group)
        if not claims:
            return
        for share, messages in claims.items():
            leased.leader.claim(share, messages)

        def on_saved(is_saved: bool) -> None:
            self._on_saved(leased, is_saved)
            self.claims.settle(group, claims, is_saved)

        try:
            is_taken = leased.save(on_saved)
        except PreconditionFailedError:
            self._depose(leased, _REPLACED)
            is_taken = False
        if not is_taken:
            self.claims.settle(group, claims, False)

    def _look_for_streams(self) -> None:
        for leased in self._leased.values():
            leased.is_behind = True
            self._unsettled[leased] = None

    def __repr__(self) -> str:
        return f"LeaderRegistry({len(self._leased)} leaders, {self.database!r})"


class Claims:
    """Such messages by group and share, each with what is called once its group knows it; owned by the registry."""

    def __init__(self) -> None:
        self._groups: dict[GroupName, OfGroup] = {}

    def __contains__(self, group: GroupName) -> bool:
        return group in self._groups

    def add(self, group: GroupName, share: Share, message: MessageId, on_known: OnKnown) -> None:
        self._groups.setdefault(group, {}).setdefault(share, {})[message] = on_known

    def take(self, group: GroupName) -> OfGroup:
        return self._groups.pop(group, {})

    def settle(self, group: GroupName, claims: OfGroup, is_saved: bool) -> None:
        for share, messages in claims.items():
            for message, on_known in messages.items():
                if is_saved:
                    on_known()
                else:
                    self.add(group, share, message, on_known)

    def __repr__(self) -> str:
        return f"Claims({len(self._groups)} groups)"
