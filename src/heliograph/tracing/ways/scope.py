"""Which messages are recorded, and how many of them."""

from collections.abc import Sequence
from typing import Final

from mypy_extensions import i64

from heliograph.mqtt.topic import DELAYED_PREFIX, topic_matches

_TOPICS_KNOWN_MAX: Final = 8192
_KNOWN_LENGTH_MAX: Final = 512  # longer ones are not remembered: a client may send as many as it likes
_UNBOUNDED: Final = 1 << 60
_ALL: Final = "#"


def is_to(topic: str, topic_filter: str) -> bool:
    """Whether a message goes to a topic that a filter matches, at once or after a delay."""
    if topic.startswith(DELAYED_PREFIX):
        parts = topic.split("/", 2)
        return topic_matches(topic, topic_filter) or (len(parts) == 3 and topic_matches(parts[2], topic_filter))
    return topic_matches(topic, topic_filter)


class WayScope:
    """Decides by filters, clients, a rate, and the memory that is left; owned by `MessageWays`.

    Messages that go no further have a share of their own, as large: at a high rate they are not lost among the others.

    Args:
        topic_filters: Messages to topics that match one of these.
        clientids: Messages that these publish; of all clients where it is empty.
        rate: So many messages a second; 0 for no limit.
        burst: So many at once at the most.
        held_bytes_max: What those may hold in memory that are not on the disk yet.

    Attributes:
        left: How many are recorded until the next `refill`.
        missed_count: Messages that were not recorded for their rate.
        unheld_count: Those that were not recorded for want of memory.
    """

    def __init__(
        self, topic_filters: Sequence[str], clientids: Sequence[str], rate: float, burst: i64, held_bytes_max: i64
    ) -> None:
        self._topic_filters = tuple(topic_filters)
        self._clientids = frozenset(clientids)
        self._rate = rate
        self._burst: i64 = burst if rate else _UNBOUNDED
        self._held_bytes_max: i64 = held_bytes_max
        self._known: dict[str, bool] = {}
        self.takes_all = _ALL in self._topic_filters and not self._clientids
        self.left: i64 = self._burst
        self._drops_left: i64 = self._burst
        self.held_bytes: i64 = 0
        self.missed_count: i64 = 0
        self.unheld_count: i64 = 0

    def takes(self, topic: str, clientid: str) -> bool:
        """Whether a message is recorded, which is one less then."""
        if not self._is_about(topic, clientid):
            return False
        if self.left <= 0:
            self.missed_count += 1
            return False
        if self.held_bytes >= self._held_bytes_max:
            self.unheld_count += 1
            return False
        self.left -= 1
        return True

    def takes_drop(self, topic: str, clientid: str) -> bool:
        """The same of one that goes no further, and was not recorded so far."""
        if not self._is_about(topic, clientid):
            return False
        if self._drops_left <= 0 or self.held_bytes >= self._held_bytes_max:
            self.unheld_count += 1 if self._drops_left > 0 else 0
            return False
        self._drops_left -= 1
        return True

    def refill(self, passed_us: i64) -> None:
        if self._rate:
            more: i64 = i64(self._rate * float(passed_us) / 1e6)
            self.left = min(self._burst, self.left + more)
            self._drops_left = min(self._burst, self._drops_left + more)

    def _is_about(self, topic: str, clientid: str) -> bool:
        if self._clientids and clientid not in self._clientids:
            return False
        known = self._known.get(topic)
        if known is None:
            known = any(is_to(topic, one) for one in self._topic_filters)
            if len(topic) > _KNOWN_LENGTH_MAX:
                return known
            if len(self._known) >= _TOPICS_KNOWN_MAX:
                self._known = {}
            self._known[topic] = known
        return known
