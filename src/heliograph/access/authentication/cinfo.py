"""The authenticator `cinfo`: the first check whose expressions all render `true` decides."""

from collections.abc import Sequence
from typing import Final

from heliograph.access.authentication.expressions import ClientExpression
from heliograph.access.authentication.interface import Answer, Authenticator, Surroundings
from heliograph.access.authentication.results import accepted
from heliograph.broker.authentication import AuthAttempt, AuthStep, Grants
from heliograph.broker.client import ClientInfo
from heliograph.config.authentication import CinfoCheck, CinfoConfig
from heliograph.mqtt import reason_codes as rc

_ALLOW: Final = "allow"
_DENY: Final = "deny"


class CinfoAuthenticator(Authenticator):
    """Compares what is known of a client with expressions; an invalid one raises `VariformSyntaxError`."""

    def __init__(self, checks: Sequence[CinfoCheck]) -> None:
        super().__init__("cinfo")
        self._checks = [(check.result, [ClientExpression(text) for text in check.is_match]) for check in checks]

    def authenticate(self, client: ClientInfo, attempt: AuthAttempt) -> Answer:
        if attempt.method is not None:
            return None
        for result, expressions in self._checks:
            if all(expression.matches(client, attempt) for expression in expressions):
                if result == _ALLOW:
                    return accepted(Grants())
                return AuthStep(rc.BAD_USERNAME_OR_PASSWORD) if result == _DENY else None
        return None


def make(settings: CinfoConfig, surroundings: Surroundings) -> CinfoAuthenticator:
    return CinfoAuthenticator(settings.checks)
