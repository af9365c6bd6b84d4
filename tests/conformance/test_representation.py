"""Chapters 1 and 2: text, numbers, flags, packet identifiers, and properties that are not there."""

from conformance.dialogue import V5, World, both_versions
from conformance.statements import proves
from heliograph.mqtt import packets as p
from support.cases import cases

# Bytes with their length that are no text: not UTF-8, overlong, surrogates, beyond Unicode.
NO_UTF8 = ["0002 c328", "0002 c0af", "0003 eda080", "0006 eda080edb080", "0004 f4908080", "0001 ff"]


@both_versions
@cases("text", NO_UTF8)
@proves("MQTT-1.5.4-1", "MQTT-3.1.3-4", "3.1.1 MQTT-1.5.3-1", "3.1.1 MQTT-3.1.3-4")
def test_a_client_id_that_is_not_utf_8(version: int, text: str) -> None:
    client = World(version).client()
    client.says(f'10 # "MQTT" {version:02x} 02 0000 {{}} {text}')
    assert client.is_closed()
    assert b"\x20\x02\x00\x00" not in client.heard()


@both_versions
@cases("text", NO_UTF8)
@cases("packet", ["30 # @ {}", "82 # 0001 {} @ 00", "a2 # 0001 {} @"])
@proves("MQTT-1.5.4-1", "MQTT-3.3.2-1", "MQTT-3.8.3-1", "MQTT-3.10.3-1")
@proves("3.1.1 MQTT-1.5.3-1", "3.1.1 MQTT-3.3.2-1", "3.1.1 MQTT-3.8.3-1", "3.1.1 MQTT-3.10.3-1")
def test_topics_that_are_not_utf_8(version: int, packet: str, text: str) -> None:
    client = World(version).connect()
    client.says(packet.replace("@", text))
    client.ends(0x81)


@both_versions
@cases("packet", ["30 # 0003 610062 {}", "82 # 0001 {} 0003 610062 00", "a2 # 0001 {} 0001 00"])
@proves("MQTT-1.5.4-2", "MQTT-4.7.3-2", "3.1.1 MQTT-1.5.3-2", "3.1.1 MQTT-4.7.3-2")
def test_text_with_a_null_character(version: int, packet: str) -> None:
    client = World(version).connect()
    client.says(packet)
    client.ends(0x81)


@both_versions
@cases(
    ("flags", "fields"),
    [(0x04, '0001 00 "m"'), (0x04, '0002 c328 "m"'), (0x80, "0001 00"), (0x80, "0002 c328")],
)
@proves("MQTT-3.1.3-11", "MQTT-3.1.3-12", "3.1.1 MQTT-3.1.3-10", "3.1.1 MQTT-3.1.3-11")
def test_will_topics_and_user_names_are_text(version: int, flags: int, fields: str) -> None:
    client = World(version).client()
    will_properties = "{}" if flags & 0x04 else ""
    client.says(f'10 # "MQTT" {version:02x} {flags | 2:02x} 0000 {{}} "c" {will_properties} {fields}')
    assert client.is_closed()
    assert b"\x20\x02\x00\x00" not in client.heard()


@both_versions
@proves("MQTT-1.5.4-3", "3.1.1 MQTT-1.5.3-3", "MQTT-4.7.3-4", "3.1.1 MQTT-4.7.3-4")
def test_a_byte_order_mark_is_a_character_like_any_other(version: int) -> None:
    world = World(version)
    marked, plain = world.connect("marked"), world.subscriber("t", clientid="plain")
    marked.says("82 # 0001 {} 0004 efbbbf74 00")
    marked.hears("90 # 0001 {} 00")
    world.connect("pub").says("30 # 0004 efbbbf74 {} 'x'")
    marked.hears("30 # 0004 efbbbf74 {} 'x'")
    plain.hears()


@cases(
    "packet",
    [
        "c0 8000",  # remaining length
        "30 # 0001 74 8000",  # property length
        '82 # 0001 { 0b 8100 } "t" 00',  # a property
    ],
)
@proves("MQTT-1.5.5-1")
def test_a_variable_byte_integer_has_no_byte_too_many(packet: str) -> None:
    client = World().connect()
    client.says(packet)
    client.ends(0x81)


@both_versions
@cases("payload_bytes", [122, 123, 16_378, 16_379])
@proves("MQTT-1.5.5-1")
def test_the_broker_writes_lengths_in_their_shortest_form(version: int, payload_bytes: int) -> None:
    world = World(version)
    sub = world.subscriber(qos=1)
    world.connect("pub").says(f"32 # \"t\" 0001 {{}} '{'x' * payload_bytes}'")
    sub.hears(f"32 # \"t\" 0001 {{}} '{'x' * payload_bytes}'")


@cases("pair", ['0001 00 "v"', '"k" 0001 00', '0002 c328 "v"', '"k" 0003 eda080'])
@proves("MQTT-1.5.7-1")
def test_both_strings_of_a_pair_are_text(pair: str) -> None:
    client = World().connect()
    client.says(f'82 # 0001 {{ 26 {pair} }} "t" 00')
    client.ends(0x81)


@both_versions
@cases(
    "packet",
    ["41 # 0001", "52 # 0001", "60 # 0001", "71 # 0001", '80 # 0001 {} "t" 00', 'a0 # 0001 {} "t"', "c1 #", "e1 #"],
)
@proves("MQTT-2.1.3-1", "MQTT-3.6.1-1", "MQTT-3.8.1-1", "MQTT-3.10.1-1", "MQTT-3.14.1-1")
@proves("3.1.1 MQTT-2.2.2-1", "3.1.1 MQTT-2.2.2-2", "3.1.1 MQTT-3.6.1-1")
@proves("3.1.1 MQTT-3.8.1-1", "3.1.1 MQTT-3.10.1-1", "3.1.1 MQTT-3.14.1-1")
def test_reserved_flags_are_as_the_table_has_them(version: int, packet: str) -> None:
    client = World(version).connect()
    client.says(packet)
    client.ends(0x81)


@cases("flags", [1, 2, 4, 8])
@proves("MQTT-3.15.1-1")
def test_reserved_flags_of_auth(flags: int) -> None:
    client = World().connect()
    client.says(f'f{flags} # 19 {{ 15 "m" }}')
    client.ends(0x81)


@both_versions
@cases("flags", [1, 2, 4, 8])
@proves("MQTT-2.1.3-1", "3.1.1 MQTT-2.2.2-2")
def test_reserved_flags_of_connect(version: int, flags: int) -> None:
    client = World(version).client()
    client.says(f'1{flags} # "MQTT" {version:02x} 02 0000 {{}} "c"')
    assert client.is_closed()


@both_versions
@proves("MQTT-2.2.1-2", "3.1.1 MQTT-2.3.1-5")
def test_qos_0_has_no_packet_identifier(version: int) -> None:
    world = World(version)
    sub = world.subscriber()
    world.connect("pub").says("30 # \"t\" {} 0007 'x'")
    sub.hears("30 # \"t\" {} 0007 'x'")  # two bytes of payload


@both_versions
@cases("packet", ['32 # "t" 0000 {}', '34 # "t" 0000 {}', '82 # 0000 {} "t" 00', 'a2 # 0000 {} "t"'])
@proves("MQTT-2.2.1-3", "3.1.1 MQTT-2.3.1-1")
def test_a_packet_identifier_is_not_0(version: int, packet: str) -> None:
    client = World(version).connect()
    client.says(packet)
    client.ends(0x82)


@both_versions
@cases("packet", ['32 # "t"', '34 # "t" 00'])
@proves("MQTT-2.2.1-3", "3.1.1 MQTT-2.3.1-1")
def test_a_packet_identifier_is_there(version: int, packet: str) -> None:
    client = World(version).connect()
    client.says(packet)
    client.ends(0x81)


@both_versions
@proves("MQTT-2.2.1-4", "MQTT-4.3.2-1", "MQTT-4.3.3-1")
@proves("3.1.1 MQTT-2.3.1-4", "3.1.1 MQTT-4.3.2-1", "3.1.1 MQTT-4.3.3-1")
def test_the_broker_uses_no_packet_identifier_twice_at_a_time(version: int) -> None:
    world = World(version)
    sub, pub = world.subscriber(qos=2), world.connect("pub")
    in_use: set[int] = set()
    for number in range(200):
        pub.says(f'{32 + 2 * (number % 2):02x} # "t" {number + 1:04x} {{}}')
        for packet in sub.publishes():
            assert packet.packet_id not in in_use | {0}
            in_use.add(packet.packet_id)
        if len(in_use) > 20:
            oldest = min(in_use)
            sub.says(f"40 # {oldest:04x}", f"50 # {oldest:04x}", f"70 # {oldest:04x}")
            assert {packet.packet_id for packet in sub.packets() if isinstance(packet, p.Ack)} <= {oldest}
            in_use.remove(oldest)


@both_versions
@proves("MQTT-2.2.1-5", "MQTT-2.2.1-6", "MQTT-3.8.4-2", "MQTT-3.10.4-5")
@proves("3.1.1 MQTT-2.3.1-6", "3.1.1 MQTT-2.3.1-7", "3.1.1 MQTT-3.8.4-2", "3.1.1 MQTT-3.10.4-4")
def test_answers_have_the_identifiers_of_what_they_answer(version: int) -> None:
    client = World(version).connect()
    client.says('82 # fffe {} "t" 02')
    client.hears("90 # fffe {} 02")
    client.says('34 # "t" 1234 {}')
    client.hears('34 # "t" 0001 {}', "50 # 1234")
    client.says("62 # 1234", "50 # 0001")
    client.hears("70 # 1234", "62 # 0001")
    client.says('a2 # 0101 {} "t"')
    client.hears("b0 # 0101 {} <00>")


@proves("MQTT-2.2.2-1")
def test_having_no_properties_is_a_length_of_0() -> None:
    client = World(V5).connect()
    client.says('82 # 0001 00 "t" 00')
    client.hears("90 # 0001 00 00")
    client.says("30 # 0001 74 00 'x'")
    client.hears("30 # 0001 74 00 'x'")
    client.says("a2 # 0001 00 0001 74")
    client.hears("b0 # 0001 00 00")
    client.says("30 # 0001 74")
    client.ends(0x81)
