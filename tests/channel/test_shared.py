"""Shared subscriptions as their members see them: who gets a message, and what happens to what a member leaves."""

from dataclasses import replace
from typing import Any

from heliograph.broker.shared_options import SharedOptions
from heliograph.mqtt import packets as p
from heliograph.mqtt import reason_codes as rc
from heliograph.session.sender import UNSENT_BYTES_MAX
from support.cases import cases
from support.kernel import Kernel, Peer
from support.options import CHANNEL, SESSION
from support.packets import properties_of

SHARED = "$share/g/t"


def kernel_with(strategy: str = "round_robin_per_group", **limits: Any) -> Kernel:
    return Kernel(session_options=replace(SESSION, **limits), shared=SharedOptions(strategy))


def members(kernel: Kernel, names: str = "ab", qos: int = 1, *, window: int = 65_535) -> dict[str, Peer]:
    """Members of one group, whose sessions outlive their connections."""
    found = {}
    for name in names:
        found[name] = kernel.connect(name, session_expiry_interval=60, receive_maximum=window)
        assert found[name].subscribe(SHARED, qos) == [qos]
    return found


def payloads(peer: Peer) -> list[str]:
    return [packet.payload.decode() for packet in peer.received() if isinstance(packet, p.Publish)]


def back(kernel: Kernel, clientid: str) -> Peer:
    """The same client on a new connection."""
    peer = kernel.peer()
    peer.connect(clientid, clean_start=False, session_expiry_interval=60)
    return peer


def send(pub: Peer, count: int, qos: int = 1, begin: int = 0) -> None:
    for number in range(begin, begin + count):
        pub.publish("t", b"%d" % number, qos)


# --- who gets what


@cases("prefix", ["$share/g/", "$queue/"])
@cases("version", [p.V3_1, p.V3_1_1, p.V5])
@cases("qos", [0, 1, 2])
def test_every_message_goes_to_one_member(version: int, prefix: str, qos: int) -> None:
    kernel = Kernel()
    group = [kernel.connect(f"m{number}", version=version) for number in range(3)]
    for member in group:
        assert member.subscribe(f"{prefix}t/+", qos) == [qos]
    alone = kernel.connect("alone")
    alone.subscribe("t/#", qos)
    pub = kernel.connect("pub")
    for number in range(12):
        pub.publish(f"t/{number % 2}", b"%d" % number, qos)
    got = [payloads(member) for member in group]
    assert sorted((payload for mine in got for payload in mine), key=int) == [str(number) for number in range(12)]
    assert payloads(alone) == [str(number) for number in range(12)]
    for mine in got:
        assert mine == sorted(mine, key=int)


def test_a_group_for_each_name_and_each_filter() -> None:
    kernel = kernel_with()
    one, two = kernel.connect("one"), kernel.connect("two")
    for topic_filter in ("$share/g/t", "$share/h/t", "$queue/t", "$share/g/+"):
        for member in (one, two):
            member.subscribe(topic_filter)
    kernel.connect("pub").publish("t", b"x")
    assert len(payloads(one)) + len(payloads(two)) == 4
    statistics = kernel.broker.statistics()
    assert (statistics["shared_groups.count"], statistics["subscriptions.shared.count"]) == (4, 8)


@cases(
    ("strategy", "got"),
    [
        ("round_robin_per_group", [4, 4]),  # of all publishers together
        ("round_robin", [4, 4]),  # of each
        ("sticky", [8, 8]),  # each publisher stays with one
        ("hash_clientid", [8, 8]),
        ("hash_topic", [8, 8]),
    ],
)
def test_strategies(strategy: str, got: list[int]) -> None:
    kernel = kernel_with(strategy)
    group = members(kernel)
    for name in ("one", "two"):
        pub = kernel.connect(name)
        send(pub, 8, 0)
        counts = sorted(len(payloads(member)) for member in group.values())
        assert counts == sorted([got[0], 8 - got[0]])


def test_members_keep_to_their_own_options() -> None:
    kernel = kernel_with()
    zero, two = kernel.connect("zero"), kernel.connect("two")
    zero.subscribe(SHARED, 0, subscription_identifier=[5])
    two.subscribe(SHARED, 2, retain_as_published=True)
    pub = kernel.connect("pub")
    for _ in range(2):
        pub.publish("t", b"x", 2, retain=True)
    first, second = zero.take(p.Publish), two.take(p.Publish)
    assert (first.qos, first.retain, properties_of(first)) == (0, False, {"Subscription-Identifier": [5]})
    assert (second.qos, second.retain, properties_of(second)) == (2, True, {})


@cases("version", [p.V3_1_1, p.V5])
def test_a_shared_subscription_gets_no_retained_messages(version: int) -> None:
    kernel = kernel_with()
    kernel.connect("pub").publish("t", b"kept", 1, retain=True)
    for topic_filter in (SHARED, "$queue/t", "$share/g/#"):
        assert kernel.connect("sub", version=version).subscribe(topic_filter, 1) == [1]


@cases("topic_filter", [SHARED, "$queue/t"])
def test_no_local_is_refused(topic_filter: str) -> None:
    peer = Kernel().connect()
    peer.send_subscribe(p.SubscribeEntry(topic_filter, 0, True, False, 0))
    assert peer.heard() == ["DISCONNECT 0x82"]  # [MQTT-3.8.3-4]
    assert peer.closed()


def test_a_member_gets_its_own_messages() -> None:
    kernel = Kernel(session_options=replace(SESSION, ignore_loop_deliver=True))
    peer = kernel.connect(version=p.V3_1_1)
    peer.subscribe(SHARED)
    peer.publish("t", b"x")
    assert payloads(peer) == ["x"]


@cases(
    "topic_filter",
    ["$share/g", "$share/g/", "$share//t", "$share/+/t", "$queue/", "$share/g/$share/h/t", "$share/g/#/t"],
)
def test_filters_that_share_nothing(topic_filter: str) -> None:
    assert Kernel().connect().subscribe(topic_filter) == [rc.TOPIC_FILTER_INVALID]


def test_an_operator_without_shared_subscriptions() -> None:
    kernel = Kernel(replace(CHANNEL, shared_subscription=False))
    for topic_filter in (SHARED, "$queue/t"):
        assert kernel.connect().subscribe(topic_filter) == [rc.SHARED_SUBSCRIPTIONS_NOT_SUPPORTED]


# --- members that cannot take a message


def test_a_member_that_is_away_is_passed_over() -> None:
    kernel = kernel_with()
    group = members(kernel)
    pub = kernel.connect("pub")
    group["a"].drop()
    send(pub, 4)
    assert payloads(group["b"]) == ["0", "1", "2", "3"]
    assert payloads(back(kernel, "a")) == []


@cases("qos", [0, 1, 2])
def test_a_group_whose_members_are_all_away(qos: int) -> None:
    kernel = kernel_with()
    group = members(kernel, qos=2)
    for member in group.values():
        member.drop()
    pub = kernel.connect("pub")
    send(pub, 4, qos)
    assert "0x10" not in " ".join(pub.heard())
    assert sorted(payloads(back(kernel, "a")) + payloads(back(kernel, "b"))) == ["0", "1", "2", "3"]


def test_at_qos_0_nobody_waits_for_who_is_away_unless_the_operator_wants_it() -> None:
    kernel = kernel_with(mqueue_store_qos0=False)
    members(kernel, "a")["a"].drop()
    send(kernel.connect("pub"), 3, 0)
    assert payloads(back(kernel, "a")) == []
    assert kernel.broker.statistics()["shared_groups.dropped"] == 3


def test_a_member_whose_queue_is_full_is_passed_over() -> None:
    kernel = kernel_with("sticky", max_mqueue_len=2)
    group = members(kernel, window=1)
    send(kernel.connect("pub"), 6)
    got = {name: payloads(member) for name, member in group.items()}
    (first,) = [name for name in got if got[name] == ["0"]]
    (second,) = [name for name in got if got[name] == ["3"]]
    for name, want in ((first, ["1", "2"]), (second, ["4", "5"])):
        for number, payload in enumerate(want, start=1):
            group[name].ack(p.PUBACK, number)
            assert payloads(group[name]) == [payload]


def test_when_all_queues_are_full_the_message_is_dropped_and_counted() -> None:
    kernel = kernel_with(max_mqueue_len=1)
    group = members(kernel, window=1)
    pub = kernel.connect("pub")
    send(pub, 5)
    assert kernel.broker.statistics()["shared_groups.dropped"] == 1
    assert sorted(payloads(group["a"]) + payloads(group["b"])) == ["0", "1"]


@cases("qos", [0, 1])
def test_a_member_that_does_not_read_is_passed_over(qos: int) -> None:
    kernel = kernel_with()
    group = members(kernel)
    group["a"].congest()
    send(kernel.connect("pub"), 4, qos)
    assert payloads(group["b"]) == ["0", "1", "2", "3"]


def test_a_member_of_many_groups_does_not_fill_memory_in_one_turn() -> None:
    kernel = kernel_with()
    greedy, pub = kernel.connect("greedy"), kernel.connect("pub")
    greedy.send_subscribe(*[p.SubscribeEntry(f"$share/g{number}/t", 0, False, False, 0) for number in range(60)])
    greedy.skip()
    pub.publish("t", b"x" * 900_000)
    copies = len(payloads(greedy))
    assert 0 < copies <= UNSENT_BYTES_MAX // 900_000 + 1
    assert kernel.broker.statistics()["shared_groups.dropped"] == 60 - copies


# --- what a member leaves behind


@cases(("qos", "kind"), [(1, p.PUBACK), (2, p.PUBREC)])
def test_a_refusal_is_final(qos: int, kind: int) -> None:
    kernel = kernel_with("sticky")
    group = members(kernel, qos=2)
    send(kernel.connect("pub"), 1, qos)
    (name,) = [name for name in group if payloads(group[name])]
    group[name].ack(kind, 1, rc.UNSPECIFIED_ERROR)
    group[name].disconnect(session_expiry_interval=0)
    kernel.advance(100)
    for other in group.values():
        assert payloads(other) == []  # [MQTT-4.8.2-6]


@cases("how", ["expires", "disconnects", "starts anew"])
def test_what_a_member_did_not_acknowledge_goes_to_another_when_its_session_ends(how: str) -> None:
    kernel = kernel_with("sticky")
    group = members(kernel, window=2)
    send(kernel.connect("pub"), 4)
    (name,) = [name for name in group if payloads(group[name])]
    (other,) = {*group} - {name}
    group[name].ack(p.PUBACK, 1)  # 0 is done, 1 and 2 are on their way, 3 waits
    if how == "disconnects":
        group[name].disconnect(session_expiry_interval=0)
    else:
        group[name].drop()
        assert payloads(group[other]) == []  # it may come back
        if how == "expires":
            kernel.advance(61)
        else:
            kernel.connect(name, clean_start=True)
    assert payloads(group[other]) == ["1", "2"]
    group[other].ack(p.PUBACK, 1)
    assert payloads(group[other]) == ["3"]


def test_a_member_that_comes_back_in_time_gets_what_it_left() -> None:
    kernel = kernel_with("sticky")
    group = members(kernel)
    send(kernel.connect("pub"), 2)
    (name,) = [name for name in group if payloads(group[name])]
    group[name].drop()
    assert [say for say in back(kernel, name).heard() if "PUBLISH" in say] == [
        "PUBLISH t '0' q1 #1 dup",
        "PUBLISH t '1' q1 #2 dup",
    ]


@cases("phase", ["published", "released"])
def test_a_message_at_qos_2_that_is_on_its_way_goes_to_nobody_else(phase: str) -> None:
    kernel = kernel_with("sticky")
    group = members(kernel, qos=2, window=1)
    send(kernel.connect("pub"), 2, 2)
    (name,) = [name for name in group if payloads(group[name])]
    (other,) = {*group} - {name}
    if phase == "released":
        group[name].ack(p.PUBREC, 1)
    group[name].drop()
    kernel.advance(61)
    assert payloads(group[other]) == ["1"]  # the first may have been had [MQTT-4.8.2-5]; the second was not sent


@cases("qos", [1, 2])
def test_what_waits_for_a_member_that_unsubscribes_goes_to_another(qos: int) -> None:
    kernel = kernel_with("sticky")
    group = members(kernel, qos=2, window=1)
    send(kernel.connect("pub"), 3, qos)
    (name,) = [name for name in group if payloads(group[name])]
    (other,) = {*group} - {name}
    group[name].subscribe("other", 1)
    kernel.connect("second").publish("other", b"its own", 1)
    assert group[name].unsubscribe(SHARED) == [0]
    assert payloads(group[other]) == ["1"]
    if qos == 1:
        group[name].ack(p.PUBACK, 1)
        assert payloads(group[name]) == ["its own"]
        group[other].ack(p.PUBACK, 1)
        assert payloads(group[other]) == ["2"]


def test_the_last_member_takes_what_waits_with_it() -> None:
    kernel = kernel_with()
    (member,) = members(kernel, "a", window=1).values()
    send(kernel.connect("pub"), 3)
    assert member.heard() == ["PUBLISH t '0' q1 #1"]
    assert member.unsubscribe(SHARED) == [0]
    statistics = kernel.broker.statistics()
    assert (statistics["shared_groups.dropped"], statistics["shared_groups.count"]) == (2, 0)
    member.ack(p.PUBACK, 1)
    assert member.heard() == []


def test_what_expired_with_the_member_that_left_it_goes_to_nobody() -> None:
    kernel = kernel_with("sticky")
    group = members(kernel, window=1)
    pub = kernel.connect("pub")
    for _ in range(3):
        pub.publish("t", b"x", 1, message_expiry_interval=10)
    (name,) = [name for name in group if payloads(group[name])]
    (other,) = {*group} - {name}
    group[name].drop()
    kernel.advance(61)
    assert payloads(group[other]) == []
    assert kernel.broker.counters.snapshot()["delivery.dropped.expired"] == 3


def test_subscriptions_of_a_group_outlive_a_connection() -> None:
    kernel = kernel_with()
    group = members(kernel)
    group["a"].drop()
    again = back(kernel, "a")
    again.skip()
    send(kernel.connect("pub"), 4)
    assert len(payloads(again)) == len(payloads(group["b"])) == 2


def test_a_taken_over_member_is_one_member() -> None:
    kernel = kernel_with()
    group = members(kernel)
    again = back(kernel, "a")
    again.skip()
    send(kernel.connect("pub"), 4)
    assert [len(payloads(peer)) for peer in (again, group["b"])] == [2, 2]
    assert kernel.broker.statistics()["subscriptions.shared.count"] == 2


def test_subscribing_again_changes_the_options_and_joins_nobody_twice() -> None:
    kernel = kernel_with()
    group = members(kernel, "a", qos=1)
    assert group["a"].subscribe(SHARED, 0) == [0]
    assert kernel.broker.statistics()["subscriptions.shared.count"] == 1
    send(kernel.connect("pub"), 1)
    assert group["a"].heard() == ["PUBLISH t '0' q0"]


def test_nobody_is_left() -> None:
    kernel = kernel_with()
    for member in members(kernel, "abc").values():
        member.disconnect(session_expiry_interval=0)
    pub = kernel.connect("pub")
    pub.publish("t", b"x", 1, 1)
    assert pub.heard() == ["PUBACK #1 0x10"]
    assert kernel.broker.statistics()["subscriptions.count"] == 0
