"""The retained messages of a node in memory: limits, expiry, and what a filter matches.

Messages lie as records (`record`) by topic; `index` knows which topics a filter matches, `expiry` when to look for
what may be forgotten. How matches reach a client is not decided here but by its channel.
"""

from array import array
from collections.abc import Iterator
from itertools import islice
from typing import Final

from pyroaring import BitMap

from heliograph.broker.allowance import Allowance
from heliograph.broker.message import NEVER, Message
from heliograph.broker.pubsub import Broker
from heliograph.broker.retained import RetainedMatches, RetainedStore
from heliograph.mqtt.topic import has_wildcard, topic_matches
from heliograph.retainer.expiry import ExpiryTable
from heliograph.retainer.index import SHARDS, TopicIndex, is_deep
from heliograph.retainer.options import NOT_SET, RetainerOptions
from heliograph.retainer.record import RecordHead, pack, slot_of, unpack

_US: Final = 1_000_000
# Work in deliveries (`Broker.work`).
_READ_WORK: Final = 64
_FIND_WORK: Final = 256
_FIND_SLOTS_PER_WORK_LOG2: Final = 8  # a look into the index goes through bitmaps of all slots
_LOOKED_MAX: Final = 64  # matches that are gone, passed over at once
_WINDOW: Final = 4096  # matches found at once, if the operator says nothing
_MADE_ROOM_MAX: Final = 64


class MemoryRetainer(RetainedStore):
    """The retained messages of one node; owned by the node, and gone with it.

    Whatever keeps a message from being retained also makes the one before it forgotten: a subscriber to come gets
    nothing rather than a state that is no longer true.
    """

    def __init__(self, broker: Broker, options: RetainerOptions | None = None) -> None:
        options = options or RetainerOptions()
        super().__init__(options.batch_deliver_number, options.delivery_rate)
        self.broker = broker
        self.window = options.batch_read_number or _WINDOW
        self._options = options
        rate = options.max_publish_rate
        self._publish_allowance = None if rate is None else Allowance(rate[0], rate[1])
        self._records: list[dict[bytes, bytes]] = [{} for _ in range(SHARDS)]
        self._topics: list[bytes | None] = []  # by slot
        self._free = BitMap()
        self._index = TopicIndex()
        self._expiry = ExpiryTable()
        self._sequence = 0  # of the last message that was kept
        self._count = 0
        self._count_max = 0
        self._bytes = 0
        self._dropped_full = 0
        self._dropped_payload_size = 0
        self._dropped_rate = 0
        self._expired = 0

    def __len__(self) -> int:
        return self._count

    def __repr__(self) -> str:
        return f"MemoryRetainer({self._count} messages, {self._bytes} bytes)"

    def retain(self, message: Message) -> bool:
        """Keep `message` for its topic, or forget the topic's message; whether it goes on to subscribers."""
        publish = message.publish
        payload_bytes = len(publish.data) - publish.payload_at
        if payload_bytes == 0:
            self._forget(publish.topic)  # [MQTT-3.3.1-6] [MQTT-3.3.1-7] 3.1.1 [MQTT-3.3.1-11] 3.1.1 [MQTT-3.3.1-10]
            return not self._options.stop_publish_clear_msg  # 3.1.1 [MQTT-3.3.1-10]
        if payload_bytes > self._options.max_payload_size:
            self._dropped_payload_size += 1
            self._forget(publish.topic)
        elif self._is_too_fast():
            self._dropped_rate += 1
            self._forget(publish.topic)
        else:
            self._keep(message)
        return True

    def match(self, topic_filter: str) -> "Matches":
        """The retained messages whose topics a filter matches."""
        return Matches(self, topic_filter)

    def sweep(self, count_max: int = 2000) -> int:
        """Forget messages that have expired, after looking at so many at the most; how many it were."""
        now_s = self.broker.now_us // _US
        slots = self._expiry.take_due(now_s, count_max)
        count_before = self._count
        for slot in slots:
            topic = self._topics[slot]
            assert topic is not None
            self._forget(topic)
        self._expired += count_before - self._count
        self.broker.work += _READ_WORK * len(slots)
        return count_before - self._count

    def page(self, topic_filter: str, limit: int, cursor: int = 0) -> tuple[list[Message], int]:
        """Some of the messages that a filter matches, for people to look at.

        Args:
            limit: How many at the most.
            cursor: 0, or what the call for the page before returned.

        Returns:
            The messages and the cursor of the next page, 0 if this is the last; there may be nothing on the next.
        """
        matches = Matches(self, topic_filter, cursor)
        messages = list(islice(matches, limit))
        return messages, 0 if matches.is_done() else matches.cursor

    def delete(self, topic_filter: str, count_max: int) -> int:
        """Forget messages that a filter matches, at most so many; how many it were."""
        messages, _ = self.page(topic_filter, count_max)
        for message in messages:
            self._forget(message.publish.topic)
        return len(messages)

    def statistics(self) -> dict[str, int]:
        """Sizes, and how many messages were not kept, or no longer, and why."""
        return {
            "retained.count": self._count,
            "retained.max": self._count_max,
            "retained.bytes": self._bytes,
            "retained.expired": self._expired,
            "retained.dropped.full": self._dropped_full,
            "retained.dropped.payload_size": self._dropped_payload_size,
            "retained.dropped.publish_rate": self._dropped_rate,
        }

    # --- for matches

    @property
    def sequence(self) -> int:
        """How many messages were kept so far."""
        return self._sequence

    def find(self, topic_filter: str, first: int) -> "array[int]":
        """The next slots, from `first` on, whose topics a filter may match; none when there are no more."""
        name = topic_filter.encode("utf-8")
        if not has_wildcard(topic_filter):
            self.broker.work += _READ_WORK
            record = self._records[hash(name) % SHARDS].get(name)
            slot = -1 if record is None else slot_of(record)
            return array("I", (slot,) if slot >= first else ())
        self.broker.work += _FIND_WORK + (self._count >> _FIND_SLOTS_PER_WORK_LOG2)
        found = self._index.find(name)
        passed = found.rank(first - 1) if first > 0 else 0
        return found[passed : passed + self.window].to_array()

    def read(self, slot: int, sequence: int) -> Message | None:
        """The message in a slot, unless it was kept after `sequence` messages were, or has expired."""
        self.broker.work += _READ_WORK
        topic = self._topics[slot]
        if topic is None:
            return None
        record = self._records[hash(topic) % SHARDS][topic]
        head = RecordHead(record)
        if head.sequence > sequence:
            return None
        if head.expires_us != 0 and head.expires_us <= self.broker.now_us:
            self._forget(topic)
            self._expired += 1
            return None
        return unpack(topic, record)

    # --- inside

    def _keep(self, message: Message) -> None:
        topic = message.publish.topic
        records = self._records[hash(topic) % SHARDS]
        known = records.get(topic)
        if known is not None:
            slot = self._release(known)
        elif self._has_room():
            slot = self._add(topic)
        else:
            self._dropped_full += 1
            return
        self._sequence += 1
        expires_us, due_s = self._expires_us(message), 0
        if expires_us != 0:
            due_s = self._expiry.add(slot, -(-expires_us // _US), self.broker.now_us // _US)
        record = pack(slot, self._sequence, message, expires_us, due_s)
        self._bytes += len(record)
        records[topic] = record  # [MQTT-3.3.1-5] 3.1.1 [MQTT-3.3.1-5] [MQTT-3.3.1-7]

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
        self._count_max = max(self._count_max, self._count)
        return slot

    def _release(self, record: bytes) -> int:
        """Let go of a record that is replaced or forgotten; its slot."""
        head = RecordHead(record)
        self._bytes -= len(record)
        if head.due_s != 0:
            self._expiry.discard(head.slot, head.due_s)
        return head.slot

    def _forget(self, topic: bytes) -> None:
        record = self._records[hash(topic) % SHARDS].pop(topic, None)
        if record is None:
            return
        slot = self._release(record)
        self._index.discard(slot, topic)
        self._topics[slot] = None
        self._free.add(slot)
        self._bytes -= len(topic)
        self._count -= 1

    def _is_too_fast(self) -> bool:
        allowance, now_us = self._publish_allowance, self.broker.uptime_us
        if allowance is None:
            return False
        if allowance.is_spent(now_us):
            return True
        allowance.take(now_us)
        return False

    def _has_room(self) -> bool:
        count_max = self._options.max_retained_messages
        return count_max == 0 or self._count < count_max or self.sweep(_MADE_ROOM_MAX) > 0

    def _expires_us(self, message: Message) -> int:
        """When a message expires, 0 for never."""
        options = self._options
        interval_us = options.msg_expiry_interval_us
        if options.msg_expiry_interval_override_us != NOT_SET:
            interval_us = options.msg_expiry_interval_override_us
        elif message.expiry_s != NEVER:
            return message.id_high + message.expiry_s * _US
        return message.id_high + interval_us if interval_us else 0


class Matches(RetainedMatches):
    """What one filter matches in a store; a view of it that holds some slots and no message.

    Args:
        cursor: The slot to begin at.
    """

    def __init__(self, store: MemoryRetainer, topic_filter: str, cursor: int = 0) -> None:
        super().__init__()
        self._store = store
        self._filter = topic_filter
        self._compares = has_wildcard(topic_filter) and is_deep(topic_filter.encode("utf-8"))
        self._sequence = store.sequence
        self._slots = array("I")
        self._next = 0
        self._done = False
        self.cursor = cursor

    def is_done(self) -> bool:
        """Whether none is left."""
        return self._done

    def next(self) -> Message | None:
        """The next message; None where there is none, or only some that are gone."""
        for _ in range(_LOOKED_MAX):
            slot = self._next_slot()
            if slot < 0:
                break
            message = self._store.read(slot, self._sequence)
            if message is not None and not (self._compares and self._differs(message)):
                return message
        return None

    def __iter__(self) -> Iterator[Message]:
        """All that is left, however long it takes."""
        while not self._done:
            message = self.next()
            if message is not None:
                yield message

    def _next_slot(self) -> int:
        if self._next == len(self._slots):
            if 0 < self._next < self._store.window:  # the last look found fewer than it could have
                self._done = True
            else:
                self._slots = self._store.find(self._filter, self.cursor)
                self._next = 0
                self._done = not self._slots
            if self._done:
                return -1
        slot = self._slots[self._next]
        self._next += 1
        self.cursor = slot + 1
        return slot

    def _differs(self, message: Message) -> bool:
        self._store.broker.work += len(message.topic)
        return not topic_matches(message.topic, self._filter)
