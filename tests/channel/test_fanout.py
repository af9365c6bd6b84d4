"""Messages to more subscriptions than a turn takes: bounded work, in order, and nobody is forgotten."""

import itertools

from heliograph.broker.guid import IdSource
from heliograph.broker.internal_publish_queue import InternalPublishQueue, PublishCounters
from heliograph.broker.message import make_message
from heliograph.channel.turns import WORK_PER_TURN
from heliograph.mqtt import packets as p
from support.cases import cases
from support.kernel import Kernel, Peer
from support.packets import publish

# What one turn may do beyond its measure: one packet, and what the writes at its end make it worth.
_LARGEST_TURN = 2 * WORK_PER_TURN + 49_152


def payloads(peer: Peer) -> list[bytes]:
    return [packet.payload for packet in peer.received() if isinstance(packet, p.Publish)]


def members(kernel: Kernel, count: int, topic_filter: str = "t") -> list[Peer]:
    peers = [kernel.connect(f"member-{number}") for number in range(count)]
    for peer in peers:
        peer.subscribe(topic_filter)
    return peers


def spreading() -> Kernel:
    """A kernel that hands a message to few at once."""
    kernel = Kernel()
    kernel.broker.at_once_max = 256
    return kernel


def run_measured(kernel: Kernel) -> list[int]:
    """Run turns until nothing waits: how much work each of them was."""
    measured = []
    while kernel.has_work:
        before = kernel.broker.work
        kernel.turn()
        measured.append(kernel.broker.work - before)
    return measured


def test_a_message_to_a_thousand_goes_on_in_later_turns_and_reaches_all_in_order() -> None:
    kernel = spreading()
    peers = members(kernel, 1000)
    pub = kernel.connect("pub")
    pub.feed(b"".join(publish("t", b"%d" % number, 1, number + 1).data for number in range(30)))
    assert all(payloads(peer) == [] for peer in peers)
    work = run_measured(kernel)
    assert len(work) > 3
    assert max(work) <= _LARGEST_TURN
    assert all(payloads(peer) == [b"%d" % number for number in range(30)] for peer in peers)
    assert len(pub.received()) == 30
    assert kernel.broker.statistics()["fanouts.count"] == 0


def test_somebody_else_is_served_while_a_message_is_on_its_way() -> None:
    kernel = Kernel()
    members(kernel, 3000)
    pub, other = kernel.connect("pub"), kernel.connect("other")
    other.subscribe("o")
    pub.feed(b"".join(publish("t", b"x").data for number in range(20)))
    for _ in range(5):
        kernel.turn()
        other.feed(publish("o", b"now").data)
        kernel.turn()
        assert payloads(other) == [b"now"]
    assert kernel.broker.fanouts.count > 0 or kernel.context.flusher.spread_count > 0
    kernel.run()


def test_a_turn_writes_to_some_hundreds_of_connections() -> None:
    kernel = Kernel()
    peers = members(kernel, 2000)
    pub = kernel.connect("pub")
    pub.feed(publish("t", b"x").data)
    writes = [sum(peer.wire.writes_count for peer in peers)]
    while kernel.has_work:
        kernel.turn()
        writes.append(sum(peer.wire.writes_count for peer in peers))
    assert max(after - before for before, after in itertools.pairwise(writes)) <= 512
    assert all(payloads(peer) == [b"x"] for peer in peers)


def test_what_is_large_waits_for_another_turn_and_what_is_short_does_not() -> None:
    kernel = Kernel()
    peers = members(kernel, 20)
    other = kernel.connect("other")
    other.subscribe("o")
    pub, another = kernel.connect("pub"), kernel.connect("another")
    before = sum(peer.wire.writes_count for peer in peers)
    pub.feed(publish("t", b"x" * 900_000).data)
    another.feed(publish("o", b"now").data)
    kernel.turn()
    assert payloads(other) == [b"now"]
    assert 0 < sum(peer.wire.writes_count for peer in peers) - before < 10
    kernel.run()
    assert all(len(payloads(peer)) == 1 for peer in peers)


def test_a_publisher_waits_for_what_it_published() -> None:
    kernel = spreading()
    members(kernel, 1000)
    pub = kernel.connect("pub")
    for _ in range(40):
        pub.feed(publish("t", b"x").data * 5)
    assert pub.paused()
    assert kernel.broker.fanouts.count <= 2 * 66
    kernel.run()
    assert not pub.paused()
    assert kernel.broker.counters.qos0_received == 200


def test_the_connection_of_a_publisher_may_end_meanwhile() -> None:
    kernel = spreading()
    peers = members(kernel, 600)
    pub = kernel.connect("pub")
    pub.feed(publish("t", b"x").data * 200)
    pub.drop()
    assert len({len(payloads(peer)) for peer in peers}) == 1


def test_who_leaves_gets_no_more_and_who_stays_misses_nothing() -> None:
    kernel = spreading()
    peers = members(kernel, 600)
    kernel.broker.fanouts.step_work = 10
    kernel.broker.fanouts.on_waiting = lambda: None
    kernel.connect("pub").feed(publish("t", b"x").data)
    kernel.broker.fanouts.step()
    for peer in (*peers[:30], *peers[-30:]):
        peer.channel.unsubscribe(["t"])
    while kernel.broker.fanouts.count:
        kernel.broker.fanouts.step()
    kernel.run()
    assert [len(payloads(peer)) for peer in peers] == [1] * 9 + [0] * 21 + [1] * 540 + [0] * 30


@cases("topic_filter", ["t", "+", "#"])
def test_who_subscribes_meanwhile_gets_the_newest_retained_message_and_none_before_it(topic_filter: str) -> None:
    kernel = spreading()
    peers = members(kernel, 600)
    late, pub = kernel.connect("late"), kernel.connect("pub")
    kernel.broker.fanouts.on_waiting = lambda: None
    pub.feed(b"".join(publish("t", b"%d" % number, retain=True).data for number in range(3)))
    assert kernel.broker.fanouts.count == 3
    kernel.broker.fanouts.step()
    late.send_subscribe(p.SubscribeEntry(topic_filter, 0, False, False, 0))
    pub.feed(publish("t", b"3", retain=True).data)
    while kernel.broker.fanouts.count:
        kernel.broker.fanouts.step()
    kernel.run()
    assert all(payloads(peer) == [b"0", b"1", b"2", b"3"] for peer in peers)
    assert payloads(late) in ([b"2", b"3"], [b"3"])  # the retained one may be replaced before it is looked for


@cases("is_cached", [True, False])
def test_many_filters_of_one_client_are_found_bit_by_bit(is_cached: bool) -> None:
    kernel = Kernel()
    sub, pub = kernel.connect("sub"), kernel.connect("pub")
    levels = 12
    filters = ["/".join(each) for each in itertools.product("a+", repeat=levels)]
    sub.send_subscribe(*[p.SubscribeEntry(each, 0, False, False, 0) for each in filters])
    sub.skip()
    topic = "/".join("a" * levels)
    for _ in range(2 if is_cached else 1):
        pub.feed(publish(topic, b"x").data)
        work = run_measured(kernel)
        assert max(work) <= _LARGEST_TURN
        assert payloads(sub) == [b"x"] * len(filters)


def test_filters_that_come_and_go_do_not_disturb_the_search() -> None:
    kernel = Kernel()
    sub, pub, other = kernel.connect("sub"), kernel.connect("pub"), kernel.connect("other")
    filters = ["/".join(each) for each in itertools.product("a+", repeat=12)]
    sub.send_subscribe(*[p.SubscribeEntry(each, 0, False, False, 0) for each in filters])
    sub.skip()
    fanouts = kernel.broker.fanouts
    fanouts.step_work = 64
    fanouts.on_waiting = lambda: None
    pub.feed(publish("/".join("a" * 12), b"x").data)
    for number in range(20):  # a search that begins anew each time is at its end before long
        fanouts.step()
        other.channel.subscribe([p.SubscribeEntry(f"+/{number}", 0, False, False, 0)])
    while fanouts.count:
        fanouts.step()
    kernel.run()
    assert payloads(sub) == [b"x"] * len(filters)


def test_a_topic_that_had_many_filters_is_ordinary_again_when_they_are_gone() -> None:
    kernel = Kernel()
    sub, pub = kernel.connect("sub"), kernel.connect("pub")
    filters = ["/".join(each) for each in itertools.product("a+", repeat=10)]
    sub.send_subscribe(*[p.SubscribeEntry(each, 0, False, False, 0) for each in filters])
    topic = "/".join("a" * 10)
    pub.publish(topic)
    assert kernel.broker.route(topic.encode()).is_wide
    sub.drop()
    pub.publish(topic, qos=1)
    assert not kernel.broker.route(topic.encode()).is_wide
    assert kernel.broker.counters.messages_dropped_no_subscribers == 1


def test_a_spread_goes_on_while_others_write_more_than_a_turn_takes() -> None:
    kernel = spreading()
    crowd = [kernel.connect(f"crowd-{number}") for number in range(1600)]
    peers = members(kernel, 600)
    kernel.connect("pub").feed(publish("t", b"x").data)
    for _ in range(30):
        for peer in crowd:
            peer.feed(b"\xc0\x00")
        kernel.turn()
    assert all(payloads(peer) == [b"x"] for peer in peers)


def test_large_messages_to_many_hold_their_publisher_back_by_their_bytes() -> None:
    kernel = spreading()
    members(kernel, 300)
    pub = kernel.connect("pub")
    for _ in range(5):
        pub.feed(publish("t", b"x" * 500_000).data)
    assert pub.paused()
    assert kernel.broker.fanouts.count <= 2
    kernel.run()
    assert not pub.paused()
    assert kernel.broker.counters.qos0_received == 5


def test_the_broker_itself_waits_for_its_messages_to_very_many() -> None:
    kernel = spreading()
    members(kernel, 2000)
    waiting = [make_message(0, number, "t", b"x" * 10_000, 0, False, b"", "rule", None) for number in range(30)]
    own = InternalPublishQueue(kernel.broker, IdSource(1, 1), kernel.context.defer, kernel.context.clock, 1000, print)
    counters = PublishCounters()
    for message in waiting:
        own.put(message, True, counters)
    kernel.turn()
    assert 0 < kernel.broker.fanouts.count < 10
    kernel.run()
    assert counters.published == 30
    assert kernel.broker.counters.qos0_sent == 30 * 2000
