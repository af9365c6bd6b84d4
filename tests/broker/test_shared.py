"""Shared groups: every message goes to exactly one member that can take it, chosen as the strategy says."""

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from heliograph.broker.faults import Faults
from heliograph.broker.hooks import Hooks
from heliograph.broker.message import Message, make_message
from heliograph.broker.pubsub import Broker
from heliograph.broker.router import Router
from heliograph.broker.shared import SharedGroups
from heliograph.broker.shared_options import INITIAL_STICKY_PICKS, STRATEGIES, SharedOptions
from heliograph.broker.subscription import Subscriber, Subscription
from support.cases import cases
from support.forms import examples

READY, AWAY, FULL = "ready", "away", "full"


class Member(Subscriber):
    """A session as far as a group knows it: connected, away with a queue, or away with a full one."""

    def __init__(self, clientid: str) -> None:
        super().__init__(clientid)
        self.state = READY
        self.took: list[tuple[Message, Subscription]] = []

    def offer(self, message: Message, subscription: Subscription, last: bool) -> bool:
        takes = self.state == READY or (self.state == AWAY and last)
        if takes:
            self.took.append((message, subscription))
        return takes

    def deliver(self, message: Message, subscription: Subscription) -> None:
        self.took.append((message, subscription))

    @property
    def payloads(self) -> list[bytes]:
        return [message.payload for message, _ in self.took]


class World:
    """A broker with one group, `g` at `t/+`."""

    def __init__(self, options: SharedOptions | None = None, members_count: int = 0, seed: int = 1) -> None:
        self.broker = Broker(Router(128, 1000), Hooks(), options, seed)
        self.members = [Member(f"m{number}") for number in range(members_count)]
        self.subscriptions = [self.join(member) for member in self.members]
        self._sent = 0

    def join(self, member: Member, group: str = "g", topic_filter: str = "t/+", qos: int = 2) -> Subscription:
        subscription = Subscription(member, topic_filter, qos, False, False, 0, 0, group)
        self.broker.subscribe(subscription)
        return subscription

    def publish(self, publisher: str = "p", topic: str = "t/x") -> bytes:
        """Publish a message with a payload that no other has, and give the payload."""
        self._sent += 1
        payload = b"%d" % self._sent
        message = make_message(self._sent, self._sent, topic, payload, 1, False, b"", publisher, None)
        self.broker.dispatch(self.broker.route(topic.encode()), message)
        return payload

    def takers(self, count: int, publisher: str = "p", topic: str = "t/x") -> list[str]:
        """Publish some messages: who took each."""
        return [self.taker_of(self.publish(publisher, topic)) for _ in range(count)]

    def taker_of(self, payload: bytes) -> str:
        (taker,) = [member.clientid for member in self.members if payload in member.payloads]
        return taker


def each(world: World, count: int, publisher: str = "p") -> Counter[str]:
    return Counter(world.takers(count, publisher))


# --- exactly one, whatever happens

steps = st.lists(
    st.tuples(
        st.sampled_from(["join", "leave", "publish", "publish", "publish", "turn", "redispatch"]),
        st.integers(0, 4),
        st.sampled_from([READY, AWAY, FULL]),
        st.sampled_from(["p", "q", "r"]),
    ),
    max_size=60,
)


@cases("strategy", STRATEGIES)
@settings(max_examples=examples(40))
@given(steps=steps, seed=st.integers(0, 2**40), initial=st.sampled_from(INITIAL_STICKY_PICKS))
def test_every_message_goes_to_exactly_one_member_that_can_take_it(
    strategy: str, steps: list[tuple[str, int, str, str]], seed: int, initial: str
) -> None:
    world = World(SharedOptions(strategy, initial), seed=seed)
    groups = world.broker.shared
    everybody = [Member(f"m{number}") for number in range(5)]
    world.members = everybody
    inside: dict[int, Subscription] = {}
    lost = 0
    for what, number, state, publisher in steps:
        member = everybody[number]
        if what == "join" and number not in inside:
            inside[number] = world.join(member)
        elif what == "leave" and number in inside:
            world.broker.unsubscribe(inside.pop(number))
        elif what == "turn":
            member.state = state
        elif what == "publish":
            able = able_of(everybody, inside)
            payload = world.publish(publisher)
            takers = [one for one in everybody if payload in one.payloads]
            assert len(takers) == min(1, len(able))
            assert set(takers) <= set(able)
            lost += bool(inside) and not able
        elif what == "redispatch" and member.took:
            message, subscription = member.took.pop()
            able = [one for one in able_of(everybody, inside, but=number) if one is not member]
            assert groups.redispatch(message, subscription) == bool(able)
            takers = [one for one in everybody if message.payload in one.payloads]
            assert len(takers) == min(1, len(able))
            assert set(takers) <= set(able)
            lost += not able
        assert groups.statistics()["subscriptions.shared.count"] == len(inside)
        assert groups.statistics()["shared_groups.dropped"] == lost
        assert len(groups) == world.broker.router.statistics()["subscriptions.count"] == min(1, len(inside))
    for member in everybody:
        for publisher in ("p", "q", "r"):
            ids = [message.id_low for message, _ in member.took if message.clientid == publisher]
            if not any(what == "redispatch" for what, *_ in steps):
                assert ids == sorted(ids)


def able_of(everybody: list[Member], inside: dict[int, Subscription], but: int = -1) -> list[Member]:
    """The members that may get the next message: those that are ready, or those that are away if none is."""
    for state in (READY, AWAY):
        able = [
            one for number, one in enumerate(everybody) if number in inside and number != but and one.state == state
        ]
        if able:
            return able
    return []


# --- strategies


def test_round_robin_gives_each_member_the_same_from_each_publisher() -> None:
    world = World(SharedOptions("round_robin"), 3)
    for publisher in ("p", "q"):
        takers = world.takers(9, publisher)
        assert set(Counter(takers).values()) == {3}
        assert takers[:3] == takers[3:6] == takers[6:]


def test_round_robin_goes_on_for_each_publisher_where_it_was() -> None:
    world = World(SharedOptions("round_robin"), 3)
    mixed = [world.takers(1, publisher)[0] for publisher in "pq" * 6]
    assert set(Counter(mixed[::2]).values()) == set(Counter(mixed[1::2]).values()) == {2}


def test_round_robin_per_group_counts_all_publishers_together() -> None:
    world = World(SharedOptions("round_robin_per_group"), 3)
    assert [world.takers(1, f"p{number}")[0] for number in range(6)] == ["m0", "m1", "m2"] * 2


def test_round_robin_passes_over_a_member_that_is_away() -> None:
    world = World(SharedOptions("round_robin"), 3)
    world.members[1].state = AWAY
    assert each(world, 10) == {"m0": 5, "m2": 5}


@cases("strategy", ["random", "local"])
def test_chance_is_fair_and_the_same_for_the_same_seed(strategy: str) -> None:
    shares = each(World(SharedOptions(strategy), 4), 1000)
    assert all(200 < shares[f"m{number}"] < 300 for number in range(4))
    assert World(SharedOptions(strategy), 4).takers(50) == World(SharedOptions(strategy), 4).takers(50)
    assert World(SharedOptions(strategy), 4, seed=2).takers(50) != World(SharedOptions(strategy), 4).takers(50)


def test_sticky_stays_with_a_member_until_that_leaves() -> None:
    world = World(SharedOptions("sticky"), 4)
    (first,) = set(world.takers(20))
    world.broker.unsubscribe(world.subscriptions[int(first[1:])])
    (second,) = set(world.takers(20))
    assert second != first
    world.join(world.members[int(first[1:])])
    assert set(world.takers(20)) == {second}


def test_sticky_stays_with_the_member_that_took_over_when_the_first_was_away() -> None:
    world = World(SharedOptions("sticky"), 4)
    (first,) = set(world.takers(5))
    member = world.members[int(first[1:])]
    member.state = AWAY
    (second,) = set(world.takers(5))
    member.state = READY
    assert set(world.takers(5)) == {second} != {first}


def test_sticky_spreads_publishers() -> None:
    world = World(SharedOptions("sticky"), 4)
    firsts = [world.takers(1, f"p{number}")[0] for number in range(100)]
    assert firsts == [world.takers(1, f"p{number}")[0] for number in range(100)]
    assert set(firsts) == {"m0", "m1", "m2", "m3"}


def test_sticky_chooses_first_by_the_configured_pick() -> None:
    by_hash = World(SharedOptions("hash_clientid"), 4)
    sticky = World(SharedOptions("sticky", "hash_clientid"), 4)
    for number in range(50):
        assert sticky.takers(2, f"p{number}") == by_hash.takers(2, f"p{number}")


@cases("strategy", ["hash_clientid", "hash_topic"])
def test_hashes_spread_names_and_keep_each_at_its_member(strategy: str) -> None:
    world = World(SharedOptions(strategy), 4)
    shares: Counter[str] = Counter()
    for number in range(1000):
        names = (f"p{number}", "t/x") if strategy == "hash_clientid" else ("p", f"t/{number}")
        first, second = world.takers(2, *names)
        assert first == second
        shares[first] += 1
    assert all(200 < shares[f"m{number}"] < 300 for number in range(4))


def test_hashes_are_the_same_in_every_run() -> None:
    by_clientid = World(SharedOptions("hash_clientid"), 10)
    found = [by_clientid.takers(1, name)[0] for name in ("", "a", "sensor-1", "sensor-2", "größe")]
    assert found == ["m0", "m5", "m2", "m8", "m9"]
    by_topic = World(SharedOptions("hash_topic"), 10)
    found = [by_topic.takers(1, "p", name)[0] for name in ("t/", "t/a", "t/sensor-1", "t/ü")]
    assert found == ["m5", "m3", "m1", "m1"]


def test_a_group_may_have_a_strategy_of_its_own() -> None:
    options = SharedOptions("sticky", "random", {"other": "round_robin_per_group"}, {"third": "hash_clientid"})
    world = World(options, 2)
    others = [Member("o0"), Member("o1")]
    for member in others:
        world.join(member, "other")
    assert len(set(world.takers(10))) == 1
    assert [len(member.took) for member in others] == [5, 5]


# --- groups and what stands around them


def test_each_group_gets_each_message_and_so_do_plain_subscribers() -> None:
    world = World(None, 2)
    other, plain = Member("other"), Member("plain")
    world.join(other, "h", "t/#")
    world.join(plain, "", "t/+")
    payloads = [world.publish() for _ in range(4)]
    assert other.payloads == plain.payloads == payloads
    assert sorted(world.members[0].payloads + world.members[1].payloads) == payloads


def test_one_name_at_two_filters_is_two_groups() -> None:
    world = World(None, 1)
    world.join(world.members[0], "g", "t/#")
    payload = world.publish()
    assert world.members[0].payloads == [payload, payload]
    assert len(world.broker.shared) == 2


def test_options_hold_for_each_member() -> None:
    world = World(SharedOptions("round_robin_per_group"))
    members = [Member("zero"), Member("one")]
    subscriptions = [world.join(member, qos=number) for number, member in enumerate(members)]
    for _ in range(2):
        world.publish()
    assert [member.took[0][1] for member in members] == subscriptions


def test_statistics_count_members_as_subscriptions() -> None:
    world = World(None, 3)
    world.join(Member("plain"), "", "t/+")
    statistics = world.broker.statistics()
    assert statistics["subscriptions.count"] == 4
    assert statistics["subscriptions.shared.count"] == 3
    assert statistics["shared_groups.count"] == 1
    assert statistics["topics.count"] == 1


def test_leaving_twice_is_refused() -> None:
    world = World(None, 2)
    world.broker.unsubscribe(world.subscriptions[0])
    with pytest.raises(KeyError):
        world.broker.unsubscribe(world.subscriptions[0])
    assert world.broker.shared.members_count == 1


def test_a_message_left_behind_never_comes_back_to_who_left_it() -> None:
    world = World(None, 2)
    groups = world.broker.shared
    taker = world.members[int(world.taker_of(world.publish())[1:])]
    message, subscription = taker.took.pop()
    other = next(member for member in world.members if member is not taker)
    assert groups.redispatch(message, subscription)
    assert other.payloads == [message.payload]
    other.took.clear()
    other.state = FULL
    assert not groups.redispatch(message, subscription)
    assert not taker.took
    assert not other.took
    assert groups.statistics()["shared_groups.dropped"] == 1


def test_what_the_last_member_leaves_behind_is_dropped_and_counted() -> None:
    world = World(None, 1)
    world.publish()
    message, subscription = world.members[0].took.pop()
    world.broker.unsubscribe(subscription)
    assert not world.broker.shared.redispatch(message, subscription)
    assert world.broker.shared.statistics()["shared_groups.dropped"] == 1


def test_what_a_member_leaves_behind_finds_the_group_that_came_after_its_own() -> None:
    world = World(None, 1)
    world.publish()
    message, subscription = world.members[0].took.pop()
    world.broker.unsubscribe(subscription)
    late = Member("late")
    world.join(late)
    assert world.broker.shared.redispatch(message, subscription)
    assert late.payloads == [message.payload]


def test_offers_that_nobody_takes_count_as_work() -> None:
    world = World(None, 100)
    for member in world.members:
        member.state = FULL
    before = world.broker.work
    world.publish()
    assert world.broker.work - before >= 200


@cases("strategy", ["sticky", "round_robin", "hash_clientid"])
def test_what_groups_remember_of_publishers_is_bounded_and_counted(strategy: str) -> None:
    router = Router(128, 1000)
    groups = SharedGroups(router, SharedOptions(strategy), Faults(), 1, 10)
    members = [Member("a"), Member("b")]
    for member in members:
        groups.join(Subscription(member, "t", 0, False, False, 0, 0, "g"))
    (entry,) = router.filters.match("t")
    (group,) = [found.subscriber for found in entry.subscriptions]
    for number in range(100):
        for publisher in (f"p{number}", "faithful"):
            group.deliver(make_message(1, 1, "t", b"", 0, False, b"", publisher, None), entry.subscriptions[0])
    assert 80 <= groups.statistics()["shared_groups.publishers_forgotten"] <= 100
    takers = {member.clientid for member in members for message, _ in member.took if message.clientid == "faithful"}
    assert len(takers) == (2 if strategy == "round_robin" else 1)  # whoever goes on publishing is not forgotten


class Quitter(Member):
    """Leaves the group, and takes another member along, when it is asked."""

    def __init__(self, world: World) -> None:
        super().__init__("quitter")
        self.state = FULL
        self._world = world
        self.leaving: list[Subscription] = []

    def offer(self, message: Message, subscription: Subscription, last: bool) -> bool:
        while self.leaving:
            self._world.broker.unsubscribe(self.leaving.pop())
        return super().offer(message, subscription, last)


@cases("gone", range(5))
@cases("seed", range(1, 6))
def test_members_that_leave_while_others_are_asked_do_no_harm(gone: int, seed: int) -> None:
    world = World(SharedOptions("random"), 2, seed)
    quitter = Quitter(world)
    world.members.append(quitter)
    quitter.leaving = [world.join(quitter), *world.subscriptions]
    late = Member("late")
    world.members.append(late)
    quitter.leaving.append(world.join(late))
    del quitter.leaving[gone : gone + 1]  # this one stays, or nobody does
    able = [member for member in world.members if member is not quitter]
    payload = world.publish()
    takers = [member for member in able if payload in member.payloads]
    assert len(takers) == 1 or (not takers and gone in (0, 4))
    assert world.broker.shared.members_count == world.broker.statistics()["subscriptions.shared.count"]
