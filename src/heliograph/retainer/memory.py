"""Retained messages in memory: gone when the broker stops, found in a fraction of a millisecond.

Messages lie as records by topic: one bytes object each, a few times smaller than the objects that a message is made
of. `index` knows which topics a filter matches, `ExpirySlots` when to look for what may be forgotten. `retainer`
decides what is kept.
"""

import struct
from array import array
from typing import Final

from pyroaring import BitMap

from heliograph.broker.message import Message, make_message
from heliograph.broker.pubsub import Broker
from heliograph.broker.retained import RetainedMatches
from heliograph.mqtt.topic import has_wildcard, topic_matches
from heliograph.retainer.index import SHARDS, RetainedTopicIndex, is_deep
from heliograph.retainer.options import RetainerOptions
from heliograph.retainer.retainer import READ_WORK, US, Retainer

# Work in deliveries (`Broker.work`).
_FIND_WORK: Final = 256
_FIND_SLOTS_PER_WORK_LOG2: Final = 8  # a look into the index goes through bitmaps of all slots
_LOOKED_MAX: Final = 64  # matches that are gone, passed over at once
_EVER: Final = 1 << 62
_WINDOW: Final = 4096  # matches found at once, if the operator says nothing


# Slot, sequence, when it expires and is due, both halves of the message id, its expiry interval; flags; lengths of
# what follows.
_HEADER: Final = struct.Struct("<IQQQQQqBHHI")
_LOOK: Final = struct.Struct("<IQQQ")  # its beginning
_SLOT_BYTES: Final = 4
_QOS: Final = 0x03
_HAS_USERNAME: Final = 0x04


class MemoryRetainer(Retainer):
    """Owned by the node, and gone with it."""

    def __init__(self, broker: Broker, options: RetainerOptions) -> None:
        super().__init__(broker, options)
        self.window = options.batch_read_number or _WINDOW
        self._records: list[dict[bytes, bytes]] = [{} for _ in range(SHARDS)]
        self._topics: list[bytes | None] = []  # by slot
        self._free = BitMap()
        self._index = RetainedTopicIndex()
        self._expiry = ExpirySlots()
        self._sequence = 0  # of the last message that was kept
        self._count = 0
        self._bytes = 0

    def __len__(self) -> int:
        return self._count

    def __repr__(self) -> str:
        return f"MemoryRetainer({self._count} messages, {self._bytes} bytes)"

    def use(self, options: RetainerOptions) -> None:
        super().use(options)
        self.window = options.batch_read_number or _WINDOW

    def retain(self, message: Message) -> bool:
        pressure = self.broker.pressure
        if not pressure.is_on:
            return super().retain(message)
        size_bytes = self._bytes
        goes_on = super().retain(message)
        pressure.note(message.clientid, self._bytes - size_bytes)
        return goes_on

    def match(self, topic_filter: str) -> "MemoryMatches":
        return MemoryMatches(self, topic_filter, self._sequence)

    def listing(self, topic_filter: str) -> "MemoryMatches":
        """The same, also those that are retained while they are read.

        A topic that is forgotten and retained again meanwhile may be found twice.
        """
        return MemoryMatches(self, topic_filter, _EVER)

    def remove(self, topic: str) -> bool:
        count = self._count
        self._forget_topic(topic.encode("utf-8"))
        return self._count < count

    def sweep(self, count_max: int = 2000) -> int:
        now_s = self.broker.now_us // US
        slots = self._expiry.take_due(now_s, count_max)
        count_before = self._count
        for slot in slots:
            topic = self._topics[slot]
            assert topic is not None
            self._forget_topic(topic)
        self._expired += count_before - self._count
        self.broker.work += READ_WORK * len(slots)
        return count_before - self._count

    # --- for matches

    def slots(self, topic_filter: str, first: int) -> "array[int]":
        """The next slots, from `first` on, whose topics a filter may match; none after the last."""
        name = topic_filter.encode("utf-8")
        if not has_wildcard(topic_filter):
            self.broker.work += READ_WORK
            record = self._records[hash(name) % SHARDS].get(name)
            slot = -1 if record is None else slot_of(record)
            return array("I", (slot,) if slot >= first else ())
        self.broker.work += _FIND_WORK + (self._count >> _FIND_SLOTS_PER_WORK_LOG2)
        found = self._index.find(name)
        passed = found.rank(first - 1) if first > 0 else 0
        return found[passed : passed + self.window].to_array()

    def read(self, slot: int, sequence: int) -> Message | None:
        self.broker.work += READ_WORK
        topic = self._topics[slot]
        if topic is None:
            return None
        record = self._records[hash(topic) % SHARDS][topic]
        head = RecordHead(record)
        if head.sequence > sequence:
            return None
        if head.expires_us != 0 and head.expires_us <= self.broker.now_us:
            self._forget_topic(topic)
            self._expired += 1
            return None
        self.read_expires_us = head.expires_us
        return unpack(topic, record)

    # --- inside

    def _keep(self, message: Message, expires_us: int) -> bool:
        topic = message.publish.topic
        records = self._records[hash(topic) % SHARDS]
        known = records.get(topic)
        if known is not None:
            slot = self._release(known)
        elif self._has_room():
            slot = self._add(topic)
        else:
            return False
        self._sequence += 1
        due_s = 0
        if expires_us != 0:
            due_s = self._expiry.add(slot, -(-expires_us // US), self.broker.now_us // US)
        record = pack(slot, self._sequence, message, expires_us, due_s)
        self._bytes += len(record)
        records[topic] = record  # [MQTT-3.3.1-5] 3.1.1 [MQTT-3.3.1-5] [MQTT-3.3.1-7]
        return True

    def _forget(self, message: Message) -> None:
        self._forget_topic(message.publish.topic)

    def _size_bytes(self) -> int:
        return self._bytes

    def _may_grow(self, message: Message) -> bool:
        if len(message.publish.data) <= self._known_bytes(message):
            return True
        return self.broker.pressure.may_grow(message.clientid)

    def _known_bytes(self, message: Message) -> int:
        topic = message.publish.topic
        record = self._records[hash(topic) % SHARDS].get(topic)
        return 0 if record is None else len(topic) + len(record)

    def _add(self, topic: bytes) -> int:
        if self._free:
            slot = self._free.min()
            self._free.discard(slot)
            self._topics[slot] = topic
        else:
            slot = len(self._topics)
            self._topics.append(topic)
        self._index.add(slot, topic)
        self._bytes += len(topic)
        self._count += 1
        return slot

    def _release(self, record: bytes) -> int:
        """Let go of a record that is replaced or forgotten; its slot."""
        head = RecordHead(record)
        self._bytes -= len(record)
        if head.due_s != 0:
            self._expiry.discard(head.slot, head.due_s)
        return head.slot

    def _forget_topic(self, topic: bytes) -> None:
        record = self._records[hash(topic) % SHARDS].pop(topic, None)
        if record is None:
            return
        slot = self._release(record)
        self._index.discard(slot, topic)
        self._topics[slot] = None
        self._free.add(slot)
        self._bytes -= len(topic)
        self._count -= 1


class MemoryMatches(RetainedMatches):
    """What one filter matches in a store, of what it had at `sequence`; a view that holds some slots and no message."""

    def __init__(self, store: MemoryRetainer, topic_filter: str, sequence: int) -> None:
        super().__init__()
        self._store = store
        self._filter = topic_filter
        self._compares = has_wildcard(topic_filter) and is_deep(topic_filter.encode("utf-8"))
        self._sequence = sequence
        self._slots = array("I")
        self._next = 0
        self._done = False
        self._first = 0  # the slot to look from

    def is_done(self) -> bool:
        return self._done

    def next(self) -> Message | None:
        for _ in range(_LOOKED_MAX):
            slot = self._next_slot()
            if slot < 0:
                break
            message = self._store.read(slot, self._sequence)
            if message is not None and not (self._compares and self._differs(message)):
                return message
        return None

    def _next_slot(self) -> int:
        if self._next == len(self._slots):
            if 0 < self._next < self._store.window:  # the last look found fewer than it could have
                self._done = True
            else:
                self._slots = self._store.slots(self._filter, self._first)
                self._next = 0
                self._done = not self._slots
            if self._done:
                return -1
        slot = self._slots[self._next]
        self._next += 1
        self._first = slot + 1
        return slot

    def _differs(self, message: Message) -> bool:
        self._store.broker.work += len(message.topic)
        return not topic_matches(message.topic, self._filter)


class ExpirySlots:
    """Slots by when they are due; owned by the store. Times are seconds on the wall clock."""

    def __init__(self) -> None:
        self._due: dict[int, BitMap] = {}

    def __len__(self) -> int:
        return len(self._due)

    def add(self, slot: int, expires_s: int, now_s: int) -> int:
        """List a slot: the second that it is listed under."""
        left_s = max(1, expires_s - now_s)
        step = 1 << max(0, left_s.bit_length() - 4)
        due_s = -(-expires_s // step) * step
        slots = self._due.get(due_s)
        if slots is None:
            slots = self._due[due_s] = BitMap()
        slots.add(slot)
        return due_s

    def discard(self, slot: int, due_s: int) -> None:
        slots = self._due.get(due_s)
        if slots is not None:
            slots.discard(slot)
            if not slots:
                del self._due[due_s]

    def take_due(self, now_s: int, count_max: int) -> list[int]:
        taken: list[int] = []
        while self._due and len(taken) < count_max:
            due_s = min(self._due)
            if due_s > now_s:
                break
            slots = self._due[due_s]
            some = slots[: count_max - len(taken)]
            taken.extend(some)
            slots -= some
            if not slots:
                del self._due[due_s]
        return taken


class RecordHead:
    """What is known of a retained message without its texts.

    Attributes:
        sequence: How many messages the store had taken when it took this one.
        expires_us: When it expires, in microseconds since the epoch; 0 for never.
        due_s: The entry of the expiry table that it is listed under, 0 for none.
    """

    def __init__(self, record: bytes) -> None:
        fields = _LOOK.unpack_from(record)
        self.slot: int = fields[0]
        self.sequence: int = fields[1]
        self.expires_us: int = fields[2]
        self.due_s: int = fields[3]


def pack(slot: int, sequence: int, message: Message, expires_us: int, due_s: int) -> bytes:
    publish = message.publish
    clientid = message.clientid.encode("utf-8")
    flags: int = message.qos
    username = b""
    if message.username is not None:
        username = message.username.encode("utf-8")
        flags |= _HAS_USERNAME
    content = publish.data[publish.properties_at :]
    property_bytes = publish.payload_at - publish.properties_at
    header = _HEADER.pack(
        slot,
        sequence,
        expires_us,
        due_s,
        message.id_high,
        message.id_low,
        message.expiry_s,
        flags,
        len(clientid),
        len(username),
        property_bytes,
    )
    return b"".join((header, clientid, username, content))


def slot_of(record: bytes) -> int:
    return int.from_bytes(record[:_SLOT_BYTES], "little")


def unpack(topic: bytes, record: bytes) -> Message:
    """The message that a record was made of, with the retain flag set."""
    _, _, _, _, id_high, id_low, expiry_s, flags, clientid_bytes, username_bytes, property_bytes = _HEADER.unpack_from(
        record
    )
    username_at = _HEADER.size + clientid_bytes
    properties_at = username_at + username_bytes
    payload_at = properties_at + property_bytes
    message = make_message(
        id_high,
        id_low,
        topic.decode("utf-8"),
        record[payload_at:],
        flags & _QOS,
        True,
        record[properties_at:payload_at],
        record[_HEADER.size : username_at].decode("utf-8"),
        record[username_at:properties_at].decode("utf-8") if flags & _HAS_USERNAME else None,
    )
    message.expiry_s = expiry_s  # it may have one that its packet does not say
    return message
