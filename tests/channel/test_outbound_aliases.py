"""Topic aliases towards clients: who gets them, for which topics, and what they stand for."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from heliograph.channel.options import ChannelOptions
from heliograph.mqtt import packets as p
from heliograph.session.mqtt_encoder import OutboundAliases
from support.cases import cases
from support.kernel import Kernel, Peer
from support.options import CHANNEL, LISTENER, SESSION
from support.packets import properties, properties_of
from support.reach import count


class Reader:
    """A client that remembers what aliases stand for, as the specification wants it to."""

    def __init__(self, peer: Peer, alias_max: int) -> None:
        self.peer = peer
        self.alias_max = alias_max
        self.topics: dict[int, bytes] = {}
        self.unacknowledged: list[int] = []

    def read(self) -> list[tuple[str, int | None, bool]]:
        """What came: the topic, its alias, and whether the topic itself was there."""
        found = []
        for packet in self.peer.received():
            if isinstance(packet, p.Connack):
                continue
            assert isinstance(packet, p.Publish)
            alias = properties_of(packet).get("Topic-Alias")
            assert alias is None or isinstance(alias, int)
            if alias is not None:
                assert 1 <= alias <= self.alias_max  # [MQTT-3.1.2-26] [MQTT-3.3.2-11]
                if packet.topic:
                    self.topics[alias] = packet.topic
            if packet.qos:
                self.unacknowledged.append(packet.packet_id)
            topic = packet.topic or self.topics[alias or 0]
            found.append((topic.decode(), alias, bool(packet.topic)))
        return found


def reader(kernel: Kernel, alias_max: int, qos: int = 0, options: ChannelOptions | None = None) -> Reader:
    peer = kernel.connect("sub", topic_alias_maximum=alias_max, session_expiry_interval=60, options=options)
    peer.subscribe("#", qos)
    return Reader(peer, alias_max)


@cases("qos", [0, 1, 2])
def test_a_topic_that_comes_again_gets_an_alias_and_is_then_left_out(qos: int) -> None:
    kernel = Kernel()
    sub, pub = reader(kernel, 5, qos), kernel.connect("pub")
    for _ in range(4):
        pub.publish("a/long/topic", b"x", qos)
        pub.publish("once", b"x", qos) if not sub.topics else None
    assert sub.read() == [
        ("a/long/topic", None, True),
        ("once", None, True),
        ("a/long/topic", 1, True),
        ("once", 2, True),
        ("a/long/topic", 1, False),
        ("once", 2, False),
        ("a/long/topic", 1, False),
        ("once", 2, False),
    ]


def test_clients_with_and_without_aliases_share_a_message() -> None:
    kernel = Kernel()
    pub = kernel.connect("pub")
    takers = [Reader(kernel.connect(f"t{number}", topic_alias_maximum=9), 9) for number in range(2)]
    plain = Reader(kernel.connect("plain"), 0)
    for one in (*takers, plain):
        for qos in (0, 1, 2):
            one.peer.subscribe(f"topic/{qos}", qos)
    for qos in (0, 1, 2):
        for number in range(3):
            pub.publish(f"topic/{qos}", b"%d" % number, qos, content_type="text" * 40 * (number % 2))
    for one in (*takers, plain):
        read = one.read()
        assert [topic for topic, _, _ in read] == [f"topic/{qos}" for qos in (0, 1, 2) for _ in range(3)]
        assert [has_topic for _, _, has_topic in read] == ([True] * 9 if one is plain else [True, True, False] * 3)


def test_a_client_that_takes_none_gets_none() -> None:
    kernel = Kernel()
    sub, old, pub = kernel.connect("sub"), kernel.connect("old", version=p.V3_1_1), kernel.connect("pub")
    for peer in (sub, old):
        peer.subscribe("t", 1)
    for _ in range(5):
        pub.publish("t", b"x")
    assert sub.heard() == old.heard() == ["PUBLISH t 'x' q0"] * 5


def test_an_operator_without_aliases() -> None:
    kernel = Kernel(replace(CHANNEL, server_topic_alias=0))
    sub, pub = reader(kernel, 5), kernel.connect("pub")
    for _ in range(5):
        pub.publish("t")
    assert sub.read() == [("t", None, True)] * 5


def test_a_busier_topic_takes_an_alias_over() -> None:
    kernel = Kernel()
    sub, pub = reader(kernel, 1), kernel.connect("pub")
    for _ in range(3):
        pub.publish("first")
    assert sub.read()[-1] == ("first", 1, False)
    for _ in range(7):
        pub.publish("busier")
    assert [entry for entry in sub.read() if entry[1]] == [("busier", 1, True)]
    pub.publish("first")
    pub.publish("busier")
    assert sub.read() == [("first", None, True), ("busier", 1, False)]


def test_other_properties_stand_beside_the_alias() -> None:
    kernel = Kernel()
    sub, pub = reader(kernel, 5, 1), kernel.connect("pub")
    for _ in range(3):
        pub.publish("t", b"x", 1, content_type="text", message_expiry_interval=9, topic_alias=3)
    packets = [packet for packet in sub.peer.received() if isinstance(packet, p.Publish)]
    told = {"Content-Type": "text", "Message-Expiry-Interval": 9}
    assert [properties_of(packet) for packet in packets] == [told, told | {"Topic-Alias": 1}, told | {"Topic-Alias": 1}]
    assert [packet.topic for packet in packets] == [b"t", b"t", b""]


def test_aliases_end_with_the_connection_and_what_is_sent_again_has_its_topic() -> None:
    kernel = Kernel()
    sub, pub = reader(kernel, 5, 1), kernel.connect("pub")
    for _ in range(3):
        pub.publish("t", b"x", 1)
    assert sub.read()[-1] == ("t", 1, False)
    sub.peer.drop()
    pub.publish("t", b"x", 1)
    again = Reader(kernel.peer(), 2)
    again.peer.connect("sub", clean_start=False, session_expiry_interval=60, topic_alias_maximum=2)
    # What is sent again teaches no alias: a client may pass over a repetition with all that it says.
    assert again.read() == [("t", None, True)] * 3 + [("t", 1, True)]
    third = kernel.peer()
    third.connect("sub", clean_start=False)  # and takes none now
    pub.publish("t", b"later", 0)
    packets = [packet for packet in third.received() if isinstance(packet, p.Publish)]
    assert len(packets) == 5  # four again
    assert all(packet.topic == b"t" and "Topic-Alias" not in properties_of(packet) for packet in packets)


def test_a_packet_that_would_be_too_large_with_its_alias_comes_without_it() -> None:
    kernel = Kernel()
    peer = kernel.connect("sub", topic_alias_maximum=5, maximum_packet_size=20)
    sub, pub = Reader(peer, 5), kernel.connect("pub")
    peer.subscribe("#")
    payload = b"x" * (20 - 2 - 3 - 1)
    for _ in range(3):
        pub.publish("t", payload)  # the second would bring the alias, and three bytes more
    pub.publish("t", b"")
    pub.publish("t", b"")
    assert sub.read() == [("t", None, True)] * 3 + [("t", 1, True), ("t", 1, False)]


def test_retained_messages_and_those_that_waited_have_aliases_too() -> None:
    kernel = Kernel(session_options=replace(SESSION, max_inflight=1))
    sub, pub = reader(kernel, 5, 1), kernel.connect("pub")
    for _ in range(3):
        pub.publish("t", b"x", 1)
    for packet_id in (1, 2, 3):
        sub.peer.ack(p.PUBACK, packet_id)
    assert sub.read() == [("t", None, True), ("t", 1, True), ("t", 1, False)]
    pub.publish("t", b"kept", 1, retain=True)
    sub.peer.ack(p.PUBACK, 4)
    assert sub.read() == [("t", 1, False)]
    sub.peer.send_subscribe(p.SubscribeEntry("t", 1, False, False, 0))
    suback, packet = sub.peer.received()
    assert isinstance(suback, p.Suback)
    assert isinstance(packet, p.Publish)
    assert (packet.topic, packet.retain) == (b"", True)


def test_the_topic_of_a_mountpoint_is_the_one_that_the_client_knows() -> None:
    kernel = Kernel()
    options = replace(CHANNEL, listener=replace(LISTENER, mountpoint="here/"))
    sub = reader(kernel, 5, options=options)
    pub = kernel.connect("pub", options=options)
    for _ in range(3):
        pub.publish("t")
    assert sub.read() == [("t", None, True), ("t", 1, True), ("t", 1, False)]


def test_a_will_may_be_the_one_that_teaches_it() -> None:
    kernel = Kernel()
    sub = reader(kernel, 5)
    for _ in range(3):
        kernel.connect("c", will=p.Will("w", b"gone", 0, False, properties())).drop()
    assert sub.read() == [("w", None, True), ("w", 1, True), ("w", 1, False)]


@given(
    alias_max=st.integers(1, 3),
    topics=st.lists(st.tuples(st.integers(0, 5), st.integers(0, 1)), min_size=20, max_size=120),
)
def test_every_topic_can_be_told_from_its_alias(alias_max: int, topics: list[tuple[int, int]]) -> None:
    kernel = Kernel(session_options=replace(SESSION, max_inflight=2, max_mqueue_len=0))
    sub, pub = reader(kernel, alias_max, 1), kernel.connect("pub")
    got: list[str] = []
    for number, qos in topics:
        pub.publish(f"t{number}", b"", qos)
        packets = sub.read()
        got += [topic for topic, _, _ in packets]
        while sub.unacknowledged:
            sub.peer.ack(p.PUBACK, sub.unacknowledged.pop(0))
        got += [topic for topic, _, _ in sub.read()]
    assert sorted(got) == sorted(f"t{number}" for number, _ in topics)


def test_what_a_client_makes_the_broker_remember_is_bounded() -> None:
    aliases = OutboundAliases(256)
    for number in range(100_000):
        topic = b"%d" % (number % 20_000)
        if aliases.find(topic) == 0 and (alias := aliases.assign(topic)):
            aliases.keep(topic, alias)
    assert aliases.find(b"x" * 2000) == aliases.assign(b"x" * 2000) == 0
    assert count(aliases, bytes) <= 9 * 256 + 1  # those that have one, and those that are counted


def test_what_was_busy_long_ago_gives_its_alias_away() -> None:
    aliases = OutboundAliases(1)
    for _ in range(5000):
        if aliases.find(b"old") == 0 and (alias := aliases.assign(b"old")):
            aliases.keep(b"old", alias)
    taken_at = 0
    for number in range(200_000):
        if aliases.find(b"new") != 0:
            taken_at = number
            break
        if alias := aliases.assign(b"new"):
            aliases.keep(b"new", alias)
    assert 0 < taken_at < 8_192  # within one halving
