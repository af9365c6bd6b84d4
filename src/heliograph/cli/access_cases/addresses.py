"""Cases of addresses and networks."""

from ipaddress import ip_address, ip_network

from heliograph.cli.access_cases.running import AccessAnswer, AccessCase, text_in
from heliograph.cli.batch import CaseError


def cidr_case(case: AccessCase) -> AccessAnswer:
    """Kind `cidr`: whether an address lies in a network."""
    text, address = text_in(case, "cidr"), text_in(case, "ip")
    _, slash, length = text.partition("/")
    if slash and not (length.isascii() and length.isdecimal()):  # a netmask is not allowed
        raise CaseError(f"{text!r} is no network; one looks like 10.0.0.0/8 or 2001:db8::/32")
    try:
        network, found = ip_network(text, strict=False), ip_address(address)
    except ValueError as error:
        raise CaseError(str(error)) from None
    return {"result": found in network}
