"""From a mosquitto.conf to a configuration, and what became of each of its lines."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from heliograph.migration.draft import ImportDraft, said
from heliograph.migration.errors import ImportRefusedError
from heliograph.migration.mosquitto.access import ACL_FILE, AccessImport
from heliograph.migration.mosquitto.bridges import BridgeImport
from heliograph.migration.mosquitto.database import import_database
from heliograph.migration.mosquitto.lines import Line, included_files, read_lines
from heliograph.migration.mosquitto.listeners import bind_outcome, is_reachable, listener_outcome, place_listener
from heliograph.migration.mosquitto.options import (
    DEFAULTS,
    GLOBAL,
    PACKET_BYTES_MAX,
    PACKET_OPTIONS,
    Changed,
    Dropped,
    NotImported,
    ValueRefusedError,
    boolean,
)
from heliograph.migration.mosquitto.sections import (
    PLUGIN_PREFIXES,
    Bridge,
    ListenerSection,
    Owner,
    Sections,
    sections_of,
)
from heliograph.migration.outcomes import CHANGED, DROPPED, KEPT, REFUSED, ForeignLine, ImportOutcome

# The least severe first; of several lines that one counts.
_LEVELS: Final = {
    "debug": "debug",
    "all": "debug",
    "information": "info",
    "notice": "notice",
    "warning": "warning",
    "error": "error",
}
#: How the name of a database ends.
DATABASE: Final = ".db"
_SECRET: Final = ("password", "psk", "opt_")
_ROLES: Final = "its roles are not imported, so all is denied: say with heliograph ctl acl what users may do"
_PLUGIN: Final = (
    "plugins are not there, so clients that only it knows are refused here: users and rules of databases, HTTP, LDAP "
    "and JWT are settings (docs/authentication.md, docs/authorization.md), others are added with heliograph ctl users "
    "and acl"
)


def import_mosquitto(files: Sequence[Path]) -> ImportDraft:
    """What the files are here: configurations one after the other, and databases.

    Raises:
        ImportRefusedError: One cannot be read, or mosquitto would not take it; so it is with files of rules and users.
    """
    databases = [file for file in files if file.suffix == DATABASE]
    configurations = [file for file in files if file.suffix != DATABASE]
    if not configurations:
        raise ImportRefusedError("a mosquitto.db holds no settings: name the mosquitto.conf too")
    lines = [line for file in configurations for line in read_lines(file)]
    try:
        draft = _Reading(sections_of(lines), ForeignLine(str(configurations[0])), bool(databases)).draft()
    except ValueRefusedError as error:
        raise ImportRefusedError(str(error)) from None
    for database in databases:
        import_database(draft, database, int(time.time()))
    return draft


class _Reading:
    def __init__(self, sections: Sections, file: ForeignLine, has_database: bool) -> None:
        self._draft = ImportDraft()
        self._has_database = has_database
        self._sections = sections
        self._file = file
        self._access = AccessImport(self._draft, sections)
        self._bridges: dict[int, BridgeImport] = {}
        named = [line.value for line, _ in sections.owned if line.option == "log_type" and line.value in _LEVELS]
        self._level = min((_LEVELS[name] for name in named), key=list(_LEVELS.values()).index, default="info")

    def draft(self) -> ImportDraft:
        draft, sections = self._draft, self._sections
        self._access.apply()
        for line, owner in sections.owned:
            draft.outcomes += self._line(line, owner)
        if sections.is_local and not any(isinstance(owner, ListenerSection) for _, owner in sections.owned):
            only = sections.listeners[0]
            draft.outcomes += bind_outcome(only, self._file, "no listener", sections.is_local)
        self._place_listeners()
        draft.outcomes += self._defaults()
        draft.outcomes += self._open_listeners()
        return draft

    def _line(self, line: Line, owner: Owner) -> Iterator[ImportOutcome]:
        try:
            yield from self._outcomes(line, owner)
        except ValueRefusedError as error:
            reason = f"mosquitto does not take this value either: {error}"
            yield ImportOutcome(line.place, REFUSED, _shown(line), reason=reason)

    def _outcomes(self, line: Line, owner: Owner) -> Iterator[ImportOutcome]:
        sections, option = self._sections, line.option
        if isinstance(owner, Bridge):
            yield from self._bridge(owner).outcome(line, _shown(line))
        elif option == "listener":
            assert isinstance(owner, ListenerSection)
            yield from bind_outcome(owner, line.place, _shown(line), sections.is_local)
        elif option.startswith(PLUGIN_PREFIXES):
            yield from self._plugin(line)
        elif option == "password_file":
            yield from self._access.users_file(line)
        elif option == "psk_file":
            yield from self._access.psk_file(line)
        elif option == "acl_file":
            yield self._access.acl_file(line)
        elif option == "allow_anonymous":
            yield self._access.anonymous(line, sections.listeners)
        elif isinstance(owner, ListenerSection) and option not in ("allow_zero_length_clientid", "auto_id_prefix"):
            yield listener_outcome(owner, line, sections.is_local)
        else:
            yield self._global(line)

    def _bridge(self, owner: Bridge) -> BridgeImport:
        made = self._bridges.get(id(owner))
        if made is None:
            lines = [line for line, other in self._sections.owned if other is owner]
            made = self._bridges[id(owner)] = BridgeImport(self._draft, owner.name, lines)
        return made

    def _global(self, line: Line) -> ImportOutcome:
        special = _SPECIAL.get(line.option)
        if special is not None:
            return special(self, line)
        fate = GLOBAL.get(line.option)
        if fate is None:
            reason = (
                "mosquitto 2 has no such option, or it is newer than this table: look it up (docs/configuration.md)"
            )
            return ImportOutcome(line.place, REFUSED, _shown(line), reason=reason)
        if isinstance(fate, Dropped):
            return ImportOutcome(line.place, DROPPED, _shown(line), reason=fate.reason)
        if isinstance(fate, NotImported):
            return ImportOutcome(line.place, REFUSED, _shown(line), reason=fate.reason)
        made = fate.convert(line.value)
        value = made.value if isinstance(made, Changed) else made
        reason = made.reason if isinstance(made, Changed) else fate.reason
        self._draft.set(fate.path, value)
        return ImportOutcome(line.place, CHANGED if reason else KEPT, _shown(line), said(fate.path, value), reason)

    def _plugin(self, line: Line) -> Iterator[ImportOutcome]:
        named = [each.security for each in self._sections.listeners if line in each.security.lines.values()]
        users = named[0].dynamic_users if named else None
        if users is line:
            yield from self._access.users_file(line)
        elif line.option.startswith(("plugin_opt_", "auth_opt_")):
            yield ImportOutcome(line.place, REFUSED, _shown(line), reason="it is the plugin's")
        elif users is not None:
            here = "the authenticator password_based:built_in_database"
            yield ImportOutcome(line.place, CHANGED, _shown(line), here, _ROLES)
        else:
            yield ImportOutcome(line.place, REFUSED, _shown(line), reason=_PLUGIN, loses_login=True)

    # --- options that are more than a value

    def _clientid_prefixes(self, line: Line) -> ImportOutcome:
        if self._sections.clientid_prefix == line.value:
            return ImportOutcome(
                line.place, KEPT, _shown(line), "authentication: cinfo, which refuses other client ids"
            )
        reason = "letters, digits, _, / and - can be compared: refuse others by an authenticator cinfo with regex_match"
        return ImportOutcome(line.place, REFUSED, _shown(line), reason=f"{reason} (docs/authentication.md)")

    def _include_dir(self, line: Line) -> ImportOutcome:
        folder = line.found(line.value)
        if folder is not None and folder.is_dir():
            names = [file.name for file in included_files(folder)]
            return ImportOutcome(line.place, KEPT, _shown(line), ", ".join(names) or "nothing, since no .conf is there")
        reason = "the directory cannot be read: import its files too, after this one"
        return ImportOutcome(line.place, REFUSED, _shown(line), reason=reason)

    def _per_listener(self, line: Line) -> ImportOutcome:
        here = "authentication of each listener, and rules that name their listener"
        kept = "authentication, and rules for all listeners"
        return ImportOutcome(line.place, KEPT, _shown(line), here if self._sections.is_per_listener else kept)

    def _persistence(self, line: Line) -> ImportOutcome:
        if boolean(line.value):
            reason = "" if self._has_database else "give mosquitto.db as a FILE too for its retained messages"
            here = "the default: what is acknowledged is on the disk"
            return ImportOutcome(line.place, KEPT, _shown(line), here, reason)
        self._draft.set("retainer.backend.storage_type", "ram")
        self._draft.set("durable_sessions.enable", False)
        here = "retainer.backend.storage_type = ram, durable_sessions.enable = false"
        return ImportOutcome(line.place, KEPT, _shown(line), here)

    def _log_dest(self, line: Line) -> ImportOutcome:
        target, _, _ = line.value.partition(" ")
        if target in ("stderr", "stdout"):
            reason = "it goes to standard error" if target == "stdout" else ""
            kind = CHANGED if reason else KEPT
            return ImportOutcome(line.place, kind, _shown(line), "log.console.enable = true", reason)
        if target == "file":
            self._draft.set("log.file.enable", True)
            self._draft.set("log.file.level", self._level)
            reason = "the file is log/heliograph.log in the data directory; log.file.path names another"
            return ImportOutcome(line.place, CHANGED, _shown(line), "log.file.enable = true", reason)
        if target == "none":
            self._draft.set("log.console.enable", False)
            return ImportOutcome(line.place, KEPT, _shown(line), "log.console.enable = false")
        reasons = {
            "syslog": "the service manager takes standard error to the journal: heliograph service install",
            "topic": "the log is no topic here; heliograph ctl log and log.file have it",
        }
        return ImportOutcome(
            line.place, DROPPED, _shown(line), reason=reasons.get(target, "log.console and log.file are")
        )

    def _log_type(self, line: Line) -> ImportOutcome:
        if line.value == "none":
            self._draft.set("log.console.enable", False)
            return ImportOutcome(line.place, KEPT, _shown(line), "log.console.enable = false")
        if line.value not in _LEVELS:
            reason = "a trace shows this of single clients and topics: heliograph ctl trace"
            return ImportOutcome(line.place, DROPPED, _shown(line), reason=reason)
        self._draft.set("log.console.level", self._level)
        is_lowest = _LEVELS[line.value] == self._level
        reason = "" if is_lowest else "a level has all that is more severe, and this is the least severe of the lines"
        kind = KEPT if is_lowest else CHANGED
        return ImportOutcome(line.place, kind, _shown(line), said("log.console.level", self._level), reason)

    def _empty_clientid(self, line: Line) -> ImportOutcome:
        if boolean(line.value):
            return ImportOutcome(line.place, KEPT, _shown(line), "the default: such a client gets an id")
        reason = "such a client always gets an id; an authenticator cinfo cannot tell it from others"
        return ImportOutcome(line.place, REFUSED, _shown(line), reason=reason)

    def _id_prefix(self, line: Line) -> ImportOutcome:
        return ImportOutcome(
            line.place, DROPPED, _shown(line), reason="ids that the node gives have a prefix of their own"
        )

    # --- what no line says

    def _place_listeners(self) -> None:
        sections, draft = self._sections, self._draft
        there = [each for each in sections.listeners if not each.is_left_out]
        for listener in there:
            if sections.is_per_listener and not self._access.chains[sections.listeners.index(listener)]:
                listener.tree["enable_authn"] = False
            place_listener(draft, listener, len(there) == 1, sections.is_local)
        if "default" not in draft.tree.setdefault("listeners", {}).setdefault("tcp", {}):
            draft.set("listeners.tcp.default.enable", False)

    def _defaults(self) -> Iterator[ImportOutcome]:
        options = self._sections.options
        for option, default, path, value in DEFAULTS:
            if option not in options:
                self._draft.set(path, value)
                yield ImportOutcome(self._file, KEPT, f"{option} is not set ({default})", said(path, value))
        if not options.intersection(PACKET_OPTIONS):
            self._draft.set("mqtt.max_packet_size", PACKET_BYTES_MAX)
            self._draft.set("retainer.max_payload_size", PACKET_BYTES_MAX)
            here = f"mqtt.max_packet_size and retainer.max_payload_size = {PACKET_BYTES_MAX}"
            reason = "the most that MQTT has; give less where clients may be strangers (the default is 1 MB)"
            yield ImportOutcome(self._file, KEPT, "max_packet_size is not set (no limit)", here, reason)
        if "check_retain_source" not in options and ACL_FILE in self._draft.files:
            here = "authorization.check_retained_source = true"
            yield ImportOutcome(self._file, KEPT, "check_retain_source is not set (true)", here)

    def _open_listeners(self) -> Iterator[ImportOutcome]:
        """Listeners that let everyone in, as mosquitto does: that must be meant."""
        sections = self._sections
        for number, listener in enumerate(sections.listeners):
            is_open = not self._access.chains[number] and not listener.needs_certificate and not listener.is_left_out
            if is_open and is_reachable(listener, sections.is_local):
                listener.tree["allow_anonymous_network"] = True
                here = f"{listener.path}.allow_anonymous_network = true"
                reason = (
                    "every client that reaches it is let in, as in mosquitto; better give the clients users, and "
                    "delete this line"
                )
                yield ImportOutcome(
                    listener.place, CHANGED, f"listener {listener.port} without passwords", here, reason
                )


_SPECIAL: Final = {
    "clientid_prefixes": _Reading._clientid_prefixes,
    "include_dir": _Reading._include_dir,
    "per_listener_settings": _Reading._per_listener,
    "persistence": _Reading._persistence,
    "log_dest": _Reading._log_dest,
    "log_type": _Reading._log_type,
    "allow_zero_length_clientid": _Reading._empty_clientid,
    "auto_id_prefix": _Reading._id_prefix,
}


def _shown(line: Line) -> str:
    """The line without its secrets."""
    is_secret = any(word in line.option for word in _SECRET) and not line.option.endswith("_file")
    value = "******" if is_secret and line.value else line.value
    return f"{line.option} {value}".strip()
