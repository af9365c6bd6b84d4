"""The authenticator `password_based:http`: a service is asked whether a client may connect."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Final

from heliograph.access.authentication.interface import Answer, Authenticator, Surroundings
from heliograph.access.authentication.results import (
    ResultError,
    accepted,
    carried_rights,
    client_attrs,
    expire_at_ms,
    is_superuser,
)
from heliograph.access.backends.http import HttpAnswer, object_of
from heliograph.access.backends.http_requests import HttpBackend
from heliograph.access.templates import TemplateError, client_values
from heliograph.access.templates.values import AUTHENTICATION_NAMES
from heliograph.broker.authentication import AuthAttempt, AuthStep, Grants
from heliograph.broker.client import ClientInfo
from heliograph.config.authentication import HttpConfig, ScramHttpConfig
from heliograph.mqtt import reason_codes as rc

OK_STATUS: Final = 200
_NO_CONTENT: Final = 204
_SOURCE: Final = "http"


class HttpAuthenticator(Authenticator):
    def __init__(self, service: HttpBackend, now_s: Callable[[], int]) -> None:
        super().__init__("password_based:http")
        self._service = service
        self.backend = service.pool
        self._now_s = now_s

    def authenticate(self, client: ClientInfo, attempt: AuthAttempt) -> Answer | Awaitable[Answer]:
        if attempt.method is not None:
            return None
        try:
            return self._service.ask(
                client_values(client, attempt), lambda answer: step_of_answer(answer, self._now_s())
            )
        except TemplateError:
            return None  # what the client sent cannot be sent on


def step_of_answer(answer: HttpAnswer, now_s: int) -> Answer:
    if answer.status == _NO_CONTENT:
        return accepted(Grants())
    body = object_of(answer) if answer.status == OK_STATUS else None
    if body is None:
        return None
    result = body.get("result")
    if result == "deny":
        return AuthStep(rc.NOT_AUTHORIZED)
    if result != "allow":
        return None
    try:
        return accepted(grants_of(body, now_s))
    except ResultError as error:
        return error.step()


def grants_of(body: Mapping[str, object], now_s: int) -> Grants:
    ends_ms = expire_at_ms(body["expire_at"], now_s) if "expire_at" in body else 0
    return Grants(
        is_superuser=is_superuser(body.get("is_superuser")),
        client_attrs=client_attrs(body["client_attrs"]) if "client_attrs" in body else None,
        expire_at_ms=ends_ms,
        acl=carried_rights(body["acl"], _SOURCE, ends_ms / 1000 if ends_ms else None) if "acl" in body else None,
    )


def make(settings: HttpConfig, surroundings: Surroundings) -> HttpAuthenticator:
    return HttpAuthenticator(http_backend("password_based:http", settings, surroundings), surroundings.now_s)


def http_backend(authenticator: str, settings: HttpConfig | ScramHttpConfig, surroundings: Surroundings) -> HttpBackend:
    name, answers = surroundings.backend_name(authenticator), surroundings.node_cache.answers()
    timeout_s, backends = settings.request_timeout, surroundings.backends
    return HttpBackend(name, settings, AUTHENTICATION_NAMES, timeout_s, backends, answers)
