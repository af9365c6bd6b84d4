"""Sections 3.1 and 3.2: which CONNECT is taken, and what CONNACK says of it."""

from dataclasses import replace
from string import ascii_letters, digits

from conformance.dialogue import V3, V5, World, both_versions
from conformance.statements import proves
from heliograph.broker import hooks
from heliograph.mqtt import packets as p
from heliograph.mqtt import reason_codes as rc
from support.cases import cases
from support.options import CHANNEL

# Reason codes that may stand in CONNACK (MQTT 5, table 3-1).
CONNACK_CODES = {0, *range(0x80, 0x8B), 0x8C, 0x90, 0x95, 0x97, 0x99, 0x9A, 0x9B, 0x9C, 0x9D, 0x9F}


def refuse(world: World, code: int) -> None:
    """Let nobody in, for the reason `code`."""
    world.kernel.broker.hooks.point(hooks.CLIENT_AUTHENTICATE).add(lambda *args: (hooks.STOP, code))


@both_versions
@cases("packet", ["30 # \"t\" {} 'x'", '82 # 0001 {} "t" 00', "c0 #", "e0 #", "40 # 0001", "f0 # 18", "20 # 00 00 {}"])
@proves("MQTT-3.1.0-1", "MQTT-3.14.0-1", "3.1.1 MQTT-3.1.0-1", "3.1.1 MQTT-3.2.0-1")
def test_the_first_packet_is_connect(version: int, packet: str) -> None:
    client = World(version).client()
    client.says(packet)
    assert client.is_closed()
    client.hears()


@both_versions
@proves("MQTT-3.1.0-2", "MQTT-3.2.0-2", "MQTT-4.13.1-1", "3.1.1 MQTT-3.1.0-2", "3.1.1 MQTT-4.8.0-1")
def test_a_second_connect_ends_the_connection(version: int) -> None:
    client = World(version).connect()
    client.says(f'10 # "MQTT" {version:02x} 02 0000 {{}} "c"')
    client.ends(0x82)


@both_versions
@cases("name", ["MQTX", "mqtt", "MQIsdp", "", "MQTT\ufeff", "HTTP"])
@proves("MQTT-3.1.2-1", "3.1.1 MQTT-3.1.2-1")
def test_another_protocol_name_is_not_served(version: int, name: str) -> None:
    client = World(version).client()
    client.says(f'10 # "{name}" {version:02x} 02 0000 {{}} "c"')
    assert client.is_closed()
    assert client.heard() in (b"", b"\x20\x02\x00\x01", b"\x20\x03\x00\x84\x00")


@cases("level", [0, 1, 2, 6, 0x84, 255])
@proves("MQTT-3.1.2-2", "3.1.1 MQTT-3.1.2-2")
def test_a_version_that_nobody_knows(level: int) -> None:
    client = World(V3).client()
    client.says(f'10 # "MQTT" {level:02x} 02 0000 "c"')
    client.hears("20 # 00 01")
    assert client.is_closed()


@both_versions
@proves("MQTT-3.1.2-3", "3.1.1 MQTT-3.1.2-3")
def test_the_reserved_connect_flag(version: int) -> None:
    client = World(version).client()
    client.says(f'10 # "MQTT" {version:02x} 03 0000 {{}} "c"')
    assert client.is_closed()
    assert b"\x20\x02\x00\x00" not in client.heard()


@both_versions
@cases(
    ("flags", "rest"),
    [
        (0x0A, ""),  # will QoS without a will
        (0x12, ""),
        (0x22, ""),  # will retain without a will
        (0x1E, '{} "w" "m"'),  # will QoS 3
        (0x06, ""),  # the will is missing
        (0x06, '{} "w"'),
        (0x02, '{} "w" "m"'),  # a will that was not announced
        (0x82, ""),  # the user name is missing
        (0x02, '"u"'),  # a user name that was not announced
        (0xC2, '"u"'),  # the password is missing
        (0x82, '"u" "p"'),  # a password that was not announced
    ],
)
@proves("MQTT-3.1.2-9", "MQTT-3.1.2-11", "MQTT-3.1.2-12", "MQTT-3.1.2-13", "MQTT-3.1.2-16", "MQTT-3.1.2-17")
@proves("MQTT-3.1.2-18", "MQTT-3.1.2-19", "MQTT-3.1.4-1")
@proves("3.1.1 MQTT-3.1.2-9", "3.1.1 MQTT-3.1.2-11", "3.1.1 MQTT-3.1.2-13", "3.1.1 MQTT-3.1.2-14")
@proves("3.1.1 MQTT-3.1.2-15", "3.1.1 MQTT-3.1.2-18", "3.1.1 MQTT-3.1.2-19", "3.1.1 MQTT-3.1.2-20")
@proves("3.1.1 MQTT-3.1.2-21", "3.1.1 MQTT-3.1.4-1")
def test_flags_and_fields_that_disagree(version: int, flags: int, rest: str) -> None:
    client = World(version).client()
    client.says(f'10 # "MQTT" {version:02x} {flags:02x} 0000 {{}} "c" {rest}')
    assert client.is_closed()
    heard = client.heard()
    assert heard == b"" if version == V3 else heard[3:4] != b"\0"


@both_versions
@proves("MQTT-3.1.3-1", "3.1.1 MQTT-3.1.3-1")
def test_the_fields_of_the_payload_in_their_order(version: int) -> None:
    world = World(version)
    watcher = world.subscriber("will/topic")
    client = world.connect("c", will='{} "will/topic" "will payload"', flags=0xC0, rest='"user" "password"')
    client.drops()
    watcher.hears("30 # \"will/topic\" {} 'will payload'")


@both_versions
@cases("topic", ["", "a/+", "#"])
@proves("MQTT-3.1.4-1", "MQTT-4.7.0-1", "3.1.1 MQTT-3.1.4-1", "3.1.1 MQTT-3.2.2-6", "3.1.1 MQTT-4.7.1-1")
def test_a_will_topic_that_is_no_topic_name(version: int, topic: str) -> None:
    client = World(version).client()
    client.says(f'10 # "MQTT" {version:02x} 06 0000 {{}} "c" {{}} "{topic}" "m"')
    assert client.is_closed()
    heard = client.heard()
    assert heard == b"" if version == V3 else heard[3:4] != b"\0"


@proves("3.1.1 MQTT-3.1.2-22")
def test_a_password_needs_a_user_name_in_mqtt_3() -> None:
    old, new = World(V3).client(), World(V5).client()
    old.says('10 # "MQTT" 04 42 0000 "c" "p"')
    assert old.is_closed()
    old.hears()
    new.connect("c", flags=0x40, rest='"p"')
    assert new.connack.code == 0


@both_versions
@proves("MQTT-3.1.3-3", "3.1.1 MQTT-3.1.3-3")
def test_the_client_id_is_there(version: int) -> None:
    client = World(version).client()
    client.says(f'10 # "MQTT" {version:02x} 02 0000 {{}}')
    assert client.is_closed()


@both_versions
@proves("MQTT-3.1.3-5", "MQTT-3.1.4-5", "3.1.1 MQTT-3.1.3-5", "3.1.1 MQTT-3.1.4-4")
def test_client_ids_that_every_broker_takes(version: int) -> None:
    world = World(version)
    letters = digits + ascii_letters
    for clientid in [*letters, *(letters[at : at + 23] for at in range(0, 62, 23)), "x" * 23]:
        assert world.connect(clientid).connack.code == 0


@both_versions
@proves("MQTT-3.1.3-6", "MQTT-3.1.3-7", "MQTT-3.2.2-16", "3.1.1 MQTT-3.1.3-6")
def test_a_client_without_an_id_gets_one_that_is_its_own(version: int) -> None:
    world = World(version)
    taken = [world.connect(f"assigned-{number}", kept=True) for number in (1, 2, 3)]  # what the broker gives out here
    one, two = world.connect(""), world.connect("")
    if version == V5:
        ids = {client.connack.properties.named()["Assigned-Client-Identifier"] for client in (one, two)}
        assert len(ids | {"assigned-1", "assigned-2", "assigned-3"}) == 5
    for client in [*taken, one, two]:
        client.goes_on()
    one.subscribes("t")
    two.says("30 # \"t\" {} 'x'")
    one.hears("30 # \"t\" {} 'x'")


@proves("3.1.1 MQTT-3.1.3-7", "3.1.1 MQTT-3.1.3-8", "3.1.1 MQTT-3.2.2-4", "3.1.1 MQTT-3.2.2-5")
def test_an_empty_client_id_needs_a_clean_session_in_mqtt_3() -> None:
    client = World(V3).client()
    client.says('10 # "MQTT" 04 00 0000 ""')
    client.hears("20 # 00 02")
    assert client.is_closed()


@both_versions
@proves("MQTT-3.1.3-8", "MQTT-3.2.2-6", "MQTT-3.2.2-7", "MQTT-4.13.2-1")
@proves("3.1.1 MQTT-3.1.3-9", "3.1.1 MQTT-3.2.2-5")
def test_a_client_id_that_is_refused(version: int) -> None:
    client = World(version, replace(CHANNEL, max_clientid_len=23)).client()
    client.connect("x" * 24)
    assert client.connack.code == rc.CLIENT_IDENTIFIER_NOT_VALID
    assert not client.connack.session_present
    assert client.is_closed()


@both_versions
@proves("MQTT-3.1.4-2", "MQTT-3.1.4-6", "MQTT-3.2.2-6", "MQTT-3.2.2-7")
@proves("3.1.1 MQTT-3.1.4-5", "3.1.1 MQTT-3.2.2-4", "3.1.1 MQTT-3.2.2-5")
def test_nothing_behind_a_refused_connect_is_taken(version: int) -> None:
    world = World(version)
    world.connect("c", kept=True).drops()
    sub = world.subscriber("#")
    refuse(world, rc.NOT_AUTHORIZED)
    client = world.client()
    connect = f'10 # "MQTT" {version:02x} 00 0000 {{}} "c"'
    client.says(connect, "30 # \"t\" {} 'x'", '82 # 0001 {} "t" 00', connect)
    client.reads_connack()
    assert (client.connack.code, client.connack.session_present) == (rc.NOT_AUTHORIZED, False)
    client.hears()
    assert client.is_closed()
    sub.hears()


@cases("code", [0x01, 0x10, 0x80, 0x87, 0x8A, 0x8D, 0x8E, 0x91, 0xFF])
@proves("MQTT-3.2.2-8")
def test_connack_has_no_code_that_is_not_its_own(code: int) -> None:
    world = World()
    refuse(world, code)
    client = world.client()
    client.connect()
    assert client.connack.code in CONNACK_CODES - {0}
    assert client.is_closed()


@cases("code", [0x80, 0x84, 0x86, 0x87, 0x88, 0x8A, 0x97, 0x9D])
@proves("3.1.1 MQTT-3.2.2-4", "3.1.1 MQTT-3.2.2-5", "3.1.1 MQTT-3.2.2-6")
def test_return_codes_of_mqtt_3(code: int) -> None:
    world = World(V3)
    refuse(world, code)
    client = world.client()
    client.says('10 # "MQTT" 04 02 0000 "c"')
    assert client.heard() in [b"", *(bytes([0x20, 2, 0, code]) for code in range(1, 6))]
    assert client.is_closed()


@both_versions
@proves("MQTT-3.1.4-5", "MQTT-3.2.0-1", "MQTT-3.2.0-2", "3.1.1 MQTT-3.1.4-4", "3.1.1 MQTT-3.2.0-1")
def test_connack_comes_once_and_before_everything_else(version: int) -> None:
    world = World(version)
    sub = world.connect("sub", kept=True)
    sub.subscribes("t", 1)
    sub.drops()
    world.connect("pub").says("32 # \"t\" 0001 {} 'x'")
    client = world.client()
    client.says(f'10 # "MQTT" {version:02x} 00 0000 {{}} "sub"', "c0 #")
    packets = client.packets()
    assert [type(packet) for packet in packets].count(p.Connack) == 1
    assert isinstance(packets[0], p.Connack)
    assert packets[0].session_present
    assert len(packets) == 3


@proves("MQTT-3.2.2-1", "MQTT-3.2.2-8")
def test_reserved_flags_of_connack_are_0() -> None:
    world = World()
    client = world.client()
    client.says('10 # "MQTT" 05 02 0000 {} "c"')
    assert client.heard()[2:4] == b"\0\0"
    client.drops()
    refuse(world, rc.BANNED)
    other = world.client()
    other.says('10 # "MQTT" 05 02 0000 {} "c"')
    assert other.heard()[2:4] == b"\0\x8a"


# --- what the broker cannot do


@cases("max_qos", [0, 1])
@proves("MQTT-3.2.2-9", "MQTT-3.2.2-10", "MQTT-3.2.2-11", "MQTT-3.2.2-12")
def test_a_broker_without_the_higher_qos(max_qos: int) -> None:
    world = World(V5, replace(CHANNEL, max_qos_allowed=max_qos))
    client = world.connect()
    assert client.connack.properties.named()["Maximum-QoS"] == max_qos
    client.says('82 # 0001 {} "a" 00 "b" 01 "c" 02')
    client.hears(f"90 # 0001 {{}} 00 {min(1, max_qos):02x} {min(2, max_qos):02x}")
    client.says(f'{0x32 + 2 * max_qos:02x} # "t" 0001 {{}}')
    client.ends(0x9B)
    will = world.client()
    will.connect("w", will='{} "w" "m"', flags=(max_qos + 1) << 3)
    assert will.connack.code == rc.QOS_NOT_SUPPORTED
    assert will.is_closed()


@proves("MQTT-3.2.2-13", "MQTT-3.2.2-14")
def test_a_broker_without_retained_messages() -> None:
    world = World(V5, replace(CHANNEL, retain_available=False))
    client = world.connect()
    assert client.connack.properties.named()["Retain-Available"] == 0
    client.says("31 # \"t\" {} 'x'")
    client.ends(0x9A)
    will = world.client()
    will.connect("w", will='{} "w" "m"', flags=0x20)
    assert will.connack.code == rc.RETAIN_NOT_SUPPORTED
    assert will.is_closed()


@both_versions
@proves("MQTT-3.2.2-15")
def test_a_packet_that_is_too_large_for_the_broker(version: int) -> None:
    world = World(version, replace(CHANNEL, max_packet_size=100))
    sub, client = world.subscriber(), world.connect()
    if version == V5:
        assert client.connack.properties.named()["Maximum-Packet-Size"] == 100
    client.says(f"30 # \"t\" {{}} '{'x' * 96}'")
    client.ends(0x95)
    sub.hears()
