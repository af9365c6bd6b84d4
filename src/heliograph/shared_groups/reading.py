"""Reading a group's streams for the borrowers of one node: each region once, whatever the number of shares in it.

A `StreamReader` serves the granted shares of one stream. It reads where the one stands that is furthest behind of those
that take messages; what it reads goes to all shares that stand in that region. So shares that keep up are read
together, at the head, and one whose client is slow is passed over until it takes messages again.

An `OpenShare` keeps, from its grant to its end, what was read and not sent, and what was sent and is not done.
"""

from collections import deque
from typing import Final, Protocol

from heliograph.shared_groups.protocol import MessageId, Progress, Share, share_of
from heliograph.storage.columnar.damage import Report
from heliograph.storage.errors import UnknownStreamError
from heliograph.storage.interface import END, Batch, EndOfStream, Position, StoredMessage, StreamId, StreamIterator

_READ_AT_ONCE: Final = 512
_WAITING_MAX: Final = 256
_WAITING_BYTES_MAX: Final = 256 << 10
_PUBLISHERS_MAX: Final = 20_000
# What waits in all groups of a node, beyond which only clients with room are read for, and fewer messages at once.
_ALL_WAITING_BYTES_MAX: Final = 32 << 20
_READ_WHEN_FULL: Final = 8
_ENTRY_BYTES: Final = 700  # of a message that waits, beside its payload


class Messages(Protocol):
    """What reading asks of a database."""

    def next_readable(self, iterator: StreamIterator, n: int, report: Report) -> Batch | EndOfStream:
        """Read what follows, without what is damaged, which is reported."""


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
        """Its message's id."""
        return self.stored.id_high, self.stored.id_low


class Taker(Protocol):
    """Who has a share, as reading knows it."""

    def has_room(self) -> bool:
        """Whether its client takes a message now."""

    def starve(self) -> None:
        """Nothing was read for it, as its client has no room: it is to ask for it when there is some."""


class Waiting:
    """How much was read and waits for clients, in all groups of a node; owned by the node's durable groups.

    Attributes:
        size_bytes: How much that is.
        bytes_max: Beyond this, only clients with room are read for.
    """

    __slots__ = ("bytes_max", "size_bytes")

    def __init__(self, bytes_max: int = _ALL_WAITING_BYTES_MAX) -> None:
        self.size_bytes = 0
        self.bytes_max = bytes_max

    @property
    def is_full(self) -> bool:
        """Whether too much waits to read ahead."""
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
        """Whether it takes more messages."""
        return (
            not self.is_closed
            and not self.is_ended
            and len(self.waiting) < _WAITING_MAX
            and self._waiting_bytes < _WAITING_BYTES_MAX
        )

    def may_be_fed(self) -> bool:
        """Whether to read for it: where very much waits already, only if its client has room."""
        if not self.wants:
            return False
        if self.owner is None or not self._all_waiting.is_full or self.owner.has_room():
            return True
        self.owner.starve()
        return False

    @property
    def is_clear(self) -> bool:
        """Whether all that was sent of it is done."""
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
        """A message that was read."""
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
        """Read nothing more, and forget what was not sent."""
        self.is_closed = True
        self._done_before.update((entry.message, None) for entry in self.waiting if entry.done)
        self._count(-self._waiting_bytes, -len(self.waiting))
        self.waiting = _NOTHING

    def progress(self) -> Progress:
        """How far it is."""
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


class Publishers:
    """Which share each publisher belongs to, for a bounded number of them."""

    def __init__(self) -> None:
        self._known: dict[str, int] = {}

    def share(self, clientid: str) -> int:
        """The number of a publisher's share."""
        number = self._known.get(clientid)
        if number is None:
            number = share_of(clientid)
            if len(self._known) >= _PUBLISHERS_MAX:
                self._known.clear()
            self._known[clientid] = number
        return number


class StreamReader:
    """Reads one stream for the shares of it that are granted here; owned by the group's keeper.

    Args:
        made_us: Messages that the broker received before then are not the group's.
        all_waiting: What waits in all groups.
        report: Told of what is damaged, each time that it is come across.
    """

    __slots__ = (
        "_all_waiting",
        "_filter",
        "_head",
        "_made_us",
        "_messages",
        "_publishers",
        "_report",
        "_stream",
        "is_cut",
        "read_count",
        "shares",
    )

    def __init__(
        self,
        messages: Messages,
        stream: StreamId,
        topic_filter: str,
        made_us: int,
        publishers: Publishers,
        all_waiting: Waiting,
        report: Report,
    ) -> None:
        self.shares: dict[int, OpenShare] = {}
        self.read_count = 0
        self.is_cut = False  # there is more, which was not committed at the last look
        self._messages = messages
        self._stream = stream
        self._filter = topic_filter
        self._made_us = made_us
        self._publishers = publishers
        self._report = report
        self._all_waiting = all_waiting
        self._head: Position | None = None  # there is nothing behind it, as far as is known

    def on_grown(self) -> None:
        """There may be more than there was."""
        self._head = None

    @property
    def is_at_head(self) -> bool:
        """Whether its shares have all that there is, as far as is known."""
        head = self._head
        return head is not None and not self.is_cut and all(one.read_up_to >= head for one in self.shares.values())

    def read(self, committed_us: int) -> list[OpenShare] | None:
        """Read some messages, of those that were stored up to a time: the shares that have more; None if nothing is to
        be read now.

        Raises:
            StorageError: The database cannot be read now.
        """
        takers = {number: share for number, share in self.shares.items() if share.may_be_fed()}
        if not takers:
            return None
        start = min(share.read_up_to for share in takers.values())
        if self._head is not None and start >= self._head:
            return None
        iterator = StreamIterator(self._stream, self._filter, start)
        try:
            count = _READ_WHEN_FULL if self._all_waiting.is_full else _READ_AT_ONCE
            batch = self._messages.next_readable(iterator, count, self._report)
        except UnknownStreamError:
            batch = None
        if not isinstance(batch, Batch):  # it is read to its end, or was removed with its generation
            for share in takers.values():
                share.is_ended = True
            return list(takers.values())
        self.read_count += len(batch.messages)
        return self._share_out(batch, len(batch.messages) < count, takers, committed_us)

    def _share_out(
        self, batch: Batch, is_all: bool, takers: dict[int, OpenShare], committed_us: int
    ) -> list[OpenShare]:
        fed: dict[OpenShare, None] = {}
        share_number = self._publishers.share
        self.is_cut = False
        end: Position | None = batch.iterator.position
        before: Position | None = None
        for stored, position in zip(batch.messages, batch.positions, strict=True):
            if stored.stored_at > committed_us:
                self.is_cut = True
                end = before
                break
            before = position
            number = share_number(stored.clientid)
            share = takers.get(number)
            if share is None or position <= share.read_up_to:
                continue
            if not share.wants or (self._all_waiting.is_full and share.waiting):
                del takers[number]  # it stays where it is
                continue
            share.read_up_to = position
            if stored.id_high >= self._made_us:
                share.add(stored, position)
                fed[share] = None
        if end is not None:
            for share in takers.values():
                share.read_up_to = max(share.read_up_to, end)
        if end is None or end != batch.iterator.position or is_all:
            self._head = max(share.read_up_to for share in self.shares.values())
        return list(fed)

    def __repr__(self) -> str:
        return f"StreamReader({str(self._stream)!r}, {len(self.shares)} shares)"
