"""Routes: from a topic name to the filters that match it, remembered for as long as they are the same.

A route refers to its filters' live subscription lists, so a subscriber that joins or leaves a filter which others
hold costs nothing here. Only a filter that appears changes routes: an exact one its own topic's, a wildcard one any. A
filter that disappears leaves an empty list behind in the routes that know it, which delivers to nobody.
"""

from typing import Final

from mypy_extensions import i64

from heliograph.broker.durable import DurableSink
from heliograph.broker.subscription import Subscription
from heliograph.broker.trie import FilterEntry, TopicTrie
from heliograph.mqtt.errors import MalformedPacketError, TopicNameError
from heliograph.mqtt.topic import has_wildcard, topic_name_fault

# A route costs twice its topic's length, and the cache counts routes: longer topics are resolved at each publish.
_CACHED_NAME_BYTES_MAX: Final = 1024


class Route:
    """What the broker knows about one topic name: who gets it and whether it is stored."""

    def __init__(self, name: bytes, topic: str, entries: list[FilterEntry], durable: bool, epoch: i64) -> None:
        self.name = name
        self.topic = topic
        self.entries = entries
        self.durable = durable
        self.epoch = epoch  # the router's epoch that it holds for; -1 if it is withdrawn or was never cached


class Router:
    """The routing table of one node.

    Args:
        topic_levels_max: The most levels a topic name may have.
        routes_max: How many topics the route cache remembers; when full it starts anew.
    """

    def __init__(self, topic_levels_max: int, routes_max: int) -> None:
        self._levels_max = topic_levels_max
        self._routes_max = routes_max
        self._filters: dict[str, FilterEntry] = {}
        self._trie = TopicTrie()
        self._cache: dict[bytes, Route] = {}
        self._sink: DurableSink | None = None
        self.epoch: i64 = 0
        self.subscriptions_count: i64 = 0
        self.cache_misses: i64 = 0
        self.cache_resets: i64 = 0

    def set_sink(self, sink: DurableSink | None) -> None:
        """Say who stores messages; routes made before are forgotten."""
        self._sink = sink
        self.epoch += 1

    @property
    def visited(self) -> i64:
        """How many nodes of the trie the routes resolved so far have cost."""
        return self._trie.visited

    def route(self, name: bytes) -> Route:
        """The route of a topic name as it stood in a packet.

        Raises:
            ProtocolError: It is no valid topic name.
        """
        route = self._cache.get(name)
        if route is not None and route.epoch == self.epoch:
            return route
        return self._resolve(name)

    def add(self, subscription: Subscription) -> None:
        """List a subscription under its filter."""
        topic_filter = subscription.topic_filter
        entry = self._filters.get(topic_filter)
        if entry is None:
            entry = FilterEntry(topic_filter)
            self._filters[topic_filter] = entry
            if has_wildcard(topic_filter):
                self._trie.insert(entry)
                self.epoch += 1
            else:
                self._withdraw(topic_filter)
        entry.add(subscription)
        self.subscriptions_count += 1

    def remove(self, subscription: Subscription) -> None:
        """Take a subscription out that was added."""
        topic_filter = subscription.topic_filter
        entry = self._filters[topic_filter]
        entry.remove(subscription)
        self.subscriptions_count -= 1
        if not entry.subscriptions:
            del self._filters[topic_filter]
            if has_wildcard(topic_filter):
                self._trie.remove(topic_filter)

    def match(self, topic: str) -> list[FilterEntry]:
        """The entries of every filter that matches a valid topic name."""
        entries = self._trie.match(topic)
        exact = self._filters.get(topic)
        if exact is not None:
            entries.append(exact)
        return entries

    def statistics(self) -> dict[str, int]:
        """Counts of filters, subscriptions and of what the route cache does."""
        return {
            "topics.count": len(self._filters),
            "subscriptions.count": self.subscriptions_count,
            "routes.cached": len(self._cache),
            "routes.cache_misses": self.cache_misses,
            "routes.cache_resets": self.cache_resets,
        }

    def _resolve(self, name: bytes) -> Route:
        self.cache_misses += 1
        try:
            topic = name.decode("utf-8")
        except UnicodeDecodeError as error:
            raise MalformedPacketError(f"the topic name is not UTF-8: {error.reason}") from None  # [MQTT-3.3.2-1]
        if "\0" in topic:
            raise MalformedPacketError("the topic name holds U+0000")  # [MQTT-1.5.4-2]
        fault = topic_name_fault(topic, self._levels_max)
        if fault is not None:
            raise TopicNameError(fault)
        durable = self._sink is not None and self._sink.wants(topic)
        if len(name) > _CACHED_NAME_BYTES_MAX:
            return Route(name, topic, self.match(topic), durable, -1)
        if len(self._cache) >= self._routes_max and name not in self._cache:
            # Starting anew is cheaper than an order of use kept on every publish, and as bounded. Channels that hold
            # a route must ask again: one that is not in the cache can no longer be withdrawn.
            self._cache.clear()
            self.cache_resets += 1
            self.epoch += 1
        route = Route(name, topic, self.match(topic), durable, self.epoch)
        self._cache[name] = route
        return route

    def _withdraw(self, topic: str) -> None:
        route = self._cache.pop(topic.encode("utf-8"), None)
        if route is not None:
            route.epoch = -1
