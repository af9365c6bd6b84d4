"""The store of retained messages: what it gives back, its limits, expiry, paging and deletion."""

from heliograph.broker.message import Message, make_message
from heliograph.mqtt import packets as p
from heliograph.mqtt.encode import encode_publish
from heliograph.retainer.memory import MemoryRetainer
from heliograph.retainer.retainer import Retainer
from retainer.conftest import MakeRetainer
from retainer.retaining import each, read, retain, settle, topics
from support.cases import cases
from support.kernel import START_US
from support.packets import decode_one


def advance(retainer: Retainer, to_s: float) -> None:
    settle(retainer)
    retainer.broker.begin_turn(START_US + round(to_s * 1_000_000))


def one(retainer: Retainer, topic_filter: str) -> Message:
    message = retainer.match(topic_filter).next()
    assert message is not None
    return message


@cases("username", [None, "", "ü"])
@cases("qos", [0, 1, 2])
def test_a_message_comes_back_as_it_was(make: MakeRetainer, username: str | None, qos: int) -> None:
    retainer = make()
    properties = b"\x02\0\0\0\x0a&\0\1k\0\1v"
    message = make_message(START_US, (7 << 48) + 3, "töpic/a", b"payload\0", qos, True, properties, "clïent", username)
    retainer.retain(message)
    back = one(retainer, "töpic/a")
    assert (back.guid, back.topic, back.payload, back.property_bytes) == (
        message.guid,
        message.topic,
        message.payload,
        message.property_bytes,
    )
    assert (back.qos, back.retain, back.clientid, back.username) == (qos, True, "clïent", username)
    assert back.expiry_s == 10


def test_a_message_of_an_mqtt_3_client_comes_back_as_it_was(make: MakeRetainer) -> None:
    retainer = make()
    publish = decode_one(encode_publish(p.V3_1_1, b"a", b"x", 1, True, False, 9, b""), p.V3_1_1)
    assert isinstance(publish, p.Publish)
    retainer.retain(Message(START_US, 1, "a", publish, "c", None, -1))
    back = one(retainer, "a")
    assert (back.payload, back.property_bytes, back.qos, back.expiry_s) == (b"x", b"", 1, -1)


def test_an_expiry_that_the_broker_gave_is_kept_too(make: MakeRetainer) -> None:
    retainer = make()
    message = make_message(START_US, 1, "a", b"x", 0, True, b"", "c", None)
    message.expiry_s = 10  # `mqtt.message_expiry_interval`; the packet has none
    retainer.retain(message)
    assert one(retainer, "a").expiry_s == 10
    advance(retainer, 10)
    assert topics(retainer) == []


def test_a_message_takes_the_place_of_the_one_before(make: MakeRetainer) -> None:
    retainer = make()
    retain(retainer, "a", b"one")
    retain(retainer, "a", b"two")
    assert read(retainer.match("a")) == [("a", b"two")]  # 3.1.1 [MQTT-3.3.1-5] [MQTT-3.3.1-7]
    assert len(retainer) == 1


def test_an_empty_payload_forgets(make: MakeRetainer) -> None:
    retainer = make()
    retain(retainer, "a")
    assert retain(retainer, "a", b"")
    assert retain(retainer, "never/there", b"")
    assert topics(retainer) == []
    assert retainer.statistics()["retained.bytes"] == 0


def test_clearing_may_be_kept_from_subscribers(make: MakeRetainer) -> None:
    retainer = make(stop_publish_clear_msg=True)
    assert retain(retainer, "a")
    assert not retain(retainer, "a", b"")
    assert topics(retainer) == []


# --- limits


def test_no_more_topics_than_the_operator_wants(make: MakeRetainer) -> None:
    retainer = make(max_retained_messages=2)
    for topic in ("a", "b", "c"):
        retain(retainer, topic)
    retain(retainer, "a", b"newer")
    assert sorted(read(retainer.match("#"))) == [("a", b"newer"), ("b", b"x")]
    retain(retainer, "b", b"")
    retain(retainer, "c")
    assert topics(retainer) == ["a", "c"]
    assert retainer.statistics()["retained.dropped.full"] == 1
    assert retainer.statistics()["retained.limit"] == 2


def test_no_more_bytes_than_the_operator_wants(make: MakeRetainer) -> None:
    retainer = make(max_retained_bytes=4000)
    for topic in ("a", "b"):
        retain(retainer, topic, bytes(1500))
    retain(retainer, "c", bytes(1500))
    assert topics(retainer) == ["a", "b"]
    assert retainer.statistics()["retained.dropped.full"] == 1
    assert retainer.statistics()["retained.bytes"] <= 4000
    retain(retainer, "a", bytes(2800))  # what it replaces is out of date, and goes
    assert topics(retainer) == ["b"]
    retain(retainer, "c", bytes(1500))
    assert topics(retainer) == ["b", "c"]


def test_a_topic_keeps_its_place_where_bytes_are_short(make: MakeRetainer) -> None:
    retainer = make(max_retained_bytes=4000)
    for number in range(3):
        for topic in ("a", "b"):
            retain(retainer, topic, bytes([number]) * 1900)
        retain(retainer, "c", bytes(1900))
        settle(retainer)
        assert sorted(read(retainer.match("#"))) == [("a", bytes([number]) * 1900), ("b", bytes([number]) * 1900)]
    assert retainer.statistics()["retained.dropped.full"] == 3
    retain(retainer, "a", bytes(1000))  # what is smaller fits
    assert topics(retainer) == ["a", "b"]


def test_what_has_expired_makes_room(make: MakeRetainer) -> None:
    retainer = make(max_retained_messages=2)
    retain(retainer, "old", expiry_s=10)
    retain(retainer, "a")
    advance(retainer, 20)
    retain(retainer, "b")
    assert topics(retainer) == ["a", "b"]


def test_a_payload_that_is_too_large_is_not_kept_and_no_older_one_either(make: MakeRetainer) -> None:
    retainer = make(max_payload_size=3)
    retain(retainer, "a", b"abc")
    retain(retainer, "b", b"abc")
    assert retain(retainer, "b", b"abcd")  # subscribers get it
    assert topics(retainer) == ["a"]
    assert retainer.statistics()["retained.dropped.payload_size"] == 1


def test_no_more_messages_a_second_than_the_operator_wants_and_none_that_is_out_of_date(make: MakeRetainer) -> None:
    retainer = make(max_publish_rate=(2, 1_000_000))
    for topic in ("a", "b", "a"):
        assert retain(retainer, topic)
    assert topics(retainer) == ["b"]
    assert retainer.statistics()["retained.dropped.publish_rate"] == 1
    retainer.broker.begin_turn(retainer.broker.uptime_us + 500_000)
    retain(retainer, "c")
    retain(retainer, "d")
    assert topics(retainer) == ["b", "c"]


# --- expiry


def test_the_operators_expiry_is_for_messages_without_one(make: MakeRetainer) -> None:
    retainer = make(msg_expiry_interval_us=10_000_000)
    retain(retainer, "default")
    retain(retainer, "longer", expiry_s=20)
    retain(retainer, "shorter", expiry_s=5)
    for after_s, left in [(4, ["default", "longer", "shorter"]), (5, ["default", "longer"]), (10, ["longer"])]:
        advance(retainer, after_s)
        assert topics(retainer) == left
    assert len(retainer) == 1
    assert retainer.statistics()["retained.expired"] == 2


@cases(("override_us", "left"), [(8_000_000, []), (0, ["none", "own"])])
def test_the_operators_other_expiry_is_for_all_messages(make: MakeRetainer, override_us: int, left: list[str]) -> None:
    retainer = make(msg_expiry_interval_us=5_000_000, msg_expiry_interval_override_us=override_us)
    retain(retainer, "none")
    retain(retainer, "own", expiry_s=1)
    advance(retainer, 7.9)
    assert topics(retainer) == ["none", "own"]
    advance(retainer, 8)
    assert topics(retainer) == left


def test_sweeping_forgets_what_has_expired_some_at_a_time(make: MakeRetainer) -> None:
    retainer = make()
    for number in range(10):
        retain(retainer, f"short/{number}", expiry_s=10)
        retain(retainer, f"long/{number}", expiry_s=1000)
        retain(retainer, f"for/ever/{number}")
    assert retainer.sweep() == 0
    advance(retainer, 12)
    assert [retainer.sweep(4) for _ in range(4)] == [4, 4, 2, 0]
    assert len(retainer) == 20
    assert retainer.statistics()["retained.expired"] == 10


def test_a_message_with_a_new_expiry_outlives_the_old_one(make: MakeRetainer) -> None:
    retainer = make()
    retain(retainer, "a", expiry_s=10)
    retain(retainer, "a", expiry_s=100)
    retain(retainer, "b", expiry_s=10)
    retain(retainer, "b")
    advance(retainer, 50)
    assert retainer.sweep() == 0
    assert topics(retainer) == ["a", "b"]


# --- matches that are read while the store changes


def test_matches_are_those_of_the_time_that_they_were_asked_for(make: MakeRetainer) -> None:
    retainer = make(batch_read_number=1)
    for topic in ("a", "b", "c", "d"):
        retain(retainer, topic, b"old")
    matches = retainer.match("#")
    assert matches.next() is not None
    retain(retainer, "b", b"new")
    retain(retainer, "c", b"")
    retain(retainer, "e")  # takes the place of c
    assert read(matches) == [("d", b"old")]
    assert sorted(read(retainer.match("#"))) == [("a", b"old"), ("b", b"new"), ("d", b"old"), ("e", b"x")]


def test_what_was_kept_after_the_question_is_not_in_the_answer(make: MakeRetainer) -> None:
    retainer = make()
    matches, exact = retainer.match("#"), retainer.match("a")
    retain(retainer, "a")
    assert read(matches) == []
    assert read(exact) == []


def test_looking_at_matches_that_are_gone_ends(make: MakeRetainer) -> None:
    retainer = make()
    for number in range(1000):
        retain(retainer, str(number), expiry_s=10)
    matches = retainer.match("#")
    advance(retainer, 10)
    assert matches.next() is None
    assert not matches.is_done()
    assert 0 < len(retainer) < 1000
    assert read(matches) == []
    assert len(retainer) == 0


def test_who_holds_most_retains_on_the_disk_and_no_more_in_memory(make: MakeRetainer) -> None:
    retainer = make()
    pressure = retainer.broker.pressure
    pressure.is_on = pressure.refuses_growth = True
    pressure.heavy = {"pub": 1}
    assert retain(retainer, "a")  # subscribers get it
    is_in_memory = isinstance(retainer, MemoryRetainer)
    assert topics(retainer) == ([] if is_in_memory else ["a"])
    assert pressure.growth_refused == int(is_in_memory)
    assert pressure.noted == {}


def test_a_listing_has_what_was_there_all_the_time_and_what_is_replaced_meanwhile(make: MakeRetainer) -> None:
    retainer = make(batch_read_number=7)
    for number in range(100):
        retain(retainer, f"t/{number:02}", b"old")
    settle(retainer)
    listing = each(retainer.listing("t/+"))
    found = [next(listing).topic for _ in range(20)]
    for number in range(100):
        retain(retainer, f"t/{number:02}", b"new")
        retain(retainer, f"u/{number}", b"new")
    settle(retainer)
    rest = list(listing)
    assert sorted(found + [message.topic for message in rest]) == [f"t/{number:02}" for number in range(100)]
    assert {message.payload for message in rest} <= {b"old", b"new"}


def test_a_listing_that_finds_nothing_looks_at_few_at_once(make: MakeRetainer) -> None:
    retainer = make()
    for number in range(300):
        retain(retainer, f"t/{number}/{number}")
    settle(retainer)
    listing, begin = retainer.listing("t/+/none"), retainer.broker.work
    while not listing.is_done():
        assert listing.next() is None
        assert retainer.broker.work - begin <= 1_000
        begin = retainer.broker.work


def test_a_message_is_removed_by_its_topic(make: MakeRetainer) -> None:
    retainer = make()
    retain(retainer, "a")
    retain(retainer, "b")
    settle(retainer)
    assert retainer.remove("a")
    settle(retainer)
    assert not retainer.remove("a")
    assert topics(retainer) == ["b"]
    assert len(retainer) == 1
