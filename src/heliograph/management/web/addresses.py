"""From where callers call: what counts as one place."""

import ipaddress
from typing import Final

_NETWORK_BITS: Final = 64  # of an IPv6 address: one has as many addresses within it as it likes


Address = ipaddress.IPv4Address | ipaddress.IPv6Address


def place_of(address: str) -> int:
    """A number for an address; those of one IPv6 network have the same. 0 for what is no address."""
    found = address_in(address)
    if isinstance(found, ipaddress.IPv6Address):
        return -(int(found) >> _NETWORK_BITS) - 1
    return 0 if found is None else int(found)


def is_local(address: str) -> bool:
    """Whether it is an address of this machine that no other one has."""
    found = address_in(address)
    return found is not None and found.is_loopback


def address_in(address: str) -> Address | None:
    """The address that a text is, without IPv6 around one of IPv4; None for any other text."""
    try:
        found = ipaddress.ip_address(address.partition("%")[0])  # a zone is any text
    except ValueError:
        return None
    mapped = found.ipv4_mapped if isinstance(found, ipaddress.IPv6Address) else None
    return found if mapped is None else mapped
