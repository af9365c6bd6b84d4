"""CONNECT: decides whether and with which limits a client is served. Nothing here sends or changes state."""

from heliograph.broker.message import Message, make_message
from heliograph.channel.options import INFINITE, ChannelOptions
from heliograph.mqtt import packets as p
from heliograph.mqtt import properties as props
from heliograph.mqtt import reason_codes as rc
from heliograph.mqtt.errors import ProtocolError
from heliograph.mqtt.properties import Properties
from heliograph.mqtt.topic import has_wildcard, topic_name_fault
from heliograph.session.session import PACKET_BYTES_MAX


def check_connect(connect: p.Connect, options: ChannelOptions) -> None:
    """Refuse a CONNECT that the specification or the operator does not allow.

    Raises:
        ProtocolError: With the reason code for the CONNACK.
    """
    length = len(connect.clientid.encode("utf-8"))
    if length > options.max_clientid_len:
        detail = f"client id of {length} bytes; at most {int(options.max_clientid_len)} are allowed"
        raise ProtocolError(detail, rc.CLIENT_IDENTIFIER_NOT_VALID)
    if not connect.clientid and connect.version != p.V5 and not connect.clean_start:
        detail = "an empty client id needs a clean session in MQTT 3"  # [MQTT-3.1.3-8]
        raise ProtocolError(detail, rc.CLIENT_IDENTIFIER_NOT_VALID)
    if props.AUTHENTICATION_METHOD in connect.properties.strings:
        method = connect.properties.strings[props.AUTHENTICATION_METHOD]
        raise ProtocolError(f"authentication method {method!r} is not configured", rc.BAD_AUTHENTICATION_METHOD)
    will = connect.will
    if will is None:
        return
    fault = topic_name_fault(will.topic, options.max_topic_levels)
    if fault is not None:
        raise ProtocolError(f"will: {fault}", rc.TOPIC_NAME_INVALID)
    response_topic = will.properties.strings.get(props.RESPONSE_TOPIC, "")
    if has_wildcard(response_topic):
        raise ProtocolError(f"will: response topic {response_topic!r} holds a wildcard")  # [MQTT-3.3.2-14]
    if will.qos > options.max_qos_allowed:
        raise ProtocolError(f"will at QoS {will.qos}; {options.max_qos_allowed} is allowed", rc.QOS_NOT_SUPPORTED)
    if will.retain and not options.retain_available:
        raise ProtocolError("will with retain, which is not available", rc.RETAIN_NOT_SUPPORTED)


def keepalive_s(connect: p.Connect, options: ChannelOptions) -> int:
    """The keepalive that holds: the operator's if set, else the client's; 0 for none."""
    return connect.keepalive_s if options.server_keepalive_s < 0 else options.server_keepalive_s


def session_expiry_s(connect: p.Connect, options: ChannelOptions) -> int:
    """How long the session lives without a connection, in seconds."""
    if connect.version == p.V5:
        return connect.properties.number(props.SESSION_EXPIRY_INTERVAL, 0)
    return 0 if connect.clean_start else options.session_expiry_interval_s


def receive_maximum(connect: p.Connect) -> int:
    """How many PUBLISH packets the client takes unacknowledged."""
    return connect.properties.number(props.RECEIVE_MAXIMUM, 65_535)


def packet_bytes_max(connect: p.Connect) -> int:
    """Bytes of the largest packet that the client takes."""
    return connect.properties.number(props.MAXIMUM_PACKET_SIZE, PACKET_BYTES_MAX)


def connack_properties(connect: p.Connect, clientid: str, options: ChannelOptions, awaiting_rel_max: int) -> Properties:
    """What the CONNACK tells a client of MQTT 5: only what differs from the specification's defaults."""
    properties = Properties()
    if not connect.clientid:
        properties.strings[props.ASSIGNED_CLIENT_IDENTIFIER] = clientid  # [MQTT-3.1.3-7]
    if options.server_keepalive_s >= 0:
        properties.numbers[props.SERVER_KEEP_ALIVE] = options.server_keepalive_s  # [MQTT-3.1.2-21]
    if options.max_qos_allowed < 2:
        properties.numbers[props.MAXIMUM_QOS] = options.max_qos_allowed  # [MQTT-3.2.2-9]
    if not options.retain_available:
        properties.numbers[props.RETAIN_AVAILABLE] = 0
    if not options.wildcard_subscription:
        properties.numbers[props.WILDCARD_SUBSCRIPTION_AVAILABLE] = 0
    if options.max_topic_alias > 0:
        properties.numbers[props.TOPIC_ALIAS_MAXIMUM] = options.max_topic_alias
    if options.max_packet_size < INFINITE:
        properties.numbers[props.MAXIMUM_PACKET_SIZE] = options.max_packet_size
    if 0 < awaiting_rel_max < 65_535:
        properties.numbers[props.RECEIVE_MAXIMUM] = awaiting_rel_max
    properties.numbers[props.SHARED_SUBSCRIPTION_AVAILABLE] = 0
    return properties


def will_message(will: p.Will, clientid: str, username: str | None, id_high: int, id_low: int) -> Message:
    """The message that a will becomes when it is published."""
    properties = Properties()
    properties.numbers = {
        key: value for key, value in will.properties.numbers.items() if key != props.WILL_DELAY_INTERVAL
    }
    properties.strings = will.properties.strings
    properties.binaries = will.properties.binaries
    properties.user = will.properties.user
    property_bytes = props.encode_properties(properties)
    return make_message(
        id_high, id_low, will.topic, will.payload, will.qos, will.retain, property_bytes, clientid, username
    )
