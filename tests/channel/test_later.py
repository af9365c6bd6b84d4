"""Decisions of `client.authorize` that come later: one client waits, in order, and no other."""

from dataclasses import replace

from heliograph.broker import hooks, publishing
from heliograph.broker.actions import Action
from heliograph.broker.client import ClientInfo
from heliograph.broker.message import make_message
from heliograph.broker.pending import Pending
from heliograph.channel.options import ChannelOptions
from heliograph.mqtt import packets as p
from heliograph.mqtt import reason_codes as rc
from support.cases import cases
from support.kernel import Kernel, Peer
from support.options import CHANNEL
from support.packets import properties, publish


class Oracle:
    """Decides later what is asked about topics below `?`, allows what is below `!` in the same call, and all else."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.asked: list[str] = []
        self.cancelled: list[str] = []
        self._pending: dict[str, Pending[object]] = {}
        kernel.broker.hooks.client_authorize.add(self._authorize)

    def _authorize(self, client: ClientInfo, action: Action, topic: str, decision: object) -> object:
        if topic[0] not in "?!":
            return hooks.STOP, "allow"
        asked = f"{client.clientid} {action.kind} {topic}"
        self.asked.append(asked)
        pending: Pending[object] = Pending()
        pending.on_cancel(lambda: self.cancelled.append(asked))
        if topic[0] == "!":
            pending.resolve((hooks.STOP, "allow"))
        self._pending[asked] = pending
        return pending

    def question(self, asked: str) -> Pending[object]:
        """The question that was asked last in these words."""
        return self._pending[asked]

    def say(self, asked: str, decision: str | None) -> None:
        """Answer a question, and run what comes of it; None leaves the decision to the callbacks behind."""
        self._pending[asked].resolve(hooks.OK if decision is None else (hooks.STOP, decision))
        self.kernel.run()


def world(options: ChannelOptions | None = None) -> tuple[Kernel, Oracle]:
    kernel = Kernel(options)
    return kernel, Oracle(kernel)


def entry(topic_filter: str) -> p.SubscribeEntry:
    return p.SubscribeEntry(topic_filter, 1, False, False, 0)


def subscribed(kernel: Kernel, clientid: str = "c", *filters: str) -> Peer:
    peer = kernel.connect(clientid)
    for number, topic_filter in enumerate(filters, start=1):
        peer.send(p.Subscribe(number, [entry(topic_filter)], properties()))
    peer.skip()
    return peer


# --- PUBLISH


def test_what_a_client_sends_behind_a_message_that_waits_waits_too() -> None:
    kernel, oracle = world()
    watcher = subscribed(kernel, "watcher", "a", "b", "c")
    peer = kernel.connect()
    peer.send(publish("a", b"1", 1, 1), publish("?", b"2", 1, 2), publish("b", b"3", 1, 3), p.Ping(p.PINGREQ))
    peer.send(publish("c", b"4", 1, 4))
    assert (peer.heard(), peer.paused()) == (["PUBACK #1"], True)
    kernel.advance(5)
    oracle.say("c publish ?", "allow")
    assert peer.heard() == ["PUBACK #2 0x10", "PUBACK #3", "PINGRESP", "PUBACK #4"]
    assert not peer.paused()
    assert watcher.heard() == ["PUBLISH a '1' q1 #1", "PUBLISH b '3' q1 #2", "PUBLISH c '4' q1 #3"]


def test_a_decision_is_remembered() -> None:
    kernel, oracle = world()
    peer = kernel.connect()
    peer.send(publish("?", b"1", 1, 1), publish("?", b"2", 1, 2))
    oracle.say("c publish ?", "allow")
    peer.publish("?", b"3", 1, 3)
    assert peer.heard() == ["PUBACK #1 0x10", "PUBACK #2 0x10", "PUBACK #3 0x10"]
    assert oracle.asked == ["c publish ?"]


def test_every_message_asks_where_decisions_are_not_remembered() -> None:
    kernel, oracle = world(replace(CHANNEL, authz_cache_size=0))
    peer = kernel.connect()
    for number in (1, 2):
        peer.publish("?", b"", 1, number)
        assert peer.received() == []
        oracle.say("c publish ?", "allow")
        assert peer.heard() == [f"PUBACK #{number} 0x10"]
    assert oracle.asked == ["c publish ?"] * 2


def test_a_message_that_is_denied_later() -> None:
    kernel, oracle = world()
    watcher = subscribed(kernel, "watcher", "#")
    peer = kernel.connect()
    peer.send(publish("?", b"1", 2, 1), publish("a", b"2", 2, 2))
    oracle.say("c publish ?", "deny")
    assert peer.heard() == ["PUBREC #1 0x87", "PUBREC #2"]
    assert watcher.heard() == ["PUBLISH a '2' q1 #1"]
    assert kernel.broker.counters.messages_not_authorized == 1


def test_a_client_is_disconnected_for_what_is_denied_later() -> None:
    kernel, oracle = world(replace(CHANNEL, authz_disconnects=True))
    peer = kernel.connect()
    peer.send(publish("?", b"1", 1, 1), publish("a", b"2", 1, 2))
    oracle.say("c publish ?", "deny")
    assert peer.heard() == ["DISCONNECT 0x87"]
    assert peer.closed()


def test_a_decision_that_is_there_at_once_lets_nothing_wait() -> None:
    kernel, oracle = world()
    peer = kernel.connect()
    peer.publish("!", b"", 1, 1)
    assert peer.heard() == ["PUBACK #1 0x10"]
    assert oracle.asked == ["c publish !"]


def test_clients_wait_each_for_its_own_decision() -> None:
    kernel, oracle = world()
    first, second = kernel.connect("first"), kernel.connect("second")
    first.publish("?", b"", 1, 1)
    second.publish("?", b"", 1, 1)
    other = kernel.connect("other")
    other.publish("a", b"", 1, 1)
    assert other.heard() == ["PUBACK #1 0x10"]
    oracle.say("second publish ?", "allow")
    assert (first.heard(), second.heard()) == ([], ["PUBACK #1 0x10"])
    oracle.say("first publish ?", "deny")
    assert first.heard() == ["PUBACK #1 0x87"]


def test_a_message_of_a_client_that_goes_is_not_published() -> None:
    kernel, oracle = world()
    watcher = subscribed(kernel, "watcher", "#")
    peer = kernel.connect()
    peer.publish("?", b"x", 1, 1)
    peer.drop()
    assert oracle.cancelled == ["c publish ?"]
    oracle.say("c publish ?", "allow")
    assert watcher.heard() == []
    assert kernel.hook_failures == []


def test_another_connection_takes_over_while_a_message_waits() -> None:
    kernel, oracle = world()
    watcher = subscribed(kernel, "watcher", "#")
    first = kernel.connect()
    first.publish("?", b"x", 1, 1)
    second = kernel.connect()
    assert first.heard() == ["DISCONNECT 0x8e"]
    assert oracle.cancelled == ["c publish ?"]
    oracle.say("c publish ?", "allow")
    second.publish("a", b"y", 1, 1)
    assert second.heard() == ["PUBACK #1"]
    assert watcher.heard() == ["PUBLISH a 'y' q1 #1"]


def test_a_decision_that_does_not_come_in_time_denies() -> None:
    kernel, oracle = world()
    peer = kernel.connect()
    peer.send(publish("?", b"", 1, 1), publish("a", b"", 1, 2))
    kernel.advance(14)
    assert peer.received() == []
    kernel.advance(1)
    assert peer.heard() == ["PUBACK #1 0x87", "PUBACK #2 0x10"]
    assert oracle.cancelled == ["c publish ?"]
    assert [(name, type(error)) for name, error in kernel.hook_failures] == [
        ("client.authorize", hooks.LateAnswerError)
    ]
    assert kernel.broker.hooks.client_authorize.failures_count == 1


def test_a_client_that_waits_is_not_silent() -> None:
    kernel, oracle = world()
    peer = kernel.connect(keepalive_s=2)
    peer.publish("?", b"", 1, 1)
    for _ in range(10):
        kernel.advance(1)
    oracle.say("c publish ?", "allow")
    kernel.advance(2)
    assert peer.heard() == ["PUBACK #1 0x10"]
    kernel.advance(2)
    assert peer.heard() == ["DISCONNECT 0x8d"]


# --- SUBSCRIBE


def test_all_filters_of_a_subscribe_wait_for_their_decisions_together() -> None:
    kernel, oracle = world()
    peer = kernel.connect()
    filters = [entry(name) for name in ("?a", "b", "?c", "!d", "?e")]
    peer.send(p.Subscribe(1, filters, properties()), publish("b", b"x", 1, 2))
    assert oracle.asked == ["c subscribe ?a", "c subscribe ?c", "c subscribe !d", "c subscribe ?e"]
    oracle.say("c subscribe ?e", "allow")
    oracle.say("c subscribe ?c", "deny")
    assert peer.received() == []
    oracle.say("c subscribe ?a", "allow")
    assert peer.heard() == ["SUBACK #1 [0x01 0x01 0x87 0x01 0x01]", "PUBLISH b 'x' q1 #1", "PUBACK #2"]
    assert kernel.broker.counters.subscriptions_not_authorized == 1


def test_callbacks_change_filters_after_all_decisions() -> None:
    kernel, oracle = world()
    changed: list[list[int]] = []

    def rewrite(client: ClientInfo, told: object, entries: list[p.SubscribeEntry]) -> object:
        changed.append([one.code for one in entries])
        return hooks.OK, [entry(f"new/{one.topic_filter}") for one in entries]

    kernel.broker.hooks.client_subscribe.add(rewrite)
    peer = kernel.connect()
    peer.send(p.Subscribe(1, [entry("?a"), entry("?b")], properties()))
    oracle.say("c subscribe ?a", "deny")
    assert changed == []
    oracle.say("c subscribe ?b", "allow")
    assert changed == [[rc.NOT_AUTHORIZED, 0]]
    assert peer.heard() == ["SUBACK #1 [0x87 0x01]"]


def test_a_subscribe_that_gets_no_decision_in_time() -> None:
    kernel, oracle = world()
    peer = kernel.connect()
    peer.send(p.Subscribe(1, [entry("?a"), entry("b")], properties()))
    kernel.advance(15)
    assert peer.heard() == ["SUBACK #1 [0x87 0x01]"]
    assert oracle.cancelled == ["c subscribe ?a"]


def test_a_subscribe_waits_for_one_deadline_however_many_filters_get_no_decision() -> None:
    kernel, oracle = world()
    peer = kernel.connect()
    names = [f"?{number}" for number in range(200)]
    peer.send(p.Subscribe(1, [entry(name) for name in names], properties()), publish("b", b"x", 1, 2))
    assert len(oracle.asked) == 64
    for name in names[:64]:
        oracle.say(f"c subscribe {name}", "allow")
    assert len(oracle.asked) == 128
    kernel.advance(14)
    assert peer.received() == []
    kernel.advance(1)
    codes = " ".join(["0x01"] * 64 + ["0x87"] * 136)
    assert peer.heard() == [f"SUBACK #1 [{codes}]", "PUBACK #2 0x10"]
    assert len(oracle.asked) == 200
    assert oracle.cancelled == [f"c subscribe {name}" for name in names[64:]]


def test_a_subscribe_asks_once_for_filters_that_mean_the_same() -> None:
    kernel, oracle = world()
    peer = kernel.connect()
    peer.send_subscribe(entry("?a"), entry("$share/g/?a"), entry("?a"))
    assert oracle.asked == ["c subscribe ?a"]
    oracle.say("c subscribe ?a", "allow")
    assert peer.heard() == ["SUBACK #1 [0x01 0x01 0x01]"]


def test_a_client_goes_while_filters_wait() -> None:
    kernel, oracle = world()
    peer = kernel.connect()
    peer.send(p.Subscribe(1, [entry("?a"), entry("?b")], properties()))
    peer.drop()
    assert oracle.cancelled == ["c subscribe ?a", "c subscribe ?b"]
    oracle.say("c subscribe ?a", "allow")
    assert kernel.broker.statistics()["subscriptions.count"] == 0


def test_questions_about_messages_that_get_no_answer_keep_no_client_from_subscribing() -> None:
    kernel, oracle = world()
    peer = subscribed(kernel, "c", "+")
    other = kernel.connect("other")
    for number in range(64):
        other.publish(f"?{number}", b"", 0)
        oracle.say(f"other publish ?{number}", "allow")
    peer.send(p.Subscribe(2, [entry("?new")], properties()))
    oracle.say("c subscribe ?new", "allow")
    assert peer.heard() == ["SUBACK #2 [0x01]"]


def test_what_a_wildcard_matches_is_refused_until_the_decision_is_known() -> None:
    """It is asked for each message in the turn of its publisher, which cannot wait for somebody else."""
    kernel, oracle = world()
    watcher = subscribed(kernel, "watcher", "+")
    peer = kernel.connect()
    peer.publish("?x", b"1", 1, 1)
    oracle.say("c publish ?x", "allow")
    assert (peer.heard(), watcher.heard()) == (["PUBACK #1"], [])
    oracle.say("watcher subscribe ?x", "allow")
    peer.publish("?x", b"2", 1, 2)
    assert watcher.heard() == ["PUBLISH ?x '2' q1 #1"]
    assert oracle.asked == ["c publish ?x", "watcher subscribe ?x"]


def test_questions_that_get_no_answer_keep_a_client_from_further_ones_until_their_deadline_only() -> None:
    kernel, oracle = world()
    watcher = subscribed(kernel, "watcher", "+")

    def publish_one(topic: str) -> None:
        kernel.broker.begin_turn(kernel.now_us)
        message = make_message(kernel.broker.now_us, 1, topic, b"", 0, False, b"", "", None)
        publishing.publish(kernel.broker, message)
        kernel.run()

    for number in range(64):
        publish_one(f"?{number}")
    publish_one("a")
    assert (watcher.heard(), len(oracle.asked)) == ([], 64)
    kernel.advance(15)
    publish_one("a")
    assert (watcher.heard(), len(oracle.cancelled)) == (["PUBLISH a '' q0"], 64)


def test_a_callback_that_raises_when_its_answer_is_not_wanted_any_more_keeps_no_client() -> None:
    kernel = Kernel()

    def fail() -> None:
        raise ValueError

    def authorize(client: ClientInfo, action: Action, topic: str, decision: object) -> object:
        if topic != "?":
            return None
        pending: Pending[object] = Pending()
        pending.on_cancel(fail)
        return pending

    kernel.broker.hooks.client_authorize.add(authorize)
    late, gone = subscribed(kernel, "late", "a"), subscribed(kernel, "gone", "a")
    gone.publish("?", b"", 1, 1)
    gone.drop()
    assert (len(kernel.context.channels), kernel.broker.statistics()["subscriptions.count"]) == (1, 1)
    assert kernel.context.channels.find("gone") is None
    late.publish("?", b"", 1, 1)
    kernel.advance(15)
    assert late.heard() == ["PUBACK #1 0x87"]
    assert [str(name) for name, _ in kernel.hook_failures] == ["client.authorize"] * 3  # the third one was late


# --- a session that goes on


def left(kernel: Kernel, oracle: Oracle, *filters: str) -> None:
    """Client "c" had these subscriptions, and its decisions are forgotten with its connection."""
    peer = kernel.peer()
    peer.connect("c", session_expiry_interval=600)
    for number, name in enumerate(filters, start=1):
        peer.send(p.Subscribe(number, [entry(name)], properties()))
        if name.startswith("?"):
            oracle.say(f"c subscribe {name}", "allow")
    peer.drop()
    oracle.asked.clear()


def back(kernel: Kernel) -> Peer:
    peer = kernel.peer()
    peer.connect("c", clean_start=False, session_expiry_interval=600)
    return peer


def test_a_session_goes_on_when_it_is_known_what_its_client_may_still_have() -> None:
    kernel, oracle = world()
    left(kernel, oracle, "?a", "b", "?c")
    peer = back(kernel)
    peer.send(p.Ping(p.PINGREQ))
    oracle.say("c subscribe ?a", "deny")
    assert (peer.received(), len(kernel.context.channels)) == ([], 1)
    oracle.say("c subscribe ?c", "allow")
    assert peer.heard() == ["CONNACK 0x00 present", "PINGRESP"]
    session = kernel.sessions.held("c")
    assert session is not None
    assert sorted(session.subscriptions) == ["?c", "b"]


def test_a_session_loses_no_subscription_because_nobody_answers_in_time() -> None:
    kernel, oracle = world()
    left(kernel, oracle, "?a", "?b")
    peer = back(kernel)
    kernel.advance(15)
    assert peer.heard() == ["CONNACK 0x88"]
    again = back(kernel)
    oracle.say("c subscribe ?a", "allow")
    oracle.say("c subscribe ?b", "allow")
    assert again.heard() == ["CONNACK 0x00 present"]
    assert kernel.broker.statistics()["subscriptions.count"] == 2


def test_the_rights_of_a_session_that_goes_on_are_asked_for_together() -> None:
    kernel, oracle = world()
    left(kernel, oracle, *(f"?{number}" for number in range(100)))
    peer = back(kernel)
    assert len(oracle.asked) == 64
    for number in range(64):
        oracle.say(f"c subscribe ?{number}", "allow" if number % 2 else "deny")
    assert (peer.received(), len(oracle.asked)) == ([], 100)
    for number in range(64, 100):
        oracle.say(f"c subscribe ?{number}", "allow" if number % 2 else "deny")
    assert peer.heard() == ["CONNACK 0x00 present"]
    session = kernel.sessions.held("c")
    assert session is not None
    assert sorted(session.subscriptions) == sorted(f"?{number}" for number in range(1, 100, 2))


def test_the_rights_of_a_session_with_very_many_subscriptions_are_asked_for_in_several_turns() -> None:
    kernel = Kernel()
    peer = kernel.connect("c", session_expiry_interval=600)
    for number in range(20):
        names = [f"{number}/{other}" for other in range(1000)]
        peer.send(p.Subscribe(number + 1, [entry(name) for name in names], properties()))
    peer.drop()
    asked: list[str] = []

    def authorize(client: ClientInfo, action: Action, topic: str, decision: object) -> object:
        asked.append(topic)
        return hooks.STOP, "deny" if topic == "19/999" else "allow"

    kernel.broker.hooks.client_authorize.add(authorize)
    again = kernel.peer()
    connect = p.Connect(p.V5, "c", False, 0, None, None, None, properties(session_expiry_interval=600))
    again.feed(again.encoded(connect, p.Ping(p.PINGREQ)))
    turns = 1
    while len(asked) < 20_000:
        assert len(asked) <= turns * 5000
        kernel.turn()
        turns += 1
    kernel.run()
    assert again.heard() == ["CONNACK 0x00 present", "PINGRESP"]
    assert (turns > 3, len(set(asked))) == (True, 20_000)
    assert kernel.broker.statistics()["subscriptions.count"] == 19_999


@cases("is_late", [False, True])
def test_a_session_loses_no_subscription_because_a_callback_fails(is_late: bool) -> None:
    kernel, oracle = world()
    left(kernel, oracle, "?a", "b")

    def fail(client: ClientInfo, action: Action, topic: str, decision: object) -> object:
        raise ValueError(topic)

    hook = kernel.broker.hooks.client_authorize
    hook.add(fail, -1 if is_late else 1)
    peer = back(kernel)
    oracle.say("c subscribe ?a", None if is_late else "allow")
    assert peer.heard() == ["CONNACK 0x88"]
    hook.remove(fail)
    again = back(kernel)
    oracle.say("c subscribe ?a", "allow")
    assert again.heard() == ["CONNACK 0x00 present"]
    assert kernel.broker.statistics()["subscriptions.count"] == 2


def test_a_client_goes_before_its_session_goes_on() -> None:
    kernel, oracle = world()
    left(kernel, oracle, "?a")
    peer = back(kernel)
    peer.drop()
    assert oracle.cancelled == ["c subscribe ?a"]
    oracle.say("c subscribe ?a", "deny")
    session = kernel.sessions.held("c")
    assert session is not None
    assert list(session.subscriptions) == ["?a"]
    assert kernel.context.channels.find("c") is None


def test_the_last_of_two_connections_has_the_session_whichever_is_let_in_first() -> None:
    kernel, oracle = world()
    left(kernel, oracle, "?a")
    first = back(kernel)
    question = oracle.question("c subscribe ?a")
    second = back(kernel)
    assert oracle.asked == ["c subscribe ?a"] * 2
    oracle.say("c subscribe ?a", "allow")  # the second one's
    assert (first.received(), second.heard()) == ([], ["CONNACK 0x00 present"])
    question.resolve((hooks.STOP, "allow"))
    kernel.run()
    assert second.heard() == ["DISCONNECT 0x8e"]
    assert first.heard() == ["CONNACK 0x00 present"]


def test_a_connection_that_nobody_decides_about_in_time_leaves_the_session_to_another_one() -> None:
    kernel, oracle = world()
    left(kernel, oracle, "?a")
    first = back(kernel)
    second = back(kernel)
    oracle.say("c subscribe ?a", "allow")  # the second one's
    second.skip()
    kernel.advance(15)
    assert (first.heard(), second.heard()) == (["CONNACK 0x88"], [])


# --- wills


@cases(("decision", "seen"), [("allow", ["PUBLISH ?w 'gone' q0"]), ("deny", [])])
def test_a_will_waits_for_the_decision_whether_its_client_may_publish_it(decision: str, seen: list[str]) -> None:
    kernel, oracle = world()
    watcher = subscribed(kernel, "watcher", "?w")
    oracle.say("watcher subscribe ?w", "allow")
    peer = kernel.connect(will=p.Will("?w", b"gone", 0, False, properties()))
    peer.drop()
    watcher.skip()
    assert kernel.broker.counters.messages_published == 0
    oracle.say("c publish ?w", decision)
    assert watcher.heard() == seen
    assert kernel.broker.counters.messages_not_authorized == (decision == "deny")


def test_a_will_that_gets_no_decision_in_time_is_not_published() -> None:
    kernel, oracle = world()
    watcher = subscribed(kernel, "watcher", "#")
    peer = kernel.connect(will=p.Will("?w", b"gone", 0, False, properties()))
    peer.drop()
    kernel.advance(15)
    assert oracle.cancelled == ["c publish ?w"]
    oracle.say("c publish ?w", "allow")
    assert watcher.heard() == []
    assert len(kernel.hook_failures) == 1
