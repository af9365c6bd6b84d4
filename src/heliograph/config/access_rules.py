"""Rules that allow or deny connections by the peer's address: `allow 10.0.0.0/8`, `deny all`."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass

Network = ipaddress.IPv4Network | ipaddress.IPv6Network


@dataclass(frozen=True, slots=True)
class AccessRule:
    """One rule, which allows or denies; about all addresses without a network."""

    allow: bool
    network: Network | None

    def __str__(self) -> str:
        return f"{'allow' if self.allow else 'deny'} {'all' if self.network is None else self.network}"


def parse_access_rule(text: str) -> AccessRule:
    """Raises `ValueError` if the text is no rule."""
    action, _, addresses = text.partition(" ")
    addresses = addresses.strip()
    if action not in ("allow", "deny"):
        raise ValueError("a rule begins with allow or deny")
    if addresses == "all":
        return AccessRule(action == "allow", None)
    try:
        return AccessRule(action == "allow", ipaddress.ip_network(addresses))
    except ValueError as error:
        raise ValueError(f"{error}; an address, a network such as 10.0.0.0/8, or all is expected") from None
