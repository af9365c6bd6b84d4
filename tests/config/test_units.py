"""Units: durations, sizes, percentages, addresses, topic filters."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from heliograph.settings.units import (
    Address,
    check_topic_filter,
    format_duration,
    format_size,
    parse_address,
    parse_duration,
    parse_size,
)
from support.cases import cases


@cases(
    ("text", "seconds"),
    [
        ("15s", 15),
        ("500ms", 0.5),
        ("1h30m", 5400),
        ("30m1h", 5400),
        ("1s1s", 2),
        ("2d", 172800),
        ("1W2D", 777600),
        ("1f", 14 * 86400),
        ("2.5m", 150),
        (".5s", 0.5),
        ("1Ms", 0.001),
        ("0s", 0),
        ("0.4ms", 0),
        ("0.5ms", 0.001),
        ("1.2345s", 1.235),
    ],
)
def test_durations(text: str, seconds: float) -> None:
    assert parse_duration(text) == seconds


@cases(
    "text",
    ["", "5", "5 s", "-5s", "5us", "5min", "5sec", "s", "1h 30m", "1.s", "5s ", "\u0661s", "5\u017f", "1" * 200 + "s"],
)
def test_what_is_no_duration(text: str) -> None:
    with pytest.raises(ValueError, match="the units are ms, s, m, h, d, w and f"):
        parse_duration(text)


@given(st.integers(0, 10**12))
def test_durations_survive_being_written(milliseconds: int) -> None:
    assert parse_duration(format_duration(milliseconds / 1000)) == milliseconds / 1000


@cases(
    ("text", "size"),
    [("0b", 0), ("10B", 10), ("16KB", 16384), ("1mb", 1048576), ("2Gb", 2 << 30), ("007kB", 7168)],
)
def test_sizes(text: str, size: int) -> None:
    assert parse_size(text) == size


@cases("text", ["", "10M", "1.5MB", "1TB", "1KiB", "1 MB", "-1MB", "MB", "10", "1\u212ab"])
def test_what_is_no_size(text: str) -> None:
    with pytest.raises(ValueError, match="the units are B, KB, MB and GB"):
        parse_size(text)


@given(st.integers(0, 2**50))
def test_sizes_survive_being_written(size: int) -> None:
    assert parse_size(format_size(size)) == size


@cases(
    ("text", "address"),
    [
        ("127.0.0.1:1883", Address("127.0.0.1", 1883)),
        ("0.0.0.0:0", Address("0.0.0.0", 0)),
        ("1883", Address("0.0.0.0", 1883)),
        (":1883", Address("0.0.0.0", 1883)),
        ("[::1]:1883", Address("::1", 1883)),
        ("[::]:1883", Address("::", 1883)),
        ("[2001:DB8::0:1]:65535", Address("2001:db8::1", 65535)),
        ("localhost:1883", Address("localhost", 1883)),
        ("broker-1.example.org:1", Address("broker-1.example.org", 1)),
    ],
)
def test_addresses(text: str, address: Address) -> None:
    assert parse_address(text) == address


@cases(
    ("text", "reason"),
    [
        ("", "is not a port"),
        ("localhost", '"localhost" is not a port'),
        ("127.0.0.1", "is not a port"),
        ("127.0.0.1:", "is not a port"),
        ("127.0.0.1:65536", "ports are 0 to 65535"),
        ("127.0.0.1:-1", "ports are 0 to 65535"),
        ("127.0.0.1:123456", "ports are 0 to 65535"),
        ("::1:1883", "stands in brackets"),
        ("[::1", "stands in brackets"),
        ("[::g]:1883", "is not an IPv6 address"),
        ("127.0.0.256:1883", "is not an IPv4 address"),
        ("127.1:1883", "is not an IPv4 address"),
        ("a b:1883", "neither an address nor a host name"),
        ("-a:1883", "neither an address nor a host name"),
    ],
)
def test_what_is_no_address(text: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        parse_address(text)


@given(st.ip_addresses(), st.integers(0, 65535))
def test_addresses_survive_being_written(host: object, port: int) -> None:
    address = Address(str(host), port)
    assert parse_address(str(address)) == address


@cases("text", ["#", "+", "a", "a/b", "a/+/b", "a/#", "+/#", "/", "//", "$SYS/#", "größe/+", "a b"])
def test_topic_filters(text: str) -> None:
    assert check_topic_filter(text) == text


@cases("text", ["", "a/#/b", "a#", "#/", "a+", "+a/b", "a/b+", "##", "a\0b", "$share/g/a", "x" * 65536, "é" * 32768])
def test_what_is_no_topic_filter(text: str) -> None:
    with pytest.raises(ValueError, match=r"topic filter|'#'|'\+'|shared"):
        check_topic_filter(text)
