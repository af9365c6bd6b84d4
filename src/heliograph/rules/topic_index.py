"""Finds what a topic matches among many topic filters: once per topic, then from a cache."""

from collections.abc import Iterable
from typing import Final, Generic, TypeVar

from heliograph.broker.trie import TopicTrie
from heliograph.mqtt.topic import has_wildcard

# Topics are up to 64 KiB; those that are longer than this are looked up at each publish.
_REMEMBERED_LENGTH_MAX: Final = 1024

EntryT = TypeVar("EntryT")


class TopicIndex(Generic[EntryT]):
    """Entries (rules, validations, transformations) by their topic filters, in an order; a bounded cache by topic."""

    def __init__(self, topics_max: int = 10_000) -> None:
        self.remembered: dict[str, tuple[EntryT, ...]] = {}
        self._topics_max = topics_max
        self._by_filter: dict[str, list[tuple[int, EntryT]]] = {}
        self._trie = TopicTrie()  # the filters with wildcards

    def add(self, entry: EntryT, topic_filters: Iterable[str], order: int) -> None:
        """Add an entry under its filters; `order` is its place among the entries of a topic."""
        for topic_filter in topic_filters:
            entries = self._by_filter.setdefault(topic_filter, [])
            if not entries and has_wildcard(topic_filter):
                self._trie.obtain(topic_filter)
            entries.append((order, entry))
        self.remembered.clear()

    def remove(self, entry: EntryT, topic_filters: Iterable[str]) -> None:
        for topic_filter in topic_filters:
            entries = self._by_filter.get(topic_filter, [])
            entries[:] = [one for one in entries if one[1] is not entry]
            if not entries and self._by_filter.pop(topic_filter, None) is not None and has_wildcard(topic_filter):
                self._trie.remove(topic_filter)
        self.remembered.clear()

    def find(self, topic: str) -> tuple[EntryT, ...]:
        entries = self.remembered.get(topic)
        if entries is None:
            entries = self._look_up(topic)
            if len(topic) <= _REMEMBERED_LENGTH_MAX:
                if len(self.remembered) >= self._topics_max:
                    self.remembered.clear()
                self.remembered[topic] = entries
        return entries

    def _look_up(self, topic: str) -> tuple[EntryT, ...]:
        found = dict(self._by_filter.get(topic, ()))
        for entry in self._trie.match(topic):
            found.update(self._by_filter[entry.topic_filter])
        return tuple(entry for _, entry in sorted(found.items(), key=lambda item: item[0]))

    def __len__(self) -> int:
        return len(self._by_filter)
