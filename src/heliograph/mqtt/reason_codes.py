"""Reason codes of MQTT 5 (section 2.4), their names, and what remains of them for MQTT 3 clients.

Plain `Final` integers, because the hot path compares them. Names are those of EMQX's rule events.
"""

from typing import Final

SUCCESS: Final = 0x00  # also "normal disconnection" and "granted QoS 0"
GRANTED_QOS_1: Final = 0x01
GRANTED_QOS_2: Final = 0x02
DISCONNECT_WITH_WILL: Final = 0x04
NO_MATCHING_SUBSCRIBERS: Final = 0x10
NO_SUBSCRIPTION_EXISTED: Final = 0x11
CONTINUE_AUTHENTICATION: Final = 0x18
REAUTHENTICATE: Final = 0x19
UNSPECIFIED_ERROR: Final = 0x80
MALFORMED_PACKET: Final = 0x81
PROTOCOL_ERROR: Final = 0x82
IMPLEMENTATION_SPECIFIC_ERROR: Final = 0x83
UNSUPPORTED_PROTOCOL_VERSION: Final = 0x84
CLIENT_IDENTIFIER_NOT_VALID: Final = 0x85
BAD_USERNAME_OR_PASSWORD: Final = 0x86
NOT_AUTHORIZED: Final = 0x87
SERVER_UNAVAILABLE: Final = 0x88
SERVER_BUSY: Final = 0x89
BANNED: Final = 0x8A
SERVER_SHUTTING_DOWN: Final = 0x8B
BAD_AUTHENTICATION_METHOD: Final = 0x8C
KEEP_ALIVE_TIMEOUT: Final = 0x8D
SESSION_TAKEN_OVER: Final = 0x8E
TOPIC_FILTER_INVALID: Final = 0x8F
TOPIC_NAME_INVALID: Final = 0x90
PACKET_IDENTIFIER_IN_USE: Final = 0x91
PACKET_IDENTIFIER_NOT_FOUND: Final = 0x92
RECEIVE_MAXIMUM_EXCEEDED: Final = 0x93
TOPIC_ALIAS_INVALID: Final = 0x94
PACKET_TOO_LARGE: Final = 0x95
MESSAGE_RATE_TOO_HIGH: Final = 0x96
QUOTA_EXCEEDED: Final = 0x97
ADMINISTRATIVE_ACTION: Final = 0x98
PAYLOAD_FORMAT_INVALID: Final = 0x99
RETAIN_NOT_SUPPORTED: Final = 0x9A
QOS_NOT_SUPPORTED: Final = 0x9B
USE_ANOTHER_SERVER: Final = 0x9C
SERVER_MOVED: Final = 0x9D
SHARED_SUBSCRIPTIONS_NOT_SUPPORTED: Final = 0x9E
CONNECTION_RATE_EXCEEDED: Final = 0x9F
MAXIMUM_CONNECT_TIME: Final = 0xA0
SUBSCRIPTION_IDENTIFIERS_NOT_SUPPORTED: Final = 0xA1
WILDCARD_SUBSCRIPTIONS_NOT_SUPPORTED: Final = 0xA2

NAMES: Final = {
    SUCCESS: "success",
    GRANTED_QOS_1: "granted_qos1",
    GRANTED_QOS_2: "granted_qos2",
    DISCONNECT_WITH_WILL: "disconnect_with_will_message",
    NO_MATCHING_SUBSCRIBERS: "no_matching_subscribers",
    NO_SUBSCRIPTION_EXISTED: "no_subscription_existed",
    CONTINUE_AUTHENTICATION: "continue_authentication",
    REAUTHENTICATE: "re_authenticate",
    UNSPECIFIED_ERROR: "unspecified_error",
    MALFORMED_PACKET: "malformed_packet",
    PROTOCOL_ERROR: "protocol_error",
    IMPLEMENTATION_SPECIFIC_ERROR: "implementation_specific_error",
    UNSUPPORTED_PROTOCOL_VERSION: "unsupported_protocol_version",
    CLIENT_IDENTIFIER_NOT_VALID: "client_identifier_not_valid",
    BAD_USERNAME_OR_PASSWORD: "bad_username_or_password",
    NOT_AUTHORIZED: "not_authorized",
    SERVER_UNAVAILABLE: "server_unavailable",
    SERVER_BUSY: "server_busy",
    BANNED: "banned",
    SERVER_SHUTTING_DOWN: "server_shutting_down",
    BAD_AUTHENTICATION_METHOD: "bad_authentication_method",
    KEEP_ALIVE_TIMEOUT: "keepalive_timeout",
    SESSION_TAKEN_OVER: "session_taken_over",
    TOPIC_FILTER_INVALID: "topic_filter_invalid",
    TOPIC_NAME_INVALID: "topic_name_invalid",
    PACKET_IDENTIFIER_IN_USE: "packet_identifier_inuse",
    PACKET_IDENTIFIER_NOT_FOUND: "packet_identifier_not_found",
    RECEIVE_MAXIMUM_EXCEEDED: "receive_maximum_exceeded",
    TOPIC_ALIAS_INVALID: "topic_alias_invalid",
    PACKET_TOO_LARGE: "packet_too_large",
    MESSAGE_RATE_TOO_HIGH: "message_rate_too_high",
    QUOTA_EXCEEDED: "quota_exceeded",
    ADMINISTRATIVE_ACTION: "administrative_action",
    PAYLOAD_FORMAT_INVALID: "payload_format_invalid",
    RETAIN_NOT_SUPPORTED: "retain_not_supported",
    QOS_NOT_SUPPORTED: "qos_not_supported",
    USE_ANOTHER_SERVER: "use_another_server",
    SERVER_MOVED: "server_moved",
    SHARED_SUBSCRIPTIONS_NOT_SUPPORTED: "shared_subscriptions_not_supported",
    CONNECTION_RATE_EXCEEDED: "connection_rate_exceeded",
    MAXIMUM_CONNECT_TIME: "maximum_connect_time",
    SUBSCRIPTION_IDENTIFIERS_NOT_SUPPORTED: "subscription_identifiers_not_supported",
    WILDCARD_SUBSCRIPTIONS_NOT_SUPPORTED: "wildcard_subscriptions_not_supported",
}

# What a packet may say, by its type; a receiver takes anything else for a malformed packet or a protocol error.
CONNACK_CODES: Final = frozenset(  # [MQTT-3.2.2-8]
    {
        SUCCESS,
        UNSPECIFIED_ERROR,
        MALFORMED_PACKET,
        PROTOCOL_ERROR,
        IMPLEMENTATION_SPECIFIC_ERROR,
        UNSUPPORTED_PROTOCOL_VERSION,
        CLIENT_IDENTIFIER_NOT_VALID,
        BAD_USERNAME_OR_PASSWORD,
        NOT_AUTHORIZED,
        SERVER_UNAVAILABLE,
        SERVER_BUSY,
        BANNED,
        BAD_AUTHENTICATION_METHOD,
        TOPIC_NAME_INVALID,
        PACKET_TOO_LARGE,
        QUOTA_EXCEEDED,
        PAYLOAD_FORMAT_INVALID,
        RETAIN_NOT_SUPPORTED,
        QOS_NOT_SUPPORTED,
        USE_ANOTHER_SERVER,
        SERVER_MOVED,
        CONNECTION_RATE_EXCEEDED,
    }
)
SUBSCRIBE_FAILURES: Final = frozenset(  # [MQTT-3.9.3-2]
    {
        UNSPECIFIED_ERROR,
        IMPLEMENTATION_SPECIFIC_ERROR,
        NOT_AUTHORIZED,
        TOPIC_FILTER_INVALID,
        PACKET_IDENTIFIER_IN_USE,
        QUOTA_EXCEEDED,
        SHARED_SUBSCRIPTIONS_NOT_SUPPORTED,
        SUBSCRIPTION_IDENTIFIERS_NOT_SUPPORTED,
        WILDCARD_SUBSCRIPTIONS_NOT_SUPPORTED,
    }
)
ACK_CODES: Final = frozenset(  # PUBACK and PUBREC [MQTT-3.4.2-1] [MQTT-3.5.2-1]
    {
        SUCCESS,
        NO_MATCHING_SUBSCRIBERS,
        UNSPECIFIED_ERROR,
        IMPLEMENTATION_SPECIFIC_ERROR,
        NOT_AUTHORIZED,
        TOPIC_NAME_INVALID,
        PACKET_IDENTIFIER_IN_USE,
        QUOTA_EXCEEDED,
        PAYLOAD_FORMAT_INVALID,
    }
)
RELEASE_CODES: Final = frozenset({SUCCESS, PACKET_IDENTIFIER_NOT_FOUND})  # [MQTT-3.6.2-1] [MQTT-3.7.2-1]
AUTH_CODES: Final = frozenset({SUCCESS, CONTINUE_AUTHENTICATION, REAUTHENTICATE})  # [MQTT-3.15.2-1]
DISCONNECT_FROM_CLIENT: Final = frozenset(  # [MQTT-3.14.2-1]
    {
        SUCCESS,
        DISCONNECT_WITH_WILL,
        UNSPECIFIED_ERROR,
        MALFORMED_PACKET,
        PROTOCOL_ERROR,
        IMPLEMENTATION_SPECIFIC_ERROR,
        TOPIC_NAME_INVALID,
        RECEIVE_MAXIMUM_EXCEEDED,
        TOPIC_ALIAS_INVALID,
        PACKET_TOO_LARGE,
        MESSAGE_RATE_TOO_HIGH,
        QUOTA_EXCEEDED,
        ADMINISTRATIVE_ACTION,
        PAYLOAD_FORMAT_INVALID,
    }
)

DISCONNECT_FROM_SERVER: Final = frozenset(  # [MQTT-3.14.2-1]
    (DISCONNECT_FROM_CLIENT - {DISCONNECT_WITH_WILL})
    | {
        NOT_AUTHORIZED,
        SERVER_BUSY,
        SERVER_SHUTTING_DOWN,
        BAD_AUTHENTICATION_METHOD,
        KEEP_ALIVE_TIMEOUT,
        SESSION_TAKEN_OVER,
        TOPIC_FILTER_INVALID,
        RETAIN_NOT_SUPPORTED,
        QOS_NOT_SUPPORTED,
        USE_ANOTHER_SERVER,
        SERVER_MOVED,
        SHARED_SUBSCRIPTIONS_NOT_SUPPORTED,
        CONNECTION_RATE_EXCEEDED,
        MAXIMUM_CONNECT_TIME,
        SUBSCRIPTION_IDENTIFIERS_NOT_SUPPORTED,
        WILDCARD_SUBSCRIPTIONS_NOT_SUPPORTED,
    }
)

# CONNACK return codes of MQTT 3.1.1 (table 3.1); what has no equal there becomes "server unavailable".
_CONNACK_V3: Final = {
    SUCCESS: 0,
    UNSUPPORTED_PROTOCOL_VERSION: 1,
    CLIENT_IDENTIFIER_NOT_VALID: 2,
    BAD_USERNAME_OR_PASSWORD: 4,
    NOT_AUTHORIZED: 5,
    BANNED: 5,
    BAD_AUTHENTICATION_METHOD: 5,
    UNSPECIFIED_ERROR: 1,
    PROTOCOL_ERROR: 1,
    IMPLEMENTATION_SPECIFIC_ERROR: 1,
}

# What a client makes of the return codes of an MQTT 3 broker.
_FROM_CONNACK_V3: Final = {
    0: SUCCESS,
    1: UNSUPPORTED_PROTOCOL_VERSION,
    2: CLIENT_IDENTIFIER_NOT_VALID,
    3: SERVER_UNAVAILABLE,
    4: BAD_USERNAME_OR_PASSWORD,
    5: NOT_AUTHORIZED,
}


def name_of(code: int) -> str:
    return NAMES.get(code, f"reason_0x{code:02x}")


def connack_return_code(code: int) -> int:
    """The MQTT 3 CONNACK return code that says what MQTT 5 says with `code`."""
    return _CONNACK_V3.get(code, 3)  # 3.1.1 [MQTT-3.2.2-6]


def connack_reason_code(return_code: int) -> int:
    """The MQTT 5 reason code that says what an MQTT 3 CONNACK says with `return_code`."""
    return _FROM_CONNACK_V3.get(return_code, UNSPECIFIED_ERROR)
