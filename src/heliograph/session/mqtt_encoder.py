"""The MQTT encoding of what a session sends: PUBLISH and PUBREL packets, topic aliases, the client's packet limit."""

from typing import Final

from mypy_extensions import i64

from heliograph.broker.message import NEVER, Message
from heliograph.mqtt import packets as p
from heliograph.mqtt import reason_codes as rc
from heliograph.mqtt.encode import UINT16, alias_property, encode_ack
from heliograph.session.encoder import Encoder
from heliograph.session.mqueue import Delivery
from heliograph.session.outbox import Outbox

PACKET_BYTES_MAX: Final = 268_435_460

# Longer topics are worth an alias too, but what one client can make us remember must stay small.
_TOPIC_BYTES_MAX: Final = 1024
_COUNTED_MAX: Final = 2048
_HALVING_PERIOD: Final = 8192


class MqttEncoder(Encoder):
    """Writes for MQTT clients of one version; with topic aliases for one connection, else for any that are alike.

    Args:
        mount_bytes: The length of the mountpoint, which the client's topics lack.
    """

    def __init__(self, version: i64, packet_bytes_max: i64, alias_max: i64, mount_bytes: i64) -> None:
        super().__init__(mount_bytes == 0, version != p.V5)  # [MQTT-4.4.0-1]
        self._version = version
        self._packet_bytes_max = packet_bytes_max
        self._mount_bytes = mount_bytes
        # They end with the connection [MQTT-3.3.2-7].
        self._aliases: OutboundAliases | None = OutboundAliases(alias_max) if alias_max > 0 else None

    def put_plain(self, outbox: Outbox, message: Message) -> bool:
        aliases = self._aliases
        if aliases is not None:
            topic = message.publish.topic
            known_alias: i64 = aliases.find(topic)
            if known_alias != 0:
                return self._put_aliased(outbox, message, 0, b"", known_alias)
            new_alias: i64 = aliases.assign(topic)
            if new_alias != 0:
                packet = message.encode(self._version, 0, False, False, 0, 0, message.id_high, topic, new_alias)
                if len(packet) <= self._packet_bytes_max:
                    aliases.keep(topic, new_alias)
                    outbox.put(packet)
                    return True
        chunk = message.wire(self._version)
        if len(chunk) > self._packet_bytes_max:
            return False
        outbox.put(chunk)
        return True

    def put(self, outbox: Outbox, delivery: Delivery, packet_id: int, is_repeated: bool, now_us: i64) -> str | None:
        """Write a PUBLISH; all but its packet identifier and alias is shared with other receivers where nothing sets
        it apart.
        """
        message = delivery.message
        topic = message.publish.topic
        if self._mount_bytes > 0:
            topic = topic[self._mount_bytes :]
            if not topic:  # `#` matches the level above the mountpoint too, which is not the client's
                return "not_authorized"
        known_alias: i64 = 0
        aliases = self._aliases
        if aliases is not None:
            known_alias = aliases.find(topic)
            if known_alias == 0 and not is_repeated:  # a client may pass over what it has already, alias and all
                new_alias: i64 = aliases.assign(topic)
                if new_alias != 0 and self._put_own(outbox, delivery, packet_id, False, now_us, topic, new_alias):
                    aliases.keep(topic, new_alias)
                    return None
        if (
            is_repeated
            or self._mount_bytes > 0
            or delivery.retain
            or delivery.subscription_id != 0
            or message.expiry_s != NEVER
            or (packet_id == 0 and known_alias == 0)
        ):
            name = topic if known_alias == 0 else b""
            is_put = self._put_own(outbox, delivery, packet_id, is_repeated, now_us, name, known_alias)
            return None if is_put else "too_large"
        if known_alias != 0:
            identifier = UINT16[packet_id] if packet_id != 0 else b""
            return None if self._put_aliased(outbox, message, delivery.qos, identifier, known_alias) else "too_large"
        head, tail = message.head_and_tail(self._version, delivery.qos)
        if len(head) + 2 + len(tail) > self._packet_bytes_max:
            return "too_large"
        outbox.put_pieces(head, UINT16[packet_id], tail)
        return None

    def put_release(self, outbox: Outbox, packet_id: int) -> None:
        outbox.put(encode_ack(p.PUBREL, packet_id, rc.SUCCESS, self._version))

    def _put_aliased(self, outbox: Outbox, message: Message, qos: i64, identifier: bytes, alias: i64) -> bool:
        """Write a message without its topic; False if it is too large."""
        head, tail = message.aliased_head_and_tail(qos)
        own = identifier + alias_property(len(message.publish.property_bytes), alias)
        if len(head) + len(own) + len(tail) > self._packet_bytes_max:
            return False
        outbox.put_pieces(head, own, tail)
        return True

    def _put_own(
        self,
        outbox: Outbox,
        delivery: Delivery,
        packet_id: int,
        is_repeated: bool,
        now_us: i64,
        topic: bytes,
        alias: i64,
    ) -> bool:
        """Write a PUBLISH that is shared with no other receiver; False if it is too large."""
        packet = delivery.message.encode(
            self._version,
            delivery.qos,
            delivery.retain,
            is_repeated,
            packet_id,
            delivery.subscription_id,
            now_us,
            topic,
            alias,
        )
        if len(packet) > self._packet_bytes_max:
            return False  # [MQTT-3.1.2-24] [MQTT-3.1.2-25]
        outbox.put(packet)
        return True


class OutboundAliases:
    """The topic aliases of one connection; gone with it, as the client's memory of them is [MQTT-3.3.2-7].

    Counting decides: a topic that comes a second time gets an alias while one is free; when all are taken, a topic that
    came more often than the least used alias takes it over. Counts are halved now and then, so that what was busy long
    ago does not hold its alias for ever.
    """

    def __init__(self, alias_max: i64) -> None:
        self._alias_max: i64 = alias_max
        self._aliases: dict[bytes, int] = {}
        self._counts: dict[bytes, int] = {}
        self._until_halving: i64 = _HALVING_PERIOD
        self._least_count: i64 = 0  # no topic with an alias came less often; looked for only if that could help

    def find(self, topic: bytes) -> int:
        """The alias that the client knows for a topic, or 0; counts that the topic came."""
        if len(topic) <= _TOPIC_BYTES_MAX:
            self._counts[topic] = self._counts.get(topic, 0) + 1
            self._until_halving -= 1
            if self._until_halving <= 0 or len(self._counts) > _COUNTED_MAX:
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
