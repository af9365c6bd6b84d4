"""Section 4.8.2: shared subscriptions."""

from conformance.dialogue import V5, Client, World
from conformance.statements import proves
from heliograph.mqtt import packets as p
from support.cases import cases

SHARED = "$share/group/t"


def member(world: World, clientid: str, qos: int = 2) -> Client:
    """A member of the group, whose session outlives its connections."""
    client = world.connect(clientid, kept=True)
    client.subscribes(SHARED, qos)
    return client


def one_with_a_message(members: list[Client]) -> tuple[Client, p.Publish, list[Client]]:
    """The member that was sent the one message, the message, and the others."""
    found: list[tuple[Client, p.Publish]] = []
    for client in members:
        found += [(client, packet) for packet in client.publishes()]
    ((chosen, packet),) = found
    return chosen, packet, [client for client in members if client is not chosen]


@cases("topic_filter", ["$share//t", "$share/g", "$share/g/", "$share/", "$share"])
@proves("MQTT-4.8.2-1", "MQTT-4.8.2-2")
def test_a_share_name_and_a_filter_are_there(topic_filter: str) -> None:
    client = World().connect()
    client.says(f'82 # 0001 {{}} "{topic_filter}" 01')
    if not client.is_closed() and topic_filter != "$share":  # an ordinary filter
        (suback,) = client.packets()
        assert isinstance(suback, p.Suback)
        assert suback.codes == [0x8F]


@cases("topic_filter", ["$share/g+/t", "$share/+/t", "$share/#/t", "$share/g#/t", "$share/g/t#"])
@proves("MQTT-4.8.2-2", "MQTT-4.7.1-1")
def test_wildcards_are_not_for_share_names(topic_filter: str) -> None:
    client = World().connect()
    client.says(f'82 # 0001 {{}} "{topic_filter}" 01')
    (suback,) = client.packets()
    assert isinstance(suback, p.Suback)
    assert suback.codes == [0x8F]


@proves("MQTT-3.8.3-4")
def test_no_local_on_a_shared_subscription() -> None:
    client = World().connect()
    client.says(f'82 # 0001 {{}} "{SHARED}" 04')
    client.ends(0x82)


@proves("MQTT-4.8.2-1", "MQTT-4.8.2-2")
def test_one_member_of_each_group_gets_a_message() -> None:
    world = World()
    members = [member(world, name, 0) for name in "abc"]
    other = world.subscriber("$share/other/+", 0, "other")
    own = world.subscriber("t", 0, "own")
    pub = world.connect("pub")
    for number in range(12):
        pub.says(f"30 # \"t\" {{}} '{number}'")
        _, packet, _ = one_with_a_message(members)
        assert (packet.topic, packet.payload) == (b"t", b"%d" % number)
    assert len(other.publishes()) == len(own.publishes()) == 12


@cases("granted", [0, 1, 2])
@cases("published", [0, 1, 2])
@proves("MQTT-4.8.2-3")
def test_the_qos_granted_to_the_receiver_holds(granted: int, published: int) -> None:
    world = World()
    client = member(world, "a", granted)
    world.connect("pub").says(f'{0x30 + 2 * published:02x} # "t" {"0001" if published else ""} {{}}')
    assert client.publish().qos == min(granted, published)


@proves("MQTT-4.8.2-4")
@cases("phase", ["sent", "received"])
def test_qos_2_is_completed_with_the_member_that_it_began_with(phase: str) -> None:
    world = World(V5)
    members = [member(world, name) for name in "ab"]
    world.connect("pub").says("34 # \"t\" 0001 {} 'x'")
    chosen, packet, (other,) = one_with_a_message(members)
    if phase == "received":
        chosen.says(f"50 # {packet.packet_id:04x}")
        chosen.hears(f"62 # {packet.packet_id:04x}")
    clientid = "ab"[members.index(chosen)]
    chosen.drops()
    other.hears()
    again = world.connect(clientid, clean=False, kept=True)
    again.hears(f"3c # \"t\" {packet.packet_id:04x} {{}} 'x'" if phase == "sent" else f"62 # {packet.packet_id:04x}")
    other.hears()


@proves("MQTT-4.8.2-5")
@cases("phase", ["sent", "received"])
def test_qos_2_goes_to_nobody_else_when_its_session_ends(phase: str) -> None:
    world = World(V5)
    members = [member(world, name) for name in "ab"]
    world.connect("pub").says("34 # \"t\" 0001 {} 'x'")
    chosen, packet, (other,) = one_with_a_message(members)
    if phase == "received":
        chosen.says(f"50 # {packet.packet_id:04x}")
        chosen.heard()
    chosen.says("e0 # 00 { 11 00000000 }")
    other.hears()
    world.advance(2000)
    other.hears()


@proves("MQTT-4.8.2-1")
def test_a_shared_subscription_gets_no_retained_messages() -> None:
    """Section 4.8.2 says so without a number."""
    world = World()
    world.connect("pub").says("31 # \"t\" {} 'kept'")
    for options in ("00", "10"):
        client = world.connect(f"member {options}")
        client.says(f'82 # 0001 {{}} "{SHARED}" {options}')
        client.hears("90 # 0001 {} 00")


@cases("qos", [1, 2])
@cases("code", ["80", "83", "87", "97"])
@proves("MQTT-4.8.2-6", "MQTT-4.4.0-2")
def test_a_refusal_of_a_member_discards_the_message(qos: int, code: str) -> None:
    world = World()
    members = [member(world, name, qos) for name in "abc"]
    world.connect("pub").says(f"{0x30 + 2 * qos:02x} # \"t\" 0001 {{}} 'x'")
    chosen, packet, others = one_with_a_message(members)
    chosen.says(f"{0x30 + 0x10 * qos:02x} # {packet.packet_id:04x} {code}")
    for client in [chosen, *others]:
        client.hears()
