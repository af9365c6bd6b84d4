"""Which servers connectors, actions and schemas may name: `node.allowed_targets`.

Hosts count as they are written: what a name resolves to, and which further servers a cluster names, is not looked at.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network
from typing import Any, Final
from urllib.parse import urlsplit

from heliograph.config.actions.roots import ActionSettings, ConnectorSettings, all_actions, all_connectors
from heliograph.config.schemas import SchemaRegistryConfig
from heliograph.hocon.values import Content
from heliograph.settings.kinds import RefusedError, Text

Fault = tuple[tuple[str, ...], str]
_NAME: Final = re.compile(r"(\*\.)?[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*")
_URI: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://.*", re.DOTALL)
_NAMES_SERVER: Final = re.compile(r"(?i).*(endpoint|host|proxy|server|ur[il]).*")


class AllowedTarget(Text):
    """A host, a domain with all below it, or a network."""

    def __init__(self) -> None:
        super().__init__('a host, "*." and a domain, or a network as in 10.1.0.0/16', r"[A-Za-z0-9*._:/-]+")

    def convert(self, value: Content) -> str:
        """In lower case."""
        text = super().convert(value).lower()
        if _network(text) is None and _NAME.fullmatch(text) is None:
            raise RefusedError
        return text


def target_faults(
    allowed: Sequence[str], connectors: ConnectorSettings, actions: ActionSettings, schemas: SchemaRegistryConfig
) -> Iterator[Fault]:
    """Each group that names a server that is not allowed, and which; none where all are."""
    groups: list[tuple[tuple[str, ...], Any]] = [
        *((("connectors", kind, name), one) for kind, name, one in all_connectors(connectors)),
        *((("actions", kind, name), one) for kind, name, one in all_actions(actions)),
        *((("schema_registry", "schemas", name), one.parameters) for name, one in schemas.schemas.items()),
        *((("schema_registry", "external", name), one) for name, one in schemas.external.items()),
    ]
    for path, group in groups if allowed else ():
        if fault := target_fault(allowed, group):
            yield path, fault


def target_fault(allowed: Sequence[str], group: Any) -> str:
    """Which server a connector, an action or a schema's service may not name; empty for none."""
    for host in _hosts(group) if allowed else ():
        if host and not any(_is_in(host, one) for one in allowed):
            return f"goes to {host[:200]!r}; node.allowed_targets has {', '.join(allowed)}"
    return ""


def _hosts(group: Any) -> Iterator[str]:
    if hasattr(group, "addresses"):
        yield from (host for host, _ in group.addresses())
    elif hasattr(group, "url"):
        yield _host_in(group.url)
    for options in ("storage_options", "catalog"):
        found: Mapping[str, str] = getattr(group, options, {})
        yield from (_host_in(value) for name, value in found.items() if _NAMES_SERVER.fullmatch(name) or _is_uri(value))
    parameters = getattr(group, "parameters", None)
    places = [getattr(group, "place", "")]
    if hasattr(parameters, "columns"):  # of a table
        places += [getattr(parameters, "path", ""), getattr(parameters, "key", "")]
    yield from (_host_in(place) for place in places if _is_uri(place))


def _is_uri(text: str) -> bool:
    return _URI.fullmatch(text) is not None


def _host_in(text: str) -> str:
    """The host of a URL or of `host:port`; of `s3://bucket/path`, the bucket. Other text is a host as it is."""
    try:
        return urlsplit(text if _is_uri(text) else f"//{text}").hostname or text
    except ValueError:
        return text


def _is_in(host: str, allowed: str) -> bool:
    host = host.lower().removesuffix(".")
    if allowed.startswith("*."):
        return host.endswith(allowed[1:])
    network = _network(allowed)
    if network is None:
        return host == allowed
    try:
        return ip_address(host) in network
    except ValueError:
        return False


def _network(text: str) -> IPv4Network | IPv6Network | None:
    try:
        return ip_network(text)
    except ValueError:
        return None
