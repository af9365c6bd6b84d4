"""Sections 3.1.2 and 4.1: sessions, keep alive, and wills."""

from dataclasses import replace

from conformance.dialogue import V3, V5, Client, World, both_versions
from conformance.statements import proves
from support.cases import cases
from support.options import CHANNEL

WILL = '{} "w" "gone"'


# --- sessions


@both_versions
@proves("MQTT-3.1.2-4", "MQTT-3.1.4-4", "MQTT-3.2.2-2")
@proves("3.1.1 MQTT-3.1.2-6", "3.1.1 MQTT-3.1.4-3", "3.1.1 MQTT-3.2.2-1")
def test_a_clean_start_throws_the_old_session_away(version: int) -> None:
    world = World(version)
    old = world.connect("c", kept=True)
    old.subscribes("t", 1)
    old.drops()
    pub = world.connect("pub")
    pub.says("32 # \"t\" 0001 {} 'missed'")
    new = world.connect("c", clean=True)
    assert not new.connack.session_present
    pub.says("32 # \"t\" 0002 {} 'nobody'")
    new.hears()
    new.drops()
    again = world.connect("c", clean=False)
    assert not again.connack.session_present  # nothing of it is left


@both_versions
@proves("MQTT-3.1.2-5", "MQTT-3.1.2-6", "MQTT-3.1.2-23", "MQTT-3.1.3-2", "MQTT-3.2.2-3", "MQTT-4.5.0-1")
@proves("3.1.1 MQTT-3.1.2-4", "3.1.1 MQTT-3.1.2-5", "3.1.1 MQTT-3.1.3-2", "3.1.1 MQTT-3.2.2-2")
@proves("3.1.1 MQTT-3.2.2-3", "3.1.1 MQTT-4.1.0-1", "3.1.1 MQTT-4.5.0-1")
def test_a_session_goes_on(version: int) -> None:
    world = World(version)
    first = world.connect("c", clean=False, kept=True)
    assert not first.connack.session_present
    first.subscribes("t", 2)
    first.drops()
    pub = world.connect("pub")
    pub.says("32 # \"t\" 0001 {} 'one'", "34 # \"t\" 0002 {} 'two'")
    world.advance(600)
    other = world.connect("other", clean=False)
    assert not other.connack.session_present  # the session belongs to its client id
    again = world.connect("c", clean=False, kept=True)
    assert again.connack.session_present
    again.hears("32 # \"t\" 0001 {} 'one'", "34 # \"t\" 0002 {} 'two'")


@both_versions
@proves("MQTT-4.1.0-1", "3.1.1 MQTT-4.1.0-2")
def test_a_session_lasts_as_long_as_its_connection(version: int) -> None:
    world = World(version)
    client = world.connect("c", kept=True)
    client.subscribes("t")
    world.advance(100_000)
    world.connect("pub").says("30 # \"t\" {} 'x'")
    client.hears("30 # \"t\" {} 'x'")


@proves("MQTT-3.1.2-23", "MQTT-4.1.0-2")
def test_a_session_ends_with_its_expiry_interval() -> None:
    world = World()
    world.connect("c", properties="11 0000000a").drops()
    world.advance(9)
    again = world.connect("c", clean=False, properties="11 0000000a")
    assert again.connack.session_present
    again.drops()
    world.advance(11)
    assert not world.connect("c", clean=False).connack.session_present


@cases("expiry", ["", "11 00000000"])
@proves("MQTT-3.1.2-23", "MQTT-4.1.0-2")
def test_a_session_without_an_expiry_interval_ends_with_its_connection(expiry: str) -> None:
    world = World()
    world.connect("c", properties=expiry).drops()
    assert not world.connect("c", clean=False).connack.session_present


@proves("MQTT-3.1.2-23", "MQTT-4.1.0-2")
def test_disconnect_changes_the_expiry_interval() -> None:
    world = World()
    world.connect("c", properties="11 000003e8").says("e0 # 00 { 11 0000000a }")
    world.advance(11)
    assert not world.connect("c", clean=False).connack.session_present


@proves("MQTT-3.1.2-23")
def test_a_session_that_never_ends() -> None:
    world = World()
    world.connect("c", properties="11 ffffffff").drops()
    world.advance(10_000_000_000)
    assert world.connect("c", clean=False).connack.session_present


@proves("MQTT-4.1.0-2", "MQTT-3.1.2-23")
def test_disconnect_ends_a_session_at_once() -> None:
    world = World()
    world.connect("c", properties="11 000003e8").says("e0 # 00 { 11 00000000 }")
    assert not world.connect("c", clean=False).connack.session_present


@proves("3.1.1 MQTT-3.1.2-6")
def test_a_clean_session_of_mqtt_3_ends_with_its_connection() -> None:
    world = World(V3)
    world.connect("c").drops()
    assert not world.connect("c", clean=False).connack.session_present


@both_versions
@proves("3.1.1 MQTT-3.1.2-7")
def test_retained_messages_are_no_part_of_a_session(version: int) -> None:
    world = World(version)
    client = world.connect("c")
    client.says("31 # \"t\" {} 'kept'")
    client.drops()
    world.connect("c")
    new = world.connect("new")
    new.says('82 # 0001 {} "t" 00')
    new.hears("90 # 0001 {} 00", "31 # \"t\" {} 'kept'")


@both_versions
@proves("MQTT-3.1.4-3", "3.1.1 MQTT-3.1.4-2")
def test_the_older_connection_of_a_client_id_is_closed(version: int) -> None:
    world = World(version)
    old = world.connect("c")
    new = world.connect("c")
    old.ends(0x8E)
    new.goes_on()


# --- keep alive


@both_versions
@proves("MQTT-3.1.2-22", "MQTT-3.2.2-22", "3.1.1 MQTT-3.1.2-24")
def test_silence_of_one_and_a_half_keep_alives(version: int) -> None:
    world = World(version)
    watcher = world.subscriber("w")
    client = world.connect("c", keepalive_s=10, will=WILL)
    world.advance(15)
    client.goes_on()
    world.advance(15)
    client.goes_on()
    world.advance(15.1)
    client.ends(0x8D)
    watcher.hears("30 # \"w\" {} 'gone'")


@cases("keepalive_s", [0, 2, 1000])
@proves("MQTT-3.1.2-22")
def test_the_servers_keep_alive_holds_once_it_is_sent(keepalive_s: int) -> None:
    world = World(V5, replace(CHANNEL, server_keepalive_s=4))
    client = world.connect("c", keepalive_s=keepalive_s)
    assert client.connack.properties.named()["Server-Keep-Alive"] == 4
    world.advance(6)
    client.goes_on()
    world.advance(7)
    client.ends(0x8D)


# --- wills


@both_versions
@proves("MQTT-3.1.2-7", "MQTT-3.1.2-8", "MQTT-3.1.2-10", "3.1.1 MQTT-3.1.2-8", "3.1.1 MQTT-3.1.2-10")
def test_a_will_is_published_once(version: int) -> None:
    world = World(version)
    watcher = world.subscriber("w")
    client = world.connect("c", kept=True, will=WILL)
    watcher.hears()
    client.drops()
    watcher.hears("30 # \"w\" {} 'gone'")
    world.connect("c", clean=False, kept=True).drops()
    world.advance(2000)
    watcher.hears()


@both_versions
@proves("MQTT-3.1.2-8", "MQTT-3.1.2-10", "MQTT-3.14.4-3", "3.1.1 MQTT-3.1.2-10", "3.1.1 MQTT-3.14.4-3")
def test_disconnect_takes_the_will_back(version: int) -> None:
    world = World(version)
    watcher = world.subscriber("w")
    client = world.connect("c", kept=True, will=WILL)
    client.says("e0 #")
    assert client.is_closed()
    world.advance(2000)
    world.connect("c", clean=False).drops()
    watcher.hears()


@cases("code", ["04", "80", "83", "99"])
@proves("MQTT-3.1.2-8")
def test_disconnect_with_another_code_leaves_the_will(code: str) -> None:
    world = World()
    watcher = world.subscriber("w")
    world.connect("c", will=WILL).says(f"e0 # {code}")
    watcher.hears("30 # \"w\" {} 'gone'")


@both_versions
@proves("3.1.1 MQTT-3.1.2-12")
def test_a_client_without_a_will(version: int) -> None:
    world = World(version)
    watcher = world.subscriber("#")
    world.connect("c", will=WILL).says("e0 #")
    world.connect("c").drops()
    watcher.hears()


@both_versions
@cases("retain", [False, True])
@proves("MQTT-3.1.2-14", "MQTT-3.1.2-15", "3.1.1 MQTT-3.1.2-16", "3.1.1 MQTT-3.1.2-17")
def test_will_retain(version: int, retain: bool) -> None:
    world = World(version)
    world.connect("c", will=WILL, flags=0x20 if retain else 0).drops()
    late = world.connect("late")
    late.says('82 # 0001 {} "w" 00')
    late.hears("90 # 0001 {} 00", *(["31 # \"w\" {} 'gone'"] if retain else []))


@both_versions
@cases("qos", [0, 1, 2])
@proves("MQTT-3.1.2-12", "3.1.1 MQTT-3.1.2-14", "MQTT-3.1.2-9", "3.1.1 MQTT-3.1.2-9")
def test_will_qos(version: int, qos: int) -> None:
    world = World(version)
    watcher = world.subscriber("w", 2)
    world.connect("c", will=WILL, flags=qos << 3).drops()
    packet = watcher.publish()
    assert (packet.qos, packet.payload) == (qos, b"gone")


def delayed(world: World, delay_s: int, expiry_s: int) -> Client:
    """A client whose will waits."""
    return world.connect("c", properties=f"11 {expiry_s:08x}", will=f'{{ 18 {delay_s:08x} }} "w" "gone"')


@proves("MQTT-3.1.2-8")
def test_a_will_waits_for_its_delay_or_for_the_end_of_its_session() -> None:
    for delay_s, expiry_s, due_s in ((10, 100, 10), (100, 10, 10), (10, 0, 0)):
        world = World()
        watcher = world.subscriber("w")
        delayed(world, delay_s, expiry_s).drops()
        if due_s:
            world.advance(due_s - 1)
            watcher.hears()
            world.advance(1)
        watcher.hears("30 # \"w\" {} 'gone'")


@proves("MQTT-3.1.2-8", "MQTT-3.1.3-9")
def test_a_new_connection_within_the_delay_stops_the_will() -> None:
    world = World()
    watcher = world.subscriber("w")
    delayed(world, 10, 100).drops()
    world.advance(9)
    world.connect("c", clean=False, kept=True)
    world.advance(100)
    watcher.hears()


@proves("MQTT-3.1.3-10")
def test_user_properties_of_a_will_keep_their_order() -> None:
    world = World()
    watcher = world.subscriber("w")
    pairs = '26 "b" "1" 26 "a" "2" 26 "b" "1"'
    world.connect("c", will=f'{{ {pairs} }} "w" "gone"').drops()
    watcher.hears(f"30 # \"w\" {{ {pairs} }} 'gone'")
