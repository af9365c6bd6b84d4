"""Routes: from a topic name to the filters that match it, remembered for as long as they are the same.

A route refers to its filters' entries, whose subscriptions are live, so a subscriber that joins or leaves a filter
which others hold costs nothing here. Only a filter that appears changes routes: an exact one its own topic's, a
wildcard one any. Those that appeared last are kept, and a route that was asked for a moment ago is held against them
instead of being resolved again: publishers stay fast while others subscribe. A filter that disappears leaves an entry
behind in the routes that know it, which delivers nothing.
"""

from typing import Final

from mypy_extensions import i64

from heliograph.broker.durable_sink import DurableSink
from heliograph.broker.filters import FilterTable
from heliograph.broker.hooks import HookPoint, MessagePublishCallback
from heliograph.broker.subscription import PARKED, UNLISTED, FilterEntry, Subscription
from heliograph.broker.trie import TrieWalk, filter_matches
from heliograph.mqtt.errors import MalformedPacketError, TopicNameError
from heliograph.mqtt.topic import is_brokers_own, topic_name_fault

_SMALL_LOG2: Final = 5  # how much smaller the cache is while memory is short
# A route costs twice its topic's length, and the cache counts routes: longer topics are resolved at each publish.
_CACHED_NAME_BYTES_MAX: Final = 1024
# One client with thousands of overlapping filters would make each route of the cache tens of kilobytes, and what finds
# them a turn of its own.
_CACHED_ENTRIES_MAX: Final = 256
_VISITED_MAX: Final = 4096
# Holding a route against so many new filters costs about what asking the trie does: 20 ns for each that begins with
# other levels, 100 ns for others.
_APPEARED_MAX: Final = 64


class Route:
    """What the broker knows about one topic name: its receivers, whether it is stored, and whether a hook wants it.

    Attributes:
        is_wide: More filters match than a route holds, or finding them takes more than a turn: receivers are
            found when it is spread (`fanout`), and `entries` is empty.
    """

    def __init__(
        self, name: bytes, topic: str, entries: list[FilterEntry], durable: bool, hooked: bool, epoch: i64
    ) -> None:
        self.name = name
        self.topic = topic
        self.entries = entries
        self.durable = durable
        self.hooked = hooked
        self.is_wide = False
        self.epoch = epoch  # the router's epoch that it holds for; -1 if it is withdrawn or was never cached
        self.is_brokers_own = is_brokers_own(topic)


class Router:
    """The routing table of one node.

    Args:
        routes_max: How many topics the route cache remembers; when full it starts again.
    """

    def __init__(self, topic_levels_max: int, routes_max: int) -> None:
        self.levels_max = topic_levels_max
        self.filters = FilterTable()
        self._routes_max = routes_max
        self._cached_max = routes_max  # fewer while memory is short
        self._cache: dict[bytes, Route] = {}
        self._appeared: list[FilterEntry] = []  # the last wildcard filters that did, one for each step of the epoch
        self._compared: i64 = 0  # filters that routes were held against
        self._prefixes: list[str] = []  # what a topic must begin with to match them
        self._sink: DurableSink | None = None
        self._publish_hook: HookPoint[MessagePublishCallback] | None = None
        self.epoch: i64 = 0
        self.subscriptions_count: i64 = 0
        self.parked_count: i64 = 0  # subscriptions that get their messages from storage at present
        self.cache_misses: i64 = 0
        self.cache_resets: i64 = 0
        self.dispatching: i64 = 0  # dispatches under way: subscriptions are being walked through

    def set_sink(self, sink: DurableSink | None) -> None:
        self._sink = sink
        self.forget_routes()

    def set_publish_hook(self, point: HookPoint[MessagePublishCallback]) -> None:
        """Set the hook point `message.publish`; routes are forgotten when its callbacks change."""
        self._publish_hook = point
        point.on_change = self.forget_routes
        self.forget_routes()

    def set_levels_max(self, topic_levels_max: int) -> None:
        """Let topic names have other levels at the most; forgets all routes, of which some may have too many."""
        self.levels_max = topic_levels_max
        self._cache.clear()
        self.forget_routes()

    def set_routes_max(self, routes_max: int) -> None:
        """Let the route cache have another size; it starts again if it is too large."""
        is_small = self._cached_max < self._routes_max
        self._routes_max = routes_max
        self._cached_max = routes_max >> _SMALL_LOG2 if is_small else routes_max
        if len(self._cache) > self._cached_max:
            self._start_again()

    @property
    def visited(self) -> i64:
        return self.filters.trie.visited + self._compared

    def route(self, name: bytes) -> Route:
        """The route of a topic name as it stood in a packet."""
        route = self._cache.get(name)
        if route is None:
            return self._resolve(name)
        if route.epoch != self.epoch:
            self._renew(route)
        return route

    def add(self, subscription: Subscription) -> None:
        entry = self.filters.obtain(subscription)
        if entry.is_empty():
            if subscription.is_wild:
                self._announce(entry)
            else:
                self._withdraw(subscription.topic_filter)
        entry.add(subscription)
        self.subscriptions_count += 1

    def remove(self, subscription: Subscription) -> None:
        """Take a subscription out that was added."""
        if subscription.slot == PARKED:
            subscription.slot = UNLISTED
            self.parked_count -= 1
            return
        entry = self.filters.find(subscription)
        if entry is None or subscription.slot < 0:
            raise KeyError(subscription.topic_filter)
        entry.remove(subscription, self.dispatching != 0)
        self.subscriptions_count -= 1
        if entry.is_empty():
            self.filters.drop(entry, subscription.is_wild)

    def park(self, subscription: Subscription) -> None:
        """Only count a subscription from now on, listed or new: its messages reach it by another way, see `unpark`."""
        if subscription.slot >= 0:
            self.remove(subscription)
        if subscription.slot != PARKED:
            subscription.slot = PARKED
            self.parked_count += 1

    def unpark(self, subscription: Subscription) -> None:
        """List a subscription again that was parked."""
        self.remove(subscription)
        self.add(subscription)

    def narrow(self, route: Route, entries: list[FilterEntry]) -> None:
        """A wide route turned out to have these filters with wildcards: it holds them if they are few again."""
        if route.is_wide and route.epoch == self.epoch and len(entries) < _CACHED_ENTRIES_MAX:
            exact = self.filters.exact(route.topic)
            self._hold(route, entries.copy() if exact is None else [*entries, exact], True)

    def statistics(self) -> dict[str, int]:
        return {
            "topics.count": len(self.filters),
            "subscriptions.count": self.subscriptions_count + self.parked_count,
            "subscriptions.parked": self.parked_count,
            "routes.cached": len(self._cache),
            "routes.cache_misses": self.cache_misses,
            "routes.cache_resets": self.cache_resets,
        }

    def _resolve(self, name: bytes) -> Route:
        self.cache_misses += 1
        try:
            topic = name.decode("utf-8")
        except UnicodeDecodeError as error:
            # [MQTT-3.3.2-1] [MQTT-1.5.4-1] 3.1.1 [MQTT-1.5.3-1] 3.1.1 [MQTT-3.3.2-1]
            raise MalformedPacketError(f"the topic name is not UTF-8: {error.reason}") from None
        if "\0" in topic:
            raise MalformedPacketError("the topic name holds U+0000")  # [MQTT-1.5.4-2] 3.1.1 [MQTT-1.5.3-2]
        fault = topic_name_fault(topic, self.levels_max)
        if fault is not None:
            raise TopicNameError(fault)
        durable, hooked = self._is_stored(topic), self._is_hooked(topic)
        if len(name) > _CACHED_NAME_BYTES_MAX:
            route = Route(name, topic, [], durable, hooked, -1)
            self._find(route)
            return route
        if len(self._cache) >= self._cached_max:
            # Starting again is cheaper than an order of use kept on every publish, and as bounded. Channels that hold
            # a route must ask again: one that is not in the cache can no longer be withdrawn.
            self._start_again()
        route = Route(name, topic, [], durable, hooked, self.epoch)
        self._find(route)
        self._cache[name] = route
        return route

    def _renew(self, route: Route) -> None:
        """Put right a route of an earlier epoch: by the filters that appeared since, if they are still known."""
        behind: i64 = self.epoch - route.epoch
        route.epoch = self.epoch
        if behind > len(self._appeared):
            self.cache_misses += 1
            route.durable, route.hooked = self._is_stored(route.topic), self._is_hooked(route.topic)
            if not route.is_wide:
                self._find(route)
        elif not route.is_wide:
            levels: list[str] = []
            entries = [entry for entry in route.entries if not entry.is_empty()]
            self._compared += behind
            for at in range(len(self._appeared) - behind, len(self._appeared)):
                if route.topic.startswith(self._prefixes[at]):
                    entry = self._appeared[at]
                    levels = levels or route.topic.split("/")
                    if filter_matches(entry.topic_filter, levels) and not entry.is_empty():
                        entries.append(entry)
            self._hold(route, entries, True)

    def _find(self, route: Route) -> None:
        walk = TrieWalk(route.topic)
        is_whole = self.filters.trie.advance(walk, _VISITED_MAX)
        exact = self.filters.exact(route.topic)
        if exact is not None:
            walk.found.append(exact)
        self._hold(route, walk.found, is_whole)

    def _hold(self, route: Route, entries: list[FilterEntry], is_whole: bool) -> None:
        """Let a route have these filters, unless they are too many or not all."""
        route.is_wide = not is_whole or len(entries) > _CACHED_ENTRIES_MAX
        route.entries = [] if route.is_wide else entries  # a new list: a dispatch may be on its way through the old one

    def _is_stored(self, topic: str) -> bool:
        return self._sink is not None and self._sink.wants(topic)

    def _is_hooked(self, topic: str) -> bool:
        return self._publish_hook is not None and self._publish_hook.is_wanted(topic)

    def _announce(self, entry: FilterEntry) -> None:
        """A wildcard filter appeared: every route must ask whether it matches."""
        self._appeared.append(entry)
        self._prefixes.append(literal_prefix(entry.topic_filter))
        if len(self._appeared) > _APPEARED_MAX:
            self._appeared = self._appeared[_APPEARED_MAX // 2 :]
            self._prefixes = self._prefixes[_APPEARED_MAX // 2 :]
        self.epoch += 1

    def keep_small(self, is_small: bool) -> None:
        """Let the cache be small from now on, or as large as it may be: memory is short, or no longer."""
        if is_small and len(self._cache) > self._routes_max >> _SMALL_LOG2:
            self._start_again()
        self._cached_max = self._routes_max >> _SMALL_LOG2 if is_small else self._routes_max

    def _start_again(self) -> None:
        self._cache.clear()
        self.cache_resets += 1
        self.forget_routes()

    def forget_routes(self) -> None:
        """Let every route be resolved again; channels that hold one ask for it again."""
        self._appeared = []
        self._prefixes = []
        self.epoch += 1

    def _withdraw(self, topic: str) -> None:
        route = self._cache.pop(topic.encode("utf-8"), None)
        if route is not None:
            route.epoch = -1


def literal_prefix(topic_filter: str) -> str:
    """What every topic begins with that a wildcard filter matches."""
    plus: i64 = topic_filter.find("+")
    if plus >= 0:
        return topic_filter[:plus]
    return topic_filter[: max(0, len(topic_filter) - 2)]  # `a/#` matches `a` too
