"""What every authenticator has."""

from dataclasses import dataclass

from heliograph.settings.fields import setting
from heliograph.settings.kinds import AnyText, Boolean


@dataclass(frozen=True, slots=True, kw_only=True)
class AuthenticatorConfig:
    """One authenticator; its class adds `mechanism` and, where there is one, `backend`, of one valid word each."""

    enable: bool = setting(Boolean(), True, "Whether it is asked.")
    precondition: str = setting(
        AnyText("a variform expression"),
        "",
        "Only clients for which this renders `true` are asked about; empty for all.",
    )
