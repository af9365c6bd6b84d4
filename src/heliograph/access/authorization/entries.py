"""One source in the chain: what it decides, what is kept of it with each client, and what it counts."""

from typing import Final

from mypy_extensions import i64

from heliograph.access.acl.rules import ClientRules
from heliograph.broker.actions import Decision

#: What a source said.
ALLOW: Final = "allow"
DENY: Final = "deny"
NOMATCH: Final = "nomatch"
IGNORE: Final = "ignore"
ERROR: Final = "error"


class ChainEntry:
    """One source in the chain; owned by the chain, and kept where its source is replaced by one of the same type.

    Attributes:
        is_asked: Whether it is asked about each action; else it gives rules, which are kept with the client.
        announces_changes: Whether its source says so when rules that it gave do not hold any more.
        version: Rises when rules that it gave before do not hold any more.
    """

    def __init__(self, type: str) -> None:
        self.type = type
        self.source: object = None
        self.is_asked = False
        self.announces_changes = False
        self.version: i64 = 0
        self.allow = Decision(True, type)
        self.deny = Decision(False, type)
        self.total: i64 = 0
        self.allowed: i64 = 0
        self.denied: i64 = 0
        self.nomatch: i64 = 0
        self.ignored: i64 = 0
        self.errors: i64 = 0

    def replace(self, source: object, *, is_asked: bool, announces_changes: bool = False) -> None:
        """Take another source of the same type; what the former one said does not hold any more."""
        self.source = source
        self.is_asked = is_asked
        self.announces_changes = announces_changes
        self.version += 1

    def decision(self, result: str) -> Decision | None:
        """Count what the source said; None leaves the decision to the next source."""
        self.total += 1
        if result == ALLOW:
            self.allowed += 1
            return self.allow
        if result == DENY:
            self.denied += 1
            return self.deny
        if result == NOMATCH:
            self.nomatch += 1
        elif result == IGNORE:
            self.ignored += 1
        else:
            self.errors += 1
        return None

    def statistics(self) -> dict[str, int]:
        return {
            "total": int(self.total),
            "allow": int(self.allowed),
            "deny": int(self.denied),
            "nomatch": int(self.nomatch),
            "ignore": int(self.ignored),
            "error": int(self.errors),
        }

    def __repr__(self) -> str:
        return f"ChainEntry({self.type}, {int(self.total)} asked)"


class KeptRules:
    """The rules that one source gave for one client; kept with the client.

    Attributes:
        until_us: When they are fetched again.
        version: The version of the source that they are of.
        has_failed: Whether the source failed when it was asked last: the rules are earlier ones, or none.
        is_outdated: Whether they were to be fetched again after they were asked for: what is under way will not do.
    """

    def __init__(self, entry: ChainEntry) -> None:
        self.entry = entry
        self.has_failed = False
        self.rules: ClientRules | None = None
        self.until_us: i64 = 0
        self.version: i64 = 0
        self.is_outdated = False

    def renew(self) -> None:
        """Fetch the rules again before the next decision, also those that are on their way."""
        self.until_us = 0
        self.is_outdated = True

    def keep(self, rules: ClientRules, until_us: i64, version: i64, has_failed: bool = False) -> None:
        self.rules = rules
        self.has_failed = has_failed
        self.until_us = 0 if self.is_outdated else until_us
        self.version = version

    def __repr__(self) -> str:
        return f"KeptRules({self.entry.type}, {self.rules!r})"


class ClientRights:
    """What the sources gave for one client; kept with its `ClientInfo`, and gone with it."""

    def __init__(self, epoch: i64, kept: list[KeptRules]) -> None:
        self.epoch = epoch
        self.kept = kept

    def __repr__(self) -> str:
        return f"ClientRights({self.kept})"
