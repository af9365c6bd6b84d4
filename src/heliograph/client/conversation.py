"""What a client says and hears on one connection, without I/O: bytes in, bytes and messages out.

A conversation is owned by its connection, and ends with it. It acknowledges what it receives by itself, unless its
owner does so later, and holds messages back while as many are under way as the broker takes at once.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Final

from heliograph.client.errors import DeniedError
from heliograph.mqtt import packets as p
from heliograph.mqtt import properties as props
from heliograph.mqtt import reason_codes as rc
from heliograph.mqtt.decode import decode_packet, remaining_length
from heliograph.mqtt.encode import PINGREQ, encode_ack, encode_packet, encode_publish
from heliograph.mqtt.errors import ProtocolError
from heliograph.mqtt.properties import Properties, encode_properties

_IDS: Final = 65_535
_DUP: Final = 0x08  # of the first byte of a PUBLISH


class ReceivedMessage:
    """A message that came.

    Attributes:
        topic: Its topic, also where an alias stood for it.
        bytes_left_out: Of a packet that was too large: bytes that were not kept. It has no properties and no payload.
    """

    def __init__(self, topic: str, packet: p.Publish, properties: Properties, bytes_left_out: int = 0) -> None:
        self.topic = topic
        self.packet = packet
        self.properties = properties
        self.bytes_left_out = bytes_left_out


class BrokerAnswer:
    """What the broker answered to a PUBLISH, SUBSCRIBE or UNSUBSCRIBE.

    Attributes:
        kind: PUBLISH, SUBSCRIBE or UNSUBSCRIBE: what was asked.
        codes: One reason code for a PUBLISH, one for each filter otherwise.
    """

    def __init__(self, kind: int, packet_id: int, codes: Sequence[int], properties: Properties | None) -> None:
        self.kind = kind
        self.packet_id = packet_id
        self.codes = tuple(codes)
        self.properties = properties


class ClientConversation:
    """One client's half of a conversation.

    Args:
        log: Called with a line for each packet.
        received_qos2: Identifiers of messages of QoS 2 that a session before this connection acknowledged, and that the
            broker has yet to release. Without it, messages are acknowledged as they come; with it, by `acknowledge`.
        packet_bytes_max: Of a larger PUBLISH only the topic is kept, and another packet breaks the protocol; 0 for no
            limit.
        before: The conversation of a connection that was lost: what it published and the broker has not acknowledged
            is sent again, with the same identifiers.

    Attributes:
        connack: The broker's answer, once it is there and accepts.
        pings_unanswered: PINGREQ packets without their answer.
    """

    def __init__(
        self,
        connect: p.Connect,
        log: Callable[[str], None] | None = None,
        received_qos2: set[int] | None = None,
        packet_bytes_max: int = 0,
        before: ClientConversation | None = None,
    ) -> None:
        self.connack: p.Connack | None = None
        self.farewell: p.Disconnect | None = None
        self.messages: deque[ReceivedMessage] = deque()
        self.answers: deque[BrokerAnswer] = deque()
        self.pings_unanswered = 0
        self._version = connect.version
        self._log = log
        self._out: list[bytes] = []
        self._rest = b""
        self._last_id = 0
        self._asked: dict[int, int] = {}  # what kind of packet has an identifier
        self._under_way = 0  # of those, PUBLISH packets that were sent
        self._held_back: deque[bytes] = deque()
        self._published: dict[int, bytes] = {}  # PUBLISH packets that are not acknowledged, in their order
        self._released: set[int] = set()  # those of QoS 2 that the broker has
        self._before = before
        self._received_qos2: set[int] = set() if received_qos2 is None else received_qos2
        self._acknowledges = received_qos2 is None
        self._packet_bytes_max = packet_bytes_max
        self._left_out = 0  # bytes still to come of a packet that is too large
        self._aliases: dict[int, str] = {}
        self._aliases_max = connect.properties.number(props.TOPIC_ALIAS_MAXIMUM, 0)
        self._send(connect)

    @property
    def version(self) -> int:
        """The protocol version."""
        return self._version

    @property
    def unanswered_count(self) -> int:
        """How many packets wait for the broker's answer."""
        return len(self._asked)

    @property
    def held_back_count(self) -> int:
        """How many messages wait to be sent, since the broker takes only so many at once."""
        return len(self._held_back)

    def take(self) -> bytes:
        """What is to be sent now."""
        data = b"".join(self._out)
        self._out.clear()
        return data

    def publish(self, topic: str, payload: bytes, qos: int, retain: bool, properties: Properties) -> int:
        """Publish a message; its packet identifier, 0 at QoS 0.

        Raises:
            DeniedError: The broker said in its CONNACK that it does not take such messages.
        """
        self._check_offer(qos, retain)
        packet_id = self._new_id(p.PUBLISH) if qos else 0
        try:
            wire = encode_publish(
                self._version, topic.encode(), payload, qos, retain, False, packet_id, encode_properties(properties)
            )
        except ValueError:
            self._asked.pop(packet_id, None)
            raise
        size_max = self._granted(props.MAXIMUM_PACKET_SIZE, len(wire))
        if len(wire) > size_max:
            self._asked.pop(packet_id, None)
            what = f"the message makes a packet of {len(wire)} bytes, and the broker takes {size_max} at most"
            raise DeniedError(what, rc.PACKET_TOO_LARGE, None, p.V5)
        if self._log is not None:
            self._tell("sending", f"PUBLISH {topic} (q{qos}, r{int(retain)}, m{packet_id}, {len(payload)} bytes)")
        if not qos:
            self._out.append(wire)
        else:
            self._published[packet_id] = wire
            self._send_or_hold(wire)
        return packet_id

    def subscribe(self, entries: list[p.SubscribeEntry], properties: Properties) -> None:
        """Subscribe to filters."""
        self._send(p.Subscribe(self._new_id(p.SUBSCRIBE), entries, properties))

    def unsubscribe(self, topic_filters: list[str], properties: Properties) -> None:
        """End subscriptions."""
        self._send(p.Unsubscribe(self._new_id(p.UNSUBSCRIBE), topic_filters, properties))

    def ping(self) -> None:
        """Ask whether the broker is there."""
        self.pings_unanswered += 1
        self._tell("sending", "PINGREQ")
        self._out.append(PINGREQ)

    def disconnect(self, code: int, properties: Properties) -> None:
        """End the conversation."""
        self._send(p.Disconnect(code, properties))

    def receive(self, data: bytes) -> None:
        """Take what the broker sent.

        Raises:
            DeniedError: It refuses the connection.
            ProtocolError: It breaks the protocol.
        """
        if self._left_out:
            skipped = min(self._left_out, len(data))
            self._left_out -= skipped
            data = data[skipped:]
        data = self._rest + data
        at, end = 0, len(data)
        while at < end:
            length, body = remaining_length(data, at + 1, end)
            if length < 0:
                break
            if self._packet_bytes_max and body + length - at > self._packet_bytes_max:
                taken = self._begin_large(data, at, body, length)
                if taken == 0:
                    break
                at += taken
                continue
            if body + length > end:
                break
            stop = body + length
            self._on_packet(decode_packet(data, at, body, stop, self._version))
            at = stop
        self._rest = data[at:]

    def acknowledge(self, message: ReceivedMessage) -> None:
        """Tell the broker that a message of QoS 1 or 2 has arrived for good; once for each."""
        packet_id = int(message.packet.packet_id)
        if message.packet.qos == 1:
            self._out.append(encode_ack(p.PUBACK, packet_id, rc.SUCCESS, self._version))
        elif message.packet.qos == 2:
            self._received_qos2.add(packet_id)
            self._out.append(encode_ack(p.PUBREC, packet_id, rc.SUCCESS, self._version))

    def _send_or_hold(self, wire: bytes) -> None:
        if self._under_way < self._granted(props.RECEIVE_MAXIMUM, _IDS):  # [MQTT-3.3.4-7]
            self._under_way += 1
            self._out.append(wire)
        else:
            self._held_back.append(wire)

    def _go_on_from(self, before: ClientConversation, has_session: bool) -> None:
        """Send what is not acknowledged again: as duplicates where the broker has the session, else for the first time.

        [MQTT-4.4.0-1]
        """
        self._last_id, self._published = before._last_id, before._published
        for packet_id, wire in self._published.items():
            self._asked[packet_id] = p.PUBLISH
            if has_session and packet_id in before._released:
                self._released.add(packet_id)
                wire = encode_ack(p.PUBREL, packet_id, rc.SUCCESS, self._version)
            elif has_session:
                wire = bytes((wire[0] | _DUP,)) + wire[1:]  # [MQTT-3.3.1-1]
            self._send_or_hold(wire)

    def _begin_large(self, data: bytes, at: int, body: int, length: int) -> int:
        """Take the topic of a packet that is too large; the bytes of it that are here, 0 if the topic is not yet."""
        if data[at] >> 4 != p.PUBLISH or self.connack is None:
            raise ProtocolError(f"the broker sent {p.NAMES[data[at] >> 4]} of {length} bytes")
        qos = data[at] >> 1 & 3
        topic_at = body + 2
        topic_end = topic_at + int.from_bytes(data[body:topic_at], "big")
        end = topic_end + (2 if qos else 0)
        if len(data) < max(topic_at, end):
            return 0
        if end > body + length or qos == 3:
            raise ProtocolError("the broker sent a malformed PUBLISH")
        packet_id = int.from_bytes(data[topic_end:end], "big")
        topic, here = data[topic_at:topic_end], min(len(data), body + length)
        self._left_out = body + length - here
        head = data[at:end]
        retain, dup = bool(data[at] & 1), bool(data[at] & 8)
        publish = p.Publish(head, self._version, qos, retain, dup, topic, packet_id, len(head), len(head))
        if qos == 2 and packet_id in self._received_qos2:
            self._out.append(encode_ack(p.PUBREC, packet_id, rc.SUCCESS, self._version))
        else:
            self.messages.append(ReceivedMessage(topic.decode(), publish, Properties(), body + length - end))
        return here - at

    def _on_packet(self, packet: p.Packet) -> None:
        self._tell("received", p.NAMES[packet.kind])
        if self.connack is None and not isinstance(packet, p.Connack):  # [MQTT-3.2.0-1]
            # Nothing bounds messages that come before their owner reads any.
            raise ProtocolError(f"the broker sent {p.NAMES[packet.kind]} before CONNACK")
        if isinstance(packet, p.Connack):
            if packet.code:
                raise DeniedError("the broker refused the connection", packet.code, packet.properties, self._version)
            self.connack = packet
            if self._before is not None:
                self._go_on_from(self._before, packet.session_present)
                self._before = None
        elif isinstance(packet, p.Publish):
            self._on_publish(packet)
        elif isinstance(packet, p.Ack):
            self._on_ack(packet)
        elif isinstance(packet, p.Suback):
            asked = p.SUBSCRIBE if packet.kind == p.SUBACK else p.UNSUBSCRIBE
            self._answered(packet.packet_id, asked, packet.codes, packet.properties)
        elif isinstance(packet, p.Disconnect):
            self.farewell = packet
        elif packet.kind == p.PINGRESP:
            self.pings_unanswered = 0
        else:
            raise ProtocolError(f"the broker sent {p.NAMES[packet.kind]}, which is not for clients")

    def _on_publish(self, packet: p.Publish) -> None:
        packet_id = int(packet.packet_id)
        properties = Properties()
        if self._version == p.V5:
            properties = props.properties_from_wire(packet.property_bytes, props.ALLOWED_PUBLISH_TO_CLIENT)
        topic = packet.topic.decode()
        alias = properties.number(props.TOPIC_ALIAS, 0)
        if alias:
            if alias > self._aliases_max:  # [MQTT-3.1.2-26] [MQTT-3.1.2-27] or 65,535 long topics fill our memory
                raise ProtocolError(f"the broker sent the topic alias {alias}; {self._aliases_max} at most are taken")
            topic = topic or self._aliases.get(alias, "")
            self._aliases[alias] = topic
        if not topic:
            raise ProtocolError(f"the broker sent a message without a topic (alias {alias})")
        if packet.qos == 2 and packet_id in self._received_qos2:  # sent again
            self._out.append(encode_ack(p.PUBREC, packet_id, rc.SUCCESS, self._version))
            return
        message = ReceivedMessage(topic, packet, properties)
        self.messages.append(message)
        if self._acknowledges:
            self.acknowledge(message)

    def _on_ack(self, ack: p.Ack) -> None:
        if ack.kind == p.PUBREL:
            self._received_qos2.discard(ack.packet_id)
            self._out.append(encode_ack(p.PUBCOMP, ack.packet_id, rc.SUCCESS, self._version))
        elif ack.kind == p.PUBREC and ack.code < rc.UNSPECIFIED_ERROR:
            self._released.add(ack.packet_id)
            self._out.append(encode_ack(p.PUBREL, ack.packet_id, rc.SUCCESS, self._version))
        else:
            self._answered(ack.packet_id, p.PUBLISH, (ack.code,), ack.properties)
            del self._published[ack.packet_id]
            self._released.discard(ack.packet_id)
            self._under_way -= 1
            if self._held_back:
                self._under_way += 1
                self._out.append(self._held_back.popleft())

    def _answered(self, packet_id: int, kind: int, codes: Sequence[int], properties: Properties | None) -> None:
        if self._asked.pop(packet_id, None) != kind:
            raise ProtocolError(f"the broker answered packet {packet_id}, which is no {p.NAMES[kind]} under way")
        self.answers.append(BrokerAnswer(kind, packet_id, codes, properties))

    def _check_offer(self, qos: int, retain: bool) -> None:
        if qos > self._granted(props.MAXIMUM_QOS, 2):
            what = f"the broker takes messages of QoS {self._granted(props.MAXIMUM_QOS, 2)} at most"
            raise DeniedError(what, rc.QOS_NOT_SUPPORTED, None, p.V5)
        if retain and not self._granted(props.RETAIN_AVAILABLE, 1):
            raise DeniedError("the broker keeps no retained messages", rc.RETAIN_NOT_SUPPORTED, None, p.V5)

    def _granted(self, identifier: int, default: int) -> int:
        return default if self.connack is None else self.connack.properties.number(identifier, default)

    def _new_id(self, kind: int) -> int:
        if len(self._asked) >= _IDS:
            raise ProtocolError("65,535 packets wait for their answers")
        while True:
            self._last_id = self._last_id % _IDS + 1
            if self._last_id not in self._asked:
                self._asked[self._last_id] = kind
                return self._last_id

    def _send(self, packet: p.Packet) -> None:
        self._tell("sending", p.NAMES[packet.kind])
        self._out.append(encode_packet(packet, self._version))

    def _tell(self, what: str, packet: str) -> None:
        if self._log is not None:
            self._log(f"{what} {packet}")
