"""Who may connect and what clients may do: from password files, acl files and certificates to our settings."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Final, TypeAlias

from heliograph.access.acl.errors import AclError
from heliograph.access.acl.mosquitto import read_mosquitto_acl
from heliograph.access.users.files import FileUser, UserFileError, mosquitto_user
from heliograph.migration.acl_text import mosquitto_rules, quoted, rule_text
from heliograph.migration.draft import BesideFile, ImportDraft, Tree, users_file
from heliograph.migration.errors import ImportRefusedError
from heliograph.migration.mosquitto.dynamic_security import dynamic_users
from heliograph.migration.mosquitto.lines import Line
from heliograph.migration.mosquitto.sections import ListenerSection, Sections, Security
from heliograph.migration.outcomes import CHANGED, DROPPED, KEPT, REFUSED, ForeignLine, ImportOutcome

ACL_FILE: Final = "acl.conf"
_BUILT_IN: Final = {"mechanism": "password_based", "backend": "built_in_database"}
_NAMELESS: Final = {"is_match": "is_empty(username)", "result": "allow"}
_CERTIFIED: Final = {"is_match": "not(is_empty(cert_subject))", "result": "allow"}
ReadUsers: TypeAlias = Callable[[Path, list[ImportOutcome]], Iterator[FileUser]]
_ADD_USER: Final = "give it a password with: heliograph ctl users add"


class AccessImport:
    """Fills a draft with authenticators, rules and the files of both; used once."""

    def __init__(self, draft: ImportDraft, sections: Sections) -> None:
        self._draft = draft
        self._sections = sections
        self._files: dict[Path, str] = {}  # of users: which file became which
        self._user_outcomes: dict[Path, list[ImportOutcome]] = {}
        self._rules: list[str] = []
        self.chains: dict[int, list[Tree]] = {}
        """The authenticators of each listener, by its number."""

    def apply(self) -> None:
        """Set authenticators and rules."""
        sections, draft, prefix = self._sections, self._draft, self._sections.clientid_prefix
        common = [] if sections.is_per_listener else self._chain(sections.security)
        if prefix is not None and not sections.is_per_listener:
            common = _with_prefix(common, prefix)
        for number, listener in enumerate(sections.listeners):
            chain = self._chain(listener.security) if sections.is_per_listener else common
            if listener.identity is not None and listener.needs_certificate:
                chain = [{"mechanism": "cinfo", "checks": [_CERTIFIED]}]
            if prefix is not None and chain is not common:
                chain = _with_prefix(chain, prefix)
            self.chains[number] = chain
            if chain and chain is not common:
                listener.tree["authentication"] = chain
        if common:
            draft.set("authentication", common)
        self._apply_rules()

    # --- users

    def _chain(self, security: Security) -> list[Tree]:
        """The authenticators that let in the same clients as mosquitto; empty if those are all."""
        is_open = security.is_on("allow_anonymous", self._sections.is_local)
        passwords = security.lines.get("password_file")
        if is_open and passwords is None and not security.has_plugin:
            return []
        chain: list[Tree] = [{"mechanism": "cinfo", "checks": [_NAMELESS]}] if is_open else []
        users: Tree = dict(_BUILT_IN)
        name = self._users(passwords, _users_of) if passwords is not None else None
        if security.dynamic_users is not None:
            name = self._users(security.dynamic_users, dynamic_users)
        if name is not None:
            users |= {"bootstrap_file": BesideFile(name), "bootstrap_type": "hash"}
        return [*chain, users]

    def _users(self, line: Line, read: ReadUsers) -> str | None:
        """The file that has the users of a password file; None if it has none that can be imported."""
        source = line.found(line.value)
        if source is None:
            self._user_outcomes[Path(line.value)] = [
                ImportOutcome(
                    line.place,
                    REFUSED,
                    f"the users of {line.value}",
                    reason="it cannot be read: run this where it is, or put it beside the configuration",
                    loses_login=True,
                )
            ]
            return None
        if source not in self._user_outcomes:
            outcomes: list[ImportOutcome] = []
            users = list(read(source, outcomes))
            self._user_outcomes[source] = outcomes
            if users:
                name = f"users{len(self._files) + 1}.json" if self._files else "users.json"
                self._files[source] = name
                self._draft.files[name] = users_file(users)
        return self._files.get(source)

    def users_file(self, line: Line) -> Iterator[ImportOutcome]:
        """What became of a file of users, and of each of them."""
        setting = f"{line.option} {line.value}"
        source = line.found(line.value) or Path(line.value)
        name = self._files.get(source)
        if name is None:
            reason = "no user of it is imported; clients without a user name that is known are refused"
            yield ImportOutcome(line.place, REFUSED, setting, reason=reason)
        else:
            yield ImportOutcome(
                line.place,
                KEPT,
                setting,
                f"{name}, the bootstrap_file of password_based:built_in_database",
                "users are added at the first start; after that heliograph ctl users changes them",
            )
        yield from self._user_outcomes.pop(source, ())

    def psk_file(self, line: Line) -> Iterator[ImportOutcome]:
        """Each of its identities, which cannot log in here."""
        reason = "there are no pre-shared keys here: use certificates or passwords (docs/listeners.md)"
        source = line.found(line.value)
        yield ImportOutcome(line.place, REFUSED, f"psk_file {line.value}", reason=reason, loses_login=source is None)
        for number, text in enumerate(_lines(source) if source is not None else (), 1):
            identity, colon, _ = text.partition(b":")
            if colon and not text.startswith(b"#"):
                name = identity.decode(errors="replace")
                advice = f"its key is of TLS-PSK; make it a certificate, or {_ADD_USER} {name}"
                yield ImportOutcome(
                    ForeignLine(str(source), number), REFUSED, f"identity {name}", reason=advice, loses_login=True
                )

    # --- rules

    def _apply_rules(self) -> None:
        sections, draft = self._sections, self._draft
        if not any("acl_file" in listener.security.lines for listener in sections.listeners):
            draft.set("authorization.sources", [])
            if any(listener.security.has_plugin for listener in sections.listeners):
                draft.set("authorization", {"no_match": "deny", "sources": [{"type": "built_in_database"}]})
            return
        mountpoints = [listener.mountpoint for listener in sections.listeners]
        if sections.is_per_listener or any(mountpoints):
            for listener in sections.listeners:
                self._rules += self._rules_of(listener, f"{listener.kind}:{listener.name}")
        else:
            self._rules += self._rules_of(sections.listeners[0], None)
        draft.files[ACL_FILE] = "".join(f"{rule}\n" for rule in self._rules)
        draft.set("authorization.sources", [{"type": "file", "path": BesideFile(ACL_FILE)}])
        draft.set("authorization.no_match", "deny")
        draft.set("authorization.check_deliveries", True)
        if "check_retain_source" not in sections.options:
            draft.set("authorization.check_retained_source", True)

    def _rules_of(self, listener: ListenerSection, own: str | None) -> list[str]:
        line = listener.security.lines.get("acl_file")
        if line is None and listener.security.has_plugin:
            return [rule_text("deny", [f"{{listener, {quoted(own or '')}}}"], "all", None)]
        if line is None:
            return [rule_text("allow", [f"{{listener, {quoted(own or '')}}}"], "all", None)]
        if listener.mountpoint and not listener.mountpoint.endswith("/"):
            text = (
                f"the mountpoint {listener.mountpoint!r} ends within a level, and rules cannot be compared without it"
            )
            raise ImportRefusedError(f"{line.place}: acl_file {line.value} cannot be imported: {text}")
        source = line.found(line.value)
        if source is None:
            raise ImportRefusedError(f"{line.place}: acl_file {line.value} cannot be read: there is no such file")
        try:
            return list(mosquitto_rules(read_mosquitto_acl(source.read_bytes()), own, listener.mountpoint))
        except OSError as error:
            raise ImportRefusedError(f"{source} cannot be read: {error.strerror}") from None
        except AclError as error:
            raise ImportRefusedError(f"{source}: {error}") from None

    def acl_file(self, line: Line) -> ImportOutcome:
        """What became of a file of rules."""
        return ImportOutcome(
            line.place,
            KEPT,
            f"acl_file {line.value}",
            f"{ACL_FILE}, the source of rules",
            "what it decides of a message the rules decide too; a subscription that may bring nothing is refused here "
            "(docs/from_mosquitto.md#rules)",
        )

    def anonymous(self, line: Line, listeners: Iterable[ListenerSection]) -> ImportOutcome:
        """What became of `allow_anonymous`."""
        setting = f"allow_anonymous {line.value}"
        owner = next((each for each in listeners if each.security.lines.get("allow_anonymous") is line), None)
        chain = self.chains[self._sections.listeners.index(owner)] if owner is not None else []
        path = f"{owner.path}.authentication" if owner and self._sections.is_per_listener else "authentication"
        is_open = owner is not None and owner.security.is_on("allow_anonymous", False)
        if owner is None:
            return ImportOutcome(line.place, DROPPED, setting, reason="a later line says otherwise")
        if not chain:
            return ImportOutcome(line.place, KEPT, setting, f"no {path}")
        if owner.identity is not None and owner.needs_certificate:
            return ImportOutcome(line.place, KEPT, setting, f"{path}: cinfo, which lets in who has a certificate")
        if is_open:
            return ImportOutcome(
                line.place, KEPT, setting, f"{path}: the authenticator cinfo lets in clients without a user name"
            )
        reason = "" if "password_file" in owner.security.lines else "there are no users yet: heliograph ctl users add"
        kind = CHANGED if reason else KEPT
        return ImportOutcome(line.place, kind, setting, f"{path}: password_based:built_in_database", reason)


def _with_prefix(chain: list[Tree], prefix: str) -> list[Tree]:
    """A chain that refuses clients whose id does not begin with a prefix before anything else."""
    refusal = {"is_match": f"not(regex_match(clientid, '^{prefix}'))", "result": "deny"}
    if chain and chain[0]["mechanism"] == "cinfo":
        return [{**chain[0], "checks": [refusal, *chain[0]["checks"]]}, *chain[1:]]
    everyone = [] if chain else [{"is_match": f"regex_match(clientid, '^{prefix}')", "result": "allow"}]
    return [{"mechanism": "cinfo", "checks": [refusal, *everyone]}, *chain]


def _users_of(source: Path, outcomes: list[ImportOutcome]) -> Iterator[FileUser]:
    for number, line in enumerate(_lines(source), 1):
        if not line.strip() or line.startswith(b"#"):
            continue
        place = ForeignLine(str(source), number)
        name = line.decode(errors="replace").partition(":")[0].strip()
        try:
            user = mosquitto_user(line)
        except UserFileError as error:
            reason = f"{error}; or {_ADD_USER} {name}"
            outcomes.append(ImportOutcome(place, REFUSED, f"user {name}", reason=reason, loses_login=True))
            continue
        outcomes.append(ImportOutcome(place, KEPT, f"user {name}", f"a user with its {_form(user)} hash"))
        yield user


def _form(user: FileUser) -> str:
    algorithm = user.algorithm
    return "PBKDF2" if algorithm is not None and algorithm.name == "pbkdf2" else "salted SHA-512"


def _lines(source: Path) -> list[bytes]:
    try:
        return source.read_bytes().splitlines()
    except OSError as error:
        raise ImportRefusedError(f"{source} cannot be read: {error.strerror}") from None
