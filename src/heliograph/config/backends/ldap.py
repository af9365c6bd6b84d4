"""The settings of a connection to an LDAP server, and of what is searched there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from heliograph.config.backends.ldap_syntax import LdapFilter, LdapName
from heliograph.settings.addresses import ServerAddress
from heliograph.settings.fields import optional, optional_section, required, setting
from heliograph.settings.kinds import Duration, Integer, SecretText, Text
from heliograph.settings.secrets import Secret
from heliograph.settings.tls import ClientTls
from heliograph.settings.units import Address

_PORT: Final = 389
#: The kind of settings that name an attribute.
ATTRIBUTE: Final = Text("the name of an attribute", r"[A-Za-z][A-Za-z0-9;-]*")


@dataclass(frozen=True, kw_only=True)
class LdapConnection:
    """Where an LDAP server is, and which entry is searched for a client."""

    server: Address = required(ServerAddress(_PORT), "Where the server is.")
    username: str | None = optional(Text("a distinguished name"), "Who searches; without it, an anonymous search.")
    password: Secret | None = optional(SecretText(), "The password for it.")
    pool_size: int = setting(Integer(1, 1000), 8, "Connections at most.")
    query_timeout: float = setting(Duration(0.001), 5.0, "How long an answer may take.")
    request_timeout: float = setting(Duration(1.0), 10.0, "After how long a silent server is disconnected.")
    tls: ClientTls | None = optional_section(
        ClientTls, "TLS from the first byte on (ldaps), which needs its own port.", name="ssl", has_switch=True
    )
    base_dn: str = required(LdapName(), "Below which entry is searched; may have placeholders.")
    filter: str = setting(
        LdapFilter(),
        "(objectClass=mqttUser)",
        "Which entry it is; may have placeholders. Of several entries the first is taken.",
    )
