"""The rules of the built-in database: what is asked of them, and answers. Rule objects are EMQX's."""

from typing import Any

import msgspec

from heliograph.rpc.asks import ACTS, STATE, Ask, ListAsk
from heliograph.rpc.methods import Args, NarrowingArgs


class AclWanted(Args, frozen=True):
    """Which rules to list.

    Attributes:
        kind: `clientid`, `username` or `all`; empty for all three.
        like: Only client ids and user names that hold this text.
        limit: Of so many client ids and user names at the most; 0 for all.
    """

    kind: str = ""
    like: str = ""
    limit: int = 0


class AclOwner(Args, frozen=True):
    """Whose rules.

    Attributes:
        kind: `clientid`, `username` or `all`.
        name: The client id or user name; empty for `all`.
    """

    kind: str
    name: str = ""


class AclRules(msgspec.Struct, frozen=True):
    """The rules of a client id, a user name or all clients.

    Attributes:
        kind: `clientid`, `username` or `all`.
        name: The client id or user name; empty for `all`.
        rules: Rule objects, in the order in which they are tried.
    """

    kind: str
    name: str
    rules: list[dict[str, Any]]


class AclChange(Args, frozen=True):
    """Rules to set, or to add.

    Attributes:
        owners: Whose, and which.
        mode: `replace`: these rules and no others; `rear`, `front`: these beside those that are there; `new`: refuse
            where there are any.
    """

    owners: list[AclRules]
    mode: str = "replace"


class AclRemoval(NarrowingArgs, frozen=True):
    """Rules to remove.

    Attributes:
        kind: `clientid`, `username` or `all`.
        name: The client id or user name; empty for `all`.
        number: Only the rule of this number, the first being 1; 0 for all of them.
    """

    kind: str
    name: str = ""
    number: int = 0


class AclChanged(msgspec.Struct, frozen=True):
    """What a change came to.

    Attributes:
        owners: Client ids and user names whose rules it changed; `all` counts as one.
        rules: Rules that they have now.
        is_asked: Whether the source built_in_database is among those that are asked.
    """

    owners: int
    rules: int
    is_asked: bool


class AclClearing(NarrowingArgs, frozen=True):
    """Of which kinds to remove all rules; empty for every kind."""

    kind: str = ""


ACL_LIST = ListAsk("acl.list", AclWanted, AclRules, STATE)
ACL_SHOW = Ask("acl.show", AclOwner, AclRules, STATE)
ACL_CHANGE = Ask("acl.change", AclChange, AclChanged, STATE, ACTS)
ACL_DELETE = Ask("acl.delete", AclRemoval, AclChanged, STATE, ACTS)
ACL_CLEAR = Ask("acl.clear", AclClearing, AclChanged, STATE, ACTS)
