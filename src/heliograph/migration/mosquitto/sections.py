"""The lines of a mosquitto.conf by what they are about: the broker, a listener, or a bridge."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from heliograph.migration.draft import Tree
from heliograph.migration.mosquitto.lines import Line
from heliograph.migration.mosquitto.options import BRIDGE, LISTENER, ValueRefusedError, boolean
from heliograph.migration.outcomes import ForeignLine

_PORT: Final = 1883
_PORT_MAX: Final = 65_535
_TLS: Final = ("cafile", "certfile", "crlfile", "keyfile", "psk_hint", "require_certificate")
_IDENTITIES: Final = ("use_identity_as_username", "use_subject_as_username")
_LISTENER: Final = frozenset(
    (*LISTENER, *_TLS, *_IDENTITIES, "bind_address", "listener", "port", "protocol", "socket_domain")
)
SECURITY: Final = frozenset(
    ("acl_file", "allow_anonymous", "allow_zero_length_clientid", "auto_id_prefix", "password_file", "psk_file")
)
#: A prefix of client ids that stands in a regular expression as it is.
PLAIN_PREFIX: Final = re.compile("[A-Za-z0-9_/-]+")
_DYNAMIC: Final = "dynamic_security"
#: What a listener may speak.
PROTOCOLS: Final = ("mqtt", "mqttv3", "mqttv5", "websockets")
PLUGIN_PREFIXES: Final = ("plugin", "auth_plugin", "auth_opt_", "global_plugin")


@dataclass(slots=True)
class Security:
    """Who may connect and do what: of the broker, or with `per_listener_settings` of one listener."""

    lines: dict[str, Line] = field(default_factory=dict)
    has_plugin: bool = False

    @property
    def dynamic_users(self) -> Line | None:
        """The line that names the file of the plugin for dynamic security, where that has the users."""
        plugin = self.lines.get("plugin")
        is_dynamic = plugin is not None and _DYNAMIC in plugin.value and "password_file" not in self.lines
        return self.lines.get("plugin_opt_config_file") if is_dynamic else None

    def is_on(self, option: str, default: bool) -> bool:
        return is_true(self.lines[option]) if option in self.lines else default


@dataclass(slots=True)
class Bridge:
    name: str


@dataclass(slots=True)
class ListenerSection:
    """A listener.

    Attributes:
        host: Its address or the path of a Unix socket; empty for every address.
        lines: The last line of each option.
        name: Its name here; `kind` and `name` are known when all lines are read.
        tree: Its settings here.
        mqtt: Those of its zone.
    """

    port: int
    host: str
    place: ForeignLine
    lines: dict[str, Line] = field(default_factory=dict)
    security: Security = field(default_factory=Security)
    kind: str = "tcp"
    name: str = ""
    tree: Tree = field(default_factory=dict)
    mqtt: Tree = field(default_factory=dict)

    @property
    def path(self) -> str:
        return f"listeners.{self.kind}.{self.name}"

    @property
    def is_left_out(self) -> bool:
        """Whether it speaks what is not spoken here: TLS-PSK, or another protocol than MQTT."""
        has_psk = "certfile" not in self.lines and "psk_hint" in self.lines
        return has_psk or ("protocol" in self.lines and self.lines["protocol"].value not in PROTOCOLS)

    @property
    def mountpoint(self) -> str:
        return self.lines["mount_point"].value if "mount_point" in self.lines else ""

    def is_on(self, option: str) -> bool:
        return option in self.lines and is_true(self.lines[option])

    @property
    def identity(self) -> str | None:
        """The option by which a certificate names its user, if it does."""
        return next((option for option in reversed(_IDENTITIES) if self.is_on(option)), None)

    @property
    def needs_certificate(self) -> bool:
        return self.is_on("require_certificate") and "certfile" in self.lines


Owner: TypeAlias = ListenerSection | Bridge | None


@dataclass(slots=True)
class Sections:
    """All lines with what they are about, in their order.

    Attributes:
        security: That of the broker, which holds for all listeners unless each has its own.
        clientid_prefix: What client ids must begin with; None for anything.
        is_local: Whether no listener is described, so that mosquitto listens on the loopback alone.
    """

    owned: list[tuple[Line, Owner]]
    listeners: list[ListenerSection]
    security: Security
    is_per_listener: bool
    is_local: bool
    options: frozenset[str]

    @property
    def clientid_prefix(self) -> str | None:
        named = [line.value for line, _ in self.owned if line.option == "clientid_prefixes"]
        return named[-1] if named and PLAIN_PREFIX.fullmatch(named[-1]) else None


def is_true(line: Line) -> bool:
    """What a line says that is true or false; raises `ValueRefusedError`, which names the line."""
    try:
        return boolean(line.value)
    except ValueRefusedError as error:
        raise ValueRefusedError(f"{line.place}: {line.option} {line.value}: {error}") from None


def sections_of(lines: Iterable[Line]) -> Sections:
    """Group lines; `ValueRefusedError` where mosquitto would not read them."""
    listed = list(lines)
    per_listener = [is_true(line) for line in listed if line.option == "per_listener_settings"]
    is_per_listener = bool(per_listener) and per_listener[-1]
    default = ListenerSection(_PORT, "", listed[0].place if listed else ForeignLine("mosquitto.conf"))
    current, bridge = default, Bridge("")
    listeners: list[ListenerSection] = []
    common = Security()
    owned: list[tuple[Line, Owner]] = []
    for line in listed:
        owner: Owner = None
        if line.option == "listener":
            owner = current = _new_listener(line)
            listeners.append(current)
        elif line.option == "connection":
            owner = bridge = Bridge(line.value)
        elif line.option in BRIDGE:
            owner = bridge
        elif line.option in _LISTENER:
            owner = current
            _describe(current, line)
        elif line.option in SECURITY or line.option.startswith(PLUGIN_PREFIXES):
            owner = current if is_per_listener else None
            _secure(current.security if is_per_listener else common, line)
        owned.append((line, owner))
    is_described = bool(default.lines) or (is_per_listener and not listeners)
    is_local = not listeners and not ({"port", "bind_address"} & default.lines.keys())
    if is_described or is_local:
        listeners.insert(0, default)
    for listener in listeners:
        listener.kind = _kind(listener)
        listener.security = listener.security if is_per_listener else common
    _name(listeners)
    return Sections(owned, listeners, common, is_per_listener, is_local, frozenset(line.option for line in listed))


def _new_listener(line: Line) -> ListenerSection:
    port, _, host = line.value.partition(" ")
    return ListenerSection(_port(line, port), host.strip(), line.place)


def _port(line: Line, text: str) -> int:
    if not (text.isascii() and text.isdecimal() and int(text) <= _PORT_MAX):
        raise ValueRefusedError(f"{line.place}: {line.option} needs a port, found {line.value!r}")
    return int(text)


def _describe(listener: ListenerSection, line: Line) -> None:
    listener.lines[line.option] = line
    if line.option == "port":
        listener.port, listener.place = _port(line, line.value), line.place
    elif line.option == "bind_address":
        listener.host = line.value


def _secure(security: Security, line: Line) -> None:
    security.lines[line.option] = line
    security.has_plugin |= line.option.startswith(("plugin", "auth_plugin", "global_plugin"))


def _kind(listener: ListenerSection) -> str:
    is_websocket = "protocol" in listener.lines and listener.lines["protocol"].value == "websockets"
    is_tls = "certfile" in listener.lines
    return {(False, False): "tcp", (False, True): "ssl", (True, False): "ws", (True, True): "wss"}[is_websocket, is_tls]


def _name(listeners: list[ListenerSection]) -> None:
    """The first of each kind is `default`, others are named by their port."""
    taken: set[str] = set()
    for listener in listeners:
        own = f"port_{listener.port}" if listener.port else "unix"
        for name in ("default", own, *(f"{own}_{number}" for number in range(2, len(listeners) + 2))):
            if f"{listener.kind}:{name}" not in taken:
                break
        listener.name = name
        taken.add(f"{listener.kind}:{name}")
