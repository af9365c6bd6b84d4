"""The MQTT encoding of what a session sends: PUBLISH and PUBREL packets, topic aliases, the client's packet limit."""

from typing import Final

from mypy_extensions import i64

from heliograph.broker.message import NEVER, Message
from heliograph.mqtt import packets as p
from heliograph.mqtt import reason_codes as rc
from heliograph.mqtt.encode import UINT16, encode_ack
from heliograph.session.encoder import Encoder
from heliograph.session.mqueue import Delivery
from heliograph.session.outbox import Outbox

PACKET_BYTES_MAX: Final = 268_435_460

# Longer topics are worth an alias too, but what one client can make us remember must stay small.
_TOPIC_BYTES_MAX: Final = 1024
_ALIASES_MAX: Final = 256
_HALVING_PERIOD: Final = 8192


class MqttEncoder(Encoder):
    """Writes for MQTT clients of one version; with topic aliases for one connection, else for any that are alike.

    Args:
        mount_bytes: The length of the mountpoint, which the client's topics lack.
    """

    def __init__(self, version: i64, packet_bytes_max: i64, alias_max: i64, mount_bytes: i64) -> None:
        super().__init__(alias_max == 0 and mount_bytes == 0, version != p.V5)  # [MQTT-4.4.0-1]
        self._version = version
        self._packet_bytes_max = packet_bytes_max
        self._mount_bytes = mount_bytes
        # They end with the connection [MQTT-3.3.2-7].
        self._aliases: OutboundAliases | None = OutboundAliases(alias_max) if alias_max > 0 else None

    def put_plain(self, outbox: Outbox, message: Message) -> bool:
        chunk = message.wire(self._version)
        if len(chunk) > self._packet_bytes_max:
            return False
        outbox.put(chunk)
        return True

    def put(self, outbox: Outbox, delivery: Delivery, packet_id: int, is_repeated: bool, now_us: i64) -> str | None:
        """Write a PUBLISH; all but its packet identifier is shared with other receivers where nothing sets it apart."""
        message = delivery.message
        if (
            packet_id == 0
            or is_repeated
            or not self.is_shared
            or delivery.retain
            or delivery.subscription_id != 0
            or message.expiry_s != NEVER
        ):
            return self._put_own(outbox, delivery, packet_id, is_repeated, now_us)
        head, tail = message.head_and_tail(self._version, delivery.qos)
        if len(head) + 2 + len(tail) > self._packet_bytes_max:
            return "too_large"
        outbox.put_pieces(head, UINT16[packet_id], tail)
        return None

    def put_release(self, outbox: Outbox, packet_id: int) -> None:
        outbox.put(encode_ack(p.PUBREL, packet_id, rc.SUCCESS, self._version))

    def _put_own(
        self, outbox: Outbox, delivery: Delivery, packet_id: int, is_repeated: bool, now_us: i64
    ) -> str | None:
        message = delivery.message
        topic = message.publish.topic
        if self._mount_bytes > 0:
            topic = topic[self._mount_bytes :]
            if not topic:  # `#` matches the level above the mountpoint too, which is not the client's
                return "not_authorized"
        known_alias: i64 = 0
        new_alias: i64 = 0
        aliases = self._aliases
        if aliases is not None:
            known_alias = aliases.find(topic)
            if known_alias == 0 and not is_repeated:  # a client may pass over what it has already, alias and all
                new_alias = aliases.assign(topic)
        packet = message.encode(
            self._version,
            delivery.qos,
            delivery.retain,
            is_repeated,
            packet_id,
            delivery.subscription_id,
            now_us,
            topic if known_alias == 0 else b"",
            known_alias + new_alias,
        )
        if len(packet) > self._packet_bytes_max:
            return "too_large"  # [MQTT-3.1.2-24] [MQTT-3.1.2-25]
        if aliases is not None and new_alias != 0:
            aliases.keep(topic, new_alias)
        outbox.put(packet)
        return None


class OutboundAliases:
    """The topic aliases of one connection; gone with it, as the client's memory of them is [MQTT-3.3.2-7].

    Counting decides: a topic that comes a second time gets an alias while one is free; when all are taken, a topic that
    came more often than the least used alias takes it over. Counts are halved now and then, so that what was busy long
    ago does not hold its alias for ever.
    """

    def __init__(self, alias_max: i64) -> None:
        self._alias_max: i64 = min(alias_max, _ALIASES_MAX)
        self._aliases: dict[bytes, int] = {}
        self._counts: dict[bytes, int] = {}
        self._until_halving: i64 = _HALVING_PERIOD
        self._least_count: i64 = 0  # no topic with an alias came less often; looked for only if that could help

    def find(self, topic: bytes) -> int:
        """The alias that the client knows for a topic, or 0; counts that the topic came."""
        if len(topic) <= _TOPIC_BYTES_MAX:
            self._counts[topic] = self._counts.get(topic, 0) + 1
            self._until_halving -= 1
            if self._until_halving <= 0 or len(self._counts) > 8 * _ALIASES_MAX:
                self._halve()
        return self._aliases.get(topic, 0)

    def assign(self, topic: bytes) -> int:
        """A number for a topic without an alias, or 0 if it is not worth one; `keep` it once the packet is sent."""
        count = self._counts.get(topic, 0)
        if count < 2:
            return 0
        if len(self._aliases) < self._alias_max:
            return len(self._aliases) + 1
        if count <= 2 * self._least_count:
            return 0
        least = min(self._aliases, key=self._count)
        self._least_count = self._count(least)
        return self._aliases[least] if count > 2 * self._least_count else 0

    def keep(self, topic: bytes, alias: int) -> None:
        for other, number in self._aliases.items():
            if number == alias:
                del self._aliases[other]
                break
        self._aliases[topic] = alias

    def _count(self, topic: bytes) -> int:
        return self._counts.get(topic, 0)

    def _halve(self) -> None:
        self._until_halving = _HALVING_PERIOD
        self._least_count = 0
        self._counts = {topic: count // 2 for topic, count in self._counts.items() if count > 1}


# Most clients announce nothing, and are alike.
_ORDINARY_V3: Final = MqttEncoder(p.V3_1, PACKET_BYTES_MAX, 0, 0)
_ORDINARY_V3_1_1: Final = MqttEncoder(p.V3_1_1, PACKET_BYTES_MAX, 0, 0)
_ORDINARY_V5: Final = MqttEncoder(p.V5, PACKET_BYTES_MAX, 0, 0)


def mqtt_encoder(version: i64, packet_bytes_max: i64, alias_max: i64 = 0, mount_bytes: i64 = 0) -> MqttEncoder:
    if packet_bytes_max != PACKET_BYTES_MAX or alias_max != 0 or mount_bytes != 0:
        return MqttEncoder(version, packet_bytes_max, alias_max, mount_bytes)
    if version == p.V5:
        return _ORDINARY_V5
    return _ORDINARY_V3_1_1 if version == p.V3_1_1 else _ORDINARY_V3
