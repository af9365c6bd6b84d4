"""What one client was allowed and denied, remembered for a while."""

from mypy_extensions import i64

from heliograph.broker.actions import ACTIONS_COUNT
from heliograph.channel.options import ChannelOptions
from heliograph.mqtt.topic import topic_matches


class DecisionCache:
    """Decisions by action and topic; a view of one connection, owned by its authorizer. The oldest one goes first."""

    def __init__(self, options: ChannelOptions) -> None:
        self._options = options
        # By the number of the action: until when a decision holds; a negative time is a denial's.
        self._tables: list[dict[str, int] | None] | None = None
        self._count: i64 = 0
        self._last_until_us: i64 = 0

    def until_us(self, number: i64, topic: str) -> i64:
        """Until when the client is allowed something; negative: denied; 0: not known."""
        tables = self._tables
        if tables is None:
            return 0
        table = tables[number]
        return 0 if table is None else table.get(topic, 0)

    def entries(self) -> list[tuple[int, str, int]]:
        """What is remembered: the number of the action, the topic, and what `until_us` says."""
        found: list[tuple[int, str, int]] = []
        for number, table in enumerate(self._tables or ()):
            for topic, until_us in (table or {}).items():
                found.append((number, topic, until_us))
        return found

    def keep(self, number: i64, topic: str, is_allowed: bool, uptime_us: i64) -> i64:
        """Remember a decision; until when, 0 if it is not remembered."""
        options = self._options
        if options.authz_cache_size <= 0 or options.authz_cache_ttl_us <= 0 or self._is_excluded(topic):
            return 0
        # No two end at the same time: the times tell which one is the oldest.
        until_us = max(uptime_us + options.authz_cache_ttl_us, self._last_until_us + 1)
        self._last_until_us = until_us
        table = self._table(number)
        if topic in table:
            del table[topic]  # it goes to the end
            self._count -= 1
        elif self._count >= options.authz_cache_size:
            self._drop_oldest()
        table[topic] = until_us if is_allowed else -until_us
        self._count += 1
        return until_us

    def _is_excluded(self, topic: str) -> bool:
        return any(topic_matches(topic, excluded) for excluded in self._options.authz_cache_excludes)

    def _table(self, number: i64) -> dict[str, int]:
        tables = self._tables
        if tables is None:
            tables = [None] * ACTIONS_COUNT
            self._tables = tables
        table = tables[number]
        if table is None:
            table = {}
            tables[number] = table
        return table

    def _drop_oldest(self) -> None:
        oldest: dict[str, int] | None = None
        oldest_us: i64 = 0
        for table in self._tables or ():
            if table:
                until_us: i64 = abs(next(iter(table.values())))
                if oldest is None or until_us < oldest_us:
                    oldest, oldest_us = table, until_us
        if oldest is not None:
            del oldest[next(iter(oldest))]
            self._count -= 1

    def __len__(self) -> int:
        return int(self._count)
