"""SUBSCRIBE and UNSUBSCRIBE, from the packet to its answer."""

from collections.abc import Callable
from typing import Final

from mypy_extensions import i64

from heliograph.channel import answers
from heliograph.channel.context import ChannelContext
from heliograph.channel.filter_work import FilterWork, subscribe_work, unsubscribe_work
from heliograph.channel.reader import FILTERS, Reader
from heliograph.channel.subscribing import Subscribing
from heliograph.mqtt import packets as p
from heliograph.mqtt import reason_codes as rc
from heliograph.mqtt.decode import decode_entries, decode_topic_filters
from heliograph.mqtt.errors import ProtocolError
from heliograph.session.outbox import Outbox

# Topic filters of a packet that are decoded in one go, and what one costs, in deliveries.
DECODED_AT_ONCE: Final = 1024
_DECODE_WORK: Final = 8


class FilterRequest:
    """One SUBSCRIBE or UNSUBSCRIBE; held by the channel until it is answered, and nothing overtakes it.

    Args:
        done: Gets the reason codes of a SUBSCRIBE that the client did not send, in the place of a SUBACK.
    """

    def __init__(
        self,
        context: ChannelContext,
        reader: Reader,
        outbox: Outbox,
        subscribing: Subscribing,
        packet: p.Subscribe | p.Unsubscribe,
        data: bytes,
        stop: i64,
        done: Callable[[list[int]], None] | None = None,
    ) -> None:
        self._context = context
        self._reader = reader
        self._outbox = outbox
        self._subscribing = subscribing
        self._packet = packet
        self._data = data
        self._stop: i64 = stop
        self._done = done
        self._work: FilterWork | None = None  # when all filters are decoded
        if done is not None:
            pass
        elif isinstance(packet, p.Subscribe):
            subscribing.broker.counters.subscribe_received += 1
        else:
            subscribing.broker.counters.unsubscribe_received += 1
        if subscribing.broker.tracer is not None:
            subscribing.broker.tracer.on_filters(subscribing.connected.client, packet)

    def go_on(self) -> bool:
        """Take as many filters as the turn allows, and answer when all are done.

        Returns:
            Whether it was answered. Otherwise its reader is paused until the conversation is to go on.
        """
        work = self._work
        if work is None:
            work = self._decode()
            self._work = work
        if work is None:
            self._reader.hold(FILTERS)
            self._reader.wait_for_turn()
            return False
        is_done = work.advance(self._context.turns.work_max)
        if self._subscribing.has_ended:  # a callback ended it: it is answered nothing any more
            self.cancel()
            return True
        if not is_done:
            self._reader.hold(FILTERS)
            if work.awaited is None:
                self._reader.wait_for_turn()
            else:
                self._reader.wait_for(work.awaited, self._on_decided)
            return False
        if work.ends_if_denied and rc.NOT_AUTHORIZED in work.codes:
            raise ProtocolError(work.fault, rc.NOT_AUTHORIZED)
        # The answer, under the identifier of its request: [MQTT-2.2.1-6] [MQTT-3.8.4-1] [MQTT-3.8.4-2] [MQTT-3.10.4-4]
        # [MQTT-3.10.4-5] 3.1.1 [MQTT-2.3.1-7] 3.1.1 [MQTT-3.8.4-1] 3.1.1 [MQTT-3.8.4-2] 3.1.1 [MQTT-3.10.4-4]
        self._answer(work)
        return True

    def _decode(self) -> FilterWork | None:
        broker = self._subscribing.broker
        work_max = self._context.turns.work_max
        while not self._decode_some():
            broker.work += DECODED_AT_ONCE * _DECODE_WORK
            if broker.work > work_max:
                return None
        packet = self._packet
        self._data = b""
        if isinstance(packet, p.Subscribe):
            return subscribe_work(self._subscribing, packet, is_asked=self._done is None)
        return unsubscribe_work(self._subscribing, packet)

    def _decode_some(self) -> bool:
        packet = self._packet
        if packet.rest_at < self._stop:
            if isinstance(packet, p.Subscribe):
                decode_entries(packet, self._data, self._stop, self._reader.version, DECODED_AT_ONCE)
            else:
                decode_topic_filters(packet, self._data, self._stop, DECODED_AT_ONCE)
        return packet.rest_at >= self._stop

    def cancel(self) -> None:
        if self._work is not None and self._work.rights is not None:
            self._work.rights.cancel()

    def _on_decided(self, _: bool) -> None:
        conversation = self._reader.conversation
        if conversation is not None:
            conversation.go_on()

    def _answer(self, work: FilterWork) -> None:
        codes, counters, connected = work.codes, self._subscribing.broker.counters, self._subscribing.connected
        tracer = self._subscribing.broker.tracer
        if tracer is not None:
            tracer.on_filters_done(connected.client, self._packet, codes)
        if self._done is not None:
            self._done(codes)
            return
        if work.kind == p.SUBACK:
            counters.suback_sent += 1
        else:
            counters.unsuback_sent += 1
        reason = work.fault if connected.wants_reasons else ""  # [MQTT-3.1.2-29]
        bytes_max = connected.packet_bytes_max
        data = answers.suback(work.kind, work.packet_id, codes, reason, self._reader.version, bytes_max)
        if data is None:  # it may not be sent, and without it the client would wait for ever
            detail = (
                f"the answer to {len(codes)} filters is larger than the {int(bytes_max)} bytes that the client takes"
            )
            raise ProtocolError(detail, rc.PACKET_TOO_LARGE)
        self._outbox.put(data)
