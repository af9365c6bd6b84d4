"""Which address counts of a request that came through proxies."""

import pytest

from heliograph.config.management import DashboardConfig, ProxyNetwork
from heliograph.management.web.proxies import caller_of
from heliograph.settings.kinds import RefusedError

TRUSTED = ("10.0.0.0/8", "2001:db8:1::/48")


@pytest.mark.parametrize(
    ("peer", "value", "caller"),
    [
        ("192.0.2.1", "203.0.113.9", "192.0.2.1"),
        ("10.0.0.1", "", "10.0.0.1"),
        ("10.0.0.1", "203.0.113.9", "203.0.113.9"),
        ("::ffff:10.0.0.1", "203.0.113.9", "203.0.113.9"),
        ("10.0.0.1", "198.51.100.1, 203.0.113.9", "203.0.113.9"),
        ("10.0.0.1", "198.51.100.1, 203.0.113.9, 10.0.0.2", "203.0.113.9"),
        ("10.0.0.1", "10.0.0.3, 10.0.0.2", "10.0.0.3"),
        ("2001:db8:1::1", "2001:db8::9", "2001:db8::9"),
        ("10.0.0.1", "[2001:db8::9]:443", "2001:db8::9"),
        ("10.0.0.1", "203.0.113.9:443", "203.0.113.9"),
        ("10.0.0.1", "198.51.100.1, unknown", "10.0.0.1"),
        ("10.0.0.1", "198.51.100.1, unknown, 10.0.0.2", "10.0.0.2"),
        ("10.0.0.1", "198.51.100.1,", "10.0.0.1"),
        ("10.0.0.1", "198.51.100.1, " + "10.0.0.2, " * 1000 + "10.0.0.2", "10.0.0.2"),
        ("10.0.0.1", "fe80::1%eth0 from 192.0.2.1", "fe80::1"),
        ("", "203.0.113.9", ""),
    ],
)
def test_the_last_address_that_is_no_trusted_proxy_counts(peer: str, value: str, caller: str) -> None:
    settings = DashboardConfig(trusted_proxies=TRUSTED)
    headers = [(b"x-forwarded-for", part.encode()) for part in value.split("|")]
    assert caller_of(peer, [*headers, (b"forwarded", b"for=192.0.2.99")], settings) == caller


@pytest.mark.parametrize(
    ("value", "caller"),
    [
        ("for=203.0.113.9", "203.0.113.9"),
        ('For="[2001:db8::9]:4711";proto=https;by=10.0.0.1', "2001:db8::9"),
        ("for=198.51.100.1;proto=http, proto=https; for=203.0.113.9, for=10.0.0.2", "203.0.113.9"),
        ('for="198.51.100.1, for=203.0.113.9', "203.0.113.9"),  # a quote that the caller left open
        ("for=198.51.100.1, for=_hidden", "10.0.0.1"),
        ("for=198.51.100.1, by=10.0.0.2", "10.0.0.1"),
    ],
)
def test_the_header_of_the_standard_is_read_too(value: str, caller: str) -> None:
    settings = DashboardConfig(trusted_proxies=TRUSTED, proxy_address_header="Forwarded")
    headers = [(b"x-forwarded-for", b"192.0.2.99"), (b"forwarded", value.encode())]
    assert caller_of("10.0.0.1", headers, settings) == caller


def test_lines_of_the_header_are_one_list() -> None:
    headers = [(b"x-forwarded-for", b"198.51.100.1"), (b"x-forwarded-for", b"203.0.113.9")]
    assert caller_of("10.0.0.1", headers, DashboardConfig(trusted_proxies=TRUSTED)) == "203.0.113.9"


@pytest.mark.parametrize("network", ["0.0.0.0/0", "::/0", "proxy.example.org"])
def test_what_names_no_proxies_is_refused(network: str) -> None:
    with pytest.raises(RefusedError):
        ProxyNetwork().convert(network)
