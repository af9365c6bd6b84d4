"""What each option of a mosquitto.conf is here: one line for each that becomes a setting or nothing at all.

Listeners, users and rules take several options together: they are in `listeners` and `access`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias

from heliograph.migration.draft import Value

_MB: Final = 1024 * 1024
_PACKET_BYTES_MIN, _PACKET_BYTES_MAX = 16, 256 * _MB
_MEMORY_BYTES_MIN: Final = 64 * _MB
_NEVER: Final = "4294967295s"  # MQTT's own value for it
_DAY_S: Final = 86_400
_PERIODS_S: Final = {"h": 3600, "d": _DAY_S, "w": 7 * _DAY_S, "m": 30 * _DAY_S, "y": 365 * _DAY_S}
_EXPIRY_MAX_S: Final = 4_294_967_295


class ValueRefusedError(ValueError):
    """mosquitto would not take the value; the text says what is valid."""


@dataclass(frozen=True, slots=True)
class Changed:
    """A value that is not quite what the option says, and why."""

    value: Value
    reason: str


Convert: TypeAlias = Callable[[str], "Value | Changed"]


@dataclass(frozen=True, slots=True)
class AsSetting:
    """An option that is a setting here.

    Attributes:
        path: Its path; of an option of a listener below the listener, or `mqtt.` below its zone.
        reason: Why it is not quite the same; empty where it is.
    """

    path: str
    convert: Convert
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Dropped:
    """Nothing is lost by it, or nothing is to be done."""

    reason: str


@dataclass(frozen=True, slots=True)
class NotImported:
    """Something is lost by it; the reason says what to do."""

    reason: str


Fate: TypeAlias = AsSetting | Dropped | NotImported


def boolean(text: str) -> bool:
    if text.lower() not in ("true", "false", "1", "0"):
        raise ValueRefusedError("true and false are valid")
    return text.lower() in ("true", "1")


def number(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise ValueRefusedError("a whole number is valid") from None


def _within(highest: int) -> Convert:
    def convert(text: str) -> Value:
        if not 0 <= number(text) <= highest:
            raise ValueRefusedError(f"0 to {highest} is valid")
        return number(text)

    return convert


def _limit(text: str) -> Value:
    count = number(text)
    return count if count > 0 else "infinity"


def _window(text: str) -> Value | Changed:
    count = number(text)
    if 1 <= count <= 65_535:
        return count
    return Changed(65_535, "a window cannot be larger than the packet identifiers that there are")


def _packet_bytes(text: str) -> Value | Changed:
    count = number(text)
    if count == 0:
        return _PACKET_BYTES_MAX
    bounded = min(max(count, _PACKET_BYTES_MIN), _PACKET_BYTES_MAX)
    reason = f"{_PACKET_BYTES_MIN} to {_PACKET_BYTES_MAX} are valid here"
    return bounded if bounded == count else Changed(bounded, reason)


def _queue_bytes(text: str) -> Value | Changed:
    count = number(text)
    return Changed(1024, "less is not valid here") if 0 < count < 1024 else _limit(text)


def _memory(text: str) -> Value | Changed:
    count = number(text)
    if 0 < count < _MEMORY_BYTES_MIN:
        return Changed(_MEMORY_BYTES_MIN, "less is not valid here, where it bounds the whole process")
    if count <= 0:
        return "infinity"
    return Changed(count, "it bounds the whole process here, so give more than to mosquitto, or 70% of the machine")


def _expiration(text: str) -> Value | Changed:
    unit, count = text[-1:], text[:-1]
    if unit not in _PERIODS_S or not count.isdecimal() or not count.isascii():
        raise ValueRefusedError("a number with h, d, w, m or y is valid, such as 14d")
    seconds = int(count) * _PERIODS_S[unit]
    if seconds >= _EXPIRY_MAX_S:
        return Changed(_NEVER, "which is for ever")
    return f"{seconds}s"


def _keepalive(text: str) -> Value:
    return number(text) or "disabled"


def _interval(text: str) -> Value:
    seconds = number(text)
    return f"{seconds}s" if seconds > 0 else "disabled"


def _alias_of_broker(text: str) -> Value | Changed:
    count = number(text)
    return count if 0 <= count <= 256 else Changed(256, "256 are the most that are set here")


def _as_it_is(text: str) -> Value:
    return text


def _connections(text: str) -> Value:
    return _limit(text)


def _tls_versions(text: str) -> Value | Changed:
    """mosquitto names the lowest version."""
    if text == "tlsv1.3":
        return ["tlsv1.3"]
    if text == "tlsv1.2":
        return ["tlsv1.3", "tlsv1.2"]
    return Changed(["tlsv1.3", "tlsv1.2"], "older versions of TLS are not spoken")


_SERVICE: Final = "the service manager's: heliograph service install"
_ALWAYS: Final = "what is acknowledged is always on the disk"
_OLD: Final = "mosquitto itself ignores it"
_ENGINE: Final = "keys are in PEM files: export it, and name it with ssl_options.keyfile"

#: Options for the whole broker.
GLOBAL: Final[Mapping[str, Fate]] = {
    "allow_duplicate_messages": NotImported(
        "a client with several matching subscriptions gets a message for each of them"
    ),
    "autosave_interval": Dropped(_ALWAYS),
    "autosave_on_changes": Dropped(_ALWAYS),
    "check_retain_source": AsSetting("authorization.check_retained_source", boolean),
    "connection_messages": Dropped("connections are logged at the level info: log.console.level"),
    "log_facility": Dropped("the log goes to standard error, from which the service manager takes it"),
    "log_timestamp": Dropped("every line of the log has its time"),
    "log_timestamp_format": Dropped("log.console.timestamp_format is auto, epoch or rfc3339"),
    "max_inflight_bytes": NotImported("messages in flight are bounded by their number: mqtt.max_inflight"),
    "max_inflight_messages": AsSetting("mqtt.max_inflight", _window),
    "max_keepalive": AsSetting(
        "mqtt.server_keepalive",
        _keepalive,
        "it is imposed on all MQTT 5 clients; mosquitto imposes it on those that ask for more",
    ),
    "max_packet_size": AsSetting("mqtt.max_packet_size", _packet_bytes),
    "max_queued_bytes": AsSetting("mqtt.max_mqueue_bytes", _queue_bytes),
    "max_queued_messages": AsSetting("mqtt.max_mqueue_len", _limit),
    "memory_limit": AsSetting("node.memory_limit", _memory),
    "message_size_limit": AsSetting(
        "mqtt.max_packet_size", _packet_bytes, "it bounds the whole packet, topic and properties too"
    ),
    "persistence_file": Dropped("everything is in the data directory: node.data_dir, or --data-dir"),
    "persistence_location": Dropped("everything is in the data directory: node.data_dir, or --data-dir"),
    "persistent_client_expiration": AsSetting("mqtt.session_expiry_interval", _expiration),
    "pid_file": Dropped(_SERVICE),
    "queue_qos0_messages": AsSetting("mqtt.mqueue_store_qos0", boolean),
    "retain_available": AsSetting("mqtt.retain_available", boolean),
    "retry_interval": Dropped(_OLD),
    "set_tcp_nodelay": Dropped("small packets are sent at once: tcp_options.nodelay of a listener"),
    "store_clean_interval": Dropped(_OLD),
    "sys_interval": AsSetting("sys_topics.sys_msg_interval", _interval, "topics below $SYS have other names here"),
    "upgrade_outgoing_qos": AsSetting("mqtt.upgrade_qos", boolean),
    "user": Dropped(_SERVICE),
    "websockets_headers_size": Dropped("headers are bounded by the node itself"),
    "websockets_log_level": Dropped("there is one level for all of the log: log.console.level"),
}

#: Options of the listener that stands before them. Paths below `mqtt` are of its zone.
LISTENER: Final[Mapping[str, Fate]] = {
    "bind_interface": NotImported("name an address of it in bind; the listener is on the loopback until then"),
    "ciphers": AsSetting("ssl_options.ciphers", _as_it_is),
    "ciphers_tls1.3": Dropped("OpenSSL's own cipher suites of TLS 1.3 are used"),
    "dhparamfile": Dropped("the key exchange uses elliptic curves"),
    "capath": NotImported(
        "put the certificates of the directory into one file, and name it with ssl_options.cacertfile"
    ),
    "enable_proxy_protocol": AsSetting("proxy_protocol", boolean),
    "http_dir": NotImported("a web server such as nginx serves files"),
    "max_connections": AsSetting("max_connections", _connections),
    "max_qos": AsSetting("mqtt.max_qos_allowed", _within(2)),
    "max_topic_alias": AsSetting("mqtt.max_topic_alias", _within(65_535)),
    "max_topic_alias_broker": AsSetting("mqtt.server_topic_alias", _alias_of_broker),
    "mount_point": AsSetting("mountpoint", _as_it_is),
    "tls_engine": NotImported(_ENGINE),
    "tls_engine_kpass_sha1": NotImported(_ENGINE),
    "tls_keyform": NotImported(_ENGINE),
    "tls_version": AsSetting("ssl_options.versions", _tls_versions),
    "use_username_as_clientid": AsSetting("mqtt.use_username_as_clientid", boolean),
}

#: What mosquitto does where its file says nothing, and a node would do otherwise: option, its default, setting, value.
DEFAULTS: Final = (
    ("max_inflight_messages", "20", "mqtt.max_inflight", 20),
    ("persistent_client_expiration", "never", "mqtt.session_expiry_interval", _NEVER),
    ("queue_qos0_messages", "false", "mqtt.mqueue_store_qos0", False),
)
#: The largest packet: by this option or the other one.
PACKET_OPTIONS: Final = ("max_packet_size", "message_size_limit")
PACKET_BYTES_MAX: Final = _PACKET_BYTES_MAX

#: Options of a bridge, after `connection NAME`.
BRIDGE: Final = frozenset(
    (
        *("address", "addresses", "bridge_alpn", "bridge_attempt_unsubscribe", "bridge_bind_address"),
        *("bridge_cafile", "bridge_capath", "bridge_certfile", "bridge_identity", "bridge_insecure"),
        *("bridge_keyfile", "bridge_max_packet_size", "bridge_max_topic_alias", "bridge_outgoing_retain"),
        *("bridge_protocol_version", "bridge_psk", "bridge_receive_maximum", "bridge_reload_type"),
        *("bridge_require_ocsp", "bridge_session_expiry_interval", "bridge_tcp_keepalive"),
        *("bridge_tcp_user_timeout", "bridge_tls_version", "cleansession", "clientid", "idle_timeout"),
        *("keepalive_interval", "local_cleansession", "local_clientid", "local_password", "local_username"),
        *("notification_topic", "notifications", "notifications_local_only", "password", "remote_clientid"),
        *("remote_password", "remote_username", "restart_timeout", "round_robin", "start_type", "threshold"),
        *("topic", "try_private", "username"),
    )
)
