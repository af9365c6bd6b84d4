"""Replaying what a durable session has missed: the streams of all its subscriptions, merged by commit time.

A **round** goes up to a commit time, the head at its beginning. Every source is asked once for what comes next; what it
has is given to the session in the order of commits, so a stream that is far behind holds up nobody, and how far the
session is can be said by one time. A round may take any number of turns.
"""

import heapq
from collections import deque
from collections.abc import Sequence
from enum import Enum
from typing import Final, Protocol

from heliograph.broker.message import Message, make_message
from heliograph.broker.subscription import Subscription
from heliograph.session.durable import DurableSession
from heliograph.storage.errors import StorageDamagedError, UnknownStreamError
from heliograph.storage.interface import Batch, EndOfStream, StoredMessage, Stream, StreamId, StreamIterator

_STORED_TICKET: Final = 1  # of a message that was read back
_READ_AT_ONCE: Final = 512
_BUFFERED_MAX: Final = 4096  # messages of all sources of a session
_READ_LEAST: Final = 16
# What asking a source costs, in messages.
_ASKING_COST: Final = 8


class ReplayedDatabase(Protocol):
    """What a replay asks of a database."""

    def get_streams(self, topic_filter_text: str, start: int | None = None, end: int | None = None) -> Sequence[Stream]:
        """The streams that can hold messages of a filter."""

    def make_iterator(self, stream: StreamId, topic_filter_text: str, start: int | None = None) -> StreamIterator:
        """An iterator before the first message of the filter stored at `start` or later."""

    def next(self, iterator: StreamIterator, n: int) -> Batch | EndOfStream:
        """Read what follows."""


class Outcome(Enum):
    """How a turn of a replay ended."""

    MORE = "it has had its share of the turn"
    FULL = "the session takes nothing more now"
    AWAITS_COMMIT = "there will be more with the next commit"
    LIVE = "the session has everything"


class _Source:
    """One stream as one subscription sees it."""

    __slots__ = ("iterator", "name", "number", "subscription", "waiting")

    def __init__(self, number: int, name: str, subscription: Subscription, iterator: StreamIterator) -> None:
        self.number = number
        self.name = name
        self.subscription = subscription
        self.iterator = iterator
        self.waiting: deque[StoredMessage] = deque()


class Replay:
    """The replay of one session; owned by `DurableSessions`, from the time it falls behind until it is live or away."""

    def __init__(self, database: ReplayedDatabase, session: DurableSession) -> None:
        self._database = database
        self._session = session
        self._sources: dict[tuple[str, StreamId], _Source] = {}
        self._ended: set[tuple[str, StreamId]] = set()
        self._head_us = -1  # of the round; -1 between rounds
        self._ticket = 0  # the newest one that is committed up to there
        self._unasked: list[_Source] = []
        self._heap: list[tuple[int, int, _Source]] = []  # by commit time of their next message
        self._read_at_once = _READ_AT_ONCE
        self.given_count = 0
        self.damaged_count = 0

    def turn(self, head_us: int, ticket: int, messages_max: int) -> Outcome:
        """Give the session so many messages at the most.

        Args:
            head_us: What is stored up to then is committed;
            ticket: the newest one of that.

        Raises:
            StorageError: The database cannot be read now.
        """
        session = self._session
        if self._head_us < 0:
            self._ticket = ticket
            if session.cursor_us >= head_us:
                return self._end_round(head_us)
            self._begin_round(head_us)
        budget = messages_max
        while self._unasked:
            if budget <= 0:
                return Outcome.MORE
            budget -= _ASKING_COST
            self._ask(self._unasked.pop())
        while self._heap and self._heap[0][0] <= self._head_us:
            if not session.has_room():
                return Outcome.FULL
            if budget <= 0:
                return Outcome.MORE
            budget -= 1
            stored_at, _, source = heapq.heappop(self._heap)
            self._give(source, source.waiting.popleft(), stored_at)
            if source.waiting:
                self._queue(source)
            else:
                budget -= _ASKING_COST
                self._ask(source)
        return self._end_round(self._head_us)

    def _begin_round(self, head_us: int) -> None:
        session, start = self._session, int(self._session.cursor_us) + 1
        known, self._sources = self._sources, {}
        for name, subscription in session.subscriptions.items():
            if subscription.group:
                continue
            for stream in self._database.get_streams(subscription.topic_filter, start):
                place = (name, stream.id)
                source = known.get(place)
                if place in self._ended:
                    continue
                if source is None or source.subscription is not subscription:
                    iterator = self._database.make_iterator(stream.id, subscription.topic_filter, start)
                    source = _Source(len(self._sources), name, subscription, iterator)
                source.number = len(self._sources)
                self._sources[place] = source
        self._read_at_once = max(_READ_LEAST, min(_READ_AT_ONCE, _BUFFERED_MAX // max(1, len(self._sources))))
        self._head_us = head_us
        self._heap = []
        self._unasked = []
        for source in self._sources.values():
            if source.waiting:
                self._queue(source)
            else:
                self._unasked.append(source)

    def _end_round(self, head_us: int) -> Outcome:
        self._head_us = -1
        if self._session.on_replayed(head_us, self._ticket):
            return Outcome.AWAITS_COMMIT
        return Outcome.MORE if self._session.behind else Outcome.LIVE

    def _queue(self, source: _Source) -> None:
        heapq.heappush(self._heap, (source.waiting[0].stored_at, source.number, source))

    def _ask(self, source: _Source) -> None:
        place = (source.name, source.iterator.stream)
        try:
            batch = self._database.next(source.iterator, self._read_at_once)
        except (StorageDamagedError, UnknownStreamError):  # the rest of the stream cannot be had; others can
            self.damaged_count += 1
            self._ended.add(place)
            return
        if isinstance(batch, EndOfStream):
            self._ended.add(place)
            return
        source.iterator = batch.iterator
        if batch.messages:
            source.waiting.extend(batch.messages)
            self._queue(source)

    def _give(self, source: _Source, stored: StoredMessage, stored_at: int) -> None:
        self.given_count += 1
        session, subscription = self._session, source.subscription
        if session.subscriptions.get(source.name) is not subscription:
            return
        if stored.id_high < session.made_us.get(source.name, 0):
            return
        session.replay(message_of(stored), stored_at, subscription)

    def __repr__(self) -> str:
        return f"Replay({self._session!r}, {len(self._sources)} sources)"


def message_of(stored: StoredMessage) -> Message:
    """A stored message as the kernel knows it."""
    message = make_message(
        stored.id_high,
        stored.id_low,
        stored.topic,
        stored.payload,
        stored.qos,
        stored.retain,
        stored.property_bytes,
        stored.clientid,
        stored.username,
    )
    message.ticket = _STORED_TICKET
    return message


def find_message(
    database: ReplayedDatabase, topic: str, after_us: int, id_high: int, id_low: int, looked_at_max: int = 100_000
) -> Message | None:
    """The message of an id on a topic that was stored after a commit time, or None if it is not there any more."""
    for stream in database.get_streams(topic, after_us + 1):
        iterator = database.make_iterator(stream.id, topic, after_us + 1)
        left = looked_at_max
        while left > 0:
            batch = database.next(iterator, _READ_LEAST)
            if isinstance(batch, EndOfStream) or not batch.messages:
                break
            for stored in batch.messages:
                if stored.id_high == id_high and stored.id_low == id_low:
                    return message_of(stored)
            left -= len(batch.messages)
            iterator = batch.iterator
    return None
