"""Conversations in bytes with a broker: what a client says and hears, in the notation of `support.wire`.

One notation serves both versions of the protocol: `{...}` (properties) and `<...>` are there for MQTT 5 only.
"""

import re
from typing import Final

from heliograph.channel.options import ChannelOptions
from heliograph.mqtt import packets as p
from heliograph.mqtt.properties import Properties
from heliograph.session.options import SessionOptions
from support.cases import cases
from support.kernel import Kernel
from support.packets import decode_all, say
from support.wire import wire

_ONLY_V5: Final = re.compile(r"\{[^{}]*\}|<[^<>]*>")

V3: Final = p.V3_1_1
V5: Final = p.V5
both_versions = cases("version", [V3, V5], ids=["3.1.1", "5"])


def encoded(notation: str, version: int) -> bytes:
    """The bytes of a notation in one version of the protocol."""
    mine = notation.translate({ord("<"): " ", ord(">"): " "}) if version == V5 else _ONLY_V5.sub("", notation)
    return wire(mine)


class World:
    """A broker whose clients speak one version of the protocol."""

    def __init__(
        self,
        version: int = V5,
        options: ChannelOptions | None = None,
        session: SessionOptions | None = None,
        *,
        stored: tuple[str, ...] = (),
    ) -> None:
        self.version = version
        self.kernel = Kernel(options, session, stored=stored)

    def client(self) -> "Client":
        """A client with a connection that has said nothing yet."""
        return Client(self)

    def connect(
        self,
        clientid: str = "c",
        *,
        clean: bool = True,
        kept: bool = False,
        keepalive_s: int = 0,
        properties: str = "",
        will: str = "",
        flags: int = 0,
        rest: str = "",
    ) -> "Client":
        """A client that was let in; see `Client.connect`."""
        client = Client(self)
        client.connect(
            clientid,
            clean=clean,
            kept=kept,
            keepalive_s=keepalive_s,
            properties=properties,
            will=will,
            flags=flags,
            rest=rest,
        )
        assert client.connack.code == 0, f"refused with 0x{client.connack.code:02x}"
        return client

    def subscriber(self, topic_filter: str = "t", qos: int = 0, clientid: str = "sub") -> "Client":
        """A client that is subscribed to a filter."""
        client = self.connect(clientid)
        client.subscribes(topic_filter, qos)
        return client

    def advance(self, seconds: float) -> None:
        """Let time pass."""
        self.kernel.advance(seconds)


class Client:
    """One client and its connection, in bytes."""

    def __init__(self, world: World) -> None:
        self.version = world.version
        self.peer = world.kernel.peer(world.version)
        self.connack = p.Connack(False, 0, Properties())
        self._read_at = 0

    def says(self, *notations: str) -> None:
        """Send packets, all in one piece."""
        self.peer.send_bytes(b"".join(encoded(notation, self.version) for notation in notations))

    def heard(self) -> bytes:
        """The bytes that came since the last look."""
        data = bytes(self.peer.wire.written[self._read_at :])
        self._read_at += len(data)
        return data

    def hears(self, *notations: str) -> None:
        """Check that exactly these packets came since the last look."""
        heard, expected = self.heard(), b"".join(encoded(notation, self.version) for notation in notations)
        assert heard == expected, f"{heard.hex(' ')} came; {expected.hex(' ')} was expected"

    def packets(self) -> list[p.Packet]:
        """The packets that came since the last look."""
        return decode_all(self.heard(), self.version)

    def words(self) -> list[str]:
        """The packets that came since the last look, in words."""
        return [say(packet) for packet in self.packets()]

    def takes_all(self, qos: int) -> list[bytes]:
        """Acknowledge messages of one QoS until nothing more comes: their payloads."""
        payloads: list[bytes] = []
        while packets := self.packets():
            for packet in packets:
                if isinstance(packet, p.Publish):
                    payloads.append(packet.payload)
                    self.says(f"{0x30 + 0x10 * qos:02x} # {packet.packet_id:04x}") if qos else None
                elif isinstance(packet, p.Ack):
                    self.says(f"70 # {packet.packet_id:04x}")
        return payloads

    def publishes(self) -> list[p.Publish]:
        """The packets that came since the last look, all of which must be PUBLISH."""
        packets = self.packets()
        found = [packet for packet in packets if isinstance(packet, p.Publish)]
        assert len(found) == len(packets), [say(packet) for packet in packets]
        return found

    def publish(self) -> p.Publish:
        """The one packet that came since the last look, a PUBLISH."""
        (packet,) = self.publishes()
        return packet

    def is_closed(self) -> bool:
        """Whether the broker closed the connection."""
        return self.peer.closed()

    def ends(self, *codes: int) -> None:
        """Check that the broker closed the connection, in MQTT 5 with a DISCONNECT that has one of these codes."""
        assert self.is_closed()
        packets = self.packets()
        if self.version != V5:
            assert packets == []
            return
        (packet,) = packets
        assert isinstance(packet, p.Disconnect)
        assert packet.code in codes, f"0x{packet.code:02x}"

    def goes_on(self) -> None:
        """Check that the connection stands and that nothing came but the answer to a ping."""
        assert not self.is_closed()
        self.says("c0 #")
        self.hears("d0 #")

    def connect(
        self,
        clientid: str = "c",
        *,
        clean: bool = True,
        kept: bool = False,
        keepalive_s: int = 0,
        properties: str = "",
        will: str = "",
        flags: int = 0,
        rest: str = "",
    ) -> None:
        """Send CONNECT and read the CONNACK.

        Args:
            kept: Whether the session outlives the connection; in MQTT 3 that is the want of a clean session.
            properties: Those of MQTT 5, in notation.
            will: Will properties, topic and payload, in notation; `flags` then has the will's QoS and retain too.
            flags: Connect flags beside clean start and will.
            rest: What follows the will, in notation.
        """
        is_clean = clean and not (kept and self.version != V5)
        if kept:
            properties += " 11 000003e8"
        flags |= (0x02 if is_clean else 0) | (0x04 if will else 0)
        head = f'10 # "MQTT" {self.version:02x} {flags:02x} {keepalive_s:04x}'
        self.says(f'{head} {{ {properties} }} "{clientid}" {will} {rest}')
        self.reads_connack()

    def reads_connack(self) -> None:
        """Take the CONNACK out of what came; what stands behind it is left to read."""
        data = self.heard()
        assert data[:1] == b"\x20", f"{data.hex(' ')} begins with no CONNACK"
        length = 2 + data[1]
        (packet,) = decode_all(data[:length], self.version)
        assert isinstance(packet, p.Connack)
        self.connack = packet
        self._read_at -= len(data) - length

    def subscribes(self, topic_filter: str, qos: int = 0, properties: str = "", *, packet_id: int = 0xFFFF) -> None:
        """Subscribe to one filter, which must be granted at that QoS."""
        self.says(f'82 # {packet_id:04x} {{ {properties} }} "{topic_filter}" {qos:02x}')
        self.hears(f"90 # {packet_id:04x} {{}} {qos & 3:02x}")

    def drops(self) -> None:
        """Lose the connection without a word."""
        self.peer.drop()
