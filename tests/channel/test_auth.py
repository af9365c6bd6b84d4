"""Authenticators: at once, in several steps, later, and again."""

from dataclasses import replace

from heliograph.broker import hooks
from heliograph.broker.authentication import AuthAttempt, AuthStep
from heliograph.broker.client import ClientInfo
from heliograph.broker.pending import Pending
from heliograph.channel.options import ChannelOptions
from heliograph.mqtt import packets as p
from heliograph.mqtt import properties as props
from heliograph.mqtt import reason_codes as rc
from heliograph.mqtt.encode import encode_packet
from support.cases import cases
from support.kernel import Kernel, Peer
from support.options import CHANNEL, LISTENER
from support.packets import properties, publish

CONTINUE, AGAIN = rc.CONTINUE_AUTHENTICATION, rc.REAUTHENTICATE
WILL = p.Will("w", b"gone", 0, False, properties())
SUBSCRIBE = p.Subscribe(1, [p.SubscribeEntry("t", 1, False, False, 0)], properties())


class Quiz:
    """An authenticator of the method `quiz`: some questions, of which the answers are the questions backwards."""

    def __init__(self, *questions: bytes) -> None:
        self.questions = questions or (b"ab",)
        self.attempts: list[tuple[bytes | None, bool]] = []

    def __call__(self, client: ClientInfo, attempt: AuthAttempt, outcome: object) -> tuple[str, AuthStep] | None:
        if attempt.method != "quiz":
            return None
        self.attempts.append((attempt.data, attempt.renews))
        asked = attempt.state if isinstance(attempt.state, int) else 0
        if asked and attempt.data != self.questions[asked - 1][::-1]:
            return hooks.STOP, AuthStep(rc.NOT_AUTHORIZED)
        attempt.state = asked + 1
        if asked < len(self.questions):
            return hooks.STOP, AuthStep(CONTINUE, self.questions[asked])
        return hooks.STOP, AuthStep(rc.SUCCESS, b"right")


def kernel_with(authenticator: object, options: ChannelOptions | None = None) -> Kernel:
    kernel = Kernel(options)
    assert callable(authenticator)
    kernel.broker.hooks.point(hooks.CLIENT_AUTHENTICATE).add(authenticator)
    return kernel


def asked(kernel: Kernel, clientid: str = "c", will: p.Will | None = None) -> Peer:
    """A client that was asked its first question."""
    peer = kernel.peer()
    peer.connect(clientid, will=will, authentication_method="quiz", session_expiry_interval=60)
    assert said(peer) == [(CONTINUE, b"ab")]
    return peer


def let_in(kernel: Kernel, clientid: str = "c", will: p.Will | None = None) -> Peer:
    peer = asked(kernel, clientid, will)
    peer.auth(CONTINUE, authentication_method="quiz", authentication_data=b"ba")
    assert peer.take(p.Connack).code == rc.SUCCESS
    return peer


def said(peer: Peer) -> list[tuple[int, bytes | None]]:
    """Codes and data of the AUTH packets that came, which must be all that came."""
    found = []
    for packet in peer.received():
        assert isinstance(packet, p.Auth)
        assert packet.properties.strings == {props.AUTHENTICATION_METHOD: "quiz"}
        found.append((packet.code, packet.properties.binaries.get(props.AUTHENTICATION_DATA)))
    return found


# --- step by step


def test_a_client_is_let_in_behind_its_last_answer() -> None:
    quiz = Quiz(b"ab", b"cd")
    kernel = kernel_with(quiz)
    peer = kernel.peer()
    peer.connect("c", authentication_method="quiz", authentication_data=b"hello")
    assert said(peer) == [(CONTINUE, b"ab")]
    peer.auth(CONTINUE, authentication_method="quiz", authentication_data=b"ba")
    assert said(peer) == [(CONTINUE, b"cd")]
    assert kernel.sessions.find("c") is None
    assert kernel.context.channels.find("c") is None
    peer.auth(CONTINUE, authentication_method="quiz", authentication_data=b"dc")
    connack = peer.take(p.Connack)
    assert connack.code == rc.SUCCESS
    assert connack.properties.strings[props.AUTHENTICATION_METHOD] == "quiz"
    assert connack.properties.binaries == {props.AUTHENTICATION_DATA: b"right"}
    assert quiz.attempts == [(b"hello", False), (b"ba", False), (b"dc", False)]
    counters = kernel.broker.counters.snapshot()
    assert (counters["packets.auth.sent"], counters["packets.auth.received"]) == (2, 2)


def test_a_wrong_answer_refuses() -> None:
    kernel = kernel_with(Quiz())
    watcher = kernel.connect("watcher")
    watcher.subscribe("w")
    peer = asked(kernel, will=WILL)
    peer.auth(CONTINUE, authentication_method="quiz", authentication_data=b"?")
    assert peer.heard() == ["CONNACK 0x87"]
    assert peer.closed()
    assert kernel.sessions.find("c") is None
    assert kernel.broker.counters.snapshot()["packets.connack.auth_error"] == 1
    assert watcher.heard() == []  # the will of a client that was never connected


def test_a_client_that_is_only_asked_disturbs_nobody_who_has_its_id() -> None:
    kernel = kernel_with(Quiz())
    first = let_in(kernel)
    second = asked(kernel)
    assert not first.closed()
    second.auth(CONTINUE, authentication_method="quiz", authentication_data=b"ba")
    assert first.heard() == ["DISCONNECT 0x8e"]
    assert second.take(p.Connack).session_present is False  # it asked for a clean start


@cases(
    ("packet", "code"),
    [
        (p.Auth(CONTINUE, properties(authentication_method="other")), rc.BAD_AUTHENTICATION_METHOD),
        (p.Auth(CONTINUE, properties()), rc.PROTOCOL_ERROR),
        (p.Auth(AGAIN, properties(authentication_method="quiz")), rc.PROTOCOL_ERROR),
        (p.Auth(0, properties(authentication_method="quiz")), rc.PROTOCOL_ERROR),
        (publish("t", b"x", 1, 1), rc.PROTOCOL_ERROR),
        (SUBSCRIBE, rc.PROTOCOL_ERROR),
        (p.Ping(p.PINGREQ), rc.PROTOCOL_ERROR),
        (p.Connect(p.V5, "c", True, 0, None, None, None, properties()), rc.PROTOCOL_ERROR),
    ],
)
def test_what_may_not_come_instead_of_an_answer(packet: p.Packet, code: int) -> None:
    kernel = kernel_with(Quiz())
    peer = asked(kernel)
    peer.send(packet, packet)
    assert peer.heard() == [f"CONNACK 0x{code:02x}"]
    assert peer.closed()
    assert len(kernel.sessions) == 0


@cases("how", ["disconnect", "drop", "shut down"])
def test_a_client_that_leaves_instead_of_answering(how: str) -> None:
    kernel = kernel_with(Quiz())
    watcher = kernel.connect("watcher")
    watcher.subscribe("w")
    peer = asked(kernel, will=WILL)
    if how == "disconnect":
        peer.disconnect()
    elif how == "drop":
        peer.drop()
    else:
        kernel.context.channels.shut_down(rc.SERVER_SHUTTING_DOWN)
        kernel.run()
        watcher.skip()
    assert peer.received() == []
    assert peer.closed() or peer.lost
    assert watcher.heard() == []
    assert kernel.sessions.find("c") is None


def test_an_authentication_does_not_take_longer_than_the_idle_timeout() -> None:
    kernel = kernel_with(Quiz(*[b"ab"] * 20))
    peer = asked(kernel)
    for _ in range(5):
        kernel.advance(4)
        if not peer.closed():
            peer.auth(CONTINUE, authentication_method="quiz", authentication_data=b"ba")
    assert peer.closed()
    assert kernel.broker.counters.snapshot()["connections.idle_timeout"] == 1


# --- again


def test_a_connected_client_authenticates_again_while_it_goes_on() -> None:
    quiz = Quiz()
    kernel = kernel_with(quiz)
    peer = let_in(kernel)
    peer.auth(AGAIN, authentication_method="quiz", authentication_data=b"it is me")
    assert said(peer) == [(CONTINUE, b"ab")]
    peer.publish("t", b"x", 1, 5)
    assert peer.heard() == ["PUBACK #5 0x10"]
    peer.auth(CONTINUE, authentication_method="quiz", authentication_data=b"ba")
    assert said(peer) == [(rc.SUCCESS, b"right")]
    assert quiz.attempts[2:] == [(b"it is me", True), (b"ba", True)]
    peer.auth(AGAIN, authentication_method="quiz")  # and once more
    assert said(peer) == [(CONTINUE, b"ab")]


@cases("code", [rc.NOT_AUTHORIZED, rc.BAD_USERNAME_OR_PASSWORD, rc.BANNED])
def test_who_fails_to_authenticate_again_is_disconnected(code: int) -> None:
    kernel = kernel_with(Quiz())
    watcher = kernel.connect("watcher")
    watcher.subscribe("w")
    peer = let_in(kernel, will=WILL)
    kernel.broker.hooks.point(hooks.CLIENT_AUTHENTICATE).add(lambda *args: (hooks.STOP, code), 1)
    peer.auth(AGAIN, authentication_method="quiz")
    assert peer.heard() == ["DISCONNECT 0x87"]  # of which DISCONNECT has only one
    assert peer.closed()
    assert watcher.heard() == ["PUBLISH w 'gone' q0"]
    assert kernel.sessions.find("c") is not None


@cases(
    ("sent", "code"),
    [
        ((AGAIN, "other"), rc.BAD_AUTHENTICATION_METHOD),
        ((AGAIN, None), rc.PROTOCOL_ERROR),
        ((CONTINUE, "quiz"), rc.PROTOCOL_ERROR),
        ((0, "quiz"), rc.PROTOCOL_ERROR),
    ],
)
def test_what_does_not_begin_it_again(sent: tuple[int, str | None], code: int) -> None:
    peer = let_in(kernel_with(Quiz()))
    named = {} if sent[1] is None else {"authentication_method": sent[1]}
    peer.auth(sent[0], **named)
    assert peer.heard() == [f"DISCONNECT 0x{code:02x}"]
    assert peer.closed()


def test_beginning_again_twice_at_once() -> None:
    peer = let_in(kernel_with(Quiz()))
    peer.auth(AGAIN, authentication_method="quiz")
    assert said(peer) == [(CONTINUE, b"ab")]
    peer.auth(AGAIN, authentication_method="quiz")
    assert peer.heard() == ["DISCONNECT 0x82"]


def test_a_client_without_a_method_cannot_authenticate_again() -> None:
    peer = kernel_with(Quiz()).connect()
    peer.auth(AGAIN, authentication_method="quiz")
    assert peer.heard() == ["DISCONNECT 0x82"]


def test_there_is_no_auth_in_mqtt_3() -> None:
    peer = kernel_with(Quiz()).connect(version=p.V3_1_1)
    peer.send_bytes(b"\xf0\x00")
    assert peer.received() == []
    assert peer.closed()


# --- later


def waiting(kernel: Kernel, version: int = p.V5, will: p.Will | None = None) -> Peer:
    """A client whose CONNECT, SUBSCRIBE and PUBLISH came in one piece while its authenticator thinks."""
    peer = kernel.peer(version)
    connect = p.Connect(version, "c", True, 0, will, "u", b"p", properties())
    packets = [connect, SUBSCRIBE, publish("t", b"x", 1, 2, version=version)]
    peer.send_bytes(b"".join(encode_packet(packet, version) for packet in packets))
    return peer


@cases("version", [p.V3_1, p.V3_1_1, p.V5])
def test_nothing_happens_before_the_authenticator_answers(version: int) -> None:
    answer: Pending[object] = Pending()
    kernel = kernel_with(lambda *args: answer)
    peer = waiting(kernel, version)
    assert peer.paused()
    peer.send(p.Ping(p.PINGREQ))
    kernel.advance(14)
    assert peer.received() == []
    assert kernel.sessions.find("c") is None
    answer.resolve((hooks.STOP, AuthStep(rc.SUCCESS)))
    kernel.run()
    assert peer.heard() == ["CONNACK 0x00", "SUBACK #1 [0x01]", "PUBLISH t 'x' q1 #1", "PUBACK #2", "PINGRESP"]
    assert not peer.paused()


@cases(("version", "answered"), [(p.V5, "CONNACK 0x86"), (p.V3_1_1, "CONNACK 0x86")])
def test_an_authenticator_that_refuses_later(version: int, answered: str) -> None:
    answer: Pending[object] = Pending()
    kernel = kernel_with(lambda *args: answer)
    watcher_heard: list[object] = []
    kernel.broker.hooks.point(hooks.MESSAGE_PUBLISH).add(watcher_heard.append)
    peer = waiting(kernel, version, WILL)
    answer.resolve((hooks.STOP, AuthStep(rc.BAD_USERNAME_OR_PASSWORD)))
    kernel.run()
    assert peer.heard() == [answered]
    assert peer.closed()
    assert watcher_heard == []
    assert len(kernel.sessions) == 0


def test_an_answer_that_is_there_already() -> None:
    answer: Pending[object] = Pending()
    answer.resolve((hooks.STOP, AuthStep(rc.SUCCESS)))
    kernel = kernel_with(lambda *args: answer)
    peer = waiting(kernel)
    assert peer.heard() == ["CONNACK 0x00", "SUBACK #1 [0x01]", "PUBLISH t 'x' q1 #1", "PUBACK #2"]
    assert not peer.paused()


@cases("code", [rc.SUCCESS, rc.NOT_AUTHORIZED, CONTINUE])
@cases("how", ["drop", "shut down"])
def test_a_client_that_is_gone_before_the_answer(how: str, code: int) -> None:
    answer: Pending[object] = Pending()
    kernel = kernel_with(lambda *args: answer)
    peer = waiting(kernel)
    if how == "drop":
        peer.drop()
    else:
        kernel.context.channels.shut_down(rc.SERVER_SHUTTING_DOWN)
        kernel.run()
    answer.resolve((hooks.STOP, AuthStep(code)))
    kernel.run()
    assert peer.received() == []
    assert len(kernel.sessions) == 0
    assert kernel.context.channels.statistics() == {"connections.open": 0, "live_connections.count": 0}


@cases(("version", "answered"), [(p.V5, "CONNACK 0x88"), (p.V3_1_1, "CONNACK 0x88")])
def test_an_authenticator_that_never_answers_is_not_waited_for(version: int, answered: str) -> None:
    answer: Pending[object] = Pending()
    kernel = kernel_with(lambda *args: answer)
    peer = waiting(kernel, version)
    for _ in range(16):
        kernel.advance(1)
    assert peer.heard() == [answered]
    assert peer.closed()
    answer.resolve((hooks.STOP, AuthStep(rc.SUCCESS)))
    kernel.run()
    assert len(kernel.sessions) == 0


def test_another_authenticator_decides_for_one_that_never_answers() -> None:
    kernel = kernel_with(lambda *args: Pending())
    kernel.broker.hooks.client_authenticate.add(lambda *args: (hooks.STOP, rc.SUCCESS))
    peer = waiting(kernel)
    kernel.advance(14)
    assert peer.received() == []
    kernel.advance(1)
    assert peer.heard() == ["CONNACK 0x00", "SUBACK #1 [0x01]", "PUBLISH t 'x' q1 #1", "PUBACK #2"]
    assert [name for name, _ in kernel.hook_failures] == ["client.authenticate"]


def test_clients_whose_authenticators_have_yet_to_answer_let_others_go_on() -> None:
    answers = {"slow": Pending[object](), "slower": Pending[object]()}
    kernel = kernel_with(lambda client, *args: answers.get(client.clientid))
    slower, slow = kernel.peer(), kernel.peer()
    slower.connect("slower")
    slow.connect("slow")
    other = kernel.connect("other")
    other.subscribe("t")
    other.publish("t", b"x")
    assert other.heard() == ["PUBLISH t 'x' q0"]
    answers["slow"].resolve((hooks.STOP, rc.SUCCESS))
    kernel.run()
    assert (slower.heard(), slow.heard()) == ([], ["CONNACK 0x00"])
    answers["slower"].resolve((hooks.STOP, rc.NOT_AUTHORIZED))
    kernel.run()
    assert slower.heard() == ["CONNACK 0x87"]


@cases("how", ["drop", "shut down"])
def test_an_authenticator_hears_that_its_client_is_gone(how: str) -> None:
    answer: Pending[object] = Pending()
    told: list[str] = []
    answer.on_cancel(lambda: told.append("gone"))
    kernel = kernel_with(lambda *args: answer)
    peer = waiting(kernel)
    peer.drop() if how == "drop" else kernel.context.channels.shut_down(rc.SERVER_SHUTTING_DOWN)
    kernel.run()
    assert told == ["gone"]
    assert kernel.hook_failures == []


def test_an_answer_that_comes_twice() -> None:
    answer: Pending[object] = Pending()
    kernel = kernel_with(lambda *args: answer)
    peer = waiting(kernel)
    answer.resolve((hooks.STOP, AuthStep(rc.SUCCESS)))
    answer.resolve((hooks.STOP, AuthStep(rc.NOT_AUTHORIZED)))
    kernel.run()
    assert peer.heard()[0] == "CONNACK 0x00"
    assert not peer.closed()


def test_what_a_client_sends_while_it_authenticates_again_waits_too() -> None:
    quiz = Quiz()
    kernel = kernel_with(quiz)
    peer = let_in(kernel)
    answers: list[Pending[object]] = [Pending(), Pending()]
    thinking = iter(answers)
    kernel.broker.hooks.point(hooks.CLIENT_AUTHENTICATE).add(lambda *args: next(thinking), 1)
    again = p.Auth(AGAIN, properties(authentication_method="quiz"))
    answered = p.Auth(CONTINUE, properties(authentication_method="quiz"))
    peer.send(again, publish("t", b"", 1, 1), answered, publish("t", b"", 1, 2))
    assert peer.received() == []
    kernel.advance(10)
    answers[0].resolve((hooks.STOP, AuthStep(CONTINUE, b"?")))
    kernel.run()
    assert peer.heard() == ["AUTH 0x18", "PUBACK #1 0x10"]
    answers[1].resolve((hooks.STOP, AuthStep(rc.SUCCESS)))
    kernel.run()
    assert peer.heard() == ["AUTH 0x00", "PUBACK #2 0x10"]


def test_an_authenticator_that_never_answers_a_connected_client_ends_its_connection() -> None:
    quiz = Quiz()
    kernel = kernel_with(quiz)
    peer = let_in(kernel)
    kernel.broker.hooks.client_authenticate.remove(quiz)
    kernel.broker.hooks.client_authenticate.add(lambda *args: Pending())
    peer.send(p.Auth(AGAIN, properties(authentication_method="quiz")))
    kernel.advance(14)
    assert not peer.closed()
    kernel.advance(2)
    assert peer.heard() == ["DISCONNECT 0x89"]
    assert peer.closed()


def test_who_waits_for_a_rate_and_an_authenticator_waits_for_both() -> None:
    answer: Pending[object] = Pending()
    kernel = kernel_with(lambda *args: answer, replace(CHANNEL, listener=replace(LISTENER, bytes_rate=10.0)))
    for rate_first in (True, False):
        answer = Pending()
        peer = waiting(kernel)
        kernel.advance(5) if rate_first else answer.resolve((hooks.STOP, AuthStep(rc.SUCCESS)))
        kernel.run()
        peer.feed(b"")
        peer.channel.reader.receive(b"")  # as a transport that has read ahead
        kernel.run()
        assert peer.heard() == ([] if rate_first else ["CONNACK 0x00"])
        answer.resolve((hooks.STOP, AuthStep(rc.SUCCESS))) if rate_first else kernel.advance(5)
        kernel.advance(20)
        assert peer.heard()[-1] == "PUBACK #2"
        peer.drop()


# --- chains


@cases(("version", "answered"), [(p.V5, "CONNACK 0x88"), (p.V3_1_1, "CONNACK 0x88")])
def test_an_authenticator_that_fails_lets_nobody_in(version: int, answered: str) -> None:
    kernel = kernel_with(lambda *args: 1 / 0)
    peer = kernel.peer(version)
    peer.connect("c", username="u", password=b"p")
    assert peer.heard() == [answered]
    assert peer.closed()
    assert len(kernel.hook_failures) == 1


def test_another_authenticator_decides_for_one_that_fails() -> None:
    kernel = kernel_with(lambda *args: 1 / 0)
    kernel.broker.hooks.point(hooks.CLIENT_AUTHENTICATE).add(lambda *args: (hooks.STOP, rc.SUCCESS))
    peer = kernel.peer()
    peer.connect("c")
    assert peer.heard() == ["CONNACK 0x00"]


@cases("answer", ["yes", None, object(), AuthStep(0x01), AuthStep(999), -1, 0x10, AuthStep(CONTINUE)])
@cases("version", [p.V3_1_1, p.V5])
def test_an_answer_that_makes_no_sense_refuses(version: int, answer: object) -> None:
    kernel = kernel_with(lambda *args: (hooks.STOP, answer))
    peer = kernel.peer(version)
    peer.connect("c")
    (connack,) = peer.received()
    assert isinstance(connack, p.Connack)
    unspecified = rc.UNSPECIFIED_ERROR if version == p.V5 else rc.UNSUPPORTED_PROTOCOL_VERSION  # return code 1
    assert connack.code in (rc.NOT_AUTHORIZED, unspecified, rc.SERVER_UNAVAILABLE)
    assert peer.closed()


def test_a_listener_without_authentication_asks_nobody() -> None:
    kernel = kernel_with(
        lambda *args: (hooks.STOP, rc.NOT_AUTHORIZED), replace(CHANNEL, listener=replace(LISTENER, enable_authn=False))
    )
    peer = kernel.peer()
    peer.connect("c", username="u", password=b"wrong")
    assert peer.heard() == ["CONNACK 0x00"]
    named = kernel.peer()
    named.connect("d", authentication_method="quiz")  # which somebody must answer for all that
    assert named.heard() == ["CONNACK 0x87"]


@cases("version", [p.V3_1, p.V3_1_1, p.V5])
def test_a_listener_for_clients_with_a_name(version: int) -> None:
    kernel = Kernel(replace(CHANNEL, listener=replace(LISTENER, deny_anonymous=True)))
    nobody, somebody = kernel.peer(version), kernel.peer(version)
    nobody.connect("nobody")
    assert nobody.heard() == ["CONNACK 0x87"]
    assert nobody.closed()
    somebody.connect("somebody", username="u")
    assert somebody.heard() == ["CONNACK 0x00"]
