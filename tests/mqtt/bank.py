"""The bank of packet cases: what stands on the wire, and what it says or why it must be refused.

Tests of decoding, encoding, channels and fuzzing take their packets from here. Bytes are written in the notation of
`support.wire`, never made by the encoder under test. `tags` name the normative statements that a case is about, those
of MQTT 3.1.1 with the version in front.
"""

from dataclasses import dataclass
from typing import Final

from heliograph.mqtt import packets as p
from heliograph.mqtt import reason_codes as rc
from heliograph.mqtt.errors import MalformedPacketError, ProtocolError, TopicNameError
from heliograph.mqtt.properties import Properties
from support.packets import properties, publish
from support.wire import wire

V3: Final = (p.V3_1, p.V3_1_1)
V5: Final = (p.V5,)
ALL: Final = (p.V3_1, p.V3_1_1, p.V5)

MALFORMED: Final = (MalformedPacketError, rc.MALFORMED_PACKET)
PROTOCOL: Final = (ProtocolError, rc.PROTOCOL_ERROR)
BAD_VERSION: Final = (ProtocolError, rc.UNSUPPORTED_PROTOCOL_VERSION)
BAD_TOPIC: Final = (TopicNameError, rc.TOPIC_NAME_INVALID)
BAD_ALIAS: Final = (ProtocolError, rc.TOPIC_ALIAS_INVALID)

Fault = tuple[type[ProtocolError], int]


@dataclass(frozen=True)
class Case:
    """One packet.

    Args:
        packet: What it says; None if it must be refused.
        fault: The error class and its reason code if it must be refused.
        is_canonical: Whether encoding the packet gives `data` again.
        in_decoder: Whether the decoder refuses it; otherwise the channel does, which knows more.
    """

    name: str
    data: bytes
    versions: tuple[int, ...]
    packet: p.Packet | None = None
    fault: Fault | None = None
    tags: tuple[str, ...] = ()
    is_canonical: bool = True
    in_decoder: bool = True

    def __str__(self) -> str:
        return self.name


def good(
    name: str, notation: str, packet: p.Packet, versions: tuple[int, ...] = ALL, *tags: str, canonical: bool = True
) -> Case:
    """A packet that is valid."""
    return Case(name, wire(notation), versions, packet, None, tags, canonical)


def bad(name: str, notation: str, fault: Fault, versions: tuple[int, ...] = ALL, *tags: str) -> Case:
    """A packet that the decoder refuses."""
    return Case(name, wire(notation), versions, None, fault, tags)


def refused(name: str, notation: str, fault: Fault, versions: tuple[int, ...] = ALL, *tags: str) -> Case:
    """A packet of a connected client that decodes and is refused all the same."""
    return Case(name, wire(notation), versions, None, fault, tags, in_decoder=False)


def connect(
    version: int,
    clientid: str = "c1",
    clean_start: bool = True,
    keepalive_s: int = 60,
    will: p.Will | None = None,
    username: str | None = None,
    password: bytes | None = None,
    named: Properties | None = None,
) -> p.Connect:
    """A CONNECT with ordinary values."""
    return p.Connect(
        version, clientid, clean_start, keepalive_s, will, username, password, named if named is not None else NONE
    )


NONE: Final = Properties()

CONNECTS: Final = [
    good("connect 3.1", '10 # "MQIsdp" 03 02 003c "c1"', connect(p.V3_1), (p.V3_1,)),
    good("connect 3.1.1", '10 # "MQTT" 04 02 003c "c1"', connect(p.V3_1_1), (p.V3_1_1,)),
    good("connect 5", '10 # "MQTT" 05 02 003c {} "c1"', connect(p.V5), V5),
    good("connect, session kept", '10 # "MQTT" 04 00 003c "c1"', connect(p.V3_1_1, clean_start=False), (p.V3_1_1,)),
    good("connect, no client id", '10 # "MQTT" 04 02 003c ""', connect(p.V3_1_1, ""), (p.V3_1_1,)),
    good("connect, no keepalive", '10 # "MQTT" 05 02 0000 {} "c1"', connect(p.V5, keepalive_s=0), V5),
    good("connect, longest keepalive", '10 # "MQTT" 05 02 ffff {} "c1"', connect(p.V5, keepalive_s=65_535), V5),
    good("connect, client id not ASCII", '10 # "MQTT" 04 02 003c "ü😀"', connect(p.V3_1_1, "ü😀"), (p.V3_1_1,)),
    good(
        "connect, zero width no-break space kept",
        '10 # "MQTT" 05 02 003c {} 0005 efbbbf 6331',
        connect(p.V5, "\ufeffc1"),
        V5,
        "MQTT-1.5.4-3",
    ),
    good("connect, user name", '10 # "MQTT" 04 82 003c "c1" "u"', connect(p.V3_1_1, username="u"), (p.V3_1_1,)),
    good(
        "connect, user name and password",
        '10 # "MQTT" 04 c2 003c "c1" "u" "p"',
        connect(p.V3_1_1, username="u", password=b"p"),
        (p.V3_1_1,),
    ),
    good("connect, empty user name", '10 # "MQTT" 04 82 003c "c1" ""', connect(p.V3_1_1, username=""), (p.V3_1_1,)),
    good("connect 5, password alone", '10 # "MQTT" 05 42 003c {} "c1" "p"', connect(p.V5, password=b"p"), V5),
    good(
        "connect, password is binary",
        '10 # "MQTT" 05 42 003c {} "c1" 0002 00ff',
        connect(p.V5, password=b"\0\xff"),
        V5,
    ),
    good(
        "connect, will",
        '10 # "MQTT" 04 06 003c "c1" "w/t" "bye"',
        connect(p.V3_1_1, will=p.Will("w/t", b"bye", 0, False, NONE)),
        (p.V3_1_1,),
    ),
    good(
        "connect, will at QoS 2 with retain",
        '10 # "MQTT" 04 36 003c "c1" "w/t" "bye"',
        connect(p.V3_1_1, will=p.Will("w/t", b"bye", 2, True, NONE)),
        (p.V3_1_1,),
    ),
    good(
        "connect, will without payload",
        '10 # "MQTT" 04 0e 003c "c1" "w" ""',
        connect(p.V3_1_1, will=p.Will("w", b"", 1, False, NONE)),
        (p.V3_1_1,),
    ),
    good(
        "connect, everything",
        '10 # "MQTT" 05 f6 003c { 11 0000003c 21 0014 27 00001000 22 000a 26 "k" "v" } "c1" '
        '{ 18 00000005 01 01 02 0000000a 03 "text" 08 "r/t" 09 "id" 26 "a" "1" } "w" "bye" "u" "p"',
        connect(
            p.V5,
            will=p.Will(
                "w",
                b"bye",
                2,
                True,
                properties(
                    will_delay_interval=5,
                    payload_format_indicator=1,
                    message_expiry_interval=10,
                    content_type="text",
                    response_topic="r/t",
                    correlation_data=b"id",
                    user_property=[("a", "1")],
                ),
            ),
            username="u",
            password=b"p",
            named=properties(
                session_expiry_interval=60,
                receive_maximum=20,
                maximum_packet_size=4096,
                topic_alias_maximum=10,
                user_property=[("k", "v")],
            ),
        ),
        V5,
    ),
    good(
        "connect, session that never ends",
        '10 # "MQTT" 05 02 003c { 11 ffffffff } "c1"',
        connect(p.V5, named=properties(session_expiry_interval=0xFFFFFFFF)),
        V5,
    ),
    good(
        "connect, authentication",
        '10 # "MQTT" 05 02 003c { 15 "SCRAM" 16 "data" } "c1"',
        connect(p.V5, named=properties(authentication_method="SCRAM", authentication_data=b"data")),
        V5,
    ),
    good(
        "connect, wants no problem information",
        '10 # "MQTT" 05 02 003c { 17 00 19 01 } "c1"',
        connect(p.V5, named=properties(request_problem_information=0, request_response_information=1)),
        V5,
    ),
    bad("connect, wrong name", '10 # "MQTX" 04 02 003c "c1"', BAD_VERSION, ALL, "MQTT-3.1.2-1", "3.1.1 MQTT-3.1.2-1"),
    bad(
        "connect, name in lower case",
        '10 # "mqtt" 04 02 003c "c1"',
        BAD_VERSION,
        ALL,
        "MQTT-3.1.2-1",
        "3.1.1 MQTT-3.1.2-1",
    ),
    bad("connect, version 6", '10 # "MQTT" 06 02 003c "c1"', BAD_VERSION, ALL, "MQTT-3.1.2-2", "3.1.1 MQTT-3.1.2-2"),
    bad("connect, version 0", '10 # "MQTT" 00 02 003c "c1"', BAD_VERSION, ALL, "MQTT-3.1.2-2", "3.1.1 MQTT-3.1.2-2"),
    bad(
        "connect, name of 3.1 with version 4",
        '10 # "MQIsdp" 04 02 003c "c1"',
        BAD_VERSION,
        ALL,
        "MQTT-3.1.2-2",
        "3.1.1 MQTT-3.1.2-2",
    ),
    bad(
        "connect, name of 3.1.1 with version 3",
        '10 # "MQTT" 03 02 003c "c1"',
        BAD_VERSION,
        ALL,
        "MQTT-3.1.2-2",
        "3.1.1 MQTT-3.1.2-2",
    ),
    bad("connect, reserved flag", '10 # "MQTT" 04 03 003c "c1"', MALFORMED, ALL, "MQTT-3.1.2-3", "3.1.1 MQTT-3.1.2-3"),
    bad("connect 5, reserved flag", '10 # "MQTT" 05 03 003c {} "c1"', MALFORMED, V5, "MQTT-3.1.2-3"),
    bad("connect, empty", "10 #", MALFORMED),
    bad("connect, name only", '10 # "MQTT"', MALFORMED),
    bad("connect, no keepalive field", '10 # "MQTT" 04 02 00', MALFORMED),
    bad("connect, no client id field", '10 # "MQTT" 04 02 003c', MALFORMED, ALL, "MQTT-3.1.3-3", "3.1.1 MQTT-3.1.3-3"),
    bad("connect 5, no properties field", '10 # "MQTT" 05 02 003c', MALFORMED, V5),
    bad("connect, client id cut off", "10 # \"MQTT\" 04 02 003c 0005 'c1'", MALFORMED),
    bad(
        "connect, client id not UTF-8",
        '10 # "MQTT" 04 02 003c 0002 c328',
        MALFORMED,
        ALL,
        "MQTT-1.5.4-1",
        "3.1.1 MQTT-1.5.3-1",
    ),
    bad(
        "connect, client id with a surrogate",
        '10 # "MQTT" 04 02 003c 0003 eda080',
        MALFORMED,
        ALL,
        "MQTT-1.5.4-1",
        "3.1.1 MQTT-1.5.3-1",
    ),
    bad(
        "connect, client id with U+0000",
        '10 # "MQTT" 04 02 003c 0002 6100',
        MALFORMED,
        ALL,
        "MQTT-1.5.4-2",
        "3.1.1 MQTT-1.5.3-2",
    ),
    bad(
        "connect, client id in overlong UTF-8",
        '10 # "MQTT" 04 02 003c 0002 c0af',
        MALFORMED,
        ALL,
        "MQTT-1.5.4-1",
        "3.1.1 MQTT-1.5.3-1",
    ),
    bad(
        "connect, user name with U+0000",
        '10 # "MQTT" 04 82 003c "c1" 0001 00',
        MALFORMED,
        ALL,
        "MQTT-1.5.4-2",
        "3.1.1 MQTT-1.5.3-2",
    ),
    bad(
        "connect, will QoS without will",
        '10 # "MQTT" 04 0a 003c "c1"',
        MALFORMED,
        ALL,
        "MQTT-3.1.2-11",
        "3.1.1 MQTT-3.1.2-13",
    ),
    bad(
        "connect, will retain without will",
        '10 # "MQTT" 04 22 003c "c1"',
        MALFORMED,
        ALL,
        "MQTT-3.1.2-13",
        "3.1.1 MQTT-3.1.2-15",
    ),
    bad(
        "connect, will QoS 3",
        '10 # "MQTT" 04 1e 003c "c1" "w" "x"',
        MALFORMED,
        ALL,
        "MQTT-3.1.2-12",
        "3.1.1 MQTT-3.1.2-14",
    ),
    bad("connect, will missing", '10 # "MQTT" 04 06 003c "c1"', MALFORMED, ALL, "MQTT-3.1.2-9", "3.1.1 MQTT-3.1.2-9"),
    bad(
        "connect, will payload missing",
        '10 # "MQTT" 04 06 003c "c1" "w"',
        MALFORMED,
        ALL,
        "MQTT-3.1.2-9",
        "3.1.1 MQTT-3.1.2-9",
    ),
    bad("connect, password without user name", '10 # "MQTT" 04 42 003c "c1" "p"', MALFORMED, V3, "3.1.1 MQTT-3.1.2-22"),
    bad(
        "connect, user name missing",
        '10 # "MQTT" 04 82 003c "c1"',
        MALFORMED,
        ALL,
        "MQTT-3.1.2-17",
        "3.1.1 MQTT-3.1.2-19",
    ),
    bad(
        "connect, password missing",
        '10 # "MQTT" 04 c2 003c "c1" "u"',
        MALFORMED,
        ALL,
        "MQTT-3.1.2-19",
        "3.1.1 MQTT-3.1.2-21",
    ),
    bad(
        "connect, user name not announced",
        '10 # "MQTT" 04 02 003c "c1" "u"',
        MALFORMED,
        ALL,
        "MQTT-3.1.2-16",
        "3.1.1 MQTT-3.1.2-18",
    ),
    bad("connect, bytes behind", '10 # "MQTT" 05 02 003c {} "c1" 00', MALFORMED, V5),
    bad(
        "connect, flags in the first byte",
        '11 # "MQTT" 04 02 003c "c1"',
        MALFORMED,
        ALL,
        "MQTT-2.1.3-1",
        "3.1.1 MQTT-2.2.2-2",
    ),
    bad("connect, receive maximum 0", '10 # "MQTT" 05 02 003c { 21 0000 } "c1"', PROTOCOL, V5),
    bad("connect, packet size 0", '10 # "MQTT" 05 02 003c { 27 00000000 } "c1"', PROTOCOL, V5),
    bad("connect, problem information 2", '10 # "MQTT" 05 02 003c { 17 02 } "c1"', PROTOCOL, V5),
    bad("connect, response information 2", '10 # "MQTT" 05 02 003c { 19 02 } "c1"', PROTOCOL, V5),
    bad("connect, expiry twice", '10 # "MQTT" 05 02 003c { 11 00000001 11 00000001 } "c1"', PROTOCOL, V5),
    bad("connect, method twice", '10 # "MQTT" 05 02 003c { 15 "a" 15 "a" } "c1"', PROTOCOL, V5),
    bad("connect, authentication data alone", '10 # "MQTT" 05 02 003c { 16 "d" } "c1"', PROTOCOL, V5),
    bad("connect, property of a will", '10 # "MQTT" 05 02 003c { 18 00000001 } "c1"', MALFORMED, V5),
    bad("connect, unknown property", '10 # "MQTT" 05 02 003c { 7f 00 } "c1"', MALFORMED, V5),
    bad("connect, property identifier of two bytes", '10 # "MQTT" 05 02 003c { 8101 00 } "c1"', MALFORMED, V5),
    bad("connect, property cut off", '10 # "MQTT" 05 02 003c { 11 0000 } "c1"', MALFORMED, V5),
    bad("connect, property over the properties' end", '10 # "MQTT" 05 02 003c 02 21 00 02 "c1"', MALFORMED, V5),
    bad("connect, properties longer than the packet", '10 # "MQTT" 05 02 003c 7f "c1"', MALFORMED, V5),
    bad("connect, user property with U+0000", '10 # "MQTT" 05 02 003c { 26 0001 00 "v" } "c1"', MALFORMED, V5),
    bad("connect, will with an alias", '10 # "MQTT" 05 06 003c {} "c1" { 23 0001 } "w" "x"', MALFORMED, V5),
    bad("connect, will delay twice", '10 # "MQTT" 05 06 003c {} "c1" { 1800000001 1800000001 } "w" ""', PROTOCOL, V5),
    bad("connect, will format 2", '10 # "MQTT" 05 06 003c {} "c1" { 01 02 } "w" "x"', PROTOCOL, V5),
    bad("connect, property length not minimal", '10 # "MQTT" 05 02 003c 8000 "c1"', MALFORMED, V5, "MQTT-1.5.5-1"),
    bad("connect, property length of five bytes", '10 # "MQTT" 05 02 003c 8080808001 "c1"', MALFORMED, V5),
]

PUBLISHES: Final = [
    good("publish", "30 # \"a/b\" 'hi'", publish("a/b", b"hi", version=4), V3),
    good("publish 5", "30 # \"a/b\" {} 'hi'", publish("a/b", b"hi"), V5),
    good("publish, no payload", '30 # "a/b" {}', publish("a/b"), V5),
    good("publish, retain", "31 # \"a/b\" 'hi'", publish("a/b", b"hi", retain=True, version=4), V3),
    good("publish, QoS 1", "32 # \"a/b\" 0007 'hi'", publish("a/b", b"hi", 1, 7, version=4), V3),
    good("publish 5, QoS 1", "32 # \"a/b\" 0007 {} 'hi'", publish("a/b", b"hi", 1, 7), V5),
    good("publish, QoS 2", "34 # \"a/b\" ffff 'hi'", publish("a/b", b"hi", 2, 65_535, version=4), V3),
    good("publish, QoS 2 again", "3c # \"a/b\" 0007 'hi'", publish("a/b", b"hi", 2, 7, dup=True, version=4), V3),
    good("publish 5, all flags", '3d # "a" 0001 {}', publish("a", b"", 2, 1, retain=True, dup=True), V5),
    good("publish, one byte of topic", '30 # "/"', publish("/", version=4), V3),
    good("publish, topic not ASCII", '30 # "ü/😀"', publish("ü/😀", version=4), V3),
    good("publish, topic with a space", '30 # "a b/ "', publish("a b/ ", version=4), V3),
    good("publish, $ topic", '30 # "$SYS/x"', publish("$SYS/x", version=4), V3),
    good("publish, 127 bytes", f"30 # \"a/b\" '{'x' * 122}'", publish("a/b", b"x" * 122, version=4), V3),
    good("publish, 128 bytes", f"30 # \"a/b\" '{'x' * 123}'", publish("a/b", b"x" * 123, version=4), V3),
    good("publish, 16383 bytes", f"30 # \"a/b\" '{'x' * 16_378}'", publish("a/b", b"x" * 16_378, version=4), V3),
    good("publish, 16384 bytes", f"30 # \"a/b\" '{'x' * 16_379}'", publish("a/b", b"x" * 16_379, version=4), V3),
    good("publish, 2 MiB", f"30 # \"a/b\" '{'x' * 2_097_147}'", publish("a/b", b"x" * 2_097_147, version=4), V3),
    good("publish, alias in place of the topic", '30 # "" { 23 0001 }', publish("", topic_alias=1), V5),
    good(
        "publish, everything",
        '32 # "a" 0001 { 01 01 02 0000000a 23 0003 03 "text" 08 "r/t" 09 "id" 26 "k" "v" 26 "k" "w" } \'x\'',
        publish(
            "a",
            b"x",
            1,
            1,
            payload_format_indicator=1,
            message_expiry_interval=10,
            topic_alias=3,
            content_type="text",
            response_topic="r/t",
            correlation_data=b"id",
            user_property=[("k", "v"), ("k", "w")],
        ),
        V5,
        "MQTT-3.3.2-17",
        "MQTT-3.3.2-18",
    ),
    good(
        "publish, subscription identifiers",
        '30 # "a" { 0b 01 0b ffffff7f }',
        publish("a", subscription_identifier=[1, 268_435_455]),
        V5,
    ),
    good(
        "publish, 200 bytes of properties",
        f'30 # "a" {{ 26 "{"k" * 100}" "{"v" * 95}" }}',
        publish("a", user_property=[("k" * 100, "v" * 95)]),
        V5,
    ),
    bad("publish, QoS 3", '36 # "a" 0001', MALFORMED, ALL, "MQTT-3.3.1-4", "3.1.1 MQTT-3.3.1-4"),
    bad("publish, DUP at QoS 0", '38 # "a" {}', MALFORMED, ALL, "MQTT-3.3.1-2", "3.1.1 MQTT-3.3.1-2"),
    bad("publish, empty", "30 #", MALFORMED),
    bad("publish, one byte", "30 # 00", MALFORMED),
    bad("publish, topic cut off", "30 # 0005 'a/b'", MALFORMED),
    bad("publish, no packet identifier", '32 # "a/b"', MALFORMED, ALL, "MQTT-2.2.1-3", "3.1.1 MQTT-2.3.1-1"),
    bad("publish, half a packet identifier", '32 # "a/b" 00', MALFORMED),
    bad("publish, packet identifier 0", '32 # "a/b" 0000 {}', PROTOCOL, ALL, "MQTT-2.2.1-3", "3.1.1 MQTT-2.3.1-1"),
    bad(
        "publish, QoS 2 with packet identifier 0",
        '34 # "a/b" 0000 {}',
        PROTOCOL,
        ALL,
        "MQTT-2.2.1-3",
        "3.1.1 MQTT-2.3.1-1",
    ),
    bad("publish 5, no properties", '30 # "a/b"', MALFORMED, V5),
    bad("publish 5, properties longer than the packet", '30 # "a/b" 05 01 01', MALFORMED, V5),
    bad("publish 5, property length cut off", '30 # "a/b" 80', MALFORMED, V5),
    bad("publish 5, property length of five bytes", '30 # "a/b" 8080808001', MALFORMED, V5),
    bad("publish 5, property length not minimal", '30 # "a/b" 8000', MALFORMED, V5, "MQTT-1.5.5-1"),
    refused("publish, empty topic", '30 # "" {}', PROTOCOL, ALL, "MQTT-4.7.3-1", "3.1.1 MQTT-4.7.3-1"),
    refused("publish, + in the topic", '30 # "a/+" {}', BAD_TOPIC, ALL, "MQTT-3.3.2-2", "3.1.1 MQTT-3.3.2-2"),
    refused("publish, # in the topic", '30 # "#" {}', BAD_TOPIC, ALL, "MQTT-3.3.2-2", "3.1.1 MQTT-3.3.2-2"),
    refused("publish, topic not UTF-8", "30 # 0002 c328 {}", MALFORMED, ALL, "MQTT-3.3.2-1", "3.1.1 MQTT-3.3.2-1"),
    refused(
        "publish, topic with a surrogate", "30 # 0003 eda080 {}", MALFORMED, ALL, "MQTT-1.5.4-1", "3.1.1 MQTT-1.5.3-1"
    ),
    refused("publish, topic with U+0000", "30 # 0003 610062 {}", MALFORMED, ALL, "MQTT-1.5.4-2", "3.1.1 MQTT-1.5.3-2"),
    refused("publish, 129 levels", f'30 # "{"/" * 128}" {{}}', BAD_TOPIC, ALL),
    refused("publish, alias 0", '30 # "a" { 23 0000 }', BAD_ALIAS, V5, "MQTT-3.3.2-8"),
    refused("publish, unknown alias", '30 # "" { 23 0005 }', PROTOCOL, V5),
    refused("publish, alias twice", '30 # "a" { 23 0001 23 0001 }', PROTOCOL, V5),
    refused("publish, format 2", '30 # "a" { 01 02 }', PROTOCOL, V5),
    refused("publish, expiry twice", '30 # "a" { 02 00000001 02 00000001 }', PROTOCOL, V5),
    refused("publish, expiry cut off", '30 # "a" { 02 0000 }', MALFORMED, V5),
    refused("publish, content type not UTF-8", '30 # "a" { 03 0002 c328 }', MALFORMED, V5, "MQTT-3.3.2-19"),
    refused("publish, wildcard in the response topic", '30 # "a" { 08 "r/+" }', PROTOCOL, V5, "MQTT-3.3.2-14"),
    refused("publish, response topic with U+0000", '30 # "a" { 08 0001 00 }', MALFORMED, V5, "MQTT-1.5.4-2"),
    refused("publish, subscription identifier", '30 # "a" { 0b 01 }', PROTOCOL, V5, "MQTT-3.3.4-6"),
    refused("publish, property of CONNECT", '30 # "a" { 11 00000001 }', MALFORMED, V5),
    refused("publish, unknown property", '30 # "a" { 7f }', MALFORMED, V5),
]

ACKS: Final = [
    good("puback", "40 # 0007", p.Ack(p.PUBACK, 7, 0)),
    good("pubrec", "50 # ffff", p.Ack(p.PUBREC, 65_535, 0)),
    good("pubrel", "62 # 0007", p.Ack(p.PUBREL, 7, 0)),
    good("pubcomp", "70 # 0007", p.Ack(p.PUBCOMP, 7, 0)),
    good("puback with a code", "40 # 0007 10", p.Ack(p.PUBACK, 7, 0x10), V5),
    good("pubrec with a code", "50 # 0007 97", p.Ack(p.PUBREC, 7, 0x97), V5),
    good("pubrel with a code", "62 # 0007 92", p.Ack(p.PUBREL, 7, 0x92), V5),
    good("pubcomp with a code", "70 # 0007 92", p.Ack(p.PUBCOMP, 7, 0x92), V5),
    good("puback, success spelled out", "40 # 0007 00", p.Ack(p.PUBACK, 7, 0), V5, canonical=False),
    good("puback, no properties spelled out", "40 # 0007 00 {}", p.Ack(p.PUBACK, 7, 0, Properties()), V5),
    good(
        "puback with a reason",
        '40 # 0007 80 { 1f "full" 26 "k" "v" }',
        p.Ack(p.PUBACK, 7, 0x80, properties(reason_string="full", user_property=[("k", "v")])),
        V5,
    ),
    bad("puback, empty", "40 #", MALFORMED),
    bad("puback, one byte", "40 # 00", MALFORMED),
    bad("puback, packet identifier 0", "40 # 0000", PROTOCOL),
    bad("puback, flags", "42 # 0007", MALFORMED, ALL, "MQTT-2.1.3-1", "3.1.1 MQTT-2.2.2-2"),
    good("pubrel 3.1 sent again", "6a # 0007", p.Ack(p.PUBREL, 7, 0), (p.V3_1,), canonical=False),
    bad("pubrel with DUP", "6a # 0007", MALFORMED, (p.V3_1_1, p.V5), "MQTT-3.6.1-1", "3.1.1 MQTT-3.6.1-1"),
    bad("puback 3.1 with DUP", "48 # 0007", MALFORMED, (p.V3_1,)),
    bad("pubrel, no flags", "60 # 0007", MALFORMED, ALL, "MQTT-3.6.1-1", "3.1.1 MQTT-3.6.1-1"),
    bad("pubrel, other flags", "66 # 0007", MALFORMED, ALL, "MQTT-3.6.1-1", "3.1.1 MQTT-3.6.1-1"),
    bad("puback 3 with a code", "40 # 0007 00", MALFORMED, V3),
    bad("puback, bytes behind", "40 # 0007 00 {} 00", MALFORMED, V5),
    bad("puback, property of CONNECT", "40 # 0007 00 { 21 0001 }", MALFORMED, V5),
    bad("puback, reason twice", '40 # 0007 80 { 1f "a" 1f "b" }', PROTOCOL, V5),
    bad("puback, properties cut off", "40 # 0007 80 05 1f", MALFORMED, V5),
]

SUBSCRIBES: Final = [
    good("subscribe", '82 # 0007 "a/+" 01', p.Subscribe(7, [p.SubscribeEntry("a/+", 1, False, False, 0)], NONE), V3),
    good("subscribe 5", '82 # 0007 {} "#" 02', p.Subscribe(7, [p.SubscribeEntry("#", 2, False, False, 0)], NONE), V5),
    good(
        "subscribe, three filters",
        '82 # 0007 "a" 00 "b" 01 "c" 02',
        p.Subscribe(7, [p.SubscribeEntry(name, qos, False, False, 0) for qos, name in enumerate("abc")], NONE),
        V3,
    ),
    good(
        "subscribe, all options",
        '82 # 0007 { 0b ff7f 26 "k" "v" } "a" 2e "b" 11',
        p.Subscribe(
            7,
            [p.SubscribeEntry("a", 2, True, True, 2), p.SubscribeEntry("b", 1, False, False, 1)],
            properties(subscription_identifier=[16_383], user_property=[("k", "v")]),
        ),
        V5,
    ),
    good(
        "subscribe, shared",
        '82 # 0007 {} "$share/g/a" 01',
        p.Subscribe(7, [p.SubscribeEntry("$share/g/a", 1, False, False, 0)], NONE),
        V5,
    ),
    good(
        "subscribe 3.1 sent again",
        '8a # 0007 "a/+" 01',
        p.Subscribe(7, [p.SubscribeEntry("a/+", 1, False, False, 0)], NONE),
        (p.V3_1,),
        canonical=False,
    ),
    bad("subscribe with DUP", '8a # 0007 {} "a" 00', MALFORMED, V5, "MQTT-3.8.1-1"),
    bad("subscribe 3.1.1 with DUP", '8a # 0007 "a" 00', MALFORMED, (p.V3_1_1,), "3.1.1 MQTT-3.8.1-1"),
    bad("subscribe, no filter", "82 # 0007 {}", PROTOCOL, V5, "MQTT-3.8.3-2"),
    bad("subscribe 3, no filter", "82 # 0007", PROTOCOL, V3, "3.1.1 MQTT-3.8.3-3"),
    bad("subscribe, empty", "82 #", MALFORMED),
    bad("subscribe, empty filter", '82 # 0007 {} "" 00', PROTOCOL, V5, "MQTT-4.7.3-1"),
    bad("subscribe, empty filter in a list", '82 # 0007 {} "a" 00 "" 00 "b" 00', PROTOCOL, V5, "MQTT-4.7.3-1"),
    bad("subscribe 3, empty filter", '82 # 0007 "" 00', PROTOCOL, V3, "3.1.1 MQTT-4.7.3-1"),
    bad("subscribe 3, empty filter in a list", '82 # 0007 "a" 00 "" 00', PROTOCOL, V3, "3.1.1 MQTT-4.7.3-1"),
    bad("subscribe, packet identifier 0", '82 # 0000 "a" 00', PROTOCOL, V3, "3.1.1 MQTT-2.3.1-1"),
    bad("subscribe, no flags", '80 # 0007 "a" 00', MALFORMED, ALL, "MQTT-3.8.1-1", "3.1.1 MQTT-3.8.1-1"),
    bad("subscribe, QoS 3", '82 # 0007 "a" 03', MALFORMED, V3, "3.1.1 MQTT-3.8.3-4"),
    bad("subscribe 5, QoS 3", '82 # 0007 {} "a" 03', MALFORMED, V5),
    bad("subscribe, reserved bits", '82 # 0007 "a" 80', MALFORMED, V3, "3.1.1 MQTT-3.8.3-4"),
    bad("subscribe 3, options of 5", '82 # 0007 "a" 04', MALFORMED, V3, "3.1.1 MQTT-3.8.3-4"),
    bad("subscribe 5, reserved bits", '82 # 0007 {} "a" 40', MALFORMED, V5, "MQTT-3.8.3-5"),
    bad("subscribe, retain handling 3", '82 # 0007 {} "a" 30', PROTOCOL, V5),
    bad("subscribe, no options", '82 # 0007 "a"', MALFORMED, V3),
    bad("subscribe, second filter without options", '82 # 0007 {} "a" 00 "b"', MALFORMED, V5),
    bad("subscribe, filter cut off", "82 # 0007 {} 0005 'a' 00", MALFORMED, V5),
    bad("subscribe, filter not UTF-8", "82 # 0007 {} 0002 c328 00", MALFORMED, V5, "MQTT-3.8.3-1"),
    bad("subscribe, filter with U+0000", "82 # 0007 {} 0001 00 00", MALFORMED, V5, "MQTT-1.5.4-2"),
    bad("subscribe, identifier 0", '82 # 0007 { 0b 00 } "a" 00', PROTOCOL, V5),
    bad("subscribe, two identifiers", '82 # 0007 { 0b 01 0b 02 } "a" 00', PROTOCOL, V5),
    bad("subscribe, identifier of five bytes", '82 # 0007 { 0b ffffffff01 } "a" 00', MALFORMED, V5),
    bad("subscribe, property of PUBLISH", '82 # 0007 { 01 01 } "a" 00', MALFORMED, V5),
    bad("subscribe, shared and no-local", '82 # 0007 {} "$share/g/a" 04', PROTOCOL, V5, "MQTT-3.8.3-4"),
    good("unsubscribe", 'a2 # 0007 "a" "b/#"', p.Unsubscribe(7, ["a", "b/#"], NONE), V3),
    good(
        "unsubscribe 5",
        'a2 # 0007 { 26 "k" "v" } "a"',
        p.Unsubscribe(7, ["a"], properties(user_property=[("k", "v")])),
        V5,
    ),
    good(
        "unsubscribe 3.1 sent again",
        'aa # 0007 "a" "b/#"',
        p.Unsubscribe(7, ["a", "b/#"], NONE),
        (p.V3_1,),
        canonical=False,
    ),
    bad("unsubscribe, empty filter", 'a2 # 0007 {} ""', PROTOCOL, V5, "MQTT-4.7.3-1"),
    bad("unsubscribe 3, empty filter in a list", 'a2 # 0007 "a" ""', PROTOCOL, V3, "3.1.1 MQTT-4.7.3-1"),
    bad("unsubscribe with DUP", 'aa # 0007 {} "a"', MALFORMED, V5, "MQTT-3.10.1-1"),
    bad("unsubscribe 3.1.1 with DUP", 'aa # 0007 "a"', MALFORMED, (p.V3_1_1,), "3.1.1 MQTT-3.10.1-1"),
    bad("unsubscribe, no filter", "a2 # 0007 {}", PROTOCOL, V5, "MQTT-3.10.3-2"),
    bad("unsubscribe 3, no filter", "a2 # 0007", PROTOCOL, V3, "3.1.1 MQTT-3.10.3-2"),
    bad("unsubscribe, no flags", 'a0 # 0007 "a"', MALFORMED, ALL, "MQTT-3.10.1-1", "3.1.1 MQTT-3.10.1-1"),
    bad("unsubscribe, packet identifier 0", 'a2 # 0000 "a"', PROTOCOL, V3, "3.1.1 MQTT-2.3.1-1"),
    bad("unsubscribe, filter cut off", "a2 # 0007 {} 0002 'a'", MALFORMED, V5),
    bad("unsubscribe, filter not UTF-8", "a2 # 0007 {} 0001 ff", MALFORMED, V5, "MQTT-3.10.3-1"),
    bad("unsubscribe, subscription identifier", 'a2 # 0007 { 0b 01 } "a"', MALFORMED, V5),
]

OTHERS: Final = [
    good("pingreq", "c0 #", p.Ping(p.PINGREQ)),
    bad("pingreq with a body", "c0 # 00", MALFORMED),
    bad("pingreq with flags", "c1 #", MALFORMED, ALL, "MQTT-2.1.3-1", "3.1.1 MQTT-2.2.2-2"),
    good("disconnect", "e0 #", p.Disconnect(0, NONE)),
    good("disconnect with a code", "e0 # 04", p.Disconnect(4, NONE), V5),
    good("disconnect, success spelled out", "e0 # 00", p.Disconnect(0, NONE), V5, canonical=False),
    good(
        "disconnect with everything",
        'e0 # 00 { 11 00000078 1f "bye" 26 "k" "v" }',
        p.Disconnect(
            0,
            properties(session_expiry_interval=120, reason_string="bye", user_property=[("k", "v")]),
        ),
        V5,
    ),
    bad("disconnect 3 with a body", "e0 # 00", MALFORMED, V3),
    bad("disconnect with flags", "e2 #", MALFORMED, ALL, "MQTT-3.14.1-1", "3.1.1 MQTT-3.14.1-1"),
    bad("disconnect, bytes behind", "e0 # 00 {} 00", MALFORMED, V5),
    bad("disconnect, property of PUBLISH", "e0 # 00 { 01 01 }", MALFORMED, V5),
    bad("disconnect, expiry twice", "e0 # 00 { 1100000001 1100000001 }", PROTOCOL, V5),
    bad("auth 3", "f0 #", MALFORMED, V3),
    bad("auth with flags", "f1 #", MALFORMED, ALL, "MQTT-3.15.1-1"),
    bad("auth, bytes behind", "f0 # 18 {} 00", MALFORMED, V5),
    bad("packet type 0", "00 #", MALFORMED),
    bad("packet type 0 with flags", "0f #", MALFORMED),
    bad("remaining length of five bytes", "c0 8080808001", MALFORMED, ALL),
    refused("remaining length not minimal", "c0 8000", MALFORMED, V5, "MQTT-1.5.5-1"),
    refused("second connect", '10 # "MQTT" 05 02 003c {} "c1"', PROTOCOL, ALL, "MQTT-3.1.0-2", "3.1.1 MQTT-3.1.0-2"),
]

# What only a server sends; a client that sends it breaks the protocol.
FROM_SERVER: Final = [
    good("connack", "20 # 00 00", p.Connack(False, 0, NONE), V3),
    good("connack, refused", "20 # 00 05", p.Connack(False, rc.NOT_AUTHORIZED, NONE), V3),
    good("connack, session present", "20 # 01 00", p.Connack(True, 0, NONE), V3),
    good("connack 5", "20 # 00 00 {}", p.Connack(False, 0, NONE), V5),
    good(
        "connack with everything",
        '20 # 01 00 { 11 0000000a 21 0064 24 01 25 00 27 00100000 22 000a 28 00 29 01 2a 00 13 003c 12 "c1" '
        '1f "why" 1a "info" 1c "other" 15 "SCRAM" 16 "d" 26 "k" "v" }',
        p.Connack(
            True,
            0,
            properties(
                session_expiry_interval=10,
                receive_maximum=100,
                maximum_qos=1,
                retain_available=0,
                maximum_packet_size=1_048_576,
                topic_alias_maximum=10,
                wildcard_subscription_available=0,
                subscription_identifier_available=1,
                shared_subscription_available=0,
                server_keep_alive=60,
                assigned_client_identifier="c1",
                reason_string="why",
                response_information="info",
                server_reference="other",
                authentication_method="SCRAM",
                authentication_data=b"d",
                user_property=[("k", "v")],
            ),
        ),
        V5,
        canonical=False,
    ),
    good("suback", "90 # 0007 00 01 02 80", p.Suback(p.SUBACK, 7, [0, 1, 2, 0x80], NONE), V3),
    good("suback 5", "90 # 0007 {} 02 8f", p.Suback(p.SUBACK, 7, [2, 0x8F], NONE), V5),
    good("unsuback", "b0 # 0007", p.Suback(p.UNSUBACK, 7, [], NONE), V3),
    good("unsuback 5", "b0 # 0007 {} 00 11", p.Suback(p.UNSUBACK, 7, [0, 0x11], NONE), V5),
    good("pingresp", "d0 #", p.Ping(p.PINGRESP)),
    good("disconnect by the server", "e0 # 8e", p.Disconnect(0x8E, NONE), V5),
    good(
        "disconnect to another server",
        'e0 # 9c { 1c "other:1883" }',
        p.Disconnect(0x9C, properties(server_reference="other:1883")),
        V5,
    ),
    good(
        "auth",
        'f0 # 18 { 15 "SCRAM" 16 "d" }',
        p.Auth(0x18, properties(authentication_method="SCRAM", authentication_data=b"d")),
        V5,
    ),
    bad("connack, empty", "20 #", MALFORMED),
    bad("connack, flags", "20 # 02 00", MALFORMED, ALL, "MQTT-3.2.2-1"),
    bad("connack, maximum QoS 2", "20 # 00 00 { 24 02 }", PROTOCOL, V5),
    bad("connack, bytes behind", "20 # 00 00 {} 00", MALFORMED, V5),
    bad("connack 3, bytes behind", "20 # 00 00 00", MALFORMED, V3),
    bad("unsuback 3 with codes", "b0 # 0007 00", MALFORMED, V3),
    bad("suback, packet identifier 0", "90 # 0000 {} 00", PROTOCOL),
]

# Packets that a connected client sends, valid or not.
FROM_CLIENT: Final = [*PUBLISHES, *ACKS, *SUBSCRIBES, *OTHERS]
CASES: Final = [*CONNECTS, *FROM_CLIENT, *FROM_SERVER]


def each(cases: list[Case]) -> list[tuple[Case, int]]:
    """Every case in every version that it is for."""
    return [(case, version) for case in cases for version in case.versions]


def ids(cases: list[Case]) -> list[str]:
    """Test names for `each`."""
    return [f"{case.name} (v{version})" for case, version in each(cases)]
