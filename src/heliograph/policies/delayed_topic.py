"""Topics of delayed messages: `$delayed/<seconds>/<topic>`."""

from typing import Final

from heliograph.mqtt.topic import DELAYED_PREFIX, topic_name_fault

DELAY_MAX_S: Final = 42_949_670
# A number that is smaller, and larger than the longest delay, was meant as a delay; the time of it is long past.
_FIRST_TIME_S: Final = 1_000_000_000


class DelayedTopicError(ValueError):
    """A topic names no time or no topic; the text says why."""


def parsed(name: str, levels_max: int, now_us: int) -> tuple[int, str]:
    """The delay of a message in microseconds, and the topic to which it is published then.

    Args:
        name: Its topic, which begins with `$delayed/`.
        levels_max: Levels of the longest topic.
        now_us: The time, in microseconds since the epoch.

    Raises:
        DelayedTopicError: It is not valid.
    """
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
