"""The subscribing client, without I/O: counts, dates and acknowledges what arrives."""

from heliograph_bench import packets
from heliograph_bench.clients import TIMESTAMP_BYTES, Client, Login
from heliograph_bench.latency import Latencies
from heliograph_bench.packets import PublishLayout
from heliograph_bench.runs import acknowledgements, ages, id_columns, run_length


class Receiver(Client):
    """Counts what arrives, takes its age from the payload, and acknowledges it.

    One message alone that looks like the last one takes a short cut; see `Publisher`.
    """

    def __init__(self, login: Login, topic_filters: list[str], qos: int, latencies: Latencies) -> None:
        super().__init__(login, topic_filters, qos)
        self.received = 0
        self.first_us = 0  # when the first message came in
        self._latencies = latencies
        self._layouts: dict[bytes, PublishLayout] = {}
        self._usual = PublishLayout(
            0, 0, 0, (), False
        )  # the last cacheable layout of QoS 0 or 1, how its message begins,
        self._usual_head = b""
        self._usual_length = -1  # and how long it is

    def receive(self, data: bytes, now_us: int) -> bytes:
        """As `Client.receive`, with a short cut for one message of the usual shape."""
        if len(data) != self._usual_length or self._rest or not data.startswith(self._usual_head):
            return super().receive(data, now_us)
        usual = self._usual
        payload = usual.payload
        if self.version == packets.V5 and data[payload - 1]:
            return super().receive(data, now_us)
        self.received += 1
        self.last_us = now_us
        for age, times in ages(data, 0, self._usual_length, 1, payload, now_us):
            self._latencies.record(age, times)
        return b"\x40\x02" + data[usual.packet_id : usual.packet_id + 2] if usual.qos else b""

    def _on_packets(self, data: bytes, at: int, length: int, body: int, now_us: int) -> int:
        header = data[at]
        if header & 0xF0 == packets.PUBLISH:
            return self._on_publish(data, at, length, body, now_us)
        if header == packets.PUBREL:
            count = run_length(data, at, length, (1,)) if length == 4 else 1
            self._out.append(acknowledgements(packets.PUBCOMP, *id_columns(data, at, length, count, body)))
            return count * length
        return super()._on_packets(data, at, length, body, now_us)

    def _on_publish(self, data: bytes, at: int, length: int, body: int, now_us: int) -> int:
        layout = self._layout(data, at, length, body)
        count = run_length(data, at, length, layout.shape) if len(data) >= at + 2 * length else 1
        if layout.payload + TIMESTAMP_BYTES <= length:
            for age, times in ages(data, at, length, count, layout.payload, now_us):
                self._latencies.record(age, times)
        if layout.qos:
            ack = packets.PUBACK if layout.qos == 1 else packets.PUBREC
            self._out.append(acknowledgements(ack, *id_columns(data, at, length, count, layout.packet_id)))
        if not self.received:
            self.first_us = now_us
        self.received += count
        self.last_us = now_us
        return count * length

    def _layout(self, data: bytes, at: int, length: int, body: int) -> PublishLayout:
        """The layout of the PUBLISH at `at`, kept by the bytes that decide it."""
        key = data[at : at + body + 2]
        layout = self._layouts.get(key)
        if layout is not None and (self.version != packets.V5 or data[at + layout.payload - 1] == 0):
            return layout
        layout = PublishLayout.of(data, at, length, body, self.version)
        if layout.cacheable:
            self._layouts[key] = layout
            if layout.qos < 2 and layout.payload + TIMESTAMP_BYTES <= length:
                self._usual, self._usual_head, self._usual_length = layout, key, length
        return layout
