"""Sections 3.8 to 3.11: SUBSCRIBE and UNSUBSCRIBE, their answers, and what subscriptions deliver."""

from dataclasses import replace

from conformance.dialogue import V3, V5, World, both_versions
from conformance.statements import proves
from heliograph.mqtt import packets as p
from heliograph.mqtt import properties as props
from support.cases import cases
from support.options import CHANNEL

SUBACK_CODES = {0, 1, 2, 0x80, 0x83, 0x87, 0x8F, 0x91, 0x97, 0x9E, 0xA1, 0xA2}
UNSUBACK_CODES = {0, 0x11, 0x80, 0x83, 0x87, 0x8F, 0x91}


def identifiers(packet: p.Publish) -> list[int]:
    """The subscription identifiers of a PUBLISH."""
    return props.properties_from_wire(packet.property_bytes, props.ALLOWED_PUBLISH_TO_CLIENT).subscription_ids


@both_versions
@proves("MQTT-3.8.4-1", "MQTT-3.8.4-2", "MQTT-3.8.4-5", "MQTT-3.8.4-6", "MQTT-3.8.4-7", "MQTT-3.9.3-1")
@proves("3.1.1 MQTT-3.8.4-1", "3.1.1 MQTT-3.8.4-2", "3.1.1 MQTT-3.8.4-4", "3.1.1 MQTT-3.8.4-5", "3.1.1 MQTT-3.9.3-1")
def test_one_suback_with_a_code_for_each_filter_in_order(version: int) -> None:
    client = World(version).connect(properties="17 00")  # no reasons, please
    client.says('82 # 0102 {} "a" 02 "a/#/b" 00 "b/+" 01 "c" 00 "+x" 02')
    bad = "8f" if version == V5 else "80"
    client.hears(f"90 # 0102 {{}} 02 {bad} 01 00 {bad}")
    client.says("30 # \"b/x\" {} 'x'")
    client.hears("30 # \"b/x\" {} 'x'")


@both_versions
@cases("packet", ["82 # 0001 {}", "a2 # 0001 {}"])
@proves("MQTT-3.8.3-2", "MQTT-3.10.3-2", "3.1.1 MQTT-3.8.3-3", "3.1.1 MQTT-3.10.3-2")
def test_there_is_at_least_one_filter(version: int, packet: str) -> None:
    client = World(version).connect()
    client.says(packet)
    client.ends(0x82)


@cases(("version", "options"), [(V5, "40 80 c0 03 43"), (V3, "04 08 10 20 40 80 fc 03 07")])
@proves("MQTT-3.8.3-5", "3.1.1 MQTT-3.8.3-4")
def test_reserved_bits_of_the_options(version: int, options: str) -> None:
    for bits in options.split():
        client = World(version).connect()
        client.says(f'82 # 0001 {{}} "t" {bits}')
        client.ends(0x81, 0x82)


@both_versions
@proves("3.1.1 MQTT-3.8.3-2", "MQTT-3.9.3-2", "3.1.1 MQTT-3.9.3-2")
def test_a_broker_without_wildcards(version: int) -> None:
    client = World(version, replace(CHANNEL, wildcard_subscription=False)).connect(properties="17 00")
    client.says('82 # 0001 {} "a/+" 00 "#" 01 "a" 01')
    client.hears("90 # 0001 {} a2 a2 01" if version == V5 else "90 # 0001 80 80 01")


@both_versions
@proves("MQTT-3.9.3-2", "MQTT-3.11.3-2", "3.1.1 MQTT-3.9.3-2")
def test_no_codes_but_those_of_the_tables(version: int) -> None:
    options = replace(CHANNEL, wildcard_subscription=False, max_subscriptions=2, max_topic_levels=3)
    client = World(version, options).connect()
    client.says('82 # 0001 {} "a" 00 "b" 01 "c" 02 "+" 00 "a/b/c/d" 00 "a#" 00 "$share/g/a" 02 "$share/g" 00')
    (suback,) = client.packets()
    assert isinstance(suback, p.Suback)
    assert set(suback.codes) <= (SUBACK_CODES if version == V5 else {0, 1, 2, 0x80})
    assert suback.codes[:2] == [0, 1]
    client.says('a2 # 0002 {} "a" "a" "#/a" "$share/g"')
    (unsuback,) = client.packets()
    assert isinstance(unsuback, p.Suback)
    assert set(unsuback.codes) <= UNSUBACK_CODES


@both_versions
@proves("MQTT-3.8.4-3", "3.1.1 MQTT-3.8.4-3")
def test_the_same_filter_again_replaces_the_subscription(version: int) -> None:
    world = World(version)
    client, pub = world.connect(), world.connect("pub")
    client.subscribes("t", 2)
    client.subscribes("t", 0)
    pub.says("34 # \"t\" 0001 {} 'x'")
    client.hears("30 # \"t\" {} 'x'")
    client.says('a2 # 0001 {} "t"')
    client.heard()
    pub.says("30 # \"t\" {} 'x'")
    client.hears()


@both_versions
@proves("MQTT-3.8.4-4", "3.1.1 MQTT-3.8.4-3")
def test_replacing_a_subscription_loses_nothing(version: int) -> None:
    world = World(version)
    client, pub = world.connect(properties="21 0001"), world.connect("pub")
    client.subscribes("t", 1)
    client.says('82 # 0007 {} "t" 01', "32 # \"t\" 0001 {} '1'", '82 # 0008 {} "t" 01')
    pub.says("32 # \"t\" 0001 {} '2'")
    payloads: list[bytes] = []
    for _ in range(5):
        for packet in client.packets():
            if isinstance(packet, p.Publish):
                payloads.append(packet.payload)
                client.says(f"40 # {packet.packet_id:04x}")
    assert payloads == [b"1", b"2"]


@both_versions
@cases("granted", [0, 1, 2])
@cases("published", [0, 1, 2])
@proves("MQTT-3.8.4-8", "3.1.1 MQTT-3.8.4-6")
def test_the_lower_qos_holds(version: int, granted: int, published: int) -> None:
    world = World(version)
    sub = world.subscriber(qos=granted)
    world.connect("pub").says(f'{0x30 + 2 * published:02x} # "t" {"0001" if published else ""} {{}}')
    assert sub.publish().qos == min(granted, published)


@proves("MQTT-3.8.3-3")
def test_no_local() -> None:
    world = World()
    client = world.connect("c", kept=True)
    client.says('82 # 0001 {} "t" 05')
    client.hears("90 # 0001 {} 01")
    client.says("32 # \"t\" 0001 {} 'own'")
    assert [word.split()[0] for word in client.words()] == ["PUBACK"]
    world.connect("pub").says("32 # \"t\" 0001 {} 'other'")
    client.hears("32 # \"t\" 0001 {} 'other'")
    client.drops()
    again = world.connect("c", clean=False, kept=True)  # another connection with the same client id
    again.heard()
    again.says("30 # \"t\" {} 'own'")
    again.hears()


# --- overlapping subscriptions


@both_versions
@proves("MQTT-3.3.4-2", "3.1.1 MQTT-3.3.5-1")
def test_overlapping_subscriptions_deliver_at_the_highest_qos(version: int) -> None:
    world = World(version)
    client = world.connect()
    client.says('82 # 0001 {} "a/b" 00 "a/+" 02 "#" 01')
    client.heard()
    world.connect("pub").says("34 # \"a/b\" 0001 {} 'x'")
    packets = client.publishes()
    assert max(packet.qos for packet in packets) == 2
    assert len(packets) in (1, 3)


@proves("MQTT-3.3.4-3", "MQTT-3.3.4-4", "MQTT-3.3.4-5")
def test_deliveries_carry_the_identifiers_of_their_subscriptions() -> None:
    world = World()
    client = world.connect()
    client.says('82 # 0001 { 0b 01 } "a/b" 00', '82 # 0002 { 0b ff7f } "a/+" 01', '82 # 0003 {} "#" 00')
    client.says('82 # 0004 { 0b 05 } "other" 00')
    client.heard()
    world.connect("pub").says("32 # \"a/b\" 0001 {} 'x'")
    packets = client.publishes()
    assert sorted(number for packet in packets for number in identifiers(packet)) == [1, 16_383]
    if len(packets) > 1:
        assert sorted(identifiers(packet) for packet in packets) == [[], [1], [16_383]]


@proves("MQTT-3.3.4-3", "MQTT-3.3.1-9")
def test_retained_messages_carry_the_identifier_too() -> None:
    world = World()
    world.connect("pub").says("31 # \"t\" {} 'x'")
    client = world.connect()
    client.says('82 # 0001 { 0b 07 } "t" 00')
    client.hears("90 # 0001 {} 00", "31 # \"t\" { 0b 07 } 'x'")


@proves("MQTT-3.3.4-3", "MQTT-3.8.4-3")
def test_an_identifier_that_is_replaced() -> None:
    world = World()
    client, pub = world.connect(), world.connect("pub")
    for named, expected in (("0b 01", [1]), ("0b 02", [2]), ("", [])):
        client.subscribes("t", 0, named)
        pub.says('30 # "t" {}')
        assert identifiers(client.publish()) == expected


# --- UNSUBSCRIBE


@both_versions
@proves("MQTT-3.10.4-4", "MQTT-3.10.4-5", "MQTT-3.10.4-6", "MQTT-3.11.3-1", "MQTT-3.11.3-2", "MQTT-2.2.1-6")
@proves("3.1.1 MQTT-3.10.4-4", "3.1.1 MQTT-3.10.4-5", "3.1.1 MQTT-3.10.4-6")
def test_one_unsuback_with_a_code_for_each_filter_in_order(version: int) -> None:
    client = World(version).connect()
    client.subscribes("a")
    client.subscribes("b/#")
    client.says('a2 # 0102 {} "a" "never" "b/#" "a"')
    client.hears("b0 # 0102 {} <00 11 00 11>")
    client.says('a2 # 0103 {} "never"')
    client.hears("b0 # 0103 {} <11>")


@both_versions
@proves("MQTT-3.10.4-1", "MQTT-3.10.4-2", "3.1.1 MQTT-3.10.4-1", "3.1.1 MQTT-3.10.4-2")
def test_only_the_filter_that_is_equal_goes(version: int) -> None:
    world = World(version)
    client, pub = world.connect(), world.connect("pub")
    client.subscribes("a/+")
    for other in ("a/b", "A/+", "a/#", "+/+", "a/+/", "#"):
        client.says(f'a2 # 0001 {{}} "{other}"')
        client.hears("b0 # 0001 {} <11>")
    pub.says("30 # \"a/b\" {} 'x'")
    client.hears("30 # \"a/b\" {} 'x'")
    client.says('a2 # 0001 {} "a/+"')
    client.hears("b0 # 0001 {} <00>")
    pub.says("30 # \"a/b\" {} 'x'")
    client.hears()


@both_versions
@proves("MQTT-3.10.4-3", "3.1.1 MQTT-3.10.4-3")
def test_deliveries_that_began_are_completed(version: int) -> None:
    world = World(version)
    client = world.connect("c", kept=True)
    client.subscribes("t", 2)
    world.connect("pub").says("34 # \"t\" 0001 {} 'x'", "32 # \"t\" 0002 {} 'y'")
    client.hears("34 # \"t\" 0001 {} 'x'", "32 # \"t\" 0002 {} 'y'")
    client.says('a2 # 0001 {} "t"')
    client.hears("b0 # 0001 {} <00>")
    client.says("50 # 0001")
    client.hears("62 # 0001")
    client.drops()
    again = world.connect("c", clean=False, kept=True)
    again.hears("62 # 0001", "3a # \"t\" 0002 {} 'y'")
