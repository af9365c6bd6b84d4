"""Rules that a client carries since it was authenticated: of a JWT, an HTTP answer or a directory.

A list of rule objects is asked before the sources; where none of its rules matches, the sources are. A map allows what
it lists, and denies all else.
"""

import math
from collections.abc import Mapping
from typing import Final, TypeAlias

from heliograph.access.acl.actions import ALL, action_bits
from heliograph.access.acl.errors import AclError, AclFault
from heliograph.access.acl.rows import rules_of_rows
from heliograph.access.acl.rules import ClientRules, Rule, Rules, shortened
from heliograph.access.acl.topics import RuleTopic
from heliograph.broker.actions import DENY, PUBLISH, SUBSCRIBE, Action
from heliograph.broker.client import ClientInfo

NO_MATCH: Final = "nomatch"
Verdict: TypeAlias = str
"""`allow`, `deny` or `nomatch`."""

_LISTS: Final = {"pub": PUBLISH, "sub": SUBSCRIBE, "all": ALL}


class CarriedAcl:
    """The rules of one client; made by its authenticator, kept with the client.

    Args:
        is_complete: Whether what they do not match is denied.
        expire_s: Until when they count, in seconds since the epoch; everything is denied after that. None for ever.
        source: Where they come from, as in events: `jwt`, `http`, `ldap` or `client_info`.
    """

    def __init__(
        self, rules: Rules, is_complete: bool, expire_s: float | None = None, source: str = "client_info"
    ) -> None:
        self.rules = rules
        self.is_complete = is_complete
        self.expire_s = math.inf if expire_s is None else expire_s
        self.source = source
        self._prepared: ClientRules | None = None

    def find(self, client: ClientInfo, action: Action, topic: str) -> Rule | None:
        """The first rule that matches; None if none does. The client is the one that carries the rules."""
        if self._prepared is None:
            self._prepared = self.rules.prepared(client)
        return self._prepared.check(action, topic)

    def verdict(self, rule: Rule | None, now_s: float) -> Verdict:
        if now_s > self.expire_s:
            return DENY
        if rule is not None:
            return rule.verdict
        return DENY if self.is_complete else NO_MATCH

    def check(self, client: ClientInfo, action: Action, topic: str, now_s: float) -> Verdict:
        return self.verdict(self.find(client, action, topic), now_s)


def carried_acl(acl: object, expire_s: float | None = None, source: str = "client_info") -> CarriedAcl | None:
    """The rules in an answer or a token; None if it has none (null).

    Args:
        acl: A list of rule objects, or a map with the topics to publish to (`pub`), to subscribe to (`sub`) and both
            (`all`). What a map has besides is left out, so it allows nothing more.

    Raises:
        AclError: It is neither, or a list with an object that is no rule.
    """
    if acl is None:
        return None
    if isinstance(acl, Mapping):
        return CarriedAcl(_rules_of_map(acl), True, expire_s, source)
    if isinstance(acl, list | tuple):
        return CarriedAcl(rules_of_rows(acl), False, expire_s, source)
    raise AclError(
        [AclFault(f"the acl is a {type(acl).__name__}; a list of rules, or a map of pub, sub and all, is valid")]
    )


def _rules_of_map(acl: Mapping[str, object]) -> Rules:
    rules: list[Rule] = []
    for name, kind in _LISTS.items():
        listed = acl.get(name)
        texts = [topic for topic in listed if isinstance(topic, str)] if isinstance(listed, list | tuple) else []
        bits = action_bits(kind)
        rules += [Rule(True, None, bits, [RuleTopic(text)], shortened(f'"{name}": "{text}"')) for text in texts]
    return Rules(rules)
