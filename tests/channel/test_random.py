"""Any packets in any order and any state end legal or closed, and leave nothing behind."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from heliograph.broker import hooks
from heliograph.broker.actions import Action
from heliograph.broker.authentication import AuthAttempt, AuthStep
from heliograph.broker.client import ClientInfo
from heliograph.broker.pending import Pending
from heliograph.broker.shared_options import STRATEGIES, SharedOptions
from heliograph.channel.handles import CommitWaiter, ReaderHandle
from heliograph.mqtt import packets as p
from heliograph.mqtt import properties as props
from heliograph.mqtt import reason_codes as rc
from heliograph.mqtt.encode import encode_packet
from mqtt.bank import CASES
from support.forms import examples
from support.kernel import Kernel, Peer
from support.options import CHANNEL, LISTENER, SESSION
from support.packets import properties, publish, say
from support.reach import count
from support.strategies import VERSIONS, client_packets, packets, topic_filters, topic_names

RAW = [case.data for case in CASES if len(case.data) < 2_000]
CLIENT_IDS = ["one", "two"]
FROM_BROKER = (p.Connack, p.Publish, p.Ack, p.Suback, p.Ping, p.Disconnect, p.Auth)
PREFIXES = ["$share/g/", "$share/h/", "$queue/", "$exclusive/"]
AUTH_CODES = [rc.SUCCESS, rc.CONTINUE_AUTHENTICATION, rc.REAUTHENTICATE, rc.NOT_AUTHORIZED]
ANSWERS = [rc.SUCCESS, rc.SUCCESS, rc.CONTINUE_AUTHENTICATION, rc.NOT_AUTHORIZED, rc.BAD_USERNAME_OR_PASSWORD, 999]
ACTIONS = [
    "connect",
    "packet",
    "packet",
    "packet",
    "bold packet",
    "bold packet",
    "any packet",
    "raw",
    "drop",
    "time",
    "commit",
    "cut",
    "full",
    "congest",
    "answer",
]


class World:
    """A kernel with every kind of listener, an authorizer, and an authenticator that takes its time."""

    def __init__(self, strategy: str) -> None:
        limits = replace(SESSION, max_mqueue_len=3, max_awaiting_rel=2, max_inflight=4)
        again = replace(
            SESSION, max_mqueue_len=2, retry_interval_us=4_000_000, mqueue_priorities={"a": 9}, upgrade_qos=True
        )
        self.listeners = [
            replace(CHANNEL, session=limits, exclusive_subscription=True),
            replace(
                CHANNEL,
                session=limits,
                max_topic_alias=3,
                server_topic_alias=3,
                listener=replace(LISTENER, mountpoint="m/"),
            ),
            replace(
                CHANNEL,
                session=limits,
                listener=replace(LISTENER, mountpoint="of/${clientid}/", messages_rate=3.0, bytes_rate=300.0),
            ),
            replace(CHANNEL, session=again, authz_disconnects=True, max_subscriptions=3, exclusive_subscription=True),
            replace(CHANNEL, session=again, max_qos_allowed=1, message_expiry_interval_s=30, strict_mode=True),
        ]
        self.kernel = Kernel(self.listeners[0], stored=["a/#", "b"], shared=SharedOptions(strategy))
        self.thinking: list[Pending[object]] = []
        self.kernel.broker.hooks.point(hooks.CLIENT_AUTHENTICATE).add(self._authenticate)
        self.kernel.broker.hooks.point(hooks.CLIENT_AUTHORIZE).add(_authorize)

    def _authenticate(self, client: ClientInfo, attempt: AuthAttempt, outcome: object) -> object:
        if attempt.method is None and attempt.username is None:
            return None
        if attempt.state is None and attempt.method is not None and not attempt.renews:
            attempt.state = "asked"
            return hooks.STOP, AuthStep(rc.CONTINUE_AUTHENTICATION, b"?")
        self.thinking.append(Pending())
        return self.thinking[-1]


def is_denied(topic: str) -> bool:
    """What client "two" may have nothing to do with."""
    return topic == "b" or topic.startswith("ab")


def _authorize(client: ClientInfo, action: Action, topic: str, verdict: object) -> tuple[str, str] | None:
    return (hooks.STOP, "deny") if client.clientid == "two" and is_denied(topic) else None


class Watched:
    """A connection whose every word is checked against what the specification lets a broker say."""

    def __init__(self, peer: Peer, clientid: str, receive_maximum: int, alias_max: int, method: str | None) -> None:
        self.peer = peer
        self.clientid = clientid
        self._receive_maximum = receive_maximum
        self._alias_max = alias_max
        self._method = method
        self._is_let_in = False
        self._aliases: dict[int, bytes] = {}
        self._unacknowledged: set[int] = set()
        self._is_over = False

    def check(self) -> None:
        for packet in self.peer.received():
            assert not self._is_over, f"{say(packet)} behind the end"
            assert isinstance(packet, FROM_BROKER), say(packet)
            assert packet.kind != p.PINGREQ
            if isinstance(packet, p.Auth):
                assert self._method is not None
                continue
            assert isinstance(packet, p.Connack) is not self._is_let_in, say(packet)
            if isinstance(packet, p.Connack):
                self._is_let_in = packet.code == rc.SUCCESS
                self._is_over = not self._is_let_in
            elif isinstance(packet, p.Publish):
                self._check_publish(packet)
            elif isinstance(packet, p.Disconnect):
                assert self.peer.version == p.V5
                assert packet.code in rc.DISCONNECT_FROM_SERVER
                assert packet.code >= 0x80
                self._is_over = True
            elif isinstance(packet, p.Ack) and self.peer.version != p.V5:
                assert packet.code == 0
        assert not self._is_over or self.peer.closed()

    def forget(self, packet: p.Packet) -> None:
        """The client sent this: if it ends a delivery, the broker may send another."""
        ends = isinstance(packet, p.Ack) and (
            packet.kind in (p.PUBACK, p.PUBCOMP) or (packet.kind == p.PUBREC and packet.code >= 0x80)
        )
        if ends and isinstance(packet, p.Ack):
            self._unacknowledged.discard(packet.packet_id)

    def forget_everything(self) -> None:
        """The client sent bytes that nobody looked at."""
        self._unacknowledged.clear()

    def _check_publish(self, packet: p.Publish) -> None:
        topic = packet.topic
        if self.peer.version == p.V5:
            named = props.properties_from_wire(packet.property_bytes, props.ALLOWED_PUBLISH_TO_CLIENT)
            alias = named.numbers.get(props.TOPIC_ALIAS)
            if alias is not None:
                assert 1 <= alias <= self._alias_max
                topic = topic or self._aliases[alias]
                self._aliases[alias] = topic
        assert topic
        assert self.clientid != "two" or not is_denied(topic.decode())
        if packet.qos and not (packet.dup and self.peer.version != p.V5):  # MQTT 3 may be sent it again
            assert packet.packet_id not in self._unacknowledged, f"{say(packet)} is in use"
            self._unacknowledged.add(int(packet.packet_id))
            assert len(self._unacknowledged) <= self._receive_maximum


def connected(world: World, data: st.DataObject) -> Watched:
    version = data.draw(st.sampled_from(VERSIONS))
    peer = world.kernel.peer(version, options=data.draw(st.sampled_from(world.listeners)))
    will = data.draw(st.sampled_from([None, p.Will("a", b"will", 1, True, properties())]))
    receive_maximum = data.draw(st.integers(1, 3)) if version == p.V5 else 65_535
    clientid, clean_start = data.draw(st.sampled_from(CLIENT_IDS)), data.draw(st.booleans())
    keepalive_s, expiry_s = data.draw(st.sampled_from([0, 10])), data.draw(st.sampled_from([0, 60]))
    alias_max = data.draw(st.sampled_from([0, 0, 2])) if version == p.V5 else 0
    method = data.draw(st.sampled_from([None, None, None, "quiz"])) if version == p.V5 else None
    username = data.draw(st.sampled_from([None, None, None, "u"]))
    if version == p.V5:
        named: dict[str, int | str] = {"receive_maximum": receive_maximum, "session_expiry_interval": expiry_s}
        named |= {"topic_alias_maximum": alias_max} if alias_max else {}
        named |= {"authentication_method": method} if method else {}
        packet = p.Connect(version, clientid, clean_start, keepalive_s, will, username, None, properties(**named))
    else:
        packet = p.Connect(version, clientid, clean_start, keepalive_s, will, username, None, properties())
    peer.send(packet)
    return Watched(peer, clientid, receive_maximum, alias_max, method)


def bold(version: int, data: st.DataObject) -> bytes:
    """What few clients send: shared and exclusive filters, aliases, AUTH, and reason codes of all kinds."""
    kind = data.draw(st.sampled_from(["subscribe", "unsubscribe", "alias", "auth", "code"]))
    packet_id = data.draw(st.integers(1, 4))
    if kind in ("subscribe", "unsubscribe"):
        topic_filter = data.draw(st.sampled_from(PREFIXES)) + data.draw(topic_filters())
        entry = p.SubscribeEntry(topic_filter, data.draw(st.integers(0, 2)), False, False, 0)
        subscribe, unsubscribe = p.Subscribe(packet_id, [entry], properties()), [topic_filter]
        if kind == "subscribe":
            return encode_packet(subscribe, version)
        return encode_packet(p.Unsubscribe(packet_id, unsubscribe, properties()), version)
    if version != p.V5:
        return encode_packet(p.Ping(p.PINGREQ), version)
    if kind == "alias":
        topic = data.draw(st.sampled_from(["", ""]) | topic_names())
        return encode_packet(publish(topic, b"x", topic_alias=data.draw(st.integers(1, 4))), version)
    if kind == "auth":
        named = data.draw(st.sampled_from([{"authentication_method": "quiz"}] * 4 + [{}]))
        auth = p.Auth(data.draw(st.sampled_from(AUTH_CODES)), properties(**named))
        return encode_packet(auth, version)
    first = data.draw(st.sampled_from([0x40, 0x50, 0x62, 0x70]))
    return bytes([first, 3, 0, packet_id, data.draw(st.integers(0, 255))])


def act(world: World, watched: list[Watched], data: st.DataObject) -> None:
    kernel = world.kernel
    action = data.draw(st.sampled_from(ACTIONS))
    if action == "connect" or not watched:
        watched.append(connected(world, data))
        return
    one = watched[data.draw(st.integers(0, len(watched) - 1))]
    peer = one.peer
    if action == "packet" or action == "any packet":
        packet = data.draw(client_packets(peer.version) if action == "packet" else packets(peer.version))
        one.forget(packet)
        if not peer.closed() and not peer.lost:
            peer.send(packet)
    elif action == "bold packet" or action == "raw":
        one.forget_everything()
        sent = bold(peer.version, data) if action == "bold packet" else data.draw(st.sampled_from(RAW) | st.binary())
        peer.send_bytes(sent)
    elif action == "drop":
        peer.drop()
    elif action == "time":
        kernel.advance(data.draw(st.sampled_from([0.001, 0.5, 5, 20, 100])))
    elif action == "commit":
        kernel.commit(data.draw(st.sampled_from([0, 0x80, 0x97])))
    elif action == "cut":
        kernel.sink.cut()
    elif action == "full":
        kernel.sink.full = not kernel.sink.full
    elif action == "answer":
        if world.thinking:
            world.thinking.pop(0).resolve((hooks.STOP, AuthStep(data.draw(st.sampled_from(ANSWERS)), b"!")))
            kernel.run()
    elif not peer.lost:
        peer.congest(data.draw(st.booleans()))


@pytest.mark.slow
@settings(max_examples=examples(100))
@given(data=st.data(), steps=st.integers(10, 50), strategy=st.sampled_from(STRATEGIES))
def test_any_packets_in_any_state_end_legal_or_closed(data: st.DataObject, steps: int, strategy: str) -> None:
    world = World(strategy)
    kernel = world.kernel
    watched: list[Watched] = []
    for _ in range(steps):
        act(world, watched, data)
        for one in watched:
            one.check()
        assert_sessions_keep_to_their_limits(kernel)
        assert all(isinstance(error, hooks.LateAnswerError) for _, error in kernel.hook_failures)
    for one in watched:
        one.peer.drop()
    assert_nothing_is_left(kernel)


def assert_sessions_keep_to_their_limits(kernel: Kernel) -> None:
    for session in kernel.sessions.all():
        numbers, options = session.statistics(), session.options
        queues = len(options.mqueue_priorities) + 1
        assert numbers["mqueue_len"] <= options.max_mqueue_len * queues
        assert numbers["inflight_cnt"] <= 32
        assert numbers["awaiting_rel_cnt"] <= 100
        assert numbers["subscriptions_cnt"] < 200


def assert_nothing_is_left(kernel: Kernel) -> None:
    assert kernel.context.channels.statistics() == {"connections.open": 0, "live_connections.count": 0}
    of_all_users = replace(CHANNEL, bind_session_to_user=False)
    for clientid in [session.clientid for session in kernel.sessions.all()]:
        kernel.connect(clientid, clean_start=True, options=of_all_users).disconnect()
    assert kernel.sessions.statistics() == {"sessions.count": 0, "sessions.away": 0}
    statistics = kernel.broker.statistics()
    assert (statistics["topics.count"], statistics["subscriptions.count"]) == (0, 0)
    assert (statistics["shared_groups.count"], statistics["subscriptions.shared.count"]) == (0, 0)
    assert kernel.broker.router.filters.trie.root.is_empty()
    assert len(kernel.broker.exclusive) == 0
    for _ in range(kernel.sink.open_ticket - kernel.sink.committed_ticket):
        kernel.commit()
    assert count(kernel.context.commits, CommitWaiter) == count(kernel.context.commits, ReaderHandle) == 0
