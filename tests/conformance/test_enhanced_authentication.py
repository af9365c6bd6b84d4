"""Sections 3.15 and 4.12: AUTH with an authenticator that asks a question before it lets anybody in."""

from conformance.dialogue import V5, Client, World
from conformance.statements import proves
from heliograph.broker import hooks
from heliograph.broker.authentication import AuthAttempt, AuthStep
from heliograph.broker.client import ClientInfo
from heliograph.mqtt import packets as p
from heliograph.mqtt import properties as props
from heliograph.mqtt import reason_codes as rc
from support.cases import cases

QUESTION = 'f0 # 18 { 15 "quiz" 16 "question" }'
ANSWER = 'f0 # 18 { 15 "quiz" 16 "answer" }'


def quiz(client: ClientInfo, attempt: AuthAttempt, outcome: object) -> tuple[str, AuthStep] | None:
    """Let in whoever answers."""
    if attempt.method != "quiz":
        return None
    if attempt.state is None:
        attempt.state = "asked"
        return hooks.STOP, AuthStep(rc.CONTINUE_AUTHENTICATION, b"question")
    if attempt.data == b"answer":
        return hooks.STOP, AuthStep(rc.SUCCESS, b"welcome")
    return hooks.STOP, AuthStep(rc.BAD_USERNAME_OR_PASSWORD if attempt.data == b"guess" else rc.NOT_AUTHORIZED)


def world_with_a_quiz() -> World:
    """A broker that knows the method `quiz`."""
    world = World(V5)
    world.kernel.broker.hooks.point(hooks.CLIENT_AUTHENTICATE).add(quiz)
    return world


def asked(world: World, clientid: str = "c", properties: str = "") -> Client:
    """A client that named the method and got its question."""
    client = world.client()
    client.says(f'10 # "MQTT" 05 02 0000 {{ 15 "quiz" {properties} }} "{clientid}"')
    client.hears(QUESTION)
    return client


def let_in(world: World, clientid: str = "c", properties: str = "") -> Client:
    """A client that answered."""
    client = asked(world, clientid, properties)
    client.says(ANSWER)
    client.reads_connack()
    assert client.connack.code == 0
    return client


@proves("MQTT-3.2.0-1", "MQTT-3.15.2-1", "MQTT-4.12.0-2", "MQTT-4.12.0-3", "MQTT-4.12.0-5")
def test_a_challenge_and_its_answer() -> None:
    world = world_with_a_quiz()
    client = let_in(world)
    assert client.connack.properties.strings[props.AUTHENTICATION_METHOD] == "quiz"
    assert client.connack.properties.binaries[props.AUTHENTICATION_DATA] == b"welcome"
    client.goes_on()
    assert world.kernel.sessions.find("c") is not None


@proves("MQTT-4.12.0-4", "MQTT-3.1.4-2", "MQTT-3.2.2-7", "MQTT-3.14.0-1")
def test_a_wrong_answer() -> None:
    world = world_with_a_quiz()
    client = asked(world)
    client.says('f0 # 18 { 15 "quiz" 16 "wrong" }', ANSWER)
    client.reads_connack()
    assert client.connack.code == rc.NOT_AUTHORIZED
    client.hears()
    assert client.is_closed()
    assert world.kernel.sessions.find("c") is None


@cases("packet", ["30 # \"t\" {} 'x'", '82 # 0001 {} "t" 00', "c0 #", "40 # 0001"])
@proves("MQTT-3.1.2-30", "MQTT-3.2.0-1", "MQTT-3.14.0-1")
def test_nothing_but_auth_and_disconnect_before_connack(packet: str) -> None:
    world = world_with_a_quiz()
    sub = world.subscriber("#")
    client = asked(world)
    client.says(packet, ANSWER)
    assert client.is_closed()
    heard = client.heard()
    assert heard == b"" or (heard[0] == 0x20 and heard[3] >= 0x80)
    sub.hears()


@proves("MQTT-3.1.2-30")
def test_disconnect_before_connack() -> None:
    world = world_with_a_quiz()
    client = asked(world)
    client.says("e0 #")
    client.hears()
    assert client.is_closed()
    assert world.kernel.sessions.find("c") is None


@cases(
    "packet",
    [
        'f0 # 18 { 15 "other" 16 "answer" }',
        'f0 # 18 { 16 "answer" }',
        "f0 # 18",
        'f0 # 19 { 15 "quiz" 16 "answer" }',
        'f0 # 00 { 15 "quiz" 16 "answer" }',
        'f0 # 80 { 15 "quiz" 16 "answer" }',
        "f0 #",
    ],
)
@proves("MQTT-3.15.2-1", "MQTT-4.12.0-3", "MQTT-4.12.0-5")
def test_an_auth_that_continues_nothing(packet: str) -> None:
    client = asked(world_with_a_quiz())
    client.says(packet)
    assert client.is_closed()
    heard = client.heard()
    assert heard == b"" or (heard[0] == 0x20 and heard[3] >= 0x80)


@proves("MQTT-4.12.1-1", "MQTT-4.12.0-5", "MQTT-3.15.2-1")
def test_a_client_authenticates_again() -> None:
    client = let_in(world_with_a_quiz())
    client.subscribes("t")
    for _ in range(2):
        client.says('f0 # 19 { 15 "quiz" }')
        client.hears(QUESTION)
        client.says("30 # \"t\" {} 'x'", "c0 #")  # it may go on as it was meanwhile
        client.hears("30 # \"t\" {} 'x'", "d0 #")
        client.says(ANSWER)
        (packet,) = client.packets()
        assert isinstance(packet, p.Auth)
        assert packet.code == rc.SUCCESS
        assert packet.properties.strings[props.AUTHENTICATION_METHOD] == "quiz"
        client.goes_on()


@cases("data", ["wrong", "guess"])
@proves("MQTT-4.12.1-2", "MQTT-4.13.2-1", "MQTT-3.14.2-1")
def test_a_client_that_fails_to_authenticate_again(data: str) -> None:
    """Its authenticator's code may be one that DISCONNECT does not have, as 0x86."""
    world = world_with_a_quiz()
    watcher = world.subscriber("#")
    client = let_in(world)
    client.says('f0 # 19 { 15 "quiz" }')
    client.hears(QUESTION)
    client.says(f'f0 # 18 {{ 15 "quiz" 16 "{data}" }}', "30 # \"t\" {} 'x'")
    client.ends(rc.NOT_AUTHORIZED, rc.UNSPECIFIED_ERROR, rc.ADMINISTRATIVE_ACTION)
    watcher.hears()


@cases(
    "packet",
    ['f0 # 19 { 15 "other" }', "f0 # 19", 'f0 # 18 { 15 "quiz" 16 "answer" }', 'f0 # 00 { 15 "quiz" }', "f0 #"],
)
@proves("MQTT-4.12.1-1", "MQTT-4.12.0-5", "MQTT-3.15.2-1")
def test_an_auth_that_does_not_authenticate_again(packet: str) -> None:
    client = let_in(world_with_a_quiz())
    client.says(packet)
    client.ends(rc.PROTOCOL_ERROR, rc.BAD_AUTHENTICATION_METHOD, rc.MALFORMED_PACKET)


@proves("MQTT-4.12.0-7", "MQTT-4.12.0-6")
def test_a_client_that_named_no_method_is_asked_nothing() -> None:
    client = world_with_a_quiz().connect("c")
    assert props.AUTHENTICATION_METHOD not in client.connack.properties.strings
    client.says('f0 # 19 { 15 "quiz" }')
    client.ends(rc.PROTOCOL_ERROR)


@cases("limit", [8, 20, 40])
@proves("MQTT-3.1.2-24", "MQTT-3.15.2-2", "MQTT-3.15.2-3")
def test_auth_does_not_exceed_what_the_client_takes(limit: int) -> None:
    """A question of 22 bytes that does not fit is not asked, and the client cannot be let in."""
    client = world_with_a_quiz().client()
    client.says(f'10 # "MQTT" 05 02 0000 {{ 15 "quiz" 27 {limit:08x} }} "c"')
    heard = client.heard()
    assert len(heard) <= limit
    assert client.is_closed() is (limit < 22)
    if limit >= 22:
        assert heard[0] == 0xF0


@proves("MQTT-3.1.2-29")
def test_auth_has_no_problem_information_where_none_is_wanted() -> None:
    client = let_in(world_with_a_quiz(), properties="17 00")
    client.says('f0 # 19 { 15 "quiz" }', ANSWER)
    for packet in client.packets():
        assert isinstance(packet, p.Auth)
        assert props.REASON_STRING not in packet.properties.strings
        assert not packet.properties.user
