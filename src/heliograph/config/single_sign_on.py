"""Settings of `dashboard.sso`: users log in at a provider of OpenID Connect."""

from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

from heliograph.settings.fields import ListOf, list_setting, section, setting
from heliograph.settings.kinds import AnyText, Boolean, Choice, RefusedError, SecretText, Text
from heliograph.settings.secrets import Secret
from heliograph.settings.tls import ClientTls

_URL: Final = r"https?://[^\s/]+\S*"
_HERE: Final = frozenset({"localhost", "127.0.0.1", "::1"})


@dataclass(frozen=True, slots=True)
class SsoRoles:
    """Which values of the claim give which role; of several the one that may most."""

    administrator: tuple[str, ...] = list_setting(
        ListOf(Text("a text")), ("administrator",), "Values that make an administrator."
    )
    operator: tuple[str, ...] = list_setting(ListOf(Text("a text")), ("operator",), "Values that make an operator.")
    viewer: tuple[str, ...] = list_setting(ListOf(Text("a text")), ("viewer",), "Values that make a viewer.")


@dataclass(frozen=True, slots=True)
class OidcConfig:
    """A provider of OpenID Connect: code flow with PKCE."""

    enable: bool = setting(Boolean(), False, "Whether users may log in there.")
    issuer: str = setting(
        AnyText("a URL as in https://login.example.com/realms/plant, or empty"),
        "",
        "The provider, as it names itself. What else there is to know is read below it at "
        "`/.well-known/openid-configuration`. Without TLS only on this machine.",
    )
    clientid: str = setting(AnyText("a text, or empty"), "", "As what the provider knows this node.")
    secret: Secret = setting(SecretText(may_be_empty=True), Secret(), "Its secret there; empty for a public client.")
    scopes: tuple[str, ...] = list_setting(
        ListOf(Text("a scope"), at_least=1), ("openid", "profile"), "What the provider is asked for; `openid` among it."
    )
    dashboard_addr: str = setting(
        Text("a URL as in https://broker.example.com:18084", _URL),
        "http://127.0.0.1:18083",
        "Where browsers find the page of this node. Below it, `/api/v5/sso/oidc/callback` is the redirect URI to "
        "register at the provider.",
    )
    name_claim: str = setting(
        Text("the name of a claim"), "preferred_username", "The claim of the ID token with the user's name; else `sub`."
    )
    role_claim: str = setting(
        Text("the name of a claim, or a path as in realm_access.roles"),
        "roles",
        "The claim with the user's roles or groups: a text, or a list of texts.",
    )
    roles: SsoRoles = section(SsoRoles, "Which of its values give which role.")
    default_role: str = setting(
        Choice("none", "viewer", "operator"), "none", "The role of users without any of them; `none` refuses them."
    )
    ssl: ClientTls = section(ClientTls, "TLS to the provider.")

    def __post_init__(self) -> None:
        if not self.enable:
            return
        for name in ("issuer", "clientid"):
            if not getattr(self, name):
                raise RefusedError("it is needed while dashboard.sso.oidc is enabled", name)
        if "openid" not in self.scopes:
            raise RefusedError("`openid` must be among them", "scopes")
        url = urlsplit(self.issuer)
        if url.scheme != "https" and (url.scheme != "http" or url.hostname not in _HERE):
            raise RefusedError(f"{self.issuer!r} is no https:// URL (http:// only on this machine)", "issuer")


@dataclass(frozen=True, slots=True)
class SsoConfig:
    """Logins at a provider of identities."""

    oidc: OidcConfig = section(OidcConfig, "OpenID Connect.")
