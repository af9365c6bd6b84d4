import pytest

from heliograph.broker import hooks
from heliograph.broker.hooks import OK, STOP, Hooks
from heliograph.broker.message import Message
from heliograph.mqtt import packets as p
from support.cases import cases
from support.kernel import Kernel
from support.packets import properties, publish


def test_higher_priorities_run_first_and_equal_ones_in_the_order_they_came() -> None:
    point = Hooks().point(hooks.MESSAGE_PUBLISH)
    called: list[str] = []
    for name, priority in [("b", 0), ("a", 10), ("c", 0), ("d", -5)]:
        point.add(lambda _, name=name: called.append(name), priority)
    assert point.run((), None) == (OK, None)
    assert called == ["a", "b", "c", "d"]


@cases(
    ("answers", "outcome", "called"),
    [
        ([], (OK, 0), []),
        ([OK, OK], (OK, 0), [0, 0]),
        ([None, "anything"], (OK, 0), [0, 0]),
        ([(OK, 1), (OK, 2)], (OK, 2), [0, 1]),
        ([(OK, 1), OK], (OK, 1), [0, 1]),
        ([STOP, (OK, 1)], (STOP, 0), [0]),
        ([(OK, 1), (STOP, 5), (OK, 9)], (STOP, 5), [0, 1]),
        ([(STOP, None), OK], (STOP, None), [0]),
    ],
)
def test_what_the_answers_of_callbacks_do(answers: list[object], outcome: object, called: list[int]) -> None:
    point = Hooks().point(hooks.CLIENT_AUTHENTICATE)
    seen: list[object] = []

    def callback_for(answer: object) -> hooks.Callback:
        def callback(argument: str, accumulator: object) -> object:
            assert argument == "argument"
            seen.append(accumulator)
            return answer

        return callback

    for answer in answers:
        point.add(callback_for(answer))
    assert point.run(("argument",), 0) == outcome
    assert seen == called


@cases("answer", [(), (OK,), (OK, 1, 2)])
def test_an_answer_that_is_no_answer_counts_as_a_failure(answer: tuple[object, ...]) -> None:
    failures: list[str] = []
    point = Hooks(lambda name, error: failures.append(name)).point(hooks.MESSAGE_PUBLISH)
    point.add(lambda accumulator: answer)
    point.add(lambda accumulator: (OK, "next"))
    assert point.run((), "first") == (OK, "next")
    assert failures == ["message.publish"]


def test_a_callback_that_raises_is_reported_and_skipped() -> None:
    kernel = Kernel()
    point = kernel.broker.hooks.point(hooks.MESSAGE_PUBLISH)

    def fail(message: Message) -> None:
        raise RuntimeError("broken plugin")

    point.add(fail)
    peer = kernel.connect()
    peer.subscribe("t")
    peer.publish("t", b"x")
    assert peer.heard() == ["PUBLISH t 'x' q0"]
    assert [(name, str(error)) for name, error in kernel.hook_failures] == [("message.publish", "broken plugin")]
    assert point.failures_count == 1


def test_a_callback_that_was_removed_runs_no_more() -> None:
    point = Hooks().point(hooks.MESSAGE_PUBLISH)
    called: list[int] = []

    def callback(accumulator: object) -> None:
        called.append(1)

    point.add(callback, 3)
    point.run(())
    point.remove(callback)
    point.remove(callback)
    point.run(())
    assert called == [1]
    assert point.callbacks == []


def test_a_callback_may_leave_the_chain_while_it_runs() -> None:
    point = Hooks().point(hooks.MESSAGE_PUBLISH)
    called: list[str] = []

    def once(accumulator: object) -> None:
        called.append("once")
        point.remove(once)

    point.add(once)
    point.add(lambda accumulator: called.append("always"))
    point.run(())
    point.run(())
    assert called == ["once", "always", "always"]


def test_a_hook_point_that_does_not_exist() -> None:
    chains = Hooks()
    with pytest.raises(ValueError, match=r"hook point 'message\.pubish' does not exist; there are client\.connect"):
        chains.point("message.pubish")
    assert all(chains.point(name).name == name for name in hooks.NAMES)


# --- message.publish, as clients see it


def test_a_callback_changes_the_message() -> None:
    kernel = Kernel()

    def redirect(message: Message) -> object:
        changed = publish("other", b"changed " + message.payload, message.qos, 1 if message.qos else 0)
        return OK, Message(message.id_high, message.id_low, "other", changed, message.clientid, None, -1)

    kernel.broker.hooks.message_publish.add(redirect)
    peer = kernel.connect()
    peer.subscribe("t", 1)
    peer.subscribe("other", 1)
    peer.publish("t", b"x", 1, 5)
    assert peer.heard() == ["PUBLISH other 'changed x' q1 #1", "PUBACK #5"]


@cases(("qos", "answered"), [(0, []), (1, ["PUBACK #5"]), (2, ["PUBREC #5"])])
def test_a_callback_stops_the_message(qos: int, answered: list[str]) -> None:
    kernel = Kernel(stored=["#"])
    kernel.broker.hooks.message_publish.add(lambda message: (STOP, None))
    peer = kernel.connect()
    peer.subscribe("t", 2)
    peer.publish("t", b"x", qos, 5, retain=True)
    assert peer.heard() == answered
    assert kernel.sink.messages == []
    assert len(kernel.retainer) == 0


def test_a_callback_that_makes_an_invalid_topic_fails_and_the_message_goes_on() -> None:
    kernel = Kernel()

    def spoil(message: Message) -> object:
        packet = publish("no/+", message.payload)
        return OK, Message(message.id_high, message.id_low, "no/+", packet, message.clientid, None, -1)

    kernel.broker.hooks.message_publish.add(spoil)
    watcher = kernel.connect("watcher")
    watcher.subscribe("#")
    peer = kernel.connect("c", will=p.Will("w", b"gone", 0, False, properties()))
    peer.publish("t", b"x", 1, 5)
    assert peer.heard() == ["PUBACK #5"]  # not the client's fault
    peer.drop()
    assert watcher.heard() == ["PUBLISH t 'x' q0", "PUBLISH w 'gone' q0"]
    assert [name for name, _ in kernel.hook_failures] == ["message.publish"] * 2
    assert len(kernel.sessions) == 1


def test_stop_without_a_value_ends_the_chain_and_the_message_goes_on() -> None:
    kernel = Kernel()
    later: list[object] = []
    kernel.broker.hooks.message_publish.add(lambda message: STOP)
    kernel.broker.hooks.message_publish.add(later.append, -1)
    peer = kernel.connect()
    peer.subscribe("t")
    peer.publish("t", b"x")
    assert peer.heard() == ["PUBLISH t 'x' q0"]
    assert later == []


def record(called: list[str], name: str, accumulator: object) -> tuple[str, object]:
    called.append(name)
    return hooks.OK, accumulator


def test_hook_points_of_a_conversation_in_their_order() -> None:
    kernel = Kernel()
    called: list[str] = []
    for name in hooks.NAMES:
        kernel.broker.hooks.point(name).add(lambda *args, name=name: record(called, name, args[-1]))
    peer = kernel.connect()
    peer.subscribe("t", 1)
    peer.publish("t", b"x", 1, 5)
    peer.ack(p.PUBACK, 1)
    peer.received()
    peer.unsubscribe("t")
    peer.publish("t", b"x", 1, 6)
    peer.disconnect()
    assert called == [
        "client.connect",
        "client.authenticate",
        "client.check_authn_complete",
        "session.created",
        "client.connack",
        "client.connected",
        "client.authorize",
        "client.check_authz_complete",
        "client.subscribe",
        "session.subscribed",
        "client.authorize",
        "client.check_authz_complete",
        "message.publish",
        "message.delivered",
        "message.acked",
        "delivery.completed",
        "client.unsubscribe",
        "session.unsubscribed",
        "client.check_authz_complete",  # remembered
        "message.publish",
        "message.dropped",
        "session.terminated",
        "client.disconnected",
    ]


def test_a_callback_is_asked_about_the_topics_that_it_is_for() -> None:
    kernel = Kernel()
    seen: list[str] = []

    def note(message: Message) -> None:
        seen.append(message.topic)

    peer = kernel.connect()
    peer.publish("a/1")
    kernel.broker.hooks.message_publish.add(note, wants=lambda topic: topic.startswith("a/"))
    for topic in ("a/1", "b/1", "a/2"):
        peer.publish(topic)
    assert seen == ["a/1", "a/2"]
    kernel.broker.hooks.message_publish.remove(note)
    peer.publish("a/1")
    assert seen == ["a/1", "a/2"]


# --- callbacks that answer later


def authorizing(*answers: object) -> tuple[hooks.HookPoint[hooks.Callback], list[object]]:
    """The chain of `client.authenticate` with callbacks of such answers, and what each of them got."""
    point = Hooks().point(hooks.CLIENT_AUTHENTICATE)
    seen: list[object] = []

    def callback_for(answer: object) -> hooks.Callback:
        def callback(accumulator: object) -> object:
            seen.append(accumulator)
            if isinstance(answer, Exception):
                raise answer
            return answer

        return callback

    for answer in answers:
        point.add(callback_for(answer))
    return point, seen


def waiting(point: hooks.HookPoint[hooks.Callback]) -> tuple[hooks.PendingChain, list[tuple[str, object]]]:
    """A chain that waits, and what comes of it."""
    verdict, chain = point.run((), 0)
    assert verdict == hooks.WAITS
    assert isinstance(chain, hooks.PendingChain)
    outcomes: list[tuple[str, object]] = []
    chain.due_us = 1
    chain.then(outcomes.append)
    return chain, outcomes


@cases(
    ("answer", "outcome", "seen"),
    [
        ((STOP, 5), (STOP, 5), [0]),
        (STOP, (STOP, 0), [0]),
        ((OK, 5), (OK, 5), [0, 5]),
        (OK, (OK, 0), [0, 0]),
        (None, (OK, 0), [0, 0]),
        ((OK, 1, 2), (hooks.FAILED, 0), [0, 0]),
    ],
)
def test_a_chain_goes_on_with_an_answer_that_comes_later(answer: object, outcome: object, seen: list[object]) -> None:
    pending: hooks.Pending[object] = hooks.Pending()
    point, got = authorizing(pending, OK)
    _, outcomes = waiting(point)
    assert (outcomes, got) == ([], [0])
    pending.resolve(answer)
    pending.resolve((STOP, "too late"))
    assert (outcomes, got) == ([outcome], seen)


def test_several_callbacks_of_a_chain_answer_later() -> None:
    first, second = hooks.Pending[object](), hooks.Pending[object]()
    point, got = authorizing(first, second, (OK, 9))
    _, outcomes = waiting(point)
    first.resolve((OK, 1))
    assert (outcomes, got) == ([], [0, 1])
    second.resolve((OK, 2))
    assert (outcomes, got) == ([(OK, 9)], [0, 1, 2])


def test_an_answer_that_is_there_at_once_makes_nothing_wait() -> None:
    pending: hooks.Pending[object] = hooks.Pending()
    pending.resolve((OK, 3))
    point, got = authorizing(pending, OK)
    assert point.run((), 0) == (OK, 3)
    assert got == [0, 3]


@cases(("rest", "outcome"), [([], (hooks.FAILED, 0)), ([(OK, 1)], (hooks.FAILED, 1)), ([(STOP, 1)], (STOP, 1))])
def test_an_answer_that_does_not_come_in_time_is_a_failure(rest: list[object], outcome: object) -> None:
    cancelled: list[str] = []
    pending: hooks.Pending[object] = hooks.Pending()
    pending.on_cancel(lambda: cancelled.append("first"))
    point, _ = authorizing(pending, *rest)
    chain, outcomes = waiting(point)
    assert [chain.is_late(0), chain.is_late(1)] == [False, True]
    chain.expire()
    assert outcomes == [outcome]
    assert cancelled == ["first"]
    assert point.failures_count == 1
    pending.resolve((STOP, "too late"))
    assert outcomes == [outcome]


def test_each_callback_that_does_not_answer_in_time_is_a_failure() -> None:
    first, second = hooks.Pending[object](), hooks.Pending[object]()
    point, _ = authorizing(first, second)
    chain, outcomes = waiting(point)
    chain.expire()
    assert outcomes == []
    assert chain.is_late(1)
    chain.expire()
    assert outcomes == [(hooks.FAILED, 0)]
    assert point.failures_count == 2


def test_a_chain_that_nothing_waits_for_runs_no_callback_more() -> None:
    cancelled: list[str] = []
    pending: hooks.Pending[object] = hooks.Pending()
    pending.on_cancel(lambda: cancelled.append("first"))
    point, got = authorizing(pending, OK)
    chain, outcomes = waiting(point)
    chain.cancel()
    pending.resolve(OK)
    assert (outcomes, got, cancelled) == ([], [0], ["first"])
    assert point.failures_count == 0


def test_where_no_callback_may_wait_one_that_does_has_failed() -> None:
    failures: list[str] = []
    cancelled: list[str] = []
    point = Hooks(lambda name, error: failures.append(str(error))).point(hooks.CLIENT_CONNECT)
    pending: hooks.Pending[object] = hooks.Pending()
    pending.on_cancel(lambda: cancelled.append("asked for nothing"))
    point.add(lambda accumulator: pending)
    assert point.run((), 0) == (hooks.FAILED, 0)
    assert failures == ["a callback of client.connect may not answer later"]
    assert cancelled == ["asked for nothing"]
