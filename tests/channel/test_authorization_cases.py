"""What is asked about what a client does, when, and what follows: the table of EMQX's authorization, row by row."""

from dataclasses import replace

from heliograph.broker import hooks
from heliograph.broker.actions import DENIED_BY_DEFAULT, Action, Decision
from heliograph.broker.client import ClientInfo
from heliograph.broker.node_rights import Authority
from heliograph.channel.options import ChannelOptions
from heliograph.mqtt import packets as p
from support.cases import cases
from support.kernel import Kernel, Peer
from support.options import CHANNEL
from support.packets import properties

VERSIONS = [p.V3_1, p.V3_1_1, p.V5]
DISCONNECTS = replace(CHANNEL, authz_disconnects=True)
ALLOWED, DENIED = Decision(True, "file"), Decision(False, "file")


class Source:
    """Denies the topics in `denied`, keeps what it was asked, and what was told."""

    def __init__(self, kernel: Kernel, *denied: str) -> None:
        self.denied = set(denied)
        self.asked: list[str] = []
        self.told: list[str] = []
        kernel.broker.hooks.client_authorize.add(self._decide)
        kernel.broker.hooks.client_check_authz_complete.add(self._note)

    def _decide(self, client: ClientInfo, action: Action, topic: str, _outcome: object) -> object:
        self.asked.append(_said(action, topic))
        return hooks.STOP, DENIED if topic in self.denied else ALLOWED

    def _note(self, client: ClientInfo, action: Action, topic: str, decision: Decision, _accumulator: None) -> None:
        self.told.append(f"{_said(action, topic)}: {decision.result} by {decision.source}")


def _said(action: Action, topic: str) -> str:
    return f"{action.kind} {topic} {action.qos}{' retained' if action.retain else ''}"


def world(*denied: str, options: ChannelOptions | None = None) -> tuple[Kernel, Source]:
    kernel = Kernel(options)
    return kernel, Source(kernel, *denied)


def entry(topic_filter: str, qos: int = 0) -> p.SubscribeEntry:
    return p.SubscribeEntry(topic_filter, qos, False, False, 0)


def ended(peer: Peer) -> bool:
    """Whether it was disconnected as one that is not authorized."""
    return peer.closed() and peer.heard() == (["DISCONNECT 0x87"] if peer.version == p.V5 else [])


# --- PUBLISH


def test_qos_and_retain_flag_are_part_of_what_is_asked_and_remembered() -> None:
    kernel, source = world()
    peer = kernel.connect()
    for _ in range(2):
        for qos in (0, 1):
            for retain in (False, True):
                peer.publish("t", b"x", qos, retain=retain)
    assert source.asked == ["publish t 0", "publish t 0 retained", "publish t 1", "publish t 1 retained"]
    assert source.told[4:] == [f"{asked}: allow by cache" for asked in source.asked]


def test_the_last_topic_is_told_as_remembered_too() -> None:
    kernel, source = world("no")
    peer = kernel.connect()
    for topic in ("a", "a", "a", "no", "no"):
        peer.publish(topic)
    assert source.told == [
        "publish a 0: allow by file",
        "publish a 0: allow by cache",
        "publish a 0: allow by cache",
        "publish no 0: deny by file",
        "publish no 0: deny by cache",
    ]
    counts = kernel.broker.counters.snapshot()
    names = ("allow", "deny", "matched_allow", "matched_deny", "nomatch", "superuser", "cache_hit", "cache_miss")
    assert [counts[f"authorization.{name}"] for name in names] == [3, 2, 1, 1, 0, 0, 3, 2]


def test_what_nothing_decides_is_counted_and_remembered() -> None:
    kernel = Kernel()
    kernel.broker.rights.set_no_match(DENIED_BY_DEFAULT)
    peer = kernel.connect()
    peer.publish("t", b"", 1, 1)
    peer.publish("t", b"", 1, 2)
    assert peer.heard() == ["PUBACK #1 0x87", "PUBACK #2 0x87"]
    counts = kernel.broker.counters.snapshot()
    assert [counts[f"authorization.{name}"] for name in ("nomatch", "deny", "cache_hit")] == [1, 2, 1]


@cases("version", VERSIONS)
@cases(
    ("options", "qos", "retain"),
    [(replace(CHANNEL, max_qos_allowed=0), 1, False), (replace(CHANNEL, retain_available=False), 1, True)],
)
def test_a_denied_publish_is_denied_before_its_qos_and_retain_flag_count(
    version: int, options: ChannelOptions, qos: int, retain: bool
) -> None:
    kernel, source = world("no", options=options)
    peer = kernel.connect(version=version)
    peer.publish("no", b"", qos, 1, retain=retain)
    assert peer.heard() == ["PUBACK #1 0x87" if version == p.V5 else "PUBACK #1"]
    peer.publish("yes", b"", qos, 2, retain=retain)
    assert peer.closed()
    assert len(source.asked) == 2


@cases("version", VERSIONS)
@cases("qos", [0, 1, 2])
def test_a_denied_publish_may_end_the_connection(version: int, qos: int) -> None:
    kernel, _ = world("no", options=DISCONNECTS)
    peer = kernel.connect(version=version)
    peer.publish("no", b"", qos, 1)
    assert ended(peer)


@cases(
    ("topic", "asked"),
    [
        ("$delayed/5/t", "publish t 0"),
        ("$delayed/abc/a/b", "publish a/b 0"),
        ("$delayed/5/$delayed/6/t", "publish t 0"),
        ("$delayed/5//t", "publish /t 0"),
        ("$delayed/5", None),
        ("$delayed/5/", None),
        ("$delayed/5/$delayed/6", None),
    ],
)
def test_a_delayed_message_is_about_its_topic_and_denied_without_one(topic: str, asked: str | None) -> None:
    kernel, source = world()
    peer = kernel.connect()
    peer.publish(topic)
    if asked is None:
        assert source.asked == []
        assert source.told == [f"publish {topic} 0: deny by default"]
        assert kernel.broker.counters.messages_not_authorized == 1
    else:
        assert source.asked == [asked]
        peer.publish(topic)
        assert source.told[1] == f"{asked}: allow by cache"


def test_a_topic_alias_is_resolved_before_the_question() -> None:
    kernel, source = world("no")
    peer = kernel.connect()
    peer.publish("no", b"", 1, 1, topic_alias=3)
    peer.publish("", b"", 1, 2, topic_alias=3)
    assert peer.heard() == ["PUBACK #1 0x87", "PUBACK #2 0x87"]
    assert source.asked == ["publish no 1"]


def test_a_superuser_is_not_asked_about_and_that_is_told() -> None:
    kernel, source = world("t")
    peer = kernel.connect()
    client = kernel.context.channels.find_client("c")
    assert client is not None
    client.is_superuser = True
    peer.publish("t")
    peer.publish("t")
    assert peer.subscribe("t", 1) == [1]
    assert source.asked == []
    assert source.told == [
        "publish t 0: allow by superuser", "publish t 0: allow by cache", "subscribe t 1: allow by superuser"
    ]  # fmt: skip
    assert kernel.broker.counters.snapshot()["authorization.superuser"] == 2


def test_topics_that_are_excluded_are_asked_about_each_time() -> None:
    kernel, source = world("x/no", options=replace(CHANNEL, authz_cache_excludes=("x/#",)))
    peer = kernel.connect()
    for topic in ("x/a", "x/a", "x/no", "x/no", "y", "y"):
        peer.publish(topic)
    assert source.asked == ["publish x/a 0"] * 2 + ["publish x/no 0"] * 2 + ["publish y 0"]


# --- SUBSCRIBE


@cases("version", VERSIONS)
def test_each_filter_is_asked_about_by_itself_with_the_qos_that_it_wants(version: int) -> None:
    kernel, source = world("b", options=replace(CHANNEL, max_qos_allowed=1, exclusive_subscription=True))
    peer = kernel.connect(version=version)
    names = ["a/#", "b", "$share/g/c", "$queue/d", "$exclusive/e"]
    peer.send(p.Subscribe(1, [entry(name, 2) for name in names], properties()))
    assert source.asked == [f"subscribe {topic} 2" for topic in ("a/#", "b", "c", "d", "e")]
    denied = 0x87 if version == p.V5 else 0x80
    assert peer.wire.written[-5:] == bytes([1, denied, 1, 1, 1])


@cases("version", VERSIONS)
def test_a_denied_filter_may_end_the_connection_and_then_nothing_is_subscribed(version: int) -> None:
    kernel, _ = world("no", options=DISCONNECTS)
    subscribed: list[object] = []
    kernel.broker.hooks.session_subscribed.add(lambda *told: subscribed.append(told))
    peer = kernel.connect(version=version)
    peer.send(p.Subscribe(1, [entry("a"), entry("no"), entry("b")], properties()))
    assert ended(peer)
    assert subscribed == []
    assert kernel.broker.statistics()["subscriptions.count"] == 0


def test_unsubscribing_and_what_is_delivered_need_no_right() -> None:
    kernel, source = world()
    peer, other = kernel.connect(), kernel.connect("other")
    kernel.broker.rights.check_deliveries(False)
    other.publish("a/b", b"kept", 1, 1, retain=True)
    source.asked.clear()
    peer.send_subscribe(entry("a/+"))
    other.publish("a/c", b"x")
    assert [type(packet) for packet in peer.received()] == [p.Suback, p.Publish, p.Publish]
    assert peer.unsubscribe("a/+") == [0]
    assert [asked for asked in source.asked if not asked.startswith("publish")] == ["subscribe a/+ 0"]


# --- wills


@cases("is_denied", [False, True])
def test_a_will_is_asked_about_with_its_qos_and_retain_flag_when_it_is_published(is_denied: bool) -> None:
    kernel, source = world()
    witness = kernel.connect("witness")
    witness.subscribe("w")
    source.asked.clear()
    peer = kernel.connect(will=p.Will("w", b"gone", 1, True, properties()))
    assert source.asked == []
    if is_denied:
        source.denied.add("w")
    peer.drop()
    assert source.asked == ["publish w 1 retained"]
    assert len(witness.received()) == (0 if is_denied else 1)


# --- the node's own authorization, whose decisions hold until it says so


class OwnSource(Authority):
    """The node's own authorization: denies the topics in `denied`, and counts what it decides."""

    def __init__(self, *denied: str) -> None:
        super().__init__()
        self.denied = set(denied)
        self.asked: list[str] = []

    def decide(self, client: ClientInfo, action: Action, topic: str) -> Decision | None:
        self.asked.append(topic)
        return DENIED if topic in self.denied else ALLOWED

    def on_authorize(self, client: ClientInfo, action: Action, topic: str, outcome: object) -> object:
        return hooks.STOP, self.decide(client, action, topic)


def test_the_last_topic_is_not_asked_about_again_where_decisions_last_even_if_none_is_remembered() -> None:
    kernel = Kernel(replace(CHANNEL, authz_cache_size=0))
    own, told = OwnSource(), []
    kernel.broker.rights.set_authority(own)
    kernel.broker.hooks.client_check_authz_complete.add(lambda *args: told.append(f"{args[2]} {args[3].source}"))
    peer, witness = kernel.connect(), kernel.connect("witness")
    witness.subscribe("a")
    own.asked.clear()
    told.clear()
    for topic in ("a", "a", "b", "b", "a"):
        peer.publish(topic)
    assert own.asked == ["a", "b", "a"]
    assert told == ["a file", "a file", "b file", "b file", "a file"]
    counts = kernel.broker.counters.snapshot()
    assert [counts[f"authorization.{name}"] for name in ("allow", "matched_allow", "cache_hit")] == [6, 6, 0]
    own.denied.add("a")
    kernel.broker.rights.drop_cached()
    witness.received()
    peer.publish("a")
    assert witness.heard() == []


@cases("why", ["unseen", "plugin", "acl"])
def test_each_publish_is_asked_about_where_decisions_do_not_last(why: str) -> None:
    kernel = Kernel(replace(CHANNEL, authz_cache_size=0))
    own = OwnSource()
    own.may_change_unseen = why == "unseen"
    kernel.broker.rights.set_authority(own)
    if why == "plugin":
        kernel.broker.hooks.client_authorize.add(lambda *_: None)
    peer = kernel.connect()
    client = kernel.context.channels.find_client("c")
    assert client is not None
    client.acl = why if why == "acl" else None
    peer.publish("a")
    peer.publish("a")
    assert own.asked == ["a", "a"]
