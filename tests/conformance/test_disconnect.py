"""Sections 3.12 to 3.14 and 4.13: PINGREQ, DISCONNECT, and how errors end a connection."""

from conformance.dialogue import V3, V5, World, both_versions
from conformance.statements import proves
from heliograph.mqtt import packets as p
from heliograph.mqtt import properties as props
from heliograph.mqtt import reason_codes as rc
from support.cases import cases

# Reason codes that a server may send in DISCONNECT (MQTT 5, section 3.14.2.1); 0x8C stands in table 2-6 only.
DISCONNECT_CODES = {0, 0x80, 0x81, 0x82, 0x83, 0x87, 0x89, 0x8B, 0x8C, *range(0x8D, 0x91), *range(0x93, 0xA3)}

# What a connected client may not send, and the code that says why.
ERRORS = [
    ("00 #", 0x81),
    ("c0 # 00", 0x81),
    ("c0 8080808001", 0x81),
    ("36 # \"t\" 0001 {} 'x'", 0x81),
    ('80 # 0001 {} "t" 00', 0x81),
    ("82 # 0001 {}", 0x82),
    ('30 # "" {}', 0x82),
    ("20 # 00 00 {}", 0x82),
    ("d0 #", 0x82),
    ('10 # "MQTT" 04 02 0000 "c"', 0x82),
    ('10 # "MQTX" 06 02 0000 "c"', 0x82),  # a CONNECT that is wrong in more than one way
    ("40 # 0000", 0x82),
]


@both_versions
@proves("MQTT-3.12.4-1", "3.1.1 MQTT-3.12.4-1")
def test_ping(version: int) -> None:
    client = World(version).connect()
    client.says("c0 #", "c0 #", "c0 #")
    client.hears("d0 #", "d0 #", "d0 #")


@both_versions
@cases(("packet", "code"), ERRORS)
@proves("MQTT-4.13.1-1", "MQTT-4.13.2-1", "MQTT-3.14.2-1", "MQTT-3.14.4-1", "MQTT-3.14.4-2", "3.1.1 MQTT-4.8.0-1")
def test_an_error_ends_the_connection(version: int, packet: str, code: int) -> None:
    world = World(version)
    other, client = world.subscriber("#"), world.connect()
    client.says(packet, "30 # \"t\" {} 'behind'", "c0 #")
    client.ends(code)
    other.hears()
    other.goes_on()


@both_versions
@proves("MQTT-3.14.1-1", "3.1.1 MQTT-3.14.1-1", "3.1.1 MQTT-2.2.2-2")
def test_reserved_flags_of_disconnect_leave_the_will(version: int) -> None:
    world = World(version)
    watcher = world.subscriber("w")
    client = world.connect("c", will='{} "w" "gone"')
    client.says("e1 #")
    client.ends(0x81)
    watcher.hears("30 # \"w\" {} 'gone'")


@both_versions
@proves("MQTT-3.14.4-3", "3.1.1 MQTT-3.14.4-3", "MQTT-3.14.4-1")
def test_nothing_behind_a_disconnect_is_taken(version: int) -> None:
    world = World(version)
    sub = world.subscriber("#")
    client = world.connect("c", will='{} "w" "gone"')
    client.says("e0 #", "30 # \"t\" {} 'x'", "c0 #")
    client.hears()
    assert client.is_closed()
    sub.hears()


@cases("code", ["01", "02", "05", "10", "11", "18", "19", "7f", "92", "ff"])
@proves("MQTT-3.14.2-1")
def test_codes_that_are_not_those_of_disconnect(code: str) -> None:
    client = World().connect()
    client.says(f"e0 # {code}")
    client.ends(0x81, 0x82)


@cases("code", ["00", "04", "80", "81", "82", "83", "90", "93", "94", "95", "96", "97", "98", "99"])
@proves("MQTT-3.14.2-1")
def test_codes_that_a_client_may_send(code: str) -> None:
    client = World().connect()
    client.says(f"e0 # {code}")
    assert client.is_closed()
    client.hears()


@cases("code", [rc.SERVER_SHUTTING_DOWN, rc.ADMINISTRATIVE_ACTION, rc.SERVER_BUSY, rc.NOT_AUTHORIZED, rc.BANNED])
@proves("MQTT-3.14.2-1", "MQTT-3.14.2-2", "MQTT-3.14.4-2", "MQTT-4.13.2-1")
def test_a_disconnect_of_the_broker(code: int) -> None:
    world = World()
    client = world.connect("c", properties="11 000003e8")
    world.kernel.context.channels.shut_down(code)
    world.kernel.run()
    (packet,) = client.packets()
    assert isinstance(packet, p.Disconnect)
    assert packet.code in DISCONNECT_CODES
    assert props.SESSION_EXPIRY_INTERVAL not in packet.properties.numbers
    assert client.is_closed()


@both_versions
@proves("MQTT-3.14.0-1")
def test_no_disconnect_before_connack(version: int) -> None:
    world = World(version)
    silent, wrong = world.client(), world.client()
    wrong.says('10 # "MQTT" 05 03 0000 {} "c"')
    world.kernel.context.channels.shut_down(rc.SERVER_SHUTTING_DOWN)
    world.kernel.run()
    for client in (silent, wrong):
        assert client.is_closed()
        assert b"\xe0" not in client.heard()[:1]


@proves("MQTT-3.14.0-1", "3.1.1 MQTT-3.1.4-1")
def test_a_client_of_mqtt_3_hears_no_disconnect() -> None:
    world = World(V3)
    client = world.connect()
    world.kernel.context.channels.shut_down(rc.SERVER_SHUTTING_DOWN)
    world.kernel.run()
    assert client.is_closed()
    client.hears()


@proves("3.1.1 MQTT-4.8.0-2")
def test_a_passing_error_closes_the_connection_of_mqtt_3() -> None:
    """Storage takes nothing for the moment."""
    world = World(V3, stored=("#",))
    client, other = world.connect(), world.connect("other")
    client.says("32 # \"t\" 0001 'x'")
    world.kernel.commit(rc.QUOTA_EXCEEDED)
    assert client.is_closed()
    client.hears()
    other.goes_on()


@proves("MQTT-3.14.4-3", "MQTT-4.1.0-2")
def test_a_session_expiry_interval_that_may_not_come_late() -> None:
    client = World(V5).connect()
    client.says("e0 # 00 { 11 0000000a }")
    client.ends(0x82)
