"""Replaying what a durable session has missed: the streams of all its subscriptions, merged by commit time.

A **round** goes up to a commit time, the head at its beginning. Every source is asked once for what comes next; what it
has is given to the session in the order of commits, so a stream that is far behind delays no other, and how far the
session is can be said by one time. A round may take any number of turns.
"""

import heapq
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from enum import Enum
from typing import Final, NamedTuple, Protocol

from heliograph.broker.message import Message
from heliograph.broker.subscription import Subscription
from heliograph.session.durable import DurableSession
from heliograph.shared_groups.stored_message import message_of
from heliograph.storage.columnar.damage import Report
from heliograph.storage.columnar.database import FEW
from heliograph.storage.columnar.offloaded import OffloadError
from heliograph.storage.columnar.salvage import Damage
from heliograph.storage.errors import StorageDamagedError, UnknownStreamError
from heliograph.storage.interface import (
    Batch,
    EndOfStream,
    GenerationInfo,
    StoredMessage,
    Stream,
    StreamId,
    StreamIterator,
)

_STORED_TICKET: Final = -1  # of a message that was read back: none of this process, which all begin with 1
_READ_AT_ONCE: Final = 512
_BUFFERED_MAX: Final = 4096  # messages of all sources of a session
_READ_LEAST: Final = 16
# What asking a source costs, in messages, and looking for the streams of a subscription.
_ASKING_COST: Final = 8
_LOOKING_COST: Final = 8
# Stored messages that are looked at for one source at once, where few of them match: 2 to 4 ms.
_LOOKED_AT_MAX: Final = 4096
_FRUITLESS_COST: Final = 256  # and what that costs
_LOGGED_MAX: Final = 1000
_SEARCHED_MAX: Final = 100_000


class Loss(NamedTuple):
    """Something that a session cannot get any more.

    Attributes:
        since: It was stored from this commit time (µs) on,
        until: up to this one.
        is_damage: Whether it is damaged on the disk, and not dropped because of its age or size.
    """

    where: str
    since: int
    until: int
    why: str
    is_damage: bool


OnLoss = Callable[[DurableSession, Loss], None]


class ReplayedDatabase(Protocol):
    """What a replay asks of a database."""

    def get_streams(
        self, topic_filter_text: str, start: int | None = None, end: int | None = None
    ) -> Sequence[Stream]: ...

    def make_iterator(self, stream: StreamId, topic_filter_text: str, start: int | None = None) -> StreamIterator: ...

    def next(self, iterator: StreamIterator, n: int) -> Batch | EndOfStream: ...

    def next_readable(
        self, iterator: StreamIterator, n: int, report: Report, looked_at_max: int | None = None
    ) -> Batch | EndOfStream:
        """The same without what is damaged; an empty batch whose iterator has moved means that there may be more."""

    def list_generations(self) -> Sequence[GenerationInfo]: ...


class ReplayOutcome(Enum):
    """How a turn of a replay ended."""

    MORE = "it has had its share of the turn"
    FULL = "the session takes nothing more now"
    AWAITS_COMMIT = "there will be more with the next commit"
    LIVE = "the session has everything"


class _Source:
    __slots__ = ("iterator", "name", "number", "subscription", "waiting")

    def __init__(self, number: int, name: str, subscription: Subscription, iterator: StreamIterator) -> None:
        self.number = number
        self.name = name
        self.subscription = subscription
        self.iterator = iterator
        self.waiting: deque[StoredMessage] = deque()


class Replay:
    """The replay of one session; owned by `DurableSessions`, from the time it falls behind until it is live or away."""

    def __init__(self, database: ReplayedDatabase, session: DurableSession, on_loss: OnLoss) -> None:
        self._database = database
        self._session = session
        self._on_loss = on_loss
        self._logged: set[tuple[StreamId, int]] = set()  # where something was damaged, and since when
        self._has_begun = False
        self._sources: dict[tuple[str, StreamId], _Source] = {}
        self._known: dict[tuple[str, StreamId], _Source] = {}  # those of the round before
        self._unlooked: deque[str] = deque()  # subscriptions whose streams are still to be found in this round
        self._since_us = 0  # what the round begins with
        self._ended: set[tuple[str, StreamId]] = set()
        self._head_us = -1  # of the round; -1 between rounds
        self._ticket = 0  # the newest one that is committed up to there
        self._unasked: list[_Source] = []
        self._heap: list[tuple[int, int, _Source]] = []  # by commit time of their next message
        self._read_at_once = _READ_AT_ONCE
        self.given_count = 0
        self.cost = 0  # of the last turn, in messages

    def turn(self, head_us: int, ticket: int, messages_max: int) -> ReplayOutcome:
        """Give the session so many messages at the most.

        Args:
            head_us: What is stored up to then is committed;
            ticket: the newest one of that.

        Raises:
            OffloadError: What follows is being fetched, or cannot be had now; a later turn goes on with it.
        """
        session = self._session
        self.cost = 0
        if self._head_us < 0:
            self._ticket = ticket
            if session.backlog.cursor.at_us >= head_us:
                return self._end_round(head_us)
            self._begin_round(head_us)
        while self._unlooked or self._unasked or (self._heap and self._heap[0][0] <= self._head_us):
            if self.cost >= messages_max:
                return ReplayOutcome.MORE
            if self._unlooked:  # first: what is found may come before all that is known of
                self._look(self._unlooked.popleft())
                continue
            if self._unasked:
                self.cost += self._ask(self._unasked.pop())
                continue
            if not session.has_room():
                return ReplayOutcome.FULL
            self.cost += 1
            stored_at, _, source = heapq.heappop(self._heap)
            self._give(source, source.waiting.popleft(), stored_at)
            if source.waiting:
                self._queue(source)
            else:
                self._unasked.append(source)
        return self._end_round(self._head_us)

    def _begin_round(self, head_us: int) -> None:
        session = self._session
        self._since_us = int(session.backlog.cursor.at_us) + 1
        if not self._has_begun:
            self._has_begun = True
            self._tell_dropped(self._since_us)
        self._known, self._sources = self._sources, {}
        self._unlooked = deque(name for name, one in session.subscriptions.items() if not one.group)
        self._head_us = head_us
        self._heap = []
        self._unasked = []

    def _look(self, name: str) -> None:
        """Find the streams of a subscription, as one step of a round: a session may have a hundred thousand."""
        self.cost += _LOOKING_COST
        subscription = self._session.subscriptions.get(name)
        if subscription is not None and not subscription.group:
            for stream in self._database.get_streams(subscription.topic_filter, self._since_us):
                self._add(name, subscription, stream.id)
        if not self._unlooked:
            self._known = {}
            count = max(1, len(self._sources))
            self._read_at_once = max(_READ_LEAST, min(_READ_AT_ONCE, _BUFFERED_MAX // count))

    def _add(self, name: str, subscription: Subscription, stream: StreamId) -> None:
        place = (name, stream)
        if place in self._ended:
            return
        source = self._known.get(place)
        if source is None or source.subscription is not subscription:
            iterator = self._database.make_iterator(stream, subscription.topic_filter, self._since_us)
            source = _Source(len(self._sources), name, subscription, iterator)
        source.number = len(self._sources)
        self._sources[place] = source
        if source.waiting:
            self._queue(source)
        else:
            self._unasked.append(source)

    def _end_round(self, head_us: int) -> ReplayOutcome:
        self._head_us = -1
        if self._session.on_replayed(head_us, self._ticket):
            return ReplayOutcome.AWAITS_COMMIT
        return ReplayOutcome.MORE if self._session.backlog.behind else ReplayOutcome.LIVE

    def _queue(self, source: _Source) -> None:
        heapq.heappush(self._heap, (source.waiting[0].stored_at, source.number, source))

    def _ask(self, source: _Source) -> int:
        """Read what a source has next; what that cost, in messages."""
        iterator, place = source.iterator, (source.name, source.iterator.stream)
        try:
            batch = self._database.next_readable(iterator, self._read_at_once, self._on_damage, _LOOKED_AT_MAX)
        except OffloadError as error:  # it will come, and nothing that was stored later may be given before it
            source.iterator = error.iterator or iterator
            self._unasked.append(source)
            raise
        except (UnknownStreamError, StorageDamagedError) as error:  # the rest of it cannot be had; others can
            is_damage = isinstance(error, StorageDamagedError)
            self._tell(Loss(str(iterator.stream), iterator.position.time, self._head_us, str(error), is_damage))
            self._ended.add(place)
            return _ASKING_COST
        if isinstance(batch, EndOfStream):
            self._ended.add(place)
            return _ASKING_COST
        source.iterator = batch.iterator
        if batch.messages:
            source.waiting.extend(batch.messages)
            self._queue(source)
            return _ASKING_COST
        if batch.iterator == iterator:
            return _ASKING_COST
        self._unasked.append(source)
        return _FRUITLESS_COST

    def _on_damage(self, damage: Damage) -> None:
        place = damage.stream, damage.since
        if place not in self._logged and damage.since <= self._head_us:
            if len(self._logged) < _LOGGED_MAX:
                self._logged.add(place)
            self._tell(Loss(str(damage.stream), damage.since, damage.until, damage.problem, True))

    def _tell_dropped(self, start: int) -> None:
        """Say so if generations went that had something stored behind the cursor."""
        oldest: dict[int, GenerationInfo] = {}
        for generation in self._database.list_generations():
            oldest.setdefault(generation.shard, generation)
        for generation in oldest.values():
            if generation.number > 1 and generation.since > start and self._session.subscriptions:
                why = "what was stored then was removed because of its age or size"
                self._tell(Loss(f"shard {generation.shard}", start, generation.since - 1, why, False))

    def _tell(self, loss: Loss) -> None:
        self._on_loss(self._session, loss)

    def _give(self, source: _Source, stored: StoredMessage, stored_at: int) -> None:
        self.given_count += 1
        session, subscription = self._session, source.subscription
        if session.subscriptions.get(source.name) is not subscription:
            return
        beginning = session.backlog.beginnings.get(source.name)
        if beginning is not None and beginning.is_behind(stored_at, stored.id_high):
            return
        session.replay(_read_back(stored), stored_at, subscription)

    def __repr__(self) -> str:
        return f"Replay({self._session!r}, {len(self._sources)} sources)"


def _read_back(stored: StoredMessage) -> Message:
    message = message_of(stored)
    message.ticket = _STORED_TICKET
    return message


def find_message(database: ReplayedDatabase, topic: str, after_us: int, id_high: int, id_low: int) -> Message | None:
    """The message of an id on a topic that was stored after a commit time, or None if it is not there any more."""
    for stored in _stored_since(database, topic, after_us + 1):
        if stored.id_high == id_high and stored.id_low == id_low:
            return _read_back(stored)
    return None


def newest_retained(database: ReplayedDatabase, topic: str, since_us: int) -> tuple[int, int] | None:
    """The id of the retained message of a topic, or of what cleared it, that was stored last since a commit time."""
    newest: tuple[int, int, int] | None = None  # commit time and id
    for stored in _stored_since(database, topic, since_us):
        if stored.retain and (newest is None or stored.stored_at >= newest[0]):
            newest = stored.stored_at, stored.id_high, stored.id_low
    return None if newest is None else newest[1:]


def _stored_since(database: ReplayedDatabase, topic: str, since_us: int) -> Iterator[StoredMessage]:
    """What was stored on a topic since a commit time, one stream after the other; of each so many at the most."""
    for stream in database.get_streams(topic, since_us):
        iterator = database.make_iterator(stream.id, topic, since_us)
        left = _SEARCHED_MAX
        while left > 0:
            batch = database.next(iterator, FEW)
            if isinstance(batch, EndOfStream) or not batch.messages:
                break
            yield from batch.messages
            left -= len(batch.messages)
            iterator = batch.iterator
