"""Delayed publishing: a message to `$delayed/<seconds>/<topic>` is published to `<topic>` so many seconds later.

A number too large for a delay is a point in time, in seconds since the epoch. What is held is in memory, and kept by a
`DelayedStore` where there is one: then a restart goes on with it. When its time comes a message goes its whole way
(hooks, retainer, storage, subscribers) as if it were published then; its expiry interval counts from there. It is
forgotten when all that became of it is durable, and published again where that was refused.
"""

import heapq
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from itertools import islice
from logging import Logger
from typing import Final, NamedTuple, Protocol

from pyroaring import BitMap64

from heliograph.broker.durable_sink import NOT_STORED
from heliograph.broker.faults import PUBLISHING
from heliograph.broker.guid import IdSource
from heliograph.broker.hooks import OK, STOP, Refusal
from heliograph.broker.message import Message
from heliograph.broker.publishing import Outcome, publish
from heliograph.broker.pubsub import Broker
from heliograph.mqtt import reason_codes as rc
from heliograph.mqtt.errors import ProtocolError
from heliograph.mqtt.topic import DELAYED_PREFIX, topic_name_fault, without_delay
from heliograph.observe.bounded_log import BoundedLog
from heliograph.policies.changed_message import with_topic

# What one turn publishes: about a millisecond.
_WORK_PER_TURN: Final = 8192
_MESSAGES_PER_TURN: Final = 32

# How long a message waits whose publication a disk refused.
_RETRY_US: Final = 5_000_000

# What holding a message costs, its record on the disk included, in deliveries.
_HOLD_WORK: Final = 512
_HOLD_BYTES_PER_WORK_LOG2: Final = 4

# What a held message costs beside its packet.
_MESSAGE_BYTES: Final = 600
_FULL: Final = Refusal("delayed_full", rc.QUOTA_EXCEEDED, False)
_NOT_STORED: Final = Refusal("delayed_not_stored", rc.QUOTA_EXCEEDED, False, may_repeat=True)
_NOT_AUTHORIZED: Final = Refusal("not_authorized", rc.NOT_AUTHORIZED, False)
_INVALID: Final = Refusal("delayed_topic_invalid", rc.TOPIC_NAME_INVALID, False)
DELAY_MAX_S: Final = 42_949_670

# A number that is smaller, and larger than the longest delay, was meant as a delay; the time of it is long past.
_FIRST_TIME_S: Final = 1_000_000_000


class HeldMessage(NamedTuple):
    """A message that is published later: at the node's time `due_at`, if its clock is not set until then."""

    number: int
    due_at: int
    message: Message


class DelayedStore(Protocol):
    """Keeps held messages on a disk, under numbers that say in which order they came."""

    def put(self, number: int, due_at: int, message: Message) -> bool:
        """Keep a message; the acknowledgement of what is handled now waits for that. False if it cannot be kept now."""

    def forget(self, number: int) -> None: ...


class DelayedMessages:
    """The messages of one node that are published later; owned by `DelayedPart`, which ticks it.

    Args:
        bytes_max: Bytes that they may have, with what each costs beside its packet; None for no limit.
        is_banned: Whether a client id is banned: what such a client left behind is not published.
    """

    def __init__(
        self,
        broker: Broker,
        messages_max: int | None,
        bytes_max: int | None,
        ids: IdSource,
        defer: Callable[[Callable[[], None]], object],
        is_banned: Callable[[str], bool],
        logger: Logger,
    ) -> None:
        self._broker = broker
        self._messages_max = messages_max
        self._bytes_max = bytes_max
        self._ids = ids
        self._defer = defer
        self._is_banned = is_banned
        self._log = BoundedLog(logger, lambda: broker.uptime_us)
        self.store: DelayedStore | None = None
        self._messages: dict[int, HeldMessage] = {}
        self._numbers = BitMap64()  # of them, in order: where a listing goes on
        self._waiting: list[tuple[int, int]] = []  # a heap of due uptimes with numbers; also of some that were removed
        self._uncommitted: deque[tuple[int, bool, int, Message]] = deque()  # published: ticket, is joined, number
        self._number = 0
        self._bytes = 0
        self._held: dict[str, int] = {}  # bytes by client
        self._arrivals = 0
        self._is_deferred = False
        self._dropped_invalid = 0
        self._dropped_full = 0
        self._dropped_banned = 0
        self._dropped_unstored = 0
        self._published = 0

    def limit(self, messages_max: int | None, bytes_max: int | None) -> None:
        """Use other limits from now on; what is held already stays."""
        self._messages_max = messages_max
        self._bytes_max = bytes_max

    def __len__(self) -> int:
        return len(self._messages)

    def wants(self, topic: str) -> bool:
        return topic.startswith(DELAYED_PREFIX)

    def on_message_publish(self, message: Message) -> object:
        """Callback of `message.publish`: hold a message that is for later; what cannot be held is refused."""
        if not message.topic.startswith(DELAYED_PREFIX):
            return OK
        return STOP, self.take(message)

    def take(self, message: Message) -> Refusal | None:
        """Hold a message whose topic begins with `$delayed/`, or drop and count it; returns the verdict."""
        self._broker.work += _HOLD_WORK + (len(message.publish.data) >> _HOLD_BYTES_PER_WORK_LOG2)
        if not self._broker.pressure.may_grow(message.clientid):
            self._dropped_full += 1
            return _FULL
        fault = self._no_room(_size_of(message))
        if fault:
            self._dropped_full += 1
            self._log.warn("%s: more are refused", fault)
            return _FULL
        try:
            delay_us, topic = parsed(message.topic, self._broker.router.levels_max, int(self._broker.now_us))
        except DelayedTopicError as error:
            self._dropped_invalid += 1
            self._log.warn("message of client %.200r to %.200r is dropped: %s", message.clientid, message.topic, error)
            return _INVALID
        if self._broker.refuses(message, without_delay(topic)):
            self._broker.counters.messages_not_authorized += 1
            return _NOT_AUTHORIZED
        number, held = self._number + 1, with_topic(message, topic)
        due_at = int(self._broker.now_us) + delay_us
        if self.store is not None and not self.store.put(number, due_at, held):
            self._dropped_unstored += 1
            return _NOT_STORED
        self._number = number
        self._arrivals += 1
        self._hold(due_at, number, held)
        if self._broker.tracer is not None:
            self._broker.tracer.on_delayed(message, due_at)
        return None

    def restore(self, number: int, due_at: int, message: Message) -> None:
        """Hold a message again that an earlier process held, until then."""
        self._number = max(self._number, number)
        self._hold(due_at, number, message)

    def refuse(self, numbers: list[int]) -> None:
        """The disk did not take some messages, and their publishers know it: they are not published."""
        for number in numbers:
            self._take_out(number)
        self._waiting = [held for held in self._waiting if held[1] in self._messages]
        heapq.heapify(self._waiting)
        self._dropped_unstored += len(numbers)

    def on_committed(self, ticket: int, is_refused: bool, is_joined_refused: bool) -> None:
        """What became of messages that were published up to a ticket is durable, or refused; joined: elsewhere too."""
        while self._uncommitted and self._uncommitted[0][0] <= ticket:
            _, is_joined, number, message = self._uncommitted.popleft()
            if is_joined_refused if is_joined else is_refused:  # queues may hold this one, under its ticket
                self._hold(int(self._broker.now_us) + _RETRY_US, number, with_topic(message, message.topic))
            else:
                self._forget(number)

    def tick(self, uptime_us: int) -> None:
        """Publish what is due, as much as one turn allows; the rest follows in the next turns."""
        if self._is_deferred:
            return
        end = self._broker.work + _WORK_PER_TURN
        count = 0
        while self._waiting and self._waiting[0][0] <= uptime_us:
            if count >= _MESSAGES_PER_TURN or self._broker.work > end or not self._broker.fanouts.has_room():
                self._is_deferred = True
                self._defer(self._go_on)
                return
            count += 1
            held = self._take_out(heapq.heappop(self._waiting)[1])
            if held is not None:
                self._publish(held.number, held.message)

    def held_after(self, number: int, count: int) -> Sequence[HeldMessage]:
        """The next messages after a number, in the order of numbers."""
        return [self._messages[one] for one in islice(self._numbers.iter_equal_or_larger(number + 1), count)]

    def find(self, number: int) -> HeldMessage | None:
        return self._messages.get(number)

    def remove(self, number: int) -> HeldMessage | None:
        """Drop a message, from the disk too; None if none has that number."""
        held = self._take_out(number)
        if held is not None:
            self._forget(number)
        return held

    def clear(self) -> int:
        """Drop all messages; returns how many."""
        count = len(self._messages) if self.store is None else 0
        self._messages.clear()
        self._numbers.clear()
        self._waiting.clear()
        self._bytes = 0
        self._held.clear()
        return count

    @property
    def held_bytes(self) -> Mapping[str, int]:
        return self._held

    def statistics(self) -> dict[str, int]:
        return {
            "delayed.count": len(self._messages),
            "delayed.bytes": self._bytes,
            "messages.delayed": self._arrivals,
            "delayed.published": self._published,
            "delayed.dropped.invalid": self._dropped_invalid,
            "delayed.dropped.full": self._dropped_full,
            "delayed.dropped.banned": self._dropped_banned,
            "delayed.dropped.not_stored": self._dropped_unstored,
        }

    def _count_bytes(self, message: Message, size: int) -> None:
        self._bytes += size
        left = self._held.pop(message.clientid, 0) + size
        if left > 0:
            self._held[message.clientid] = left

    def _no_room(self, size_bytes: int) -> str:
        """Which limit a further message would break, in words; empty for none."""
        if self._messages_max is not None and len(self._messages) >= self._messages_max:
            return f"{len(self)} delayed messages are held (delayed.max_delayed_messages)"
        if self._bytes_max is not None and self._bytes + size_bytes > self._bytes_max:
            return f"{self._bytes} bytes of delayed messages are held (delayed.max_delayed_bytes)"
        return ""

    def _go_on(self) -> None:
        self._is_deferred = False
        self.tick(self._broker.uptime_us)

    def _hold(self, due_at: int, number: int, message: Message) -> None:
        """Hold a message; what passes until it is due is counted by the uptime, which is never set."""
        due_us = int(self._broker.uptime_us) + due_at - int(self._broker.now_us)
        heapq.heappush(self._waiting, (due_us, number))
        self._messages[number] = HeldMessage(number, due_at, message)
        self._numbers.add(number)
        self._count_bytes(message, _size_of(message))

    def _take_out(self, number: int) -> HeldMessage | None:
        held = self._messages.pop(number, None)
        if held is not None:
            self._numbers.discard(number)
            self._count_bytes(held.message, -_size_of(held.message))
        return held

    def _forget(self, number: int) -> None:
        if self.store is not None:
            self.store.forget(number)

    def _publish(self, number: int, message: Message) -> None:
        tracer, high, low = self._broker.tracer, self._broker.now_us, self._ids.next_low()
        if self._is_banned(message.clientid):
            if tracer is not None:
                tracer.on_later(message, "its client is banned")
            self._dropped_banned += 1
            self._forget(number)
            return
        if tracer is not None:
            tracer.on_later(message, f"{int(high):016x}{int(low):016x}")
        message.id_high, message.id_low = high, low  # its lifetime begins now
        outcome: Outcome | None = None
        try:
            outcome = publish(self._broker, message, may_refuse=True)
        except ProtocolError as error:  # the topic was valid when it came; the operator's limits may differ now
            self._log.warn("delayed message to %.200r is dropped: %s", message.topic, error)
        except Exception as error:  # noqa: BLE001 - others are published when they are due
            self._broker.faults.contain(PUBLISHING, error)
        pending = None if outcome is None else outcome.pending
        if pending is None:
            self._settle(number, message, outcome)
        else:
            pending.then(lambda _: self._settle(number, message, pending.outcome))

    def _settle(self, number: int, message: Message, outcome: Outcome | None) -> None:
        if outcome is not None and outcome.may_repeat:  # it is to be delayed once more
            self._hold(int(self._broker.now_us) + _RETRY_US, number, message)
            return
        self._published += 1
        if outcome is None or outcome.ticket == NOT_STORED:
            self._forget(number)
        else:
            self._uncommitted.append((int(outcome.ticket), outcome.is_joined, number, message))


def _size_of(message: Message) -> int:
    return len(message.publish.data) + len(message.clientid) + _MESSAGE_BYTES


class DelayedTopicError(ValueError):
    """A topic names no time or no topic; the text says why."""


def parsed(name: str, levels_max: int, now_us: int) -> tuple[int, str]:
    """The delay of a message in microseconds, and the topic to which it is published then."""
    digits, slash, topic = name[len(DELAYED_PREFIX) :].partition("/")
    if not slash:
        raise DelayedTopicError("it names no topic: $delayed/SECONDS/TOPIC is valid")
    if not digits.isascii() or not digits.isdigit() or len(digits) > 12:
        raise DelayedTopicError(f"{digits[:20]!r} is no number of seconds from 0 to {DELAY_MAX_S}")
    fault = topic_name_fault(topic, levels_max)
    if fault is not None:
        raise DelayedTopicError(fault)
    return _delay_us(int(digits), now_us), topic


def _delay_us(number: int, now_us: int) -> int:
    if number <= DELAY_MAX_S:
        return number * 1_000_000
    delay_us = number * 1_000_000 - now_us
    if number < _FIRST_TIME_S or delay_us > DELAY_MAX_S * 1_000_000:
        raise DelayedTopicError(f"{number} is more than the longest delay, {DELAY_MAX_S} seconds")
    return max(0, delay_us)
