"""Settings of the authenticators that ask an HTTP service: for passwords, and for the keys of SCRAM."""

from dataclasses import dataclass

from heliograph.config.authentication.authenticator import AuthenticatorConfig
from heliograph.config.backends.http import HttpRequest
from heliograph.settings.fields import setting
from heliograph.settings.kinds import Choice, Duration, Integer


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpConfig(AuthenticatorConfig, HttpRequest):
    """An HTTP service says whether a client may connect."""

    mechanism: str = setting(Choice("password_based"), "password_based", "Which authenticator it is.")
    backend: str = setting(Choice("http"), "http", "Which authenticator it is.")
    request_timeout: float = setting(Duration(0.001), 5.0, "How long an answer may take.")


@dataclass(frozen=True, slots=True, kw_only=True)
class ScramHttpConfig(AuthenticatorConfig, HttpRequest):
    """An HTTP service has the keys of users for SCRAM."""

    mechanism: str = setting(Choice("scram"), "scram", "Which authenticator it is.")
    backend: str = setting(Choice("http"), "http", "Which authenticator it is.")
    algorithm: str = setting(
        Choice("sha256", "sha512"), "sha256", "The hash of the method: SCRAM-SHA-256 or SCRAM-SHA-512."
    )
    iteration_count: int = setting(Integer(1), 4096, "The iterations of the keys that the service has.")
    request_timeout: float = setting(Duration(0.001), 5.0, "How long an answer may take.")
