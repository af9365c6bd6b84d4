"""What callbacks of the client's hook points change, and what is done on a client's behalf."""

from dataclasses import replace

from heliograph.broker import hooks
from heliograph.broker.client import ClientInfo
from heliograph.mqtt import packets as p
from heliograph.mqtt import properties as props
from heliograph.mqtt import reason_codes as rc
from heliograph.mqtt.properties import Properties
from support.cases import cases
from support.kernel import Kernel, Peer
from support.options import CHANNEL, LISTENER, SESSION
from support.packets import properties, publish

VERSIONS = [p.V3_1, p.V3_1_1, p.V5]


def entry(topic_filter: str, qos: int = 0) -> p.SubscribeEntry:
    return p.SubscribeEntry(topic_filter, qos, False, False, 0)


# --- client.connect


@cases(
    ("version", "code", "said"),
    [
        (p.V5, rc.BANNED, "CONNACK 0x8a"),
        (p.V3_1_1, rc.BANNED, "CONNACK 0x87"),
        (p.V5, rc.USE_ANOTHER_SERVER, "CONNACK 0x9c"),
        (p.V5, 0x01, "CONNACK 0x80"),
        (p.V3_1, rc.SERVER_BUSY, "CONNACK 0x88"),
    ],
)
def test_a_callback_refuses_a_connect_before_anybody_is_asked_who_it_is(version: int, code: int, said: str) -> None:
    kernel = Kernel()
    asked: list[object] = []
    seen: list[tuple[str, int]] = []

    def refuse(client: ClientInfo, connect: p.Connect, outcome: object) -> tuple[str, int]:
        seen.append((client.peerhost, connect.keepalive_s))
        return hooks.STOP, code

    kernel.broker.hooks.point(hooks.CLIENT_CONNECT).add(refuse)
    kernel.broker.hooks.point(hooks.CLIENT_AUTHENTICATE).add(lambda *args: asked.append(args))
    peer = kernel.peer(version)
    peer.connect("c", keepalive_s=9)
    assert peer.heard() == [said]
    assert peer.closed()
    assert asked == []
    assert seen == [("192.0.2.1", 9)]


@cases("version", [p.V3_1_1, p.V5])
def test_a_callback_that_fails_lets_nobody_in(version: int) -> None:
    """It may be the one that would have refused the client: a ban that cannot be looked up is a ban."""
    kernel = Kernel()
    point = kernel.broker.hooks.point(hooks.CLIENT_CONNECT)
    point.add(lambda *args: 1 / 0, priority=1)
    point.add(lambda *args: (hooks.STOP, rc.SUCCESS))
    peer = kernel.peer(version)
    peer.connect("c")
    assert peer.heard() == ["CONNACK 0x88"]
    assert peer.closed()
    assert len(kernel.hook_failures) == 1
    assert kernel.sessions.held("c") is None


# --- client.connack


def test_a_callback_changes_what_connack_tells() -> None:
    kernel = Kernel()

    def add(client: ClientInfo, code: int, told: Properties) -> None:
        told.user.append(("hello", client.clientid))
        told.numbers[props.RECEIVE_MAXIMUM] = 7

    kernel.broker.hooks.point(hooks.CLIENT_CONNACK).add(add)
    peer = kernel.peer()
    peer.connect("c")
    told = peer.take(p.Connack).properties.named()
    assert (told["User-Property"], told["Receive-Maximum"]) == ([("hello", "c")], 7)
    old = kernel.peer(p.V3_1_1)
    old.connect("old")
    assert bytes(old.wire.written) == b"\x20\x02\x00\x00"


def test_a_callback_gives_other_properties() -> None:
    kernel = Kernel()
    codes: list[int] = []

    def replace(client: ClientInfo, code: int, told: Properties) -> tuple[str, Properties]:
        codes.append(code)
        return hooks.OK, properties(server_reference="other")

    kernel.broker.hooks.point(hooks.CLIENT_CONNACK).add(replace)
    kernel.broker.hooks.point(hooks.CLIENT_AUTHENTICATE).add(lambda *args: (hooks.STOP, rc.SERVER_MOVED))
    peer = kernel.peer()
    peer.connect("c")
    connack = peer.take(p.Connack)
    assert (connack.code, connack.properties.named()) == (rc.SERVER_MOVED, {"Server-Reference": "other"})
    assert codes == [rc.SERVER_MOVED]


def test_what_a_callback_adds_does_not_make_connack_too_large() -> None:
    kernel = Kernel()
    kernel.broker.hooks.point(hooks.CLIENT_CONNACK).add(lambda client, code, told: told.user.append(("k", "v" * 500)))
    peer = kernel.peer()
    peer.connect("c", maximum_packet_size=100)
    assert "User-Property" not in peer.take(p.Connack).properties.named()


@cases(
    ("point", "heard"),
    [
        (hooks.CLIENT_CONNECT, []),
        (hooks.CLIENT_AUTHENTICATE, []),
        (hooks.CLIENT_CONNACK, []),
        (hooks.SESSION_CREATED, []),
        (hooks.CLIENT_CONNECTED, ["CONNACK 0x00", "DISCONNECT 0x98"]),
    ],
)
def test_a_callback_may_end_the_client_that_it_hears_of(point: str, heard: list[str]) -> None:
    kernel = Kernel()
    kernel.broker.hooks.point(point).add(lambda *args: kernel.context.channels.shut_down(rc.ADMINISTRATIVE_ACTION))
    peer = kernel.peer()
    peer.connect("c", will=p.Will("w", b"gone", 0, False, properties()), session_expiry_interval=60)
    assert peer.closed()
    assert peer.heard() == heard
    session = kernel.sessions.find("c")
    assert session is None or not session.attached
    kernel.advance(61)
    assert kernel.sessions.statistics() == {"sessions.count": 0, "sessions.away": 0}
    assert kernel.context.channels.statistics() == {"connections.open": 0, "live_connections.count": 0}


@cases("point", [hooks.CLIENT_CONNACK, hooks.CLIENT_CONNECTED, hooks.SESSION_RESUMED])
@cases("qos", [0, 1, 2])
def test_messages_of_a_callback_come_behind_connack_and_behind_what_is_sent_again(point: str, qos: int) -> None:
    kernel = Kernel()
    sub = kernel.connect("sub", session_expiry_interval=60)
    sub.subscribe("t", 2)
    pub = kernel.connect("pub")
    pub.publish("t", b"one", 1)
    sub.drop()
    kernel.broker.hooks.point(point).add(lambda *args: pub.feed(publish("t", b"of a callback", qos, qos and 7).data))
    again = kernel.peer()
    again.connect("sub", clean_start=False)
    connack, *others = again.heard()
    assert connack == "CONNACK 0x00 present"
    new = f"PUBLISH t 'of a callback' q{qos}" + (" #2" if qos else "")
    assert sorted(others) == sorted(["PUBLISH t 'one' q1 #1 dup", new])
    if qos == 1:
        assert others[1] == new  # [MQTT-4.6.0-6]


# --- delivery.completed


def test_a_delivery_is_completed_by_its_last_acknowledgement() -> None:
    kernel = Kernel()
    done: list[str] = []
    for name in (hooks.DELIVERY_COMPLETED, hooks.MESSAGE_ACKED):
        kernel.broker.hooks.point(name).add(
            lambda clientid, message, _, name=name: done.append(f"{name} {clientid} {message.payload.decode()}")
        )
    sub, pub = kernel.connect("sub"), kernel.connect("pub")
    sub.subscribe("t", 2)
    for qos in (0, 1, 2, 2):
        pub.publish("t", b"q%d" % qos, qos)
    assert done == []
    sub.ack(p.PUBACK, 1)
    assert done == ["message.acked sub q1", "delivery.completed sub q1"]
    sub.ack(p.PUBREC, 2)
    assert len(done) == 2
    sub.ack(p.PUBCOMP, 2)
    assert done[2:] == ["message.acked sub q2", "delivery.completed sub q2"]


# --- on a client's behalf


@cases("version", VERSIONS)
def test_a_client_is_subscribed_and_unsubscribed_by_others(version: int) -> None:
    kernel = Kernel()
    kernel.connect("pub").publish("kept", b"x", retain=True)
    peer = kernel.connect(version=version)
    channel = kernel.context.channels.find("c")
    assert channel is not None
    assert channel.subscribe([entry("t", 1), entry("+a"), entry("kept")]) == [1, rc.TOPIC_FILTER_INVALID, 0]
    kernel.run()
    assert peer.heard() == ["PUBLISH kept 'x' q0 retain"]  # and no SUBACK
    kernel.connect("other").publish("t", b"x")
    assert peer.heard() == ["PUBLISH t 'x' q0"]
    assert channel.unsubscribe(["t", "never"]) == [rc.SUCCESS, rc.NO_SUBSCRIPTION_EXISTED]
    kernel.connect("other").publish("t", b"x")
    assert peer.heard() == []


def test_what_is_done_on_its_behalf_keeps_to_limits_and_mountpoint_and_nobody_is_asked() -> None:
    kernel = Kernel(replace(CHANNEL, max_subscriptions=2, listener=replace(LISTENER, mountpoint="m/")))
    kernel.broker.hooks.point(hooks.CLIENT_AUTHORIZE).add(
        lambda client, action, topic, _: (hooks.STOP, "deny") if action.kind == "subscribe" else None
    )
    peer = kernel.connect()
    channel = kernel.context.channels.find("c")
    assert channel is not None
    assert channel.subscribe([entry("a"), entry("b"), entry("c")]) == [0, 0, rc.QUOTA_EXCEEDED]
    peer.publish("a", b"x")
    assert peer.heard() == ["PUBLISH a 'x' q0"]


def test_subscribing_when_a_client_has_connected() -> None:
    kernel = Kernel(session_options=replace(SESSION, max_inflight=1))
    kernel.connect("pub").publish("kept", b"x", 1, retain=True)

    def subscribe(client: ClientInfo, *args: object) -> None:
        channel = kernel.context.channels.find(client.clientid)
        assert channel is not None
        assert channel.subscribe([entry(f"of/{client.clientid}", 1), entry("kept", 1)]) == [1, 1]

    kernel.broker.hooks.point(hooks.CLIENT_CONNECTED).add(subscribe)
    for number in range(2):
        peer = kernel.peer()
        peer.connect("c", clean_start=False, session_expiry_interval=60)
        present = " present" if number else ""
        again = " dup" if number else " retain"
        heard = peer.heard()
        assert heard[0] == "CONNACK 0x00" + present
        assert heard[1].startswith("PUBLISH kept 'x' q1 #1" + again)
        assert len(heard) == 2
        peer.publish("of/c", b"x", 0)
        assert peer.heard() == ["PUBLISH of/c 'x' q0"]
        peer.drop()


def test_nothing_is_done_on_behalf_of_who_is_gone() -> None:
    kernel = Kernel()
    peer = kernel.connect(session_expiry_interval=60)
    channel = kernel.context.channels.find("c")
    assert channel is not None
    peer.drop()
    assert kernel.context.channels.find("c") is None
    assert channel.subscribe([entry("t")]) == []
    assert channel.unsubscribe(["t"]) == []
    assert kernel.broker.statistics()["subscriptions.count"] == 0


# --- client.subscribe and client.unsubscribe


@cases("code", [0x01, 0x02, 0x10, 0x82, 0x86, 0xFF, 999, -1])
def test_a_code_that_suback_does_not_have(code: int) -> None:
    kernel = Kernel()

    def refuse(client: ClientInfo, sent: Properties, entries: list[p.SubscribeEntry]) -> None:
        entries[0].code = code

    kernel.broker.hooks.point(hooks.CLIENT_SUBSCRIBE).add(refuse)
    peer = kernel.connect()
    assert peer.subscribe("t", 1) == [rc.UNSPECIFIED_ERROR]
    peer.publish("t")
    assert peer.heard() == []


def test_a_callback_that_shortens_the_list_it_gets_shortens_no_answer() -> None:
    kernel = Kernel()
    for name in (hooks.CLIENT_SUBSCRIBE, hooks.CLIENT_UNSUBSCRIBE):
        kernel.broker.hooks.point(name).add(lambda client, sent, listed: listed.clear())
    peer = kernel.connect()
    assert peer.subscribe("t", 1) == [1]
    assert peer.unsubscribe("t", "u") == [rc.SUCCESS, rc.NO_SUBSCRIPTION_EXISTED]


def test_another_filter_does_not_allow_what_was_denied() -> None:
    kernel = Kernel()
    kernel.broker.hooks.point(hooks.CLIENT_AUTHORIZE).add(
        lambda client, action, topic, _: (hooks.STOP, "deny") if topic == "no" else None
    )
    kernel.broker.hooks.point(hooks.CLIENT_SUBSCRIBE).add(lambda client, sent, entries: (hooks.OK, [entry("yes")]))
    assert kernel.connect().subscribe("no") == [rc.NOT_AUTHORIZED]
    assert kernel.connect().subscribe("other") == [0]
    assert kernel.broker.statistics()["subscriptions.count"] == 1


def test_callbacks_see_the_properties_of_the_packet() -> None:
    kernel = Kernel()
    seen: list[dict[str, object]] = []
    for name in (hooks.CLIENT_SUBSCRIBE, hooks.CLIENT_UNSUBSCRIBE):
        kernel.broker.hooks.point(name).add(lambda client, sent, listed: seen.append(sent.named()))
    peer: Peer = kernel.connect()
    peer.subscribe("t", user_property=[("k", "v")], subscription_identifier=[3])
    peer.send(p.Unsubscribe(2, ["t"], properties(user_property=[("k", "w")])))
    assert seen == [{"Subscription-Identifier": [3], "User-Property": [("k", "v")]}, {"User-Property": [("k", "w")]}]
