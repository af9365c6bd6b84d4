"""Cases of authenticators: what one says about a client, or makes of the answer of a service."""

import time

from heliograph.access.authentication.cinfo import CinfoAuthenticator
from heliograph.access.authentication.http import step_of_answer
from heliograph.access.authentication.interface import Answer
from heliograph.access.authentication.jwt import FixedKeys, JwtAuthenticator, settings_key
from heliograph.access.authorization.http import verdict_of_answer
from heliograph.access.backends.http import HttpAnswer
from heliograph.broker.authentication import AuthAttempt
from heliograph.broker.client import ClientInfo
from heliograph.cli.access_cases.authorization import client_in
from heliograph.cli.access_cases.running import AccessAnswer, AccessCase, bytes_in, group_in
from heliograph.cli.batch import CaseError
from heliograph.config.authentication import CinfoConfig, JwtConfig
from heliograph.mqtt import reason_codes as rc
from heliograph.rules.variform import VariformError


def jwt_case(case: AccessCase) -> AccessAnswer:
    """Kind `jwt`: what a token is worth. Keys of a JWKS are not fetched: without any, no token is valid."""
    settings = group_in(case, "config", JwtConfig)
    try:
        keys = FixedKeys() if settings.use_jwks else FixedKeys(settings_key(settings))
    except (ValueError, OSError) as error:
        raise CaseError(str(error)) from None
    authenticator = JwtAuthenticator(settings, keys, _now_s)
    return _shown(authenticator.authenticate(*_asked(case)))


def cinfo_case(case: AccessCase) -> AccessAnswer:
    """Kind `cinfo`: what the checks say about a client."""
    settings = group_in({"config": {"mechanism": "cinfo", "checks": case.get("checks")}}, "config", CinfoConfig)
    try:
        authenticator = CinfoAuthenticator(settings.checks)
    except VariformError as error:
        raise CaseError(str(error)) from None
    return _shown(authenticator.authenticate(*_asked(case)))


def http_authn_case(case: AccessCase) -> AccessAnswer:
    """Kind `http_authn`: what the answer of a service means for the client that it is about."""
    return _shown(step_of_answer(_answer_in(case), _now_s()))


def http_authz_case(case: AccessCase) -> AccessAnswer:
    """Kind `http_authz`: what the answer of a service means for the action that it is about."""
    return {"result": verdict_of_answer(_answer_in(case))}


def _answer_in(case: AccessCase) -> HttpAnswer:
    status, content_type = case.get("status"), case.get("content_type")
    if not isinstance(status, int) or isinstance(status, bool):
        raise CaseError('"status" must be an integer')
    if content_type is not None and not isinstance(content_type, str):
        raise CaseError('"content_type" must be a text or null')
    body = b"" if case.get("body") is None else bytes_in(case, "body")
    return HttpAnswer(status, content_type, body)


def _asked(case: AccessCase) -> tuple[ClientInfo, AuthAttempt]:
    client = client_in(case)
    given = case.get("client") or {}
    password = None if given.get("password") is None else bytes_in(given, "password")
    return client, AuthAttempt(None, None, client.username, password)


def _shown(step: Answer) -> AccessAnswer:
    if step is None:
        return {"result": "ignore"}
    if step.code != rc.SUCCESS:
        return {"result": "error", "reason": rc.name_of(step.code)}
    grants = step.grants
    ends_ms = 0 if grants is None else int(grants.expire_at_ms)
    return {
        "result": "ok",
        "superuser": grants is not None and grants.is_superuser,
        "client_attrs": {} if grants is None else dict(grants.client_attrs or {}),
        "expire_at": ends_ms or None,
        "acl": grants is not None and grants.acl is not None,
    }


def _now_s() -> int:
    return int(time.time())
