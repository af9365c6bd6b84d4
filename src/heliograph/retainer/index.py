"""Which topics a filter matches, by sets of numbers.

Every topic has a slot, a small number. For each word at each level there is the set of the slots of topics that have
it there, and for each number of levels the set of topics with so many. A filter's matches are the intersection of the
sets of its literal words and of its length: `+/x/#` is the set of `x` at the second level, however many topics there
are and however they differ elsewhere. Nothing has to be configured for a scheme of topics, and no filter is badly
placed in its index, as it is in a trie (which `+` makes visit every child) or in a few chosen orders of the levels.

A set is as small as its content: one slot is a plain integer, a few are packed bytes, more are a compressed bitmap
(two of half a million slots in a million intersect in about 60 µs). Levels behind the 16th are not indexed: a
topic of tens of thousands of levels must not cost an entry for each. Topics as deep as that are a set of their own,
and the caller compares them.
"""

from array import array
from typing import Final, TypeAlias

from pyroaring import BitMap

LEVELS_INDEXED: Final = 16
# Dictionaries by the hash of their keys: one with millions of entries takes tens of milliseconds to grow.
SHARDS: Final = 256
_PACKED_MAX: Final = 256  # bitmaps of few and scattered slots take up to 90 bytes for each
_SLOT_BYTES: Final = 4
_DEEP: Final = LEVELS_INDEXED + 1
_LEVEL_KEYS: Final = tuple(bytes([level]) for level in range(LEVELS_INDEXED))

# The slots of the topics with one word at one level.
_Slots: TypeAlias = int | bytes | BitMap


class RetainedTopicIndex:
    """The slots of topics and what matches them; owned by the store."""

    def __init__(self) -> None:
        self._words: list[dict[bytes, _Slots]] = [{} for _ in range(SHARDS)]
        self._with_levels = [BitMap() for _ in range(_DEEP + 1)]
        self._all = BitMap()
        self._dollar = BitMap()

    def add(self, slot: int, topic: bytes) -> None:
        self._all.add(slot)
        if topic.startswith(b"$"):
            self._dollar.add(slot)
        levels = topic.split(b"/", LEVELS_INDEXED)
        self._with_levels[len(levels)].add(slot)
        for level, word in enumerate(levels[:LEVELS_INDEXED]):
            key = _LEVEL_KEYS[level] + word
            shard = self._words[hash(key) % SHARDS]
            slots = shard.get(key)
            if slots is None:
                shard[key] = slot
            elif isinstance(slots, BitMap):
                slots.add(slot)
            else:
                shard[key] = _with_slot(slots, slot)

    def discard(self, slot: int, topic: bytes) -> None:
        self._all.discard(slot)
        self._dollar.discard(slot)
        levels = topic.split(b"/", LEVELS_INDEXED)
        self._with_levels[len(levels)].discard(slot)
        for level, word in enumerate(levels[:LEVELS_INDEXED]):
            key = _LEVEL_KEYS[level] + word
            shard = self._words[hash(key) % SHARDS]
            left = _without_slot(shard[key], slot)
            if left is None:
                del shard[key]
            else:
                shard[key] = left

    def find(self, topic_filter: bytes) -> BitMap:
        """The slots of the topics that a filter may match; exactly those, unless it is `is_deep`. Not to be changed."""
        levels = topic_filter.split(b"/")
        open_ended = levels[-1] == b"#"
        if open_ended:
            levels.pop()
        sets = self._sets(levels)
        if sets is None:
            return BitMap()
        if len(levels) > LEVELS_INDEXED:
            sets.append(self._with_levels[_DEEP])
        elif not open_ended:
            sets.append(self._with_levels[len(levels)])
        found = _intersection(sets) if sets else self._all
        if open_ended:
            for count in range(_literal_levels(levels), min(len(levels), _DEEP)):
                found = found - self._with_levels[count]
        if not levels or levels[0] == b"+":
            found = found - self._dollar  # [MQTT-4.7.2-1]
        return found

    def _sets(self, levels: list[bytes]) -> list[BitMap] | None:
        """The set of each literal word; None if a word is in no topic."""
        sets: list[BitMap] = []
        for level, word in enumerate(levels[:LEVELS_INDEXED]):
            if word != b"+":
                key = _LEVEL_KEYS[level] + word
                slots = self._words[hash(key) % SHARDS].get(key)
                if slots is None:
                    return None
                sets.append(_bitmap(slots))
        return sets


def is_deep(topic_filter: bytes) -> bool:
    """Whether a filter says more than the index knows, so that what it finds must be compared."""
    return topic_filter.count(b"/") >= LEVELS_INDEXED


def _literal_levels(levels: list[bytes]) -> int:
    """The position behind the last literal word: topics that have it there have so many levels."""
    for position in range(min(len(levels), LEVELS_INDEXED), 0, -1):
        if levels[position - 1] != b"+":
            return position
    return 0


def _intersection(sets: list[BitMap]) -> BitMap:
    sets.sort(key=len)
    found = sets[0]
    for other in sets[1:]:
        if not found:
            break
        found = found & other
    return found


def _bitmap(slots: _Slots) -> BitMap:
    if isinstance(slots, BitMap):
        return slots
    return BitMap((slots,)) if isinstance(slots, int) else BitMap(array("I", slots))


def _with_slot(slots: int | bytes, slot: int) -> _Slots:
    packed = slots if isinstance(slots, bytes) else slots.to_bytes(_SLOT_BYTES, "little")
    packed += slot.to_bytes(_SLOT_BYTES, "little")
    return packed if len(packed) <= _PACKED_MAX * _SLOT_BYTES else BitMap(array("I", packed))


def _without_slot(slots: _Slots, slot: int) -> _Slots | None:
    if isinstance(slots, BitMap):
        slots.discard(slot)
        return slots or None
    if isinstance(slots, int):
        return None
    packed = slot.to_bytes(_SLOT_BYTES, "little")
    at = slots.find(packed)
    while at % _SLOT_BYTES:
        at = slots.find(packed, at + 1)
    return slots[:at] + slots[at + _SLOT_BYTES :] or None
