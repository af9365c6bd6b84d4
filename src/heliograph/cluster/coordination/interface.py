"""What a coordinator does: reads, commits that compare, watches and leases."""

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Collection
from dataclasses import dataclass
from enum import Enum
from typing import Final

# What is larger, or more at once, does not belong here.
VALUE_BYTES_MAX: Final = 65_536
OPERATIONS_MAX: Final = 100


class CoordinatorError(Exception):
    """A coordinator does not do what it was asked for."""


class CoordinatorAwayError(CoordinatorError):
    """No answer: it cannot be reached, or has no quorum. Asking again later may help."""


class CoordinatorRefusedError(CoordinatorError):
    """It refuses the request as it is, such as a wrong password or a full database; a person has to mend that."""


class WatchGoneError(CoordinatorError):
    """Changes since a revision are not kept any more: read the records again, and watch from there."""


class LeaseGoneError(CoordinatorError):
    """There is no such lease; it ended."""


@dataclass(frozen=True, slots=True)
class Record:
    """A record as it is.

    Attributes:
        revision: The commit that wrote it.
    """

    key: str
    value: bytes
    revision: int


@dataclass(frozen=True, slots=True)
class Listing:
    """All records below a prefix, by their keys, as of a revision."""

    records: dict[str, Record]
    revision: int


@dataclass(frozen=True, slots=True)
class Put:
    """A record to write.

    Attributes:
        lease: The lease with which it ends; 0 for none.
    """

    key: str
    value: bytes
    lease: int = 0


@dataclass(frozen=True, slots=True)
class Guard:
    """What must hold for a commit: who wrote a record last; revision 0: there is no such record."""

    key: str
    revision: int


class CommitOutcome(Enum):
    """What became of a commit."""

    COMMITTED = "committed"
    CONFLICT = "conflict"  # a guard did not hold, and nothing was written
    UNKNOWN = "unknown"  # it may have been written, or may be later; read before it is tried again


@dataclass(frozen=True, slots=True)
class Commit:
    """What became of a commit; the revision is that of its records, 0 if it is not known to be written."""

    outcome: CommitOutcome
    revision: int = 0


@dataclass(frozen=True, slots=True)
class Changes:
    """What changed at a revision: records by their keys, None where one is gone."""

    revision: int
    records: dict[str, Record | None]


@dataclass(frozen=True, slots=True)
class LeaseGrant:
    """A lease as it was granted.

    Attributes:
        ttl_s: After so many seconds without a renewal it ends: then, later, or much later. An end is never early.
    """

    id: int
    ttl_s: int


class Coordinator(ABC):
    """Keeps the records of a cluster. Every method raises `CoordinatorError` of the kinds above."""

    @abstractmethod
    async def get(self, prefix: str) -> Listing:
        """The records whose keys begin with a prefix."""

    @abstractmethod
    async def commit(self, guards: Collection[Guard], puts: Collection[Put], deletes: Collection[str] = ()) -> Commit:
        """Write and remove records, all or none, if all guards hold.

        Raises:
            LeaseGoneError: A lease of one of the records is not there; nothing was written.
            ValueError: A value is larger than `VALUE_BYTES_MAX`, or there are more than `OPERATIONS_MAX` operations.
        """

    @abstractmethod
    def watch(self, prefix: str, since: int) -> AsyncIterator[Changes]:
        """What changes below a prefix behind a revision, in order, without end.

        The first is empty: it comes as soon as the coordinator listens.

        It raises `CoordinatorAwayError` when it can hear nothing, and is begun again at the last revision that came.
        """

    @abstractmethod
    async def grant(self, ttl_s: int) -> LeaseGrant:
        """A new lease; it may last longer than it was asked for."""

    @abstractmethod
    async def keep(self, lease: int, timeout_s: float) -> None:
        """Renew a lease, within some seconds, however many members are asked. Raises `LeaseGoneError`."""

    @abstractmethod
    async def revoke(self, lease: int) -> None:
        """End a lease and its records; one that ended already is no error."""

    @abstractmethod
    async def close(self) -> None:
        """Close its connections."""


def check_sizes(guards: Collection[Guard], puts: Collection[Put], deletes: Collection[str]) -> None:
    """Refuse a commit that is too large. Raises `ValueError`."""
    count = len(guards) + len(puts) + len(deletes)
    if count > OPERATIONS_MAX:
        raise ValueError(f"a commit of {count} operations; {OPERATIONS_MAX} may be in one")
    for put in puts:
        if len(put.value) > VALUE_BYTES_MAX:
            raise ValueError(f"the record {put.key!r} has {len(put.value)} bytes; {VALUE_BYTES_MAX} may be in one")
