"""Cases of authorization: what rules say about one action of one client."""

import time
from collections.abc import Callable
from typing import Final

from heliograph.access.acl.carried import CarriedAcl, carried_acl
from heliograph.access.acl.conf import read_acl_conf
from heliograph.access.acl.errors import AclError
from heliograph.access.acl.rows import rules_of_rows
from heliograph.access.acl.rules import Rules
from heliograph.broker.actions import PUBLISH, SUBSCRIBE, Action, publish_action, subscribe_action
from heliograph.broker.client import ClientInfo
from heliograph.cli.access_cases.running import AccessAnswer, AccessCase, text_in
from heliograph.cli.batch import CaseError

_NO_MATCH: Final = "nomatch"
_SOURCES: Final = ("rules", "rows", "acl")


def authorization_case(case: AccessCase) -> AccessAnswer:
    """What the rules of a case say; that they are valid where it names no topic."""
    try:
        rules = _rules(case)
    except AclError as error:
        raise CaseError(str(error)) from None
    if case.get("topic") is None:
        return {"result": "valid"}
    client, action, topic = client_in(case), _action(case), text_in(case, "topic")
    if isinstance(rules, CarriedAcl):
        return {"result": rules.check(client, action, topic, _number(case, "now", time.time))}
    rule = rules.check(client, action, topic)
    return {"result": _NO_MATCH if rule is None else rule.verdict}


def client_in(case: AccessCase) -> ClientInfo:
    """The client of a case; what it leaves out, a client does not have.

    Raises:
        CaseError: Something is no text.
    """
    given = case.get("client") or {}
    if not isinstance(given, dict):
        raise CaseError('"client" must be an object')

    def text(name: str) -> str | None:
        value = given.get(name)
        if value is not None and not isinstance(value, str):
            raise CaseError(f'"{name}" of "client" must be a text or null')
        return value

    host, port = text("peerhost"), given.get("peerport")
    client = ClientInfo(text("clientid") or "", text("username"), "" if host is None else f"[{host}]:{port or 0}")
    client.zone = text("zone") or client.zone
    client.listener = text("listener") or client.listener
    client.common_name, client.subject = text("cert_common_name"), text("cert_subject")
    attributes = given.get("client_attrs") or {}
    if not isinstance(attributes, dict) or not all(isinstance(value, str) for value in attributes.values()):
        raise CaseError('"client_attrs" of "client" must be an object of texts')
    client.client_attrs = attributes
    return client


def _rules(case: AccessCase) -> Rules | CarriedAcl:
    named = [name for name in _SOURCES if case.get(name) is not None]
    if len(named) != 1:
        raise CaseError(f'exactly one of "rules", "rows" and "acl" must be there, not {len(named)}')
    given = case[named[0]]
    if named[0] == "rules":
        return read_acl_conf(text_in(case, "rules"))
    if named[0] == "rows":
        if not isinstance(given, list):
            raise CaseError('"rows" must be a list of rule objects')
        return rules_of_rows(given)
    expire_s = None if case.get("expire") is None else _number(case, "expire", float)
    carried = carried_acl(given, expire_s)
    if carried is None:
        raise CaseError('"acl" must be a list or an object')
    return carried


def _number(case: AccessCase, name: str, default: Callable[[], float]) -> float:
    value = case.get(name)
    if value is None:
        return default()
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise CaseError(f'"{name}" must be a number of seconds since the epoch')
    return value


def _action(case: AccessCase) -> Action:
    kind, qos, retain = case.get("action"), case.get("qos"), case.get("retain")
    if kind not in (PUBLISH, SUBSCRIBE):
        raise CaseError(f'"action" is {kind!r}; publish and subscribe are valid')
    number = 0 if qos is None else qos
    if isinstance(number, bool) or number not in (0, 1, 2):
        raise CaseError(f'"qos" is {qos!r}; 0, 1 and 2 are valid')
    if retain not in (None, True, False) or (isinstance(retain, int) and not isinstance(retain, bool)):
        raise CaseError(f'"retain" is {retain!r}; true and false are valid')
    return subscribe_action(number) if kind == SUBSCRIBE else publish_action(number, retain is True)
