"""State databases: small keyed records (sessions, groups) that change often and are read seldom, committed together.

A database of messages appends and replays; a state database keeps the newest value of each key. Its user holds what it
works with in memory, writes every change as one atomic `StateBatch`, and reads when it starts or when something comes
back that it had let go. Like a `GroupCommit`, it gathers the batches of one event-loop turn, or of the time that the
last commit took, writes them together, and then says which **ticket** is durable.

The words are here; `local` keeps them on the disk.

The rules of every state database:

1. `submit` takes a batch or raises; what it took is seen by every later `get` and `scan` at once, durable or not.
2. A batch is durable whole or not at all, and never before those submitted earlier, unless they were refused.
3. `on_committed(ticket, error)` comes for every ticket once, in order, from the event loop and never from within
   `submit`. With an error the disk may have the batch or not; a caller that still needs it submits the same again:
   so batches say what a key is, not how it changed.
4. A key is any bytes, best a few dozen; keys sort as bytes. A prefix is a key's beginning. Owners that share a database
   begin their keys with a byte of their own.
"""

from collections.abc import Callable
from typing import Protocol

from heliograph.observe.histogram import Histogram
from heliograph.storage.errors import PreconditionFailedError, StorageError

OnStateCommitted = Callable[[int, StorageError | None], None]


class StateBatch:
    """Changes that take effect together. Made by its writer, submitted once, then dropped.

    What is said later about a key counts. Preconditions are about what was submitted before this batch.
    """

    __slots__ = ("changes", "preconditions", "prefixes", "size_bytes")

    def __init__(self) -> None:
        self.changes: dict[bytes, bytes | None] = {}
        self.prefixes: list[bytes] = []
        self.preconditions: list[tuple[bytes, bytes | None]] = []
        self.size_bytes = 0

    def put(self, key: bytes, value: bytes) -> None:
        """Give a key a value, whatever it had."""
        self.changes[key] = value
        self.size_bytes += len(key) + len(value)

    def delete(self, key: bytes) -> None:
        """Take a key away; it need not exist."""
        self.changes[key] = None
        self.size_bytes += len(key)

    def delete_prefix(self, prefix: bytes) -> None:
        """Take away all keys that begin with a prefix, also those put by this batch so far."""
        for key in self.changes:
            if key.startswith(prefix):
                self.changes[key] = None
        self.prefixes.append(prefix)
        self.size_bytes += len(prefix)

    def expect(self, key: bytes, value: bytes | None) -> None:
        """Refuse the batch unless the key has this value now, or does not exist for None.

        This is what leases and leadership rest on: of two batches that expect the same, only the first is taken.
        """
        self.preconditions.append((key, value))

    def __bool__(self) -> bool:
        return bool(self.changes or self.prefixes)

    def __repr__(self) -> str:
        return f"StateBatch({len(self.changes)} keys, {len(self.prefixes)} prefixes, {self.size_bytes} bytes)"


class StateDatabase(Protocol):
    """One state database, whatever keeps it. Owned by the node; used in its event-loop thread only."""

    @property
    def name(self) -> str:
        """Its name, for example `sessions`."""

    @property
    def is_full(self) -> bool:
        """Whether so much waits for its commit that callers should slow down; `submit` goes on taking batches."""

    def listen(self, on_committed: OnStateCommitted) -> None:
        """Call a function for every ticket from now on: with None when durable, else with why not.

        It must not block. There may be several listeners; each hears of all tickets, in order.
        """

    def submit(self, batch: StateBatch) -> int:
        """Take a batch and return the ticket of the commit that will hold it. Tickets never fall; batches share them.

        An empty batch gets a ticket too: it is answered when everything submitted before is durable.

        Raises:
            PreconditionFailedError: A key is not as `expect` says; nothing was taken.
            StorageError: The database cannot be read now, which preconditions and `delete_prefix` need; or it is
                closed. Nothing was taken. Batches that need no reading are always taken while it is not closed.
        """

    def get(self, key: bytes) -> bytes | None:
        """The value of a key, or None if it does not exist."""

    def scan(self, prefix: bytes = b"", after: bytes = b"", limit: int = 1024) -> list[tuple[bytes, bytes]]:
        """The first keys with a prefix, with their values, in order; about 1 µs each, so page through large ones.

        Args:
            prefix: What the keys begin with; empty for all.
            after: Only keys above this one; the last key of the page before.
            limit: How many at most; fewer mean that these are the last.
        """

    @property
    def commit_times(self) -> Histogram | None:
        """How long commits took; None if they are not measured."""
        return None

    def statistics(self) -> dict[str, float]:
        """Counts for metrics."""

    async def close(self) -> None:
        """Commit what was taken, answer for it, and close."""


def check_preconditions(database: StateDatabase, batch: StateBatch) -> None:
    """Refuse a batch whose preconditions do not hold.

    Raises:
        PreconditionFailedError: One does not.
        StorageError: The database cannot be read now.
    """
    for key, expected in batch.preconditions:
        found = database.get(key)
        if found != expected:
            raise PreconditionFailedError(
                f"the key {_shown(key)} {_state(found)}; it was expected that it {_state(expected)}",
                database=database.name,
            )


def _state(value: bytes | None) -> str:
    return "does not exist" if value is None else f"is {_shown(value)}"


def _shown(data: bytes) -> str:
    return repr(data[:40])[1:] + ("..." if len(data) > 40 else "")
