"""CONNECT: decides whether and with which limits a client is served. Nothing here sends or changes state."""

from collections.abc import Callable
from typing import Final

from heliograph.broker.client import ClientInfo
from heliograph.broker.message import NEVER, make_message
from heliograph.channel.options import ChannelOptions
from heliograph.channel.peer import Peer
from heliograph.mqtt import packets as p
from heliograph.mqtt import properties as props
from heliograph.mqtt import reason_codes as rc
from heliograph.mqtt.errors import ProtocolError
from heliograph.mqtt.properties import Properties
from heliograph.mqtt.strictness import strict_fault, strict_property_fault
from heliograph.mqtt.template import split_template
from heliograph.mqtt.topic import MAX_TOPIC_BYTES, has_wildcard, topic_name_fault
from heliograph.session.access_check import AccessCheck
from heliograph.session.mqtt_encoder import PACKET_BYTES_MAX
from heliograph.session.session import Session
from heliograph.session.will import Will

_ATTRIBUTE: Final = "client_attrs."


def check_connect(connect: p.Connect, options: ChannelOptions) -> None:
    """Refuse a CONNECT that the specification or the operator does not allow."""
    _check_length(connect.clientid, options)
    if not connect.clientid and connect.version != p.V5 and not connect.clean_start:
        detail = "an empty client id needs a clean session in MQTT 3"  # 3.1.1 [MQTT-3.1.3-7] 3.1.1 [MQTT-3.1.3-8]
        raise ProtocolError(detail, rc.CLIENT_IDENTIFIER_NOT_VALID)
    if options.strict_mode:
        _check_strictly(connect)
    will = connect.will
    if will is None:
        return
    fault = topic_name_fault(will.topic, options.max_topic_levels)
    if fault is not None:  # MQTT 3 has no return code for it 3.1.1 [MQTT-3.2.2-6]
        # [MQTT-3.1.4-1] [MQTT-4.7.0-1] 3.1.1 [MQTT-4.7.1-1]
        raise ProtocolError(f"will: {fault}", rc.TOPIC_NAME_INVALID if connect.version == p.V5 else rc.MALFORMED_PACKET)
    response_topic = will.properties.strings.get(props.RESPONSE_TOPIC, "")
    if has_wildcard(response_topic):
        raise ProtocolError(f"will: response topic {response_topic!r} holds a wildcard")  # [MQTT-3.3.2-14]
    if will.qos > options.max_qos_allowed:
        # [MQTT-3.2.2-12]
        raise ProtocolError(f"will at QoS {will.qos}; {options.max_qos_allowed} is allowed", rc.QOS_NOT_SUPPORTED)
    if will.retain and not options.retain_available:
        raise ProtocolError("will with retain, which is not available", rc.RETAIN_NOT_SUPPORTED)  # [MQTT-3.2.2-13]


def client_info(
    connect: p.Connect, peer: Peer, options: ChannelOptions, new_clientid: Callable[[], str], now_us: int
) -> ClientInfo:
    """Who the client is, by its CONNECT, its certificate and the operator's settings."""
    username = connect.username if peer.username is None else peer.username
    clientid = connect.clientid
    if peer.clientid is not None:
        clientid = peer.clientid
    elif options.use_username_as_clientid and username:
        clientid = username
    _check_length(clientid, options)
    client = ClientInfo(clientid or new_clientid(), username, peer.peername)  # [MQTT-3.1.3-6] 3.1.1 [MQTT-3.1.3-6]
    client.sockname = peer.sockname
    client.common_name = peer.common_name
    client.subject = peer.subject
    client.certificate = peer.certificate
    client.listener = options.listener.name
    client.zone = options.zone
    client.version = connect.version
    client.clean_start = connect.clean_start
    client.will_topic = None if connect.will is None else connect.will.topic
    client.keepalive_s = _keepalive_s(connect, options)
    client.connected_at_us = now_us
    attributes_of = options.listener.attributes_of
    if attributes_of is not None:
        client.client_attrs = attributes_of(client, connect)
    return client


def mount(client: ClientInfo, connect: p.Connect, options: ChannelOptions) -> None:
    """Give an authenticated client its mountpoint, which may be made of attributes that it was granted."""
    client.mountpoint = _mountpoint(options.listener.mountpoint, client)
    if connect.will is not None and client.mountpoint:
        _check_mounted(client.mountpoint + connect.will.topic, options)


def _check_mounted(topic: str, options: ChannelOptions) -> None:
    # When the will is published it is too late: the client is gone and cannot be refused.
    fault = topic_name_fault(topic, options.max_topic_levels)
    if fault is not None or len(topic.encode("utf-8")) > MAX_TOPIC_BYTES:
        raise ProtocolError("will: its topic leaves no room for the mountpoint", rc.TOPIC_NAME_INVALID)


def _check_length(clientid: str, options: ChannelOptions) -> None:
    length = len(clientid.encode("utf-8"))
    if length > options.max_clientid_len:  # [MQTT-3.1.3-5] [MQTT-3.1.3-8] 3.1.1 [MQTT-3.1.3-5] 3.1.1 [MQTT-3.1.3-9]
        detail = f"client id of {length} bytes; at most {int(options.max_clientid_len)} are allowed"
        raise ProtocolError(detail, rc.CLIENT_IDENTIFIER_NOT_VALID)


def _mountpoint(template: str, client: ClientInfo) -> str:
    # At once: what a client calls itself is not looked through for placeholders.
    mountpoint = ""
    for text, name in split_template(template, _is_placeholder):
        mountpoint += text
        if name is not None:
            value = _place_value(name, client)
            _check_place(name, value)
            mountpoint += value
    return mountpoint


def _is_placeholder(name: str) -> bool:
    return name == "clientid" or name == "username" or name.startswith(_ATTRIBUTE)


def _place_value(name: str, client: ClientInfo) -> str:
    if name == "clientid":
        return client.clientid
    if name == "username":
        return client.username or ""
    return client.client_attrs.get(name[len(_ATTRIBUTE) :], "")


def _check_place(name: str, value: str) -> None:
    if not value or "/" in value or has_wildcard(value) or value.startswith("$"):
        # It would reach into the topics of other clients, or of the broker.
        fault = "it is empty, begins with '$', or holds '/', '+' or '#'"
        detail = f"{value!r} may not stand for ${{{name}}} in the mountpoint: {fault}"
        raise ProtocolError(detail, rc.CLIENT_IDENTIFIER_NOT_VALID)


def _check_strictly(connect: p.Connect) -> None:
    fault = strict_fault(connect.clientid) or strict_fault(connect.username or "")
    fault = fault or strict_property_fault(connect.properties)
    if connect.will is not None:
        fault = fault or strict_fault(connect.will.topic) or strict_property_fault(connect.will.properties)
    if fault is not None:
        raise ProtocolError(fault, rc.MALFORMED_PACKET)


def _keepalive_s(connect: p.Connect, options: ChannelOptions) -> int:
    """The keepalive that holds: the operator's if set (only MQTT 5 can tell the client), else the client's."""
    if options.server_keepalive_s == 0 or connect.version != p.V5:
        return connect.keepalive_s  # [MQTT-3.2.2-22]
    return options.server_keepalive_s


def check_disconnect(disconnect: p.Disconnect, session: Session) -> None:
    """Take what a DISCONNECT says of its session, which must not outlive the connection if CONNECT did not say so."""
    if disconnect.code not in rc.DISCONNECT_FROM_CLIENT:  # [MQTT-3.14.2-1]
        raise ProtocolError(f"DISCONNECT with reason code 0x{disconnect.code:02x}, which is not a client's")
    expiry_s = disconnect.properties.number(props.SESSION_EXPIRY_INTERVAL, -1)
    if expiry_s >= 0:
        if expiry_s > 0 and session.expiry_interval_s == 0:  # a protocol error by section 3.14.2.2.2
            raise ProtocolError("DISCONNECT sets a session expiry interval where CONNECT had none")
        session.expiry_interval_s = expiry_s


def session_expiry_s(connect: p.Connect, options: ChannelOptions) -> int:
    if connect.version == p.V5:
        return connect.properties.number(props.SESSION_EXPIRY_INTERVAL, 0)  # [MQTT-3.1.2-23]
    return 0 if connect.clean_start else options.session_expiry_interval_s  # 3.1.1 [MQTT-3.1.2-4] 3.1.1 [MQTT-3.1.2-6]


def receive_maximum(connect: p.Connect) -> int:
    return connect.properties.number(props.RECEIVE_MAXIMUM, 65_535)


def packet_bytes_max(connect: p.Connect) -> int:
    return connect.properties.number(props.MAXIMUM_PACKET_SIZE, PACKET_BYTES_MAX)


def alias_max(connect: p.Connect, options: ChannelOptions) -> int:
    """The highest topic alias that may be used towards the client [MQTT-3.1.2-26] [MQTT-3.1.2-27]."""
    # [MQTT-3.1.2-26] [MQTT-3.1.2-27] [MQTT-3.3.2-11]
    return min(connect.properties.number(props.TOPIC_ALIAS_MAXIMUM, 0), options.server_topic_alias)


def connack_properties(connect: p.Connect, client: ClientInfo, options: ChannelOptions) -> Properties:
    """What the CONNACK tells a client of MQTT 5: only what differs from the specification's defaults."""
    properties = Properties()
    if not connect.clientid:
        properties.strings[props.ASSIGNED_CLIENT_IDENTIFIER] = client.clientid  # [MQTT-3.1.3-7] [MQTT-3.2.2-16]
    if options.server_keepalive_s > 0:
        properties.numbers[props.SERVER_KEEP_ALIVE] = options.server_keepalive_s  # [MQTT-3.1.2-21]
    if options.max_qos_allowed < 2:
        properties.numbers[props.MAXIMUM_QOS] = options.max_qos_allowed  # [MQTT-3.2.2-9]
    if not options.retain_available:
        properties.numbers[props.RETAIN_AVAILABLE] = 0
    if not options.wildcard_subscription:
        properties.numbers[props.WILDCARD_SUBSCRIPTION_AVAILABLE] = 0
    if options.max_topic_alias > 0:
        properties.numbers[props.TOPIC_ALIAS_MAXIMUM] = options.max_topic_alias  # [MQTT-3.3.2-12]
    properties.numbers[props.MAXIMUM_PACKET_SIZE] = options.max_packet_size
    if 0 < options.session.max_awaiting_rel < 65_535:
        properties.numbers[props.RECEIVE_MAXIMUM] = options.session.max_awaiting_rel
    if not options.shared_subscription:
        properties.numbers[props.SHARED_SUBSCRIPTION_AVAILABLE] = 0
    asked = connect.properties.number(props.REQUEST_RESPONSE_INFORMATION, 0)
    if asked == 1 and options.response_information:  # [MQTT-3.1.2-28]
        properties.strings[props.RESPONSE_INFORMATION] = options.response_information
    return properties


def will(
    will: p.Will,
    client: ClientInfo,
    options: ChannelOptions,
    id_high: int,
    id_low: int,
    access_check: AccessCheck | None,
) -> Will:
    delay_s = will.properties.number(props.WILL_DELAY_INTERVAL, 0)
    properties = Properties()
    properties.numbers = {
        key: value for key, value in will.properties.numbers.items() if key != props.WILL_DELAY_INTERVAL
    }
    properties.strings = will.properties.strings
    properties.binaries = will.properties.binaries
    properties.user = will.properties.user  # [MQTT-3.1.3-10]
    message = make_message(
        id_high,
        id_low,
        client.mountpoint + will.topic,
        will.payload,
        will.qos,
        will.retain,  # [MQTT-3.1.2-14] [MQTT-3.1.2-15] 3.1.1 [MQTT-3.1.2-16] 3.1.1 [MQTT-3.1.2-17]
        props.encode_properties(properties),
        client.clientid,
        client.username,
    )
    if message.expiry_s == NEVER and options.message_expiry_interval_s > 0:
        message.expiry_s = options.message_expiry_interval_s
    return Will(message, delay_s, access_check, client.peerhost)
