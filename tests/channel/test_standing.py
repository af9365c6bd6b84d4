"""Options that change while connections stand and sessions are there: who has them from when on, who keeps the old."""

from dataclasses import replace

from heliograph.broker.shared_options import SharedOptions
from heliograph.channel.option_changes import OptionChanges
from heliograph.channel.options import ChannelOptions
from heliograph.channel.standing import StandingOptions
from heliograph.mqtt import packets as p
from heliograph.mqtt import reason_codes as rc
from support.cases import cases
from support.kernel import Kernel, Peer
from support.options import CHANNEL, SESSION

VERSIONS = [p.V3_1_1, p.V5]


class Standing:
    """A kernel whose options change as those of a node do."""

    def __init__(self, options: ChannelOptions | None = None, strategy: str = "round_robin") -> None:
        self.kernel = Kernel(options, shared=SharedOptions(strategy))
        self.options = StandingOptions(self.kernel.context)

    def change(self, options: ChannelOptions) -> None:
        self.kernel.options = options  # of connections that come then
        self.options.change(OptionChanges({"default": options}))
        self.kernel.run()

    def come_back(self, clientid: str) -> Peer:
        peer = self.kernel.peer(p.V5)
        peer.connect(clientid, clean_start=False, session_expiry_interval=1000)
        return peer


def payloads(peer: Peer) -> list[bytes]:
    return [packet.payload for packet in peer.received() if isinstance(packet, p.Publish)]


@cases("version", VERSIONS)
def test_a_packet_may_have_other_sizes_unless_its_client_was_told(version: int) -> None:
    node = Standing(replace(CHANNEL, max_packet_size=100))
    client = node.kernel.connect("c", version=version)
    node.change(replace(CHANNEL, max_packet_size=50))
    client.publish("t", b"x" * 60)
    assert client.closed() is (version != p.V5)


@cases("version", VERSIONS)
def test_qos_retain_and_awaited_releases_stay_as_a_client_was_told(version: int) -> None:
    node = Standing()
    client = node.kernel.connect("c", version=version)
    session = replace(SESSION, max_awaiting_rel=1)
    node.change(replace(CHANNEL, max_qos_allowed=1, retain_available=False, session=session))
    client.publish("t", b"x", 1, retain=True)
    assert client.closed() is (version != p.V5)
    if version == p.V5:
        client.publish("t", b"x", 2, 11)
        client.publish("t", b"x", 2, 12)
        assert not client.closed()


@cases("version", VERSIONS)
def test_what_no_client_is_told_holds_for_its_next_packet(version: int) -> None:
    node = Standing()
    client = node.kernel.connect("c", version=version)
    options = replace(CHANNEL, wildcard_subscription=False, shared_subscription=False, max_subscriptions=1)
    assert client.subscribe("a/+") + client.subscribe("$share/g/a") == [0, 0]
    node.change(options)
    refused = [rc.WILDCARD_SUBSCRIPTIONS_NOT_SUPPORTED, rc.SHARED_SUBSCRIPTIONS_NOT_SUPPORTED, rc.QUOTA_EXCEEDED]
    codes = [code for topic_filter in ("b/+", "$share/g/b", "c") for code in client.subscribe(topic_filter)]
    assert codes == (refused if version == p.V5 else [0x80] * 3)
    node.change(replace(options, strict_mode=True, message_expiry_interval_s=5))
    client.publish("a/b\x01", b"x")
    assert client.closed()


@cases("version", VERSIONS)
def test_topics_may_have_other_levels_though_their_route_is_known(version: int) -> None:
    node = Standing()
    client = node.kernel.connect("c", version=version)
    client.publish("a/b/c", b"x")
    node.kernel.broker.router.set_levels_max(5)
    node.change(replace(CHANNEL, max_topic_levels=2))
    client.publish("a/b", b"x")
    assert not client.closed()
    client.publish("a/b/c", b"x")
    assert client.closed()


@cases("version", VERSIONS)
def test_a_message_expires_as_new_options_say(version: int) -> None:
    node = Standing()
    away = node.kernel.connect("away", session_expiry_interval=1000)
    away.subscribe("t", qos=1)
    away.drop()
    client = node.kernel.connect("c", version=version)
    client.publish("t", b"stays", 1)
    node.change(replace(CHANNEL, message_expiry_interval_s=10))
    client.publish("t", b"goes", 1)
    node.kernel.advance(11)
    back = node.come_back("away")
    assert payloads(back) == [b"stays"]


def test_the_window_of_a_client_grows_and_shrinks() -> None:
    node = Standing(replace(CHANNEL, session=replace(SESSION, max_inflight=1)))
    client = node.kernel.connect("c", receive_maximum=3)
    client.subscribe("t", qos=1)
    publisher = node.kernel.connect("p")
    for number in range(8):
        publisher.publish("t", str(number).encode(), 1)
    assert payloads(client) == [b"0"]
    node.change(replace(CHANNEL, session=replace(SESSION, max_inflight=10)))
    assert payloads(client) == [b"1", b"2"]  # no more than it takes
    node.change(replace(CHANNEL, session=replace(SESSION, max_inflight=1)))
    client.ack(p.PUBACK, 1)
    client.ack(p.PUBACK, 2)
    assert payloads(client) == []
    client.ack(p.PUBACK, 3)
    assert payloads(client) == [b"3"]


@cases("is_away", [True, False])
def test_a_queue_that_is_too_long_loses_its_oldest_messages(is_away: bool) -> None:
    node = Standing(replace(CHANNEL, session=replace(SESSION, max_inflight=1)))
    client = node.kernel.connect("c", session_expiry_interval=1000)
    client.subscribe("t", qos=1)
    if is_away:
        client.drop()
    publisher = node.kernel.connect("p")
    for number in range(6):
        publisher.publish("t", str(number).encode(), 1)
    node.change(replace(CHANNEL, session=replace(SESSION, max_mqueue_len=2)))
    if is_away:
        client = node.come_back("c")
    assert payloads(client) == ([b"4", b"5"] if is_away else [b"0", b"4", b"5"])
    assert node.kernel.broker.counters.snapshot()["delivery.dropped.queue_full"] == (4 if is_away else 3)


def test_messages_of_qos_0_wait_no_longer_where_they_may_not_wait_any_more() -> None:
    node = Standing()
    client = node.kernel.connect("c", session_expiry_interval=1000)
    client.subscribe("t", qos=1)
    client.drop()
    publisher = node.kernel.connect("p")
    publisher.publish("t", b"0")
    publisher.publish("t", b"1", 1)
    node.change(replace(CHANNEL, session=replace(SESSION, mqueue_store_qos0=False)))
    client = node.come_back("c")
    publisher.publish("t", b"2")
    assert payloads(client) == [b"1", b"2"]


@cases("version", VERSIONS)
def test_a_silent_client_is_given_another_time(version: int) -> None:
    node = Standing()
    client = node.kernel.connect("c", version=version, keepalive_s=10)
    node.change(replace(CHANNEL, keepalive_multiplier_percent=300, server_keepalive_s=1))
    node.kernel.advance(25)
    assert not client.closed()
    node.kernel.advance(10)
    assert client.closed()


def test_a_connection_without_connect_is_given_another_time() -> None:
    node = Standing()
    silent = node.kernel.peer(p.V5)
    node.change(replace(CHANNEL, idle_timeout_us=2_000_000))
    node.kernel.advance(3)
    assert silent.closed()


def test_a_message_is_sent_again_after_another_time() -> None:
    node = Standing()
    client = node.kernel.connect("c", version=p.V3_1_1)
    client.subscribe("t", qos=1)
    node.kernel.connect("p").publish("t", b"x", 1)
    node.kernel.advance(10)
    assert payloads(client) == [b"x"]
    node.change(replace(CHANNEL, session=replace(SESSION, retry_interval_us=5_000_000)))
    node.kernel.advance(1)
    assert payloads(client) == [b"x"]


def test_a_zone_keeps_its_own_and_one_that_goes_has_those_of_the_root() -> None:
    node = Standing(replace(CHANNEL, zone="slow", session=replace(SESSION, zone="slow")))
    client = node.kernel.connect("c", version=p.V3_1_1)
    root = replace(CHANNEL, max_packet_size=40)
    slow = replace(CHANNEL, zone="slow", max_packet_size=100, session=replace(SESSION, zone="slow"))
    node.options.change(OptionChanges({"default": root, "slow": slow}))
    node.kernel.run()
    client.publish("t", b"x" * 60)
    assert not client.closed()
    node.options.change(OptionChanges({"default": root}))
    node.kernel.run()
    client.publish("t", b"x" * 60)
    assert client.closed()


def test_many_connections_and_sessions_get_them_in_many_turns() -> None:
    node = Standing()
    clients = [node.kernel.connect(f"c{number}", version=p.V3_1_1) for number in range(300)]
    for number in range(300):
        node.kernel.connect(f"away{number}", session_expiry_interval=1000).drop()
    node.options.change(OptionChanges({"default": replace(CHANNEL, max_packet_size=50)}))
    turns = 0
    while node.options.is_visiting:
        node.kernel.turn()
        turns += 1
    assert 5 <= turns <= 8
    for client in clients:
        client.publish("t", b"x" * 60)
    assert all(client.closed() for client in clients)


def test_a_group_chooses_by_another_strategy() -> None:
    node = Standing(strategy="sticky")
    members = [node.kernel.connect(f"m{number}") for number in range(2)]
    for member in members:
        member.subscribe("$share/g/t")
    publisher = node.kernel.connect("p")

    def shares() -> list[int]:
        for _ in range(4):
            publisher.publish("t", b"x")
        return sorted(len(payloads(member)) for member in members)

    assert shares() == [0, 4]
    node.kernel.broker.shared.options = SharedOptions("round_robin")
    node.change(CHANNEL)
    assert shares() == [2, 2]
    node.kernel.broker.shared.options = SharedOptions("round_robin", group_strategies={"g": "sticky"})
    node.change(CHANNEL)
    assert shares() == [0, 4]
