"""Load clients without I/O: they take bytes and the time, answer with bytes, and count.

`Client` does what all of them share: connecting, subscribing, cutting the stream into packets. `publisher` and
`subscriber` hold what they do with a run of packets; who is connected to what, and when to publish, is the driver's
business.
"""

from dataclasses import dataclass
from typing import Final

from heliograph.mqtt.errors import ProtocolError
from heliograph_bench import packets
from heliograph_bench.packets import GrantedLimits
from heliograph_bench.runs import packet_length

TIMESTAMP_BYTES: Final = 8  # at the beginning of every payload

_FILTERS_PER_SUBSCRIBE: Final = 50
_HANDSHAKE: Final = (packets.CONNACK, packets.SUBACK, packets.DISCONNECT)


@dataclass(frozen=True)
class Login:
    """How a client introduces itself.

    Args:
        session_expiry_s: How long its session is to outlive the connection; with any, a session that is there already
            is resumed.
    """

    clientid: str
    version: int = packets.V3_1_1
    keepalive_s: int = 60
    username: str | None = None
    password: str | None = None
    session_expiry_s: int = 0


class Client:
    """One connection's conversation, from CONNECT to the last byte; owned by the driver's link of that connection.

    It connects, subscribes to `topic_filters` if there are any, is then `ready`, and leaves what follows to its
    subclass. By itself it is an idle client.
    """

    def __init__(self, login: Login, topic_filters: list[str] | None = None, qos: int = 0) -> None:
        self.clientid = login.clientid
        self.version = login.version
        self.qos = qos
        self.limits = GrantedLimits()
        self.ready = False
        self.resumed = False  # the broker had a session of this client
        self.farewell: str | None = None  # why the broker said that it will close
        self.last_us = 0  # when the last message or acknowledgement came in
        self.pong_us = 0
        self._login = login
        self._filters = topic_filters or []
        self._connected = False
        self._granted = 0
        self._rest = b""
        self._out: list[bytes] = []

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.clientid!r}, ready={self.ready})"

    def connect(self) -> bytes:
        """The CONNECT that opens the conversation."""
        login = self._login
        return packets.connect(
            login.clientid, login.version, login.keepalive_s, login.username, login.password, login.session_expiry_s
        )

    def receive(self, data: bytes, now_us: int) -> bytes:
        """Handle what the broker sent; the bytes to answer with, b"" if none.

        Args:
            data: Any number of packets, cut anywhere.

        Raises:
            RefusedError: The broker refused the connection or a subscription.
            ProtocolError: The broker sent what no broker may send.
        """
        if self._rest:
            data = self._rest + data
        at, end = 0, len(data)
        while end - at >= 2:
            length, body = packet_length(data, at, end)
            if not length or length > end - at:
                break
            if self.ready or (self._connected and data[at] not in _HANDSHAKE):  # a first filter may match at once
                at += self._on_packets(data, at, length, body, now_us)
            else:
                self._on_handshake(data[at], data[at + body : at + length])
                at += length
        self._rest = data[at:]
        if not self._out:
            return b""
        answer = self._out[0] if len(self._out) == 1 else b"".join(self._out)
        self._out.clear()
        return answer

    def _on_handshake(self, header: int, body: bytes) -> None:
        """CONNACK, then SUBACKs until every filter is granted."""
        if header == packets.CONNACK and not self._connected:
            self.limits = packets.read_connack(body, self.version)
            if self.limits.maximum_qos < self.qos:
                raise packets.BrokerRefusedError(f"the broker allows QoS {self.limits.maximum_qos} at most")
            self._connected = True
            self.resumed = body[0] == 1
            self._subscribe()
        elif header == packets.SUBACK and self._connected:
            self._granted += packets.read_suback(body, self.version, self.qos)
        elif header == packets.DISCONNECT:
            self.farewell = packets.read_disconnect(body)
        else:
            raise ProtocolError(f"packet type {header >> 4} during the handshake")
        self.ready = self._connected and self._granted == len(self._filters)

    def _subscribe(self) -> None:
        for number, first in enumerate(range(0, len(self._filters), _FILTERS_PER_SUBSCRIBE), start=1):
            filters = self._filters[first : first + _FILTERS_PER_SUBSCRIBE]
            self._out.append(packets.subscribe(number, filters, self.qos, self.version))

    def _on_packets(self, data: bytes, at: int, length: int, body: int, now_us: int) -> int:
        """Handle the complete packet at `at` and, if it can, those of its run; how many bytes that were."""
        header = data[at]
        if header == packets.PINGRESP:
            self.pong_us = now_us
        elif header == packets.DISCONNECT:
            self.farewell = packets.read_disconnect(data[at + body : at + length])
        else:
            raise ProtocolError(
                f"the broker sent {type(self).__name__.lower()} {self.clientid} packet type {header >> 4}"
            )
        return length
