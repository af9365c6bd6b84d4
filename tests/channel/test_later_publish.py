"""Callbacks of `message.publish` that answer later: the publisher waits, in order, and its message with it."""

from heliograph.broker import hooks
from heliograph.broker.hooks import Refusal
from heliograph.broker.message import Message
from heliograph.broker.pending import Pending
from heliograph.mqtt import packets as p
from heliograph.mqtt import reason_codes as rc
from support.cases import cases
from support.kernel import Kernel, Peer
from support.packets import properties, publish


class Inspector:
    """Looks at messages below `?` for longer than a turn."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.seen: list[str] = []
        self.cancelled: list[str] = []
        self._pending: dict[str, Pending[object]] = {}
        kernel.broker.hooks.message_publish.add(self._inspect, 5, wants=lambda topic: topic.startswith("?"))

    def _inspect(self, message: Message) -> object:
        text = message.payload.decode()
        self.seen.append(text)
        pending: Pending[object] = Pending()
        pending.on_cancel(lambda: self.cancelled.append(text))
        self._pending[text] = pending
        return pending

    def say(self, text: str, answer: object) -> None:
        """Answer for the message with that payload, and run what comes of it."""
        self._pending[text].resolve(answer)
        self.kernel.run()


def world(*stored: str) -> tuple[Kernel, Inspector, Peer]:
    """A kernel, its inspector, and a client that gets everything."""
    kernel = Kernel(stored=stored)
    inspector = Inspector(kernel)
    watcher = kernel.connect("watcher")
    watcher.subscribe("#", 2)
    return kernel, inspector, watcher


@cases("answer", [None, hooks.OK, hooks.STOP])
def test_a_message_goes_on_when_it_was_looked_at_and_what_came_behind_it_follows(answer: object) -> None:
    kernel, inspector, watcher = world()
    peer = kernel.connect()
    peer.send(publish("a", b"1", 1, 1), publish("?", b"2", 1, 2), publish("b", b"3", 0, 0), publish("?", b"4", 1, 4))
    assert (peer.heard(), watcher.heard(), inspector.seen) == (["PUBACK #1"], ["PUBLISH a '1' q1 #1"], ["2"])
    inspector.say("2", answer)
    assert peer.heard() == ["PUBACK #2"]
    assert watcher.heard() == ["PUBLISH ? '2' q1 #2", "PUBLISH b '3' q0"]
    inspector.say("4", answer)
    assert (peer.heard(), watcher.heard()) == (["PUBACK #4"], ["PUBLISH ? '4' q1 #3"])
    assert not peer.paused()


def test_a_message_is_changed_later_for_the_callbacks_behind() -> None:
    kernel, inspector, watcher = world()
    behind: list[str] = []
    kernel.broker.hooks.message_publish.add(lambda message: behind.append(message.topic))
    peer = kernel.connect()
    peer.publish("?", b"x", 1, 1)
    assert behind == []
    changed = Message(1, 1, "other", publish("other", b"changed", 1, 1), "c", None, -1)
    inspector.say("x", (hooks.OK, changed))
    assert behind == ["other"]
    assert (peer.heard(), watcher.heard()) == (["PUBACK #1"], ["PUBLISH other 'changed' q1 #1"])


@cases(
    ("version", "answer", "said"),
    [
        (p.V5, (hooks.STOP, None), ["PUBREC #1"]),
        (p.V5, (hooks.STOP, Refusal("bad", rc.PAYLOAD_FORMAT_INVALID, False)), ["PUBREC #1 0x99"]),
        (p.V3_1_1, (hooks.STOP, Refusal("bad", rc.PAYLOAD_FORMAT_INVALID, False)), ["PUBREC #1"]),
        (p.V5, (hooks.STOP, Refusal("bad", rc.PAYLOAD_FORMAT_INVALID, True)), ["DISCONNECT 0x99"]),
    ],
)
def test_a_message_is_stopped_later(version: int, answer: object, said: list[str]) -> None:
    kernel, inspector, watcher = world()
    peer = kernel.connect(version=version)
    peer.publish("?", b"x", 2, 1)
    inspector.say("x", answer)
    assert (peer.heard(), watcher.heard()) == (said, [])


def test_a_message_that_is_stored_is_acknowledged_after_its_commit() -> None:
    kernel, inspector, _ = world("?")
    peer = kernel.connect()
    peer.publish("?", b"x", 1, 1, retain=True)
    assert (kernel.sink.messages, len(kernel.retainer)) == ([], 0)
    inspector.say("x", None)
    assert peer.received() == []
    kernel.commit()
    assert peer.heard() == ["PUBACK #1"]
    assert (len(kernel.sink.messages), len(kernel.retainer)) == (1, 1)


def test_a_message_that_waits_is_not_published_for_a_client_that_goes() -> None:
    kernel, inspector, watcher = world()
    peer = kernel.connect()
    peer.publish("?", b"x", 1, 1)
    peer.drop()
    assert inspector.cancelled == ["x"]
    inspector.say("x", None)
    kernel.advance(20)
    assert (watcher.heard(), kernel.hook_failures) == ([], [])


def test_two_publishers_wait_each_for_its_own_message() -> None:
    kernel, inspector, watcher = world()
    first, second = kernel.connect("first"), kernel.connect("second")
    first.publish("?", b"1", 1, 1)
    second.publish("?", b"2", 1, 1)
    inspector.say("2", None)
    assert (first.heard(), second.heard()) == ([], ["PUBACK #1"])
    inspector.say("1", None)
    assert watcher.heard() == ["PUBLISH ? '2' q1 #1", "PUBLISH ? '1' q1 #2"]


def test_a_callback_that_does_not_answer_in_time_is_passed_over() -> None:
    kernel, inspector, watcher = world()
    peer = kernel.connect(keepalive_s=5)
    peer.publish("?", b"x", 1, 1)
    kernel.advance(14)
    assert peer.received() == []
    kernel.advance(1)
    assert (peer.heard(), watcher.heard()) == (["PUBACK #1"], ["PUBLISH ? 'x' q1 #1"])
    assert inspector.cancelled == ["x"]
    assert [(name, type(error)) for name, error in kernel.hook_failures] == [("message.publish", hooks.LateAnswerError)]


def test_a_second_connection_takes_over_while_a_message_waits() -> None:
    kernel, inspector, watcher = world()
    first = kernel.connect()
    first.publish("?", b"x", 1, 1)
    second = kernel.connect()
    assert (first.heard(), inspector.cancelled) == (["DISCONNECT 0x8e"], ["x"])
    second.publish("a", b"y", 1, 1)
    assert (second.heard(), watcher.heard()) == (["PUBACK #1"], ["PUBLISH a 'y' q1 #1"])


@cases(("in_time", "cancelled"), [(True, []), (False, ["gone"])])
def test_a_will_waits_too_and_alone(in_time: bool, cancelled: list[str]) -> None:
    kernel, inspector, watcher = world()
    peer = kernel.connect(will=p.Will("?", b"gone", 1, False, properties()))
    peer.drop()
    assert (watcher.heard(), inspector.seen) == ([], ["gone"])
    if in_time:
        inspector.say("gone", None)
    else:
        kernel.advance(15)
    assert watcher.heard() == ["PUBLISH ? 'gone' q1 #1"]
    assert inspector.cancelled == cancelled


def test_a_qos_2_message_that_waits_is_published_once() -> None:
    kernel, inspector, watcher = world()
    peer = kernel.peer()
    peer.connect("c", session_expiry_interval=60)
    peer.publish("?", b"x", 2, 1)
    peer.drop()
    again = kernel.peer()
    again.connect("c", clean_start=False, session_expiry_interval=60)
    again.skip()
    again.publish("?", b"x", 2, 1, dup=True)
    assert inspector.seen == ["x", "x"]  # the first one was never taken
    inspector.say("x", None)
    assert again.heard() == ["PUBREC #1"]
    again.publish("?", b"x", 2, 1, dup=True)
    assert again.heard() == ["PUBREC #1"]
    assert watcher.heard() == ["PUBLISH ? 'x' q2 #1"]
