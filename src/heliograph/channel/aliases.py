"""Topic aliases that a client of MQTT 5 uses instead of topic names (MQTT 5 section 3.3.2.3.4)."""

from mypy_extensions import i64

from heliograph.mqtt import packets as p
from heliograph.mqtt import properties as props
from heliograph.mqtt import reason_codes as rc
from heliograph.mqtt.encode import encode_publish
from heliograph.mqtt.errors import ProtocolError
from heliograph.mqtt.properties import Properties


def resolve_alias(publish: p.Publish, properties: Properties, aliases: dict[int, bytes], alias_max: i64) -> p.Publish:
    """The same PUBLISH with its topic name and without its alias, which means nothing to its receivers.

    Args:
        aliases: What the client's aliases stand for; a PUBLISH with a name and an alias adds to it.

    Raises:
        ProtocolError: The alias is 0, beyond the limit [MQTT-3.3.2-8] [MQTT-3.3.2-9], or not known.
    """
    alias = properties.numbers.pop(props.TOPIC_ALIAS)
    if alias == 0 or alias > alias_max:
        raise ProtocolError(f"topic alias {alias}; 1 to {int(alias_max)} are valid", rc.TOPIC_ALIAS_INVALID)
    topic = publish.topic
    if topic:
        aliases[alias] = topic
    elif alias in aliases:
        topic = aliases[alias]
    else:
        raise ProtocolError(f"topic alias {alias} stands for no topic yet")
    property_bytes = props.encode_properties(properties)
    payload = publish.payload
    data = encode_publish(
        p.V5, topic, payload, publish.qos, publish.retain, publish.dup, publish.packet_id, property_bytes
    )
    payload_at: i64 = len(data) - len(payload)
    properties_at: i64 = payload_at - len(property_bytes)
    return p.Publish(
        data, p.V5, publish.qos, publish.retain, publish.dup, topic, publish.packet_id, properties_at, payload_at
    )
