"""Cases of placeholders: what a template becomes for a client."""

from collections.abc import Mapping

from heliograph.access.templates import Template, TemplateError, Values, client_values
from heliograph.access.templates.documents import DocumentTemplate
from heliograph.access.templates.ldap import dn_value, filter_value
from heliograph.access.templates.sql import MYSQL, POSTGRESQL, Statement
from heliograph.access.templates.values import AUTHENTICATION_NAMES, TOPIC_NAMES
from heliograph.access.templates.web import UrlTemplate
from heliograph.broker.authentication import AuthAttempt
from heliograph.cli.access_cases.authorization import client_in
from heliograph.cli.access_cases.running import AccessAnswer, AccessCase, text_in
from heliograph.cli.batch import CaseError

_DIALECTS = {"sql_mysql": MYSQL, "sql_pg": POSTGRESQL}
_ESCAPES = {"text": None, "ldap_filter": filter_value, "ldap_dn": dn_value}
_MODES = ("text", "topic", "json", *_DIALECTS, "url", "ldap_filter", "ldap_dn")


def placeholder_case(case: AccessCase) -> AccessAnswer:
    """Kind `placeholder`: a template filled in for a client, as the places that `mode` names do it."""
    mode, values = text_in(case, "mode"), _values(case)
    if "template" not in case:
        raise CaseError('"template" must be there')
    try:
        return {"result": _rendered(mode, case, values)}
    except TemplateError as error:
        raise CaseError(str(error)) from None


def _rendered(mode: str, case: AccessCase, values: Values) -> object:
    if mode == "json":
        return DocumentTemplate(case["template"], AUTHENTICATION_NAMES).render(values)
    template = text_in(case, "template")
    if mode == "topic":
        return Template(template, TOPIC_NAMES).topic(values)
    if mode == "url":
        return UrlTemplate(template, AUTHENTICATION_NAMES).render(values)
    if mode in _DIALECTS:
        statement = Statement(template, AUTHENTICATION_NAMES, _DIALECTS[mode])
        return {"statement": statement.text, "params": statement.params(values)}
    if mode not in _ESCAPES:
        raise CaseError(f'"mode" is {mode!r}; {", ".join(_MODES)} are valid')
    return Template(template, AUTHENTICATION_NAMES).render(values, _ESCAPES[mode])


def _values(case: AccessCase) -> Values:
    client = client_in(case)
    given: Mapping[str, object] = case.get("client") or {}
    password, port, certificate = given.get("password"), given.get("peerport"), given.get("cert_pem")
    if password is not None and not isinstance(password, str):
        raise CaseError('"password" of "client" must be a text or null')
    sent = None if password is None else password.encode("utf-8", "surrogatepass")
    more = {} if port is None else {"peerport": str(port)}
    if isinstance(certificate, str):
        more["cert_pem"] = certificate
    return client_values(client, AuthAttempt(None, None, client.username, sent), **more)
