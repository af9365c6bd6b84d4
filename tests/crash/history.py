"""What clients did and saw in one run, in the order in which it happened here; `checker` judges it.

Messages are told apart by topic and number: every topic has one publisher, which counts from 0, and the payload says
both. All clients live in one event loop, so one counter orders everything that they send and receive.
"""

import time
from typing import Final, TextIO

RETAINED: Final = "r/"  # topics that begin so are published to with the retain flag only


class Published:
    """One message of a publisher.

    Attributes:
        sent_at: When it was first sent.
        acknowledged_at: When PUBACK or PUBREC came with a reason code below 0x80; -1 before.
        refused: Whether it came with another one: then the message may be stored or not.
        is_clear: Whether it is a retained message without a payload.
        is_late: Whether it was sent again after the disk had failed. The broker may have refused it the first time
            without its client hearing of that, so its place among the others is that of its repetition; and a refused
            commit may be on the disk all the same, so it may be there twice.
        resent_at: When it was sent again, the last time; -1 if it was not.
    """

    __slots__ = ("acknowledged_at", "is_clear", "is_late", "number", "qos", "refused", "resent_at", "sent_at")

    def __init__(self, number: int, qos: int, sent_at: int, is_clear: bool) -> None:
        self.number = number
        self.qos = qos
        self.sent_at = sent_at
        self.acknowledged_at = -1
        self.refused = False
        self.is_clear = is_clear
        self.is_late = False
        self.resent_at = -1


class Delivery:
    """One message that a subscriber got.

    Attributes:
        by: The client: for a group, the member.
        repeated: Whether DUP was set.
    """

    __slots__ = ("at", "by", "number", "qos", "repeated")

    def __init__(self, at: int, number: int, qos: int, by: str, repeated: bool) -> None:
        self.at = at
        self.number = number
        self.qos = qos
        self.by = by
        self.repeated = repeated


class Span:
    """A subscription from SUBSCRIBE to UNSUBACK; -1 for what has not happened."""

    __slots__ = ("acknowledged_at", "asked_at", "end_acknowledged_at", "end_asked_at", "qos", "topic_filter")

    def __init__(self, topic_filter: str, qos: int, asked_at: int) -> None:
        self.topic_filter = topic_filter
        self.qos = qos
        self.asked_at = asked_at
        self.acknowledged_at = -1
        self.end_asked_at = -1
        self.end_acknowledged_at = -1


class RetainedView:
    """What a client that subscribed at a time got of retained messages: topic -> (when, number)."""

    __slots__ = ("asked_at", "ended_at", "found")

    def __init__(self, asked_at: int) -> None:
        self.asked_at = asked_at
        self.ended_at = -1
        self.found: dict[str, tuple[int, int]] = {}


class History:
    """Everything that one run recorded. Owned by the run; clients write into it.

    Args:
        trace: Where every packet and every event of the broker goes as a line of text, for whoever looks for a cause.
    """

    def __init__(self, trace: TextIO | None = None) -> None:
        self._trace = trace
        self.published: dict[str, list[Published]] = {}
        self.deliveries: dict[tuple[str, str], list[Delivery]] = {}  # (reader, topic)
        self.subscriptions: dict[str, list[Span]] = {}  # reader: a client's identifier, or $share/GROUP
        self.retained_views: list[RetainedView] = []
        self.faults: list[str] = []  # what a client found wrong by itself
        self.refused_codes: set[int] = set()
        self.delivered_count = 0
        self._disk_failed_at = -1  # the last time at which a write or sync may have failed
        self._disk_fails = False
        self.counts: dict[str, int] = {
            "acknowledged": 0,
            "refused": 0,
            "not_let_in": 0,
            "connects": 0,
            "resumed_sessions": 0,
            "resent": 0,
        }
        self._now = 0

    @property
    def now(self) -> int:
        """The last point in time."""
        return self._now

    def tick(self) -> int:
        """The next point in time."""
        self._now += 1
        return self._now

    def note(self, who: str, text: str) -> None:
        """Something happened that only a person looks at."""
        if self._trace is not None:
            print(f"{self._now:>8} {time.time() % 1000:8.3f} {who:<12} {text}", file=self._trace)

    def count(self, name: str) -> None:
        """Count something for the summary."""
        self.counts[name] += 1

    def publish(self, topic: str, qos: int, *, is_clear: bool = False) -> Published:
        """A publisher is about to send its next message to a topic for the first time."""
        messages = self.published.setdefault(topic, [])
        message = Published(len(messages), qos, self.tick(), is_clear)
        messages.append(message)
        return message

    def disk_fails(self) -> None:
        """From now on writes and syncs of the broker may fail."""
        self._disk_fails = True

    def disk_works(self) -> None:
        """From now on they do not."""
        if self._disk_fails:
            self._disk_fails = False
            self._disk_failed_at = self._now

    def resend(self, message: Published) -> None:
        """A publisher is about to send a message again."""
        self.count("resent")
        message.resent_at = self.tick()
        message.is_late |= self._disk_fails or self._disk_failed_at >= message.sent_at

    def acknowledge(self, message: Published, code: int) -> None:
        """PUBACK or PUBREC came for a message."""
        if code >= 0x80:
            message.refused = True
            self.refused_codes.add(code)
            self.count("refused")
        elif message.acknowledged_at < 0:
            message.acknowledged_at = self.tick()
            self.count("acknowledged")

    def deliver(self, reader: str, topic: str, number: int, qos: int, by: str, repeated: bool) -> None:
        """A client got a message: at QoS 2 the first time under its packet identifier, else each time."""
        self.delivered_count += 1
        self.deliveries.setdefault((reader, topic), []).append(Delivery(self.tick(), number, qos, by, repeated))

    def subscribe(self, reader: str, topic_filter: str, qos: int) -> Span:
        """A client is about to subscribe."""
        span = Span(topic_filter, qos, self.tick())
        self.subscriptions.setdefault(reader, []).append(span)
        return span

    def view_retained(self) -> RetainedView:
        """A client is about to ask for retained messages; what it saw counts once it is in `retained_views`."""
        return RetainedView(self.tick())


def payload_of(topic: str, number: int, padding: int) -> bytes:
    """What a message carries: its identity, and bytes to make it larger."""
    return f"{topic} {number} ".encode() + b"." * padding


def identity_of(payload: bytes) -> tuple[str, int]:
    """The topic and number that a payload names.

    Raises:
        ValueError: It is none of ours.
    """
    topic, number, _ = payload.decode().split(" ")
    return topic, int(number)
