"""Sections 3.3.5 of MQTT 3.1.1, 3.4, 3.5 and 3.9: what a client hears that may not do what it asks for."""

from conformance.dialogue import V3, V5, World, both_versions
from conformance.statements import proves
from heliograph.broker import hooks
from heliograph.broker.actions import Action
from heliograph.broker.client import ClientInfo
from support.cases import cases


def world_with_secrets(version: int) -> World:
    """A broker that lets nobody at `secret`."""

    def authorize(client: ClientInfo, action: Action, topic: str, verdict: object) -> tuple[str, str] | None:
        return (hooks.STOP, "deny") if topic.startswith("secret") else None

    world = World(version)
    world.kernel.broker.hooks.point(hooks.CLIENT_AUTHORIZE).add(authorize)
    return world


@both_versions
@proves("MQTT-3.4.2-1", "3.1.1 MQTT-3.3.5-2")
def test_a_publish_at_qos_1_that_is_denied(version: int) -> None:
    """MQTT 3 has no refusal: the acknowledgement is the usual one."""
    world = world_with_secrets(version)
    sub, pub = world.subscriber("#"), world.connect("pub", properties="17 00")
    pub.says("32 # \"secret\" 0001 {} 'x'")
    pub.hears("40 # 0001 <87>")
    pub.says("30 # \"secret\" {} 'x'")
    pub.goes_on()
    sub.hears()


@both_versions
@proves("MQTT-3.5.2-1", "MQTT-4.3.3-9", "3.1.1 MQTT-3.3.5-2")
def test_a_publish_at_qos_2_that_is_denied(version: int) -> None:
    world = world_with_secrets(version)
    sub, pub = world.subscriber("#"), world.connect("pub", properties="17 00")
    for _ in range(2):
        pub.says("34 # \"secret\" 0001 {} 'x'")
        pub.hears("50 # 0001 <87>")
    sub.hears()
    if version == V3:
        pub.says("62 # 0001")
        pub.hears("70 # 0001")
    pub.says("34 # \"open\" 0001 {} 'y'")  # refused or released, the identifier is free
    pub.hears("50 # 0001")
    sub.hears("30 # \"open\" {} 'y'")


@both_versions
@proves("MQTT-3.3.1-8", "3.1.1 MQTT-3.3.1-12")
def test_a_denied_message_is_not_retained(version: int) -> None:
    world = world_with_secrets(version)
    world.connect("pub").says("31 # \"secret\" {} 'x'")
    sub = world.connect("sub")
    sub.says('82 # 0001 {} "#" 00')
    sub.hears("90 # 0001 {} 00")


@both_versions
@proves("MQTT-3.9.3-2", "3.1.1 MQTT-3.9.3-2", "MQTT-3.8.4-5", "3.1.1 MQTT-3.8.4-4")
def test_a_filter_that_is_denied(version: int) -> None:
    client = world_with_secrets(version).connect(properties="17 00")
    client.says('82 # 0001 {} "a" 01 "secret/b" 02 "c" 00')
    client.hears("90 # 0001 {} 01 87 00" if version == V5 else "90 # 0001 01 80 00")


@both_versions
@cases("retain", [False, True])
@proves("MQTT-3.1.4-2")
def test_a_will_that_is_denied_is_not_published(version: int, retain: bool) -> None:
    world = world_with_secrets(version)
    watcher = world.subscriber("#")
    client = world.client()
    client.connect("c", will='{} "secret/w" "gone"', flags=0x20 if retain else 0)
    client.drops()
    watcher.hears()
    late = world.connect("late")
    late.says('82 # 0001 {} "#" 00')
    late.hears("90 # 0001 {} 00")
