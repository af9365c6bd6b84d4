"""The router against a naive matcher: whatever came and went, a topic reaches exactly the filters that match it."""

from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from heliograph.broker.durable_sink import DurableSink
from heliograph.broker.hooks import Hooks
from heliograph.broker.message import Message, make_message
from heliograph.broker.pubsub import Broker
from heliograph.broker.router import Route, Router
from heliograph.broker.subscription import Subscriber, Subscription
from heliograph.mqtt import reason_codes as rc
from heliograph.mqtt.errors import ProtocolError
from support.cases import cases
from support.forms import examples
from support.naive import matches
from support.strategies import topic_filters, topic_names


class Recorder(Subscriber):
    """A subscriber that only has a name."""

    def __init__(self, clientid: str) -> None:
        super().__init__(clientid)


class StoreEverything(DurableSink):
    """Storage as far as the router knows it."""

    def wants(self, topic: str) -> bool:
        return True


def subscription(topic_filter: str, clientid: str = "c") -> Subscription:
    return Subscription(Recorder(clientid), topic_filter, 0, False, False, 0, 0)


class Publisher:
    """Holds on to the last route, as a channel does."""

    def __init__(self, router: Router) -> None:
        self._router = router
        self._route: Route | None = None

    def reached(self, topic: str) -> list[Subscription]:
        name = topic.encode()
        route = self._route
        if route is None or route.epoch != self._router.epoch or route.name != name:
            route = self._router.route(name)
            self._route = route
        assert route.topic == topic
        return [found for entry in route.entries for found in entry.subscriptions]


# What to do, with which topic or filter, and by whom.
Operation = tuple[str, str, int]

# Few names, so that what was routed before is routed again after the table has changed.
FEW = ["a", "b", "$SYS/a"]

operations = st.lists(
    st.one_of(
        st.tuples(st.just("subscribe"), st.sampled_from(FEW), st.just(0)),
        st.tuples(st.just("subscribe"), topic_filters(), st.just(0)),
        st.tuples(st.just("unsubscribe"), st.just(""), st.integers(0, 20)),
        st.tuples(st.just("route"), st.sampled_from(FEW), st.integers(0, 2)),
        st.tuples(st.just("route"), st.sampled_from(FEW), st.integers(0, 2)),
        st.tuples(st.just("route"), topic_names(), st.integers(0, 2)),
    ),
    min_size=20,
    max_size=60,
)


@cases("routes_max", [1, 3, 1000])
@settings(max_examples=examples(60))
@given(operations=operations)
def test_routes_agree_with_the_naive_matcher(routes_max: int, operations: list[Operation]) -> None:
    router = Router(128, routes_max)
    publishers = [Publisher(router) for _ in range(3)]
    live: list[Subscription] = []
    for what, topic, number in operations:
        if what == "subscribe":
            live.append(subscription(topic))
            router.add(live[-1])
        elif what == "route":
            reached = publishers[number].reached(topic)
            expected = [found for found in live if matches(topic, found.topic_filter)]
            assert sorted(map(id, reached)) == sorted(map(id, expected))
        elif live:
            router.remove(live.pop(number % len(live)))
    statistics = router.statistics()
    assert statistics["subscriptions.count"] == len(live)
    assert statistics["topics.count"] == len({found.topic_filter for found in live})
    assert statistics["routes.cached"] <= routes_max
    for found in live:
        router.remove(found)
    for topic in ("a", "a/b", "/", "$SYS/a"):
        assert [publisher.reached(topic) for publisher in publishers] == [[], [], []]


@given(filters=st.lists(topic_filters(), unique=True, max_size=8), topic=topic_names())
def test_match_gives_every_matching_filter_once(filters: list[str], topic: str) -> None:
    router = Router(128, 10)
    for topic_filter in filters:
        router.add(subscription(topic_filter, "one"))
        router.add(subscription(topic_filter, "two"))
    found = sorted(entry.topic_filter for entry in router.filters.match(topic))
    assert found == sorted(topic_filter for topic_filter in filters if matches(topic, topic_filter))


SYSTEM = ["$SYS/#", "$SYS/a", "$SYS/+/a", "$SYS/a/b", "$share/#", "#", "a"]


@given(filters=st.lists(st.sampled_from(SYSTEM), max_size=8), kept=st.integers(0, 8), topic=st.sampled_from(FEW))
def test_a_topic_is_awaited_while_a_filter_matches_it(filters: list[str], kept: int, topic: str) -> None:
    router = Router(128, 10)
    live = [subscription(topic_filter) for topic_filter in filters]
    for found in live:
        router.add(found)
    assert router.filters.is_awaited(topic) == any(matches(topic, topic_filter) for topic_filter in filters)
    for found in live[kept:]:
        router.remove(found)
    assert router.filters.is_awaited(topic) == any(matches(topic, topic_filter) for topic_filter in filters[:kept])


def test_a_held_route_that_left_the_cache_learns_of_a_new_subscription() -> None:
    router = Router(128, 2)
    publisher = Publisher(router)
    assert publisher.reached("held") == []
    for number in range(5):  # the cache starts anew meanwhile
        router.route(b"other/%d" % number)
    late = subscription("held")
    router.add(late)
    assert publisher.reached("held") == [late]


def test_leaving_a_filter_with_many_subscriptions_keeps_the_others() -> None:
    router = Router(128, 10)
    many = [subscription("a", str(number)) for number in range(10)]
    for one in many:
        router.add(one)
    for gone in (many[0], many[9], many[4]):
        router.remove(gone)
    (entry,) = router.route(b"a").entries
    assert {found.subscriber.clientid for found in entry.subscriptions} == set("1235678")


def test_the_cache_is_bounded_and_counts_what_it_does() -> None:
    router = Router(128, 10)
    for number in range(25):
        router.route(b"%d" % number)
        router.route(b"%d" % number)
    statistics = router.statistics()
    assert statistics["routes.cached"] <= 10
    assert statistics["routes.cache_misses"] == 25
    assert statistics["routes.cache_resets"] == 2


def test_a_subscription_to_a_filter_that_others_hold_withdraws_no_route() -> None:
    router = Router(128, 10)
    router.add(subscription("a/+"))
    route = router.route(b"a/b")
    router.add(subscription("a/+"))
    assert router.route(b"a/b") is route
    assert route.epoch == router.epoch


def test_routes_know_whether_their_messages_are_stored() -> None:
    router = Router(128, 10)
    assert not router.route(b"a").durable
    router.set_sink(StoreEverything())
    assert router.route(b"a").durable
    router.set_sink(None)
    assert not router.route(b"a").durable


@cases(
    ("name", "code"),
    [
        (b"", rc.TOPIC_NAME_INVALID),
        (b"a/+", rc.TOPIC_NAME_INVALID),
        (b"#", rc.TOPIC_NAME_INVALID),
        (b"/" * 128, rc.TOPIC_NAME_INVALID),
        (b"a\0b", rc.MALFORMED_PACKET),
        (b"\xc3\x28", rc.MALFORMED_PACKET),
        (b"\xed\xa0\x80", rc.MALFORMED_PACKET),
    ],
)
def test_invalid_names_have_no_route(name: bytes, code: int) -> None:
    router = Router(128, 10)
    with pytest.raises(ProtocolError) as caught:
        router.route(name)
    assert caught.value.reason_code == code
    assert router.statistics()["routes.cached"] == 0


def test_deep_and_wide_filters() -> None:
    router = Router(128, 10)
    deep = "/".join(["a"] * 128)
    filters = [deep, "/".join(["+"] * 128), "/".join(["a"] * 127) + "/#", "#"]
    for topic_filter in filters:
        router.add(subscription(topic_filter))
    assert sorted(entry.topic_filter for entry in router.filters.match(deep)) == sorted(filters)


def test_repr_and_interface_of_a_subscriber() -> None:
    one = subscription("a/+")
    assert repr(one) == "Subscription('c' on 'a/+', qos=0)"
    deliver: Callable[[Message, Subscription], None] = one.subscriber.deliver
    assert callable(deliver)


def test_long_topics_are_not_remembered_and_still_reach_everybody() -> None:
    router = Router(128, 1000)
    publisher = Publisher(router)
    topic = "t/" + "x" * 60_000
    assert publisher.reached(topic) == []
    exact, wild = subscription(topic), subscription("t/+")
    router.add(exact)
    assert publisher.reached(topic) == [exact]
    router.add(wild)
    assert set(publisher.reached(topic)) == {exact, wild}
    router.remove(exact)
    assert publisher.reached(topic) == [wild]
    assert router.statistics()["routes.cached"] == 0


@cases("others", [0, 1, 31, 32, 33, 63, 64, 65, 66, 130, 1000])
def test_a_held_route_learns_of_filters_that_appear_among_any_number_of_others(others: int) -> None:
    router = Router(128, 10)
    publisher = Publisher(router)
    before = subscription("a/#")
    router.add(before)
    assert publisher.reached("a/b") == [before]
    first, last = subscription("a/+"), subscription("+/b")
    router.add(first)
    for number in range(others):
        router.add(subscription(f"other/{number}/+"))
    router.add(last)
    assert set(publisher.reached("a/b")) == {before, first, last}


def test_filters_that_do_not_match_leave_routes_as_they_are() -> None:
    router = Router(128, 10)
    publisher = Publisher(router)
    router.add(subscription("a/+"))
    publisher.reached("a/b")
    misses = router.statistics()["routes.cache_misses"]
    for number in range(500):
        router.add(subscription(f"a/b{number}/+"))
        publisher.reached("a/b")
    assert router.statistics()["routes.cache_misses"] == misses


def test_a_route_does_not_grow_with_filters_that_come_and_go() -> None:
    router = Router(128, 10)
    publisher = Publisher(router)
    for _ in range(300):
        guest = subscription("a/+")
        router.add(guest)
        assert publisher.reached("a/b") == [guest]
        router.remove(guest)
        assert publisher.reached("a/b") == []
    assert len(router.route(b"a/b").entries) <= 1


def test_routes_made_before_storage_are_forgotten_though_filters_appear() -> None:
    router = Router(128, 10)
    router.add(subscription("a/+"))
    assert not router.route(b"a/b").durable
    router.set_sink(StoreEverything())
    router.add(subscription("a/#"))
    route = router.route(b"a/b")
    assert route.durable
    assert len(route.entries) == 2


def test_removing_what_was_not_added_is_refused_and_changes_nothing() -> None:
    router = Router(128, 10)
    kept = {topic_filter: subscription(topic_filter) for topic_filter in ("a", "a/+", "a/+/c")}
    for one in kept.values():
        router.add(one)
    for topic_filter in (*kept, "b", "b/+", "a/b/c/+", "a/+/+", "#"):
        with pytest.raises(KeyError):
            router.remove(subscription(topic_filter))
    assert router.statistics()["subscriptions.count"] == 3
    assert Publisher(router).reached("a/b/c") == [kept["a/+/c"]]


class Leaver(Subscriber):
    """Takes others out of the routing table while it is handed a message, as a callback may."""

    def __init__(self, clientid: str, router: Router, leaving: list[Subscription], got: list[str]) -> None:
        super().__init__(clientid)
        self._router = router
        self._leaving = leaving
        self._got = got

    def deliver(self, message: Message, subscription: Subscription) -> None:
        self._got.append(self.clientid)
        while self._leaving:
            self._router.remove(self._leaving.pop())


@cases("topic_filter", ["a/b", "a/+"])
@given(leaver=st.integers(0, 5), gone=st.lists(st.integers(0, 5), unique=True))
def test_whoever_stays_gets_a_message_though_others_leave_in_its_middle(
    topic_filter: str, leaver: int, gone: list[int]
) -> None:
    router = Router(128, 10)
    broker = Broker(router, Hooks())
    leaving: list[Subscription] = []
    got: list[str] = []
    subscriptions = []
    for number in range(6):
        one = Leaver(str(number), router, leaving if number == leaver else [], got)
        subscriptions.append(Subscription(one, topic_filter, 0, False, False, 0, 0))
        broker.subscribe(subscriptions[-1])
    leaving.extend(subscriptions[number] for number in gone)
    message = make_message(1, 1, "a/b", b"", 0, False, b"", "p", None)
    broker.dispatch(broker.route(b"a/b"), message)
    assert len(got) == len(set(got))
    assert set(got) >= {str(number) for number in range(6) if number not in gone}
    got.clear()
    broker.dispatch(broker.route(b"a/b"), message)
    assert sorted(got) == sorted(str(number) for number in range(6) if number not in gone)


def test_the_filters_of_a_topic_with_very_many_are_not_held_by_its_route() -> None:
    router = Router(128, 1000)
    levels = [f"l{number}" for number in range(10)]
    filters = {"/".join("+" if bits >> at & 1 else level for at, level in enumerate(levels)) for bits in range(1, 300)}
    subscriber = Recorder("c")
    for topic_filter in sorted(filters):
        router.add(Subscription(subscriber, topic_filter, 0, False, False, 0, 0))
    name = "/".join(levels).encode()
    for _ in range(2):
        assert router.route(name).is_wide
        assert router.route(name).entries == []
    assert len(router.filters.match("/".join(levels))) == len(filters)
