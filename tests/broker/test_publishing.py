"""The one path of a message: whoever publishes, hooks, retained store, storage, receivers and counting are the same."""

import logging
from collections.abc import Callable

import pytest

from heliograph.broker.durable_sink import NOT_STORED
from heliograph.broker.guid import IdSource
from heliograph.broker.hooks import OK, STOP, Refusal
from heliograph.broker.internal_publish_queue import InternalPublishQueue, PublishCounters
from heliograph.broker.message import Message, make_message
from heliograph.broker.pending import Pending
from heliograph.broker.publishing import Outcome, publish
from heliograph.mqtt import packets as p
from heliograph.mqtt import reason_codes as rc
from heliograph.mqtt.errors import ProtocolError
from heliograph.mqtt.properties import Properties
from heliograph.node.publisher import SystemPublisher
from heliograph.observe.outgoing import SystemMessageQueue
from heliograph.policies.delayed import DelayedMessages
from support.cases import cases
from support.kernel import FakeSink, Kernel


class RefusingSink(FakeSink):
    """Storage that takes nothing now."""

    def refusal(self, topic: str) -> int:
        return rc.QUOTA_EXCEEDED


def message_to(kernel: Kernel, topic: str, qos: int = 1, *, retain: bool = False, clientid: str = "c") -> Message:
    return make_message(kernel.broker.now_us, 1, topic, b"x", qos, retain, b"", clientid, None)


def hook(kernel: Kernel, callback: Callable[[Message], object]) -> None:
    kernel.broker.hooks.message_publish.add(callback)


# --- who publishes


def by_client(kernel: Kernel, topic: str) -> None:
    kernel.connect("pub").publish(topic, b"x", 1, 1)


def by_will(kernel: Kernel, topic: str) -> None:
    kernel.connect("dying", will=p.Will(topic, b"x", 1, False, Properties())).drop()


def by_delay(kernel: Kernel, topic: str) -> None:
    logger = logging.getLogger("test")
    ids = IdSource(1, 1000)
    delayed = DelayedMessages(kernel.broker, None, None, ids, kernel.defer, lambda clientid: False, logger)
    assert delayed.take(message_to(kernel, f"$delayed/1/{topic}")) is None
    kernel.now_us += 2_000_000
    kernel.broker.begin_turn(kernel.now_us)
    delayed.tick(kernel.now_us)


def queue(kernel: Kernel) -> InternalPublishQueue:
    return InternalPublishQueue(
        kernel.broker, IdSource(1, 1000), kernel.defer, lambda: kernel.now_us, 100, lambda message, error: None
    )


def by_rule(kernel: Kernel, topic: str) -> None:
    queue(kernel).put(message_to(kernel, topic), False, PublishCounters())


def by_rule_directly(kernel: Kernel, topic: str) -> None:
    queue(kernel).put(message_to(kernel, topic), True, PublishCounters())


def by_the_system(kernel: Kernel, topic: str) -> None:
    SystemPublisher(kernel.context).publish(topic, b"x", False)


PUBLISHERS = (by_client, by_will, by_delay, by_rule, by_rule_directly, by_the_system)
Publisher = Callable[[Kernel, str], None]


@cases("publisher", PUBLISHERS)
@cases("at_once_max", [2048, 0])
def test_a_message_that_nobody_subscribes_to_is_counted_and_told_of_whoever_publishes(
    publisher: Publisher, at_once_max: int
) -> None:
    kernel = Kernel()
    kernel.broker.at_once_max = at_once_max
    told: list[tuple[str, str]] = []
    kernel.broker.hooks.message_dropped.add(lambda message, reason, _: told.append((message.topic, reason)))
    publisher(kernel, "t")
    kernel.run()
    numbers = kernel.broker.counters.snapshot()
    assert told == [("t", "no_subscribers")]
    assert numbers["messages.dropped.no_subscribers"] == 1
    assert numbers["messages.publish"] == 1


@cases("publisher", PUBLISHERS)
def test_a_message_is_stored_and_heard_whoever_publishes(publisher: Publisher) -> None:
    kernel = Kernel(stored=["#"])
    sub = kernel.connect("sub")
    sub.subscribe("t")
    publisher(kernel, "t")
    kernel.run()
    assert sub.heard() == ["PUBLISH t 'x' q0"]
    assert [message.topic for _, message in kernel.sink.messages] == ["t"]
    numbers = kernel.broker.counters.snapshot()
    assert (numbers["messages.publish"], numbers["messages.dropped"]) == (1, 0)


@cases("publisher", [one for one in PUBLISHERS if one is not by_rule_directly])
def test_callbacks_change_a_message_whoever_publishes(publisher: Publisher) -> None:
    kernel = Kernel()
    hook(kernel, lambda message: (OK, message_to(kernel, "elsewhere", 0)))
    sub = kernel.connect("sub")
    sub.subscribe("#")
    publisher(kernel, "t")
    kernel.run()
    assert sub.heard() == ["PUBLISH elsewhere 'x' q0"]


# --- what becomes of it


def outcome_of(kernel: Kernel, topic: str, *, retain: bool = False, may_refuse: bool = False) -> Outcome:
    return publish(kernel.broker, message_to(kernel, topic, retain=retain), None, None, may_refuse)


def test_the_outcome_names_the_commit_and_the_receivers() -> None:
    kernel = Kernel(stored=["kept/#"])
    for name in ("one", "two"):
        kernel.connect(name).subscribe("+/t")
    stored, heard = outcome_of(kernel, "kept/t"), outcome_of(kernel, "live/t")
    assert (stored.ticket, stored.receivers, stored.is_unheard, stored.is_joined) == (1, 2, False, False)
    assert (heard.ticket, heard.receivers, heard.is_unheard, heard.is_joined) == (NOT_STORED, 2, False, False)
    unheard = outcome_of(kernel, "t")
    assert (unheard.ticket, unheard.receivers, unheard.is_unheard) == (NOT_STORED, 0, True)
    kernel.broker.at_once_max = 1
    assert outcome_of(kernel, "live/t").receivers == -1


def test_a_retained_message_whose_topic_is_not_stored_has_the_commit_of_the_retained_store() -> None:
    kernel = Kernel(stored=["kept/#"])
    outcome = outcome_of(kernel, "t", retain=True)
    assert (outcome.ticket, outcome.is_joined) == (1, True)


def test_a_will_that_is_retained_and_not_stored_is_kept_until_that_commit() -> None:
    kernel = Kernel(stored=["kept/#"])
    sub = kernel.connect("sub")
    sub.subscribe("t")
    kernel.connect("dying", will=p.Will("t", b"gone", 1, True, Properties())).drop()
    assert [word.split()[:2] for word in sub.heard()] == [["PUBLISH", "t"]]
    kernel.commit(rc.QUOTA_EXCEEDED)
    assert kernel.sessions.wills.published.statistics()["wills.refused"] == 1
    kernel.advance(60)
    assert [word.split()[:2] for word in sub.heard()] == [["PUBLISH", "t"]]


@cases(
    ("answer", "code", "ticket"),
    [(None, rc.SUCCESS, 1), (Refusal("invalid", rc.PAYLOAD_FORMAT_INVALID, False), rc.PAYLOAD_FORMAT_INVALID, 0)],
)
def test_the_outcome_says_how_a_callback_stopped_it(answer: Refusal | None, code: int, ticket: int) -> None:
    kernel = Kernel(stored=["kept/#"])

    def stop(message: Message) -> object:
        kernel.sink.tie()  # it keeps the message
        return STOP, answer

    hook(kernel, stop)
    sub = kernel.connect("sub")
    sub.subscribe("#")
    outcome = outcome_of(kernel, "t")
    assert outcome.refusal is not None
    assert (outcome.refusal.code, outcome.ticket, outcome.may_repeat) == (code, ticket, False)
    kernel.run()
    assert sub.heard() == []


def test_storage_refuses_only_what_its_publisher_repeats() -> None:
    kernel = Kernel(stored=["kept/#"])
    kernel.sink = RefusingSink(["kept/#"])
    kernel.broker.set_sink(kernel.sink)
    kernel.broker.is_refusing = True
    refused = outcome_of(kernel, "kept/t", may_refuse=True)
    assert (refused.unkept, refused.may_repeat, refused.ticket) == (rc.QUOTA_EXCEEDED, True, NOT_STORED)
    assert outcome_of(kernel, "live/t", may_refuse=True).unkept == rc.SUCCESS
    assert outcome_of(kernel, "kept/t").ticket == 1
    hook(kernel, lambda message: (OK, message_to(kernel, "kept/t")))
    assert outcome_of(kernel, "live/t", may_refuse=True).unkept == rc.QUOTA_EXCEEDED
    assert kernel.broker.counters.snapshot()["messages.refused"] == 2


def test_what_a_client_causes_is_not_published_below_the_broker_s_own_topics() -> None:
    kernel = Kernel()
    kernel.broker.protects_sys = True
    told: list[str] = []
    kernel.broker.hooks.message_dropped.add(lambda message, reason, _: told.append(reason))
    outcome = outcome_of(kernel, "$SYS/t")
    assert outcome.refusal is not None
    assert outcome.refusal.code == rc.NOT_AUTHORIZED
    assert told == ["not_authorized"]
    assert publish(kernel.broker, message_to(kernel, "$SYS/t", clientid="")).refusal is None
    hook(kernel, lambda message: (OK, message_to(kernel, "$SYS/t")))
    assert outcome_of(kernel, "t").refusal is outcome.refusal
    pub = kernel.connect("pub")
    pub.publish("t", b"", 1, 7)
    assert pub.heard() == ["PUBACK #7 0x87"]
    assert kernel.broker.counters.snapshot()["packets.publish.auth_error"] == 3


@cases("topic", ["a/+", "", "a\0"])
def test_to_what_is_no_topic_name_nothing_is_published(topic: str) -> None:
    kernel = Kernel()
    with pytest.raises(ProtocolError):
        outcome_of(kernel, topic)
    assert kernel.broker.counters.snapshot()["messages.publish"] == 0


class PickySink(FakeSink):
    """Storage that raises at one topic."""

    def append(self, message: Message) -> int:
        if message.topic == "faulty":
            raise RuntimeError("not today")
        return super().append(message)


def test_messages_of_rules_that_wait_for_a_callback_are_bounded_as_those_that_wait_for_a_turn() -> None:
    kernel = Kernel()
    asked: list[Pending[object]] = []

    def inspect(message: Message) -> object:
        asked.append(Pending())
        return asked[-1]

    hook(kernel, inspect)
    own, counters = queue(kernel), PublishCounters()
    for _ in range(150):
        own.put(message_to(kernel, "t"), False, counters)
        kernel.run()
    assert (len(asked), len(own), counters.published, counters.dropped) == (100, 100, 0, 50)
    asked[0].resolve(OK)
    own.put(message_to(kernel, "t"), False, counters)
    kernel.run()
    assert (len(asked), len(own), counters.published, counters.dropped) == (101, 100, 1, 50)
    kernel.advance(20)
    assert (len(own), counters.published) == (0, 101)


@cases("maker", ["a rule", "a delay", "the system"])
def test_a_message_that_raises_keeps_none_behind_it_from_being_published(maker: str) -> None:
    kernel = Kernel(stored=["#"])
    kernel.sink = PickySink(["#"])
    kernel.broker.set_sink(kernel.sink)
    faults = kernel.contain_faults()
    messages, outgoing = queue(kernel), SystemMessageQueue(SystemPublisher(kernel.context))
    logger = logging.getLogger("test")
    delayed = DelayedMessages(
        kernel.broker, None, None, IdSource(1, 1000), kernel.defer, lambda clientid: False, logger
    )
    for topic in ("faulty", "t"):
        if maker == "a rule":
            messages.put(message_to(kernel, topic), False, PublishCounters())
        elif maker == "a delay":
            assert delayed.take(message_to(kernel, f"$delayed/1/{topic}")) is None
        else:
            outgoing.put(topic, b"x")
    kernel.now_us += 2_000_000
    kernel.broker.begin_turn(kernel.now_us)
    delayed.tick(kernel.now_us)
    kernel.turn()
    assert [message.topic for _, message in kernel.sink.messages] == ["t"]
    assert [boundary for boundary, _ in faults] == ["publishing"]
    assert len(messages) == len(delayed) == 0


def test_a_split_turn_tells_what_was_received_before_and_runs_ahead_of_the_clock_by_messages_only() -> None:
    kernel = Kernel()
    broker = kernel.broker
    began = broker.now_us
    publish(broker, message_to(kernel, "t"))
    assert [broker.split_turn() for _ in range(3)] == [began] * 3
    later = message_to(kernel, "t")
    assert later.id_high > began
    publish(broker, later)
    assert broker.split_turn() == later.id_high
    broker.begin_turn(began)
    assert broker.now_us > later.id_high
