"""A published message: the PUBLISH that it came in, who sent it, and the encodings that its receivers share.

A message is made once by the publisher's channel (or by the broker itself) and never changes. What it costs to encode
it for receivers of one protocol version is paid by the first of them.
"""

from typing import Final

from mypy_extensions import i64

from heliograph.mqtt import packets as p
from heliograph.mqtt import properties as props
from heliograph.mqtt.encode import UINT16, encode_publish, publish_head, publish_properties
from heliograph.mqtt.properties import Properties, encode_varint, properties_from_wire

NEVER: Final = -1  # no message expiry interval

# The key of the form in which an alias stands for the topic, beside those of protocol versions; and the room of one.
_ALIASED: Final = 32
_ALIAS_ROOM: Final = b"\x23\x00\x00"


class Message:
    """One message on its way through the broker; immutable by convention, equal on every node.

    Args:
        id_high: Microseconds since the epoch at which the broker received it.
        id_low: Node (16 bits), channel (32 bits) and sequence (16 bits) that make the id unique.
        topic: The topic name that it is published to.
        expiry_s: Its message expiry interval, or `NEVER`.
    """

    def __init__(
        self,
        id_high: i64,
        id_low: i64,
        topic: str,
        publish: p.Publish,
        clientid: str,
        username: str | None,
        expiry_s: i64,
    ) -> None:
        self.id_high = id_high
        self.id_low = id_low
        self.topic = topic
        self.publish = publish
        self.qos: i64 = publish.qos
        self.retain: bool = publish.retain
        self.is_traced = False  # a trace is, or was, about it
        self.clientid = clientid
        self.username = username
        self.expiry_s = expiry_s
        self.ticket: i64 = 0  # of the storage commit that holds it; 0 while none does
        self.made_by: tuple[str, ...] = ()  # the rules that made it, one through another
        self._wire_v3: bytes | None = None
        self._wire_v5: bytes | None = None
        self._head_for: i64 = 0  # the version and QoS that the cached head is for
        self._head: bytes = b""
        self._tail: bytes = b""

    @property
    def payload(self) -> bytes:
        return self.publish.payload

    @property
    def property_bytes(self) -> bytes:
        """The MQTT 5 properties in wire form without their length; empty where there are none."""
        return self.publish.property_bytes

    @property
    def properties(self) -> Properties:
        """The MQTT 5 properties, decoded again at each call."""
        return properties_from_wire(self.publish.property_bytes, props.ALLOWED_PUBLISH)

    @property
    def received_at(self) -> int:
        """When the broker received it, in microseconds since the epoch."""
        return self.id_high

    @property
    def guid(self) -> bytes:
        high: int = self.id_high
        low: int = self.id_low
        return high.to_bytes(8, "big") + low.to_bytes(8, "big")

    def expired(self, now_us: i64) -> bool:
        return self.expiry_s != NEVER and now_us >= self.id_high + self.expiry_s * 1_000_000  # [MQTT-3.3.2-5]

    def wire(self, version: i64) -> bytes:
        """The whole packet for a receiver of `version` at QoS 0 without retain; shared by all of them."""
        if version == p.V5:
            wire = self._wire_v5
            if wire is None:
                wire = self._encode_wire(version)
                self._wire_v5 = wire
            return wire
        wire = self._wire_v3
        if wire is None:
            wire = self._encode_wire(version)
            self._wire_v3 = wire
        return wire

    def head_and_tail(self, version: i64, qos: i64) -> tuple[bytes, bytes]:
        """What stands before and behind the packet identifier for receivers of `version` at QoS 1 or 2."""
        key: i64 = version * 4 + qos
        if self._head_for != key:
            publish = self.publish
            payload = publish.payload
            # [MQTT-3.3.1-3] [MQTT-4.3.2-2] [MQTT-4.3.3-2] 3.1.1 [MQTT-3.3.1-3] 3.1.1 [MQTT-4.3.2-1]
            # 3.1.1 [MQTT-4.3.3-1]
            if version < p.V5 and publish.is_plain(qos):  # as it came
                self._head = publish.data[: publish.payload_at - 2]
                self._tail = payload
            else:
                property_bytes = publish.property_bytes
                self._head = publish_head(version, publish.topic, qos, False, False, len(payload), property_bytes)
                self._tail = payload if version != p.V5 else publish_properties(version, property_bytes) + payload
            self._head_for = key
        return self._head, self._tail

    def aliased_head_and_tail(self, qos: i64) -> tuple[bytes, bytes]:
        """What stands before the packet identifier and behind the topic alias where that stands for the topic."""
        key: i64 = _ALIASED + qos
        if self._head_for != key:
            publish = self.publish
            payload = publish.payload
            property_bytes = publish.property_bytes
            self._head = publish_head(p.V5, b"", qos, False, False, len(payload), _ALIAS_ROOM + property_bytes)
            self._tail = property_bytes + payload
            self._head_for = key
        return self._head, self._tail

    def encode(
        self,
        version: i64,
        qos: i64,
        retain: bool,
        dup: bool,
        packet_id: int,
        subscription_id: i64,
        now_us: i64,
        topic: bytes,
        alias: i64,
    ) -> bytes:
        """The packet for one receiver whose copy differs from the shared encoding.

        Args:
            subscription_id: The identifier of the subscription that it is sent for, 0 for none [MQTT-3.3.4-3].
            now_us: The message expiry interval is counted down to this time [MQTT-3.3.2-6].
            topic: The topic name as this receiver knows it; empty where an alias stands for it.
            alias: The topic alias that it is sent with, 0 for none.
        """
        # [MQTT-3.3.2-4] [MQTT-3.3.2-15] [MQTT-3.3.2-16] [MQTT-3.3.2-17] [MQTT-3.3.2-18] [MQTT-3.3.2-20]
        property_bytes = self.publish.property_bytes if version == p.V5 else b""
        if self.expiry_s != NEVER and version == p.V5:
            property_bytes = self._counted_down(now_us)
        if subscription_id != 0 and version == p.V5:
            # [MQTT-3.3.4-3] [MQTT-3.3.4-4] [MQTT-3.3.4-5]
            property_bytes += bytes([props.SUBSCRIPTION_IDENTIFIER]) + encode_varint(subscription_id)
        if alias != 0:
            property_bytes += bytes([props.TOPIC_ALIAS]) + UINT16[alias]
        return encode_publish(version, topic, self.payload, qos, retain, dup, packet_id, property_bytes)

    def _encode_wire(self, version: i64) -> bytes:
        publish = self.publish
        same_form = publish.version == version or (publish.version < p.V5 and version < p.V5)
        if same_form and publish.qos == 0 and not publish.retain:
            return publish.data
        # [MQTT-3.3.1-2] [MQTT-4.3.1-1] 3.1.1 [MQTT-3.3.1-2] 3.1.1 [MQTT-4.3.1-1]
        return encode_publish(version, publish.topic, publish.payload, 0, False, False, 0, publish.property_bytes)

    def _counted_down(self, now_us: i64) -> bytes:
        properties = self.properties
        waited_s: i64 = (now_us - self.id_high) // 1_000_000
        properties.numbers[props.MESSAGE_EXPIRY_INTERVAL] = max(0, self.expiry_s - max(0, waited_s))
        return props.encode_properties(properties)

    def __repr__(self) -> str:
        return f"Message(id={self.guid.hex()}, topic={self.topic!r}, qos={int(self.qos)}, clientid={self.clientid!r})"


def make_message(
    id_high: i64,
    id_low: i64,
    topic: str,
    payload: bytes,
    qos: i64,
    retain: bool,
    property_bytes: bytes,
    clientid: str,
    username: str | None,
) -> Message:
    """A message that did not come as a PUBLISH: a will, a retained message read back, one from a plugin.

    Args:
        property_bytes: MQTT 5 properties in wire form without their length; no topic alias among them.
    """
    name = topic.encode("utf-8")
    packet_id = 1 if qos else 0
    data = encode_publish(p.V5, name, payload, qos, retain, False, packet_id, property_bytes)
    payload_at: i64 = len(data) - len(payload)
    properties_at: i64 = payload_at - len(property_bytes)
    publish = p.Publish(data, p.V5, qos, retain, False, name, packet_id, properties_at, payload_at)
    expiry_s: i64 = NEVER
    if property_bytes:
        properties = properties_from_wire(property_bytes, props.ALLOWED_PUBLISH)
        expiry_s = properties.number(props.MESSAGE_EXPIRY_INTERVAL, NEVER)
    return Message(id_high, id_low, topic, publish, clientid, username, expiry_s)
