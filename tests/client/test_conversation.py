"""What a client takes of a broker that breaks the protocol, without a connection."""

import pytest

from heliograph.client.conversation import ClientConversation
from heliograph.mqtt import packets as p
from heliograph.mqtt import properties as props
from heliograph.mqtt.encode import encode_packet, encode_publish
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
