"""Reading a group's streams for the borrowers of one node: each region once, whatever the number of shares in it.

A `StreamReader` serves the granted shares of one stream. It reads where the one stands that is furthest behind of those
that take messages; what it reads goes to all shares that stand in that region. So shares that keep up are read
together, at the head, and one whose client is slow is passed over until it takes messages again.
"""

from typing import Final, Protocol

from heliograph.shared_groups.open_share import OpenShare, Waiting
from heliograph.shared_groups.protocol import share_of
from heliograph.storage.columnar.damage import Report
from heliograph.storage.errors import UnknownStreamError
from heliograph.storage.interface import Batch, EndOfStream, Position, StreamId, StreamIterator

_READ_AT_ONCE: Final = 512
_READ_WHEN_FULL: Final = 8  # where much waits already, in all groups of the node
_PUBLISHERS_MAX: Final = 20_000


class Messages(Protocol):
    """What reading asks of a database."""

    def next_readable(self, iterator: StreamIterator, n: int, report: Report) -> Batch | EndOfStream:
        """Read what follows, without what is damaged, which is reported."""


class Publishers:
    """Which share each publisher belongs to, for a bounded number of them."""

    def __init__(self) -> None:
        self._known: dict[str, int] = {}

    def share(self, clientid: str) -> int:
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
        report: Called with what is damaged, each time that it is come across.
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
        return self._share_out(batch, len(batch.messages) < count, takers, start, committed_us)

    def _share_out(
        self, batch: Batch, is_all: bool, takers: dict[int, OpenShare], start: Position, committed_us: int
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
            # Not what another share has read, which may be further: this one would be read for again and again.
            self._head = start if end is None else end
        return list(fed)

    def __repr__(self) -> str:
        return f"StreamReader({str(self._stream)!r}, {len(self.shares)} shares)"
