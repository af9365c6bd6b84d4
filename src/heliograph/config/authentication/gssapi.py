"""Settings of the authenticator `gssapi:kerberos`."""

from dataclasses import dataclass
from importlib.util import find_spec

from heliograph.config.authentication.authenticator import AuthenticatorConfig
from heliograph.settings.fields import required, setting
from heliograph.settings.kinds import AnyText, Choice, Duration, Integer, RefusedError, Text


@dataclass(frozen=True, slots=True, kw_only=True)
class GssapiConfig(AuthenticatorConfig):
    """Tickets of Kerberos, in enhanced authentication."""

    mechanism: str = setting(Choice("gssapi"), "gssapi", "Which authenticator it is, with `backend`.")
    backend: str = setting(Choice("kerberos"), "kerberos", "Which system gives the tickets.")
    principal: str = required(
        Text("a principal, as in mqtt/host.example.com@EXAMPLE.COM", r"[^/@\s]+/[^/@\s]+@[^/@\s]+"),
        "The name of the node, for which clients get their tickets.",
    )
    keytab_file: str = setting(AnyText("a file"), "", "The file with its keys; empty for the system's keytab.")
    request_timeout: float = setting(Duration(0.001), 5.0, "How long a step of the exchange may take.")
    max_waiting: int = setting(Integer(1, 100_000), 1000, "Steps that may wait for others; what comes then is refused.")

    def __post_init__(self) -> None:
        if find_spec("gssapi") is None:
            raise RefusedError(
                "gssapi needs a library that is not installed: pip install 'heliograph[kerberos]', which builds with "
                "the headers of Kerberos (Debian: libkrb5-dev)"
            )
