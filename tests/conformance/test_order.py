"""Sections 4.5 and 4.6: who gets a message, and in which order messages and acknowledgements come."""

from dataclasses import replace

from conformance.dialogue import V5, World, both_versions
from conformance.statements import proves
from heliograph.mqtt import packets as p
from support.cases import cases
from support.options import SESSION


@both_versions
@cases("qos", [0, 1, 2])
@proves("MQTT-4.6.0-5", "MQTT-4.6.0-6", "3.1.1 MQTT-4.6.0-5", "3.1.1 MQTT-4.6.0-6")
def test_messages_of_a_topic_come_in_the_order_of_receipt(version: int, qos: int) -> None:
    world = World(version, session=replace(SESSION, max_inflight=3))
    sub = world.subscriber("#", qos)
    pubs = [world.connect("one"), world.connect("two")]
    for number in range(30):
        pubs[number % 2].says(f"{0x30 + 2 * qos:02x} # \"t\" {f'{number + 1:04x}' if qos else ''} {{}} '{number:02d}'")
    assert sub.takes_all(qos) == [b"%02d" % number for number in range(30)]


@both_versions
@proves("MQTT-4.5.0-1", "3.1.1 MQTT-4.5.0-1", "3.1.1 MQTT-3.1.2-5", "MQTT-4.6.0-5", "3.1.1 MQTT-4.6.0-6")
def test_who_is_away_gets_everything_in_order(version: int) -> None:
    world = World(version)
    for clientid in ("a", "b"):
        client = world.connect(clientid, kept=True)
        client.subscribes("t/#", 2)
        client.drops()
    pub = world.connect("pub")
    for number in range(1, 9):
        pub.says(f"{0x32 + 2 * (number % 2):02x} # \"t/{number % 3}\" {number:04x} {{}} '{number}'")
    for clientid in ("a", "b"):
        packets = world.connect(clientid, clean=False, kept=True).publishes()
        assert [packet.payload for packet in packets] == [b"%d" % number for number in range(1, 9)]


@both_versions
@proves("MQTT-4.4.0-1", "3.1.1 MQTT-4.6.0-1")
def test_what_is_sent_again_keeps_its_order(version: int) -> None:
    world = World(version)
    sub = world.connect("sub", kept=True)
    sub.subscribes("t", 2)
    pub = world.connect("pub")
    for number in range(1, 7):
        pub.says(f"{0x32 + 2 * (number % 2):02x} # \"t\" {number:04x} {{}} '{number}'")
    sub.heard()
    sub.says("40 # 0002")
    sub.drops()
    pub.says("32 # \"t\" 0007 {} '7'")
    again = world.connect("sub", clean=False, kept=True)
    again.hears(
        *[f"{0x3A + 2 * (number % 2):02x} # \"t\" {number:04x} {{}} '{number}'" for number in (1, 3, 4, 5, 6)],
        "32 # \"t\" 0007 {} '7'",
    )


@both_versions
@cases("stored", [(), ("s/#",), ("#",)])
@proves("3.1.1 MQTT-4.6.0-2", "3.1.1 MQTT-4.6.0-3")
def test_acknowledgements_keep_the_order_of_the_messages(version: int, stored: tuple[str, ...]) -> None:
    """Whether a message waits for storage or not."""
    world = World(version, stored=stored)
    pub = world.connect("pub")
    for number in range(1, 13):
        pub.says(f'{0x32 + 2 * (number % 3 == 0):02x} # "{"st"[number % 2]}/x" {number:04x} {{}}')
        if number == 6:
            world.kernel.sink.cut()
    world.kernel.commit()
    world.kernel.commit()
    acks = [packet for packet in pub.packets() if isinstance(packet, p.Ack)]
    assert [ack.packet_id for ack in acks] == list(range(1, 13))
    assert {ack.code for ack in acks} <= {0, 0x10}


@both_versions
@proves("3.1.1 MQTT-4.6.0-4")
def test_pubrels_keep_the_order_of_the_pubrecs(version: int) -> None:
    world = World(version)
    sub, pub = world.subscriber(qos=2), world.connect("pub")
    pub.says(*[f'34 # "t" {number:04x} {{}}' for number in range(1, 6)])
    sub.heard()
    order = [3, 1, 5, 2, 4]
    sub.says(*[f"50 # {number:04x}" for number in order])
    sub.hears(*[f"62 # {number:04x}" for number in order])


@proves("MQTT-3.3.1-1", "MQTT-4.4.0-1")
def test_a_pubrel_is_sent_again_among_the_others_in_its_place() -> None:
    world = World(V5)
    sub = world.connect("sub", kept=True)
    sub.subscribes("t", 2)
    world.connect("pub").says(*[f'34 # "t" {number:04x} {{}}' for number in (1, 2, 3)])
    sub.heard()
    sub.says("50 # 0002")
    sub.drops()
    world.connect("sub", clean=False, kept=True).hears('3c # "t" 0001 {}', "62 # 0002", '3c # "t" 0003 {}')
