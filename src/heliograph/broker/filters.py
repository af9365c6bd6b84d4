"""The filters that have subscriptions, and which of them match a topic: exact ones by name, wildcards in a trie."""

from mypy_extensions import i64

from heliograph.broker.subscription import FilterEntry, Subscription
from heliograph.broker.trie import TopicTrie
from heliograph.broker.walkable import ListWalk, WalkableList
from heliograph.mqtt.topic import SYS_PREFIX


class FilterTable:
    """The filters of one node; owned by its router, which lists subscriptions in their entries."""

    def __init__(self) -> None:
        self.trie = TopicTrie()
        self._exact: dict[str, FilterEntry] = {}
        self._listed: WalkableList[FilterEntry] = WalkableList()
        self._sys_count: i64 = 0  # filters below `$SYS/`; without one $SYS messages have no subscriber

    def __len__(self) -> int:
        return len(self._exact) + self.trie.count

    def obtain(self, subscription: Subscription) -> FilterEntry:
        """The entry of a subscription's filter; a new one, which is empty, if the filter had none."""
        topic_filter = subscription.topic_filter
        if subscription.is_wild:
            entry = self.trie.obtain(topic_filter)
        else:
            known = self._exact.get(topic_filter)
            if known is None:
                known = FilterEntry(topic_filter)
                self._exact[topic_filter] = known
            entry = known
        if entry.serial == 0:
            self._listed.add(entry)
            self._sys_count += i64(topic_filter.startswith(SYS_PREFIX))
        return entry

    def find(self, subscription: Subscription) -> FilterEntry | None:
        topic_filter = subscription.topic_filter
        return self.trie.find(topic_filter) if subscription.is_wild else self._exact.get(topic_filter)

    def drop(self, entry: FilterEntry, is_wild: bool) -> None:
        topic_filter = entry.topic_filter
        self._listed.remove(entry)
        self._sys_count -= i64(topic_filter.startswith(SYS_PREFIX))
        if is_wild:
            self.trie.remove(topic_filter)
        else:
            del self._exact[topic_filter]

    def walk(self, before: i64 = 0) -> ListWalk[FilterEntry]:
        return self._listed.walk(before)

    def named(self, topic_filter: str) -> FilterEntry | None:
        found = self._exact.get(topic_filter)
        return self.trie.find(topic_filter) if found is None else found

    def exact(self, topic: str) -> FilterEntry | None:
        """The entry of the filter that is a topic itself."""
        return self._exact.get(topic)

    def match(self, topic: str) -> list[FilterEntry]:
        """The entries of every filter that matches a valid topic name."""
        entries = self.trie.match(topic)  # [MQTT-3.3.2-3] [MQTT-4.7.3-4] 3.1.1 [MQTT-3.3.2-3] 3.1.1 [MQTT-4.7.3-4]
        exact = self._exact.get(topic)
        if exact is not None:
            entries.append(exact)
        return entries

    def is_awaited(self, topic: str) -> bool:
        """Whether a filter matches a valid topic name. Below `$SYS/`, where mostly none does, the answer is quick."""
        if self._sys_count == 0 and topic.startswith(SYS_PREFIX):
            return False
        return any(not entry.is_empty() for entry in self.match(topic))
