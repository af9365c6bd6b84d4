"""Faults that brokers are known for, by name: what went wrong, and that it does not go wrong here.

CVE numbers stand where a fault is on record; other brokers had it too. `docs/security.md` tells what operators can do.
"""

import gc
import logging
from dataclasses import replace

import pytest

from heliograph.broker import hooks
from heliograph.broker.actions import Action
from heliograph.broker.client import ClientInfo
from heliograph.channel.handles import CommitWaiter, ReaderHandle
from heliograph.channel.options import ChannelOptions
from heliograph.config.listeners import WebsocketOptions
from heliograph.mqtt import packets as p
from heliograph.mqtt import reason_codes as rc
from heliograph.mqtt.encode import encode_packet
from heliograph.mqtt.properties import Properties
from heliograph.node.reports import ProtocolErrorLog
from heliograph.retainer.memory import MemoryRetainer
from heliograph.transport.proxy_protocol import SIGNATURE_V2, ProxyHeaderParser
from heliograph.transport.upgrade import UpgradePolicy
from support.cases import cases
from support.kernel import Kernel, Peer
from support.options import CHANNEL, LISTENER, RETAINER, SESSION
from support.packets import properties
from support.reach import count
from support.services import Node
from support.websocket import request
from support.wire import varint, wire

VERSIONS = [p.V3_1, p.V3_1_1, p.V5]


class Acl:
    """Who may not do what, as `clientid action topic`; it may change while clients are connected."""

    def __init__(self, kernel: Kernel) -> None:
        self.denied: set[str] = set()
        kernel.broker.hooks.point(hooks.CLIENT_AUTHORIZE).add(self._decide)

    def _decide(self, client: ClientInfo, action: Action, topic: str, _verdict: object) -> tuple[str, str] | None:
        return (hooks.STOP, "deny") if f"{client.clientid} {action.kind} {topic}" in self.denied else None


def heard_by(peer: Peer) -> list[str]:
    """The topics of the messages that came."""
    return [packet.topic.decode() for packet in peer.received() if isinstance(packet, p.Publish)]


def forgetful() -> ChannelOptions:
    """A listener where decisions are asked for each time, so that revoking one counts at once."""
    return replace(CHANNEL, authz_cache_size=0)


def subscribes(*filters: str) -> p.Subscribe:
    return p.Subscribe(1, [p.SubscribeEntry(each, 1, False, False, 0) for each in filters], properties())


# --- rights that were revoked


@cases("delay_s", [0, 5])
def test_a_will_whose_publisher_lost_the_right_to_it(delay_s: int) -> None:
    """Brokers checked a will when the client connected, or never, and published it long after the right was gone.

    Here it is decided at the moment when the will is published.
    """
    kernel = Kernel(forgetful())
    acl = Acl(kernel)
    watcher = kernel.connect("watcher")
    watcher.subscribe("door", 1)
    will = p.Will("door", b"open", 1, True, properties(will_delay_interval=delay_s))
    device = kernel.connect("device", will=will, session_expiry_interval=60)
    acl.denied.add("device publish door")
    device.drop()
    kernel.advance(10)
    assert watcher.heard() == []
    assert kernel.retainer.match("door").next() is None
    assert kernel.broker.counters.snapshot()["packets.publish.auth_error"] == 1


def test_a_retained_message_whose_publisher_lost_the_right_to_it() -> None:
    """CVE-2018-12546: what a client had retained went to every new subscriber after the client's access was revoked.

    Here the publisher's right is asked for again before a retained message is handed out.
    """
    kernel = Kernel(forgetful())
    acl = Acl(kernel)
    kernel.connect("device").publish("door", b"open", retain=True)
    before, after = kernel.connect("before"), kernel.connect("after")
    before.send(subscribes("door"))
    assert heard_by(before) == ["door"]
    acl.denied.add("device publish door")
    after.send(subscribes("door", "#"))
    assert heard_by(after) == []


def test_a_subscription_that_outlives_the_right_to_it() -> None:
    """CVE-2021-34434: a revoked right to subscribe left the subscriptions that were made before as they were.

    Here the right to what a wildcard matches is asked for with each message. A topic that was subscribed to by its name
    is asked for again when its client comes back: one that is to lose it at once must be disconnected.
    """
    kernel = Kernel(forgetful())
    acl = Acl(kernel)
    device, pub = kernel.connect("device", session_expiry_interval=60), kernel.connect("pub")
    for topic_filter in ("door", "win/+", "$share/g/gate"):
        assert device.subscribe(topic_filter, 1) == [1]
    acl.denied |= {"device subscribe door", "device subscribe win/1", "device subscribe gate"}
    for topic in ("win/1", "win/2"):
        pub.publish(topic, b"x", 1)
    assert heard_by(device) == ["win/2"]
    channel = kernel.context.channels.find("device")
    assert channel is not None
    channel.shut_down(rc.ADMINISTRATIVE_ACTION)
    kernel.run()
    for topic in ("door", "win/1", "gate", "win/2"):
        pub.publish(topic, b"queued", 1)
    again = kernel.peer()
    again.connect("device", clean_start=False, session_expiry_interval=60)
    for topic in ("door", "win/1", "gate", "win/2"):
        pub.publish(topic, b"live", 1)
    assert set(heard_by(again)) == {"win/2"}


def test_a_remembered_right_that_was_revoked_ends_with_its_time() -> None:
    """What is remembered of an authorizer's answers must not be remembered for ever."""
    kernel = Kernel(replace(CHANNEL, authz_cache_ttl_us=2_000_000))
    acl = Acl(kernel)
    device, pub = kernel.connect("device"), kernel.connect("pub")
    device.subscribe("#")
    pub.publish("door")
    acl.denied.add("device subscribe door")
    pub.publish("door")
    kernel.advance(2.1)
    pub.publish("door")
    assert heard_by(device) == ["door"] * 2


# --- filters that reach further than they seem to


@cases("topic_filter", ["#", "+/1", "secret/#", "secret/+", "$share/g/secret/#", "$queue/+/1"])
@cases("version", VERSIONS)
def test_a_wildcard_over_denied_topics(topic_filter: str, version: int) -> None:
    """Brokers compared a filter with the ACL as if it were a topic: `#` was not `secret/1`, and was let in.

    Here a wildcard may be subscribed to, and what it matches is decided message by message: live, retained and queued.
    """
    kernel = Kernel(forgetful())
    acl = Acl(kernel)
    acl.denied.add("spy subscribe secret/1")
    pub = kernel.connect("pub")
    pub.publish("secret/1", b"retained", 1, retain=True)
    spy = kernel.peer(version)
    if version == p.V5:
        spy.connect("spy", clean_start=False, session_expiry_interval=60)
    else:
        spy.connect("spy", clean_start=False)
    spy.send(subscribes(topic_filter))
    pub.publish("secret/1", b"live", 1)
    assert heard_by(spy) == []
    spy.drop()
    pub.publish("secret/1", b"queued", 1)
    again = kernel.peer(version)
    again.connect("spy", clean_start=False)
    assert heard_by(again) == []


@cases("prefix", ["$share/g/", "$queue/", "$exclusive/"])
def test_a_prefix_that_hides_a_denied_topic(prefix: str) -> None:
    """The ACL named a topic; `$share/g/` before it made another text of it, which no rule denied."""
    kernel = Kernel(replace(CHANNEL, exclusive_subscription=True, authz_cache_size=0))
    acl = Acl(kernel)
    acl.denied.add("spy subscribe secret/1")
    spy, pub = kernel.connect("spy"), kernel.connect("pub")
    assert spy.subscribe(f"{prefix}secret/1") == [rc.NOT_AUTHORIZED]
    pub.publish("secret/1", b"x")
    assert heard_by(spy) == []


@cases("clientid", ["#", "+", "a/#", "+/b", "a/b", "$SYS", ""])
@cases("version", VERSIONS)
def test_a_client_id_with_wildcards_in_a_mountpoint(clientid: str, version: int) -> None:
    """CVE-2017-7650: `#` as a client id or user name, filled into a pattern, gave access to everybody's topics."""
    kernel = Kernel(replace(CHANNEL, listener=replace(LISTENER, mountpoint="c/${clientid}/")))
    victim = kernel.connect("victim")
    victim.subscribe("x")
    spy = kernel.peer(version)
    spy.connect(clientid, clean_start=True)
    if clientid:
        code = rc.CLIENT_IDENTIFIER_NOT_VALID if version == p.V5 else 0x85
        assert spy.heard() == [f"CONNACK 0x{code:02x}"]
        assert spy.closed()
        return
    spy.skip()  # it was assigned one
    spy.publish("../victim/x", b"x")
    spy.publish("c/victim/x", b"x")
    assert victim.heard() == []


@cases("name", ["#", "+", "a/#"])
def test_a_client_id_with_wildcards_in_templates(name: str) -> None:
    """The same fault in automatic subscriptions and topic rewriting: what a client calls itself became a filter."""
    node = Node(
        r"""
        auto_subscribe.topics = [{ topic = "c/${clientid}" }, { topic = "u/${username}/in" }]
        rewrite = [{ action = all, source_topic = "me", re = "^me$", dest_topic = "of/${clientid}" }]
        """
    )
    spy, pub = node.connect(name, username=name), node.connect("pub")
    spy.subscribe("me")
    for topic in ("c/victim", "u/victim/in", "of/victim"):
        pub.publish(topic, b"x")
    assert heard_by(spy) == []
    assert node.statistics()["auto_subscribe.skipped"] >= 2


def test_a_client_id_that_holds_a_placeholder() -> None:
    """What a client calls itself was looked through for placeholders once more, and could name another's user name."""
    kernel = Kernel(replace(CHANNEL, listener=replace(LISTENER, mountpoint="${clientid}-${username}/")))
    victim = kernel.connect("x", username="admin")
    victim.subscribe("t")
    kernel.connect("x-${username}", username="admin").publish("t", b"x")
    assert victim.heard() == []


# --- identifiers that come again


@cases("version", VERSIONS)
def test_a_qos_2_identifier_that_comes_again_and_again(version: int) -> None:
    """CVE-2023-28366: each repetition of a QoS 2 PUBLISH without its PUBREL took memory, or was delivered again."""
    kernel = Kernel()
    watcher, sender = kernel.connect("watcher"), kernel.connect("sender", version=version)
    watcher.subscribe("t", 2)
    for _ in range(1000):
        sender.publish("t", b"x", 2, 7, dup=True)
    assert sender.heard() == ["PUBREC #7"] * 1000
    assert heard_by(watcher) == ["t"]
    session = kernel.sessions.find("sender")
    assert session is not None
    assert session.statistics()["awaiting_rel_cnt"] == 1


@cases("version", VERSIONS)
def test_qos_2_identifiers_that_are_never_released(version: int) -> None:
    """A client that sends 65,535 QoS 2 messages and no PUBREL: the limit holds, and the client is told of it."""
    kernel = Kernel(session_options=replace(SESSION, max_awaiting_rel=10))
    sender = kernel.connect("sender", version=version)
    for packet_id in range(1, 12):
        sender.publish("t", b"x", 2, packet_id)
    heard = sender.heard()
    over = ["DISCONNECT 0x93"] if version == p.V5 else []
    assert heard[10:] == over
    assert sender.closed()
    assert kernel.broker.counters.snapshot()["packets.publish.dropped"] == 1


@cases("kind", [p.PUBACK, p.PUBREC, p.PUBREL, p.PUBCOMP])
@cases("version", VERSIONS)
def test_acknowledgements_of_nothing(kind: int, version: int) -> None:
    """Acknowledgements that answer nothing crashed brokers that looked up their message without finding one."""
    kernel = Kernel()
    peer = kernel.connect("c", version=version)
    for packet_id in (1, 2, 65_535, 1):
        peer.ack(kind, packet_id)
    assert not peer.closed()
    names = {p.PUBACK: "puback", p.PUBREC: "pubrec", p.PUBREL: "pubrel", p.PUBCOMP: "pubcomp"}
    assert kernel.broker.counters.snapshot()[f"packets.{names[kind]}.missed"] == 4
    session = kernel.sessions.find("c")
    assert session is not None
    assert session.statistics()["inflight_cnt"] == 0
    assert session.statistics()["awaiting_rel_cnt"] == 0


# --- packets that are not what they should be


@cases("version", VERSIONS)
@cases("qos", [0, 1, 2])
def test_a_topic_of_no_length(version: int, qos: int) -> None:
    """CVE-2021-34432: a PUBLISH whose topic has the length 0 stopped the broker."""
    kernel = Kernel()
    watcher, sender = kernel.connect("watcher"), kernel.connect("sender", version=version)
    watcher.subscribe("#")
    identifier = "" if qos == 0 else "0001"
    sender.send_bytes(wire(f"{0x30 | qos << 1:02x} # 0000 {identifier} {'{}' if version == p.V5 else ''} 'x'"))
    assert sender.closed()
    assert watcher.heard() == []
    assert sender.heard() == (["DISCONNECT 0x82"] if version == p.V5 else [])


@cases(
    "first_bytes",
    [
        wire("10 ffffff7f"),  # CONNECT of 256 MiB
        wire("30 ffffff7f"),  # PUBLISH of 256 MiB
        wire("10 ffffffff"),  # more than four bytes of length
        wire("82 ffff7f"),
        wire("c0 00"),
        b"GET / HTTP/1.1\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00",  # TLS
    ],
)
def test_a_first_packet_that_claims_too_much_or_is_no_connect(first_bytes: bytes) -> None:
    """CVE-2023-0809, CVE-2017-7651: memory was allocated for what a first packet claimed, whoever sent it.

    Here the first bytes decide, and nothing is kept of such a connection.
    """
    kernel = Kernel()
    peer = kernel.peer()
    peer.send_bytes(first_bytes)
    assert peer.closed()
    assert bytes(peer.wire.written) == b""
    assert kernel.broker.counters.snapshot()["packets.protocol_errors"] == 1
    assert kernel.context.channels.statistics()["connections.open"] == 0


@cases(
    "will_properties",
    [
        "{ 18 00000001 18 00000002 }",  # Will-Delay-Interval twice
        "{ 01 00 01 01 }",  # Payload-Format-Indicator twice
        '{ 03 "a" 03 "b" }',  # Content-Type twice
        '{ 08 "a" 08 "b" }',
        "{ 02 00000001 02 00000001 }",
        "{ 09 0001 61 09 0001 61 }",
        "{ 11 00000001 }",  # Session-Expiry-Interval, which is CONNECT's
        "{ 23 0001 }",  # Topic-Alias, which is PUBLISH's
        '{ 08 "a/#" }',  # a wildcard to answer to
        "{ 7f 00 }",  # no such property
    ],
)
def test_will_properties_that_stand_twice_or_do_not_belong_there(will_properties: str) -> None:
    """CVE-2023-3592: properties of a will that may not stand there leaked memory; others let the second one win."""
    kernel = Kernel()
    peer = kernel.peer()
    peer.send_bytes(wire(f'10 # "MQTT" 05 06 003c {{}} "c" {will_properties} "w" "bye"'))
    assert peer.closed()
    assert kernel.sessions.statistics()["sessions.count"] == 0
    assert all(isinstance(packet, p.Connack) and packet.code >= 0x80 for packet in peer.received())


@cases("packet", [p.Connack(False, 0, Properties()), p.Suback(p.SUBACK, 1, [0], Properties())])
def test_packets_that_only_a_broker_sends(packet: p.Packet) -> None:
    """CVE-2021-28166: a client that sent a CONNACK to the broker stopped it."""
    kernel = Kernel()
    peer = kernel.connect("c")
    peer.send(packet)
    assert peer.heard() == ["DISCONNECT 0x82"]
    assert peer.closed()


def test_a_second_connect_makes_nobody_else_of_a_client() -> None:
    """Brokers took a second CONNECT on the same connection, with another client id or user name, for a new login."""
    kernel = Kernel()
    seen: list[str] = []
    kernel.broker.hooks.point(hooks.CLIENT_CONNECT).add(lambda client, _connect, _code: seen.append(client.clientid))
    peer = kernel.connect("c")
    peer.connect("admin", username="admin")
    assert peer.heard() == ["DISCONNECT 0x82"]
    assert seen == ["c"]
    assert kernel.sessions.find("admin") is None


@cases(
    "data",
    [
        wire("82 ffffffffff0f 0001"),  # a remaining length of five bytes
        wire("82 # 0001 ffffffff0f"),  # a property length of five bytes
        wire("82 # 0001 ff"),
        wire("82 # 0001 80808000 0001 61 00"),  # longer than it needs to be
        wire('82 # 0001 { 0b ffffffff0f } "a" 00'),  # a subscription identifier of five bytes
    ],
)
def test_lengths_of_five_bytes(data: bytes) -> None:
    """CVE-2026-21888: variable byte integers of five bytes were read beyond the packet."""
    kernel = Kernel()
    peer = kernel.connect("c")
    peer.send_bytes(data)
    assert peer.heard() == ["DISCONNECT 0x81"]


@cases(
    "notation",
    [
        '30 # "t" { 26 "k" ffff 76 }',
        "82 # 0001 {} ffff 61",
        '10 # "MQTT" 05 02 003c {} ffff',
        "62 # 0001 00 { 1f ffff }",
    ],
)
def test_lengths_that_point_behind_the_packet(notation: str) -> None:
    """A field that claims to be longer than its packet made brokers read on: in the next packet, or in memory."""
    kernel = Kernel()
    peer = kernel.connect("c") if not notation.startswith("10") else kernel.peer()
    peer.send_bytes(wire(notation) + wire('82 # 0001 {} "next" 00'))
    assert peer.closed()
    assert not any(isinstance(packet, p.Suback) for packet in peer.received())


@cases(
    "text",
    [
        b"\xff",
        b"\xc0\x80",  # U+0000 in two bytes
        b"\xc1\xbf",
        b"\xe0\x80\xaf",  # `/` in three bytes
        b"\xed\xa0\x80",  # half of a pair
        b"\xed\xa0\xbd\xed\xb8\x80",  # a whole pair
        b"\xf4\x90\x80\x80",  # above U+10FFFF
        b"\xf8\x88\x80\x80\x80",
        b"a\x80",
        b"a\xe2\x82",  # cut off
        b"a\x00b",
        b"\x00",
    ],
)
@cases("where", ["topic", "filter", "clientid", "username", "will", "user property", "response topic"])
def test_text_that_is_not_utf_8(text: bytes, where: str) -> None:
    """CVE-2017-7653: what was no UTF-8 was passed on, and clients that check it left; every one that had subscribed."""
    kernel = Kernel()
    watcher = kernel.connect("watcher")
    watcher.subscribe("#", 1)
    field = f"{len(text):04x} {text.hex()}"
    head = '10 # "MQTT" 05 {} 003c {{}}'
    notation = {
        "topic": f"30 # {field} {{}} 'x'",
        "filter": f"82 # 0001 {{}} {field} 00",
        "clientid": f"{head.format('02')} {field}",
        "username": f'{head.format("82")} "u" {field}',
        "will": f'{head.format("06")} "w" {{}} {field} "x"',
        "user property": f'30 # "t" {{ 26 "k" {field} }} \'x\'',
        "response topic": f"30 # \"t\" {{ 08 {field} }} 'x'",
    }[where]
    peer = kernel.peer() if notation.startswith("10") else kernel.connect("c")
    peer.send_bytes(wire(notation))
    assert peer.closed()
    assert watcher.heard() == []


@cases("text", ["\ufeffa", "\U0010ffff", "\ue000", "é", "e\u0301", "\u202eabc", "\ufffd"])
def test_text_that_is_utf_8_comes_as_it_was_sent(text: str) -> None:
    """Nothing is normalized, stripped or replaced: two topics that look the same are two topics [MQTT-1.5.4-3]."""
    kernel = Kernel()
    watcher, sender = kernel.connect("watcher"), kernel.connect("sender")
    watcher.subscribe(text)
    sender.publish(text, b"x")
    sender.publish(text + "x", b"x")
    assert heard_by(watcher) == [text]


@cases("topic", ["$", "$SYS", "$SYSTEM/x", "$a/b", "$share/g/x", "$queue/x", "$exclusive/x", "$delayed"])
def test_a_topic_that_begins_with_a_dollar(topic: str) -> None:
    """CVE-2018-12543: a topic that began with `$` and was not `$SYS` met an assertion, and ended the broker."""
    kernel = Kernel()
    watcher, sender = kernel.connect("watcher"), kernel.connect("sender")
    watcher.subscribe("#")
    watcher.subscribe("+/#")
    sender.publish(topic, b"x", 1, 1)
    assert sender.heard() == ["PUBACK #1 0x10"]
    assert watcher.heard() == []


# --- floods


@cases("levels_max", [128, 65_535])
def test_a_topic_of_60000_levels(levels_max: int) -> None:
    """CVE-2019-11779: a filter of some 65,000 slashes overflowed the stack, as every level was a call.

    Here nothing recurses, so that an operator may allow as many; by default 128 are.
    """
    kernel = Kernel(replace(CHANNEL, max_topic_levels=levels_max))
    topic = "a/" * 5000 + "/" * 55_000
    wide = "+/" * 5000 + "/" * 55_000
    peer = kernel.connect("c")
    codes = [peer.subscribe(each) for each in (topic, wide, "a/" + "+/" * 30_000 + "#", "/" * 65_000)]
    allowed = levels_max > 60_000
    assert codes == [[0] if allowed else [rc.TOPIC_FILTER_INVALID]] * 4
    peer.publish(topic, b"x", 1, 1, retain=True)
    heard = [line[:8] for line in peer.heard()]
    assert heard == (["PUBACK #"] + ["PUBLISH "] * 3 if allowed else ["DISCONNE"])
    again = kernel.connect("again")
    again.send(subscribes("+/" * 32_000 + "#"))
    assert [line[:8] for line in again.heard()] == (["SUBACK #", "PUBLISH "] if allowed else ["SUBACK #"])
    if allowed:
        for topic_filter in (topic, wide):
            assert peer.unsubscribe(topic_filter) == [0]


def test_a_will_with_as_many_levels_as_are_allowed_behind_a_mountpoint() -> None:
    """The mountpoint made one level too many of the will's topic, which came out when it was to be published.

    The exception left session and connection behind, and each tick failed on them anew. It was ours.
    """
    kernel = Kernel(replace(CHANNEL, max_topic_levels=4, listener=replace(LISTENER, mountpoint="m/")))
    deep, fitting = kernel.peer(), kernel.peer()
    deep.connect("deep", will=p.Will("a/b/c/d", b"", 0, False, properties()))
    assert deep.heard() == ["CONNACK 0x90"]
    fitting.connect("fitting", will=p.Will("a/b/c", b"", 0, False, properties()))
    assert fitting.heard() == ["CONNACK 0x00"]
    fitting.drop()
    assert kernel.context.channels.statistics()["connections.open"] == 0
    assert kernel.sessions.statistics()["sessions.count"] == 0


def test_a_flood_of_subscriptions() -> None:
    """Nothing limited how much one client could subscribe to; each subscription is memory, and work for publishers."""
    kernel = Kernel(replace(CHANNEL, max_subscriptions=10))
    peer = kernel.connect("c")
    peer.send(subscribes(*[f"t/{number}" for number in range(1000)]))
    assert peer.take(p.Suback).codes == [1] * 10 + [rc.QUOTA_EXCEEDED] * 990
    assert kernel.broker.statistics()["subscriptions.count"] == 10
    assert peer.subscribe("t/3", 1) == [1]  # one that it has


def test_a_subscribe_of_forty_thousand_filters_is_not_one_turn() -> None:
    """One packet with all the filters that fit kept everybody else waiting for a second. It was ours too."""
    kernel = Kernel()
    flood, other = kernel.connect("flood"), kernel.connect("other")
    packet = subscribes(*[f"{number:x}" for number in range(40_000)])
    flood.feed(encode_packet(packet, p.V5))
    turns = 0
    while kernel.has_work:
        other.feed(b"\xc0\x00")
        kernel.turn()
        turns += 1
        assert turns < 10_000
    assert turns > 5
    assert other.heard() == ["PINGRESP"] * turns
    assert len(flood.take(p.Suback).codes) == 40_000


def test_a_client_that_leaves_many_groups_at_once() -> None:
    """Each filter of an UNSUBSCRIBE walked through the whole message queue: 30,000 took seconds. Ours as well."""
    session_options = replace(SESSION, max_inflight=1, max_mqueue_len=500)
    kernel = Kernel(replace(CHANNEL, max_shared_subscriptions=0), session_options)
    member, other, pub = kernel.connect("member"), kernel.connect("other"), kernel.connect("pub")
    groups = [f"$share/g/{number}" for number in range(2000)]
    member.send(subscribes("q", "$share/g/kept", *groups))
    other.send(subscribes(*groups))
    pub.publish("q", b"x", 1)
    for number in range(100):
        pub.publish("q", b"%d" % number, 1)
        pub.publish("kept", b"%d" % number, 1)
    member.skip()
    work = kernel.broker.work
    assert member.unsubscribe(*groups) == [0] * 2000
    assert kernel.broker.work - work < 100_000  # 2,000 filters and one walk, not 2,000 walks
    session = kernel.sessions.find("member")
    assert session is not None
    assert session.statistics()["mqueue_len"] == 200


def test_a_flood_of_retained_messages() -> None:
    """Retained messages stay for ever; a client that published one to each of many topics filled the memory."""
    kernel = Kernel()
    kernel.retainer = MemoryRetainer(kernel.broker, replace(RETAINER, max_retained_messages=10, max_payload_size=100))
    kernel.broker.retained = kernel.retainer
    peer = kernel.connect("c")
    for number in range(1000):
        peer.publish(f"t/{number}", b"x", 0, retain=True)
    peer.publish("t/3", b"x" * 101, 0, retain=True)
    statistics = kernel.retainer.statistics()
    assert (statistics["retained.count"], statistics["retained.dropped.full"]) == (9, 990)
    assert statistics["retained.dropped.payload_size"] == 1


def test_a_flood_of_delayed_messages() -> None:
    """Messages that are to be published in a year are memory for a year."""
    node = Node("delayed.max_delayed_messages = 10")
    peer = node.connect("c")
    for number in range(100):
        peer.publish(f"$delayed/31536000/{number}", b"x")
    numbers = node.statistics()
    assert (numbers["delayed.count"], numbers["delayed.dropped.full"]) == (10, 90)


def test_thousands_of_user_properties() -> None:
    """CVE-2021-41039: a CONNECT with a great many user properties took time by the square of their number.

    Here each costs the same, and none is remembered.
    """
    user = b"\x26\x00\x01k\x00\x01v" * 100_000
    body = b"\x00\x04MQTT\x05\x02\x00\x00" + varint(len(user)) + user + b"\x00\x01c"
    kernel = Kernel(replace(CHANNEL, max_user_properties=100_000))
    peer = kernel.peer()
    gc.collect()
    before = sum(isinstance(found, p.Connect) for found in gc.get_objects())
    peer.send_bytes(b"\x10" + varint(len(body)) + body)
    assert peer.heard() == ["CONNACK 0x00"]
    gc.collect()
    assert sum(isinstance(found, p.Connect) for found in gc.get_objects()) == before


def test_a_client_that_comes_and_goes_leaves_nothing_behind() -> None:
    """Sequences of CONNECT, SUBSCRIBE, PUBLISH, UNSUBSCRIBE and DISCONNECT leaked a little with each round."""
    kernel = Kernel(stored=["stored/#"])
    for number in range(200):
        peer = kernel.connect(f"c{number}", will=p.Will("w", b"x", 1, False, properties()), session_expiry_interval=10)
        peer.send(subscribes("a/#", "$share/g/b", "stored/#"))
        peer.publish("a/1", b"x", 1)
        peer.publish("stored/1", b"x", 2)
        peer.send(p.Unsubscribe(2, ["a/#"], properties()))
        if number % 2:
            peer.disconnect()
        else:
            peer.drop()
        kernel.commit()
        kernel.advance(11)
    assert kernel.sessions.statistics() == {"sessions.count": 0, "sessions.away": 0}
    assert kernel.context.channels.statistics()["connections.open"] == 0
    statistics = kernel.broker.statistics()
    assert (statistics["topics.count"], statistics["subscriptions.shared.count"]) == (0, 0)
    assert count(kernel.context.commits, CommitWaiter) == count(kernel.context.commits, ReaderHandle) == 0


def test_connections_that_end_while_the_disk_is_full_leave_nothing_behind() -> None:
    """Each connection that waited for room stayed in memory until there was some, ended or not. Ours."""
    kernel = Kernel(stored=["#"])
    kernel.sink.full = True
    for number in range(100):
        peer = kernel.connect(f"c{number}")
        peer.publish("t", b"x", 1)
        assert peer.paused()
        peer.drop()
    kernel.commit()
    assert count(kernel.context.commits, CommitWaiter) == count(kernel.context.commits, ReaderHandle) == 0


def test_sessions_that_end_let_go_of_the_messages_that_waited() -> None:
    """CVE-2025-62723: sessions that expired kept the QoS messages that they had never delivered."""
    kernel = Kernel(session_options=replace(SESSION, max_mqueue_len=100))
    for number in range(10):
        peer = kernel.connect(f"c{number}", session_expiry_interval=10)
        peer.subscribe("t", 1)
        peer.drop()
    pub = kernel.connect("pub")
    for _ in range(100):
        pub.publish("t", b"x" * 1000, 1)
    gone = [kernel.sessions.find(f"c{number}") for number in range(10)]
    kernel.advance(11)
    for session in gone:
        assert session is not None
        assert (session.statistics()["mqueue_len"], session.statistics()["inflight_cnt"]) == (0, 0)
    assert kernel.sessions.statistics()["sessions.count"] == 1


def test_a_will_that_is_delayed_beyond_its_session() -> None:
    """CVE-2019-11778: a will delay longer than the session's expiry was used after the session had been freed."""
    kernel = Kernel()
    watcher = kernel.connect("watcher")
    watcher.subscribe("w")
    will = p.Will("w", b"x", 0, False, properties(will_delay_interval=1000))
    kernel.connect("c", will=will, session_expiry_interval=5).drop()
    kernel.advance(6)
    assert heard_by(watcher) == ["w"]
    kernel.advance(2000)
    assert heard_by(watcher) == []


# --- who is who


def test_a_client_id_is_taken_over_only_by_who_was_let_in() -> None:
    """Brokers closed the old connection of a client id before they had looked at the new one's password."""
    kernel = Kernel()

    def only_owner(client: ClientInfo, _attempt: object, _outcome: object) -> object:
        return hooks.OK if client.username == "owner" else (hooks.STOP, rc.BAD_USERNAME_OR_PASSWORD)

    kernel.broker.hooks.point(hooks.CLIENT_AUTHENTICATE).add(only_owner)
    owner = kernel.connect("device", username="owner", session_expiry_interval=60)
    owner.subscribe("t", 1)
    thief = kernel.peer()
    thief.connect("device", username="thief", clean_start=True)
    assert thief.heard() == ["CONNACK 0x86"]
    assert not owner.closed()
    kernel.connect("pub", username="owner").publish("t", b"x")
    assert heard_by(owner) == ["t"]


def test_of_two_connections_with_one_client_id_one_is_left() -> None:
    """A broker that kept both sent messages to the first, and freed what the second still used."""
    kernel = Kernel()
    first = kernel.connect("c", session_expiry_interval=60)
    first.subscribe("t", 1)
    second = kernel.connect("c", clean_start=False, session_expiry_interval=60)
    assert first.heard() == ["DISCONNECT 0x8e"]
    assert first.closed()
    first.send_bytes(wire('82 # 0001 {} "other" 00'))
    kernel.connect("pub").publish("t", b"x")
    kernel.connect("pub2").publish("other", b"x")
    assert heard_by(second) == ["t"]


def test_what_one_connection_was_allowed_is_not_the_nexts() -> None:
    """A session that a superuser opened stayed a superuser's when somebody else came back to it."""
    kernel = Kernel(forgetful())
    acl = Acl(kernel)
    acl.denied |= {"c subscribe secret", "c publish secret"}

    def admin(client: ClientInfo, _attempt: object, _outcome: object) -> None:
        client.is_superuser = client.username == "admin"

    kernel.broker.hooks.point(hooks.CLIENT_AUTHENTICATE).add(admin)
    first = kernel.connect("c", username="admin", session_expiry_interval=60)
    assert first.subscribe("secret", 1) == [1]
    first.drop()
    second = kernel.connect("c", username="user", clean_start=False, session_expiry_interval=60)
    kernel.connect("pub").publish("secret", b"x", 1)
    assert heard_by(second) == []
    second.publish("secret", b"x", 1, 1)
    assert second.heard() == ["PUBACK #1 0x87"]


def test_a_topic_alias_is_known_to_its_own_connection_only() -> None:
    """Aliases that outlived their connection, or were shared, published to the topics of others."""
    kernel = Kernel()
    watcher = kernel.connect("watcher")
    watcher.subscribe("#")
    first = kernel.connect("c", session_expiry_interval=60)
    first.publish("mine", b"x", topic_alias=1)
    first.drop()
    second = kernel.connect("c", clean_start=False, session_expiry_interval=60)
    second.publish("", b"y", topic_alias=1)
    assert second.heard() == ["DISCONNECT 0x82"]
    assert heard_by(watcher) == ["mine"]


def test_a_subscriber_that_leaves_in_the_middle_of_a_delivery() -> None:
    """CVE-2025-59946: subscriptions that ended while a message went through them were used when they were gone."""
    kernel = Kernel()
    peers = {f"c{number}": kernel.connect(f"c{number}") for number in range(4)}
    for peer in peers.values():
        peer.subscribe("t")
        peer.subscribe("$share/g/t")

    def leave(*_told: object) -> None:
        for clientid in peers:
            channel = kernel.context.channels.find(clientid)
            if channel is not None:
                channel.unsubscribe(["t", "$share/g/t"])

    kernel.broker.hooks.point(hooks.MESSAGE_DELIVERED).add(leave)
    pub = kernel.connect("pub")
    pub.publish("t", b"1")
    assert sum(len(heard_by(peer)) for peer in peers.values()) > 0
    pub.publish("t", b"2")
    assert [heard_by(peer) for peer in peers.values()] == [[]] * 4
    assert kernel.hook_failures == []
    assert kernel.broker.statistics()["subscriptions.count"] == 0


def test_what_fails_for_one_subscriber_reaches_the_others() -> None:
    """A message that could not be written to one client raised an exception; the others went without."""
    kernel = Kernel()
    small, large = kernel.connect("small", maximum_packet_size=20), kernel.connect("large")
    for peer in (small, large):
        peer.subscribe("t", 1)

    def fail(*_told: object) -> None:
        raise RuntimeError

    for point in (hooks.DELIVERY_DROPPED, hooks.MESSAGE_DELIVERED):
        kernel.broker.hooks.point(point).add(fail)
    pub = kernel.connect("pub")
    pub.publish("t", b"x" * 100, 1, 1)
    assert pub.heard() == ["PUBACK #1"]
    assert heard_by(large) == ["t"]
    assert heard_by(small) == []


def test_what_a_client_is_called_stays_on_its_line_of_the_log() -> None:
    """A client id with line breaks wrote lines of its own into the log."""
    kernel = Kernel()
    peer = kernel.connect("c")
    peer.send_bytes(wire('30 # "a\n2026 ERROR all is lost/+" {}'))
    assert peer.closed()
    assert len(kernel.reports) == 1
    assert "\n" not in kernel.reports[0]


def test_a_log_that_peers_write_into_stays_small(caplog: pytest.LogCaptureFixture) -> None:
    """Names of 64 KiB in CONNECT packets, each logged whole, filled the disk before anybody had to log in."""
    kernel = Kernel()
    name = b"\xf3\xa0\x80\x81" * 16_000  # escaped, each is ten characters
    peer = kernel.peer()
    peer.send_bytes(wire(f'10 # {len(name):04x} {name.hex()} 05 02 003c {{}} "c"'))
    log = ProtocolErrorLog()
    with caplog.at_level(logging.INFO):
        log("192.0.2.1:50000", name.decode(), kernel.reports[0])
    assert len(caplog.records) == 1
    assert len(caplog.records[0].getMessage()) < 1000


def test_a_connection_that_owes_days_is_gone_when_it_ends() -> None:
    """The timer of its rate kept an ended connection in memory for as long as the packet would have taken. Ours."""
    kernel = Kernel(
        replace(CHANNEL, max_packet_size=2_000_000, listener=replace(LISTENER, bytes_rate=10.0, bytes_burst=100_000.0))
    )
    peer = kernel.connect("c")
    peer.publish("t", b"x" * 1_000_000)
    assert peer.paused()
    peer.drop()
    kernel.advance(1.0)
    assert kernel.timers_count == 0


@cases(
    "header",
    [
        b"PROXY TCP6 ::ffff:192.0.2.9 ::1 50000 1883\r\n",
        SIGNATURE_V2 + b"\x21\x21\x00\x24" + bytes(10) + b"\xff\xff\xc0\x00\x02\x09" + bytes(16) + b"\xc3\x50\x07\x5b",
    ],
)
def test_an_address_in_another_form_is_the_same_address(header: bytes) -> None:
    """A client behind a proxy passed its ban because its IPv4 address came in the form of an IPv6 one. Ours."""
    parser = ProxyHeaderParser()
    assert parser.take(header) == len(header)
    assert parser.header is not None
    assert parser.header.source == "192.0.2.9:50000"


@cases(
    ("host", "port", "peername"),
    [
        ("::ffff:192.0.2.9", "4711", "192.0.2.9:4711"),
        ("fe80::1%eth0", "4711", "[fe80::1]:4711"),
        ("192.0.2.9", "00004711", "192.0.2.9:50000"),
        ("192.0.2.9", "04711", "192.0.2.9:4711"),
        ("192.0.2.9", "0000019999999", "192.0.2.9:50000"),
        ("nobody", "x", "198.51.100.1:50000"),
    ],
)
def test_an_address_in_a_header_comes_in_its_usual_form(host: str, port: str, peername: str) -> None:
    """The same over WebSocket: what a header says of an address is one, in the form that bans are written in."""
    options = WebsocketOptions(proxy_address_header="X-Forwarded-For", proxy_port_header="X-Forwarded-Port")
    asked = request(X_Forwarded_For=host, X_Forwarded_Port=port)
    assert UpgradePolicy(options).decide(asked, "198.51.100.1:50000").peername == peername
