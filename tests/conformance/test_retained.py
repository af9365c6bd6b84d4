"""Section 3.3.1.3 and the retain options of SUBSCRIBE: what is retained, and who gets it how."""

from conformance.dialogue import V3, World, both_versions
from conformance.statements import proves
from support.cases import cases

KEPT = "31 # \"t\" {} 'kept'"


def given(world: World, options: str = "00", topic_filter: str = "t") -> list[str]:
    """What a new client is given when it subscribes, in words."""
    client = world.connect("new")
    client.says(f'82 # 0001 {{}} "{topic_filter}" {options}')
    words = client.words()
    client.says("e0 #")
    assert words[0].startswith("SUBACK")
    return words[1:]


@both_versions
@proves("MQTT-3.3.1-5", "3.1.1 MQTT-3.3.1-5", "3.1.1 MQTT-3.3.1-7", "3.1.1 MQTT-3.3.1-6", "3.1.1 MQTT-3.3.1-8")
def test_the_last_message_with_retain_is_kept_with_its_qos(version: int) -> None:
    world = World(version)
    pub = world.connect("pub")
    assert given(world) == []
    pub.says("33 # \"t\" 0001 {} 'one'")
    assert given(world, "02") == ["PUBLISH t 'one' q1 #1 retain"]
    pub.says("31 # \"t\" {} 'two'")
    assert given(world, "02") == ["PUBLISH t 'two' q0 retain"]
    pub.says("35 # \"t\" 0002 {} 'three'", "62 # 0002")
    assert given(world, "02") == ["PUBLISH t 'three' q2 #1 retain"]
    assert given(world, "01", "#") == ["PUBLISH t 'three' q1 #1 retain"]


@both_versions
@proves("MQTT-3.3.1-6", "MQTT-3.3.1-7", "3.1.1 MQTT-3.3.1-10", "3.1.1 MQTT-3.3.1-11")
def test_an_empty_payload_removes_what_is_kept(version: int) -> None:
    world = World(version)
    pub, sub = world.connect("pub"), world.subscriber()
    pub.says(KEPT, '31 # "t" {}', '31 # "never" {}')
    sub.hears("30 # \"t\" {} 'kept'", '30 # "t" {}')
    assert given(world, "00", "#") == []


@both_versions
@proves("MQTT-3.3.1-8", "3.1.1 MQTT-3.3.1-12")
def test_a_message_without_retain_changes_nothing(version: int) -> None:
    world = World(version)
    pub = world.connect("pub")
    pub.says("30 # \"t\" {} 'passing'")
    assert given(world) == []
    pub.says(KEPT, "30 # \"t\" {} 'passing'", '30 # "t" {}')
    assert given(world) == ["PUBLISH t 'kept' q0 retain"]


@both_versions
@proves("MQTT-3.3.1-12", "3.1.1 MQTT-3.3.1-9")
@cases("qos", [0, 1])
def test_a_live_message_has_no_retain(version: int, qos: int) -> None:
    world = World(version)
    sub = world.subscriber(qos=1)
    identifier = "0001" if qos else ""
    world.connect("pub").says(f"{0x31 + 2 * qos:02x} # \"t\" {identifier} {{}} 'kept'")
    sub.hears(f"{0x30 + 2 * qos:02x} # \"t\" {identifier} {{}} 'kept'")


@cases("retain", [0, 1])
@proves("MQTT-3.3.1-13")
def test_retain_as_published(retain: int) -> None:
    world = World()
    sub = world.connect("sub")
    sub.says('82 # 0001 {} "t" 08')
    sub.hears("90 # 0001 {} 00")
    world.connect("pub").says(f"3{retain} # \"t\" {{}} 'x'")
    sub.hears(f"3{retain} # \"t\" {{}} 'x'")


@cases(("options", "first", "again", "anew"), [("00", 1, 1, 1), ("10", 1, 0, 1), ("20", 0, 0, 0)])
@proves("MQTT-3.3.1-9", "MQTT-3.3.1-10", "MQTT-3.3.1-11", "MQTT-3.8.4-4")
def test_retain_handling(options: str, first: int, again: int, anew: int) -> None:
    world = World()
    world.connect("pub").says(KEPT)
    client = world.connect()
    subscribe = f'82 # 0001 {{}} "t" {options}'
    for count in (first, again):
        client.says(subscribe)
        client.hears("90 # 0001 {} 00", *[KEPT] * count)
    client.says('a2 # 0002 {} "t"', subscribe)
    client.hears("b0 # 0002 {} 00", "90 # 0001 {} 00", *[KEPT] * anew)


@proves("3.1.1 MQTT-3.3.1-6", "3.1.1 MQTT-3.8.4-3")
def test_subscribing_again_in_mqtt_3_gives_what_is_retained_again() -> None:
    world = World(V3)
    world.connect("pub").says(KEPT)
    client = world.connect()
    for qos in ("00", "00", "01"):
        client.says(f'82 # 0001 "t" {qos}')
        client.hears(f"90 # 0001 {qos}", KEPT)


@both_versions
@proves("MQTT-4.7.2-1", "3.1.1 MQTT-4.7.2-1")
def test_retained_messages_of_dollar_topics(version: int) -> None:
    world = World(version)
    world.connect("pub").says("31 # \"$a/b\" {} 'x'")
    assert given(world, "00", "#") == given(world, "00", "+/b") == []
    assert given(world, "00", "$a/#") == ["PUBLISH $a/b 'x' q0 retain"]
