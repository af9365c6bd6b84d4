"""One connection to a `World`: every word that it hears is checked against what a broker may say."""

from typing import Final

from fuzz.world import World
from heliograph.mqtt import packets as p
from heliograph.mqtt import properties as props
from heliograph.mqtt.decode import decode_packet, remaining_length
from heliograph.mqtt.errors import ProtocolError
from support.kernel import Peer
from support.packets import decode_all, say

_FROM_BROKER: Final = frozenset(
    (
        p.CONNACK, p.PUBLISH, p.PUBACK, p.PUBREC, p.PUBREL, p.PUBCOMP,
        p.SUBACK, p.UNSUBACK, p.PINGRESP, p.DISCONNECT, p.AUTH,
    )
)  # fmt: skip


class Watched:
    """A client that says anything and listens closely.

    Args:
        version: The version that its packets are made in.
    """

    def __init__(self, world: World, version: int) -> None:
        self.peer: Peer = world.peer(version)
        self.version = version
        self.is_congested = False
        self._world = world
        self._read_at = 0
        self._connect: p.Connect | None = None
        self._has_sent = False
        self._connacks = 0
        self._is_over = False
        self._unacknowledged: set[int] | None = set()  # None when nobody knows any more
        self._aliases: dict[int, bytes] = {}

    @property
    def is_gone(self) -> bool:
        """Whether the connection has ended."""
        return self.peer.lost

    def say(self, data: bytes) -> None:
        """Send bytes."""
        if self.peer.closed() or self.peer.lost:
            return
        self._remember(data)
        self.peer.feed(data)

    def drop(self) -> None:
        """Lose the connection, also one that is stuck."""
        self.peer.wire.stuck = False
        self.peer.drop()

    def congest(self) -> None:
        """Stop reading, or begin again."""
        if not self.peer.lost:
            self.is_congested = not self.is_congested
            self.peer.congest(self.is_congested)

    def check(self) -> None:
        """Look at what came since the last look."""
        written = self.peer.wire.written
        if len(written) == self._read_at:
            return
        data = bytes(written[self._read_at :])
        self._read_at = len(written)
        version = int(self.peer.channel.reader.version)
        for packet in decode_all(data, version):
            self._check_one(packet, version)
        if self._is_over:
            assert self.peer.closed()

    def _check_one(self, packet: p.Packet, version: int) -> None:
        assert not self._is_over, f"{say(packet)} behind DISCONNECT"
        assert packet.kind in _FROM_BROKER, say(packet)
        connect = self._connect
        if isinstance(packet, p.Connack):
            self._connacks += 1
            assert self._connacks == 1, "a second CONNACK"
            if packet.code != 0:
                self._is_over = True
            assert not (packet.code and packet.session_present)
        elif packet.kind == p.AUTH:
            assert connect is not None
            assert props.AUTHENTICATION_METHOD in connect.properties.strings
        else:
            assert self._connacks == 1, f"{say(packet)} before CONNACK"
        if connect is not None and version == p.V5:
            self._check_size(packet, connect)
        if isinstance(packet, p.Publish):
            self._check_publish(packet, version)
        elif isinstance(packet, p.Ack) and version != p.V5:
            assert packet.code == 0
        elif packet.kind == p.DISCONNECT:
            assert version == p.V5
            self._is_over = True

    def _check_size(self, packet: p.Packet, connect: p.Connect) -> None:
        bytes_max = connect.properties.number(props.MAXIMUM_PACKET_SIZE, 0)
        if bytes_max and isinstance(packet, p.Publish):
            assert len(packet.data) <= bytes_max, f"{len(packet.data)} bytes for a client that takes {bytes_max}"

    def _check_publish(self, packet: p.Publish, version: int) -> None:
        topic = packet.topic
        if version == p.V5:
            named = props.properties_from_wire(packet.property_bytes, props.ALLOWED_PUBLISH_TO_CLIENT)
            alias = named.numbers.get(props.TOPIC_ALIAS, 0)
            if alias:
                assert self._connect is not None
                assert alias <= self._connect.properties.number(props.TOPIC_ALIAS_MAXIMUM, 0)
                topic = topic or self._aliases[alias]
                self._aliases[alias] = topic
        assert topic, "a PUBLISH without a topic"
        text = topic.decode("utf-8")
        assert "+" not in text
        assert "#" not in text
        unacknowledged = self._unacknowledged
        if not packet.qos or unacknowledged is None:
            return
        packet_id = int(packet.packet_id)
        assert packet.dup or packet_id not in unacknowledged, f"{say(packet)} is in use"
        unacknowledged.add(packet_id)
        most = 65_535
        if self._connect is not None and version == p.V5:
            most = self._connect.properties.number(props.RECEIVE_MAXIMUM, most)
        assert len(unacknowledged) <= min(most, self._world.options.session.max_inflight)

    def _remember(self, data: bytes) -> None:
        """What the client says frees packet identifiers, as far as it can be understood."""
        at = count = 0
        try:
            while at < len(data):
                length, body = remaining_length(data, at + 1, len(data))
                if length < 0 or body + length > len(data):
                    self._unacknowledged = None
                    return
                packet = decode_packet(data, at, body, body + length, self.version)
                at = body + length
                count += 1
                if isinstance(packet, p.Connect) and not self._has_sent:
                    self._connect = packet
                    self.version = packet.version
                self._has_sent = True
                if isinstance(packet, p.Ack):
                    self._free(packet, is_alone=count == 1 and at == len(data))
        except ProtocolError:
            self._has_sent = True
            self._unacknowledged = None

    def _free(self, packet: p.Ack, *, is_alone: bool) -> None:
        if not is_alone:
            # Between it and the packets beside it the broker may have used the identifier again.
            self._unacknowledged = None
        elif self._unacknowledged is not None and (packet.kind in (p.PUBACK, p.PUBCOMP) or packet.code >= 0x80):
            self._unacknowledged.discard(packet.packet_id)
