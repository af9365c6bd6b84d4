"""Sections 3.3.1 and 3.3.2: what a PUBLISH may say, and what of it reaches receivers."""

from dataclasses import replace

import pytest

from conformance.dialogue import V3, V5, World, both_versions
from conformance.statements import proves
from heliograph.mqtt import packets as p
from heliograph.mqtt import properties as props
from support.cases import cases
from support.options import CHANNEL


@both_versions
@proves("MQTT-3.3.1-2", "MQTT-4.3.1-1", "3.1.1 MQTT-3.3.1-2", "3.1.1 MQTT-4.3.1-1")
def test_dup_is_0_at_qos_0(version: int) -> None:
    world = World(version)
    sub, client = world.subscriber(qos=0), world.connect()
    client.says('3a # "t" 0001 {}')  # DUP is a matter of QoS 1, and the receiver gets QoS 0
    sub.hears('30 # "t" {}')
    client.heard()
    client.says('38 # "t" {}')
    client.ends(0x81)


@both_versions
@cases("qos", [1, 2])
@proves("MQTT-3.3.1-3", "MQTT-4.3.2-2", "MQTT-4.3.3-2")
@proves("3.1.1 MQTT-3.3.1-3", "3.1.1 MQTT-4.3.2-1", "3.1.1 MQTT-4.3.3-1")
def test_dup_is_the_senders_own(version: int, qos: int) -> None:
    world = World(version)
    sub = world.subscriber(qos=2)
    world.connect("pub").says(f"{0x38 + 2 * qos:02x} # \"t\" 0007 {{}} 'x'")
    sub.hears(f"{0x30 + 2 * qos:02x} # \"t\" 0001 {{}} 'x'")


@both_versions
@cases("first", ["36", "37", "3e", "3f"])
@proves("MQTT-3.3.1-4", "3.1.1 MQTT-3.3.1-4")
def test_qos_3(version: int, first: str) -> None:
    world = World(version)
    sub, client = world.subscriber(), world.connect()
    client.says(f"{first} # \"t\" 0001 {{}} 'x'")
    client.ends(0x81)
    sub.hears()


@both_versions
@cases("topic", ["+", "#", "a/+", "a/#", "a+b", "a#"])
@proves("MQTT-3.3.2-2", "MQTT-4.7.0-1", "3.1.1 MQTT-3.3.2-2", "3.1.1 MQTT-4.7.1-1")
def test_a_topic_name_has_no_wildcards(version: int, topic: str) -> None:
    world = World(version)
    sub, client = world.subscriber("#"), world.connect()
    client.says(f"30 # \"{topic}\" {{}} 'x'")
    client.ends(0x90, 0x82, 0x81)
    sub.hears()


@both_versions
@proves("MQTT-3.3.2-1", "3.1.1 MQTT-3.3.2-1")
def test_the_topic_name_comes_first(version: int) -> None:
    client = World(version).connect()
    client.says("30 # 0009 't'")
    client.ends(0x81)


@both_versions
@proves("MQTT-4.7.3-1", "3.1.1 MQTT-4.7.3-1")
def test_a_topic_name_has_at_least_one_character(version: int) -> None:
    client = World(version).connect()
    client.says('30 # "" {}')
    client.ends(0x82, 0x90)


@both_versions
@proves("MQTT-3.3.2-3", "3.1.1 MQTT-3.3.2-3")
def test_the_topic_name_delivered_matches_the_filter(version: int) -> None:
    world = World(version, replace(CHANNEL, max_topic_levels=100))
    sub = world.subscriber("a/+/c/#")
    pub = world.connect("pub")
    names = ["a/b/c", "a//c/", "a/b/c/d/e", "a/b", "a/c", "b/b/c", "A/b/c", "a/b/c/" + "/".join("x" * 50)]
    for name in names:
        pub.says(f'30 # "{name}" {{}}')
    assert [packet.topic.decode() for packet in sub.publishes()] == [names[0], names[1], names[2], names[7]]


@cases("qos", [0, 1, 2])
@proves("MQTT-3.3.2-4", "MQTT-3.3.2-15", "MQTT-3.3.2-16", "MQTT-3.3.2-17", "MQTT-3.3.2-18", "MQTT-3.3.2-20")
def test_properties_go_to_receivers_as_they_came(qos: int) -> None:
    world = World()
    sub, pub = world.subscriber(qos=2), world.connect("pub")
    every = [
        "01 01",
        "01 00",
        '08 "reply/to"',
        "09 0004 00ff0a0b",
        '26 "b" "1" 26 "a" "2" 26 "b" "1" 26 "" ""',
        '03 "text/plain; charset=utf-8"',
        '01 01 03 "t" 08 "r" 09 0001 00 26 "k" "v"',
    ]
    for number, named in enumerate(every, start=1):
        packet = f"{0x30 + 2 * qos:02x} # \"t\" {f'{number:04x}' if qos else ''} {{ {named} }} 'x'"
        pub.says(packet)
        sub.hears(packet)


@cases(
    ("named", "code"),
    [
        ("08 0002 c328", 0x81),
        ("08 0001 00", 0x81),
        ("03 0003 eda080", 0x81),
        ("03 0001 00", 0x81),
        ('08 "a/+"', 0x82),
        ('08 "#"', 0x82),
    ],
)
@proves("MQTT-3.3.2-13", "MQTT-3.3.2-14", "MQTT-3.3.2-19")
def test_response_topic_and_content_type(named: str, code: int) -> None:
    client = World().connect()
    client.says(f'30 # "t" {{ {named} }}')
    client.ends(code, 0x90)


@proves("MQTT-3.3.4-6")
def test_a_client_sends_no_subscription_identifier() -> None:
    client = World().connect()
    client.says('30 # "t" { 0b 01 }')
    client.ends(0x82)


# --- message expiry


@cases("qos", [1, 2])
@proves("MQTT-3.3.2-5", "MQTT-3.3.2-6")
def test_a_message_that_waits_grows_older(qos: int) -> None:
    world = World()
    sub = world.connect("sub", kept=True)
    sub.subscribes("t", qos)
    sub.drops()
    pub = world.connect("pub")
    head = f"{0x30 + 2 * qos:02x}"
    pub.says(f"{head} # \"t\" 0001 {{ 02 0000000a }} 'short'", f"{head} # \"t\" 0002 {{ 02 00000064 }} 'long'")
    world.advance(10)
    again = world.connect("sub", clean=False, kept=True)
    again.hears(f"{head} # \"t\" 0001 {{ 02 0000005a }} 'long'")


@proves("MQTT-3.3.2-6")
def test_a_retained_message_grows_older() -> None:
    world = World()
    world.connect("pub").says("31 # \"t\" { 02 00000064 } 'x'")
    world.advance(60)
    sub = world.connect("sub")
    sub.says('82 # 0001 {} "t" 00')
    sub.hears("90 # 0001 {} 00", "31 # \"t\" { 02 00000028 } 'x'")
    world.advance(40)
    sub.says('82 # 0001 {} "t" 00')
    sub.hears("90 # 0001 {} 00")


# --- topic aliases


@proves("MQTT-3.3.2-12", "MQTT-3.2.2-17")
def test_every_alias_up_to_the_maximum() -> None:
    world = World(V5, replace(CHANNEL, max_topic_alias=300))
    sub, pub = world.subscriber("#"), world.connect("pub")
    assert pub.connack.properties.named()["Topic-Alias-Maximum"] == 300
    pub.says(*[f'30 # "t/{alias}" {{ 23 {alias:04x} }}' for alias in range(1, 301)])
    assert len(sub.publishes()) == 300
    pub.says(*[f'30 # "" {{ 23 {alias:04x} }}' for alias in range(1, 301)])
    assert [packet.topic.decode() for packet in sub.publishes()] == [f"t/{alias}" for alias in range(1, 301)]


@pytest.mark.slow
@proves("MQTT-3.3.2-12")
def test_every_alias_up_to_the_maximum_that_is_told_by_default() -> None:
    world = World()
    pub = world.connect("pub")
    highest = pub.connack.properties.numbers[props.TOPIC_ALIAS_MAXIMUM]
    pub.says(
        *[f'30 # "site/building/floor/room/device/{alias}" {{ 23 {alias:04x} }}' for alias in range(1, highest + 1)]
    )
    pub.goes_on()


@cases(("alias_max", "alias"), [(300, "0000"), (300, "012d"), (0, "0001"), (0, "0000")])
@proves("MQTT-3.3.2-8", "MQTT-3.3.2-9", "MQTT-3.2.2-17", "MQTT-3.2.2-18")
def test_aliases_that_may_not_be_used(alias_max: int, alias: str) -> None:
    world = World(V5, replace(CHANNEL, max_topic_alias=alias_max))
    sub, client = world.subscriber("#"), world.connect()
    client.says(f'30 # "t" {{ 23 {alias} }}')
    client.ends(0x94, 0x82)
    sub.hears()


@proves("MQTT-3.3.2-7")
def test_aliases_end_with_their_connection() -> None:
    world = World()
    first = world.connect("c", kept=True)
    first.says('30 # "t" { 23 0001 }')
    first.drops()
    second = world.connect("c", clean=False, kept=True)
    second.says('30 # "" { 23 0001 }')
    second.ends(0x82, 0x94)


@cases("alias_max", [None, 0, 1, 3])
@proves("MQTT-3.1.2-26", "MQTT-3.1.2-27", "MQTT-3.3.2-7", "MQTT-3.3.2-8", "MQTT-3.3.2-11")
def test_aliases_of_the_broker(alias_max: int | None) -> None:
    """A client that takes aliases can tell every topic, and sees none beyond its maximum."""
    world = World()
    named = "" if alias_max is None else f"22 {alias_max:04x}"
    pub = world.connect("pub")
    for clean in (True, False):
        sub = world.connect("sub", clean=clean, kept=True, properties=named)
        sub.says('82 # 0001 {} "#" 01')
        sub.heard()
        topics: dict[int, bytes] = {}
        for number in range(60):
            name = f"busy/{number % 2}" if number % 3 else f"quiet/{number}"
            pub.says(f'{0x30 + 2 * (number % 2):02x} # "{name}" {"0001" if number % 2 else ""} {{}}')
            packet = sub.publish()
            alias = alias_of(packet)
            assert alias is None or 0 < alias <= (alias_max or 0)
            if alias is not None and packet.topic:
                topics[alias] = packet.topic
            assert (packet.topic if alias is None else topics[alias]) == name.encode()
            if packet.qos:
                sub.says(f"40 # {packet.packet_id:04x}")
        sub.drops()


@cases("qos", [1, 2])
@proves("MQTT-3.3.2-7", "MQTT-4.4.0-1")
def test_what_is_sent_again_has_its_topic(qos: int) -> None:
    """The alias that it was sent with ended with the connection."""
    world = World()
    sub = world.connect("sub", kept=True, properties="22 0005")
    sub.subscribes("busy", qos)
    pub = world.connect("pub")
    for number in range(1, 6):
        pub.says(f'{0x30 + 2 * qos:02x} # "busy" {number:04x} {{}}')
    sub.heard()
    for named in ("22 0005", ""):
        sub.drops()
        sub = world.connect("sub", clean=False, kept=True, properties=named)
        known: dict[int, bytes] = {}
        for packet in sub.publishes():
            alias = alias_of(packet)
            if packet.topic and alias is not None:
                known[alias] = packet.topic
            assert (packet.topic or known[alias or 0], packet.dup) == (b"busy", True)


def alias_of(packet: p.Publish) -> int | None:
    """The topic alias of a PUBLISH without other properties."""
    named = packet.property_bytes
    assert named == b"" or (named[0] == 0x23 and len(named) == 3)
    return int.from_bytes(named[1:], "big") if named else None


@proves("MQTT-3.1.2-27")
def test_clients_of_mqtt_3_get_topics() -> None:
    world = World(V3)
    sub, pub = world.subscriber(), world.connect("pub")
    for _ in range(20):
        pub.says("30 # \"t\" 'x'")
        sub.hears("30 # \"t\" 'x'")
