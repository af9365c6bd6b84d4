"""The control packets as plain objects. `decode` makes them from bytes and `encode` makes bytes of them.

`Publish` is a view of the packet that it came in: payload and properties are cut out only when they are read.
"""

from typing import Final

from mypy_extensions import i64

from heliograph.mqtt.properties import Properties

CONNECT: Final = 1
CONNACK: Final = 2
PUBLISH: Final = 3
PUBACK: Final = 4
PUBREC: Final = 5
PUBREL: Final = 6
PUBCOMP: Final = 7
SUBSCRIBE: Final = 8
SUBACK: Final = 9
UNSUBSCRIBE: Final = 10
UNSUBACK: Final = 11
PINGREQ: Final = 12
PINGRESP: Final = 13
DISCONNECT: Final = 14
AUTH: Final = 15

NAMES: Final = (
    "RESERVED",
    "CONNECT",
    "CONNACK",
    "PUBLISH",
    "PUBACK",
    "PUBREC",
    "PUBREL",
    "PUBCOMP",
    "SUBSCRIBE",
    "SUBACK",
    "UNSUBSCRIBE",
    "UNSUBACK",
    "PINGREQ",
    "PINGRESP",
    "DISCONNECT",
    "AUTH",
)

V3_1: Final = 3
V3_1_1: Final = 4
V5: Final = 5


class Packet:
    """What every control packet has in common: its type, for one `if` chain instead of `isinstance`."""

    def __init__(self, kind: i64) -> None:
        self.kind = kind


class Will:
    """The message that the broker publishes for a client that goes without DISCONNECT."""

    def __init__(self, topic: str, payload: bytes, qos: int, retain: bool, properties: Properties) -> None:
        self.topic = topic
        self.payload = payload
        self.qos = qos
        self.retain = retain
        self.properties = properties


class Connect(Packet):
    """CONNECT: who the client is and what it can take."""

    def __init__(
        self,
        version: int,
        clientid: str,
        clean_start: bool,
        keepalive_s: int,
        will: Will | None,
        username: str | None,
        password: bytes | None,
        properties: Properties,
        is_bridge: bool = False,
    ) -> None:
        super().__init__(CONNECT)
        self.version = version
        self.clientid = clientid
        self.clean_start = clean_start
        self.keepalive_s = keepalive_s
        self.will = will
        self.username = username
        self.password = password
        self.properties = properties
        self.is_bridge = is_bridge  # of MQTT 3, by the bit that mosquitto and others know


class Connack(Packet):
    """CONNACK; `code` is an MQTT 5 reason code whatever the version."""

    def __init__(self, session_present: bool, code: int, properties: Properties) -> None:
        super().__init__(CONNACK)
        self.session_present = session_present
        self.code = code
        self.properties = properties


class Publish(Packet):
    """PUBLISH as it came.

    Args:
        data: The whole packet, fixed header first.
        version: The protocol version that it is written in (3, 4 or 5).
        topic: The topic name as received; empty where a topic alias stands for it.
        properties_at: Where in `data` the property bytes begin (behind their length).
        payload_at: Where the payload begins.
    """

    def __init__(
        self,
        data: bytes,
        version: i64,
        qos: i64,
        retain: bool,
        dup: bool,
        topic: bytes,
        packet_id: i64,
        properties_at: i64,
        payload_at: i64,
    ) -> None:
        self.kind = PUBLISH
        self.data = data
        self.version = version
        self.qos = qos
        self.retain = retain
        self.dup = dup
        self.topic = topic
        self.packet_id = packet_id
        self.properties_at = properties_at
        self.payload_at = payload_at

    @property
    def payload(self) -> bytes:
        return self.data[self.payload_at :]

    @property
    def property_bytes(self) -> bytes:
        return self.data[self.properties_at : self.payload_at]

    def is_plain(self, qos: i64) -> bool:
        """Whether it is of MQTT 3 and its bytes are those of an ordinary PUBLISH at a QoS above 0."""
        return self.version < V5 and self.qos == qos and not self.retain and not self.dup

    def __repr__(self) -> str:
        return f"Publish(topic={self.topic!r}, qos={int(self.qos)}, packet_id={int(self.packet_id)})"


class Ack(Packet):
    """PUBACK, PUBREC, PUBREL or PUBCOMP, as `kind` says."""

    def __init__(self, kind: i64, packet_id: int, code: int, properties: Properties | None = None) -> None:
        super().__init__(kind)
        self.packet_id = packet_id
        self.code = code
        self.properties = properties


class SubscribeEntry:
    """One topic filter of a SUBSCRIBE with its options; `code` is that with which a hook refused it, 0 for none."""

    def __init__(
        self, topic_filter: str, qos: int, no_local: bool, retain_as_published: bool, retain_handling: int
    ) -> None:
        self.topic_filter = topic_filter
        self.qos = qos
        self.no_local = no_local
        self.retain_as_published = retain_as_published
        self.retain_handling = retain_handling
        self.code = 0


class Subscribe(Packet):
    """SUBSCRIBE: at least one entry.

    Attributes:
        rest_at: Where in the bytes that it is decoded from the entries begin that are not decoded yet.
    """

    def __init__(self, packet_id: int, entries: list[SubscribeEntry], properties: Properties) -> None:
        super().__init__(SUBSCRIBE)
        self.packet_id = packet_id
        self.entries = entries
        self.properties = properties
        self.rest_at: i64 = 0


class Suback(Packet):
    """SUBACK or UNSUBACK: one reason code for each filter, in order."""

    def __init__(self, kind: i64, packet_id: int, codes: list[int], properties: Properties) -> None:
        super().__init__(kind)
        self.packet_id = packet_id
        self.codes = codes
        self.properties = properties


class Unsubscribe(Packet):
    """UNSUBSCRIBE: at least one filter; `rest_at` as for SUBSCRIBE."""

    def __init__(self, packet_id: int, topic_filters: list[str], properties: Properties) -> None:
        super().__init__(UNSUBSCRIBE)
        self.packet_id = packet_id
        self.topic_filters = topic_filters
        self.properties = properties
        self.rest_at: i64 = 0


class Ping(Packet):
    """PINGREQ or PINGRESP, as `kind` says."""

    def __init__(self, kind: i64) -> None:
        super().__init__(kind)


class ReasonPacket(Packet):
    """A packet of a reason code and properties: DISCONNECT or AUTH."""

    def __init__(self, kind: i64, code: int, properties: Properties) -> None:
        super().__init__(kind)
        self.code = code
        self.properties = properties


class Disconnect(ReasonPacket):
    def __init__(self, code: int, properties: Properties) -> None:
        super().__init__(DISCONNECT, code, properties)


class Auth(ReasonPacket):
    def __init__(self, code: int, properties: Properties) -> None:
        super().__init__(AUTH, code, properties)
