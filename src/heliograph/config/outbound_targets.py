"""Which servers settings name, and whether the settings `outbound` deny them whatever their names resolve to.

What a name resolves to is seen where it is connected to; this refuses a configuration that could never work.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from heliograph.config.actions.roots import all_actions, all_connectors
from heliograph.config.listeners import enabled
from heliograph.settings.fields import Setting, settings_of
from heliograph.settings.outbound import OutboundPolicy, is_uri, server_of, servers_in, servers_of_store
from heliograph.settings.units import Address

if TYPE_CHECKING:
    from heliograph.config.settings import Config

Path = tuple[str, ...]
Fault = tuple[Path, str]
_Target = tuple[str, int | None]
_TEXTS: Final = frozenset({"url", "endpoint", "issuer", "place", "target"})


def target_faults(config: "Config") -> Iterator[Fault]:
    """The path of each setting that names a denied server, and which rule denies it."""
    policy = OutboundPolicy(config.outbound)
    for path, group in _groups(config):
        yield from ((path + more, fault) for more, fault in group_faults(policy, group))


def group_faults(policy: OutboundPolicy, group: Any) -> Iterator[Fault]:
    """The same of one group, such as a connector; paths begin below it."""
    for path, (host, port) in _targets(group):
        if host and "$" not in host and (fault := policy.fault_of_name(host, port)):
            yield path, f"goes to {host[:200]!r}, which is {fault}"


def _groups(config: "Config") -> Iterator[tuple[Path, Any]]:
    """All groups that name servers; of those that the node uses itself, the enabled ones."""
    yield from ((("connectors", kind, name), one) for kind, name, one in all_connectors(config.connectors))
    yield from ((("actions", kind, name), one) for kind, name, one in all_actions(config.actions))
    yield from ((("schema_registry", "schemas", name), one) for name, one in config.schema_registry.schemas.items())
    yield from ((("schema_registry", "external", name), one) for name, one in config.schema_registry.external.items())
    yield from _enabled_access(config)
    if config.alarm.webhook.enable:
        yield ("alarm", "webhook"), config.alarm.webhook
    if config.dashboard.sso.oidc.enable:
        yield ("dashboard", "sso", "oidc"), config.dashboard.sso.oidc
    telemetry = config.opentelemetry
    if telemetry.traces.enable or telemetry.metrics.enable or telemetry.logs.enable:
        yield ("opentelemetry", "exporter"), telemetry.exporter
    if config.prometheus.push.enable:
        yield ("prometheus",) if config.prometheus.enable else ("prometheus", "push_gateway"), config.prometheus.push
    yield ("backup",), config.backup
    storage = config.durable_storage
    databases = {("durable_storage", "messages"): storage.messages} | {
        ("durable_storage", "databases", name): one for name, one in storage.databases.items()
    }
    yield from (((*path, "offload"), one.offload) for path, one in databases.items() if one.offload.enable)


def _enabled_access(config: "Config") -> Iterator[tuple[Path, Any]]:
    chains: dict[Path, tuple[Any, ...]] = {
        ("authentication",): config.authentication,
        ("authorization", "sources"): config.authorization.sources,
    }
    for kind, name, listener in enabled(config.listeners):
        chains["listeners", kind, name, "authentication"] = listener.authentication
    for path, chain in chains.items():
        yield from (((*path, str(number)), one) for number, one in enumerate(chain, 1) if one.enable)


def _targets(group: Any) -> Iterator[tuple[Path, _Target]]:
    for name, declared in settings_of(type(group)).items():
        value = getattr(group, declared.field)
        if name == "parameters":
            yield from (((name, *path), target) for path, target in _targets(value))
        elif name in ("storage_options", "catalog", "options"):
            yield from (((name,), target) for target in servers_in(value, buckets=True))
        elif declared.is_place or name in _TEXTS:
            yield from (((name,), target) for target in _of_place(group, declared, value))


def _of_place(group: Any, declared: Setting, value: Any) -> Iterator[_Target]:
    if isinstance(value, Address):
        yield value.host, value.port
    elif isinstance(value, tuple):
        yield from map(server_of, value)
    elif isinstance(value, str):
        if declared.name == "host":
            yield value, group.port
        elif is_uri(value):
            yield server_of(value)
            yield from servers_of_store(value)
