"""Texts with units to numbers and back: durations, sizes, rates, network addresses, topic filters.

Each reader raises ValueError with what is wrong, in words for the person who wrote the text; which setting it was is
the caller's to say.
"""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass
from decimal import Decimal
from typing import Final

from heliograph.mqtt.topic import MAX_TOPIC_BYTES, SHARE_PREFIX, topic_filter_fault

# ASCII too: otherwise letters such as the Kelvin sign would match the unit that they fold to.
_ANY_CASE: Final = re.IGNORECASE | re.ASCII

_MILLISECONDS: Final = {
    "ms": 1,
    "s": 1_000,
    "m": 60_000,
    "h": 3_600_000,
    "d": 86_400_000,
    "w": 7 * 86_400_000,
    "f": 14 * 86_400_000,
}
_DURATION_PART: Final = re.compile(r"((?:[0-9]+(?:\.[0-9]+)?|\.[0-9]+))(ms|[smhdwf])", _ANY_CASE)
_DURATION: Final = re.compile(rf"(?:{_DURATION_PART.pattern})+", _ANY_CASE)

_SIZES: Final = {"b": 1, "kb": 1024, "mb": 1024**2, "gb": 1024**3}
_SIZE: Final = re.compile(r"([0-9]+)(b|kb|mb|gb)", _ANY_CASE)

_DIGITS: Final = re.compile(r"[0-9]{1,18}")

_HOST_NAME: Final = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?")
_PORT: Final = re.compile(r"[0-9]{1,5}")

# Longer texts are mistakes, and int() of very long ones is refused or slow.
_UNIT_TEXT_LENGTH: Final = 100
_ANY_INTERFACE: Final = "0.0.0.0"
UNIX_PREFIX: Final = "unix:"
_UNIX_PATH_BYTES: Final = 107  # what the system's address structure holds, with its zero


def parse_duration(text: str) -> float:
    """Seconds of a duration such as `1h30m`, to the millisecond."""
    if len(text) > _UNIT_TEXT_LENGTH or _DURATION.fullmatch(text) is None:
        raise ValueError("the units are ms, s, m, h, d, w and f (14 days), without blanks, as in 1h30m or 500ms")
    # Decimal, not float: 0.0015s must round the same way on every machine.
    total = sum(Decimal(number) * _MILLISECONDS[unit.lower()] for number, unit in _DURATION_PART.findall(text))
    return int((Decimal(total) + Decimal("0.5")) // 1) / 1000


def format_duration(seconds: float) -> str:
    """The shortest duration text for a number of seconds; days are the largest unit."""
    milliseconds = round(seconds * 1000)
    if milliseconds == 0:
        return "0s"
    pieces = []
    for unit in ("d", "h", "m", "s", "ms"):
        count, milliseconds = divmod(milliseconds, _MILLISECONDS[unit])
        if count:
            pieces.append(f"{count}{unit}")
    return "".join(pieces)


def parse_size(text: str) -> int:
    """Bytes of a size such as `16MB`; 1 KB is 1024 bytes."""
    match = _SIZE.fullmatch(text) if len(text) <= _UNIT_TEXT_LENGTH else None
    if match is None:
        raise ValueError("the units are B, KB, MB and GB (1 KB is 1024 bytes), whole and without blanks, as in 16MB")
    return int(match[1]) * _SIZES[match[2].lower()]


def format_size(size: int) -> str:
    """The size in the largest unit that keeps it whole."""
    for unit in ("GB", "MB", "KB"):
        count, rest = divmod(size, _SIZES[unit.lower()])
        if count and not rest:
            return f"{count}{unit}"
    return f"{size}B"


@dataclass(frozen=True, slots=True)
class Percentage:
    """A part of something, as in `70%`."""

    percent: int


@dataclass(frozen=True, slots=True)
class Rate:
    """An amount, which may be one of bytes, in so many seconds."""

    amount: int
    interval_s: float

    @property
    def per_second(self) -> float:
        """How much that is in a second."""
        return self.amount / self.interval_s


def parse_rate(text: str, *, of_bytes: bool) -> Rate:
    """The rate that `1000/s`, `10MB/s` or `500KB/1m` means; an amount of bytes may have a unit of size."""
    amount, slash, interval = text.partition("/")
    if not slash:
        raise ValueError("it has an amount and a time, as in 1000/s")
    if _DIGITS.fullmatch(amount):
        count = int(amount)
    elif of_bytes:
        count = parse_size(amount)
    else:
        raise ValueError(f'"{amount}" is no number')
    # The time may lack its number: a second is meant by 1000/s.
    seconds = parse_duration(interval if interval[:1].isdigit() else f"1{interval}")
    if count < 1 or seconds <= 0:
        raise ValueError("amount and time must be above 0; infinity is no limit")
    return Rate(count, seconds)


def format_rate(rate: Rate, *, of_bytes: bool) -> str:
    """The rate as one would write it."""
    interval = format_duration(rate.interval_s)
    amount = format_size(rate.amount) if of_bytes else str(rate.amount)
    return f"{amount}/{interval.removeprefix('1') if interval in ('1s', '1m', '1h') else interval}"


@dataclass(frozen=True, slots=True)
class UnixAddress:
    """A socket in the file system where a listener listens."""

    path: str

    def __str__(self) -> str:
        return f"unix:{self.path}"


@dataclass(frozen=True, slots=True)
class Address:
    """Where a listener listens.

    Attributes:
        host: Name or address; `0.0.0.0` for every IPv4 interface, `::` for every interface.
        port: TCP port; 0 lets the system choose.
    """

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def parse_address(text: str) -> Address:
    """The address that `host:port`, `[IPv6]:port` or a bare port means.

    Raises:
        ValueError: It is not one of them.
    """
    host, colon, port = text.rpartition(":")
    if not colon or not host:
        return Address(_ANY_INTERFACE, _parse_port(port))
    if host.startswith("[") and host.endswith("]"):
        try:
            return Address(str(ipaddress.IPv6Address(host[1:-1])), _parse_port(port))
        except ipaddress.AddressValueError:
            raise ValueError(f"{host} is not an IPv6 address in brackets") from None
    if ":" in host:
        raise ValueError("an IPv6 address stands in brackets, as in [::1]:1883")
    if re.fullmatch(r"[0-9.]+", host):
        try:
            return Address(str(ipaddress.IPv4Address(host)), _parse_port(port))
        except ipaddress.AddressValueError:
            raise ValueError(f"{host} is not an IPv4 address") from None
    if _HOST_NAME.fullmatch(host) is None or len(host) > 253:
        raise ValueError(f'"{host}" is neither an address nor a host name')
    return Address(host, _parse_port(port))


def parse_listener_address(text: str) -> Address | UnixAddress:
    """The address that `host:port`, `[IPv6]:port`, `:port`, a bare port or `unix:/path` means.

    Raises:
        ValueError: It is not one of them.
    """
    if not text.startswith(UNIX_PREFIX):
        return parse_address(text)
    path = text.removeprefix(UNIX_PREFIX)
    if not path.startswith("/"):
        raise ValueError("the path of a Unix socket begins with /, as in unix:/run/heliograph/mqtt.sock")
    if len(path.encode("utf-8", "surrogatepass")) > _UNIX_PATH_BYTES:
        raise ValueError(f"the path of a Unix socket has at most {_UNIX_PATH_BYTES} bytes")
    return UnixAddress(path)


def _parse_port(text: str) -> int:
    if _PORT.fullmatch(text) is None or int(text) > 65535:
        raise ValueError(f'"{text}" is not a port: ports are 0 to 65535')
    return int(text)


def check_topic_filter(text: str) -> str:
    """Give back a topic filter that MQTT allows for an ordinary (not shared) subscription.

    Raises:
        ValueError: It is not one.
    """
    if text.startswith(SHARE_PREFIX):
        raise ValueError("a shared subscription has no meaning here: leave out $share/GROUP/")
    if len(text.encode("utf-8", "surrogatepass")) > MAX_TOPIC_BYTES:
        raise ValueError(f"a topic filter has at most {MAX_TOPIC_BYTES} bytes")
    fault = topic_filter_fault(text, MAX_TOPIC_BYTES)
    if fault is not None:
        raise ValueError(fault)
    return text


def is_loopback(host: str) -> bool:
    """Whether only programs of this machine reach an address."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
