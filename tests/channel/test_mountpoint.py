"""Listeners with a mountpoint: their clients live in a part of the topics, and notice nothing."""

from dataclasses import replace

from heliograph.broker import hooks
from heliograph.broker.client import ClientInfo
from heliograph.channel.peer import Peer as Address
from heliograph.mqtt import packets as p
from heliograph.mqtt import reason_codes as rc
from retainer.retaining import read
from support.cases import cases
from support.kernel import Kernel, Peer
from support.options import CHANNEL, LISTENER
from support.packets import properties

VERSIONS = [p.V3_1, p.V3_1_1, p.V5]
A = replace(CHANNEL, exclusive_subscription=True, listener=replace(LISTENER, mountpoint="tenant/a/"))
B = replace(CHANNEL, exclusive_subscription=True, listener=replace(LISTENER, mountpoint="tenant/b/"))


def topics(peer: Peer) -> list[str]:
    return [packet.topic.decode() for packet in peer.received() if isinstance(packet, p.Publish)]


def entry(topic_filter: str) -> p.SubscribeEntry:
    return p.SubscribeEntry(topic_filter, 1, False, False, 0)


@cases("version", VERSIONS)
@cases("qos", [0, 1, 2])
def test_clients_of_a_mountpoint_meet_under_the_names_that_they_know(version: int, qos: int) -> None:
    kernel = Kernel()
    everywhere = kernel.connect("everywhere")
    everywhere.subscribe("#", qos)
    here, there = kernel.connect("here", version=version, options=A), kernel.connect("there", options=B)
    for peer in (here, there):
        peer.subscribe("t/#", qos)
        peer.subscribe("+", qos)
    kernel.connect("pub", version=version, options=A).publish("t/1", b"x", qos)
    assert here.heard() == ["PUBLISH t/1 'x' q0" if qos == 0 else f"PUBLISH t/1 'x' q{qos} #1"]
    assert topics(everywhere) == ["tenant/a/t/1"]
    assert topics(there) == []


def test_mountpoints_are_apart() -> None:
    kernel = Kernel(stored=["#"])
    peers = {name: kernel.connect(name, options=options) for name, options in (("a", A), ("b", B), ("0", None))}
    for peer in peers.values():
        peer.send_subscribe(entry("#"), entry("+/+/+"), entry("$share/g/#"), entry("tenant/#"))
        peer.skip()
    peers["a"].publish("x/y/z", b"of a", retain=True)
    peers["b"].publish("tenant/a/x", b"of b", retain=True)
    assert set(topics(peers["a"])) == {"x/y/z"}
    assert set(topics(peers["b"])) == {"tenant/a/x"}
    assert set(topics(peers["0"])) == {"tenant/a/x/y/z", "tenant/b/tenant/a/x"}
    late = kernel.connect("late", options=B)
    late.send_subscribe(entry("#"))
    assert topics(late) == ["tenant/a/x"]
    assert [message.topic for _, message in kernel.sink.messages] == ["tenant/a/x/y/z", "tenant/b/tenant/a/x"]
    assert sorted(topic for topic, _ in read(kernel.retainer.match("#"))) == ["tenant/a/x/y/z", "tenant/b/tenant/a/x"]


def test_what_lies_above_the_mountpoint_is_not_a_part_of_it() -> None:
    kernel = Kernel()
    inside, pub = kernel.connect("inside", options=A), kernel.connect("pub")
    inside.subscribe("#", 1)  # tenant/a/# matches tenant/a too
    pub.publish("tenant/a", b"above", 1)
    pub.publish("tenant/a/", b"nothing but the mountpoint", 0)
    assert inside.heard() == []
    pub.publish("tenant/a/t", b"x", 0)
    assert inside.heard() == ["PUBLISH t 'x' q0"]


def test_retained_messages_keep_to_it() -> None:
    kernel = Kernel()
    pub = kernel.connect("pub", options=A)
    pub.publish("t", b"x", retain=True)
    for options, want in ((A, ["t"]), (B, []), (None, [])):
        late = kernel.connect("late", options=options)
        late.send_subscribe(entry("t"))
        assert topics(late) == want
    pub.publish("t", b"", retain=True)
    assert read(kernel.retainer.match("#")) == []


def test_shared_subscriptions_of_two_mountpoints_are_two_groups() -> None:
    kernel = Kernel()
    members = [kernel.connect(f"a{number}", options=A) for number in range(2)] + [kernel.connect("b", options=B)]
    for member in members:
        assert member.subscribe("$share/g/t", 1) == [1]
    pub = kernel.connect("pub", options=A)
    for _ in range(10):
        pub.publish("t", b"x")
    assert len(topics(members[0])) + len(topics(members[1])) == 10
    assert topics(members[2]) == []
    assert members[0].unsubscribe("$share/g/t") == [0]
    assert kernel.broker.statistics()["subscriptions.shared.count"] == 2


def test_exclusive_subscriptions_are_exclusive_within_it() -> None:
    kernel = Kernel()
    one, two = kernel.connect("one", options=A), kernel.connect("two", options=A)
    other = kernel.connect("other", options=B)
    assert one.subscribe("$exclusive/t") == [0]
    assert two.subscribe("$exclusive/t") == [rc.QUOTA_EXCEEDED]
    assert other.subscribe("$exclusive/t") == [0]
    two.publish("t", b"x")
    assert one.heard() == ["PUBLISH t 'x' q0"]
    one.drop()
    assert two.subscribe("$exclusive/t") == [0]


@cases("version", VERSIONS)
def test_a_will_is_published_within_it(version: int) -> None:
    kernel = Kernel()
    inside, outside = kernel.connect("inside", options=A), kernel.connect("outside")
    inside.subscribe("w")
    outside.subscribe("#")
    will = p.Will("w", b"gone", 0, False, properties())
    kernel.connect("c", version=version, will=will, options=A).drop()
    assert topics(inside) == ["w"]
    assert topics(outside) == ["tenant/a/w"]


def test_aliases_and_other_properties_pass_it() -> None:
    kernel = Kernel()
    sub, pub = kernel.connect("sub", options=A), kernel.connect("pub", options=A)
    sub.subscribe("t", 1, subscription_identifier=[7])
    pub.publish("t", b"1", 1, 1, topic_alias=1, content_type="text")
    pub.publish("", b"2", 1, 2, topic_alias=1)
    assert [say for say in sub.heard() if "PUBLISH" in say] == ["PUBLISH t '1' q1 #1", "PUBLISH t '2' q1 #2"]
    assert pub.heard() == ["PUBACK #1", "PUBACK #2"]


def test_authorizers_and_hooks_hear_the_names_that_the_client_knows_and_the_broker_those_it_has() -> None:
    kernel = Kernel()
    asked: list[str] = []
    kernel.broker.hooks.point(hooks.CLIENT_AUTHORIZE).add(
        lambda client, action, topic, _: asked.append(f"{client.mountpoint} {action.kind} {topic}")
    )
    published: list[str] = []
    kernel.broker.hooks.point(hooks.MESSAGE_PUBLISH).add(lambda message: published.append(message.topic))
    peer = kernel.connect("c", will=p.Will("w", b"", 0, False, properties()), options=A)
    peer.subscribe("s/#")
    peer.publish("s/t", b"")
    peer.drop()
    assert asked == [f"tenant/a/ {what}" for what in ("subscribe s/#", "publish s/t", "subscribe s/t", "publish w")]
    assert published == ["tenant/a/s/t", "tenant/a/w"]


# --- placeholders


PERSONAL = replace(CHANNEL, listener=replace(LISTENER, mountpoint="of/${clientid}/${username}/"))


def test_placeholders_stand_for_who_connects() -> None:
    kernel = Kernel()
    seen: list[ClientInfo] = []
    kernel.broker.hooks.point(hooks.CLIENT_CONNECTED).add(lambda client, *args: seen.append(client))
    outside = kernel.connect("outside")
    outside.subscribe("#")
    kernel.connect("c", username="u", options=PERSONAL).publish("t", b"x")
    kernel.connect("", username="u", options=PERSONAL).publish("t", b"x")
    assert topics(outside) == ["of/c/u/t", "of/assigned-1/u/t"]
    assert [client.mountpoint for client in seen[1:]] == ["of/c/u/", "of/assigned-1/u/"]


def test_they_stand_for_what_the_certificate_says_where_it_does() -> None:
    kernel = Kernel()
    outside = kernel.connect("outside")
    outside.subscribe("#")
    address = Address("192.0.2.7:1", username="cn", clientid="device")
    peer = kernel.peer(address=address, options=PERSONAL)
    peer.connect("other", username="other")
    peer.publish("t")
    assert topics(outside) == ["of/device/cn/t"]


@cases("version", VERSIONS)
@cases("clientid", ["+", "#", "a/b", "/", "a+", "victim/", "$SYS", "$share"])
def test_a_client_id_that_would_reach_into_the_topics_of_others(version: int, clientid: str) -> None:
    kernel = Kernel()
    for options in (replace(CHANNEL, listener=replace(LISTENER, mountpoint="${clientid}/")), PERSONAL):
        peer = kernel.peer(version, options=options)
        peer.connect(clientid, username="u")
        assert peer.heard() == ["CONNACK 0x85"]
        assert peer.closed()
    assert len(kernel.sessions) == 0


@cases("username", [None, "", "+", "#", "a/b", "$SYS"])
def test_a_user_name_that_would(username: str | None) -> None:
    peer = Kernel().peer(options=PERSONAL)
    peer.connect("c", username=username)
    assert peer.heard() == ["CONNACK 0x85"]


def test_placeholders_in_what_a_client_calls_itself_are_only_characters() -> None:
    kernel = Kernel()
    outside = kernel.connect("outside")
    outside.subscribe("#")
    only_id = replace(CHANNEL, listener=replace(LISTENER, mountpoint="of/${clientid}/"))
    kernel.connect("x${username}", username="victim", options=only_id).publish("t")
    kernel.connect("x${clientid}", username="x${clientid}", options=PERSONAL).publish("t")
    assert topics(outside) == ["of/x${username}/t", "of/x${clientid}/x${clientid}/t"]


def test_wildcards_in_a_client_id_hurt_nobody_where_it_is_no_part_of_the_mountpoint() -> None:
    kernel = Kernel()
    hostile, victim = kernel.connect("+/#", options=A), kernel.connect("victim", options=B)
    hostile.subscribe("#")
    victim.publish("t", b"x")
    assert hostile.heard() == []


# --- sizes, and sessions that come through another listener


@cases("version", VERSIONS)
def test_a_topic_that_leaves_no_room_for_the_mountpoint(version: int) -> None:
    kernel = Kernel()
    sub = kernel.connect("sub", options=A)
    sub.subscribe("#")
    fits = "x" * (65_535 - len("tenant/a/"))
    kernel.connect("pub", version=version, options=A).publish(fits, b"x")
    assert topics(sub) == [fits]
    peer = kernel.connect("pub", version=version, options=A)
    peer.publish(fits + "x", b"x")
    assert peer.heard() == (["DISCONNECT 0x90"] if version == p.V5 else [])
    assert peer.closed()
    willing = kernel.peer(version, options=A)
    willing.connect("c", will=p.Will(fits + "x", b"", 0, False, properties()))
    assert willing.closed()
    assert kernel.sessions.find("c") is None
    assert topics(sub) == []


def test_a_filter_that_leaves_no_room_matches_nothing() -> None:
    kernel = Kernel()
    sub = kernel.connect("sub", options=A)
    assert sub.subscribe("y" * 65_535) == [0]
    assert sub.unsubscribe("y" * 65_535) == [0]


def test_a_session_of_another_mountpoint_is_not_gone_on_with() -> None:
    kernel = Kernel()
    first = kernel.connect("c", session_expiry_interval=60, options=A)
    first.subscribe("t", 1)
    pub = kernel.connect("pub", options=A)
    first.drop()
    pub.publish("t", b"for the session at a", 1)
    again = kernel.peer(options=B)
    again.connect("c", clean_start=False, session_expiry_interval=60)
    assert again.heard() == ["CONNACK 0x00"]
    pub.publish("t", b"x", 1)
    assert again.heard() == []
    same = kernel.peer(options=B)
    same.connect("c", clean_start=False)
    assert same.heard() == ["CONNACK 0x00 present"]
    assert again.heard() == ["DISCONNECT 0x8e"]
