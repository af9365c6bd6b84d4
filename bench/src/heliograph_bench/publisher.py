"""The publishing client, without I/O: bursts of one message, its packet ids, and their acknowledgements."""

from collections import deque
from typing import Final

from heliograph.mqtt.errors import MalformedPacketError, ProtocolError
from heliograph.mqtt.properties import encode_string
from heliograph_bench import packets
from heliograph_bench.clients import TIMESTAMP_BYTES, Client, Login
from heliograph_bench.latency import Latencies
from heliograph_bench.runs import IDS_MAX, acknowledgements, id_after, id_columns, id_sequence, run_length

UNLIMITED: Final = 1 << 62

_ACKS: Final = ((), (packets.PUBACK,), (packets.PUBREC, packets.PUBCOMP))  # what a publisher of each QoS gets


class Publisher(Client):
    """Publishes one message again and again; every burst carries the time of its making in its payloads.

    At QoS 1 and 2 it keeps to its window, and its packet ids go round from 1 to 65535, so that the acknowledgements
    of a broker that answers in order [MQTT-4.6.0-2] are one comparison per burst. Others are sorted out one by one. A
    single message and a single PUBACK have short cuts: with thousands of clients of small windows there is little else.

    Args:
        latencies: Where to record how long the acknowledgement of each message took; of those that come out of order,
            the first is taken for that of the oldest message.
    """

    def __init__(
        self,
        login: Login,
        topic: str,
        payload_bytes: int,
        qos: int,
        window: int,
        retain: bool = False,
        latencies: Latencies | None = None,
    ) -> None:
        super().__init__(login, qos=qos)
        self.sent = 0
        self.acked = 0
        self.rejected = 0
        self._window = min(window, IDS_MAX - 1)
        self._inflight = 0
        self._next_id = 1
        self._oldest = 1
        self._early: set[int] = set()  # acknowledged before an older one
        self._latencies = latencies
        self._bursts: deque[tuple[int, int]] = deque()  # when they were made, and how many of each are unacknowledged
        id_bytes = b"\0\0" if qos else b""
        properties = b"\0" if self.version == packets.V5 else b""
        head = encode_string(topic) + id_bytes + properties
        wire = packets.packet(packets.PUBLISH | (qos << 1) | int(retain), head + bytes(payload_bytes))
        self.packet_bytes = len(wire)
        self._head = wire[: len(wire) - payload_bytes]
        self._tail = wire[len(self._head) + TIMESTAMP_BYTES :]
        self._id_at = len(self._head) - len(properties) - len(id_bytes)
        self._before_id = self._head[: self._id_at]
        self._after_id = properties

    @property
    def room(self) -> int:
        if not self.qos:
            return UNLIMITED
        window = min(self._window, self.limits.receive_maximum)
        return min(window - self._inflight, IDS_MAX - 1 - self._inflight - len(self._early))

    @property
    def settled(self) -> bool:
        return self._inflight == 0

    def publish(self, count: int, timestamp_us: int) -> bytes:
        """The next `count` messages (at most `room`), stamped with one time."""
        self.sent += count
        stamp = timestamp_us.to_bytes(TIMESTAMP_BYTES, "big")
        if not self.qos:
            return (self._head + stamp + self._tail) * count
        if self._latencies is not None:
            self._bursts.append((timestamp_us, count))
        if count == 1:
            packet_id = self._next_id
            self._next_id = packet_id % IDS_MAX + 1
            self._inflight += 1
            return self._before_id + packet_id.to_bytes(2, "big") + self._after_id + stamp + self._tail
        high, low = id_sequence(self._next_id, count)
        self._next_id = id_after(self._next_id, count)
        self._inflight += count
        rows = bytearray((self._head + stamp + self._tail) * count)
        rows[self._id_at :: self.packet_bytes] = high
        rows[self._id_at + 1 :: self.packet_bytes] = low
        return bytes(rows)

    def receive(self, data: bytes, now_us: int) -> bytes:
        """As `Client.receive`, with a short cut for the one PUBACK that is expected next."""
        if (
            len(data) == 4
            and data[0] == packets.PUBACK
            and ((data[2] << 8) | data[3]) == self._oldest
            and self._inflight
            and self.qos == 1
            and self._latencies is None
            and not self._early
            and not self._rest
        ):
            self._oldest = self._oldest % IDS_MAX + 1
            self._inflight -= 1
            self.acked += 1
            self.last_us = now_us
            return b""
        return super().receive(data, now_us)

    def _on_packets(self, data: bytes, at: int, length: int, body: int, now_us: int) -> int:
        kind = data[at]
        if kind not in _ACKS[self.qos]:
            return super()._on_packets(data, at, length, body, now_us)
        if length < 4:
            raise MalformedPacketError(f"an acknowledgement of {length} bytes; at least 4 are needed")
        code = data[at + body + 2] if length > body + 2 else 0
        shape = (1,) if length == 4 else (1, 4)  # of a longer one, the reason code
        count = run_length(data, at, length, shape) if body == 2 and len(data) >= at + 2 * length else 1
        high, low = id_columns(data, at, length, count, body)
        if kind == packets.PUBREC and code < 0x80:
            self._out.append(acknowledgements(packets.PUBREL, high, low))
        else:
            self._release(high, low)
            self.acked += count
            if self._latencies is not None:
                self._date(self._latencies, count, now_us)
            if code >= 0x80:
                self.rejected += count
        self.last_us = now_us
        return count * length

    def _release(self, high: bytes, low: bytes) -> None:
        count = len(high)
        if count > self._inflight:
            raise ProtocolError(f"{count} acknowledgements for {self._inflight} messages in flight")
        if (high, low) == id_sequence(self._oldest, count) and not self._early:
            self._oldest = id_after(self._oldest, count)
            self._inflight -= count
            return
        for upper, lower in zip(high, low, strict=True):
            self._release_one((upper << 8) | lower)

    def _date(self, latencies: Latencies, count: int, now_us: int) -> None:
        """Record the age of the oldest unacknowledged messages, which now are."""
        while count > 0 and self._bursts:
            made_us, left = self._bursts.popleft()
            taken = min(left, count)
            latencies.record(max(now_us - made_us, 0), taken)
            if left > taken:
                self._bursts.appendleft((made_us, left - taken))
            count -= taken

    def _release_one(self, packet_id: int) -> None:
        if (packet_id - self._oldest) % IDS_MAX >= self._inflight + len(self._early) or packet_id in self._early:
            raise ProtocolError(f"an acknowledgement for packet id {packet_id}, which is not in flight")
        self._inflight -= 1
        self._early.add(packet_id)
        while self._oldest in self._early:
            self._early.remove(self._oldest)
            self._oldest = id_after(self._oldest, 1)
