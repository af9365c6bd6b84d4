"""What waits for storage: acknowledgements for the commit of their messages, readers for room.

They are called from here; `channel.acks` then sends the acknowledgements.
"""

from mypy_extensions import i64

from heliograph.broker.faults import COMMITS, Faults
from heliograph.channel.handles import CommitWaiter, ReaderHandle


class Commits:
    """What waits for which storage commit; owned by the node, which tells it of every commit."""

    def __init__(self, faults: Faults) -> None:
        self._faults = faults
        self._waiting: dict[int, list[CommitWaiter]] = {}
        self._without_room: dict[ReaderHandle, None] = {}
        self._done: i64 = 0
        # Of the commit under way: the answer to those that wait for other databases too, and why it was refused.
        self.joined_code = 0
        self.reason = ""

    def is_pending(self, ticket: i64) -> bool:
        return ticket > self._done

    def wait(self, ticket: int, waiter: CommitWaiter) -> None:
        waiters = self._waiting.get(ticket)
        if waiters is None:
            self._waiting[ticket] = [waiter]
        else:
            waiters.append(waiter)

    def wait_for_room(self, reader: ReaderHandle) -> None:
        self._without_room[reader] = None

    def forget(self, reader: ReaderHandle) -> None:
        """A connection is gone: it no longer waits for room, which a full disk may not have for hours."""
        if self._without_room:
            self._without_room.pop(reader, None)

    def done(self, ticket: int, code: int, has_room: bool, joined_code: int = -1, reason: str = "") -> None:
        """A commit is done: call what waits for it.

        Args:
            code: 0, or with what it was refused.
            has_room: Whether more may be published.
            joined_code: The same for messages that other databases keep too; -1 where it is the same.
            reason: Why it was refused, for the client.
        """
        self._done = ticket
        self.joined_code = code if joined_code < 0 else joined_code
        self.reason = reason
        for waiter in self._waiting.pop(ticket, []):
            try:
                waiter.on_committed(ticket, code)
            except Exception as error:  # noqa: BLE001 - those behind it get their acknowledgements, whatever it is
                self._faults.contain(COMMITS, error, waiter.abort)
        if has_room and self._without_room:
            readers = self._without_room
            self._without_room = {}
            for reader in readers:
                try:
                    reader.on_room()
                except Exception as error:  # noqa: BLE001 - those behind it are read from again, whatever it is
                    self._faults.contain(COMMITS, error, reader.abort)
