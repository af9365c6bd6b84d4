"""Why a client may do something or not: what each step of the decision says, with the rule that decided."""

from dataclasses import dataclass
from typing import Final

from heliograph.access.acl.carried import CarriedAcl
from heliograph.access.authorization.entries import ALLOW, DENY, NOMATCH, KeptRules
from heliograph.access.authorization.interface import AuthorizationSource
from heliograph.access.authorization.part import AuthorizationPart
from heliograph.broker.actions import Action
from heliograph.broker.client import ClientInfo
from heliograph.config.authorization import source_type

NOT_ASKED: Final = "not asked"
SUPERUSER: Final = "superuser"
CLIENT_INFO: Final = "client_info"
NO_MATCH: Final = "no_match"

_NOT_LISTED: Final = "the ACL that the client carries lists all that it may do, and this is not in it"


@dataclass(frozen=True, slots=True)
class DecisionStep:
    """What was asked, and what it said.

    Attributes:
        source: `superuser`, what made the ACL that the client carries, the type of a source, or `no_match`.
        said: `allow`, `deny`, `nomatch`, `ignore`, `error`, `no`, `disabled` or `not asked`.
        rule: The rule that decided, as it is written; empty if none did.
        place: Where it stands; empty if that is not known.
        why: What went wrong, or what else there is to say.
    """

    source: str
    said: str
    rule: str = ""
    place: str = ""
    why: str = ""

    @property
    def decides(self) -> bool:
        return self.said in (ALLOW, DENY)


async def explained(part: AuthorizationPart, client: ClientInfo, action: Action, topic: str) -> list[DecisionStep]:
    """The steps of a decision in their order; those after the one that decides are `not asked`.

    Sources are asked as for a message, but nothing is counted, reported or remembered beside the rules that they give.
    """
    steps = [_superuser(client)]
    if not steps[-1].decides:
        steps.append(_carried(client, action, topic, part.now_s))
    chain = {kept.entry.type: kept for kept in part.chain.rights_of(client).kept}
    for settings in part.settings.sources:
        kind = source_type(settings)
        kept = chain.get(kind)
        if not settings.enable:
            steps.append(DecisionStep(kind, "disabled"))
        elif any(step.decides for step in steps):
            steps.append(DecisionStep(kind, NOT_ASKED))
        elif kept is None:
            steps.append(DecisionStep(kind, NOMATCH, why="there is no such file, so there are no rules"))
        else:
            steps.append(await _asked(part, kept, client, action, topic))
    is_decided = any(step.decides for step in steps)
    if is_decided:
        steps.append(DecisionStep(NO_MATCH, NOT_ASKED))
    else:
        default = part.default(client, action, topic)
        steps.append(DecisionStep(NO_MATCH, default.result, why=default.rule))
    return steps


def _superuser(client: ClientInfo) -> DecisionStep:
    if client.is_superuser:
        return DecisionStep(SUPERUSER, ALLOW, why="a superuser may do everything")
    return DecisionStep(SUPERUSER, "no")


def _carried(client: ClientInfo, action: Action, topic: str, now_s: float) -> DecisionStep:
    acl = client.acl
    if not isinstance(acl, CarriedAcl):
        return DecisionStep(CLIENT_INFO, NOMATCH, why="the client carries no ACL")
    rule = acl.find(client, action, topic)
    said = acl.verdict(rule, now_s)
    if now_s > acl.expire_s:
        return DecisionStep(acl.source, said, why="the ACL that the client carries has expired")
    if rule is not None:
        return DecisionStep(acl.source, said, rule.text, "the ACL that the client carries")
    return DecisionStep(acl.source, said, why=_NOT_LISTED if said == DENY else "")


async def _asked(
    part: AuthorizationPart, kept: KeptRules, client: ClientInfo, action: Action, topic: str
) -> DecisionStep:
    said = await part.waiting.ask(kept, client, action, topic)
    source, rule = kept.entry.source, said.rule
    if rule is None:
        return DecisionStep(kept.entry.type, said.result, why=said.why)
    assert isinstance(source, AuthorizationSource)
    return DecisionStep(kept.entry.type, said.result, rule.text, source.place_of(rule, client), said.why)
