"""What operators and clients limit: sizes, lengths, QoS, keepalives, and what is told about it."""

from dataclasses import replace

from heliograph.broker import hooks
from heliograph.broker.client import ClientInfo
from heliograph.channel.options import ChannelOptions
from heliograph.channel.peer import Peer as Address
from heliograph.mqtt import packets as p
from heliograph.mqtt import reason_codes as rc
from support.cases import cases
from support.kernel import Kernel, Peer
from support.options import CHANNEL, SESSION
from support.packets import properties, properties_of, publish

VERSIONS = [p.V3_1, p.V3_1_1, p.V5]


def payloads(peer: Peer) -> list[bytes]:
    return [packet.payload for packet in peer.received() if isinstance(packet, p.Publish)]


def connack_of(
    kernel: Kernel,
    clientid: str = "c",
    *,
    version: int = p.V5,
    address: Address | None = None,
    username: str | None = None,
    asks: int = 0,
) -> p.Connack:
    peer = kernel.peer(version, address)
    peer.connect(clientid, username=username, request_response_information=asks)
    return peer.take(p.Connack)


# --- a reader that does not read


@cases("options", [replace(CHANNEL, unsent_bytes_max=50_000), replace(CHANNEL, unsent_packets_max=20)])
def test_a_connection_for_which_too_much_waits_is_cut(options: ChannelOptions) -> None:
    kernel = Kernel(options)
    heard: list[str] = []
    kernel.broker.hooks.point(hooks.CLIENT_DISCONNECTED).add(lambda client, why, *_: heard.append(why))
    sub = kernel.connect("sub", session_expiry_interval=60)
    sub.wire.stuck = True
    sub.congest()
    sub.send_bytes(b"\xc0\x00" * 5)
    kernel.advance(1)
    assert not sub.closed()
    sub.send_bytes(b"\xc0\x00" * 30_000)  # its answers wait
    kernel.advance(1)
    assert sub.closed()
    assert heard == ["force_shutdown"]
    assert kernel.broker.counters.snapshot()["connections.force_shutdown"] == 1
    assert kernel.context.channels.statistics()["connections.open"] == 0
    assert kernel.sessions.find("sub") is not None


def test_who_reads_is_not_cut_however_much_it_is() -> None:
    kernel = Kernel(replace(CHANNEL, unsent_bytes_max=1000))
    sub = kernel.connect("sub")
    sub.subscribe("t")
    kernel.connect("pub").publish("t", b"x" * 50_000)
    kernel.advance(1)
    assert payloads(sub) == [b"x" * 50_000]
    assert not sub.closed()


# --- how large packets may be that a client takes


@cases("size", [60, 100, 200])
def test_no_packet_is_larger_than_the_client_takes(size: int) -> None:
    kernel = Kernel(replace(CHANNEL, response_information="r" * 150))
    peer = kernel.peer()
    peer.connect("", maximum_packet_size=size, request_response_information=1)
    entries = [p.SubscribeEntry(f"{number}/#/{'x' * 50}", 0, False, False, 0) for number in range(40)]
    peer.send_subscribe(*entries)
    peer.send_subscribe(p.SubscribeEntry("a/#/" + "x" * 300, 0, False, False, 0))
    peer.send(p.Unsubscribe(3, ["never"] * 40, properties()))
    peer.send(p.Unsubscribe(4, ["never"] * 300, properties()))
    peer.send_subscribe(p.SubscribeEntry("t", 2, False, False, 0))
    for qos in (0, 1, 2):
        kernel.connect("pub").publish("t", b"x" * 300, qos)
        kernel.connect("pub").publish("t", b"x", qos, user_property=[("k", "v" * 300)])
        kernel.connect("pub").publish("t", b"fits", qos)
    peer.publish("t/+", b"x" * 10)
    for packet in sizes(peer):
        assert packet <= size
    assert peer.closed()


def sizes(peer: Peer) -> list[int]:
    data = bytes(peer.wire.written)
    found, at = [], 0
    while at < len(data):
        length, shift, body = 0, 0, at + 1
        while True:
            length |= (data[body] & 0x7F) << shift
            body, shift = body + 1, shift + 7
            if data[body - 1] < 0x80:
                break
        found.append(body + length - at)
        at = body + length
    return found


def test_a_packet_that_is_too_large_frees_its_place_in_the_window() -> None:
    kernel = Kernel()
    sub = kernel.connect("sub", maximum_packet_size=50, receive_maximum=1)
    sub.subscribe("t", 1)
    pub = kernel.connect("pub")
    for payload in (b"x" * 100, b"1", b"x" * 100, b"2"):
        pub.publish("t", payload, 1)
    assert sub.heard() == ["PUBLISH t '1' q1 #2"]
    sub.ack(p.PUBACK, 2)
    assert sub.heard() == ["PUBLISH t '2' q1 #4"]
    assert kernel.broker.counters.snapshot()["delivery.dropped.too_large"] == 2


# --- what CONNACK tells


@cases(("asks", "told"), [(0, None), (1, "r/")])
def test_response_information(asks: int, told: str | None) -> None:
    kernel = Kernel(replace(CHANNEL, response_information="r/"))
    assert connack_of(kernel, asks=asks).properties.named().get("Response-Information") == told


def test_reasons_are_told_only_to_who_wants_them() -> None:
    kernel = Kernel()
    wants, does_not = kernel.connect("wants"), kernel.connect("not", request_problem_information=0)
    for peer, said in ((wants, {"Reason-String": "'+' must stand alone in its level in '+a'"}), (does_not, {})):
        peer.send_subscribe(p.SubscribeEntry("+a", 0, False, False, 0))
        assert peer.take(p.Suback).properties.named() == said  # [MQTT-3.1.2-29]
        peer.publish("t/+")
        assert "Reason-String" in peer.take(p.Disconnect).properties.named()  # allowed on DISCONNECT all the same


def test_a_reason_repeats_nothing_that_a_client_could_not_read() -> None:
    peer = Kernel().connect()
    peer.publish("ä\x01/+" + "x" * 2000)
    reason = peer.take(p.Disconnect).properties.named()["Reason-String"]
    assert isinstance(reason, str)
    assert reason.isascii()
    assert reason.isprintable()
    assert len(reason) <= 2048


@cases("version", VERSIONS)
def test_the_operators_keepalive_is_for_clients_that_can_be_told_of_it(version: int) -> None:
    kernel = Kernel(replace(CHANNEL, server_keepalive_s=10))
    peer = kernel.peer(version)
    peer.connect("c", keepalive_s=100)
    told = peer.take(p.Connack).properties.named().get("Server-Keep-Alive")
    assert told == (10 if version == p.V5 else None)
    kernel.advance(16)
    assert peer.closed() is (version == p.V5)
    kernel.advance(135)
    assert peer.closed()


def test_without_a_keepalive_of_the_operator_the_clients_own_holds() -> None:
    kernel = Kernel(replace(CHANNEL, server_keepalive_s=0))
    peer, silent = kernel.connect(keepalive_s=10), kernel.connect("silent", keepalive_s=0)
    kernel.advance(16)
    assert peer.closed()
    kernel.advance(1000)
    assert not silent.closed()


# --- who the client is


@cases("version", VERSIONS)
def test_the_user_name_instead_of_the_client_id(version: int) -> None:
    kernel = Kernel(replace(CHANNEL, use_username_as_clientid=True))
    assert "Assigned-Client-Identifier" not in connack_of(kernel, "c", version=version, username="u").properties.named()
    assert kernel.sessions.find("u") is not None
    connack_of(kernel, "c", version=version)
    assert kernel.sessions.find("c") is not None  # without a user name


def test_a_user_name_that_is_too_long_for_a_client_id() -> None:
    kernel = Kernel(replace(CHANNEL, use_username_as_clientid=True, max_clientid_len=5))
    assert connack_of(kernel, "c", username="u" * 6).code == rc.CLIENT_IDENTIFIER_NOT_VALID
    assert connack_of(kernel, "c", username="u" * 5).code == rc.SUCCESS


def test_what_the_certificate_says_holds() -> None:
    kernel = Kernel(replace(CHANNEL, use_username_as_clientid=True))
    seen: list[ClientInfo] = []
    kernel.broker.hooks.point(hooks.CLIENT_CONNECTED).add(lambda client, *args: seen.append(client))
    address = Address("192.0.2.9:1", "192.0.2.2:8883", "device-7", "CN=device-7,O=x", "device-7", "id-7")
    connack_of(kernel, "claimed", address=address, username="claimed")
    (client,) = seen
    assert (client.clientid, client.username) == ("id-7", "device-7")
    assert (client.common_name, client.subject) == ("device-7", "CN=device-7,O=x")
    assert (client.peerhost, client.sockname) == ("192.0.2.9", "192.0.2.2:8883")


def test_a_client_without_an_id_whose_certificate_gives_one_is_told() -> None:
    address = Address("192.0.2.9:1", clientid="id-7")
    assert connack_of(Kernel(), "", address=address).properties.named()["Assigned-Client-Identifier"] == "id-7"


def test_an_assigned_client_id_is_nobody_elses() -> None:
    kernel = Kernel()
    kernel.connect("assigned-1", session_expiry_interval=60).drop()
    kernel.connect("assigned-2")
    assert connack_of(kernel, "").properties.named()["Assigned-Client-Identifier"] == "assigned-3"


# --- strict mode


@cases("text", ["\x01", "\x1f", "\x7f", "\x9f", "\ufdd0", "\ufffe", "\uffff", "\U0001ffff"])
def test_strict_mode_refuses_what_should_not_be_in_text(text: str) -> None:
    strict, lax = Kernel(replace(CHANNEL, strict_mode=True)), Kernel()
    for kernel, is_strict in ((strict, True), (lax, False)):
        for packet in (
            publish(f"t{text}"),
            publish("t", response_topic=f"r{text}"),
            publish("t", user_property=[("k", text)]),
            publish("t", user_property=[(text, "v")]),
        ):
            peer = kernel.connect()
            peer.send(packet)
            assert peer.heard() == (["DISCONNECT 0x81"] if is_strict else [])
        subscriber = kernel.connect()
        assert subscriber.subscribe(f"t{text}") == ([rc.TOPIC_FILTER_INVALID] if is_strict else [0])
        for connect in (
            p.Connect(p.V5, f"c{text}", True, 0, None, None, None, properties()),
            p.Connect(p.V5, "c", True, 0, None, text, None, properties()),
            p.Connect(p.V5, "c", True, 0, None, None, None, properties(user_property=[("k", text)])),
            p.Connect(p.V5, "c", True, 0, p.Will(text, b"", 0, False, properties()), None, None, properties()),
        ):
            peer = kernel.peer()
            peer.send(connect)
            assert peer.closed() is is_strict


def test_strict_mode_takes_the_text_of_the_world() -> None:
    kernel = Kernel(replace(CHANNEL, strict_mode=True))
    peer = kernel.connect("Ä温\ufeff😀")
    peer.subscribe("#")
    peer.publish("気温/東京 \xa0\ufffd")
    assert peer.take(p.Publish).topic.decode() == "気温/東京 \xa0\ufffd"


# --- how long messages live


def test_a_message_without_a_lifetime_gets_the_operators() -> None:
    kernel = Kernel(replace(CHANNEL, message_expiry_interval_s=10))
    sub = kernel.connect("sub", session_expiry_interval=1000)
    sub.subscribe("t", 1)
    sub.drop()
    for version in VERSIONS:
        kernel.connect("pub", version=version).publish("t", b"%d" % version, 1)
    kernel.connect("pub").publish("t", b"own", 1, message_expiry_interval=100)
    kernel.connect("pub").publish("t", b"short", 1, message_expiry_interval=3)
    kernel.advance(4)
    again = kernel.peer()
    again.connect("sub", clean_start=False, session_expiry_interval=1000, receive_maximum=1)
    first = again.received()[-1]
    assert isinstance(first, p.Publish)
    assert properties_of(first) == {"Message-Expiry-Interval": 6}
    kernel.advance(7)
    again.ack(p.PUBACK, int(first.packet_id))
    assert payloads(again) == [b"own"]


def test_a_will_without_a_lifetime_gets_it_too() -> None:
    kernel = Kernel(replace(CHANNEL, message_expiry_interval_s=10))
    sub, away = kernel.connect("sub"), kernel.connect("away", session_expiry_interval=60)
    for peer in (sub, away):
        peer.subscribe("w", 1)
    away.drop()
    kernel.connect("c", will=p.Will("w", b"gone", 1, False, properties())).drop()
    assert payloads(sub) == [b"gone"]
    kernel.advance(11)
    again = kernel.peer()
    again.connect("away", clean_start=False)
    assert payloads(again) == []


def test_a_lifetime_of_0_is_over_when_the_message_would_wait() -> None:
    kernel = Kernel()
    sub, away = kernel.connect("sub"), kernel.connect("away", session_expiry_interval=60)
    for peer in (sub, away):
        peer.subscribe("t", 1)
    away.drop()
    kernel.connect("pub").publish("t", b"x", 1, message_expiry_interval=0)
    assert payloads(sub) == [b"x"]
    again = kernel.peer()
    again.connect("away", clean_start=False)
    assert again.heard() == ["CONNACK 0x00 present"]


# --- sessions


@cases(("version", "gets_own"), [(p.V3_1, False), (p.V3_1_1, False), (p.V5, True)])
def test_loops_are_ignored_for_clients_that_cannot_ask_for_it(version: int, gets_own: bool) -> None:
    kernel = Kernel(session_options=replace(SESSION, ignore_loop_deliver=True))
    kernel.connect("c", version=version).publish("t", b"kept", retain=True)
    peer = kernel.connect("c", version=version)
    peer.send_subscribe(p.SubscribeEntry("#", 1, False, False, 0))
    assert payloads(peer) == ([b"kept"] if gets_own else [])
    peer.publish("t", b"own", 0)
    assert payloads(peer) == ([b"own"] if gets_own else [])
    kernel.connect("other").publish("t", b"x")
    assert payloads(peer) == [b"x"]


@cases("granted", [0, 1, 2])
@cases("published", [0, 1, 2])
def test_an_operator_may_upgrade_to_the_qos_of_the_subscription(granted: int, published: int) -> None:
    kernel = Kernel(session_options=replace(SESSION, upgrade_qos=True))
    plain, shared, late = kernel.connect("plain"), kernel.connect("shared"), kernel.connect("late")
    plain.subscribe("t", granted)
    shared.subscribe("$share/g/t", granted)
    kernel.connect("pub").publish("t", b"x", published, retain=True)
    assert plain.take(p.Publish).qos == shared.take(p.Publish).qos == granted
    late.send_subscribe(p.SubscribeEntry("t", granted, False, False, 0))
    assert [packet.qos for packet in late.received() if isinstance(packet, p.Publish)] == [granted]


@cases("version", VERSIONS)
def test_what_an_old_client_does_not_acknowledge_is_sent_again_if_the_operator_wants_it(version: int) -> None:
    kernel = Kernel(session_options=replace(SESSION, retry_interval_us=10_000_000, max_inflight=2))
    sub = kernel.connect("sub", version=version)
    sub.subscribe("t", 2)
    pub = kernel.connect("pub")
    pub.publish("t", b"one", 1)
    pub.publish("t", b"two", 2)
    pub.publish("t", b"three", 1)
    sub.ack(p.PUBREC, 2)
    assert sub.heard() == ["PUBLISH t 'one' q1 #1", "PUBLISH t 'two' q2 #2", "PUBREL #2"]
    kernel.advance(9)
    assert sub.heard() == []
    kernel.advance(2)
    again = ["PUBLISH t 'one' q1 #1 dup", "PUBREL #2"]
    assert sub.heard() == ([] if version == p.V5 else again)  # [MQTT-4.4.0-1]
    kernel.advance(9)
    assert sub.heard() == []
    sub.congest()
    kernel.advance(5)
    assert sub.heard() == []
    sub.congest(False)
    sub.ack(p.PUBCOMP, 2)
    assert sub.heard() == ["PUBLISH t 'three' q1 #3"]
    kernel.advance(1)
    assert sub.heard() == ([] if version == p.V5 else ["PUBLISH t 'one' q1 #1 dup"])


def test_topics_of_a_higher_priority_come_first() -> None:
    options = replace(
        SESSION,
        max_mqueue_len=2,
        mqueue_priorities={"high": 9, "low": 1},
        mqueue_default_priority=5,
        mqueue_store_qos0=True,
    )
    kernel = Kernel(session_options=options)
    sub = kernel.connect("sub", session_expiry_interval=60)
    sub.subscribe("#", 1)
    sub.drop()
    pub = kernel.connect("pub")
    for number in range(3):
        for topic in ("low", "other", "high"):
            pub.publish(topic, b"%d" % number, 1)
    session = kernel.sessions.find("sub")
    assert session is not None
    assert session.statistics()["mqueue_len"] == 6
    again = kernel.peer()
    again.connect("sub", clean_start=False)
    came = [(packet.topic, packet.payload) for packet in again.received() if isinstance(packet, p.Publish)]
    assert came == [(topic, payload) for topic in (b"high", b"other", b"low") for payload in (b"1", b"2")]
    assert kernel.broker.counters.snapshot()["delivery.dropped.queue_full"] == 3


def test_limits_of_the_listener_that_a_client_comes_back_through() -> None:
    kernel = Kernel(replace(CHANNEL, session=replace(SESSION, max_mqueue_len=10, max_awaiting_rel=10)))
    small = replace(CHANNEL, session=replace(SESSION, max_mqueue_len=2, max_awaiting_rel=2, max_inflight=1))
    peer = kernel.connect("c", session_expiry_interval=60, receive_maximum=1)
    peer.subscribe("t", 1)
    for packet_id in (1, 2):
        peer.publish("x", b"", 2, packet_id)
    peer.drop()
    pub = kernel.connect("pub")
    for number in range(5):
        pub.publish("t", b"%d" % number, 1)
    again = kernel.peer(options=small)
    again.connect("c", clean_start=False, session_expiry_interval=60)
    assert payloads(again) == [b"3"]
    again.publish("x", b"", 2, 3)
    assert again.heard() == ["DISCONNECT 0x93"]


@cases("version", VERSIONS)
def test_a_client_may_hold_so_many_subscriptions(version: int) -> None:
    kernel = Kernel(replace(CHANNEL, max_subscriptions=2, exclusive_subscription=True))
    peer = kernel.connect(version=version)
    full = rc.QUOTA_EXCEEDED if version == p.V5 else rc.UNSPECIFIED_ERROR
    peer.send_subscribe(
        *[p.SubscribeEntry(name, 0, False, False, 0) for name in ("a", "$share/g/a", "b", "$exclusive/a", "a")]
    )
    assert peer.take(p.Suback).codes == [0, 0, full, full, 0]
    peer.send(p.Unsubscribe(9, ["a"], properties()))
    peer.skip()
    assert peer.subscribe("b") == [0]


@cases("version", VERSIONS)
def test_a_client_may_hold_so_many_shared_subscriptions(version: int) -> None:
    kernel = Kernel(replace(CHANNEL, max_shared_subscriptions=2))
    peer = kernel.connect(version=version)
    full = rc.QUOTA_EXCEEDED if version == p.V5 else rc.UNSPECIFIED_ERROR
    names = ("$share/g/a", "$queue/b", "$share/h/a", "a", "$share/g/a")
    peer.send_subscribe(*[p.SubscribeEntry(name, 0, False, False, 0) for name in names])
    assert peer.take(p.Suback).codes == [0, 0, full, 0, 0]
    peer.send(p.Unsubscribe(9, ["$queue/b"], properties()))
    peer.skip()
    assert peer.subscribe("$share/h/a") == [0]


def test_a_queue_holds_so_many_bytes() -> None:
    kernel = Kernel(session_options=replace(SESSION, max_mqueue_len=0, max_mqueue_bytes=20_000))
    peer = kernel.connect("sub", session_expiry_interval=60)
    peer.subscribe("t", 1)
    peer.drop()
    publisher = kernel.connect("pub")
    for number in range(10):
        publisher.publish("t", bytes([48 + number]) * 4000, 1, number + 1)
    session = kernel.sessions.held("sub")
    assert session is not None
    numbers = session.statistics()
    assert numbers["mqueue_bytes"] <= numbers["mqueue_bytes_max"] == 20_000
    assert (numbers["mqueue_len"], numbers["mqueue_dropped"]) == (4, 6)
    assert kernel.broker.counters.delivery_dropped_queue_full == 6
    again = kernel.peer()
    again.connect("sub", clean_start=False, session_expiry_interval=60)
    assert [payload[:1] for payload in payloads(again)] == [b"6", b"7", b"8", b"9"]


@cases("version", VERSIONS)
def test_no_more_sessions_are_kept_without_their_clients_than_the_operator_wants(version: int) -> None:
    kernel = Kernel()
    kernel.sessions.away_max = 2

    def come(clientid: str) -> Peer:
        peer = kernel.peer(version)
        if version == p.V5:
            peer.connect(clientid, clean_start=False, session_expiry_interval=60)
        else:
            peer.connect(clientid, clean_start=False)
        return peer

    for name in ("a", "b"):
        peer = come(name)
        assert peer.take(p.Connack).code == rc.SUCCESS
        peer.drop()
    assert come("c").take(p.Connack).code == (rc.QUOTA_EXCEEDED if version == p.V5 else rc.SERVER_UNAVAILABLE)
    kernel.connect("d", version=version).drop()  # a session that ends with its connection is no burden
    assert come("a").take(p.Connack).code == rc.SUCCESS
    assert come("e").take(p.Connack).code == rc.SUCCESS
    assert kernel.broker.counters.snapshot()["sessions.refused"] == 1


def test_aliases_of_a_client_take_a_bounded_memory() -> None:
    kernel = Kernel()
    peer = kernel.connect()
    alias = 0
    while not peer.closed():
        alias += 1
        peer.publish("x" * 60_000, topic_alias=alias)
        assert alias < 400
    assert peer.heard() == ["DISCONNECT 0x97"]
    other = kernel.connect("other")
    for _ in range(200):
        other.publish("x" * 60_000, topic_alias=1)  # one and the same
    assert not other.closed()


# --- reason codes of acknowledgements


@cases(
    ("kind", "valid"),
    [
        (p.PUBACK, {0x00, 0x10, 0x80, 0x83, 0x87, 0x90, 0x91, 0x97, 0x99}),
        (p.PUBREC, {0x00, 0x10, 0x80, 0x83, 0x87, 0x90, 0x91, 0x97, 0x99}),
        (p.PUBREL, {0x00, 0x92}),
        (p.PUBCOMP, {0x00, 0x92}),
    ],
)
def test_reason_codes_that_an_acknowledgement_does_not_have(kind: int, valid: set[int]) -> None:
    kernel = Kernel()
    for code in range(256):
        peer = kernel.connect()
        peer.ack(kind, 1, code)
        heard = peer.heard()
        assert (heard == ["DISCONNECT 0x82"]) is (code not in valid), hex(code)
        assert peer.closed() is (code not in valid)


def test_reason_codes_that_a_disconnect_does_not_have() -> None:
    kernel = Kernel()
    valid = {0, 4, 0x80, 0x81, 0x82, 0x83, 0x90, 0x93, 0x94, 0x95, 0x96, 0x97, 0x98, 0x99}
    for code in range(256):
        peer = kernel.connect()
        peer.disconnect(code)
        assert peer.heard() == ([] if code in valid else ["DISCONNECT 0x82"]), hex(code)
        assert peer.closed()
