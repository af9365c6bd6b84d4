"""The built-in databases of EMQX: users, rules and bans of an export become files beside the configuration.

No node takes hashes of the dashboard's passwords and of API keys, keys of SCRAM and keys of TLS-PSK. Each of them is
named, since its owner cannot log in any more.
"""

from __future__ import annotations

import csv
import io
import time
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from ipaddress import ip_address
from pathlib import Path
from typing import Final

from heliograph.access.acl.conf import read_acl_conf
from heliograph.access.acl.errors import AclError
from heliograph.access.bans.bootstrap import COLUMNS
from heliograph.access.users.files import FileUser
from heliograph.hocon.errors import SourcePosition
from heliograph.hocon.values import Node
from heliograph.migration.draft import ImportDraft, users_file
from heliograph.migration.emqx.adjusting import ACL_FILE, beside
from heliograph.migration.emqx.archive import Archive, Row
from heliograph.migration.emqx.rules import RuleRefusedError, built_in_rules
from heliograph.migration.emqx.terms import Atom, Term
from heliograph.migration.emqx.trees import KeyPath, made, value_at, with_value
from heliograph.migration.outcomes import CHANGED, DROPPED, KEPT, REFUSED, ForeignLine, ImportOutcome
from heliograph.migration.retained import RetainedMessage, api_properties, take_retained
from heliograph.settings.reading import list_items

_BUILT_IN: Final = "built_in_database"
_USERS: Final = "emqx_authn_mnesia"
_SCRAM: Final = "emqx_enhanced_authn_scram_mnesia"
_RULES: Final = "emqx_acl"
_BANS: Final = "emqx_banned"
_RETAINED: Final = "emqx_retainer_message"
_REASON_CHARS_MAX: Final = 4096
_GLOBAL: Final = "mqtt:global"
_EXPORT: Final = "export them in EMQX (emqx ctl data export), and import the archive with this file"
# Tables whose rows are logins that no node takes: the field with the name, the form, and what to do.
_LOGINS: Final = {
    "emqx_admin": ("username", "user of the dashboard", "a salted SHA-256 of EMQX", "heliograph ctl admins add {}"),
    "emqx_app": ("name", "API key", "a hash of EMQX", "heliograph ctl api_keys add {}, and give it to its program"),
    "emqx_psk": ("psk_id", "identity", "a key of TLS-PSK", "make it a certificate, or heliograph ctl users add {}"),
    _SCRAM: ("user_id", "user", "SCRAM keys", "heliograph ctl users add {} --mechanism scram"),
}


def import_tables(tree: Node, archive: Archive | None, file: ForeignLine, draft: ImportDraft) -> Node:
    """The tree with what the tables of an archive have, or with what is missing where there is none."""
    return _Tables(tree, archive, file, draft).imported()


class _Tables:
    def __init__(self, tree: Node, archive: Archive | None, file: ForeignLine, draft: ImportDraft) -> None:
        self._tree = tree
        self._tables = {} if archive is None else archive.tables
        self._place = ForeignLine(archive.file) if archive is not None else file
        self._draft = draft
        self._seen = {_USERS, _RULES, _BANS, _RETAINED, *_LOGINS}

    def imported(self) -> Node:
        for group, path in self._chains():
            self._users(group, path)
        self._logins()
        self._rules()
        self._bans()
        take_retained(self._draft, self._retained(), self._place, int(time.time()))
        for name, rows in self._tables.items():
            if name not in self._seen and rows:
                count = rows if isinstance(rows, str) else f"{len(rows)} rows"
                self._note(REFUSED, f"table {name}", f"nothing here takes it ({count})")
        return self._tree

    def _note(self, kind: str, setting: str, reason: str, here: str = "", *, loses_login: bool = False) -> None:
        self._draft.outcomes.append(ImportOutcome(self._place, kind, setting, here, reason, loses_login))

    def _rows(self, table: str) -> list[Row] | None:
        """The rows of a table; None where it is not there, or cannot be read."""
        rows = self._tables.get(table)
        if isinstance(rows, str):
            self._note(REFUSED, f"table {table}", f"it cannot be read: {rows}", loses_login=True)
        return rows if isinstance(rows, list) else None

    # --- users

    def _chains(self) -> Iterator[tuple[str, KeyPath]]:
        """EMQX's name of each chain of authenticators, and its path."""
        yield _GLOBAL, ("authentication",)
        listeners = value_at(self._tree, ("listeners",))
        for kind, named in _fields(listeners):
            for name, listener in _fields(named):
                if value_at(listener, ("authentication",)) is not None:
                    yield f"{kind}:{name}", ("listeners", kind, name, "authentication")

    def _users(self, group: str, path: KeyPath) -> None:
        for number, step in enumerate(_steps(self._tree, path), 1):
            if _said(step, "backend") != _BUILT_IN or not _is_on(step):
                continue
            here = (*path, str(number))
            table = _SCRAM if _said(step, "mechanism") == "scram" else _USERS
            rows = self._tables.get(table)
            if not isinstance(rows, list):
                reason = (
                    f"no file has them: {_EXPORT}" if rows is None else f"the table {table} is not readable: {rows}"
                )
                self._note(REFUSED, f"the users of {'.'.join(here)}", reason, loses_login=True)
            elif table == _USERS:
                self._take_users(group, here)

    def _take_users(self, group: str, path: KeyPath) -> None:
        users = list(self._users_of(self._rows(_USERS) or [], group))
        if not users:
            return
        count = sum(name.startswith("users") for name in self._draft.files)
        name = f"users{count + 1}.json" if count else "users.json"
        self._draft.files[name] = users_file(users)
        self._set((*path, "bootstrap_file"), beside(name))
        self._set((*path, "bootstrap_type"), "hash")
        here = f"{name}, the bootstrap_file of {'.'.join(path)}"
        self._note(KEPT, f"users of {group} ({len(users)})", "they are added at the first start", here)

    def _users_of(self, rows: Sequence[Row], group: str) -> Iterator[FileUser]:
        for row in rows:
            owner = row.get("user_id")
            if not isinstance(owner, tuple) or len(owner) != 2 or _text(owner[0]) != group:
                continue
            user_id, hashed, salt = _text(owner[1]), row.get("password_hash"), row.get("salt")
            if isinstance(hashed, bytes) and isinstance(salt, bytes) and _is_text(hashed):
                yield FileUser(user_id, hashed, salt, row.get("is_superuser") == Atom("true"))
            else:
                reason = f"its hash is no text: heliograph ctl users add {user_id}"
                self._note(REFUSED, f"user {user_id}", reason, loses_login=True)

    def _logins(self) -> None:
        for table, (field, what, form, advice) in _LOGINS.items():
            for row in self._rows(table) or ():
                owner = row.get(field)
                name = _text(owner[1] if isinstance(owner, tuple) and len(owner) == 2 else owner)
                self._note(REFUSED, f"{what} {name}", f"it has {form}: {advice.format(name)}", loses_login=True)

    # --- rules

    def _rules(self) -> None:
        path = ("authorization", "sources")
        sources = list(_steps(self._tree, path))
        at = next((n for n, each in enumerate(sources) if _said(each, "type") == _BUILT_IN and _is_on(each)), None)
        rows = self._rows(_RULES)
        if at is None:
            if rows:
                self._note(DROPPED, f"table {_RULES}", "no source of authorization asks it")
            return
        reason = self._take_rules(rows, sources, at) if rows is not None else f"no file has them: {_EXPORT}"
        if reason:
            self._note(REFUSED, "the rules of the built-in database", reason)
            self._set(("authorization", "no_match"), "deny")
            closed = "rules are missing, which may have denied something"
            self._note(CHANGED, "authorization.no_match", closed, "authorization.no_match = deny")

    def _take_rules(self, rows: list[Row], sources: list[Node], at: int) -> str:
        """Put the rules into a file in the place of the source; why that cannot be, or an empty text."""
        try:
            lines = list(built_in_rules(rows))
        except RuleRefusedError as error:
            return f"{error}: set them with heliograph ctl acl"
        if not lines:
            return ""
        text = "".join(f"{line}\n" for line in lines)
        other = next((n for n, each in enumerate(sources) if _said(each, "type") == "file"), None)
        if other is not None:
            theirs = self._file_text(sources[other])
            if theirs is None or abs(other - at) != 1 or not _is_on(sources[other]):
                return (
                    "there is another file of rules, which cannot be joined with them: set them with heliograph ctl acl"
                )
            text = text + theirs if at < other else theirs + text
        file = made({"type": "file", "path": beside(ACL_FILE)}, SourcePosition(""))
        kept = [each for number, each in enumerate(sources) if number not in (other, at)]
        first = min(at, at if other is None else other)
        self._tree = with_value(
            self._tree,
            ("authorization", "sources"),
            Node([*kept[:first], file, sources[at], *kept[first:]], sources[at].position),
        )
        self._draft.files[ACL_FILE] = text
        reason = "heliograph ctl acl sets further ones, which are asked after them"
        self._note(KEPT, f"{len(lines)} rules of the built-in database", reason, f"{ACL_FILE}, the source of rules")
        return ""

    def _file_text(self, source: Node) -> str | None:
        """The text of a file of rules that is there and valid."""
        path = _said(source, "path")
        try:
            is_beside = path == beside(ACL_FILE)
            text = self._draft.files[ACL_FILE] if is_beside else Path(path).read_text(encoding="utf-8")
            read_acl_conf(text)
        except (OSError, UnicodeDecodeError, AclError):
            return None
        return text if text.endswith("\n") else text + "\n"

    # --- bans

    def _bans(self) -> None:
        rows = self._rows(_BANS)
        if not rows:
            return
        out = io.StringIO()
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow(COLUMNS)
        count = 0
        for row in rows:
            ban = _ban(row)
            if ban is None:
                self._note(REFUSED, "a ban", "its form is not known: heliograph ctl banned add")
            else:
                writer.writerow(ban)
                count += 1
        if count:
            self._draft.files["banned.csv"] = out.getvalue()
            self._set(("banned", "bootstrap_file"), beside("banned.csv"))
            self._note(KEPT, f"bans ({count})", "", "banned.csv, the file banned.bootstrap_file")

    # --- retained messages

    def _retained(self) -> Iterator[RetainedMessage]:
        for row in self._rows(_RETAINED) or ():
            message = _message(row.get("msg"), row.get("expiry_time"))
            if message is None:
                self._note(REFUSED, "a retained message", "its form is not known: heliograph publish --retain")
            else:
                yield message

    def _set(self, path: KeyPath, value: object) -> None:
        self._tree = with_value(self._tree, path, made(value, SourcePosition("")))


def _message(term: Term | None, expiry_ms: Term | None) -> RetainedMessage | None:
    """EMQX's record: message, id, QoS, sender, flags, headers, topic, payload and more."""
    if not isinstance(term, tuple) or len(term) < 9 or term[0] != Atom("message"):
        return None
    qos, headers, topic, payload = term[2], term[5], term[6], term[7]
    if not (isinstance(qos, int) and isinstance(topic, bytes) and isinstance(payload, bytes) and _is_text(topic)):
        return None
    sent = headers.get(Atom("properties")) if isinstance(headers, dict) else None
    named = {str(name): _property(value) for name, value in sent.items()} if isinstance(sent, dict) else {}
    expires_s = expiry_ms // 1000 if isinstance(expiry_ms, int) else 0
    return RetainedMessage(topic.decode(), payload, qos, expires_s, api_properties(named))


def _property(value: Term) -> object:
    if isinstance(value, list):
        return [(_text(pair[0]), _text(pair[1])) for pair in value if isinstance(pair, tuple) and len(pair) == 2]
    return _text(value) if isinstance(value, bytes) else value


def _ban(row: Row) -> tuple[str, ...] | None:
    who = row.get("who")
    if not isinstance(who, tuple) or len(who) != 2 or who[0] not in ("clientid", "username", "peerhost"):
        return None
    name = _address(who[1]) if who[0] == Atom("peerhost") else _text(who[1])
    if name is None:
        return None
    reason = _text(row.get("reason"))[:_REASON_CHARS_MAX]
    return str(who[0]), name, reason, _text(row.get("by")), _time(row.get("at")), _time(row["until"])


def _address(term: Term) -> str | None:
    if isinstance(term, tuple) and len(term) in (4, 8) and all(isinstance(part, int) for part in term):
        parts = [int(part) for part in term if isinstance(part, int)]
        packed = bytes(parts) if len(parts) == 4 else b"".join(part.to_bytes(2) for part in parts)
        return str(ip_address(packed))
    return None


def _time(term: Term | None) -> str:
    return datetime.fromtimestamp(term, UTC).isoformat() if isinstance(term, int) else "infinity"


def _text(term: Term | None) -> str:
    return term.decode(errors="replace") if isinstance(term, bytes) else str(term)


def _is_text(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


def _fields(node: Node | None) -> list[tuple[str, Node]]:
    return list(node.value.items()) if node is not None and isinstance(node.value, dict) else []


def _steps(tree: Node, path: KeyPath) -> list[Node]:
    found = value_at(tree, path)
    if found is None:
        return []
    items = list_items(found)
    return [found] if items is None and isinstance(found.value, dict) and found.value else list(items or ())


def _said(node: Node, name: str) -> str:
    found = value_at(node, (name,))
    return str(found.value) if found is not None else ""


def _is_on(node: Node) -> bool:
    switch = value_at(node, ("enable",))
    return switch is None or switch.value not in (False, "false")
