"""What a client takes of a broker that breaks the protocol, without a connection."""

import pytest

from heliograph.client.conversation import ClientConversation
from heliograph.client.errors import DeniedError
from heliograph.mqtt import packets as p
from heliograph.mqtt import properties as props
from heliograph.mqtt.decode import decode_packet
from heliograph.mqtt.encode import encode_ack, encode_packet, encode_publish
from heliograph.mqtt.errors import ProtocolError
from heliograph.mqtt.properties import Properties, encode_properties

CONNACK = encode_packet(p.Connack(False, 0, Properties()), p.V5)


def conversation(aliases_max: int = 0) -> ClientConversation:
    asked = Properties()
    if aliases_max:
        asked.numbers[props.TOPIC_ALIAS_MAXIMUM] = aliases_max
    connect = p.Connect(p.V5, "c", True, 60, None, None, None, asked)
    return ClientConversation(connect, packet_bytes_max=1000)


def publish(topic: str, alias: int = 0, size: int = 1) -> bytes:
    had = Properties()
    if alias:
        had.numbers[props.TOPIC_ALIAS] = alias
    return encode_publish(p.V5, topic.encode(), bytes(size), 0, False, False, 0, encode_properties(had))


@pytest.mark.parametrize("size", [1, 2000])
def test_no_message_comes_before_connack(size: int) -> None:
    """Nothing reads them until then, so a hostile broker could fill our memory with them."""
    one = conversation()
    with pytest.raises(ProtocolError, match="PUBLISH"):
        one.receive(publish("t", size=size))
    assert not one.messages


def test_no_more_topic_aliases_are_kept_than_the_client_takes() -> None:
    one = conversation()
    one.receive(CONNACK)
    with pytest.raises(ProtocolError, match="topic alias 1; 0 at most"):
        one.receive(publish("t", alias=1))

    one = conversation(aliases_max=2)
    one.receive(CONNACK + publish("t", alias=2) + publish("", alias=2))
    assert [message.topic for message in one.messages] == ["t", "t"]
    with pytest.raises(ProtocolError, match="topic alias 3; 2 at most"):
        one.receive(publish("t", alias=3))


def sent_again(has_session: bool, receive_maximum: int = 10) -> list[tuple[int, int, bytes]]:
    """What goes on the next connection: first byte, identifier and payload; of three messages, one was released."""
    before = conversation()
    before.receive(CONNACK)
    ids = [before.publish("t", payload, qos, False, Properties()) for payload, qos in ((b"a", 2), (b"b", 1), (b"c", 2))]
    before.publish("t", b"at most once", 0, False, Properties())
    before.receive(encode_ack(p.PUBREC, ids[0], 0, p.V5))
    granted = Properties()
    granted.numbers[props.RECEIVE_MAXIMUM] = receive_maximum
    connect = p.Connect(p.V5, "c", False, 60, None, None, None, Properties())
    one = ClientConversation(connect, before=before)
    one.take()
    one.receive(encode_packet(p.Connack(has_session, 0, granted), p.V5))
    assert one.publish("t", b"d", 1, False, Properties()) not in ids
    data, found = one.take(), []
    while data:
        packet = decode_packet(data, 0, 2, 2 + data[1], p.V5)
        payload = bytes(packet.payload) if isinstance(packet, p.Publish) else b""
        assert isinstance(packet, p.Publish | p.Ack)
        found.append((data[0], int(packet.packet_id), payload))
        data = data[2 + data[1] :]
    return found


def test_what_was_under_way_goes_on_with_the_session() -> None:
    """[MQTT-4.4.0-1]"""
    assert sent_again(True) == [(0x62, 1, b""), (0x3A, 2, b"b"), (0x3C, 3, b"c"), (0x32, 4, b"d")]


def test_without_the_session_all_of_it_is_sent_as_the_first_time() -> None:
    assert sent_again(False) == [(0x34, 1, b"a"), (0x32, 2, b"b"), (0x34, 3, b"c"), (0x32, 4, b"d")]


def test_no_more_goes_on_at_once_than_the_broker_takes() -> None:
    assert sent_again(True, receive_maximum=2) == [(0x62, 1, b""), (0x3A, 2, b"b")]


def test_a_message_that_the_broker_does_not_take_keeps_no_identifier() -> None:
    granted = Properties()
    granted.numbers[props.MAXIMUM_PACKET_SIZE] = 100
    one = conversation()
    one.receive(encode_packet(p.Connack(False, 0, granted), p.V5))
    with pytest.raises(DeniedError, match="takes 100 at most"):
        one.publish("t", bytes(200), 1, False, Properties())
    assert one.unanswered_count == 0
