"""How what a client publishes is answered: at once, after the commit of its message, or when a callback has it.

What becomes of a message is decided in `publishing`, and acknowledgements that wait are in `acks`.
"""

from mypy_extensions import i64

from heliograph.broker.durable_sink import NOT_STORED
from heliograph.broker.faults import CONNECTIONS
from heliograph.broker.guid import IdSource
from heliograph.broker.pending import Pending
from heliograph.channel import answers
from heliograph.channel.acks import PendingAcks, put_ack
from heliograph.channel.context import ChannelContext
from heliograph.channel.conversation import ConnectedClient
from heliograph.channel.options import ChannelOptions
from heliograph.channel.reader import CONNECTED, Reader
from heliograph.mqtt import packets as p
from heliograph.mqtt import reason_codes as rc
from heliograph.mqtt.encode import UINT16, encode_ack
from heliograph.mqtt.errors import ProtocolError
from heliograph.session.outbox import Outbox


class PublishAnswers:
    """Answers what one client publishes; its only subclass is `Publishing`, one object with it, as for each client.

    Args:
        reader: Reads its packets.
        ids: Where its messages get their ids.
        connected: Whose messages they are.
    """

    def __init__(
        self,
        context: ChannelContext,
        options: ChannelOptions,
        reader: Reader,
        outbox: Outbox,
        ids: IdSource,
        connected: ConnectedClient,
    ) -> None:
        self._context = context
        self._broker = context.broker
        self._options = options
        self._session = connected.session
        self._outbox = outbox
        self._reader = reader
        self._ids = ids
        self._version: i64 = connected.client.version
        self._connected = connected
        self._joined = False  # other databases keep the message that is handled now too
        self._acks: PendingAcks | None = None  # made when the first acknowledgement must wait

    def on_tick(self, uptime_us: i64) -> None:
        """Time has passed."""
        if self._acks is not None and self._acks.deferred_count > 0:
            self._acks.expire(uptime_us)

    def leave(self) -> None:
        """The client is gone; what waits for commits still does."""
        if self._acks is not None and self._acks.deferred_count > 0:
            self._acks.cancel()

    def _answer(self, publish: p.Publish, ticket: i64, code: int) -> None:
        tracers = self._broker.tracer
        packet_id: int = publish.packet_id
        kind: i64 = p.PUBACK
        if publish.qos == 2:
            kind = p.PUBREC
            self._session.awaiting_rel.add(packet_id, ticket, self._broker.uptime_us, self._ids.last_low())
        if self._version == p.V5 and code != rc.SUCCESS:
            self._acknowledge(encode_ack(kind, packet_id, code, p.V5), ticket)
        elif (
            ticket == NOT_STORED
            and (self._acks is None or not self._acks)
            and (tracers is None or not tracers.is_current)
        ):
            if kind == p.PUBACK:
                self._broker.counters.puback_sent += 1
            else:
                self._broker.counters.pubrec_sent += 1
            self._outbox.put_pair(UINT16[(kind << 12) | 2], UINT16[packet_id])
        else:
            self._acknowledge(UINT16[(kind << 12) | 2] + UINT16[packet_id], ticket)

    def _refuse_now(self, publish: p.Publish, code: int) -> None:
        """Answer a PUBLISH that storage or the retainer refuses, before delivery.

        Raises:
            ProtocolError: In MQTT 3, which has no refusal, and whose clients repeat what is not acknowledged.
        """
        if self._version != p.V5:
            raise ProtocolError("storage refused a message", code)
        kind: i64 = p.PUBACK if publish.qos == 1 else p.PUBREC
        ack = UINT16[(kind << 12) | 2] + UINT16[publish.packet_id]
        reason = self._broker.refusal_reason if self._connected.wants_reasons else ""
        self._acknowledge(answers.refused(ack, code, reason, self._connected.packet_bytes_max), NOT_STORED)

    def _acknowledge(self, ack: bytes, ticket: i64) -> None:
        acks, tracers = self._acks, self._broker.tracer
        if tracers is not None and tracers.is_current:
            tracers.on_answer(ack, ticket)
        if ticket == NOT_STORED and (acks is None or not acks):
            put_ack(self._outbox, self._broker.counters, ack)
            return
        self._pending_acks().add(ticket, ack, ticket != NOT_STORED and self._joined)

    def _defer(self, publish: p.Publish, done: Pending[int], ticket: i64) -> None:
        """Answer a PUBLISH when the callback that took its message says what became of it."""
        acks = self._pending_acks()
        uptime_us = self._broker.uptime_us
        if self._reader.state != CONNECTED:  # a callback ended it
            self._give_up(done)
            return
        try:
            acks.check_room()
        except ProtocolError:
            self._give_up(done)
            raise
        if done.due_us == 0:
            done.due_us = self._options.due_us(uptime_us)
        kind: i64 = p.PUBACK
        if publish.qos == 2:
            kind = p.PUBREC
            self._session.awaiting_rel.add(publish.packet_id, ticket, uptime_us, self._ids.last_low())
        acks.defer(done, UINT16[(kind << 12) | 2] + UINT16[publish.packet_id], ticket, self._joined)

    def _give_up(self, done: Pending[int]) -> None:
        """Drop the answer about a message that a callback took."""
        self._broker.faults.run(CONNECTIONS, done.cancel)

    def _pending_acks(self) -> PendingAcks:
        acks = self._acks
        if acks is None:
            acks = PendingAcks(self._context, self._reader, self._outbox, self._connected)
            self._acks = acks
        return acks
