"""Retained messages on the disk: what is kept survives the broker, and costs no memory.

They lie in a table of the `keyed` layout (`storage.keyed`), which a commit queue writes. A message is found as soon as
it is retained; its publisher's acknowledgement waits for the commit. If the disk refuses it, what the topic had before
is found again, as the disk has it. `retainer` decides what is kept.
"""

from collections.abc import Callable
from typing import Final

from mypy_extensions import mypyc_attr

from heliograph.broker.message import Message, make_message
from heliograph.broker.pubsub import Broker
from heliograph.broker.retained import RetainedMatches
from heliograph.mqtt.topic import has_wildcard
from heliograph.retainer.options import RetainerOptions
from heliograph.retainer.presence import KnownTopics
from heliograph.retainer.retainer import READ_WORK, Retainer
from heliograph.storage.errors import StorageError
from heliograph.storage.keyed import records as keyed_records
from heliograph.storage.keyed.changes import KeyedChange
from heliograph.storage.keyed.table import KeyedTable
from heliograph.storage.keyed.walk import KeyedWalk

# Work in deliveries (`Broker.work`).
_GET_WORK: Final = 128
_CHANGE_WORK: Final = 64  # what the disk makes a change cost, beside what each message to retain does
_KEY_WORK: Final = 24  # a key that a walk looks at
_LOOKED_MAX: Final = 64  # matches that are gone, passed over at once
_COST_MAX: Final = 256  # keys that are looked at without finding any
_FIRST_PAGE: Final = 8
_PAGE_MAX: Final = 64
_PAGE_BYTES: Final = 256 << 10
_LISTED_PAGE_MAX: Final = 16  # read in less than 0.1 ms: a listing has more time than the clients beside it,
_LISTED_COST_MAX: Final = 32  # and so has a search that finds nothing
_EVER: Final = 1 << 62


@mypyc_attr(allow_interpreted_subclasses=True)
class RetainedCommits:
    """Who brings changes of the table to the disk; joined to the retainer by the node."""

    def submit(self, change: KeyedChange, awaited: bool) -> None:
        """Take a change.

        Args:
            awaited: Whether the message that is handled now may be acknowledged only when the disk has it.
        """
        raise NotImplementedError(type(self).__name__)

    def is_idle(self) -> bool:
        """Whether everything that was taken is durable."""
        raise NotImplementedError(type(self).__name__)

    def when_durable(self, then: Callable[[StorageError | None], object]) -> None:
        """Call a function once when everything that was taken is durable, or with why some of it is not."""
        raise NotImplementedError(type(self).__name__)

    def read_failed(self, error: StorageError) -> None:
        """Messages could not be read, so a subscriber missed them. Called each time; must not block."""


class DiskRetainer(Retainer):
    """Keeps messages in a table, which may be out of order: nothing is retained and found then. Owned by the node."""

    def __init__(self, broker: Broker, table: KeyedTable, commits: RetainedCommits, options: RetainerOptions) -> None:
        super().__init__(broker, options)
        self.table = table
        self.page_max = _page_max(options)
        self.changes = 0  # by publishers so far: what was read before may be out of date
        self._commits = commits
        self._topics = KnownTopics(table)
        self._read_failed = 0

    def __len__(self) -> int:
        return len(self.table)

    def __repr__(self) -> str:
        return f"DiskRetainer({self.table!r})"

    def use(self, options: RetainerOptions) -> None:
        super().use(options)
        self.page_max = _page_max(options)

    def match(self, topic_filter: str) -> "DiskMatches":
        return DiskMatches(self, topic_filter, int(self.table.last_time), self.page_max)

    def listing(self, topic_filter: str) -> "DiskMatches":
        return DiskMatches(self, topic_filter, _EVER, min(self.page_max, _LISTED_PAGE_MAX), _LISTED_COST_MAX)

    def remove(self, topic: str) -> bool:
        change = self.table.remove(topic)
        if change is None:
            return False
        self.changes += 1
        self._commits.submit(change, False)
        return True

    def when_durable(self, then: Callable[[StorageError | None], object]) -> None:
        self._commits.when_durable(then)

    def reindex(self) -> bool:
        return self._topics.renew()

    def index_state(self) -> str:
        return self._topics.state()

    def may_match(self, topic_filter: str) -> bool:
        return self._topics.may_match(topic_filter)

    def learn(self) -> bool:
        return self._topics.advance()

    def sweep(self, count_max: int = 250) -> int:
        try:
            keys = self.table.due(self.broker.now_us, count_max)
        except StorageError as error:
            self._tell_failed(error)
            return 0
        for key in keys:
            self.expire(key)
        self.broker.work += _GET_WORK * len(keys)
        return len(keys)

    def statistics(self) -> dict[str, int]:
        numbers = super().statistics()
        numbers["retained.read_failed"] = self._read_failed
        return numbers

    # --- for matches

    def expire(self, key: bytes) -> None:
        change = self.table.remove_key(key)
        if change is not None:
            self._commits.submit(change, False)
            self._expired += 1

    def get(self, topic: str) -> list[tuple[bytes, bytes]]:
        """The key and record of a topic's message, if it has one."""
        self.broker.work += _GET_WORK
        try:
            record = self.table.get(topic)
        except StorageError as error:
            self._tell_failed(error)
            return []
        key = self.table.topics.find(topic)
        return [] if record is None or key is None else [(key, record)]

    def step(self, walk: KeyedWalk, count: int, cost: int) -> list[tuple[bytes, bytes]]:
        """Go on with a walk: keys and records, perhaps none though it is not done."""
        try:
            found = self.table.step(walk, count, _PAGE_BYTES, cost)
        except StorageError as error:
            # What cannot be read is not delivered; the rest could not be found without a look into the same files.
            self._tell_failed(error)
            walk.is_done = True
            return []
        self.broker.work += _KEY_WORK * found.cost
        return found.records

    def read(self, key: bytes, record: bytes, last_time: int) -> Message | None:
        """The message of a record, unless it was kept after that time, or has expired."""
        self.broker.work += READ_WORK
        times = keyed_records.times(record)
        if times.stored_at > last_time:
            return None
        if times.expires_us != 0 and times.expires_us <= self.broker.now_us:
            self.expire(key)
            return None
        self.read_expires_us = times.expires_us
        found = keyed_records.unpack(record)
        message = make_message(
            found.id_high,
            found.id_low,
            keyed_records.topic_of(key),
            found.payload,
            found.qos,
            True,
            found.property_bytes,
            found.clientid.decode("utf-8"),
            None if found.username is None else found.username.decode("utf-8"),
        )
        message.expiry_s = found.expiry_s  # it may have one that its packet does not say
        return message

    # --- inside

    def _keep(self, message: Message, expires_us: int) -> bool:
        limit = self._options.max_retained_messages
        if limit != 0 and len(self) >= limit and not self.get(message.topic) and not self._has_room():
            return False
        change = self.table.put(message, expires_us, message.expiry_s)
        self._topics.add(message.topic)
        self.changes += 1
        self.broker.work += _CHANGE_WORK
        self._commits.submit(change, True)  # [MQTT-3.3.1-5] 3.1.1 [MQTT-3.3.1-5] [MQTT-3.3.1-7]
        return True

    def _forget(self, message: Message) -> None:
        # Where nothing is to be forgotten because an earlier message has cleared the topic, that may yet be refused.
        change = self.table.remove(message.topic, even_if_absent=not self._commits.is_idle())
        if change is not None:
            self.changes += 1
            self.broker.work += _CHANGE_WORK
            self._commits.submit(change, True)

    def _tell_failed(self, error: StorageError) -> None:
        self._read_failed += 1
        self._commits.read_failed(error)

    def _size_bytes(self) -> int:
        return self.table.size_bytes

    def _known_bytes(self, message: Message) -> int:
        return sum(len(key) + len(record) for key, record in self.get(message.topic))


class DiskMatches(RetainedMatches):
    """What one filter matches; a view that holds a page of records at most.

    Args:
        last_time: Messages that are kept after that time are left out.
        page_max: How many are read at once,
        cost_max: and how many keys are looked at, at the most.
    """

    def __init__(
        self, store: DiskRetainer, topic_filter: str, last_time: int, page_max: int, cost_max: int = _COST_MAX
    ) -> None:
        super().__init__()
        self._store = store
        self._filter = topic_filter
        self._last_time = last_time
        self._page_max = page_max
        self._cost_max = cost_max
        self._walk: KeyedWalk | None = None  # none for a single topic
        self._began = False
        self._after = b""  # the last key that was looked at
        self._page: list[tuple[bytes, bytes]] = []
        self._at = 0
        self._page_size = _FIRST_PAGE
        self._changes = 0  # of the store, when the page was read
        self._done = False

    def is_done(self) -> bool:
        return self._done

    def next(self) -> Message | None:
        for _ in range(_LOOKED_MAX):
            if (self._at == len(self._page) or self._changes != self._store.changes) and not self._fill():
                return None
            key, record = self._page[self._at]
            self._at += 1
            self._after = key
            message = self._store.read(key, record, self._last_time)
            if message is not None:
                return message
        return None

    def _fill(self) -> bool:
        if not self._began:
            self._began = True
            if has_wildcard(self._filter):
                self._walk = self._store.table.walk(self._filter, self._after)
        walk = self._walk
        if walk is None:
            return self._fill_with_one()
        if self._at < len(self._page):
            walk.go_back_to(self._after)  # what was read may have been replaced
        elif self._page:
            self._page_size = min(2 * self._page_size, self._page_max)
        self._changes = self._store.changes
        self._page = self._store.step(walk, self._page_size, self._cost_max)
        self._at = 0
        self._done = not self._page and walk.is_done
        return len(self._page) > 0

    def _fill_with_one(self) -> bool:
        """Read the only topic, unless that was done and it was looked at."""
        self._changes = self._store.changes
        if self._page and self._at == len(self._page):
            self._done = True
            return False
        self._page = self._store.get(self._filter) if not self._after else []
        self._at = 0
        self._done = not self._page
        return len(self._page) > 0


def _page_max(options: RetainerOptions) -> int:
    return min(options.batch_read_number or _PAGE_MAX, _PAGE_MAX)
