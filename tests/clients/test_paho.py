"""What a device with paho-mqtt sees, at MQTT 3.1.1 and 5."""

import queue
import socket
from collections.abc import Callable, Iterator
from typing import Any

import paho.mqtt.client as mqtt
import pytest
from paho.mqtt.enums import CallbackAPIVersion, MQTTProtocolVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties
from paho.mqtt.reasoncodes import ReasonCode
from paho.mqtt.subscribeoptions import SubscribeOptions

pytestmark = pytest.mark.service

V3 = MQTTProtocolVersion.MQTTv311
V5 = MQTTProtocolVersion.MQTTv5
WAIT_S = 10.0


def properties(packet_type: int, **values: object) -> Any:
    """Properties of an MQTT 5 packet under paho's names; paho sets and types them at run time."""
    make: Any = Properties
    made = make(packet_type)
    for key, value in values.items():
        setattr(made, key, value)
    return made


def properties_of(message: mqtt.MQTTMessage) -> Any:
    return message.properties


class Device:
    """A connected paho client whose callbacks fill queues."""

    def __init__(
        self,
        address: tuple[str, int],
        clientid: str,
        version: MQTTProtocolVersion = V5,
        *,
        keep_session: bool = False,
        will: tuple[str, bytes] | None = None,
        manual_ack: bool = False,
    ) -> None:
        self.messages: queue.Queue[mqtt.MQTTMessage] = queue.Queue()
        self.ended: queue.Queue[ReasonCode] = queue.Queue()
        self._codes: queue.Queue[list[ReasonCode]] = queue.Queue()
        self._connected: queue.Queue[tuple[mqtt.ConnectFlags, Properties | None]] = queue.Queue()
        self.name = clientid
        self.paho = mqtt.Client(
            CallbackAPIVersion.VERSION2,
            clientid,
            None if version == V5 else not keep_session,
            protocol=version,
            reconnect_on_failure=False,
            manual_ack=manual_ack,
        )
        self.paho.on_connect = self._on_connect
        self.paho.on_disconnect = lambda _client, _data, _flags, code, _properties: self.ended.put(code)
        self.paho.on_subscribe = lambda _client, _data, _mid, codes, _properties: self._codes.put(codes)
        self.paho.on_unsubscribe = lambda _client, _data, _mid, codes, _properties: self._codes.put(codes)
        self.paho.on_message = lambda _client, _data, message: self.messages.put(message)
        if will is not None:
            self.paho.will_set(will[0], will[1], qos=1)
        if version == V5:
            expiry = properties(PacketTypes.CONNECT, SessionExpiryInterval=300 if keep_session else 0)
            self.paho.connect(*address, clean_start=not keep_session, properties=expiry)
        else:
            self.paho.connect(*address)
        self.paho.loop_start()
        granted: Any
        flags, granted = self._connected.get(timeout=WAIT_S)
        self.granted = granted  # what the CONNACK said, as paho's properties
        self.session_present = flags.session_present

    def _on_connect(
        self, _client: mqtt.Client, _data: Any, flags: mqtt.ConnectFlags, code: ReasonCode, granted: Properties | None
    ) -> None:
        assert not code.is_failure, code
        self._connected.put((flags, granted))

    def subscribe(self, topic_filter: str, qos: int = 0, options: SubscribeOptions | None = None, **more: Any) -> int:
        """The QoS that was granted."""
        if options is None:
            self.paho.subscribe(topic_filter, qos, **more)
        else:
            self.paho.subscribe(topic_filter, options=options, **more)
        code = self._codes.get(timeout=WAIT_S)[0].value
        assert isinstance(code, int)
        return code

    def unsubscribe(self, topic_filter: str) -> None:
        self.paho.unsubscribe(topic_filter)
        self._codes.get(timeout=WAIT_S)

    def publish(self, topic: str, payload: str | bytes, qos: int = 1, retain: bool = False, **more: Any) -> None:
        """Publish and wait until the broker has acknowledged."""
        sent = self.paho.publish(topic, payload, qos, retain, **more)
        sent.wait_for_publish(WAIT_S)
        assert sent.is_published()

    def next(self) -> mqtt.MQTTMessage:
        return self.messages.get(timeout=WAIT_S)

    def next_payloads(self, count: int) -> list[bytes]:
        return [bytes(self.next().payload) for _ in range(count)]

    def assert_nothing_more(self) -> None:
        """What was routed to this client before a message of its own would arrive before it."""
        self.subscribe(f"marker/{self.name}", 1)
        self.publish(f"marker/{self.name}", b"")
        assert self.next().topic == f"marker/{self.name}"

    def vanish(self) -> None:
        """Lose the connection without a DISCONNECT."""
        wire = self.paho.socket()
        assert isinstance(wire, socket.socket)
        wire.shutdown(socket.SHUT_RDWR)
        self.ended.get(timeout=WAIT_S)
        self.paho.loop_stop()

    def leave(self) -> None:
        self.paho.disconnect()
        self.paho.loop_stop()


Connect = Callable[..., Device]


@pytest.fixture
def connect(broker: tuple[str, int]) -> Iterator[Connect]:
    """Connects devices, and lets them leave at the end."""
    devices: list[Device] = []

    def connect_one(clientid: str, *options: Any, **more: Any) -> Device:
        devices.append(Device(broker, clientid, *options, **more))
        return devices[-1]

    yield connect_one
    for device in devices:
        device.leave()


both_versions = pytest.mark.parametrize("version", [V3, V5], ids=["v3", "v5"])


@both_versions
@pytest.mark.parametrize("published", [0, 1, 2])
@pytest.mark.parametrize("subscribed", [0, 1, 2])
def test_a_message_arrives_at_the_lower_qos(
    connect: Connect, name: str, version: MQTTProtocolVersion, published: int, subscribed: int
) -> None:
    device = connect(name, version)
    assert device.subscribe(f"{name}/+", subscribed) == subscribed
    device.publish(f"{name}/x", b"\x00\xff payload", published)
    message = device.next()
    assert (message.topic, message.payload) == (f"{name}/x", b"\x00\xff payload")
    assert message.qos == min(published, subscribed)
    assert not message.retain
    assert not message.dup


@both_versions
@pytest.mark.parametrize("size", [0, 1, 127, 128, 16_384, 300_000])
def test_payloads_of_every_size_pass_unchanged(
    connect: Connect, name: str, version: MQTTProtocolVersion, size: int
) -> None:
    device = connect(name, version)
    device.subscribe(name, 1)
    payload = bytes(i * 7 % 251 for i in range(size))
    device.publish(name, payload)
    assert device.next().payload == payload


@both_versions
@pytest.mark.parametrize(
    ("topic_filter", "topics"),
    [
        ("a/+/c", ["a/b/c", "a//c"]),
        ("a/#", ["a/b", "a/b/c", "a//c", "a", "a/$x"]),
        ("+/b", ["a/b", "/b"]),
        ("a/b", ["a/b"]),
        ("+/+/c/#", ["a/b/c", "a//c", "d/e/c/f"]),
    ],
)
def test_wildcards_match_what_the_specification_says(
    connect: Connect, name: str, version: MQTTProtocolVersion, topic_filter: str, topics: list[str]
) -> None:
    device = connect(name, version)
    device.subscribe(f"{name}/{topic_filter}", 1)
    for topic in ("a/b", "a/b/c", "a//c", "a", "a/$x", "/b", "d/e/c/f", "b"):
        device.publish(f"{name}/{topic}", topic)
    assert sorted(payload.decode() for payload in device.next_payloads(len(topics))) == sorted(topics)
    device.assert_nothing_more()


@both_versions
def test_messages_of_one_publisher_keep_their_order(connect: Connect, name: str, version: MQTTProtocolVersion) -> None:
    sender, receiver = connect(f"{name}-sender", version), connect(name, version)
    receiver.subscribe(f"{name}/#", 2)
    for number in range(300):
        sender.paho.publish(f"{name}/{number % 3}", str(number), 1 + number % 2)
    by_topic: dict[str, list[int]] = {}
    for _ in range(300):
        message = receiver.next()
        by_topic.setdefault(message.topic, []).append(int(message.payload))
    # The order holds per topic and QoS (MQTT 5 section 4.6).
    for numbers in by_topic.values():
        assert [n for n in numbers if n % 2] == sorted(n for n in numbers if n % 2)
        assert [n for n in numbers if not n % 2] == sorted(n for n in numbers if not n % 2)


@both_versions
def test_unsubscribing_ends_delivery(connect: Connect, name: str, version: MQTTProtocolVersion) -> None:
    device = connect(name, version)
    device.subscribe(f"{name}/#", 1)
    device.publish(f"{name}/a", b"1")
    assert device.next().payload == b"1"
    device.unsubscribe(f"{name}/#")
    device.publish(f"{name}/a", b"2")
    device.assert_nothing_more()


@both_versions
def test_a_retained_message_greets_new_subscribers_until_it_is_cleared(
    connect: Connect, name: str, version: MQTTProtocolVersion
) -> None:
    sender = connect(f"{name}-sender", version)
    sender.publish(f"{name}/state", b"old", retain=True)
    sender.publish(f"{name}/state", b"new", retain=True)
    first = connect(name, version)
    first.subscribe(f"{name}/#", 1)
    message = first.next()
    assert (message.payload, message.retain) == (b"new", True)
    sender.publish(f"{name}/state", b"live", retain=True)
    message = first.next()
    assert (message.payload, message.retain) == (b"live", False)
    sender.publish(f"{name}/state", b"", retain=True)
    assert first.next().payload == b""
    second = connect(f"{name}-second", version)
    second.subscribe(f"{name}/#", 1)
    second.assert_nothing_more()


@both_versions
def test_a_will_is_published_when_the_connection_is_lost(
    connect: Connect, name: str, version: MQTTProtocolVersion
) -> None:
    watcher = connect(f"{name}-watcher", version)
    watcher.subscribe(f"{name}/will", 1)
    connect(name, version, will=(f"{name}/will", b"gone")).vanish()
    assert watcher.next().payload == b"gone"


@both_versions
def test_a_will_is_forgotten_by_a_client_that_says_goodbye(
    connect: Connect, name: str, version: MQTTProtocolVersion
) -> None:
    watcher = connect(f"{name}-watcher", version)
    watcher.subscribe(f"{name}/will", 1)
    connect(name, version, will=(f"{name}/will", b"gone")).leave()
    watcher.assert_nothing_more()


@both_versions
def test_a_kept_session_has_its_subscriptions_and_messages(
    connect: Connect, name: str, version: MQTTProtocolVersion
) -> None:
    sleeper = connect(name, version, keep_session=True)
    assert not sleeper.session_present
    sleeper.subscribe(f"{name}/#", 2)
    sleeper.leave()
    sender = connect(f"{name}-sender", version)
    for number in range(150):
        sender.publish(f"{name}/{number}", str(number), 1 + number % 2)
    woken = connect(name, version, keep_session=True)
    assert woken.session_present
    assert sorted(int(payload) for payload in woken.next_payloads(150)) == list(range(150))
    sender.publish(f"{name}/live", b"live")
    assert woken.next().payload == b"live"
    woken.assert_nothing_more()


@both_versions
def test_what_was_not_acknowledged_is_sent_again(connect: Connect, name: str, version: MQTTProtocolVersion) -> None:
    forgetful = connect(name, version, keep_session=True, manual_ack=True)
    forgetful.subscribe(name, 1)
    sender = connect(f"{name}-sender", version)
    sender.publish(name, b"one")
    sender.publish(name, b"two")
    assert forgetful.next_payloads(2) == [b"one", b"two"]
    forgetful.vanish()
    woken = connect(name, version, keep_session=True)
    again = [woken.next(), woken.next()]
    assert [(message.payload, message.dup) for message in again] == [(b"one", True), (b"two", True)]
    woken.assert_nothing_more()


@both_versions
def test_a_clean_start_forgets_the_session(connect: Connect, name: str, version: MQTTProtocolVersion) -> None:
    sleeper = connect(name, version, keep_session=True)
    sleeper.subscribe(f"{name}/#", 1)
    sleeper.leave()
    device = connect(name, version)
    assert not device.session_present
    device.publish(f"{name}/a", b"nobody hears")
    device.assert_nothing_more()


@both_versions
def test_a_second_connection_takes_the_session_over(connect: Connect, name: str, version: MQTTProtocolVersion) -> None:
    first = connect(name, version, keep_session=True)
    first.subscribe(f"{name}/x", 1)
    second = connect(name, version, keep_session=True)
    reason = first.ended.get(timeout=WAIT_S)
    assert second.session_present
    if version == V5:
        assert str(reason) == "Session taken over"
    second.publish(f"{name}/x", b"for the second")
    assert second.next().payload == b"for the second"
    assert first.messages.empty()


def test_properties_reach_the_subscriber(connect: Connect, name: str) -> None:
    device = connect(name)
    device.subscribe(name, 1)
    sent = properties(
        PacketTypes.PUBLISH,
        ContentType="application/json",
        ResponseTopic=f"{name}/answer",
        CorrelationData=b"\x01\x02",
        PayloadFormatIndicator=1,
        UserProperty=[("unit", "°C"), ("unit", "K")],
    )
    device.publish(name, b"{}", properties=sent)
    got = properties_of(device.next())
    assert (got.ContentType, got.ResponseTopic, got.CorrelationData) == (
        "application/json",
        f"{name}/answer",
        b"\x01\x02",
    )
    assert (got.PayloadFormatIndicator, got.UserProperty) == (1, [("unit", "°C"), ("unit", "K")])


def test_a_topic_alias_stands_for_its_topic(connect: Connect, name: str) -> None:
    device = connect(name)
    if not getattr(device.granted, "TopicAliasMaximum", 0):
        pytest.skip("the broker takes no topic aliases")
    device.subscribe(f"{name}/long/topic", 1)
    alias = properties(PacketTypes.PUBLISH, TopicAlias=1)
    device.publish(f"{name}/long/topic", b"1", properties=alias)
    device.publish("", b"2", properties=alias)
    assert [device.next().payload, device.next().topic] == [b"1", f"{name}/long/topic"]


def test_a_subscription_identifier_comes_with_its_messages(connect: Connect, name: str) -> None:
    device = connect(name)
    device.subscribe(f"{name}/#", 1, properties=properties(PacketTypes.SUBSCRIBE, SubscriptionIdentifier=200))
    device.publish(f"{name}/x", b"")
    got = properties_of(device.next())
    assert got.SubscriptionIdentifier == [200]


def test_no_local_spares_the_publisher_its_own_messages(connect: Connect, name: str) -> None:
    device, other = connect(name), connect(f"{name}-other")
    device.subscribe(name, options=SubscribeOptions(qos=1, noLocal=True))
    device.publish(name, b"mine")
    other.publish(name, b"theirs")
    assert device.next().payload == b"theirs"


def test_retain_as_published_keeps_the_flag(connect: Connect, name: str) -> None:
    device = connect(name)
    device.subscribe(name, options=SubscribeOptions(qos=1, retainAsPublished=True))
    device.publish(name, b"x", retain=True)
    assert device.next().retain
    device.publish(name, b"", retain=True)


@pytest.mark.parametrize(("handling", "first", "again"), [(0, 1, 1), (1, 1, 0), (2, 0, 0)])
def test_retain_handling_says_when_retained_messages_are_sent(
    connect: Connect, name: str, handling: int, first: int, again: int
) -> None:
    device = connect(name)
    device.publish(f"{name}/r", b"kept", retain=True)
    for times in (first, again):
        device.subscribe(f"{name}/r", options=SubscribeOptions(qos=1, retainHandling=handling))
        assert device.next_payloads(times) == [b"kept"] * times
        device.assert_nothing_more()
    device.publish(f"{name}/r", b"", retain=True)


def test_a_client_without_an_id_is_given_one(broker: tuple[str, int]) -> None:
    device = Device(broker, "")
    assert device.granted.AssignedClientIdentifier
    device.leave()
