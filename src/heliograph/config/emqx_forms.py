"""What EMQX writes otherwise: forms that are taken, and roots and settings that have another name here, or none."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final

from heliograph.hocon.merging import merge_nodes
from heliograph.hocon.values import Node
from heliograph.hocon.walking import run_walk

KeyPath = tuple[str, ...]

# A group that EMQX has one level deeper, and the one that it is here.
_DEEPER: Final[Mapping[KeyPath, KeyPath]] = {("log", "file", "default"): ("log", "file")}
_NONE: Final = "EMQX's, and there is nothing like it here: delete it"
_ELSEWHERE: Final[Mapping[str, str]] = {
    "bridges": "EMQX's former connectors and actions: write connectors and actions",
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
    "sources": "EMQX's sources of connectors are not there: delete it",
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
}
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
    return _ELSEWHERE.get(".".join(path))


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
