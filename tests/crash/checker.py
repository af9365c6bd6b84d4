"""Judges a history: which promises of the broker it breaks.

What is owed to a subscriber: every acknowledged message that was first sent after the SUBACK of a subscription that
still stands. What may come besides: messages that were never acknowledged, and messages of a subscription that ended
while they were on their way. What may not come: anything else.
"""

from collections.abc import Iterator
from typing import Final

from crash.history import RETAINED, Delivery, History, Published, RetainedView, Span

_SHOWN_MAX: Final = 20
GROUP: Final = "$share/"


class Violation:
    """One broken promise, with what the client saw around it."""

    __slots__ = ("details", "text")

    def __init__(self, text: str, details: list[str]) -> None:
        self.text = text
        self.details = details

    def __str__(self) -> str:
        return "\n    ".join([self.text, *self.details])


def check(history: History, *, retained: bool = True) -> list[Violation]:
    """Every broken promise of a run that came to rest.

    Args:
        history: The run.
        retained: Whether retained messages outlive the broker.
    """
    violations = [Violation(fault, []) for fault in history.faults]
    for reader, spans in history.subscriptions.items():
        for topic, messages in history.published.items():
            matching = [span for span in spans if matches(span.topic_filter, topic)]
            got = history.deliveries.get((reader, topic), [])
            if matching:
                violations += _missing(reader, topic, matching, messages, got)
                violations += _surplus(reader, topic, matching, messages, got)
                violations += [] if reader.startswith(GROUP) else _disordered(reader, topic, matching, messages, got)
    violations += _phantoms(history)
    if retained:
        for view in history.retained_views:
            violations += retained_faults(history, view)
    return violations


def is_complete(history: History) -> bool:
    """Whether everybody has what is owed to him; nothing else is looked at."""
    return not any(
        _owed(matching, messages, history.deliveries.get((reader, topic), []))
        for reader, spans in history.subscriptions.items()
        for topic, messages in history.published.items()
        if (matching := [span for span in spans if matches(span.topic_filter, topic)])
    )


def repeated_at_qos1(history: History) -> int:
    """How many deliveries at QoS 1 were of a message that the same reader had got before."""
    return sum(
        len(got) - len({delivery.number for delivery in got})
        for got in ([one for one in deliveries if one.qos == 1] for deliveries in history.deliveries.values())
    )


def matches(topic_filter: str, topic: str) -> bool:
    """Whether a topic matches a filter, told a second time so that a fault of the broker's own is seen."""
    wanted, given = topic_filter.split("/"), topic.split("/")
    for at, level in enumerate(wanted):
        if level == "#":
            return True
        if at >= len(given) or level not in ("+", given[at]):
            return False
    return len(wanted) == len(given)


def _owed(spans: list[Span], messages: list[Published], got: list[Delivery]) -> list[Published]:
    """Acknowledged messages that should have come and did not."""
    since = min(
        (span.acknowledged_at for span in spans if span.acknowledged_at >= 0 and span.end_asked_at < 0), default=-1
    )
    if since < 0:
        return []
    seen = {delivery.number for delivery in got}
    return [
        message
        for message in messages
        if message.acknowledged_at >= 0 and message.qos > 0 and message.sent_at > since and message.number not in seen
    ]


def _missing(
    reader: str, topic: str, spans: list[Span], messages: list[Published], got: list[Delivery]
) -> Iterator[Violation]:
    lost = _owed(spans, messages, got)
    if lost:
        numbers = _some([message.number for message in lost])
        yield Violation(
            f"lost: {reader} never got {len(lost)} acknowledged messages of {topic}: {numbers}",
            _around(messages, got, lost[0].number),
        )


def _surplus(
    reader: str, topic: str, spans: list[Span], messages: list[Published], got: list[Delivery]
) -> Iterator[Violation]:
    seen: set[int] = set()
    for delivery in got:
        if delivery.number >= len(messages):
            yield Violation(f"phantom: {reader} got {topic} {delivery.number}, which nobody published", [])
            continue
        message = messages[delivery.number]
        allowed = [span for span in spans if _may_come(span, message, delivery)]
        around = _around(messages, got, delivery.number)
        if not allowed:
            yield Violation(f"phantom: {reader} got {topic} {delivery.number} without a subscription for it", around)
        elif all(delivery.qos != min(message.qos, span.qos) for span in allowed):
            yield Violation(f"quality: {reader} got {topic} {delivery.number} at QoS {delivery.qos}", around)
        # A late message may have been taken twice: see `Published.is_late`.
        if delivery.qos != 1 and delivery.number in seen and not message.is_late:
            yield Violation(f"repeated: {reader} got {topic} {delivery.number} twice at QoS {delivery.qos}", around)
        seen.add(delivery.number)


def _may_come(span: Span, message: Published, delivery: Delivery) -> bool:
    if span.asked_at > delivery.at or 0 <= message.acknowledged_at < span.asked_at:
        return False
    return span.end_acknowledged_at < 0 or message.sent_at < span.end_acknowledged_at


def _disordered(
    reader: str, topic: str, spans: list[Span], messages: list[Published], got: list[Delivery]
) -> Iterator[Violation]:
    seen: set[int] = set()
    newest = -1
    for delivery in got:
        if delivery.number in seen or delivery.number >= len(messages):
            continue
        seen.add(delivery.number)
        message = messages[delivery.number]
        if delivery.number < newest and not message.is_late and not _is_repeated_for(spans, message, delivery):
            yield Violation(
                f"order: {reader} got {topic} {delivery.number} for the first time after {newest}",
                _around(messages, got, delivery.number),
            )
        newest = max(newest, delivery.number)


def _is_repeated_for(spans: list[Span], message: Published, delivery: Delivery) -> bool:
    """Whether the subscription may have begun behind a message, and before its publisher sent it again.

    Then newer messages may have come by it, and what comes behind them is the repetition.
    """
    asked = [span for span in spans if span.asked_at < delivery.at]
    if not asked:
        return False
    span = asked[-1]
    may_be_younger = span.acknowledged_at < 0 or message.sent_at < span.acknowledged_at
    return may_be_younger and span.asked_at < message.resent_at < delivery.at


def _phantoms(history: History) -> Iterator[Violation]:
    """Topics that were delivered to somebody who never subscribed to them, or that nobody published to."""
    for (reader, topic), got in history.deliveries.items():
        spans = history.subscriptions.get(reader, [])
        if topic not in history.published:
            yield Violation(f"phantom: {reader} got {len(got)} messages of {topic}, where nobody published", [])
        elif not any(matches(span.topic_filter, topic) for span in spans):
            yield Violation(f"phantom: {reader} got {len(got)} messages of {topic} and never subscribed to it", [])


def retained_faults(history: History, view: RetainedView) -> Iterator[Violation]:
    """Topics whose retained message is not what was acknowledged last, nor one sent since."""
    for topic in history.published.keys() | view.found.keys():
        if not topic.startswith(RETAINED):
            continue
        messages = history.published.get(topic, [])
        at, found = view.found.get(topic, (view.ended_at if view.ended_at >= 0 else history.now, -1))
        # From the last acknowledged message on, any that was sent meanwhile may be the topic's.
        least = max((m.number for m in messages if 0 <= m.acknowledged_at < view.asked_at), default=-1)
        possible = [m for m in messages if m.number >= least and m.sent_at < at]
        if found >= 0:
            right = any(m.number == found and not m.is_clear for m in possible)
        else:
            right = least < 0 or any(m.is_clear for m in possible)
        if not right:
            what = f"{found}" if found >= 0 else "none"
            yield Violation(
                f"retained: {topic} had {what} at {view.asked_at}, though {least} was acknowledged",
                [
                    f"{m.number}{' (clear)' if m.is_clear else ''} sent {m.sent_at}, acknowledged {m.acknowledged_at}"
                    for m in possible[:_SHOWN_MAX]
                ],
            )


def _around(messages: list[Published], got: list[Delivery], number: int) -> list[str]:
    near = range(number - 2, number + 3)
    events = [
        (message.sent_at, f"{message.number} sent at QoS {message.qos}")
        for message in messages
        if message.number in near
    ]
    events += [
        (message.acknowledged_at, f"{message.number} acknowledged")
        for message in messages
        if message.number in near and message.acknowledged_at >= 0
    ]
    events += [
        (one.at, f"{one.number} delivered at QoS {one.qos} to {one.by}{' DUP' if one.repeated else ''}")
        for one in got
        if one.number in near
    ]
    return [f"{at}: {text}" for at, text in sorted(events)[:_SHOWN_MAX]]


def _some(numbers: list[int]) -> str:
    shown = ", ".join(map(str, numbers[:_SHOWN_MAX]))
    return shown + (", ..." if len(numbers) > _SHOWN_MAX else "")
