"""The topic filters of one packet: decided and carried out in as many turns as they need.

A packet may hold a hundred thousand of them.
"""

from typing import Final

from mypy_extensions import i64

from heliograph.broker.pending import Pending
from heliograph.channel.rights import RightsCheck
from heliograph.channel.subscribing import Subscribing
from heliograph.mqtt import packets as p
from heliograph.mqtt import reason_codes as rc
from heliograph.mqtt.errors import ProtocolError
from heliograph.mqtt.properties import Properties

# What deciding a filter costs, in deliveries, and how many are decided whatever they cost.
_FILTER_WORK: Final = 8
_FILTERS_AT_ONCE: Final = 16
_ALL: Final = 0x7FFFFFFFFFFFFFFF


class FilterWork:
    """The filters of one SUBSCRIBE or UNSUBSCRIBE, and how far they are.

    Attributes:
        codes: The reason codes so far, in order [MQTT-3.8.4-6] [MQTT-3.9.3-1] [MQTT-3.11.3-1].
        fault: Why the first refused filter of a SUBSCRIBE was refused.
        rights: Asks what the client may subscribe to; None where that need not be asked any more.
        awaited: What must be known of that before this goes on; None where another turn is enough.
        ends_if_denied: Whether the connection ends where a filter is denied.
    """

    def __init__(
        self,
        subscribing: Subscribing,
        kind: int,
        packet_id: int,
        entries: list[p.SubscribeEntry],
        topic_filters: list[str],
        properties: Properties,
    ) -> None:
        self.kind = kind
        self.packet_id = packet_id
        self.codes: list[int] = []
        self.fault = ""
        self.rights: RightsCheck | None = None
        self.awaited: Pending[bool] | None = None
        self.ends_if_denied = False
        self._asked_count: i64 = 0
        self._is_hooked = kind != p.SUBACK
        self._subscribing = subscribing
        self._entries = entries
        self._topic_filters = topic_filters
        self._properties = properties
        subscribing.fault = ""

    def _authorize(self, rights: RightsCheck, work_max: i64) -> bool:
        """Ask what the client may subscribe to; whether that is known of all filters."""
        broker, subscribing, entries = self._subscribing.broker, self._subscribing, self._entries
        until: i64 = self._asked_count + _FILTERS_AT_ONCE
        while True:
            while self._asked_count < len(entries) and rights.has_room:
                if subscribing.has_ended:
                    return False
                if self._asked_count >= until and broker.work > work_max:
                    return False
                broker.work += _FILTER_WORK
                subscribing.ask(entries[self._asked_count], self._asked_count, rights)
                self._asked_count += 1
            self.awaited = rights.awaited()
            if self.awaited is not None:
                return False
            if self._asked_count == len(entries):
                break
        for number in rights.denied:
            subscribing.deny(entries[number])
        self.rights = None
        if rights.denied and self.ends_if_denied:
            name = entries[rights.denied[0]].topic_filter
            raise ProtocolError(f"{name[:200]!r} is refused: not_authorized", rc.NOT_AUTHORIZED)
        return True

    def advance(self, work_max: i64) -> bool:
        """Go on until the broker has done so much work, or must wait for an answer; whether all filters are done."""
        rights = self.rights
        if rights is not None and not self._authorize(rights, work_max):
            return False
        if not self._is_hooked:  # callbacks may change what the client named, and was asked about
            self._is_hooked = True
            self._entries = self._subscribing.hooked(self._entries, self._properties)
        subscribing = self._subscribing
        broker = subscribing.broker
        at: i64 = len(self.codes)
        count: i64 = max(len(self._entries), len(self._topic_filters))
        until: i64 = at + _FILTERS_AT_ONCE
        # One after the other, as if each had a packet of its own: [MQTT-3.8.4-5] [MQTT-3.10.4-6] 3.1.1 [MQTT-3.8.4-4]
        # 3.1.1 [MQTT-3.10.4-6]; and a code for each: [MQTT-3.8.4-6] [MQTT-3.9.3-1] 3.1.1 [MQTT-3.8.4-5]
        # 3.1.1 [MQTT-3.9.3-1]
        while at < count and not subscribing.has_ended:  # callbacks may end it
            if at >= until and broker.work > work_max:
                subscribing.pass_on()
                return False
            broker.work += _FILTER_WORK
            if self.kind == p.SUBACK:
                self.codes.append(subscribing.subscribe_one(self._entries[at], self._properties))
            else:
                self.codes.append(subscribing.unsubscribe_one(self._topic_filters[at], self._properties))
            at += 1
        subscribing.pass_on()
        self.fault = subscribing.fault
        return at == count


def subscribe_work(subscribing: Subscribing, packet: p.Subscribe, is_asked: bool) -> FilterWork:
    """The filters of a SUBSCRIBE, or those that a client is subscribed to without having asked."""
    work = FilterWork(subscribing, p.SUBACK, packet.packet_id, packet.entries, [], packet.properties)
    if subscribing.broker.rights.is_asked_about([entry.topic_filter for entry in packet.entries]):
        due_us = subscribing.options.due_us(subscribing.broker.uptime_us)
        work.rights = RightsCheck(subscribing.connected.authorizer, due_us)
    work.ends_if_denied = is_asked and subscribing.options.authz_disconnects
    return work


def unsubscribe_work(subscribing: Subscribing, packet: p.Unsubscribe) -> FilterWork:
    topic_filters = subscribing.unhooked(packet.topic_filters, packet.properties)
    return FilterWork(subscribing, p.UNSUBACK, packet.packet_id, [], topic_filters, packet.properties)


def subscribe_now(subscribing: Subscribing, entries: list[p.SubscribeEntry]) -> list[int]:
    """Subscribe on a client's behalf, whatever it may do itself: a reason code for each filter."""
    work = FilterWork(subscribing, p.SUBACK, 0, entries, [], Properties())
    return _traced_now(subscribing, work, p.Subscribe(0, entries, Properties()))


def unsubscribe_now(subscribing: Subscribing, topic_filters: list[str]) -> list[int]:
    """Unsubscribe on a client's behalf: a reason code for each filter."""
    packet = p.Unsubscribe(0, topic_filters, Properties())
    return _traced_now(subscribing, unsubscribe_work(subscribing, packet), packet)


def _traced_now(subscribing: Subscribing, work: FilterWork, packet: p.Packet) -> list[int]:
    """Carry out all filters of a packet that no client sent, and report it to tracers."""
    client, tracer = subscribing.connected.client, subscribing.broker.tracer
    if tracer is not None:
        tracer.on_filters(client, packet)
    work.advance(_ALL)
    if tracer is not None:
        tracer.on_filters_done(client, packet, work.codes)
    return work.codes
