"""What happened in a simulation, as its clients know it, and whether it may have happened.

The order of events is told by a count, not by the time. A message is known by its **marker**, which is in its payload.
A subscription of a client is a `Line` from its first SUBSCRIBE to its UNSUBACK or the end of its session; resubscribing
with other options makes another `Version` of it, told apart by subscription identifiers.
"""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from heliograph.mqtt.topic import topic_matches

# Of which messages the retained state is checked.
RETAINED_QOS: Final = (1, 2)


class Violation(AssertionError):  # noqa: N818 - it is what the simulation is for, not an error of it
    """The broker broke a promise."""


@dataclass(slots=True)
class Sent:
    """A message that a client published.

    Attributes:
        sent_at: When its publisher sent it first;
        acked_at: had its acknowledgement (PUBREC at QoS 2).
        sent_us: The same on the clock.
        is_given_up: The publisher does not repeat it: it was refused, or its session is gone.
        is_doubtful: It may be stored twice.
        is_repeated: Its publisher has sent it again.
        is_dropped: Its generation was dropped.
        delay_s: How long it is held before it is published; such a message may come twice.
    """

    marker: bytes
    topic: str
    payload: bytes
    qos: int
    retain: bool
    publisher: str
    sent_at: int
    sent_us: int
    acked_at: int | None = None
    is_given_up: bool = False
    is_doubtful: bool = False
    is_repeated: bool = False
    is_dropped: bool = False
    delay_s: int | None = None

    @property
    def is_owed_retained(self) -> bool:
        """Whether the broker has answered for what it retains."""
        return self.acked_at is not None and self.qos > 0 and not self.is_given_up

    @property
    def is_owed(self) -> bool:
        """Whether the broker has answered for it."""
        return self.is_owed_retained and not self.is_dropped


@dataclass(slots=True)
class Version:
    """One set of options of a subscription."""

    number: int  # its subscription identifier
    qos: int
    sent_at: int
    confirmed_at: int | None = None


@dataclass(slots=True)
class Line:
    """One subscription of a client, with all options that it had."""

    topic_filter: str
    versions: list[Version] = field(default_factory=list)
    ending_at: int | None = None
    ended_at: int | None = None
    is_lossy: bool = False  # what its client is too slow for is dropped

    def since(self, at: int) -> list[Version]:
        """The versions that a message sent at a time can have been delivered by."""
        later = [one for one in self.versions if one.confirmed_at is None or one.confirmed_at > at]
        before = [one for one in self.versions if one not in later]
        return before[-1:] + later


@dataclass(slots=True)
class Delivery:
    """A PUBLISH that a client took."""

    at: int
    marker: bytes
    qos: int
    numbers: list[int]


class Record:
    """What one subscriber asked for and got."""

    def __init__(self, clientid: str) -> None:
        self.clientid = clientid
        self.lines: list[Line] = []
        self.deliveries: list[Delivery] = []

    def line_of(self, number: int) -> Line | None:
        """The line of a subscription identifier."""
        for line in self.lines:
            if any(version.number == number for version in line.versions):
                return line
        return None


class History:
    """Everything that was published, and the rules.

    Args:
        clock_jumps: Somebody sets the wall clock; then messages at QoS 0 may come twice.
        keeps_retained: Retained messages outlive the process.
    """

    def __init__(self, clock_jumps: bool = False, keeps_retained: bool = False) -> None:
        self.at = 0
        self._keeps_retained = keeps_retained
        self._clock_jumps = clock_jumps
        self.sent: dict[bytes, Sent] = {}
        self.retained: defaultdict[str, list[Sent]] = defaultdict(list)
        self.records: list[Record] = []

    def tick(self) -> int:
        """Another event."""
        self.at += 1
        return self.at

    # --- as it happens

    def check_publish(
        self, record: Record, topic: str, payload: bytes, marker: bytes, qos: int, numbers: list[int]
    ) -> None:
        """A PUBLISH comes to a subscriber: it must have been published, and be subscribed to."""
        who = record.clientid
        sent = self.sent.get(marker)
        if sent is None or sent.payload != payload or sent.topic != topic:
            raise Violation(f"{who} gets {payload[:40]!r} on {topic!r}, which nobody published")
        if not numbers:
            raise Violation(f"{who} gets {marker!r} without a subscription identifier")
        for number in numbers:
            line = record.line_of(number)
            if line is None:
                raise Violation(f"{who} gets {marker!r} by subscription {number}, which it never made")
            if not topic_matches(topic, line.topic_filter):
                raise Violation(f"{who} gets {marker!r} on {topic!r} by its subscription to {line.topic_filter!r}")
            if line.ended_at is not None and sent.sent_at > line.ended_at:
                raise Violation(f"{who} gets {marker!r}, published after its subscription {number} had ended")
            is_before = sent.acked_at is not None and sent.acked_at < line.versions[0].sent_at
            if is_before and sent.delay_s is None:
                raise Violation(f"{who} gets {marker!r}, published before its subscription {number} was made")
            if qos not in {min(sent.qos, version.qos) for version in line.versions}:
                raise Violation(f"{who} gets {marker!r} at QoS {qos} by its subscription {number}")

    def check_retained(self, record: Record, topic: str, payload: bytes, numbers: list[int]) -> None:
        """A retained message comes: it must not be older than what was acknowledged before the subscription."""
        who = f"{record.clientid} gets {payload[:40]!r} as retained on {topic!r}"
        versions = [version for line in record.lines for version in line.versions if version.number in numbers]
        if not versions:
            raise Violation(f"{who} by subscriptions {numbers}, which it never made")
        since = min(version.sent_at for version in versions)
        possible = [one for one in self.retained[topic] if one.payload == payload]
        if not possible:
            raise Violation(f"{who}, which nobody published")
        for one in self.retained[topic] if self._keeps_retained else ():
            is_newer = one.sent_at > possible[-1].sent_at and one.is_owed_retained and not one.is_doubtful
            if is_newer and one.qos in RETAINED_QOS and (one.acked_at or 0) < since:
                raise Violation(f"{who}, though {one.payload[:40]!r} had taken its place")

    # --- at the end

    def check_observed(self, observed: dict[str, bytes], is_whole: bool) -> None:
        """What somebody got as retained is what was retained last.

        Args:
            observed: Payloads by topic.
            is_whole: Whether everything retained must be there, or a restart may have lost it.
        """
        for topic, retained in self.retained.items():
            if any(one.is_doubtful or one.qos not in RETAINED_QOS for one in retained):
                continue
            settled = [place for place, one in enumerate(retained) if one.is_owed_retained]
            possible = retained[settled[-1] if settled else 0 :]
            payloads = {one.payload for one in possible}
            if not settled or not is_whole:
                payloads.add(b"")
            if observed.get(topic, b"") not in payloads:
                told = b", ".join(sorted(payloads))
                raise Violation(
                    f"{observed.get(topic, b'')[:40]!r} is retained on {topic!r}, not one of {told[:200]!r}"
                )

    def check(self) -> None:
        """Everything owed has come, nothing too often, in order."""
        for record in self.records:
            got = _by_marker(record.deliveries)
            for sent in self.sent.values():
                lines = [line for line in record.lines if topic_matches(sent.topic, line.topic_filter)]
                if lines:
                    self._check_count(record.clientid, lines, sent, got[sent.marker])
            for line in record.lines:
                self._check_order(record, line)

    def owed(self) -> Iterator[Sent]:
        """What the broker has answered for."""
        return (sent for sent in self.sent.values() if sent.is_owed)

    def _check_count(self, clientid: str, lines: list[Line], sent: Sent, deliveries: list[Delivery]) -> None:
        if sent.is_owed and not deliveries and any(_is_entitled(line, sent) for line in lines):
            raise Violation(f"{clientid} never got {sent.marker!r}")
        if len(deliveries) < 2 or sent.is_doubtful:
            return
        for line in lines:
            count = sum(any(one.number in delivery.numbers for one in line.versions) for delivery in deliveries)
            is_once = all(version.qos == 2 for version in line.since(sent.sent_at)) if sent.qos == 2 else sent.qos == 0
            if count > 1 and is_once and not (sent.qos == 0 and self._clock_jumps):
                raise Violation(f"{clientid} got {sent.marker!r} {count} times by {line.topic_filter!r}")

    def _check_order(self, record: Record, line: Line) -> None:
        if line.is_lossy:
            return
        numbers = {version.number for version in line.versions}
        since = line.versions[0].confirmed_at or self.at  # of what was sent before, a repetition may come
        got = _by_marker([delivery for delivery in record.deliveries if numbers & set(delivery.numbers)])
        last: dict[tuple[str, str, int, int], tuple[int, Sent]] = {}
        for sent in self.sent.values():
            deliveries = got.get(sent.marker)
            if not deliveries or sent.is_given_up or sent.is_doubtful or sent.sent_at < since:
                continue
            if deliveries[0].qos == 0 and sent.is_repeated:  # the first may have been lost with a connection
                continue
            place = (sent.publisher, sent.topic, sent.qos, deliveries[0].qos)  # MQTT orders each QoS by itself
            before = last.get(place)
            if before is not None and deliveries[0].at < before[0]:
                raise Violation(
                    f"{record.clientid} got {sent.marker!r} before {before[1].marker!r} by {line.topic_filter!r}"
                )
            last[place] = deliveries[0].at, sent


def _is_entitled(line: Line, sent: Sent) -> bool:
    """Whether a subscription stood before a message was published, and stands to the end."""
    confirmed = line.versions[0].confirmed_at
    if line.is_lossy or line.ending_at is not None or confirmed is None or sent.sent_at <= confirmed:
        return False
    return all(version.qos > 0 for version in line.since(sent.sent_at))


def _by_marker(deliveries: list[Delivery]) -> defaultdict[bytes, list[Delivery]]:
    found: defaultdict[bytes, list[Delivery]] = defaultdict(list)
    for delivery in deliveries:
        found[delivery.marker].append(delivery)
    return found
