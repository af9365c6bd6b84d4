"""Sections 3.1.2.11 and 4.9: what a client can take (window, packet size, problem and response information)."""

from dataclasses import replace

from conformance.dialogue import V5, Client, World, both_versions
from conformance.statements import proves
from heliograph.broker import hooks
from heliograph.mqtt import packets as p
from heliograph.mqtt import properties as props
from heliograph.mqtt import reason_codes as rc
from support.cases import cases
from support.options import CHANNEL, SESSION

# --- receive maximum


@cases("window", [1, 2, 5])
@proves("MQTT-3.3.4-9", "MQTT-4.9.0-1", "MQTT-4.9.0-2")
def test_the_clients_receive_maximum(window: int) -> None:
    world = World()
    sub = world.connect("sub", kept=True, properties=f"21 {window:04x}")
    sub.subscribes("t", 2)
    pub = world.connect("pub")
    for number in range(1, 12):
        pub.says(f'{0x32 + 2 * (number % 2):02x} # "t" {number:04x} {{}}', f"62 # {number:04x}")
    in_flight = {packet.packet_id: packet.qos for packet in sub.publishes()}
    assert len(in_flight) == window
    for packet_id, qos in list(in_flight.items()):
        if qos == 2:
            sub.says(f"50 # {packet_id:04x}")
            sub.hears(f"62 # {packet_id:04x}")  # its place is free with PUBCOMP only
            sub.says(f"70 # {packet_id:04x}")
        else:
            sub.says(f"40 # {packet_id:04x}")
        assert len(sub.publishes()) == 1
    sub.drops()
    again = world.connect("sub", clean=False, kept=True, properties="21 0001")
    assert len(again.publishes()) == 1  # what is sent again keeps to it too


@proves("MQTT-3.3.4-9", "MQTT-4.9.0-1")
def test_a_client_without_a_receive_maximum_can_take_65535() -> None:
    world = World(session=replace(SESSION, max_inflight=65_535))
    sub = world.subscriber(qos=1)
    pub = world.connect("pub")
    for number in range(1, 1001):
        pub.says(f'32 # "t" {number:04x} {{}}')
    assert len(sub.publishes()) == 1000


@proves("MQTT-4.9.0-1")
def test_a_receive_maximum_of_0_is_refused() -> None:
    client = World().client()
    client.says('10 # "MQTT" 05 02 0000 { 21 0000 } "c"')
    assert client.is_closed()


@proves("MQTT-3.3.4-10", "MQTT-4.9.0-3")
def test_a_full_window_holds_back_nothing_else() -> None:
    world = World()
    client = world.connect("c", properties="21 0001")
    client.subscribes("t", 2)
    pub = world.connect("pub")
    pub.says("34 # \"t\" 0001 {} '1'", "34 # \"t\" 0002 {} '2'")
    client.hears("34 # \"t\" 0001 {} '1'")
    client.says("c0 #", '82 # 0009 {} "u" 00', "34 # \"v\" 0001 {} 'x'", "62 # 0001", 'a2 # 000a {} "u"')
    assert client.words() == ["PINGRESP", "SUBACK #9 [0x00]", "PUBREC #1 0x10", "PUBCOMP #1", "UNSUBACK #10 [0x00]"]
    pub.says("30 # \"t\" {} '3'")
    assert [(packet.qos, packet.payload) for packet in client.publishes()] == [(0, b"3")]
    client.says("50 # 0001")
    client.hears("62 # 0001")


@cases("qos", [1, 2])
@proves("MQTT-3.3.4-7")
def test_the_brokers_receive_maximum(qos: int) -> None:
    world = World(session=replace(SESSION, max_awaiting_rel=2), stored=("#",))
    client = world.connect("c")
    assert client.connack.properties.named()["Receive-Maximum"] == 2
    head = f"{0x30 + 2 * qos:02x}"
    client.says(f'{head} # "t" 0001 {{}}', f'{head} # "t" 0002 {{}}')
    assert not client.is_closed()  # storage has not answered yet, so neither has the broker
    client.says(f'{head} # "t" 0003 {{}}')
    client.ends(0x93)


@proves("MQTT-3.3.4-7")
def test_acknowledgements_give_a_client_its_window_back() -> None:
    world = World(session=replace(SESSION, max_awaiting_rel=2))
    client = world.connect("c")
    for number in range(1, 20):
        client.says(f'32 # "t" {number:04x} {{}}', f'34 # "t" {number:04x} {{}}', f"62 # {number:04x}")
    assert not client.is_closed()


# --- maximum packet size


@cases("qos", [0, 1, 2])
@proves("MQTT-3.1.2-24", "MQTT-3.1.2-25")
def test_a_message_that_is_too_large_counts_as_delivered(qos: int) -> None:
    world = World()
    sub = world.connect("sub", kept=True, properties="27 00000028 21 0001")
    sub.subscribes("t", qos)
    pub = world.connect("pub")
    for payload in ("x" * 40, "small", "y" * 30, "z" * 100, "fits"):
        pub.says(f"{0x30 + 2 * qos:02x} # \"t\" {'0001' if qos else ''} {{}} '{payload}'", "62 # 0001")
    assert sub.takes_all(qos) == [b"small", b"y" * 30, b"fits"]
    sub.drops()
    world.connect("sub", clean=False, kept=True).hears()


@cases("size", [41, 42])
@proves("MQTT-3.1.2-24")
def test_the_limit_counts_every_byte(size: int) -> None:
    """42 bytes: 2 of fixed header, 3 of topic, 1 of properties, 36 of payload."""
    world = World()
    sub = world.connect("sub", properties=f"27 {size:08x}")
    sub.subscribes("t")
    world.connect("pub").says(f"30 # \"t\" {{}} '{'x' * 36}'")
    assert len(sub.publishes()) == (1 if size == 42 else 0)


@proves("MQTT-3.1.2-24")
def test_what_is_added_for_a_receiver_counts_too() -> None:
    world = World()
    sub = world.connect("sub", properties="27 0000002a")
    sub.subscribes("t", 0, "0b 01")
    world.connect("pub").says(f"30 # \"t\" {{}} '{'x' * 36}'", f"30 # \"t\" {{}} '{'x' * 34}'")
    assert [len(packet.payload) for packet in sub.publishes()] == [34]


def sizes(client: Client) -> list[int]:
    """How many bytes each packet has that came since the last look."""
    data = client.heard()
    found: list[int] = []
    while data:
        length = 2 + data[1] if data[1] < 0x80 else 3 + (data[1] & 0x7F) + (data[2] << 7)
        found.append(length)
        data = data[length:]
    return found


@cases("limit", [1, 4, 8, 20, 60])
@proves("MQTT-3.1.2-24", "MQTT-3.2.2-19", "MQTT-3.2.2-20", "MQTT-3.4.2-2", "MQTT-3.4.2-3", "MQTT-3.5.2-2")
@proves("MQTT-3.5.2-3", "MQTT-3.6.2-2", "MQTT-3.6.2-3", "MQTT-3.7.2-2", "MQTT-3.7.2-3", "MQTT-3.9.2-1")
@proves("MQTT-3.9.2-2", "MQTT-3.11.2-1", "MQTT-3.11.2-2", "MQTT-3.14.2-3", "MQTT-3.14.2-4")
def test_no_packet_exceeds_what_the_client_takes(limit: int) -> None:
    """Not even one with a reason string; each of these is answered by a refusal of some kind."""
    filters = " ".join('"+a" 00' for _ in range(40))
    for said in (
        '32 # "t" 0001 {}',
        '34 # "t" 0001 {}',
        "62 # 0001",
        "50 # 0001",
        '82 # 0001 {} "a/#/b" 00',
        f"82 # 0001 {{}} {filters}",
        'a2 # 0001 {} "never"',
        f"a2 # 0001 {{}} {filters.replace(' 00', '')}",
        "00 #",
        '30 # "t/+" {}',
        "20 # 00 00 {}",
    ):
        client = World().client()
        client.says(f'10 # "MQTT" 05 02 0000 {{ 27 {limit:08x} }} "c"', said)
        assert all(size <= limit for size in sizes(client)), said


@cases("limit", [1, 4])
@proves("MQTT-3.1.2-24", "MQTT-3.2.0-1")
def test_a_client_that_cannot_take_its_connack(limit: int) -> None:
    """The shortest has 5 bytes; without it nothing else may be sent."""
    client = World().client()
    client.says(f'10 # "MQTT" 05 02 0000 {{ 27 {limit:08x} }} "c"', "c0 #")
    client.hears()
    assert client.is_closed()


@proves("MQTT-3.1.2-24", "MQTT-3.8.4-1", "MQTT-3.10.4-4")
@cases("packet", ["82 # 0001 {} @", "a2 # 0001 {} @"])
def test_an_answer_that_the_client_cannot_take_is_no_silence(packet: str) -> None:
    """It may be neither sent nor left out, so the connection ends."""
    client = World().connect("c", properties="27 00000014")
    filters = '"a" 00' if packet.startswith("82") else '"a"'
    client.says(packet.replace("@", f"{filters} " * 40))
    client.ends(rc.PACKET_TOO_LARGE, rc.IMPLEMENTATION_SPECIFIC_ERROR, rc.UNSPECIFIED_ERROR)


@cases("limit", [1, 4, 5, 8, 60])
@proves("MQTT-3.1.2-24", "MQTT-3.2.2-19", "MQTT-3.2.2-20")
def test_a_refusal_does_not_exceed_what_the_client_takes(limit: int) -> None:
    world = World(V5, replace(CHANNEL, max_qos_allowed=0))
    world.kernel.broker.hooks.point(hooks.CLIENT_AUTHENTICATE).add(lambda *args: (hooks.STOP, rc.BANNED))
    for flags, will in (("02", ""), ("0e", '{} "w" "m"'), ("06", '{} "a/#" "m"')):
        client = world.client()
        client.says(f'10 # "MQTT" 05 {flags} 0000 {{ 27 {limit:08x} }} "c" {will}')
        assert client.is_closed()
        assert all(size <= limit for size in sizes(client))


# --- problem information and response information


REFUSED = [
    ('32 # "t" 0001 {}', p.Ack),
    ('34 # "t" 0001 {}', p.Ack),
    ("62 # 0001", p.Ack),
    ("50 # 0001", p.Ack),
    ('82 # 0001 {} "a/#/b" 00', p.Suback),
    ('a2 # 0001 {} "never"', p.Suback),
]


@cases(("said", "kind"), REFUSED)
@proves("MQTT-3.1.2-29")
def test_no_problem_information_where_none_is_wanted(said: str, kind: type[p.Ack | p.Suback]) -> None:
    client = World().connect("c", properties="17 00")
    client.says(said)
    (packet,) = client.packets()
    assert isinstance(packet, kind)
    named = packet.properties
    assert named is None or (props.REASON_STRING not in named.strings and not named.user)


@proves("MQTT-3.1.2-29")
def test_user_properties_of_messages_are_no_problem_information() -> None:
    world = World()
    sub = world.connect("sub", properties="17 00")
    sub.subscribes("t")
    world.connect("pub").says('30 # "t" { 26 "k" "v" } \'x\'')
    sub.hears('30 # "t" { 26 "k" "v" } \'x\'')


@cases(("asks", "gets"), [("", False), ("19 00", False), ("19 01", True)])
@proves("MQTT-3.1.2-28")
def test_response_information(asks: str, gets: bool) -> None:
    world = World(V5, replace(CHANNEL, response_information="reply/"))
    client = world.connect("c", properties=asks)
    assert client.connack.properties.named().get("Response-Information") == ("reply/" if gets else None)


@both_versions
@proves("MQTT-3.1.2-28")
def test_there_is_no_response_information_where_none_is_set(version: int) -> None:
    client = World(version).connect("c", properties="19 01")
    assert "Response-Information" not in client.connack.properties.named()
