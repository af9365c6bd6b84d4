"""A leader with its lease: everything that it saves expects the record of its group as it wrote that itself."""

from collections.abc import Callable, Sequence

from heliograph.shared_groups import record
from heliograph.shared_groups.database import GroupDatabase
from heliograph.shared_groups.leader import Leader
from heliograph.shared_groups.protocol import GroupName, Messenger, StreamOffer
from heliograph.storage.errors import PreconditionFailedError, StorageError
from heliograph.storage.state.interface import StateBatch

FindStreams = Callable[[GroupName, int], Sequence[StreamOffer]]


class LeasedLeader:
    """Leads one group as long as its record says so; owned by the registry.

    Its methods raise `PreconditionFailedError` when another leader has taken its place.

    Args:
        held: The record of the group, as it is to be while the lease lasts.
        value: What stands in the database.
        has_lease: Whether that is `held`, and saved.
    """

    __slots__ = (
        "_before",
        "_database",
        "_is_in_doubt",
        "_is_renewing",
        "_lease_us",
        "_value",
        "group",
        "has_lease",
        "is_behind",
        "leader",
        "record",
    )

    def __init__(
        self,
        leader: Leader,
        database: GroupDatabase,
        lease_us: int,
        held: record.GroupRecord,
        value: bytes | None,
        has_lease: bool,
    ) -> None:
        self.group = leader.group
        self.record = held
        self.has_lease = has_lease
        self.leader = leader
        self.is_behind = True
        self._database = database
        self._lease_us = lease_us
        self._value = value
        self._before = value  # what stood there before the last renewal
        self._is_in_doubt = False  # that was refused, so either of the two stands there
        self._is_renewing = False

    def is_quiet(self, borrowers_count: int) -> bool:
        is_settled = self.has_lease and not (self.is_behind or self._is_renewing)
        return is_settled and self.leader.is_quiet(borrowers_count)

    def find_streams(self, find_streams: FindStreams) -> None:
        self.is_behind = False
        try:
            streams = find_streams(self.group, self.record.since_us + 1)
        except StorageError as error:
            self.is_behind = True
            self._database.refuse(self.group, error)
            return
        self.leader.on_streams(streams)

    def post(self, messenger: Messenger) -> None:
        outgoing, self.leader.outgoing = self.leader.outgoing, []
        for borrower, message in outgoing:
            messenger.to_borrower(borrower, message)

    # --- the lease

    def is_over(self, now_us: int) -> bool:
        return self.record.lease_until_us <= now_us

    def renew_if_due(self, now_us: int) -> None:
        """Renew the lease when half of it has passed, or while it is not saved."""
        is_late = self.record.lease_until_us - now_us < self._lease_us // 2
        if (not is_late and self.has_lease) or self._is_renewing:
            return
        held = self.record._replace(lease_until_us=now_us + self._lease_us)
        value = record.encode_group(held)
        batch = StateBatch()
        batch.put(record.group_key(self.group), value)
        if self._submit(batch, lambda is_saved: self._on_renewed(held, is_saved)):
            self._is_renewing = True
            self._before, self._value = self._value, value

    def _on_renewed(self, held: record.GroupRecord, is_saved: bool) -> None:
        self._is_renewing = False
        if is_saved:
            self.record = held
            self.has_lease = True
        else:
            self._is_in_doubt = True

    # --- saving

    def save(self, on_saved: Callable[[bool], None]) -> bool:
        """Save what the leader has changed; whether the database has taken it."""
        token, changes = self.leader.take_changes()
        batch = StateBatch()
        for share, progress in changes.items():
            key = record.progress_key(self.group, share)
            if progress is None:
                batch.delete(key)
            else:
                batch.put(key, record.encode_progress(progress))

        def then(is_saved: bool) -> None:
            self.leader.on_saved(token, is_saved)
            on_saved(is_saved)

        is_taken = self._submit(batch, then)
        if not is_taken:
            self.leader.on_saved(token, False)
        return is_taken

    def _submit(self, batch: StateBatch, then: Callable[[bool], None]) -> bool:
        """Whether the database has taken a batch; it takes none when another leader has taken its place."""
        try:
            if self._is_in_doubt:
                if self._database.value(self.group) == self._before:
                    self._value = self._before
                self._is_in_doubt = False
            batch.expect(record.group_key(self.group), self._value)
            self._database.submit(batch, then)
        except PreconditionFailedError:
            raise
        except StorageError as error:
            self._database.refuse(self.group, error)
            return False
        return True

    def __repr__(self) -> str:
        return f"LeasedLeader({self.leader!r}, {'with' if self.has_lease else 'without'} a lease)"
