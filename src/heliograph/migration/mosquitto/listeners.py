"""Listeners: their addresses, TLS and WebSocket, and the zones of settings that they do not share."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from heliograph.migration.draft import ImportDraft, Tree, Value, said, set_in
from heliograph.migration.mosquitto.lines import Line
from heliograph.migration.mosquitto.options import LISTENER, AsSetting, Changed, Dropped, NotImported, boolean
from heliograph.migration.mosquitto.sections import ListenerSection
from heliograph.migration.outcomes import CHANGED, DROPPED, KEPT, REFUSED, ForeignLine, ImportOutcome
from heliograph.settings.units import is_loopback

_FILES: Final = {"certfile": "certfile", "keyfile": "keyfile", "cafile": "cacertfile", "crlfile": "crlfile"}
_IDENTITIES: Final = {"use_identity_as_username": "cn", "use_subject_as_username": "dn"}
_MQTT: Final = "mqtt."
_NO_CERTIFICATE: Final = "the listener has no certfile, so it speaks no TLS"
_LEFT_OUT: Final = (
    "this listener is left out, since neither pre-shared keys nor other protocols than MQTT are there: use "
    "certificates or passwords (docs/listeners.md)"
)


def place_listener(draft: ImportDraft, listener: ListenerSection, is_alone: bool, is_local: bool) -> None:
    """Put a listener, and what its zone has, into the configuration.

    Args:
        is_alone: Whether it is the only one, so that it needs no zone.
    """
    listener.tree = {"bind": bind_of(listener, is_local), **listener.tree}
    if listener.mqtt and not is_alone:
        zone = f"{listener.kind}_{listener.name}"
        listener.tree["zone"] = zone
        draft.tree.setdefault("zones", {})[zone] = {"mqtt": listener.mqtt}
    elif listener.mqtt:
        draft.tree.setdefault("mqtt", {}).update(listener.mqtt)
    draft.tree.setdefault("listeners", {}).setdefault(listener.kind, {})[listener.name] = listener.tree


def bind_of(listener: ListenerSection, is_local: bool) -> str:
    """Where it listens, as `bind` has it."""
    if listener.port == 0:
        return f"unix:{listener.host}"
    if is_local or ("bind_interface" in listener.lines and not listener.host):
        return f"127.0.0.1:{listener.port}"
    is_ipv6 = "socket_domain" in listener.lines and listener.lines["socket_domain"].value == "ipv6"
    host = listener.host or ("::" if is_ipv6 else "0.0.0.0")
    return f"[{host}]:{listener.port}" if ":" in host else f"{host}:{listener.port}"


def is_reachable(listener: ListenerSection, is_local: bool) -> bool:
    """Whether other machines reach it."""
    return listener.port != 0 and not is_loopback(bind_of(listener, is_local).rpartition(":")[0].strip("[]"))


def bind_outcome(
    listener: ListenerSection, place: ForeignLine, setting: str, is_local: bool
) -> Iterator[ImportOutcome]:
    """What became of the line that begins a listener."""
    if listener.is_left_out:
        yield ImportOutcome(place, REFUSED, setting, reason=_LEFT_OUT)
        return
    here = said(f"{listener.path}.bind", bind_of(listener, is_local))
    if listener.host or listener.port == 0 or is_local or "socket_domain" in listener.lines:
        yield ImportOutcome(place, KEPT, setting, here)
    else:
        reason = f'these are the IPv4 addresses; write "[::]:{listener.port}" for those of IPv6 too'
        yield ImportOutcome(place, CHANGED, setting, here, reason)


def listener_outcome(listener: ListenerSection, line: Line, is_local: bool) -> ImportOutcome:
    """Take over one option of a listener."""
    setting = f"{line.option} {line.value}"
    if listener.is_left_out:
        return ImportOutcome(line.place, REFUSED, setting, reason=_LEFT_OUT)
    if line.option in _FILES or line.option == "require_certificate":
        return _tls(listener, line, setting)
    if line.option in _IDENTITIES:
        return _identity(listener, line, setting)
    if line.option == "protocol":
        return _protocol(listener, line, setting)
    if line.option in ("port", "bind_address", "socket_domain"):
        return ImportOutcome(line.place, KEPT, setting, said(f"{listener.path}.bind", bind_of(listener, is_local)))
    if line.option == "psk_hint":
        return ImportOutcome(line.place, REFUSED, setting, reason="only clients that use certificates connect here")
    fate = LISTENER[line.option]
    if isinstance(fate, Dropped):
        return ImportOutcome(line.place, DROPPED, setting, reason=fate.reason)
    if isinstance(fate, NotImported):
        return ImportOutcome(line.place, REFUSED, setting, reason=fate.reason)
    return _setting(listener, line, setting, fate)


def _setting(listener: ListenerSection, line: Line, setting: str, fate: AsSetting) -> ImportOutcome:
    if fate.path.startswith("ssl_options") and "certfile" not in listener.lines:
        return ImportOutcome(line.place, DROPPED, setting, reason=_NO_CERTIFICATE)
    made = fate.convert(line.value)
    value = made.value if isinstance(made, Changed) else made
    reason = made.reason if isinstance(made, Changed) else fate.reason
    where = _set(listener, fate.path, value)
    return ImportOutcome(line.place, CHANGED if reason else KEPT, setting, said(where, value), reason)


def _set(listener: ListenerSection, path: str, value: Value) -> str:
    """Set a value of a listener or of its zone; its path in the configuration."""
    if path.startswith(_MQTT):
        listener.mqtt[path.removeprefix(_MQTT)] = value
        return f"{path} of the listener {listener.kind}:{listener.name}"
    set_in(listener.tree, path, value)
    return f"{listener.path}.{path}"


def _tls(listener: ListenerSection, line: Line, setting: str) -> ImportOutcome:
    if "certfile" not in listener.lines:
        return ImportOutcome(line.place, DROPPED, setting, reason=_NO_CERTIFICATE)
    options: Tree = listener.tree.setdefault("ssl_options", {})
    path = f"{listener.path}.ssl_options"
    if line.option == "require_certificate":
        if not boolean(line.value):
            return ImportOutcome(line.place, KEPT, setting, f"{path}.verify = verify_none")
        options |= {"verify": "verify_peer", "fail_if_no_peer_cert": True}
        return ImportOutcome(
            line.place, KEPT, setting, f"{path} {{ verify = verify_peer, fail_if_no_peer_cert = true }}"
        )
    found = line.found(line.value)
    file = str(found.resolve()) if found is not None else line.value
    options[_FILES[line.option]] = file
    if line.option == "crlfile" and listener.needs_certificate:
        options["enable_crl_check"] = True
    here = said(f"{path}.{_FILES[line.option]}", file)
    if found is not None and file != line.value:
        return ImportOutcome(line.place, CHANGED, setting, here, "it was found there")
    return ImportOutcome(line.place, KEPT, setting, here)


def _identity(listener: ListenerSection, line: Line, setting: str) -> ImportOutcome:
    if not boolean(line.value):
        return ImportOutcome(line.place, KEPT, setting, "mqtt.peer_cert_as_username = disabled")
    if not listener.needs_certificate:
        reason = "it means nothing without certfile and require_certificate true"
        return ImportOutcome(line.place, DROPPED, setting, reason=reason)
    where = _set(listener, "mqtt.peer_cert_as_username", _IDENTITIES[line.option])
    here = said(where, _IDENTITIES[line.option])
    return ImportOutcome(
        line.place, KEPT, setting, here, "the authenticator cinfo lets in who has a certificate; no password is needed"
    )


def _protocol(listener: ListenerSection, line: Line, setting: str) -> ImportOutcome:
    if line.value == "websockets":
        return ImportOutcome(
            line.place,
            CHANGED,
            setting,
            listener.path,
            "clients must ask for the path /mqtt (websocket.mqtt_path); mosquitto takes every path",
        )
    return ImportOutcome(line.place, KEPT, setting, listener.path)
