"""Which rules a topic is for: found once per topic among any number of rules, then remembered."""

from collections.abc import Iterable
from typing import Final

from heliograph.broker.trie import TopicTrie
from heliograph.mqtt.topic import has_wildcard
from heliograph.rules.engine.running import RunningRule

# Topics are up to 64 KiB; those that are longer than this are looked up at each publish.
_REMEMBERED_LENGTH_MAX: Final = 1024


class RuleIndex:
    """The rules of a node by their topic filters, in the order in which they were added; owned by the engine.

    Args:
        topics_max: Topics that are remembered; when there are more, all are forgotten.
    """

    def __init__(self, topics_max: int = 10_000) -> None:
        self._topics_max = topics_max
        self._by_filter: dict[str, list[tuple[int, RunningRule]]] = {}
        self._trie = TopicTrie()  # the filters with wildcards
        self.remembered: dict[str, tuple[RunningRule, ...]] = {}

    def add(self, rule: RunningRule, topic_filters: Iterable[str], order: int) -> None:
        """Let a rule have the topics of its filters; `order` is its place among the rules of a topic."""
        for topic_filter in topic_filters:
            rules = self._by_filter.setdefault(topic_filter, [])
            if not rules and has_wildcard(topic_filter):
                self._trie.obtain(topic_filter)
            rules.append((order, rule))
        self.remembered.clear()

    def remove(self, rule: RunningRule, topic_filters: Iterable[str]) -> None:
        """Forget a rule that was added with these filters."""
        for topic_filter in topic_filters:
            rules = self._by_filter.get(topic_filter, [])
            rules[:] = [entry for entry in rules if entry[1] is not rule]
            if not rules and self._by_filter.pop(topic_filter, None) is not None and has_wildcard(topic_filter):
                self._trie.remove(topic_filter)
        self.remembered.clear()

    def find(self, topic: str) -> tuple[RunningRule, ...]:
        """The rules for a valid topic name, each once."""
        rules = self.remembered.get(topic)
        if rules is None:
            rules = self._look_up(topic)
            if len(topic) <= _REMEMBERED_LENGTH_MAX:
                if len(self.remembered) >= self._topics_max:
                    self.remembered.clear()
                self.remembered[topic] = rules
        return rules

    def _look_up(self, topic: str) -> tuple[RunningRule, ...]:
        found = dict(self._by_filter.get(topic, ()))
        for entry in self._trie.match(topic):
            found.update(self._by_filter[entry.topic_filter])
        return tuple(rule for _, rule in sorted(found.items(), key=lambda item: item[0]))

    def __len__(self) -> int:
        return len(self._by_filter)
