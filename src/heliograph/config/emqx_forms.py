"""What EMQX writes otherwise: forms that are taken, and roots and settings that have another name here, or none."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from heliograph.hocon.merging import merge_nodes
from heliograph.hocon.values import Node
from heliograph.hocon.walking import run_walk

KeyPath = tuple[str, ...]

# A group that EMQX has one level deeper, and the one that it is here.
_DEEPER: Final[Mapping[KeyPath, KeyPath]] = {("log", "file", "default"): ("log", "file")}
_NONE: Final = "EMQX's, and there is nothing like it here: delete it"
_ALWAYS_AGAIN: Final = "EMQX's; a lost connection is always made again here: delete it"
# `*` stands for a name, or for the number of an element.
_ELSEWHERE: Final[Mapping[str, str]] = {
    "bridges": "EMQX's former connectors and actions: write connectors and actions (docs/actions.md)",
    "cluster": "EMQX's; a node is alone here: delete it",
    "crl_cache": "EMQX's, and there is nothing like it here: revoked certificates are in files (docs/listeners.md)",
    "exhook": "EMQX's, and there is nothing like it here: a program that embeds a Node has hooks (docs/hooks.md)",
    "file_transfer": _NONE,
    "force_gc": _NONE,
    "gateway": "EMQX's gateways of other protocols are not there: delete it",
    "license": "EMQX's; none is needed: delete it",
    "limiter": "EMQX's former limits: write max_conn_rate, messages_rate and bytes_rate of a listener",
    "plugins": _NONE,
    "psk_authentication": "EMQX's, and there is none here: use certificates or passwords (docs/listeners.md)",
    "rpc": "EMQX's; a node is alone here: delete it",
    "stats": _NONE,
    "telemetry": "EMQX's reports to its maker; nothing is reported here: delete it",
    "broker.routing": _NONE,
    "log.console_handler": "EMQX's former name: write log.console",
    "log.file_handlers": "EMQX's former name: write log.file",
    "node.applications": _NONE,
    "node.cookie": _NONE,
    "node.crash_dump_file": _NONE,
    "node.db_backend": _NONE,
    "node.db_role": _NONE,
    "node.dist_buffer_size": _NONE,
    "node.global_gc_interval": _NONE,
    "node.max_ports": "EMQX's; connections are limited by the open files of the process (docs/listeners.md): delete it",
    "node.process_limit": _NONE,
    "node.role": _NONE,
    "node.tags": _NONE,
    "sysmon.vm.long_gc": _NONE,
    "sysmon.vm.large_heap": _NONE,
    "sysmon.vm.busy_port": _NONE,
    "sysmon.vm.busy_dist_port": _NONE,
    "sysmon.top": _NONE,
    "authentication.*.auto_reconnect": _ALWAYS_AGAIN,
    "authorization.sources.*.auto_reconnect": _ALWAYS_AGAIN,
    "durable_sessions.idle_poll_interval": _NONE,
    "durable_sessions.renew_streams_interval": _NONE,
    "durable_sessions.session_gc_interval": _NONE,
    "durable_sessions.session_gc_batch_size": _NONE,
    "listeners.quic": "EMQX's; QUIC is not spoken here: let clients connect by TCP or TLS",
    "listeners.*.*.acceptors": _NONE,
    "listeners.*.*.parse_unit": _NONE,
    "listeners.*.*.tcp_backend": _NONE,
    "listeners.*.*.tcp_options.active_n": _NONE,
    "listeners.*.*.tcp_options.buffer": _NONE,
    "listeners.*.*.tcp_options.reuseaddr": _NONE,
    "listeners.*.*.tcp_options.send_timeout_close": "EMQX's; such a connection is always cut here: delete it",
    "listeners.*.*.ssl_options.client_renegotiation": "EMQX's; clients cannot renegotiate TLS here: delete it",
    "listeners.*.*.ssl_options.depth": "EMQX's; chains of certificates may have any length here: delete it",
    "listeners.*.*.ssl_options.dhfile": "EMQX's; the key exchange uses elliptic curves here: delete it",
    "listeners.*.*.ssl_options.gc_after_handshake": _NONE,
    "listeners.*.*.ssl_options.hibernate_after": _NONE,
    "listeners.*.*.ssl_options.log_level": _NONE,
    "listeners.*.*.ssl_options.managed_certs": "EMQX's; name files: certfile, keyfile, cacertfile",
    "listeners.*.*.ssl_options.ocsp": "EMQX's, and there is nothing like it here: certificates are not stapled",
    "listeners.*.*.ssl_options.partial_chain": "EMQX's, and there is nothing like it here: name the root in cacertfile",
    "listeners.*.*.ssl_options.reuse_sessions": _NONE,
    "listeners.*.*.ssl_options.secure_renegotiate": "EMQX's; clients cannot renegotiate TLS here: delete it",
    "listeners.*.*.ssl_options.user_lookup_fun": _NONE,
    "listeners.*.*.ssl_options.verify_peer_ext_key_usage": (
        "EMQX's, and there is nothing like it here: sign certificates of clients by an authority of their own"
    ),
    "listeners.*.*.websocket.validate_utf8": _NONE,
    "log.throttling": "EMQX's; repeated entries are always throttled here: delete it",
    "log.console.payload_encode": _NONE,
    "log.file.payload_encode": _NONE,
    "mqtt.keepalive_backoff": "EMQX's former name: write keepalive_multiplier, which is twice as much",
    "mqtt.keepalive_check_interval": _NONE,
    "retainer.backend.index_specs": "EMQX's; every filter is found fast here: delete it",
    "retainer.msg_clear_interval": "EMQX's; expired messages go by themselves here: delete it",
}
# Of these, those that take something away from clients or operators; the others may be left out.
_LOSSES: Final = frozenset(
    (
        *("bridges", "crl_cache", "exhook", "file_transfer", "gateway", "limiter", "listeners.quic", "plugins"),
        *("log.console_handler", "log.file_handlers", "mqtt.keepalive_backoff", "psk_authentication"),
        *("listeners.*.*.ssl_options.managed_certs", "listeners.*.*.ssl_options.ocsp"),
        *("listeners.*.*.ssl_options.partial_chain", "listeners.*.*.ssl_options.verify_peer_ext_key_usage"),
    )
)
# Lines that stand in most files of mosquitto and in none of HOCON: a word and its value, with a blank between them.
_MOSQUITTO: Final = re.compile(
    r"^\s*(?:listener|allow_anonymous|password_file|acl_file|per_listener_settings|persistence|persistence_location"
    r"|include_dir|log_dest|log_type|pid_file|user|max_queued_messages|autosave_interval|connection|cafile|certfile"
    r"|keyfile|protocol|socket_domain|max_inflight_messages)[ \t]+[^\s=:{]",
    re.MULTILINE,
)
_MOSQUITTO_LINES_MIN: Final = 2


def in_our_form(tree: Node) -> Node:
    """A document with its groups where they are here."""
    for path in _DEEPER:
        tree = _raised(tree, path)
    return tree


def our_path(path: Sequence[str]) -> KeyPath:
    """Where a setting is that EMQX has at `path`."""
    for deeper, here in _DEEPER.items():
        if tuple(path[: len(deeper)]) == deeper:
            return (*here, *path[len(deeper) :])
    return tuple(path)


def hint(path: Sequence[str]) -> str | None:
    """What to write in the place of a setting that only EMQX knows; None for one that it does not know either."""
    name = _listed(path)
    return None if name is None else _ELSEWHERE[name]


def is_needless(path: Sequence[str]) -> bool:
    """Whether nothing is lost without a setting that only EMQX knows."""
    name = _listed(path)
    return name is not None and name not in _LOSSES


def _listed(path: Sequence[str]) -> str | None:
    return next((name for name in map(".".join, _general(path)) if name in _ELSEWHERE), None)


def _general(path: Sequence[str]) -> Iterator[Sequence[str]]:
    """A path as it is, and with `*` where names and numbers stand in the table."""
    yield path
    yield (*path[:1], "*", *path[2:])
    yield (*path[:2], "*", *path[3:])
    yield (*path[:1], "*", "*", *path[3:])


def is_of_mosquitto(text: str) -> bool:
    """Whether a file is a mosquitto.conf, as far as one can see."""
    return len(_MOSQUITTO.findall(text)) >= _MOSQUITTO_LINES_MIN


def _raised(node: Node, path: KeyPath) -> Node:
    """A group merged into the one that it stands in."""
    name, *below = path
    if not isinstance(node.value, dict) or name not in node.value:
        return node
    child, rest = node.value[name], {key: value for key, value in node.value.items() if key != name}
    if below:
        return Node({**node.value, name: _raised(child, tuple(below))}, node.position, node.source)
    if not isinstance(child.value, dict):
        return node
    return run_walk(merge_nodes(Node(rest, node.position, node.source), child))
