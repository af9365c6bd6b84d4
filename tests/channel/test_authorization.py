"""What clients may publish, subscribe to and get, and how they are told that they may not."""

from collections.abc import Callable
from dataclasses import replace

from heliograph.broker import hooks
from heliograph.broker.actions import Action
from heliograph.broker.client import ClientInfo
from heliograph.channel.options import ChannelOptions
from heliograph.mqtt import packets as p
from heliograph.mqtt import reason_codes as rc
from heliograph.mqtt.topic import topic_matches
from support.cases import cases
from support.kernel import Kernel, Peer
from support.options import CHANNEL, SESSION
from support.packets import properties, publish

VERSIONS = [p.V3_1, p.V3_1_1, p.V5]


class Rules:
    """An authorizer that denies the topics and filters in `denied`, and counts what it is asked."""

    def __init__(self, *denied: str) -> None:
        self.denied = set(denied)
        self.asked: list[str] = []

    def __call__(self, client: ClientInfo, action: Action, topic: str, verdict: object) -> tuple[str, str] | None:
        self.asked.append(f"{client.clientid} {action.kind} {topic}")
        return (hooks.STOP, "deny") if {topic, f"{action.kind} {topic}"} & self.denied else None


def kernel_with(rules: Callable[..., object], options: ChannelOptions | None = None) -> Kernel:
    kernel = Kernel(options)
    kernel.broker.hooks.point(hooks.CLIENT_AUTHORIZE).add(rules)
    return kernel


def payloads(peer: Peer) -> list[bytes]:
    return [packet.payload for packet in peer.received() if isinstance(packet, p.Publish)]


# --- PUBLISH


@cases("version", VERSIONS)
def test_a_publish_that_is_denied_goes_nowhere_and_the_conversation_goes_on(version: int) -> None:
    kernel = kernel_with(Rules("publish no"))
    sub, pub = kernel.connect("sub"), kernel.connect("pub", version=version)
    sub.subscribe("#", 2)
    dropped: list[object] = []
    kernel.broker.hooks.point(hooks.MESSAGE_DROPPED).add(lambda message, why, _: dropped.append((message.topic, why)))
    for qos in (0, 1, 2):
        pub.publish("no", b"x", qos, qos, retain=True)
    denied = " 0x87" if version == p.V5 else ""  # MQTT 3 has no refusal 3.1.1 [MQTT-3.3.5-2]
    assert pub.heard() == [f"PUBACK #1{denied}", f"PUBREC #2{denied}"]
    pub.publish("yes", b"y", 1, 3)
    assert pub.heard() == ["PUBACK #3"]
    assert payloads(sub) == [b"y"]
    assert sub.subscribe("no", 2) == [2]  # nothing was retained
    counters = kernel.broker.counters.snapshot()
    assert counters["packets.publish.auth_error"] == 3
    assert dropped == [("no", "not_authorized")] * 3


def test_behind_a_refusal_the_identifier_of_qos_2_is_free() -> None:
    rules = Rules("publish no")
    kernel = kernel_with(rules)
    pub = kernel.connect("pub")
    pub.publish("no", b"x", 2, 7)
    pub.publish("yes", b"x", 2, 7)
    pub.ack(p.PUBREL, 7)
    assert pub.heard() == ["PUBREC #7 0x87", "PUBREC #7 0x10", "PUBCOMP #7"]


def test_a_denied_publish_of_mqtt_3_at_qos_2_ends_its_flow() -> None:
    kernel = kernel_with(Rules("publish no"))
    pub = kernel.connect("pub", version=p.V3_1_1)
    pub.publish("no", b"x", 2, 7)
    pub.ack(p.PUBREL, 7)
    assert pub.heard() == ["PUBREC #7", "PUBCOMP #7"]


@cases(("version", "said"), [(p.V5, ["DISCONNECT 0x87"]), (p.V3_1_1, [])])
@cases("qos", [0, 1, 2])
def test_an_operator_may_want_who_is_denied_disconnected(version: int, said: list[str], qos: int) -> None:
    kernel = kernel_with(Rules("no"), replace(CHANNEL, authz_disconnects=True))
    pub, sub = kernel.connect("pub", version=version), kernel.connect("sub", version=version)
    pub.publish("no", b"x", qos, qos)
    assert pub.heard() == said
    assert pub.closed()
    sub.send_subscribe(p.SubscribeEntry("yes", 0, False, False, 0), p.SubscribeEntry("no", 0, False, False, 0))
    assert sub.heard() == said
    assert sub.closed()


def test_an_alias_does_not_hide_a_topic() -> None:
    kernel = kernel_with(Rules("publish no"))
    pub = kernel.connect("pub")
    pub.publish("no", b"", 1, 1, topic_alias=1)
    pub.publish("", b"", 1, 2, topic_alias=1)
    assert pub.heard() == ["PUBACK #1 0x87", "PUBACK #2 0x87"]


def test_acknowledgements_of_what_is_denied_keep_their_order() -> None:
    kernel = Kernel(stored=["s"])
    kernel.broker.hooks.point(hooks.CLIENT_AUTHORIZE).add(Rules("no"))
    pub = kernel.connect("pub")
    pub.send(publish("s", b"", 1, 1), publish("no", b"", 1, 2))
    assert pub.heard() == []
    kernel.commit()
    assert pub.heard() == ["PUBACK #1", "PUBACK #2 0x87"]  # [MQTT-4.6.0-2]


# --- SUBSCRIBE


@cases("version", VERSIONS)
def test_each_filter_is_decided_by_itself(version: int) -> None:
    kernel = kernel_with(Rules("subscribe b/#", "subscribe b"))
    sub = kernel.connect("sub", version=version)
    sub.send_subscribe(
        *[p.SubscribeEntry(topic_filter, 1, False, False, 0) for topic_filter in ("a", "b/#", "c", "$share/g/b")]
    )
    denied = rc.NOT_AUTHORIZED if version == p.V5 else rc.UNSPECIFIED_ERROR
    suback = sub.take(p.Suback)
    assert suback.codes == [1, denied, 1, denied]
    reason = {"Reason-String": "'b/#' is refused: not_authorized"}
    assert suback.properties.named() == (reason if version == p.V5 else {})
    assert kernel.broker.statistics()["subscriptions.count"] == 2
    assert kernel.broker.counters.snapshot()["packets.subscribe.auth_error"] == 2


# --- what a wildcard matches


def receivers(kernel: Kernel, version: int = p.V5) -> dict[str, Peer]:
    """Clients that get a denied topic in every way there is but by its name."""
    peers = {}
    for clientid, topic_filter in (("live", "d/#"), ("shared", "$share/g/d/+"), ("window", "d/+"), ("away", "+/+")):
        if version == p.V5:
            peers[clientid] = kernel.connect(clientid, session_expiry_interval=60, receive_maximum=1)
        else:
            peers[clientid] = kernel.connect(clientid, version=version, clean_start=False)
        assert peers[clientid].subscribe(topic_filter, 1) == [1]
    return peers


@cases("version", VERSIONS)
def test_a_wildcard_over_a_denied_topic_gets_all_but_that(version: int) -> None:
    kernel = kernel_with(Rules("subscribe d/no"))
    peers = receivers(kernel, version)
    peers["away"].drop()
    dropped: list[str] = []
    kernel.broker.hooks.point(hooks.DELIVERY_DROPPED).add(
        lambda clientid, message, why, _: dropped.append(f"{clientid} {message.topic} {why}")
    )
    pub = kernel.connect("pub")
    for number, topic in enumerate(("d/no", "d/yes", "d/no", "d/yes")):
        pub.publish(topic, b"%d" % number, number % 2)
    late = kernel.connect("late", version=version)
    kernel.connect("other").publish("d/no", b"kept", retain=True)
    kernel.connect("another").publish("d/yes", b"kept", retain=True)
    late.send_subscribe(p.SubscribeEntry("d/#", 1, False, False, 0))
    assert payloads(late) == [b"kept"]
    again = kernel.peer(version)
    again.connect("away", clean_start=False)
    for peer in [*peers.values(), again]:
        for packet in list(peer.received()):
            assert not isinstance(packet, p.Publish) or packet.topic == b"d/yes"
    assert {line for line in dropped if line.startswith(("live", "window", "away", "late"))} == {
        f"{clientid} d/no not_authorized" for clientid in ("live", "window", "away", "late")
    }
    assert kernel.broker.counters.snapshot()["delivery.dropped.not_authorized"] == len(dropped)


def test_a_shared_message_goes_to_a_member_that_may_have_it() -> None:
    kernel = Kernel()

    def only_two(client: ClientInfo, action: Action, topic: str, verdict: object) -> tuple[str, str] | None:
        return (hooks.STOP, "deny") if topic == "d/x" and client.clientid == "one" else None

    kernel.broker.hooks.point(hooks.CLIENT_AUTHORIZE).add(only_two)
    one, two, pub = kernel.connect("one"), kernel.connect("two"), kernel.connect("pub")
    for member in (one, two):
        assert member.subscribe("$share/g/d/+", 1) == [1]
    for number in range(6):
        pub.publish("d/x", b"%d" % number, 1)
    assert payloads(one) == []
    assert payloads(two) == [b"%d" % number for number in range(6)]


def test_who_subscribes_to_a_topic_by_its_name_was_asked_about_it() -> None:
    rules = Rules()
    kernel = kernel_with(rules)
    sub, pub = kernel.connect("sub"), kernel.connect("pub")
    sub.subscribe("d/x")
    for _ in range(5):
        pub.publish("d/x", b"x")
    assert payloads(sub) == [b"x"] * 5
    assert rules.asked == ["sub subscribe d/x", "pub publish d/x"]


# --- what is remembered


def test_a_decision_is_remembered_for_a_while() -> None:
    rules = Rules("publish no")
    kernel = kernel_with(rules, replace(CHANNEL, authz_cache_ttl_us=60_000_000))
    pub = kernel.connect("pub")
    for _ in range(3):
        pub.publish("no", b"", 1)
        pub.publish("yes", b"", 1)
        kernel.advance(15)
    assert rules.asked == ["pub publish no", "pub publish yes"]
    pub.skip()
    rules.denied = {"publish yes"}
    pub.publish("yes", b"", 1, 8)
    assert pub.heard() == ["PUBACK #8 0x10"]
    kernel.advance(16)
    pub.publish("yes", b"", 1, 9)
    pub.publish("no", b"", 1, 10)
    assert pub.heard() == ["PUBACK #9 0x87", "PUBACK #10 0x10"]


def test_publishing_and_subscribing_are_remembered_apart() -> None:
    kernel = kernel_with(Rules("publish t"))
    peer = kernel.connect()
    for _ in range(2):
        peer.publish("t", b"", 1, 1)
        assert peer.heard() == ["PUBACK #1 0x87"]
        assert peer.subscribe("t") == [0]


def test_the_connection_remembers_no_more_than_the_operator_allows() -> None:
    rules = Rules()
    kernel = kernel_with(rules, replace(CHANNEL, authz_cache_size=2))
    pub = kernel.connect("pub")
    for topic in ("a", "b", "a", "b", "c", "b", "a"):
        pub.publish(topic)
    assert rules.asked == [f"pub publish {topic}" for topic in ("a", "b", "c", "a")]


@cases("options", [replace(CHANNEL, authz_cache_size=0), replace(CHANNEL, authz_cache_ttl_us=0)])
def test_a_connection_that_remembers_nothing(options: ChannelOptions) -> None:
    rules = Rules()
    pub = kernel_with(rules, options).connect("pub")
    for _ in range(3):
        pub.publish("a")
    assert rules.asked == ["pub publish a"] * 3


def test_a_new_connection_is_decided_anew() -> None:
    rules = Rules()
    kernel = kernel_with(rules)
    sub = kernel.connect("sub", session_expiry_interval=60)
    sub.subscribe("d/#", 1)
    kernel.connect("pub").publish("d/x", b"1")
    assert payloads(sub) == [b"1"]
    rules.denied = {"subscribe d/x"}
    sub.drop()
    again = kernel.peer()
    again.connect("sub", clean_start=False)
    kernel.connect("other").publish("d/x", b"2")
    assert payloads(again) == []


def test_every_decision_that_was_made_is_told() -> None:
    told: list[str] = []
    kernel = kernel_with(Rules("subscribe no"))
    kernel.broker.hooks.point(hooks.CLIENT_CHECK_AUTHZ_COMPLETE).add(
        lambda client, action, topic, verdict, _: told.append(
            f"{client.clientid} {action.kind} {topic} {verdict.result} {verdict.source}"
        )
    )
    peer = kernel.connect()
    peer.subscribe("no")
    peer.subscribe("yes")
    peer.publish("yes")
    peer.publish("yes")
    assert told == [
        "c subscribe no deny plugin",
        "c subscribe yes allow default",
        "c publish yes allow default",
        "c publish yes allow cache",
    ]


# --- who is not asked, and what does not answer


def test_a_superuser_may_do_everything() -> None:
    rules = Rules("no", "d/no")
    kernel = kernel_with(rules)

    def promote(client: ClientInfo, attempt: object, outcome: object) -> None:
        client.is_superuser = client.clientid == "root"

    kernel.broker.hooks.point(hooks.CLIENT_AUTHENTICATE).add(promote)
    root, other = kernel.connect("root"), kernel.connect("other")
    assert root.subscribe("no") == [0]
    assert root.subscribe("d/#", 1) == [1]
    root.publish("no", b"x", 1, 1)
    assert root.heard() == ["PUBLISH no 'x' q0", "PUBACK #1"]
    assert other.subscribe("no") == [rc.NOT_AUTHORIZED]
    root.publish("d/no", b"y")
    assert payloads(root) == [b"y"]
    assert [line for line in rules.asked if line.startswith("root")] == []


def test_an_authorizer_that_fails_denies() -> None:
    kernel = kernel_with(lambda *args: 1 / 0)
    peer = kernel.connect()
    assert peer.subscribe("t") == [rc.NOT_AUTHORIZED]
    peer.publish("t", b"", 1, 1)
    assert peer.heard() == ["PUBACK #1 0x87"]
    assert len(kernel.hook_failures) == 2


@cases("verdict", ["allowed", None, True, 1])
def test_an_answer_that_is_not_allow_denies(verdict: object) -> None:
    kernel = kernel_with(lambda *args: (hooks.STOP, verdict))
    assert kernel.connect().subscribe("t") == [rc.NOT_AUTHORIZED]


def test_an_earlier_callback_that_stops_the_chain_decides() -> None:
    kernel = kernel_with(Rules("t"))
    kernel.broker.hooks.point(hooks.CLIENT_AUTHORIZE).add(lambda *args: (hooks.STOP, "allow"), 1)
    assert kernel.connect().subscribe("t") == [0]


# --- wills, retained messages and what was queued


@cases("delay_s", [0, 30])
def test_a_will_is_decided_when_it_is_published(delay_s: int) -> None:
    rules = Rules()
    kernel = kernel_with(rules)
    watcher = kernel.connect("watcher")
    watcher.subscribe("w", 1)
    will = p.Will("w", b"gone", 1, True, properties(will_delay_interval=delay_s))
    peer = kernel.connect("c", will=will, session_expiry_interval=60)
    peer.publish("w", b"alive")  # allowed, and remembered
    assert payloads(watcher) == [b"alive"]
    rules.denied = {"publish w"}
    peer.drop()
    kernel.advance(31)
    assert watcher.heard() == []
    assert kernel.broker.counters.snapshot()["packets.publish.auth_error"] == 1
    late = kernel.connect("late")
    assert late.subscribe("w") == [0]  # nor was it retained


def test_what_was_retained_by_somebody_who_was_denied_since() -> None:
    rules = Rules()
    kernel = kernel_with(rules)
    kernel.connect("pub").publish("t", b"kept", retain=True)
    rules.denied = {"publish t"}
    kernel.broker.checks_retained_source = True
    assert kernel.connect("early").subscribe("t") == [0]
    kernel.broker.checks_retained_source = False
    late = kernel.connect("late")
    late.send_subscribe(p.SubscribeEntry("t", 0, False, False, 0))
    assert late.heard() == ["SUBACK #1 [0x00]", "PUBLISH t 'kept' q0 retain"]


def test_a_denied_message_takes_no_place_in_a_full_queue() -> None:
    kernel = Kernel(session_options=replace(SESSION, max_mqueue_len=2))
    kernel.broker.hooks.point(hooks.CLIENT_AUTHORIZE).add(
        lambda client, action, topic, _: (hooks.STOP, "deny") if topic_matches(topic, "d/no/+") else None
    )
    sub = kernel.connect("sub", session_expiry_interval=60)
    sub.subscribe("d/#", 1)
    sub.drop()
    pub = kernel.connect("pub")
    for number in range(20):
        pub.publish("d/yes" if number < 2 else f"d/no/{number}", b"%d" % number, 1)
    again = kernel.peer()
    again.connect("sub", clean_start=False)
    assert payloads(again) == [b"0", b"1"]
