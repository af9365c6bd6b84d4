"""The chain of sources, as far as it answers from memory: what is done for each message that is not cached.

What must be waited for is in `waiting`.
"""

from collections.abc import Sequence

from mypy_extensions import i64, mypyc_attr

from heliograph.access.acl.carried import NO_MATCH, CarriedAcl
from heliograph.access.acl.rules import ClientRules
from heliograph.access.authorization.entries import ChainEntry, ClientRights, KeptRules
from heliograph.broker.actions import ALLOW, Action, Decision
from heliograph.broker.client import ClientInfo
from heliograph.broker.hooks import STOP
from heliograph.broker.node_rights import WAIT, Authority
from heliograph.broker.pubsub import Broker


@mypyc_attr(allow_interpreted_subclasses=True)
class SlowPath:
    """Asks sources that do not answer at once; `waiting` implements it."""

    def fetch_now(self, kept: KeptRules, client: ClientInfo, may_be_old: bool) -> ClientRules | None:
        """A source's rules, old ones only if `may_be_old`; None if they come later. A failed source gives no rules."""
        raise NotImplementedError(type(self).__name__)

    def decide(self, client: ClientInfo, action: Action, topic: str) -> object:
        """A `Pending` for the decision of the whole chain."""
        raise NotImplementedError(type(self).__name__)


class SourceChain(Authority):
    """The sources of one node in their order; owned by the part `authorization`.

    The ACL that a client carries is asked first, then one source after the other until one allows or denies. The rules
    that a source gave for a client are kept with the client, and answered from, for `authorization.cache.ttl`.

    Attributes:
        epoch: Rises when sources come, go or change places.
        slow_path: Asks what does not answer at once; set before the first question.
    """

    def __init__(self, broker: Broker) -> None:
        super().__init__()
        self.epoch: i64 = 0
        self.slow_path = SlowPath()
        self._broker = broker
        self._entries: list[ChainEntry] = []
        self._allowed: dict[str, Decision] = {}  # by what made the ACL that a client carries
        self._denied: dict[str, Decision] = {}

    @property
    def entries(self) -> Sequence[ChainEntry]:
        return self._entries

    def use(self, entries: list[ChainEntry]) -> None:
        """What is kept of sources that stay is kept."""
        self._entries = entries
        self.may_change_unseen = any(not entry.announces_changes for entry in entries)
        self.epoch += 1

    def renew(self, client: ClientInfo) -> None:
        for kept in self.rights_of(client).kept:
            if not kept.entry.announces_changes:
                kept.renew()

    def decide(self, client: ClientInfo, action: Action, topic: str) -> Decision | None:
        return self._decide(client, action, topic, False, True)

    def decide_now(self, client: ClientInfo, action: Action, topic: str) -> Decision | None:
        """By rules that are too old, if there are no others yet."""
        return self._decide(client, action, topic, True, True)

    def decide_known(self, client: ClientInfo, action: Action, topic: str) -> Decision | None:
        """By the sources that need not be waited for."""
        return self._decide(client, action, topic, True, False)

    def _decide(
        self, client: ClientInfo, action: Action, topic: str, may_be_old: bool, may_ask: bool
    ) -> Decision | None:
        if client.acl is not None:
            decision = self.carried(client, action, topic)
            if decision is not None:
                return decision
        if not self._entries:
            return None
        now_us: i64 = self._broker.uptime_us
        is_unsure = False
        rights = self.rights_of(client)
        for kept in rights.kept:
            rules = kept.rules
            if rules is None or kept.until_us <= now_us or kept.version != kept.entry.version:
                if not kept.entry.is_asked and (may_ask or kept.entry.announces_changes):
                    rules = self.slow_path.fetch_now(kept, client, may_be_old)
                if rules is None:
                    _uncount(rights, kept)
                    return WAIT
            rule = rules.check(action, topic)
            is_unsure = is_unsure or kept.has_failed
            entry = kept.entry
            entry.total += 1
            if rule is None:
                entry.nomatch += 1
            elif rule.is_allowing:
                entry.allowed += 1
                return entry.allow if not is_unsure else unsure(entry.allow)
            else:
                entry.denied += 1
                return entry.deny if not is_unsure else unsure(entry.deny)
        return unsure(self._broker.rights.default(client, action, topic)) if is_unsure else None

    def on_authorize(self, client: ClientInfo, action: Action, topic: str, outcome: object) -> object:
        decision = self.decide(client, action, topic)
        if decision is None:
            return None
        if decision is WAIT:
            return self.slow_path.decide(client, action, topic)
        return STOP, decision

    def carried(self, client: ClientInfo, action: Action, topic: str) -> Decision | None:
        acl = client.acl
        if not isinstance(acl, CarriedAcl):
            return None
        verdict = acl.check(client, action, topic, float(self._broker.now_us) / 1_000_000)
        if verdict == NO_MATCH:
            return None
        made = self._allowed if verdict == ALLOW else self._denied
        decision = made.get(acl.source)
        if decision is None:
            decision = Decision(verdict == ALLOW, acl.source)
            made[acl.source] = decision
        return decision

    def rights_of(self, client: ClientInfo) -> ClientRights:
        rights = client.kept_rights
        if isinstance(rights, ClientRights):
            if rights.epoch == self.epoch:
                return rights
            before = {one.entry: one for one in rights.kept}
            rights = ClientRights(self.epoch, [before.get(one) or KeptRules(one) for one in self._entries])
        else:
            rights = ClientRights(self.epoch, [KeptRules(one) for one in self._entries])
        client.kept_rights = rights
        return rights


def unsure(decision: Decision) -> Decision:
    """The same decision, where a source that might have decided otherwise could not be asked."""
    return Decision(decision.is_allowed, decision.source, decision.rule, is_unsure=True)


def _uncount(rights: ClientRights, last: KeptRules) -> None:
    """Count no source that was asked before the one that must be waited for: all are asked again then."""
    for kept in rights.kept:
        if kept is last:
            return
        kept.entry.total -= 1
        kept.entry.nomatch -= 1
