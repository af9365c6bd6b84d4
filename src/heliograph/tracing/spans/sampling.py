"""Which connections, subscriptions and messages are traced."""

from collections.abc import Iterable
from math import log1p
from random import random
from typing import Final

from heliograph.broker.tracer import NO_COUNTDOWN
from heliograph.mqtt.topic import topic_matches
from heliograph.settings.units import Rate

_SKIPPED_MAX: Final = 1 << 40


class FollowLimit:
    """So many in so long: a bucket that fills with time, on the monotonic clock."""

    def __init__(self, rate: Rate, now_us: int) -> None:
        self._rate = rate
        self._left = float(rate.amount)
        self._at_us = now_us

    def take(self, now_us: int) -> bool:
        filled = (now_us - self._at_us) / 1e6 * self._rate.per_second
        self._left, self._at_us = min(float(self._rate.amount), self._left + filled), now_us
        if self._left < 1:
            return False
        self._left -= 1
        return True


class Sampler:
    """Decides by ratio and lists; owned by the node's spans.

    Messages are counted down to the next one that the ratio picks, so that those in between cost nothing more. How many
    that are is drawn by chance: each message is picked with the same probability, whatever the ones before it.

    Attributes:
        ratio: From 0 to 1.
    """

    def __init__(self, ratio: float) -> None:
        self.ratio = ratio
        self.clientids: frozenset[str] = frozenset()
        self.topic_filters: tuple[str, ...] = ()

    def use(self, clientids: Iterable[str], topic_filters: Iterable[str]) -> None:
        self.clientids = frozenset(clientids)
        self.topic_filters = tuple(topic_filters)

    def next_countdown(self) -> int:
        """How many messages pass until the next one that is picked."""
        if self.ratio <= 0:
            return NO_COUNTDOWN
        if self.ratio >= 1:
            return 0
        return int(min(float(_SKIPPED_MAX), log1p(-random()) / log1p(-self.ratio)))

    def picks(self, clientid: str) -> bool:
        return clientid in self.clientids or (self.ratio > 0 and random() < self.ratio)

    def lists(self, clientid: str, topic: str) -> bool:
        return clientid in self.clientids or self.wants_topic(topic)

    def wants_topic(self, topic: str) -> bool:
        return any(topic_matches(topic, one) for one in self.topic_filters)
