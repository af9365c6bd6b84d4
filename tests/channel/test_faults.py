"""One object that raises ends alone: everybody behind it is served in the same turn, and the fault is counted once."""

from dataclasses import replace

import pytest

from heliograph.broker.hooks import OK, Hooks
from heliograph.broker.message import Message, make_message
from heliograph.broker.pending import Pending
from heliograph.broker.pubsub import Broker
from heliograph.broker.router import Router
from heliograph.broker.subscription import Subscriber, Subscription
from heliograph.channel.handles import ChannelHandle, CommitWaiter, ReaderHandle
from heliograph.mqtt import packets as p
from heliograph.mqtt import reason_codes as rc
from heliograph.mqtt.properties import Properties
from heliograph.session.group_delivery import GroupDispatcher
from heliograph.session.outbox import Outbox
from support.cases import cases
from support.kernel import FakeSink, FakeWire, Kernel, Peer
from support.options import CHANNEL, LISTENER
from support.packets import publish


class FaultError(Exception):
    """A fault of ours, as nothing expects it."""


class FaultyWire(FakeWire):
    """A connection of which one operation raises."""

    def __init__(self, fault: str) -> None:
        super().__init__()
        self.fault = fault

    def write(self, data: bytes) -> None:
        if self.fault.startswith("write"):
            raise RuntimeError("unable to perform operation on <TCPTransport closed=True>; the handler is closed")
        super().write(data)

    def abort(self) -> None:
        super().abort()
        if self.fault.endswith("abort"):
            raise FaultError


class FaultySubscriber(Subscriber):
    """Takes no message without raising."""

    def __init__(self) -> None:
        super().__init__("faulty")
        self.aborted = 0

    def deliver(self, message: Message, subscription: Subscription) -> None:
        raise FaultError

    def offer(self, message: Message, subscription: Subscription, last: bool) -> bool:
        raise FaultError

    def abort(self) -> None:
        self.aborted += 1


class FaultyWaiter(CommitWaiter):
    """Raises when its commit is done."""

    def __init__(self) -> None:
        self.aborted = 0

    def on_committed(self, ticket: int, code: int) -> None:
        raise FaultError

    def abort(self) -> None:
        self.aborted += 1


class FaultyReader(ReaderHandle):
    """A reader that raises whatever wakes it."""

    def __init__(self) -> None:
        self.aborted = 0

    def fail(self) -> None:
        raise FaultError

    def on_room(self) -> None:
        self.fail()

    def on_turn(self) -> None:
        self.fail()

    def on_spread(self) -> None:
        self.fail()

    def abort(self) -> None:
        self.aborted += 1


class FaultyChannel(ChannelHandle):
    """A channel that raises whatever it is told."""

    def __init__(self) -> None:
        self.aborted = 0

    def fail(self) -> None:
        raise FaultError

    def on_tick(self, uptime_us: int) -> None:
        self.fail()

    def take_over(self, discard: bool) -> Pending[bool] | None:
        raise FaultError

    def shut_down(self, code: int) -> None:
        self.fail()

    def abort(self) -> None:
        self.aborted += 1


class PickySink(FakeSink):
    """Storage that raises at one topic."""

    def append(self, message: Message) -> int:
        if message.topic == "faulty":
            raise FaultError
        return super().append(message)


class FaultyDispatcher(GroupDispatcher):
    """Takes nothing back."""

    def on_room(self, session: Subscriber) -> None:
        """There is nothing to lend."""

    def on_detached(self, session: Subscriber) -> None:
        raise FaultError


def contained(kernel: Kernel) -> dict[str, int]:
    """The boundaries at which faults were contained, with how many."""
    counts = kernel.broker.faults.by_boundary()
    assert kernel.broker.statistics()["faults.contained"] == sum(counts.values())
    return {boundary: count for boundary, count in counts.items() if count}


def subscribe(kernel: Kernel, subscriber: Subscriber, topic_filter: str, group: str = "") -> None:
    kernel.broker.subscribe(Subscription(subscriber, topic_filter, 1, False, False, 0, 0, group))


def payloads(peer: Peer) -> list[bytes]:
    return [packet.payload for packet in peer.received() if isinstance(packet, p.Publish)]


# --- the flush


@cases("fault", ["write", "write and abort"])
@cases("count", [3, 600])
def test_outboxes_behind_one_whose_write_raises_are_written_in_the_same_turn(fault: str, count: int) -> None:
    kernel = Kernel()
    faults = kernel.contain_faults()
    faulty = FaultyWire(fault)
    wires = [FakeWire(), faulty, *(FakeWire() for _ in range(count))]
    outboxes = [Outbox(kernel.context.flusher, wire) for wire in wires]
    for outbox in outboxes:
        outbox.put(b"one")
    kernel.turn()
    assert all(bytes(wire.written) == b"one" for wire in wires[:500] if wire is not faulty)
    assert faulty.closed
    kernel.run()
    for outbox in outboxes:
        outbox.put(b" two")
    kernel.run()
    assert all(bytes(wire.written) == b"one two" for wire in wires if wire is not faulty)
    assert [boundary for boundary, _ in faults] == ["flush"] * len(fault.split(" and "))


def test_outboxes_that_waited_for_a_later_turn_are_written_behind_one_that_raises() -> None:
    kernel = Kernel()
    kernel.contain_faults()
    wires = [FakeWire() for _ in range(600)]
    wires[550] = FaultyWire("write")
    for wire in wires:
        Outbox(kernel.context.flusher, wire).put(b"one")
    kernel.turn()
    assert not wires[560].written
    kernel.turn()
    assert all(wire.written for wire in wires if wire is not wires[550])
    assert contained(kernel) == {"flush": 1}


def test_a_client_whose_connection_cannot_be_written_is_cut_and_its_receivers_neighbours_are_not() -> None:
    kernel = Kernel()
    subs = [kernel.connect(f"sub-{number}") for number in range(3)]
    for sub in subs:
        sub.subscribe("t", 1)
    pub = kernel.connect("pub")
    kernel.contain_faults()

    def write(data: bytes) -> None:
        raise RuntimeError("the handler is closed")

    session = kernel.sessions.find("sub-1")
    assert session is not None
    assert session.sender.outbox is not None
    session.sender.outbox.set_writer(write)
    pub.publish("t", b"1", 1, 7)
    assert [payloads(sub) for sub in subs] == [[b"1"], [], [b"1"]]
    assert pub.heard() == ["PUBACK #7"]
    assert subs[1].lost
    assert not subs[0].lost
    assert kernel.context.channels.find("sub-1") is None
    assert contained(kernel) == {"flush": 1}


# --- deliveries


@cases("topic_filter", ["t", "+"])
@cases("at_once_max", [2048, 1])
def test_a_subscriber_that_raises_is_cut_and_neither_publisher_nor_receivers_notice(
    topic_filter: str, at_once_max: int
) -> None:
    kernel = Kernel()
    kernel.broker.at_once_max = at_once_max
    faults = kernel.contain_faults()
    before, behind, alone = (kernel.connect(name) for name in ("before", "behind", "alone"))
    pub = kernel.connect("pub")
    faulty, only = FaultySubscriber(), FaultySubscriber()
    before.subscribe("t", 1)
    subscribe(kernel, faulty, topic_filter)
    behind.subscribe(topic_filter, 1)
    subscribe(kernel, only, "t/#")
    alone.subscribe("#", 1)
    for number in (1, 2):
        pub.publish("t", b"%d" % number, 1, number)
    for peer in (before, behind, alone):
        assert payloads(peer) == [b"1", b"2"]
    assert [" ".join(word.split()[:2]) for word in pub.heard()] == ["PUBACK #1", "PUBACK #2"]
    assert (faulty.aborted, only.aborted) == (2, 2)
    assert contained(kernel) == {"deliveries": 4}
    assert all(isinstance(error, FaultError) for _, error in faults)


def test_where_a_member_of_a_shared_group_raises_another_one_gets_the_message() -> None:
    kernel = Kernel()
    kernel.contain_faults()
    faulty = FaultySubscriber()
    subscribe(kernel, faulty, "t", "g")
    member, pub = kernel.connect("member"), kernel.connect("pub")
    member.subscribe("$share/g/t", 1)
    for number in range(1, 5):
        pub.publish("t", b"%d" % number, 1, number)
    assert payloads(member) == [b"1", b"2", b"3", b"4"]
    assert len(pub.heard()) == 4
    assert contained(kernel)["deliveries"] == faulty.aborted > 0


def test_a_publisher_that_raises_when_its_message_has_reached_all_holds_up_no_other() -> None:
    kernel = Kernel()
    kernel.broker.at_once_max = 1
    kernel.contain_faults()
    sub = kernel.connect("sub")
    for topic_filter in ("t/1", "t/+", "t/#"):
        sub.subscribe(topic_filter, 1)
    many = [kernel.connect(f"many-{number}") for number in range(3)]
    for peer in many:
        peer.subscribe("t/2", 1)
        peer.subscribe("t/1", 1)
    faulty = FaultyReader()
    message = make_message(kernel.broker.now_us, 1, "t/1", b"one", 1, False, b"", "p", None)
    assert kernel.broker.dispatch(kernel.broker.route(b"t/1"), message, faulty) == -1
    pub = kernel.connect("pub")
    pub.publish("t/2", b"two", 1, 1)
    assert all(payloads(peer) == [b"one", b"two"] for peer in many)
    assert faulty.aborted == 1
    assert contained(kernel) == {"fanouts": 1}


# --- commits, turns, ticks


def test_a_channel_that_raises_at_a_commit_keeps_no_acknowledgement_from_others() -> None:
    kernel = Kernel(stored=["#"])
    kernel.contain_faults()
    pubs = [kernel.connect(f"pub-{number}") for number in range(2)]
    pubs[0].publish("t", b"", 1, 1)
    faulty = FaultyWaiter()
    kernel.context.commits.wait(1, faulty)
    pubs[1].publish("t", b"", 1, 2)
    kernel.commit()
    assert [" ".join(pub.heard()[0].split()[:2]) for pub in pubs] == ["PUBACK #1", "PUBACK #2"]
    assert faulty.aborted == 1
    assert contained(kernel) == {"commits": 1}


def test_a_channel_that_raises_when_there_is_room_keeps_no_other_from_being_read() -> None:
    kernel = Kernel(stored=["#"])
    kernel.contain_faults()
    pub, faulty = kernel.connect("pub"), FaultyReader()
    kernel.sink.full = True
    kernel.context.commits.wait_for_room(faulty)
    pub.publish("t", b"", 1, 1)
    assert pub.paused()
    kernel.sink.full = False
    kernel.commit()
    assert not pub.paused()
    assert faulty.aborted == 1
    assert contained(kernel) == {"commits": 1}


def test_a_channel_that_raises_in_its_turn_keeps_no_other_from_having_its_own() -> None:
    kernel = Kernel()
    kernel.contain_faults()
    subs, pub = [kernel.connect(f"sub-{number}") for number in range(30)], kernel.connect("pub")
    for sub in subs:
        sub.subscribe("t")
    faulty = FaultyReader()
    kernel.context.turns.wait(faulty)
    pub.feed(b"".join(publish("t", b"x").data for _ in range(4000)))
    assert pub.paused()
    kernel.run()
    assert not pub.paused()
    assert all(len(payloads(sub)) == 4000 for sub in subs)
    assert faulty.aborted == 1
    assert contained(kernel) == {"turns": 1}


def test_a_channel_that_raises_at_a_tick_keeps_no_other_from_timing_out_nor_a_session_from_ending() -> None:
    kernel = Kernel()
    away = kernel.connect("away", session_expiry_interval=5)
    away.drop()
    kernel.contain_faults()
    faulty = FaultyChannel()
    kernel.context.channels.add(0, faulty)
    silent = kernel.connect("silent", keepalive_s=10)
    kernel.advance(16)
    assert silent.closed()
    assert kernel.sessions.find("away") is None
    assert faulty.aborted == 1
    assert contained(kernel) == {"ticks": 1}


def test_a_channel_that_raises_at_the_shutdown_keeps_no_other_from_its_disconnect() -> None:
    kernel = Kernel()
    kernel.contain_faults()
    faulty = FaultyChannel()
    kernel.context.channels.add(0, faulty)
    peer = kernel.connect("c")
    kernel.context.channels.shut_down(rc.SERVER_SHUTTING_DOWN)
    kernel.run()
    assert peer.take(p.Disconnect).code == rc.SERVER_SHUTTING_DOWN
    assert faulty.aborted == 1


def test_a_connection_that_raises_when_another_takes_its_client_id_is_cut_and_the_other_may_come_again() -> None:
    kernel = Kernel()
    kernel.contain_faults()
    faulty = FaultyChannel()
    kernel.context.channels.register("c", faulty)
    peer = kernel.peer()
    peer.connect("c")
    assert peer.heard() == ["CONNACK 0x88"]
    assert faulty.aborted == 1
    assert contained(kernel) == {"connections": 1}
    kernel.context.channels.unregister("c", faulty)
    kernel.connect("c")


# --- one connection


def picky(kernel: Kernel) -> None:
    """Have storage raise at one topic."""
    kernel.sink = PickySink(["#"])
    kernel.broker.set_sink(kernel.sink)


def test_a_publish_that_fails_in_the_broker_ends_its_own_connection_only() -> None:
    kernel = Kernel(stored=["#"])
    picky(kernel)
    faults = kernel.contain_faults()
    sub, bad, good = (kernel.connect(name) for name in ("sub", "bad", "good"))
    sub.subscribe("#", 1)
    bad.publish("faulty", b"1", 1, 1)
    assert bad.lost
    good.publish("t", b"2", 1, 2)
    kernel.commit()
    assert [" ".join(word.split()[:2]) for word in good.heard()] == ["PUBACK #2"]
    assert payloads(sub) == [b"2"]
    assert kernel.context.channels.find("bad") is None
    assert [(boundary, type(error)) for boundary, error in faults] == [("connections", FaultError)]


def test_a_publish_that_fails_once_a_callback_has_answered_is_no_fault_of_what_gave_the_answer() -> None:
    kernel = Kernel(stored=["#"])
    picky(kernel)
    answers: list[Pending[object]] = []

    def answer_later(message: Message) -> Pending[object]:
        answers.append(Pending())
        return answers[-1]

    kernel.broker.hooks.message_publish.add(answer_later)
    kernel.contain_faults()
    bad, good = kernel.connect("bad"), kernel.connect("good")
    bad.publish("faulty", b"1", 1, 1)
    good.publish("t", b"2", 1, 2)
    for answer in answers:
        answer.resolve(OK)
    kernel.run()
    kernel.commit()
    assert bad.lost
    assert [" ".join(word.split()[:2]) for word in good.heard()] == ["PUBACK #2"]
    assert contained(kernel) == {"publishing": 1}


def test_what_came_behind_a_message_that_failed_after_a_decision_is_not_published() -> None:
    kernel = Kernel(stored=["#"])
    picky(kernel)
    kernel.contain_faults()
    decision: Pending[object] = Pending()
    watcher = kernel.connect("watcher")
    watcher.subscribe("#", 1)
    kernel.broker.hooks.client_authorize.add(lambda client, action, topic, _: decision if topic == "faulty" else None)
    peer = kernel.connect("c")
    peer.send(publish("faulty", b"1", 1, 1), publish("t", b"2", 1, 2))
    kernel.context.turns.wait(FaultyReader())  # there is a turn before the end of the connection is told
    decision.resolve(OK)
    kernel.run()
    kernel.commit()
    assert peer.lost
    assert (peer.heard(), watcher.heard()) == ([], [])
    assert contained(kernel) == {"connections": 1, "turns": 1}


def test_a_session_that_cannot_be_left_leaves_no_connection_behind() -> None:
    kernel = Kernel()
    kernel.contain_faults()
    watcher = kernel.connect("watcher")
    watcher.subscribe("t", 1)
    peer = kernel.connect("c", will=p.Will("t", b"gone", 1, False, Properties()))
    peer.subscribe("#", 1)
    session = kernel.sessions.find("c")
    assert session is not None
    outbox = session.sender.outbox
    session.dispatcher = FaultyDispatcher()
    peer.drop()
    assert kernel.context.channels.statistics() == {"connections.open": 1, "live_connections.count": 1}
    assert kernel.sessions.find("c") is None
    assert kernel.broker.statistics()["subscriptions.count"] == 1
    assert payloads(watcher) == [b"gone"]
    assert outbox is not None
    outbox.put(b"too late")
    kernel.run()
    assert kernel.broker.counters.connections_closed == 1
    assert contained(kernel) == {"sessions": 1}


@cases("expiry_s", [0, 5])
def test_a_session_that_raises_when_it_ends_leaves_nothing_that_messages_go_to(expiry_s: int) -> None:
    kernel = Kernel()
    kernel.contain_faults()
    peer = kernel.connect("c", session_expiry_interval=expiry_s)
    for name in ("a", "b", "c"):
        peer.subscribe(name, 1)
    session = kernel.sessions.find("c")
    assert session is not None
    faulty = session.subscriptions["b"]
    kernel.broker.unsubscribe(faulty)  # to do so twice raises
    peer.drop()
    for _ in range(3):
        kernel.advance(10)
    assert kernel.sessions.find("c") is None
    assert kernel.broker.statistics()["subscriptions.count"] == 0
    assert kernel.sessions.statistics() == {"sessions.count": 0, "sessions.away": 0}
    assert contained(kernel) == {"sessions": 1}


def test_a_timer_that_fails_ends_its_own_connection() -> None:
    kernel = Kernel(replace(CHANNEL, listener=replace(LISTENER, messages_rate=10.0)))
    kernel.contain_faults()
    peer, other = kernel.connect("c"), kernel.connect("other")

    def fail() -> None:
        raise FaultError

    peer.send_bytes(b"".join(publish("t", b"").data for _ in range(11)))
    other.send_bytes(b"".join(publish("t", b"").data for _ in range(11)))
    assert peer.paused()
    assert other.paused()
    peer.wire.on_resume = fail
    kernel.advance(60)
    assert peer.lost
    assert not other.paused()
    assert contained(kernel) == {"connections": 1}


# --- wills and sessions that end


def test_a_will_that_cannot_be_published_keeps_no_other_will_nor_the_end_of_a_session() -> None:
    kernel = Kernel(stored=["#"])
    picky(kernel)
    kernel.contain_faults()
    sub = kernel.connect("sub")
    sub.subscribe("#", 1)
    for name, topic in (("bad", "faulty"), ("good", "t")):
        kernel.connect(name, will=p.Will(topic, b"gone", 1, False, Properties()), session_expiry_interval=5).drop()
    kernel.advance(10)
    kernel.commit()
    assert payloads(sub) == [b"gone"]
    assert kernel.sessions.find("bad") is None
    assert kernel.sessions.find("good") is None
    assert contained(kernel) == {"publishing": 1}


def test_a_fault_that_nobody_reports_is_not_contained() -> None:
    broker = Broker(Router(16, 100), Hooks())
    broker.subscribe(Subscription(FaultySubscriber(), "t", 0, False, False, 0, 0))
    with pytest.raises(FaultError):
        broker.dispatch(broker.route(b"t"), make_message(1, 1, "t", b"", 0, False, b"", "p", None))


def test_what_cuts_may_raise_too() -> None:
    broker = Broker(Router(16, 100), Hooks())
    told: list[str] = []
    broker.faults.on_fault = lambda boundary, error: told.append(f"{boundary}: {error!r}")

    def cut() -> None:
        raise FaultError("in the cut")

    broker.faults.contain("part", FaultError("in the part"), cut)
    assert told == ["part: FaultError('in the part')", "part: FaultError('in the cut')"]
    assert broker.faults.count("part") == 2
