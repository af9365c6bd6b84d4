"""Settings of the authenticator `password_based:ldap`."""

from __future__ import annotations

from dataclasses import dataclass

from heliograph.config.authentication.authenticator import AuthenticatorConfig
from heliograph.config.backends.ldap import ATTRIBUTE, LdapConnection
from heliograph.settings.fields import optional, section, setting
from heliograph.settings.kinds import Choice, RefusedError, Text


@dataclass(frozen=True, slots=True)
class LdapMethod:
    """How a password is checked."""

    type: str = setting(
        Choice("hash", "bind"),
        "hash",
        "`hash`: the entry has the hash of the password; `bind`: the server is asked to log in as the entry.",
    )
    password_attribute: str | None = optional(
        ATTRIBUTE, "Of `hash`: where the entry has the hash. Default: userPassword."
    )
    is_superuser_attribute: str = setting(
        ATTRIBUTE, "isSuperuser", "Where the entry says whether the user may do everything."
    )
    bind_password: str | None = optional(
        Text("a text, as in ${password}"),
        "Of `bind`: what is sent as the password; may have placeholders. Default: ${password}.",
    )

    def __post_init__(self) -> None:
        for name, owner in (("password_attribute", "hash"), ("bind_password", "bind")):
            if getattr(self, name) is not None and self.type != owner:
                raise RefusedError(f"the method {self.type} has no {name}, only {owner} has", name)


@dataclass(frozen=True, kw_only=True)
class LdapAuthenticatorConfig(AuthenticatorConfig, LdapConnection):
    """Users in entries of a directory."""

    mechanism: str = setting(Choice("password_based"), "password_based", "Which authenticator it is, with `backend`.")
    backend: str = setting(Choice("ldap"), "ldap", "Where the users are.")
    method: LdapMethod = section(LdapMethod, "How a password is checked.")
    publish_attribute: str | None = optional(
        ATTRIBUTE, "Where the entry has topics that the client may publish to; its rights are kept with the client."
    )
    subscribe_attribute: str | None = optional(ATTRIBUTE, "Where it has topics that the client may subscribe to.")
    all_attribute: str | None = optional(ATTRIBUTE, "Where it has topics for both.")
    acl_rule_attribute: str | None = optional(ATTRIBUTE, "Where it has rules, each a JSON object.")
    acl_ttl_attribute: str | None = optional(
        ATTRIBUTE, "Where it has how long these rights hold after the login, as in `30m`; without, they always do."
    )
