"""Where connections to other servers may go: the settings `outbound`, and the decision about one address.

Nothing here resolves a name or opens a connection; the package `outbound` does.
"""

import re
import socket
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Final
from urllib.parse import parse_qsl, urlsplit

from heliograph.hocon.values import Content
from heliograph.settings.fields import ListOf, list_setting, setting
from heliograph.settings.kinds import Boolean, RefusedError, Text

IpAddress = IPv4Address | IPv6Address
IpNetwork = IPv4Network | IPv6Network

STORE_PORT: Final = 443
"""Of a store whose port nothing says."""

_PORT_MAX: Final = 65_535
_PORTS: Final = {"http": 80, "https": 443}
_URI: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://.*", re.DOTALL)
_JDBC: Final = re.compile(r"(?i)jdbc:")
_JDBC_SERVER: Final = re.compile(r"//(?:[^/;?]*@)?([^/;?@]+)")
_BUCKET: Final = re.compile(r"(?i)(s3[an]?|gs|gcs|abfss?|wasbs?|file)://")
_NAMES_SERVER: Final = re.compile(r"(?i).*(endpoint|host|proxy|server|ur[il]).*")
_LOOPBACK_NAME: Final = re.compile(r"(?:.+\.)?localhost")
# A machine may have a neighbour, or a service of its cloud, that gives credentials to each process that connects.
_LINK_LOCAL: Final[tuple[IpNetwork, ...]] = (
    ip_network("169.254.0.0/16"),  # link-local; AWS, Azure, Google, Oracle and others
    ip_network("fe80::/10"),  # link-local
    ip_network("fd00:ec2::/32"),  # AWS
    ip_network("fd20:ce::254/128"),  # Google
    ip_network("fd00:42::42/128"),  # Scaleway
    ip_network("100.100.100.200/32"),  # Alibaba
    ip_network("168.63.129.16/32"),  # Azure
    ip_network("192.0.0.192/32"),  # Oracle
)
# Linux takes the unspecified address for the loopback one.
_LOOPBACK: Final[tuple[IpNetwork, ...]] = tuple(map(ip_network, ("127.0.0.0/8", "::1/128", "0.0.0.0/8", "::/128")))
_NAT64: Final = ip_network("64:ff9b::/96")


class Network(Text):
    """An IPv4 or IPv6 network."""

    def __init__(self) -> None:
        super().__init__("a network or an address, as in 10.1.0.0/16", r"[0-9A-Fa-f:./]+")

    def convert(self, value: Content) -> str:
        """The network as Python writes it."""
        try:
            return str(ip_network(super().convert(value)))
        except ValueError:
            raise RefusedError from None


class HostPattern(Text):
    """A host name, in which `*` stands for any characters."""

    def __init__(self) -> None:
        super().__init__(
            "a host name, in which * stands for any characters, as in *.plant.example (addresses are networks)",
            r"[A-Za-z0-9*_-][A-Za-z0-9*._-]*",
        )

    def convert(self, value: Content) -> str:
        """In lower case."""
        text = super().convert(value).lower()
        if _address_of(text) is not None:
            raise RefusedError
        return text


class PortRange(Text):
    """One port, or all from one to another."""

    def __init__(self) -> None:
        super().__init__("a port, or a range as in 8000-8100", r"[0-9]{1,5}(-[0-9]{1,5})?")

    def convert(self, value: Content) -> str:
        """As it is written."""
        text = super().convert(value)
        first, last = _ports(text)
        if not 0 < first <= last <= _PORT_MAX:
            raise RefusedError
        return text


@dataclass(frozen=True, slots=True)
class OutboundConfig:
    """Servers that may be connected to. What is denied is denied, whatever is allowed besides."""

    allowed_hosts: tuple[str, ...] = list_setting(
        ListOf(HostPattern()),
        (),
        "Host names that may be connected to. With this list or `allowed_networks`, a server must be in one of both.",
    )
    denied_hosts: tuple[str, ...] = list_setting(
        ListOf(HostPattern()),
        (),
        "Host names that may not be connected to. A server has other names too: to keep it away, deny its network.",
    )
    allowed_networks: tuple[str, ...] = list_setting(
        ListOf(Network()),
        (),
        "Networks that may be connected to, by the address that a name resolves to; see `allowed_hosts`.",
    )
    denied_networks: tuple[str, ...] = list_setting(
        ListOf(Network()), (), "Networks that may not be connected to, by the address that a name resolves to."
    )
    allowed_ports: tuple[str, ...] = list_setting(
        ListOf(PortRange()), (), "Ports that may be connected to; empty: all."
    )
    denied_ports: tuple[str, ...] = list_setting(ListOf(PortRange()), (), "Ports that may not be connected to.")
    allow_loopback: bool = setting(
        Boolean(), True, "Whether servers of this machine may be connected to, by its loopback addresses."
    )
    allow_link_local: bool = setting(
        Boolean(),
        False,
        "Whether link-local addresses (`169.254.0.0/16`, `fe80::/10`) and those of clouds' metadata services may be "
        "connected to.",
    )


class OutboundPolicy:
    """Decides about servers, as settings say. It keeps no state."""

    def __init__(self, config: OutboundConfig) -> None:
        self._config = config
        self._allowed = tuple(map(ip_network, config.allowed_networks))
        denied = [("denied_networks", network) for network in map(ip_network, config.denied_networks)]
        if not config.allow_link_local:
            denied += [("allow_link_local = false", network) for network in _LINK_LOCAL]
        if not config.allow_loopback:
            denied += [("allow_loopback = false", network) for network in _LOOPBACK]
        # Numbers, by the version of IP: `in` of a network takes most of a microsecond for each.
        self._denied: dict[int, list[tuple[int, int, str]]] = {4: [], 6: []}
        for rule, network in denied:
            first, last = int(network.network_address), int(network.broadcast_address)
            self._denied[network.version].append((first, last, f"denied by outbound.{rule} ({network})"))

    def fault(self, host: str, address: str, port: int) -> str:
        """Which rule denies a connection to an address; empty where none does.

        Args:
            host: The name that was resolved, or the address itself.
            address: An IPv4 or IPv6 address, with or without a scope.
        """
        forms = _forms(ip_address(address))
        return (
            self._denying_network(forms)
            or self._denying_name(host)
            or self._denying_port(port)
            or self._not_allowed(host, forms[0])
        )

    def fault_of_name(self, host: str, port: int | None) -> str:
        """Which rule denies a server, whatever its name resolves to; of an address the same as `fault`.

        Args:
            port: None where it is not known.
        """
        address = _address_of(host) or (IPv4Address("127.0.0.1") if _LOOPBACK_NAME.fullmatch(_plain(host)) else None)
        forms = _forms(address) if address is not None else ()
        fault = self._denying_network(forms) or self._denying_name(host)
        if not fault and port is not None:
            fault = self._denying_port(port)
        if fault or (address is None and self._allowed):  # which networks it is in, its addresses say
            return fault
        return self._not_allowed(host, forms[0] if forms else None)

    def _denying_network(self, forms: tuple[IpAddress, ...]) -> str:
        for form in forms:
            number = int(form)
            for first, last, fault in self._denied[form.version]:
                if first <= number <= last:
                    return fault
        return ""

    def _denying_name(self, host: str) -> str:
        pattern = _matching(host, self._config.denied_hosts)
        return f"denied by outbound.denied_hosts ({pattern})" if pattern else ""

    def _denying_port(self, port: int) -> str:
        if denied := _range_with(port, self._config.denied_ports):
            return f"denied at port {port} by outbound.denied_ports ({denied})"
        allowed = self._config.allowed_ports
        if allowed and not _range_with(port, allowed):
            return f"denied at port {port}, which is not in outbound.allowed_ports ({', '.join(allowed)})"
        return ""

    def _not_allowed(self, host: str, address: IpAddress | None) -> str:
        config = self._config
        if not (config.allowed_hosts or self._allowed) or _matching(host, config.allowed_hosts):
            return ""
        if address is not None and any(address in network for network in self._allowed):
            return ""
        lists = {"allowed_hosts": config.allowed_hosts, "allowed_networks": config.allowed_networks}
        return "not in " + " or ".join(f"outbound.{name} ({', '.join(one)})" for name, one in lists.items() if one)


def is_uri(text: str) -> bool:
    """Whether a text begins with a scheme."""
    return _URI.fullmatch(text) is not None


def server_of(text: str) -> tuple[str, int | None]:
    """Host and port of a URL or of `host:port`, other text being a host; the port is None where nothing says it."""
    try:
        parts = urlsplit(text if is_uri(text) else f"//{text}")
        return parts.hostname or ("" if is_uri(text) else text), parts.port or _PORTS.get(parts.scheme)
    except ValueError:
        return text, None


def servers_in(options: Mapping[str, str], *, buckets: bool) -> Iterator[tuple[str, int | None]]:
    """The servers that options of a store or a catalog name, as `server_of` has them.

    Args:
        buckets: Whether a bucket (`s3://bucket`) counts as a host.
    """
    for name, value in options.items():
        if _JDBC.match(value):
            found = _JDBC_SERVER.search(value)
            if found is not None:
                yield server_of(found[1])
        elif (is_uri(value) or _NAMES_SERVER.fullmatch(name)) and (buckets or not _BUCKET.match(value)):
            yield server_of(value)


def servers_of_store(uri: str) -> list[tuple[str, int | None]]:
    """The servers that the URI of a store names: an endpoint in its query, of Azure the account, of HDFS the host.

    A bucket does not name one: the library knows where its cloud is.
    """
    parts = urlsplit(uri)
    said = [value for name, value in parse_qsl(parts.query) if name.endswith(("endpoint_override", "authority"))]
    if "@" in parts.netloc or parts.scheme == "hdfs":
        said.append(parts.netloc.rpartition("@")[2])
    return [server_of(text) for text in said if text]


def _plain(host: str) -> str:
    return host.lower().removesuffix(".")


def _matching(host: str, patterns: tuple[str, ...]) -> str:
    name = _plain(host)
    return next((pattern for pattern in patterns if fnmatchcase(name, pattern)), "")


def _ports(text: str) -> tuple[int, int]:
    first, _, last = text.partition("-")
    return int(first), int(last or first)


def _range_with(port: int, ranges: tuple[str, ...]) -> str:
    for text in ranges:
        first, last = _ports(text)
        if first <= port <= last:
            return text
    return ""


def _address_of(host: str) -> IpAddress | None:
    """The address that a host is, in each form that resolvers take: 127.1 and 2130706433 are 127.0.0.1."""
    try:
        return ip_address(host.removeprefix("[").removesuffix("]"))
    except ValueError:
        pass
    try:
        return IPv4Address(socket.inet_aton(_plain(host)))
    except (OSError, UnicodeError):
        return None


def _forms(address: IpAddress) -> tuple[IpAddress, ...]:
    """An address, and those that packets to it may reach: an IPv6 address may carry an IPv4 one."""
    if isinstance(address, IPv4Address):
        return (address,)
    if address.ipv4_mapped is not None:
        return (address.ipv4_mapped,)
    carried = [address.sixtofour, address.teredo[1] if address.teredo is not None else None]
    if address in _NAT64:
        carried.append(IPv4Address(int(address) & 0xFFFF_FFFF))
    return (address, *(one for one in carried if one is not None))
