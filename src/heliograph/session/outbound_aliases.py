"""Topic aliases towards a client: short numbers in place of the topics that it gets most often.

Counting decides: a topic that comes a second time gets an alias while one is free; when all are taken, a topic that
came more often than the least used alias takes it over. Counts are halved now and then, so that what was busy long ago
does not hold its alias for ever.
"""

from typing import Final

from mypy_extensions import i64

# Longer topics are worth an alias too, but what one client can make us remember must stay small.
_TOPIC_BYTES_MAX: Final = 1024
_ALIASES_MAX: Final = 256
_HALVING_PERIOD: Final = 8192


class OutboundAliases:
    """The aliases of one connection; gone with it, as the client's memory of them is [MQTT-3.3.2-7]."""

    def __init__(self, alias_max: i64) -> None:
        self._alias_max: i64 = min(alias_max, _ALIASES_MAX)
        self._aliases: dict[bytes, int] = {}
        self._counts: dict[bytes, int] = {}
        self._until_halving: i64 = _HALVING_PERIOD
        self._least_count: i64 = 0  # no topic with an alias came less often; looked for only if that could help

    def find(self, topic: bytes) -> int:
        """The alias that the client knows for a topic, or 0; counts that the topic came."""
        if len(topic) <= _TOPIC_BYTES_MAX:
            self._counts[topic] = self._counts.get(topic, 0) + 1
            self._until_halving -= 1
            if self._until_halving <= 0 or len(self._counts) > 8 * _ALIASES_MAX:
                self._halve()
        return self._aliases.get(topic, 0)

    def assign(self, topic: bytes) -> int:
        """A number for a topic without an alias, or 0 if it is not worth one; `keep` it once the packet is sent."""
        count = self._counts.get(topic, 0)
        if count < 2:
            return 0
        if len(self._aliases) < self._alias_max:
            return len(self._aliases) + 1
        if count <= 2 * self._least_count:
            return 0
        least = min(self._aliases, key=self._count)
        self._least_count = self._count(least)
        return self._aliases[least] if count > 2 * self._least_count else 0

    def keep(self, topic: bytes, alias: int) -> None:
        for other, number in self._aliases.items():
            if number == alias:
                del self._aliases[other]
                break
        self._aliases[topic] = alias

    def _count(self, topic: bytes) -> int:
        return self._counts.get(topic, 0)

    def _halve(self) -> None:
        self._until_halving = _HALVING_PERIOD
        self._least_count = 0
        self._counts = {topic: count // 2 for topic, count in self._counts.items() if count > 1}
