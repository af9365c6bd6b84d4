"""Sections 3.15 and 4.12: AUTH, where no authenticator knows the method."""

from conformance.dialogue import V3, V5, World
from conformance.statements import proves
from heliograph.mqtt import properties as props
from heliograph.mqtt import reason_codes as rc
from support.cases import cases


@proves("MQTT-4.12.0-1", "MQTT-4.12.0-4", "MQTT-3.1.4-2")
def test_a_method_that_nobody_knows() -> None:
    world = World()
    client = world.client()
    client.says('10 # "MQTT" 05 02 0000 { 15 "no such method" 16 "data" } "c"', "30 # \"t\" {} 'x'")
    client.reads_connack()
    assert client.connack.code in (rc.BAD_AUTHENTICATION_METHOD, rc.NOT_AUTHORIZED)
    client.hears()
    assert client.is_closed()


@proves("MQTT-4.12.0-6")
def test_a_client_without_a_method_hears_of_none() -> None:
    client = World().connect("c", flags=0xC0, rest='"user" "password"')
    assert props.AUTHENTICATION_METHOD not in client.connack.properties.strings
    assert props.AUTHENTICATION_DATA not in client.connack.properties.binaries
    client.hears()


@cases("packet", ['f0 # 19 { 15 "m" }', 'f0 # 18 { 15 "m" 16 "d" }', "f0 # 19", "f0 #", "f0 # 00"])
@proves("MQTT-4.12.0-7", "MQTT-4.13.1-1")
def test_a_client_without_a_method_sends_no_auth(packet: str) -> None:
    client = World().connect()
    client.says(packet)
    client.ends(0x82, 0x81)


@cases("code", ["01", "17", "1a", "80", "87", "ff"])
@proves("MQTT-3.15.2-1")
def test_codes_that_are_not_those_of_auth(code: str) -> None:
    client = World().connect()
    client.says(f'f0 # {code} {{ 15 "m" }}')
    client.ends(0x82, 0x81)


@proves("MQTT-3.15.1-1")
def test_auth_is_no_packet_of_mqtt_3() -> None:
    client = World(V3).connect()
    client.says("f0 #")
    client.ends()


@proves("MQTT-4.12.0-1")
def test_authentication_data_needs_a_method() -> None:
    client = World(V5).client()
    client.says('10 # "MQTT" 05 02 0000 { 16 "data" } "c"')
    assert client.is_closed()
    assert client.heard()[3:4] != b"\0"
