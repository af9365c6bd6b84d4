"""Callbacks that take a message and say later what became of it: its acknowledgement waits, and nothing else."""

from dataclasses import replace

from heliograph.broker import hooks
from heliograph.broker.actions import Action
from heliograph.broker.hooks import DeferredAck
from heliograph.broker.message import Message
from heliograph.broker.pending import Pending
from heliograph.channel.options import ChannelOptions
from heliograph.mqtt import packets as p
from heliograph.mqtt import reason_codes as rc
from support.cases import cases
from support.kernel import Kernel, Peer
from support.options import CHANNEL, SESSION
from support.packets import properties, publish


class Taker:
    """Takes messages below `$file`, as file transfer does, and says later what became of them."""

    def __init__(self, kernel: Kernel, due_us: int = 0) -> None:
        self.kernel = kernel
        self.due_us = due_us
        self.taken: list[str] = []
        self.cancelled: list[str] = []
        self._done: dict[str, Pending[int]] = {}
        kernel.broker.hooks.message_publish.add(self._take, wants=lambda topic: topic.startswith("$file"))

    def _take(self, message: Message) -> object:
        if not message.topic.startswith("$file"):
            return None
        text = message.payload.decode()
        self.taken.append(text)
        done: Pending[int] = Pending()
        done.due_us = self.due_us
        done.on_cancel(lambda: self.cancelled.append(text))
        if text == "at once":
            done.resolve(rc.SUCCESS)
        self._done[text] = done
        return hooks.STOP, DeferredAck(done)

    def say(self, text: str, code: int = rc.SUCCESS) -> None:
        """Say what became of the message with that payload, and run what comes of it."""
        self._done[text].resolve(code)
        self.kernel.run()


def world(
    *stored: str, version: int = p.V5, due_us: int = 0, options: ChannelOptions | None = None
) -> tuple[Kernel, Taker, Peer, Peer]:
    """A kernel, its taker, a client that gets everything, and one that publishes."""
    kernel = Kernel(options, stored=stored)
    taker = Taker(kernel, due_us)
    watcher = kernel.connect("watcher")
    watcher.subscribe("#", 1)
    return kernel, taker, watcher, kernel.connect("c", version=version, session_expiry_interval=600)


def test_acknowledgements_wait_in_order_and_messages_do_not() -> None:
    _, taker, watcher, peer = world()
    peer.send(
        publish("a", b"1", 1, 1), publish("$file", b"2", 1, 2), publish("a", b"3", 1, 3), publish("a", b"4", 0, 0)
    )
    peer.send(publish("$file", b"5", 2, 5), publish("a", b"6", 1, 6), p.Ping(p.PINGREQ))
    assert peer.heard() == ["PUBACK #1", "PINGRESP"]
    assert [packet.split()[2] for packet in watcher.heard()] == ["'1'", "'3'", "'4'", "'6'"]
    assert (taker.taken, peer.paused()) == (["2", "5"], False)
    taker.say("5")
    assert peer.heard() == []
    taker.say("2")
    assert peer.heard() == ["PUBACK #2", "PUBACK #3", "PUBREC #5", "PUBACK #6"]
    peer.ack(p.PUBREL, 5)
    assert peer.heard() == ["PUBCOMP #5"]
    peer.publish("a", b"7", 1, 7)
    assert peer.heard() == ["PUBACK #7"]


@cases("is_commit_first", [False, True])
def test_acknowledgements_wait_for_callbacks_and_commits(is_commit_first: bool) -> None:
    kernel, taker, _, peer = world("s")
    peer.send(publish("s", b"1", 1, 1), publish("$file", b"2", 1, 2), publish("s", b"3", 1, 3))
    kernel.commit() if is_commit_first else taker.say("2")
    assert peer.heard() == (["PUBACK #1"] if is_commit_first else [])
    taker.say("2") if is_commit_first else kernel.commit()
    assert peer.heard() == (["PUBACK #2", "PUBACK #3"] if is_commit_first else ["PUBACK #1", "PUBACK #2", "PUBACK #3"])


def test_what_is_said_at_once_lets_nothing_wait() -> None:
    _, _, _, peer = world()
    peer.send(publish("$file", b"at once", 2, 1), publish("a", b"", 1, 2))
    assert peer.heard() == ["PUBREC #1", "PUBACK #2"]


@cases(
    ("version", "code", "said"),
    [
        (p.V5, rc.QUOTA_EXCEEDED, "PUBREC #1 0x97"),
        (p.V5, rc.BANNED, "PUBREC #1 0x80"),  # which no acknowledgement may say
        (p.V5, rc.NO_MATCHING_SUBSCRIBERS, "PUBREC #1"),
        (p.V3_1_1, rc.QUOTA_EXCEEDED, "PUBREC #1"),
    ],
)
def test_a_message_is_refused_later(version: int, code: int, said: str) -> None:
    kernel, taker, _, peer = world(version=version)
    peer.send(publish("$file", b"x", 2, 1, version=version), publish("a", b"y", 1, 2, version=version))
    taker.say("x", code)
    assert peer.heard() == [said, "PUBACK #2"]
    peer.publish("$file", b"x", 2, 1, dup=True)
    is_refused = "0x" in said
    assert len(taker.taken) == (2 if is_refused else 1)  # what was refused is a new message when it comes again
    assert kernel.broker.counters.messages_refused == is_refused


def test_a_client_is_told_when_nothing_is_said_in_time() -> None:
    kernel, taker, _, peer = world()
    peer.send(publish("$file", b"x", 1, 1), publish("a", b"y", 1, 2))
    kernel.advance(14)
    assert peer.heard() == []
    kernel.advance(1)
    assert peer.heard() == ["PUBACK #1 0x80", "PUBACK #2"]
    assert taker.cancelled == ["x"]
    taker.say("x")
    assert peer.heard() == []


def test_a_client_of_mqtt_3_is_to_repeat_what_is_not_said_in_time() -> None:
    kernel, taker, _, peer = world(version=p.V3_1_1)
    peer.send(publish("$file", b"x", 1, 1, version=p.V3_1_1), publish("a", b"y", 1, 2, version=p.V3_1_1))
    kernel.advance(15)
    assert (peer.heard(), peer.closed()) == ([], True)
    assert taker.cancelled == ["x"]


def test_a_callback_has_a_deadline_of_its_own() -> None:
    kernel, taker, _, peer = world()
    taker.due_us = kernel.now_us + 60_000_000
    peer.publish("$file", b"x", 1, 1)
    kernel.advance(59)
    assert peer.heard() == []
    kernel.advance(1)
    assert peer.heard() == ["PUBACK #1 0x80"]


@cases("qos", [1, 2])
def test_a_client_goes_before_anything_is_said(qos: int) -> None:
    kernel, taker, _, peer = world("s")
    peer.send(publish("$file", b"x", qos, 1), publish("s", b"y", qos, 2))
    peer.drop()
    assert taker.cancelled == ["x"]
    taker.say("x")
    kernel.commit()
    again = kernel.peer()
    again.connect("c", clean_start=False, session_expiry_interval=600)
    again.skip()
    again.publish("$file", b"x", qos, 1, dup=True)
    assert taker.taken == ["x", "x"]  # nobody said that it was taken
    taker.say("x")
    assert len(again.heard()) == 1
    assert kernel.hook_failures == []


def test_nothing_waits_at_qos_0_or_for_a_will() -> None:
    kernel, taker, watcher, peer = world()
    peer.send(publish("$file", b"x", 0, 0), publish("a", b"y", 1, 2))
    assert peer.heard() == ["PUBACK #2"]
    other = kernel.connect("other", will=p.Will("$file", b"will", 1, False, properties()))
    watcher.skip()
    other.drop()
    kernel.advance(20)
    assert (taker.taken, watcher.heard()) == (["x", "will"], [])


@cases("version", [p.V5, p.V3_1_1])
def test_a_client_has_no_more_messages_on_their_way_than_it_was_told(version: int) -> None:
    options = replace(CHANNEL, session=replace(SESSION, max_awaiting_rel=3))
    _, taker, _, peer = world(version=version, options=options)
    peer.send(*(publish("$file", b"%d" % number, 1, number, version=version) for number in range(1, 5)))
    assert peer.heard() == (["DISCONNECT 0x93"] if version == p.V5 else [])
    assert peer.closed()
    assert taker.cancelled == ["4", "1", "2", "3"]


def test_a_callback_that_raises_when_it_is_cancelled_keeps_no_client() -> None:
    kernel = Kernel()
    faults = kernel.contain_faults()

    def fail() -> None:
        raise ValueError

    def take(message: Message) -> object:
        done: Pending[int] = Pending()
        done.on_cancel(fail)
        return hooks.STOP, DeferredAck(done)

    kernel.broker.hooks.message_publish.add(take)
    late, gone = kernel.connect("late"), kernel.connect("gone")
    late.publish("t", b"", 1, 1)
    gone.publish("t", b"", 1, 1)
    gone.drop()
    assert len(kernel.context.channels) == 1
    kernel.advance(15)
    assert late.heard() == ["PUBACK #1 0x80"]
    assert [type(error) for _, error in faults] == [ValueError, ValueError]


def test_a_refusal_is_not_that_of_later_messages() -> None:
    kernel, taker, _, peer = world("s")
    kernel.broker.hooks.message_publish.add(lambda message: kernel.sink.tie(), priority=1)
    peer.publish("$file", b"1", 1, 1)
    taker.say("1", rc.QUOTA_EXCEEDED)
    peer.send(publish("s", b"2", 1, 2, retain=True), publish("s", b"3", 2, 3, retain=True))
    kernel.commit()
    assert peer.heard() == ["PUBACK #1 0x97", "PUBACK #2", "PUBREC #3"]


def test_a_message_is_not_kept_for_a_client_that_its_callback_ends() -> None:
    kernel = Kernel()
    cancelled: list[bool] = []

    def take(message: Message) -> object:
        channel = kernel.context.channels.find("c")
        assert channel is not None
        channel.shut_down(rc.ADMINISTRATIVE_ACTION)
        done: Pending[int] = Pending()
        done.on_cancel(lambda: cancelled.append(True))
        return hooks.STOP, DeferredAck(done)

    peer = kernel.connect("c", session_expiry_interval=600)
    kernel.broker.hooks.message_publish.add(take)
    peer.publish("t", b"", 2, 1)
    session = kernel.sessions.find("c")
    assert session is not None
    assert (cancelled, len(session.awaiting_rel)) == ([True], 0)


def test_a_callback_that_gives_up_has_its_message_refused() -> None:
    kernel, peers = Kernel(), []

    def take(message: Message) -> object:
        done: Pending[int] = Pending()
        done.cancel()
        return hooks.STOP, DeferredAck(done)

    kernel.broker.hooks.message_publish.add(take)
    peers.append(kernel.connect("c"))
    peers[0].publish("t", b"", 1, 1)
    kernel.advance(1)
    assert peers[0].heard() == ["PUBACK #1 0x80"]


def test_each_message_needs_an_answer_of_its_own() -> None:
    kernel = Kernel()
    faults = kernel.contain_faults()
    done: Pending[int] = Pending()
    kernel.broker.hooks.message_publish.add(lambda message: (hooks.STOP, DeferredAck(done)))
    peer = kernel.connect("c")
    peer.send(publish("t", b"", 1, 1), publish("t", b"", 1, 2))
    kernel.run()
    assert peer.closed()
    assert [type(error) for _, error in faults] == [RuntimeError]


def test_a_repeated_message_gets_one_answer() -> None:
    _, taker, _, peer = world()
    peer.send(publish("$file", b"x", 2, 1), publish("$file", b"x", 2, 1, dup=True))
    taker.say("x", rc.QUOTA_EXCEEDED)
    assert peer.heard() == ["PUBREC #1 0x97"]


def test_nothing_is_awaited_at_qos_0() -> None:
    _, taker, _, peer = world()
    peer.publish("$file", b"x", 0)
    assert taker.cancelled == ["x"]


def test_a_refused_commit_forgets_no_message_that_came_later() -> None:
    kernel, taker, _, peer = world("s")
    kernel.broker.hooks.message_publish.add(lambda message: kernel.sink.tie(), priority=1)
    peer.publish("$file", b"1", 2, 5)
    peer.drop()
    again = kernel.peer()
    again.connect("c", clean_start=False, session_expiry_interval=600)
    again.skip()
    kernel.sink.cut()
    again.publish("$file", b"2", 2, 5)
    taker.say("2")
    kernel.commit(rc.QUOTA_EXCEEDED)
    kernel.commit()
    again.ack(p.PUBREL, 5)
    assert again.heard() == ["PUBREC #5", "PUBCOMP #5"]


def test_a_subscribe_stops_when_a_callback_ends_its_client() -> None:
    kernel = Kernel(replace(CHANNEL, exclusive_subscription=True))

    def kick(*_: object) -> None:
        channel = kernel.context.channels.find("c")
        if channel is not None:
            channel.shut_down(rc.ADMINISTRATIVE_ACTION)

    kernel.broker.hooks.session_subscribed.add(kick)
    peer = kernel.connect("c")
    peer.send_subscribe(*(p.SubscribeEntry(name, 0, False, False, 0) for name in ("a", "$exclusive/x")))
    kernel.run()
    assert (peer.heard(), len(kernel.broker.exclusive)) == (["DISCONNECT 0x98"], 0)


def test_a_client_that_goes_while_its_rights_are_asked_is_asked_no_more() -> None:
    kernel = Kernel(replace(CHANNEL, max_packet_size=10_000_000))
    cancelled: list[str] = []
    peer = kernel.connect("c", session_expiry_interval=600)
    peer.send_subscribe(*(p.SubscribeEntry(f"f{number}", 0, False, False, 0) for number in range(20_000)))
    peer.drop()

    def authorize(client: object, action: Action, topic: str, accumulator: object) -> object:
        if topic != "f0":
            return None
        pending: Pending[object] = Pending()
        pending.on_cancel(lambda: cancelled.append(topic))
        return pending

    kernel.broker.hooks.client_authorize.add(authorize)
    again = kernel.peer()
    again.feed(again.encoded(p.Connect(5, "c", False, 0, None, None, None, properties(session_expiry_interval=600))))
    kernel.turn()
    again.drop()
    assert cancelled == ["f0"]


def test_an_answer_that_fails_twice_disturbs_no_other_client() -> None:
    kernel = Kernel(replace(CHANNEL, authz_disconnects=True))
    faults = kernel.contain_faults()
    pendings: list[Pending[object]] = []

    def authorize(*_: object) -> object:
        pendings.append(Pending())
        return pendings[-1]

    def fail(*_: object) -> None:
        raise OSError

    first, second = kernel.connect("first"), kernel.connect("second")
    kernel.broker.hooks.client_authorize.add(authorize)
    for peer in (first, second):
        peer.publish("t", b"", 1, 1)
    kernel.context.report = fail
    for pending in pendings:
        pending.resolve((hooks.STOP, "deny"))
    kernel.run()
    assert (first.closed(), second.closed(), len(faults)) == (True, True, 2)


def test_one_answer_is_not_given_to_two_questions() -> None:
    kernel = Kernel()
    asked: Pending[object] = Pending()
    authorize = kernel.broker.hooks.client_authorize
    authorize.add(lambda *_: asked)
    first, second = kernel.connect("first"), kernel.connect("second")
    first.publish("t", b"", 1, 1)
    second.publish("t", b"", 1, 2)
    assert (first.heard(), second.heard(), authorize.failures_count) == ([], ["PUBACK #2 0x87"], 1)
    asked.resolve((hooks.STOP, "allow"))
    kernel.run()
    assert first.heard() == ["PUBACK #1 0x10"]
