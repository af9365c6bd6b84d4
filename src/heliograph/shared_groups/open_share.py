"""A share that a borrower has, and each message of it from being read to being done.

An `OpenShare` keeps, from its grant to its end, what was read and not sent, and what was sent and is not done.
"""

from collections import deque
from typing import Final, Protocol

from heliograph.shared_groups.protocol import MessageId, Progress, Share
from heliograph.storage.interface import END, Position, StoredMessage

_WAITING_MAX: Final = 256
_WAITING_BYTES_MAX: Final = 256 << 10
# What waits in all groups of a node, beyond which only clients with room are read for.
_ALL_WAITING_BYTES_MAX: Final = 32 << 20
_ENTRY_BYTES: Final = 700  # of a message that waits, beside its payload


class Entry:
    """A message of a share, from being read to being done."""

    __slots__ = ("done", "holder", "is_claimed", "is_listed", "is_out", "position", "share", "stored")

    def __init__(self, share: "OpenShare", stored: StoredMessage, position: Position) -> None:
        self.share = share
        self.stored = stored
        self.position = position
        self.done = False
        self.is_listed = False  # it stands among what was sent
        self.is_out = False  # a client has it
        self.is_claimed = False  # it counts as done so that it can be sent, and was not sent yet
        self.holder = ""  # the client whose session has saved it as its own

    @property
    def message(self) -> MessageId:
        return self.stored.id_high, self.stored.id_low

    def settle(self, *, soon: bool = False) -> None:
        if not self.done:
            self.done = True
            self.touch(soon=soon)

    def touch(self, *, soon: bool = False) -> None:
        owner = self.share.owner
        if owner is not None:
            owner.touch(self.share, soon)


class Taker(Protocol):
    """Who has a share, as reading knows it."""

    __slots__ = ()

    def touch(self, share: "OpenShare", soon: bool = False) -> None:
        """A share has moved on; `soon` if its leader waits for that."""

    def takes(self) -> bool:
        """Whether its client takes a message now; if it does not, it asks for what was not read when it does."""


class ShareReaders(Protocol):
    def open_share(self, share: "OpenShare") -> None:
        """Begin to read a share, or go on."""

    def close_share(self, share: "OpenShare") -> None:
        """Stop reading it."""


class Waiting:
    """How much was read and waits for clients, in all groups of a node; owned by the node's durable groups.

    Attributes:
        bytes_max: Beyond this, only clients with room are read for.
    """

    __slots__ = ("bytes_max", "size_bytes")

    def __init__(self, bytes_max: int = _ALL_WAITING_BYTES_MAX) -> None:
        self.size_bytes = 0
        self.bytes_max = bytes_max

    @property
    def is_full(self) -> bool:
        return self.size_bytes > self.bytes_max


# Stands for all that are empty: a group has many shares, and an empty one of its own takes 760 bytes.
_NOTHING: Final[deque[Entry]] = deque(maxlen=0)


class OpenShare:
    """A share that a borrower has; owned by the member whose borrower it is."""

    __slots__ = (
        "_all_waiting",
        "_done_before",
        "_reached",
        "_sent",
        "_waiting_bytes",
        "is_closed",
        "is_ended",
        "is_queued",
        "owner",
        "read_up_to",
        "share",
        "waiting",
    )

    def __init__(self, share: Share, progress: Progress, all_waiting: Waiting) -> None:
        self.share = share
        self.read_up_to = progress.position
        self.waiting = _NOTHING
        self.is_closed = False  # nothing more is to be read
        self.is_ended = False  # nothing more can come
        self.is_queued = False  # it waits for its turn at its member
        self.owner: Taker | None = None  # the member that it was granted to
        self._sent = _NOTHING  # in the order of the stream, done or not
        self._done_before = dict.fromkeys(progress.done)  # ids above where it began that were done then
        self._reached = progress.position
        self._waiting_bytes = 0
        self._all_waiting = all_waiting

    @property
    def wants(self) -> bool:
        return (
            not self.is_closed
            and not self.is_ended
            and len(self.waiting) < _WAITING_MAX
            and self._waiting_bytes < _WAITING_BYTES_MAX
        )

    def may_be_fed(self) -> bool:
        if not self.wants:
            return False
        return self.owner is None or not self._all_waiting.is_full or self.owner.takes()

    @property
    def is_clear(self) -> bool:
        self._advance()
        return not any(entry.is_out and not entry.done for entry in self._sent)

    @property
    def is_quiet(self) -> bool:
        """Whether all of its delivered messages are done."""
        self._advance()
        return not self._sent

    @property
    def lags(self) -> bool:
        """Whether it has read further than its progress says, though no message waits."""
        return not self.waiting and self._reached < self.read_up_to

    @property
    def has_claims(self) -> bool:
        """Whether messages count as done that are still to be sent."""
        return any(entry.is_claimed for entry in self._sent)

    def unclaim(self) -> int:
        """They do not count as done any more: how many."""
        claimed = [entry for entry in self._sent if entry.is_claimed]
        for entry in claimed:
            entry.is_claimed = entry.is_out = entry.done = False
        return len(claimed)

    @property
    def is_finished(self) -> bool:
        """Whether there is nothing left of it for ever."""
        self._advance()
        return self.is_ended and not self.waiting and not self._sent

    def add(self, stored: StoredMessage, position: Position) -> None:
        entry = Entry(self, stored, position)
        if (stored.id_high, stored.id_low) in self._done_before:
            del self._done_before[entry.message]
            entry.done = True
            if not self.waiting:
                self._list(entry)
                return
        if self.waiting is _NOTHING:
            self.waiting = deque()
        self.waiting.append(entry)
        self._count(len(stored.payload), 1)

    def take(self) -> Entry | None:
        """The next message to be sent; it counts as sent from now on."""
        while self.waiting:
            entry = self.waiting.popleft()
            self._count(-len(entry.stored.payload), -1)
            if not entry.is_listed:
                self._list(entry)
            if not entry.done:
                entry.is_out = True
                return entry
        return None

    def put_back(self, entry: Entry) -> None:
        """A message that was taken is to be sent again, before those that wait."""
        entry.is_out = entry.done = False
        if not self.is_closed:
            if self.waiting is _NOTHING:
                self.waiting = deque()
            self.waiting.appendleft(entry)
            self._count(len(entry.stored.payload), 1)

    def close(self) -> None:
        self.is_closed = True
        self._done_before.update((entry.message, None) for entry in self.waiting if entry.done)
        self._count(-self._waiting_bytes, -len(self.waiting))
        self.waiting = _NOTHING

    def progress(self) -> Progress:
        self._advance()
        self._sent = self._sent or _NOTHING
        self.waiting = self.waiting or _NOTHING
        if not self._sent and not self.waiting and not self.is_closed:
            self._reached = max(self._reached, self.read_up_to)
            if self.is_ended:
                return Progress(END)
        done = [*self._done_before, *(entry.message for entry in self._sent if entry.done)]
        done += [entry.message for entry in self.waiting if entry.done and not entry.is_listed]
        return Progress(self._reached, tuple(done))

    def _count(self, payload_bytes: int, entries: int) -> None:
        self._waiting_bytes += payload_bytes
        self._all_waiting.size_bytes += payload_bytes + entries * _ENTRY_BYTES

    def _list(self, entry: Entry) -> None:
        entry.is_listed = True
        if self._sent is _NOTHING:
            self._sent = deque()
        self._sent.append(entry)

    def _advance(self) -> None:
        sent = self._sent
        while sent and sent[0].done and not sent[0].is_claimed:
            self._reached = sent.popleft().position

    def __repr__(self) -> str:
        return f"OpenShare({str(self.share)!r}, {len(self.waiting)} wait, {len(self._sent)} sent)"
