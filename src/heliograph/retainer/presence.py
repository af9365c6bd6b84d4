"""What is certainly not retained, known without a look at the disk.

Most subscriptions of a fleet match no retained message, and to find that out on the disk costs some twenty times what
the subscription costs. `KnownTopics` keeps a Bloom filter of the beginnings of all topics that a table has: a filter
whose literal beginning is not in it matches nothing. It is filled by reading the keys of the table once, a bounded
step at a time, after every opening, and by every message that is kept from then on; until it is whole it excludes
nothing. Topics that are forgotten stay in it, which costs a look at the disk and no message; where they are as many as
those that are left, it is filled again.
"""

from typing import Final

from mypy_extensions import i64

from heliograph.retainer.retainer import INDEX_BUILDING, INDEX_OFF, INDEX_READY
from heliograph.storage.errors import StorageError
from heliograph.storage.keyed.table import KeyedTable

# A topic is entered with so many of its beginnings, and a filter is looked up by one of these.
_LEVELS: Final = 8
_BITS_LOG2_MIN: Final = 18  # 32 KiB
_BITS_LOG2_MAX: Final = 28  # 32 MiB, for some ten million topics
_BITS_PER_MESSAGE: Final = 32
# A filter is filled again when this part of its bits is set, so that a look-up in vain is one in four.
_FULL_LOG2: Final = 1
_NEW_FULL_LOG2: Final = 2
# A step reads so many keys, or so many bytes of keys and messages.
_STEP_KEYS: Final = 1024
_STEP_BYTES: Final = 256 << 10
# Filling reads the whole table; where that is more, the disk is asked each time.
_TABLE_BYTES_MAX: Final = 1 << 30


class TopicBeginnings:
    """A Bloom filter of the beginnings of topics: "no" is certain, "yes" is probable. Owned by `KnownTopics`."""

    def __init__(self, bits_log2: int) -> None:
        self.bits_log2 = bits_log2
        self._mask: i64 = (1 << bits_log2) - 1
        self._bits = bytearray(1 << (bits_log2 - 3))
        self._set_count: i64 = 0

    def is_fuller(self, part_log2: i64) -> bool:
        """Whether more than one in `2 ** part_log2` bits are set."""
        return self._set_count > (self._mask + 1) >> part_log2

    def add(self, topic: str) -> None:
        at = -1
        level: i64 = 0
        while level < _LEVELS:
            at = topic.find("/", at + 1)
            if at < 0:
                self._enter(topic + "/")
                return
            self._enter(topic[: at + 1])
            level += 1

    def may_match(self, topic_filter: str) -> bool:
        """Whether a filter can match a topic that was entered."""
        wildcard = topic_filter.find("+")
        if wildcard < 0:
            wildcard = topic_filter.find("#")
        beginning = topic_filter + "/" if wildcard < 0 else topic_filter[:wildcard]
        if beginning.count("/") > _LEVELS:
            beginning = "/".join(beginning.split("/", _LEVELS)[:_LEVELS]) + "/"
        if not beginning:
            return self._set_count > 0
        hashed: i64 = hash(beginning)
        return self._has(hashed) and self._has(hashed >> 32)

    def _enter(self, beginning: str) -> None:
        hashed: i64 = hash(beginning)
        self._set(hashed)
        self._set(hashed >> 32)

    def _has(self, hashed: i64) -> bool:
        place = hashed & self._mask
        byte: i64 = self._bits[place >> 3]
        return byte & (1 << (place & 7)) != 0

    def _set(self, hashed: i64) -> None:
        place = hashed & self._mask
        byte: i64 = self._bits[place >> 3]
        bit: i64 = 1 << (place & 7)
        if byte & bit == 0:
            self._bits[place >> 3] = byte | bit
            self._set_count += 1


class KnownTopics:
    """Which topics a table can have; owned by its retainer, which alone puts messages into it."""

    def __init__(self, table: KeyedTable) -> None:
        self._table = table
        self._known: TopicBeginnings | None = None  # what excludes
        self._filling: TopicBeginnings | None = None  # what is filled with what the table has
        self._after = b""  # how far that is
        self._opened = -1  # which opening of the table is looked at
        self._is_given_up = False  # until the next opening

    def add(self, topic: str) -> None:
        known, filling = self._known, self._filling
        if known is not None:
            known.add(topic)
        if filling is not None:
            filling.add(topic)

    def may_match(self, topic_filter: str) -> bool:
        if self._opened != self._table.opened:
            self._begin_anew()
            self.advance()  # a small table is known at once
        known = self._known
        return known is None or known.may_match(topic_filter)

    def advance(self) -> bool:
        """Read on where that is needed, a bounded step; whether there is more to read."""
        if self._opened != self._table.opened:
            self._begin_anew()
        if self._is_given_up or not self._is_needed():
            return False
        if self._filling is None:
            self._fill(self._size_for_table())
        try:
            keys = self._table.keys(self._after, _STEP_KEYS, _STEP_BYTES)
        except StorageError:
            self._is_given_up = True  # what cannot be read may be of any topic
            self._filling = None
            return False
        self._take(keys)
        return self._filling is not None

    def renew(self) -> bool:
        """Read all topics again, step by step, so that those that are gone are forgotten; False if it is too large."""
        if self._opened != self._table.opened:
            self._begin_anew()
        self._is_given_up = self._table.size_bytes > _TABLE_BYTES_MAX
        if self._is_given_up:
            return False
        self._fill(self._size_for_table())
        return True

    def state(self) -> str:
        """Whether it is known which topics there are, and if not, whether it will be."""
        if self._filling is not None:
            return INDEX_BUILDING
        if self._known is None:
            return INDEX_OFF if self._is_given_up else INDEX_BUILDING
        return INDEX_READY

    def _begin_anew(self) -> None:
        """The table was opened: what it has is what its disk has."""
        self._opened = self._table.opened
        self._known = self._filling = None
        self._is_given_up = self._table.size_bytes > _TABLE_BYTES_MAX

    def _is_needed(self) -> bool:
        known = self._known
        if known is None or self._filling is not None:
            return self._opened > 0
        return known.is_fuller(_FULL_LOG2) and known.bits_log2 < _BITS_LOG2_MAX

    def _fill(self, bits_log2: int) -> None:
        filling = TopicBeginnings(min(bits_log2, _BITS_LOG2_MAX))
        for topic in self._table.pending_topics():  # which may reach the disk behind where it is read
            filling.add(topic)
        self._filling = filling
        self._after = b""

    def _take(self, keys: list[tuple[bytes, str]]) -> None:
        filling = self._filling
        if filling is None:
            return
        if not keys:
            self._known, self._filling = filling, None
            return
        for key, topic in keys:
            filling.add(topic)
            self._after = key
        if filling.is_fuller(_NEW_FULL_LOG2) and filling.bits_log2 < _BITS_LOG2_MAX:
            self._fill(filling.bits_log2 + 1)

    def _size_for_table(self) -> int:
        return max((_BITS_PER_MESSAGE * len(self._table)).bit_length(), _BITS_LOG2_MIN)
