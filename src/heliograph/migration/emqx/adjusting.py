"""What of EMQX's configuration must be another value here, or a file beside the configuration, before it is read."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any, Final

from heliograph.config.actions.roots import ActionSettings
from heliograph.hocon.errors import SourcePosition
from heliograph.hocon.values import Node
from heliograph.migration.draft import BesideFile, ImportDraft
from heliograph.migration.emqx.trees import KeyPath, every_leaf, made, value_at, with_value, without
from heliograph.migration.outcomes import CHANGED, DROPPED, REFUSED, ForeignLine, ImportOutcome
from heliograph.settings.fields import Named, settings_of
from heliograph.settings.kinds import is_pem
from heliograph.settings.reading import list_items

_ETC: Final = re.compile(r"(?:\$\{EMQX_ETC_DIR\}|etc)/(.+)")
_IMPLIED: Final = {"tcp": "0.0.0.0:1883", "ws": "0.0.0.0:8083"}
_TEST_CERTIFICATES: Final = {"ssl": "0.0.0.0:8883", "wss": "0.0.0.0:8084"}
ACL_FILE: Final = "acl.conf"
_RULES: Final = f"{ACL_FILE}, the source of rules"
_SOURCES: Final = ("authorization", "sources")
_LISTS: Final = (("authentication",), _SOURCES)
_PEM_FILES: Final = ("cacertfile", "certfile", "crlfile", "keyfile")
_DELETED: Final = "marked_for_deletion"
_BESIDE: Final = "beside:"  # what stands for a file in a tree, whose values are scalars


class Adjusting:
    """Goes over a tree once."""

    def __init__(self, tree: Node, file: Path, draft: ImportDraft) -> None:
        self._tree = tree
        self._file = file
        self._draft = draft

    def adjusted(self) -> Node:
        """The tree with our values; what became of those that it changes is in the draft."""
        self._lists()
        self._deleted()
        self._data_dir()
        self._keepalive()
        self._rules_file()
        self._listeners()
        self._ciphers()
        self._rules_of_sources()
        self._texts_of_files()
        self._files()
        self._actions_of_rules()
        self._dashboard()
        return self._tree

    def with_files(self, value: Any) -> Any:
        """A plain tree, with the files beside the configuration in it."""
        if isinstance(value, dict):
            return {name: self.with_files(each) for name, each in value.items()}
        if isinstance(value, list):
            return [self.with_files(each) for each in value]
        if isinstance(value, str) and value.startswith(_BESIDE):
            return BesideFile(value.removeprefix(_BESIDE))
        return value

    def _note(self, node: Node | None, kind: str, setting: str, here: str, reason: str) -> None:
        is_read = node is not None and node.position.source
        place = (
            ForeignLine(node.position.source, node.position.line or 0)
            if node and is_read
            else ForeignLine(str(self._file))
        )
        self._draft.outcomes.append(ImportOutcome(place, kind, setting, here, reason))

    def _lists(self) -> None:
        """A single authenticator or source may stand without its list."""
        for path in _LISTS:
            found = value_at(self._tree, path)
            if found is not None and isinstance(found.value, dict) and list_items(found) is None:
                self._tree = with_value(self._tree, path, Node([found], found.position))

    def _deleted(self) -> None:
        """Listeners that were deleted in EMQX, which has some by default."""
        for path, node in list(every_leaf(self._tree)):
            if path[0] == "listeners" and node.value == _DELETED:
                self._set(path, {"enable": False})
                self._note(node, CHANGED, ".".join(path), f"{'.'.join(path)}.enable = false", "it was deleted in EMQX")

    def _keepalive(self) -> None:
        path = ("mqtt", "keepalive_backoff")
        found = value_at(self._tree, path)
        if found is not None and isinstance(found.value, int | float):
            self._tree = without(self._tree, path)
            self._set(("mqtt", "keepalive_multiplier"), found.value * 2)
            here = f"mqtt.keepalive_multiplier = {found.value * 2:g}"
            self._note(
                found, CHANGED, f"mqtt.keepalive_backoff = {found.value}", here, "it is its former name, of half"
            )

    def _rules_file(self) -> None:
        """The file of rules that EMQX reads where nothing is said of sources."""
        if value_at(self._tree, _SOURCES) is not None:
            return
        file = self._file.parent / ACL_FILE
        setting = "authorization.sources is not set (etc/acl.conf)"
        text = _text_of(file)
        if text is not None:
            self._draft.files[ACL_FILE] = text
            self._set(_SOURCES, [{"type": "file", "path": beside(ACL_FILE)}])
            self._note(None, CHANGED, setting, _RULES, f"a copy of {file}")
            return
        self._set(_SOURCES, [])
        self._set(("authorization", "no_match"), "deny")
        reason = "EMQX reads its rules there: put acl.conf beside this file, and import again; until then all is denied"
        self._note(None, REFUSED, setting, "", reason)

    def _data_dir(self) -> None:
        path = ("node", "data_dir")
        found = value_at(self._tree, path)
        if found is not None:
            reason = "it is EMQX's own: start the node with a directory of its own, --data-dir"
            self._note(found, DROPPED, f"node.data_dir = {found.value}", "", reason)
            self._tree = without(self._tree, path)

    def _listeners(self) -> None:
        """The listeners that EMQX has where nothing is said of them."""
        for kind, bind in _IMPLIED.items():
            listener = ("listeners", kind, "default")
            if value_at(self._tree, (*listener, "bind")) is None and not self._is_off(listener):
                self._set((*listener, "bind"), bind)
                here = f"{'.'.join(listener)}.bind = {bind}"
                self._note(None, CHANGED, f"{'.'.join(listener)}.bind is not set", here, "that is EMQX's default")
        for kind, bind in _TEST_CERTIFICATES.items():
            listener = ("listeners", kind, "default")
            found = value_at(self._tree, listener)
            if self._is_off(listener):
                continue
            if value_at(self._tree, (*listener, "ssl_options", "certfile")) is None:
                reason = (
                    f"EMQX listens on {bind} with a certificate for tests, whose key everybody has: get one, and set "
                    f"bind and ssl_options.certfile, keyfile"
                )
                self._note(found, REFUSED, f"{'.'.join(listener)} without certfile", "", reason)
                if found is not None:
                    self._tree = without(self._tree, listener)
            elif found is not None and value_at(self._tree, (*listener, "bind")) is None:
                self._set((*listener, "bind"), bind)
                here = f"{'.'.join(listener)}.bind = {bind}"
                self._note(found, CHANGED, f"{'.'.join(listener)}.bind is not set", here, "that is EMQX's default")

    def _is_off(self, listener: KeyPath) -> bool:
        switch = value_at(self._tree, (*listener, "enable"))
        return switch is not None and switch.value in (False, "false")

    def _ciphers(self) -> None:
        """EMQX has a list of cipher suites, where OpenSSL has a text."""
        for path, node in list(every_leaf(self._tree)):
            if path[0] != "listeners" or path[-1] != "ciphers" or not isinstance(node.value, list):
                continue
            names = [str(item.value) for item in node.value if not str(item.value).startswith("TLS_")]
            self._tree = without(self._tree, path)
            if names:
                self._set(path, ":".join(names))
                reason = "those of TLS 1.3 are OpenSSL's own"
                self._note(node, CHANGED, ".".join(path), f"{'.'.join(path)} = {':'.join(names)}", reason)
            else:
                self._note(node, DROPPED, ".".join(path), "", "the list is empty, or has those of TLS 1.3 alone")

    def _rules_of_sources(self) -> None:
        """An export has the text of an acl.conf in the place of its path."""
        for path, node in list(every_leaf(self._tree)):
            if path[:2] == ("authorization", "sources") and path[3:] == ("rules",) and isinstance(node.value, str):
                self._draft.files[ACL_FILE] = node.value.rstrip("\n") + "\n"
                self._tree = without(self._tree, path)
                self._set((*path[:3], "path"), beside(ACL_FILE))
                self._note(node, CHANGED, ".".join(path), _RULES, "")

    def _texts_of_files(self) -> None:
        """An export has the text of certificates and keys in the place of their files."""
        for path, node in list(every_leaf(self._tree)):
            if path[-1] in _PEM_FILES and isinstance(node.value, str) and is_pem(node.value):
                name = f"{'-'.join(path)}.pem"
                self._draft.files[name] = node.value
                self._set(path, beside(name))
                self._note(
                    node, CHANGED, ".".join(path), f"{'.'.join(path)} = {name}", "its text was in the place of it"
                )

    def _files(self) -> None:
        """Files of EMQX's etc that are beside its configuration."""
        for path, node in list(every_leaf(self._tree)):
            found = _ETC.fullmatch(node.value) if isinstance(node.value, str) else None
            if found is None or not node.position.source:
                continue
            file = Path(node.position.source).parent / found[1]
            text = _text_of(file) if path[:2] == _SOURCES and path[3:] == ("path",) else None
            if text is not None:
                self._draft.files[ACL_FILE] = text
                self._set(path, beside(ACL_FILE))
                self._note(node, CHANGED, f"{'.'.join(path)} = {node.value}", _RULES, f"a copy of {file}")
            elif file.is_file():
                self._set(path, os.fspath(file.resolve()))
                here = f"{'.'.join(path)} = {file.resolve()}"
                self._note(node, CHANGED, f"{'.'.join(path)} = {node.value}", here, "it was found there")

    def _actions_of_rules(self) -> None:
        """Rules that name actions whose type is not there."""
        rules = value_at(self._tree, ("rule_engine", "rules"))
        types = action_types()
        for name in rules.value if rules is not None and isinstance(rules.value, dict) else ():
            path = ("rule_engine", "rules", name, "actions")
            actions = value_at(self._tree, path)
            for number in range(len(list_items(actions) or ()) if actions is not None else 0, 0, -1):
                action = value_at(self._tree, (*path, str(number)))
                if action is None or not isinstance(action.value, str) or action.value.partition(":")[0] in types:
                    continue
                reason = f"actions of this type are not there; types are {', '.join(types)} (docs/actions.md)"
                self._note(action, REFUSED, f"rule_engine.rules.{name}: the action {action.value}", "", reason)
                self._tree = without(self._tree, (*path, str(number)))

    def _dashboard(self) -> None:
        if value_at(self._tree, ("dashboard", "listeners")) is None:
            reason = "it is on the loopback until dashboard.listeners.http.bind says otherwise"
            self._note(
                None, CHANGED, "dashboard.listeners is not set (port 18083 of every address)", "127.0.0.1:18083", reason
            )
        if value_at(self._tree, ("dashboard", "default_password")) is None:
            reason = "there is no default password here: heliograph ctl admins add admin"
            self._note(None, DROPPED, "the user admin of the dashboard with the password public", "", reason)

    def _set(self, path: KeyPath, value: object) -> None:
        self._tree = with_value(self._tree, path, made(value, SourcePosition("")))


def action_types() -> list[str]:
    """The types of actions that are there."""
    return sorted(name for name, each in settings_of(ActionSettings).items() if isinstance(each.kind, Named))


def _text_of(file: Path) -> str | None:
    """The text of a file; None where it cannot be read."""
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return None
    return text if text.endswith("\n") else text + "\n"


def beside(name: str) -> str:
    """What stands in a tree for a file beside the configuration."""
    return f"{_BESIDE}{name}"
