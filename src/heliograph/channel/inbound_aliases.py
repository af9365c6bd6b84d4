"""Topic aliases that a client of MQTT 5 uses instead of topic names (MQTT 5 section 3.3.2.3.4)."""

from typing import Final

from mypy_extensions import i64

from heliograph.mqtt import packets as p
from heliograph.mqtt import properties as props
from heliograph.mqtt import reason_codes as rc
from heliograph.mqtt.encode import encode_publish
from heliograph.mqtt.errors import ProtocolError
from heliograph.mqtt.properties import Properties

# 65,535 aliases of 64 KiB each would be 4 GiB that one client makes us remember; this is 256 bytes for each.
_REMEMBERED_BYTES_MAX: Final = 16_777_216
_ALIAS_BYTES: Final = 120


class InboundAliases:
    """What the aliases of one connection stand for; gone with it [MQTT-3.3.2-7]."""

    def __init__(self, alias_max: i64) -> None:
        self._alias_max: i64 = alias_max
        self._topics: dict[int, bytes] = {}
        self._bytes: i64 = 0

    def resolve(self, publish: p.Publish, properties: Properties) -> p.Publish:
        """The same PUBLISH with its topic name and without its alias, which means nothing to its receivers.

        Raises:
            ProtocolError: The alias is 0, beyond the limit [MQTT-3.3.2-8] [MQTT-3.3.2-9], or not known.
        """
        alias = properties.numbers.pop(props.TOPIC_ALIAS)
        # [MQTT-3.2.2-17] [MQTT-3.2.2-18] [MQTT-3.3.2-8] [MQTT-3.3.2-9] [MQTT-3.3.2-12]
        if alias == 0 or alias > self._alias_max:
            valid = f"1 to {int(self._alias_max)} are valid" if self._alias_max > 0 else "none is allowed"
            detail = f"topic alias {alias}; {valid}"
            raise ProtocolError(detail, rc.TOPIC_ALIAS_INVALID)
        topic = publish.topic
        if topic:
            self._remember(alias, topic)
        elif alias in self._topics:
            topic = self._topics[alias]
        else:
            raise ProtocolError(f"topic alias {alias} stands for no topic yet")
        return with_topic(publish, topic, props.encode_properties(properties))

    def held_bytes(self) -> int:
        return int(self._bytes) + len(self._topics) * _ALIAS_BYTES

    def _remember(self, alias: int, topic: bytes) -> None:
        self._bytes += len(topic) - len(self._topics.get(alias, b""))
        if self._bytes > _REMEMBERED_BYTES_MAX:
            detail = f"topic aliases for more than {_REMEMBERED_BYTES_MAX} bytes of topics"
            raise ProtocolError(detail, rc.QUOTA_EXCEEDED)
        self._topics[alias] = topic


def with_topic(publish: p.Publish, topic: bytes, property_bytes: bytes) -> p.Publish:
    """The same PUBLISH with another topic and other properties."""
    payload = publish.payload
    data = encode_publish(
        publish.version, topic, payload, publish.qos, publish.retain, publish.dup, publish.packet_id, property_bytes
    )
    payload_at: i64 = len(data) - len(payload)
    properties_at: i64 = payload_at - len(property_bytes) if publish.version == p.V5 else payload_at
    return p.Publish(
        data,
        publish.version,
        publish.qos,
        publish.retain,
        publish.dup,
        topic,
        publish.packet_id,
        properties_at,
        payload_at,
    )
