"""Bridges of mosquitto: a connector, a source for what comes in, an action and a rule for what goes out."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

from heliograph.migration.draft import ImportDraft, Tree, said
from heliograph.migration.mosquitto.lines import Line
from heliograph.migration.mosquitto.options import ValueRefusedError, boolean
from heliograph.migration.outcomes import CHANGED, DROPPED, KEPT, REFUSED, ImportOutcome

_NOT_IN_NAMES: Final = re.compile(r"[^A-Za-z0-9_-]")
_VERSIONS: Final = {"mqttv31": "v3", "mqttv311": "v4", "mqttv50": "v5"}
_PORT: Final = 1883
_SETTINGS: Final = {
    "username": "username",
    "remote_username": "username",
    "password": "password",
    "remote_password": "password",
    "bridge_cafile": "ssl.cacertfile",
    "bridge_certfile": "ssl.certfile",
    "bridge_keyfile": "ssl.keyfile",
}
_DROPPED: Final = {
    "cleansession": "sources keep their sessions, so that nothing is lost while this node is down",
    "clientid": "client ids are made here: clientid_prefix of the connector",
    "remote_clientid": "client ids are made here: clientid_prefix of the connector",
    "local_clientid": "a source is no client here",
    "local_cleansession": "a source is no client here",
    "local_username": "a source is no client here",
    "local_password": "a source is no client here",
    "notifications": "an alarm says that a source is not connected",
    "notifications_local_only": "an alarm says that a source is not connected",
    "notification_topic": "an alarm says that a source is not connected",
    "restart_timeout": "a lost connection is made again after a pause that doubles",
    "start_type": "it connects at the start, and stays connected",
    "try_private": "whether the other broker knows bridges makes no difference",
}
_BOTH: Final = (
    "source and action have a connection each, so what goes out would come in again: give the two directions topics of "
    "their own (docs/bridges.md)"
)


def _topic_without(prefix: str) -> str:
    return "${bridged}" if prefix else "${topic}"


def _sql(topics: str, prefix: str) -> str:
    """What reads messages, with the rest of their topics behind a prefix."""
    if not prefix:
        return f'SELECT * FROM "{topics}"'
    size = len(prefix)  # `a/#` is also `a`, which has no rest
    return f'SELECT *, substr(topic, {size}) AS bridged FROM "{topics}" WHERE strlen(topic) > {size}'


class BridgeImport:
    """One bridge; `connection` is the first of its lines."""

    def __init__(self, draft: ImportDraft, name: str, lines: Sequence[Line]) -> None:
        self._draft = draft
        self._name = _NOT_IN_NAMES.sub("_", name)
        places = [line.value for line in lines if line.option in ("address", "addresses")]
        self._addresses = " ".join(places).split()
        self._count = 0
        if self._addresses:
            host = self._addresses[0]
            version = next((line.value for line in lines if line.option == "bridge_protocol_version"), "mqttv311")
            self._set("server", host if re.search(r":\d+$", host) else f"{host}:{_PORT}")
            self._set("proto_ver", _VERSIONS.get(version, "v4"))

    def outcome(self, line: Line, shown: str) -> Iterator[ImportOutcome]:
        """What becomes of one of its lines; raises `ValueRefusedError`."""
        option, value = line.option, line.value
        if not self._addresses:
            yield ImportOutcome(line.place, REFUSED, shown, reason="the bridge has no address")
        elif option == "connection":
            yield ImportOutcome(line.place, CHANGED, shown, f"connectors.mqtt.{self._name}", "docs/bridges.md")
        elif option in ("address", "addresses"):
            more = "" if len(self._addresses) == 1 else f"the first of {len(self._addresses)} addresses"
            here = f"connectors.mqtt.{self._name}.server"
            yield ImportOutcome(line.place, CHANGED if more else KEPT, shown, here, more)
        elif option == "bridge_protocol_version" and value in _VERSIONS:
            here = said(f"connectors.mqtt.{self._name}.proto_ver", _VERSIONS[value])
            yield ImportOutcome(line.place, KEPT, shown, here)
        elif option == "topic":
            yield self._topic(line, shown)
        elif option in _SETTINGS:
            self._set(_SETTINGS[option], value)
            if option.startswith("bridge_"):
                self._set("ssl.enable", True)
            yield ImportOutcome(line.place, KEPT, shown, f"connectors.mqtt.{self._name}.{_SETTINGS[option]}")
        elif option == "bridge_insecure":
            yield self._insecure(line, shown)
        elif option == "keepalive_interval" and value.isdecimal() and int(value):
            self._set("keepalive", f"{value}s")
            here = said(f"connectors.mqtt.{self._name}.keepalive", f"{value}s")
            yield ImportOutcome(line.place, KEPT, shown, here)
        elif option in _DROPPED:
            yield ImportOutcome(line.place, DROPPED, shown, reason=_DROPPED[option])
        else:
            reason = f"it is of the bridge {self._name}, and there is nothing like it here"
            yield ImportOutcome(line.place, REFUSED, shown, reason=reason)

    def _insecure(self, line: Line, shown: str) -> ImportOutcome:
        if boolean(line.value):
            reason = "mosquitto verifies all but the name then; this would verify nothing: set ssl.verify if it must be"
            return ImportOutcome(line.place, REFUSED, shown, reason=reason)
        return ImportOutcome(line.place, KEPT, shown, f"connectors.mqtt.{self._name}.ssl.verify, which is the default")

    def _topic(self, line: Line, shown: str) -> ImportOutcome:
        words = [word.strip('"') for word in line.value.split()]
        pattern, direction, qos, local, remote = (*words, *("", "out", "0", "", "")[len(words) :])[:5]
        if direction not in ("in", "out", "both") or qos not in ("0", "1", "2") or not pattern:
            raise ValueRefusedError("expected PATTERN, in, out or both, a QoS and two prefixes")
        if direction == "both":
            return ImportOutcome(line.place, REFUSED, shown, reason=_BOTH)
        self._count += 1
        name = f"{self._name}_{self._count}"
        if direction == "in":
            return self._topic_in(line, shown, name, (pattern, qos, local, remote))
        action: Tree = {
            "connector": self._name,
            "parameters": {"topic": f"{remote}{_topic_without(local)}", "qos": int(qos), "payload": "${payload}"},
        }
        self._draft.set(f"actions.mqtt.{name}", action)
        self._draft.set("actions.engine", "auto")
        rule: Tree = {"sql": _sql(f"{local}{pattern}", local), "actions": [f"mqtt:{name}"]}
        self._draft.set(f"rule_engine.rules.{name}", rule)
        here = f"actions.mqtt.{name} and rule_engine.rules.{name}"
        reason = "what goes out is stored first, and waits there (pip install 'heliograph[actions]')"
        return ImportOutcome(line.place, CHANGED, shown, here, reason)

    def _topic_in(self, line: Line, shown: str, name: str, words: tuple[str, str, str, str]) -> ImportOutcome:
        pattern, qos, local, remote = words
        source: Tree = {"connector": self._name, "parameters": {"topic": f"{remote}{pattern}", "qos": int(qos)}}
        if not remote:
            self._draft.set(f"sources.mqtt.{name}", {**source, "local": {"topic": f"{local}${{topic}}"}})
            return ImportOutcome(line.place, KEPT, shown, f"sources.mqtt.{name}")
        self._draft.set(f"sources.mqtt.{name}", source)
        args: Tree = {
            "topic": f"{local}{_topic_without(remote)}",
            "payload": "${payload}",
            "qos": "${qos}",
            "retain": "${retain}",
            "user_properties": "${pub_props.'User-Property'}",
        }
        rule: Tree = {
            "sql": _sql(f"$bridges/mqtt:{name}", remote),
            "actions": [{"function": "republish", "args": args}],
        }
        self._draft.set(f"rule_engine.rules.{name}", rule)
        here = f"sources.mqtt.{name} and rule_engine.rules.{name}"
        return ImportOutcome(line.place, CHANGED, shown, here, f"the rule takes {remote} from topics")

    def _set(self, setting: str, value: str | bool) -> None:
        self._draft.set(f"connectors.mqtt.{self._name}.{setting}", value)
