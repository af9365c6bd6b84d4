"""Sections 3.3.4, 3.4 to 3.7, 4.3 and 4.4: the flows of QoS 1 and 2 in both directions, and what is sent again."""

from dataclasses import replace

from conformance.dialogue import V3, V5, Client, World, both_versions
from conformance.statements import proves
from support.cases import cases
from support.options import CHANNEL, SESSION


@both_versions
@proves("MQTT-3.3.4-1", "MQTT-4.3.2-4", "MQTT-4.3.3-8")
@proves("3.1.1 MQTT-3.3.4-1", "3.1.1 MQTT-4.3.2-2", "3.1.1 MQTT-4.3.3-2")
def test_the_answer_to_each_qos(version: int) -> None:
    world = World(version)
    sub, client = world.subscriber(), world.connect()
    client.says("30 # \"t\" {} 'x'")
    client.hears()
    client.says("32 # \"t\" 0102 {} 'x'")
    client.hears("40 # 0102")
    client.says("34 # \"t\" 0304 {} 'x'")
    client.hears("50 # 0304")
    sub.hears(*["30 # \"t\" {} 'x'"] * 3)


@both_versions
@proves("MQTT-4.3.2-5", "3.1.1 MQTT-4.3.2-2")
def test_behind_puback_the_identifier_is_free(version: int) -> None:
    world = World(version)
    sub, pub = world.subscriber(), world.connect("pub")
    for first in ("32", "3a", "3a"):
        pub.says(f"{first} # \"t\" 0001 {{}} 'x'")
        pub.hears("40 # 0001")
        sub.hears("30 # \"t\" {} 'x'")


@both_versions
@proves("MQTT-4.3.3-8", "MQTT-4.3.3-10", "MQTT-4.3.3-11", "MQTT-4.3.3-12", "3.1.1 MQTT-4.3.3-2")
def test_qos_2_is_delivered_once(version: int) -> None:
    world = World(version)
    sub, pub = world.subscriber(), world.connect("pub")
    for first in ("34", "3c", "34", "3c"):
        pub.says(f"{first} # \"t\" 0001 {{}} 'once'")
        pub.hears("50 # 0001")
    pub.says("62 # 0001")
    pub.hears("70 # 0001")
    sub.hears("30 # \"t\" {} 'once'")
    pub.says("3c # \"t\" 0001 {} 'new'")
    pub.hears("50 # 0001")
    sub.hears("30 # \"t\" {} 'new'")


@both_versions
@proves("MQTT-4.3.3-10", "3.1.1 MQTT-4.3.3-2")
def test_qos_2_is_delivered_once_across_connections(version: int) -> None:
    world = World(version)
    sub = world.subscriber()
    pub = world.connect("pub", kept=True)
    pub.says("34 # \"t\" 0001 {} 'once'")
    pub.drops()
    again = world.connect("pub", clean=False, kept=True)
    again.says("3c # \"t\" 0001 {} 'once'", "62 # 0001")
    again.hears("50 # 0001", "70 # 0001")
    sub.hears("30 # \"t\" {} 'once'")


@proves("MQTT-4.3.3-9")
def test_behind_a_pubrec_that_refuses_the_identifier_is_free() -> None:
    world = World(stored=("#",))
    pub = world.connect("pub")
    pub.says("34 # \"t\" 0001 {} 'x'")
    world.kernel.commit(0x97)
    (packet,) = pub.words()
    assert packet == "PUBREC #1 0x97"
    pub.says("34 # \"t\" 0001 {} 'y'")
    world.kernel.commit()
    pub.hears("50 # 0001")
    assert [message.payload for _, message in world.kernel.sink.messages] == [b"x", b"y"]


@proves("MQTT-4.3.3-13")
def test_the_flow_goes_on_when_the_message_expired() -> None:
    world = World()
    sub, pub = world.subscriber(), world.connect("pub")
    pub.says("34 # \"t\" 0001 { 02 00000001 } 'x'")
    world.advance(5)
    pub.says("3c # \"t\" 0001 { 02 00000001 } 'x'", "62 # 0001")
    pub.hears("50 # 0001", "50 # 0001", "70 # 0001")
    assert len(sub.publishes()) == 1


# --- towards the client


def away_and_back(world: World, client: Client, clientid: str = "sub") -> Client:
    """The same client on a new connection."""
    client.drops()
    return world.connect(clientid, clean=False, kept=True)


def listener(world: World, qos: int) -> Client:
    """A subscriber whose session outlives its connections."""
    client = world.connect("sub", kept=True)
    client.subscribes("t", qos)
    return client


@both_versions
@proves("MQTT-4.3.2-3", "MQTT-4.4.0-1", "MQTT-3.3.1-1")
@proves("3.1.1 MQTT-4.3.2-1", "3.1.1 MQTT-4.4.0-1", "3.1.1 MQTT-3.3.1-1")
def test_qos_1_is_unacknowledged_until_puback(version: int) -> None:
    world = World(version)
    sub, pub = listener(world, 1), world.connect("pub")
    pub.says("32 # \"t\" 0009 {} 'x'")
    sub.hears("32 # \"t\" 0001 {} 'x'")
    for _ in range(2):
        sub = away_and_back(world, sub)
        sub.hears("3a # \"t\" 0001 {} 'x'")
    sub.says("40 # 0001")
    away_and_back(world, sub).hears()


@both_versions
@proves("MQTT-4.3.3-3", "MQTT-4.3.3-4", "MQTT-4.3.3-5", "MQTT-4.3.3-6", "MQTT-4.4.0-1", "MQTT-3.3.1-1")
@proves("3.1.1 MQTT-4.3.3-1", "3.1.1 MQTT-4.4.0-1", "3.1.1 MQTT-3.3.1-1")
def test_qos_2_is_unacknowledged_until_pubrec_and_pubcomp(version: int) -> None:
    world = World(version)
    sub, pub = listener(world, 2), world.connect("pub")
    pub.says("34 # \"t\" 0009 {} 'x'")
    sub.hears("34 # \"t\" 0001 {} 'x'")
    sub = away_and_back(world, sub)
    sub.hears("3c # \"t\" 0001 {} 'x'")
    sub.says("50 # 0001")
    sub.hears("62 # 0001")
    for _ in range(2):
        sub = away_and_back(world, sub)
        sub.hears("62 # 0001")
    sub.says("70 # 0001")
    away_and_back(world, sub).hears()


@both_versions
@proves("MQTT-4.4.0-1")
def test_nothing_is_sent_again_while_the_connection_stands(version: int) -> None:
    world = World(version)
    sub, pub = listener(world, 2), world.connect("pub")
    pub.says("32 # \"t\" 0001 {} 'x'", "34 # \"t\" 0002 {} 'y'")
    sub.heard()
    for _ in range(10):
        world.advance(60)
        sub.goes_on()


@proves("MQTT-4.4.0-1")
def test_a_retry_interval_is_not_for_mqtt_5() -> None:
    world = World(V5, replace(CHANNEL, session=replace(SESSION, retry_interval_us=30_000_000)))
    sub = listener(world, 2)
    world.connect("pub").says("32 # \"t\" 0001 {} 'x'", "34 # \"t\" 0002 {} 'y'")
    sub.heard()
    sub.says("50 # 0002")
    sub.hears("62 # 0002")
    for _ in range(5):
        world.advance(60)
        sub.goes_on()


@cases("qos", [1, 2])
@proves("MQTT-4.4.0-2", "MQTT-4.9.0-2")
def test_a_refusal_acknowledges(qos: int) -> None:
    world = World()
    sub = world.connect("sub", kept=True, properties="21 0001")
    sub.subscribes("t", qos)
    head = f"{0x30 + 2 * qos:02x}"
    world.connect("pub").says(f"{head} # \"t\" 0001 {{}} 'one'", f"{head} # \"t\" 0002 {{}} 'two'")
    sub.hears(f"{head} # \"t\" 0001 {{}} 'one'")
    sub.says(f"{0x30 + 0x10 * qos:02x} # 0001 97")
    assert [packet.payload for packet in sub.publishes()] == [b"two"]
    back = away_and_back(world, sub)
    assert [packet.payload for packet in back.publishes()] == [b"two"]


@cases("qos", [1, 2])
@proves("MQTT-4.3.3-7")
def test_what_was_sent_does_not_expire(qos: int) -> None:
    world = World()
    sub, pub = listener(world, qos), world.connect("pub")
    pub.says(f"{0x30 + 2 * qos:02x} # \"t\" 0001 {{ 02 00000005 }} 'x'")
    assert sub.publish().payload == b"x"
    sub.drops()
    world.advance(10)
    again = world.connect("sub", clean=False, kept=True)
    assert (again.publish().payload, again.is_closed()) == (b"x", False)


# --- reason codes


@cases(
    ("kind", "valid", "invalid"),
    [
        ("40", "00 10 80 83 87 90 91 97 99", "01 11 18 81 82 92 9b ff"),
        ("50", "00 10 80 83 87 90 91 97 99", "01 11 18 81 82 92 9b ff"),
        ("62", "00 92", "01 10 80 91 97 ff"),
        ("70", "00 92", "01 10 80 91 97 ff"),
    ],
)
@proves("MQTT-3.4.2-1", "MQTT-3.5.2-1", "MQTT-3.6.2-1", "MQTT-3.7.2-1")
def test_codes_that_a_client_may_send(kind: str, valid: str, invalid: str) -> None:
    for code in valid.split():
        client = World().connect()
        client.says(f"{kind} # 0001 {code}")
        assert not client.is_closed(), code
    for code in invalid.split():
        client = World().connect()
        client.says(f"{kind} # 0001 {code}")
        assert client.is_closed(), code
        client.ends(0x81, 0x82)


@proves("MQTT-3.4.2-1", "MQTT-3.5.2-1", "MQTT-3.6.2-1", "MQTT-3.7.2-1")
def test_codes_that_the_broker_sends() -> None:
    client = World().connect()
    client.says('32 # "t" 0001 {}', '34 # "t" 0002 {}', "62 # 0003", "50 # 0004", "62 # 0002")
    assert client.words() == ["PUBACK #1 0x10", "PUBREC #2 0x10", "PUBCOMP #3 0x92", "PUBREL #4 0x92", "PUBCOMP #2"]


@both_versions
@proves("3.1.1 MQTT-3.3.5-2", "MQTT-3.4.2-1", "MQTT-3.5.2-1")
def test_a_storage_that_refuses(version: int) -> None:
    """MQTT 3 has no refusal: an acknowledgement would be a lie, so the connection is closed."""
    for qos, answer in ((1, "PUBACK #1 0x97"), (2, "PUBREC #1 0x97")):
        world = World(version, stored=("#",))
        client = world.connect()
        client.says(f"{0x30 + 2 * qos:02x} # \"t\" 0001 {{}} 'x'")
        world.kernel.commit(0x97)
        assert client.words() == ([answer] if version == V5 else [])
        assert client.is_closed() is (version == V3)
