"""What one client's excess costs the others: turns, outboxes and memory stay bounded, and nothing owed is lost."""

import gc
from collections.abc import Callable
from dataclasses import replace
from itertools import product

from heliograph.broker.authentication import AuthStep
from heliograph.broker.hooks import STOP
from heliograph.broker.pending import Pending
from heliograph.channel.channel import Channel
from heliograph.channel.connect_flow import ConnectFlow
from heliograph.channel.peer import Peer as Address
from heliograph.channel.publishing import Publishing
from heliograph.channel.reader import Reader
from heliograph.channel.subscribing import Subscribing
from heliograph.channel.turns import WORK_PER_TURN
from heliograph.mqtt import packets as p
from heliograph.mqtt import reason_codes as rc
from heliograph.mqtt.encode import encode_packet
from heliograph.mqtt.properties import Properties
from heliograph.retainer.memory import MemoryRetainer
from heliograph.session.sender import UNSENT_BYTES_MAX
from support.cases import cases
from support.kernel import FakeWire, Kernel, Peer
from support.options import CHANNEL, LISTENER, SESSION
from support.packets import properties, publish


def payloads(peer: Peer) -> list[bytes]:
    return [packet.payload for packet in peer.received() if isinstance(packet, p.Publish)]


def acknowledge_everything(peer: Peer) -> list[p.Publish]:
    """Take and acknowledge QoS 1 messages until no more come."""
    taken: list[p.Publish] = []
    while found := [packet for packet in peer.received() if isinstance(packet, p.Publish)]:
        taken += found
        peer.send(*(p.Ack(p.PUBACK, packet.packet_id, 0) for packet in found if packet.qos))
    return taken


def test_publishers_share_one_turn_and_take_the_next_in_order() -> None:
    kernel = Kernel()
    subs = [kernel.connect(f"sub{number}") for number in range(100)]
    for sub in subs:
        sub.subscribe("t")
    pubs = [kernel.connect(f"pub{number}") for number in range(4)]
    for number, pub in enumerate(pubs):
        pub.feed(b"".join(publish("t", b"%d:%d" % (number, n)).data for n in range(400)))
    assert [pub.paused() for pub in pubs] == [True] * 4
    received: list[bytes] = []
    while any(pub.paused() for pub in pubs):
        kernel.turn()
        arrived = payloads(subs[0])
        # A hundred deliveries for each message, and the hundred writes at the end let a turn grow by so much.
        assert len(arrived) <= (WORK_PER_TURN + 100 * 104) // 100 + len(pubs)
        received += arrived
    kernel.run()
    received += payloads(subs[0])
    for number in range(4):
        mine = [payload for payload in received if payload.startswith(b"%d:" % number)]
        assert mine == [b"%d:%d" % (number, n) for n in range(400)]
    begun = [received.index(b"%d:0" % number) for number in range(4)]
    assert begun == sorted(begun)


def test_a_client_with_little_to_say_does_not_wait_for_the_next_turn() -> None:
    kernel = Kernel()
    subs = [kernel.connect(f"sub{number}") for number in range(100)]
    for sub in subs:
        sub.subscribe("t")
    pub, other = kernel.connect("pub"), kernel.connect("other")
    pub.feed(b"".join(publish("t", b"x").data for _ in range(400)))
    other.feed(bytes([0xC0, 0]))
    assert pub.paused()
    kernel.turn()
    assert other.heard() == ["PINGRESP"]


def test_topics_that_are_hard_to_route_end_a_turn() -> None:
    kernel = Kernel()
    sub, pub = kernel.connect("sub"), kernel.connect("pub")
    sub.send_subscribe(
        *(p.SubscribeEntry("/".join(levels) + "/end", 0, False, False, 0) for levels in product("a+", repeat=10))
    )
    pub.feed(b"".join(publish(f"{'a/' * 10}{number}", b"").data for number in range(100)))
    assert pub.paused()
    kernel.run()
    assert not pub.paused()
    assert kernel.broker.counters.messages_received == 100


def test_overlapping_subscriptions_do_not_fill_memory_in_one_turn() -> None:
    kernel = Kernel()
    sub, pub = kernel.connect("sub"), kernel.connect("pub")
    filters = ["/".join(levels) for levels in product("a+", repeat=7)]
    sub.send_subscribe(*(p.SubscribeEntry(topic_filter, 0, False, False, 0) for topic_filter in filters))
    assert len(sub.received()) == 1
    pub.publish("/".join("a" * 7), b"x" * 900_000)
    copies = len(payloads(sub))
    assert 0 < copies <= UNSENT_BYTES_MAX // 900_000 + 1
    assert kernel.broker.counters.delivery_dropped_qos0 == len(filters) - copies
    pub.publish("/".join("a" * 7), b"later")
    assert payloads(sub) == [b"later"] * len(filters)


def test_a_full_storage_stops_a_publisher_within_what_it_sent_at_once() -> None:
    kernel = Kernel(stored=["s/#"])
    pub = kernel.connect("pub")
    kernel.sink.full = True
    pub.feed(b"".join(publish("s/t", b"%d" % number).data for number in range(20_000)))
    kernel.run()
    taken = len(kernel.sink.messages)
    assert 0 < taken < 10_000
    assert pub.paused()
    kernel.sink.full = False
    kernel.commit()
    assert not pub.paused()
    assert [message.payload for _, message in kernel.sink.messages] == [b"%d" % number for number in range(20_000)]


def test_storage_that_is_filling_stops_those_with_much_to_say_only() -> None:
    kernel = Kernel(stored=["s/#"])
    flooder, other = kernel.connect("flooder"), kernel.connect("other")
    kernel.sink.filling = True
    flooder.feed(b"".join(publish("s/t", b"%d" % number).data for number in range(1000)))
    other.publish("s/t", b"x", 1, 1)
    assert flooder.paused()
    assert not other.paused()
    kernel.sink.full = True
    other.publish("s/t", b"x", 1, 2)
    assert other.paused()
    kernel.sink.full = kernel.sink.filling = False
    kernel.commit()
    assert not flooder.paused()
    assert not other.paused()


def test_clients_that_have_turns_and_those_that_are_read_from_share_the_work() -> None:
    kernel = Kernel()
    waiting, reading = kernel.connect("waiting"), kernel.connect("reading")
    flood = publish("t", b"").data * 20_000
    waiting.feed(flood)
    assert waiting.paused()
    before = kernel.broker.work
    kernel.turn()
    reading.feed(flood)
    assert reading.paused()
    assert kernel.broker.work - before <= WORK_PER_TURN * 5 // 4
    kernel.run()
    assert kernel.broker.counters.messages_received == 40_000


def test_very_many_connections_look_at_the_time_in_several_turns() -> None:
    kernel = Kernel()
    peers = [kernel.peer() for _ in range(3000)]  # which send no CONNECT
    kernel.now_us += 3600 * 1_000_000
    closed, rounds = 0, 0
    more = True
    while more:
        more = kernel.context.channels.tick(kernel.now_us)
        rounds += 1
        if rounds == 1:
            peers[-1].drop()  # one that is gone meanwhile is passed over
        kernel.run()
        before, closed = closed, sum(peer.closed() for peer in peers)
        assert closed - before <= 1024
    assert (closed, rounds) == (2999, 3)


def test_a_connection_that_ends_within_a_packet_leaves_nothing_behind() -> None:
    kernel = Kernel()
    connect = encode_packet(p.Connect(p.V5, "c", True, 0, None, None, None, Properties()), p.V5)
    gc.collect()
    gc.disable()  # what is left behind would wait for the collector, with the part of a packet in it
    try:
        before = sum(isinstance(found, Channel) for found in gc.get_objects())
        channel = Channel(kernel.context, FakeWire(), kernel.options)
        channel.connection_made(Address("192.0.2.1:1"))
        channel.reader.receive(connect + publish("t", b"x" * 1000).data[:-1])
        kernel.run()
        channel.connection_lost()
        kernel.run()
        del channel
        assert sum(isinstance(found, Channel) for found in gc.get_objects()) == before
    finally:
        gc.enable()


def waits_for_authentication(kernel: Kernel) -> None:
    kernel.broker.hooks.client_authenticate.add(lambda client, attempt, outcome: Pending())


def waits_for_rights(kernel: Kernel) -> None:
    kernel.broker.hooks.client_authorize.add(lambda client, action, topic, decision: Pending())


def is_refused(kernel: Kernel) -> None:
    kernel.broker.hooks.client_authenticate.add(lambda client, attempt, outcome: (STOP, AuthStep(rc.BANNED)))


def may_authenticate_again(kernel: Kernel) -> None:
    kernel.broker.hooks.client_authenticate.add(lambda client, attempt, outcome: (STOP, AuthStep(rc.SUCCESS)))


@cases("prepare", [waits_for_authentication, waits_for_rights, is_refused, may_authenticate_again, lambda kernel: None])
@cases("has_connect", [False, True])
def test_a_connection_leaves_nothing_behind_however_far_it_came(
    prepare: Callable[[Kernel], None], has_connect: bool
) -> None:
    kernel = Kernel(replace(CHANNEL, listener=replace(LISTENER, messages_rate=1.0)), stored=["t"])
    prepare(kernel)
    method = properties(authentication_method="m") if prepare is may_authenticate_again else Properties()
    connect = encode_packet(p.Connect(p.V5, "c", True, 0, None, None, None, method), p.V5)
    filters = encode_packet(p.Subscribe(1, [p.SubscribeEntry("a", 1, False, False, 0)], Properties()), p.V5)
    kinds = (Channel, Reader, ConnectFlow, Publishing, Subscribing)
    gc.collect()
    gc.disable()
    try:
        before = sum(isinstance(found, kinds) for found in gc.get_objects())
        channel = Channel(kernel.context, FakeWire(), kernel.options)
        channel.connection_made(Address("192.0.2.1:1"))
        if has_connect:
            channel.reader.receive(connect + publish("t", b"x", 1, 2).data + filters)
        kernel.run()
        channel.connection_lost()
        kernel.commit()
        kernel.advance(5)  # until its rate would let it send again
        del channel
        assert sum(isinstance(found, kinds) for found in gc.get_objects()) == before
    finally:
        gc.enable()


def kernel_retaining(count: int, qos: int) -> tuple[Kernel, MemoryRetainer]:
    kernel = Kernel(session_options=replace(SESSION, max_inflight=10, max_mqueue_len=20))
    pub = kernel.connect("retainer")
    for number in range(count):
        pub.publish(f"r/{number}", b"%d" % number, qos, number + 1 if qos else None, retain=True)
    pub.drop()
    return kernel, kernel.retainer


def test_more_retained_messages_than_the_queue_holds_all_arrive() -> None:
    kernel, _ = kernel_retaining(200, 1)
    sub = kernel.connect("sub")
    sub.send_subscribe(p.SubscribeEntry("r/#", 1, False, False, 0))
    taken = acknowledge_everything(sub)
    assert sorted(int(packet.payload) for packet in taken) == list(range(200))
    assert all(packet.retain for packet in taken)
    assert kernel.broker.counters.delivery_dropped_queue_full == 0


def test_many_retained_messages_come_in_several_turns() -> None:
    kernel, _ = kernel_retaining(3000, 0)
    sub = kernel.connect("sub")
    sub.feed(
        encode_packet(p.Subscribe(1, [p.SubscribeEntry("r/#", 0, False, False, 0)], Properties()), p.V5)
        + bytes([0xC0, 0])
    )
    kernel.turn()
    first = len(payloads(sub))
    assert 0 < first < 3000
    kernel.run()
    assert first + len(payloads(sub)) == 3000


def test_retained_messages_wait_for_a_client_that_does_not_read() -> None:
    kernel, _ = kernel_retaining(50, 0)
    sub = kernel.connect("sub")
    sub.congest()
    sub.send_subscribe(p.SubscribeEntry("r/#", 0, False, False, 0))
    assert payloads(sub) == []
    sub.congest(False)
    assert len(payloads(sub)) == 50
    assert kernel.broker.counters.delivery_dropped_qos0 == 0


def test_what_replaced_a_retained_message_meanwhile_is_not_followed_by_the_old_one() -> None:
    kernel, _ = kernel_retaining(50, 1)
    sub = kernel.connect("sub")
    sub.send_subscribe(p.SubscribeEntry("r/#", 1, False, False, 0))
    pub = kernel.connect("pub")
    for number in range(50):
        pub.publish(f"r/{number}", b"new", 1, number + 1, retain=True)
    seen: dict[bytes, list[bytes]] = {}
    for packet in acknowledge_everything(sub):
        seen.setdefault(packet.topic, []).append(packet.payload)
    overtaken = [topic for topic, came in seen.items() if b"new" in came[:-1]]
    assert overtaken == []
    assert sum(came == [b"new"] for came in seen.values()) >= 10  # those that were still to be delivered


def test_unsubscribing_ends_the_delivery_of_retained_messages() -> None:
    kernel, _ = kernel_retaining(200, 1)
    sub = kernel.connect("sub")
    sub.send_subscribe(p.SubscribeEntry("r/#", 1, False, False, 0))
    sub.send(p.Unsubscribe(2, ["r/#"], Properties()))
    assert len(acknowledge_everything(sub)) < 20
