"""The settings of a connection to an LDAP server, and the filters and names that are searched there."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from heliograph.hocon.values import Content
from heliograph.settings.addresses import ServerAddress
from heliograph.settings.fields import optional, optional_section, required, setting
from heliograph.settings.kinds import Duration, Integer, RefusedError, SecretText, Text
from heliograph.settings.secrets import Secret
from heliograph.settings.tls import ClientTls
from heliograph.settings.units import Address

_PORT: Final = 389


#: The kind of settings that name an attribute.
ATTRIBUTE: Final = Text("the name of an attribute", r"[A-Za-z][A-Za-z0-9;-]*")


# A placeholder is a part of a value: it has none of the characters that these forms give a meaning.
_ITEM: Final = re.compile(r"[A-Za-z0-9.;:_-]+[~<>:]?=(?:[^()\\]|\\[0-9A-Fa-f]{2})*")
_PART_OF_NAME: Final = re.compile(r"\s*(?:[A-Za-z][A-Za-z0-9-]*|[0-9]+(?:\.[0-9]+)*)\s*=(?:[^,+\\]|\\.)*", re.DOTALL)
_DEPTH_MAX: Final = 50


class LdapFilter(Text):
    """A filter (RFC 4515), whose values may have placeholders."""

    def __init__(self) -> None:
        super().__init__("a filter of LDAP, as in (&(objectClass=mqttUser)(uid=${username}))")

    def convert(self, value: Content) -> str:
        text = super().convert(value)
        if _after(text, 0, 0) != len(text):
            raise RefusedError("more follows behind the filter, or a bracket is missing")
        return text


class LdapName(Text):
    """The name of an entry (RFC 4514), whose values may have placeholders."""

    def __init__(self) -> None:
        super().__init__("the name of an entry, as in ou=users,dc=example,dc=com")

    def convert(self, value: Content) -> str:
        text = super().convert(value)
        at = 0
        while found := _PART_OF_NAME.match(text, at):
            if found.end() == len(text):
                return text
            at = found.end() + 1
        raise RefusedError


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


def _after(text: str, at: int, depth: int) -> int:
    """Where the filter ends that begins there; raises `RefusedError` if none does."""
    if text[at : at + 1] != "(" or depth > _DEPTH_MAX:
        raise RefusedError(f"a filter begins with a bracket, at character {at + 1}")
    at += 1
    if text[at : at + 1] in ("&", "|", "!"):
        count, only = 0, text[at] == "!"
        at += 1
        while text[at : at + 1] == "(":
            at = _after(text, at, depth + 1)
            count += 1
        if count == 0 or (only and count > 1):
            raise RefusedError(f"a filter is missing, or one too much, before character {at + 1}")
    else:
        found = _ITEM.match(text, at)
        if found is None:
            raise RefusedError(f"no comparison such as uid=${{username}} stands at character {at + 1}")
        at = found.end()
    if text[at : at + 1] != ")":
        raise RefusedError(f"a closing bracket is missing at character {at + 1}")
    return at + 1
