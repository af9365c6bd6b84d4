"""What can be asked of the schema registry, and done with it: changes are changes of the configuration."""

from heliograph.config_changes.manager import ConfigManager
from heliograph.control.configured import ConfiguredGroups
from heliograph.control.proto_v1 import groups as proto
from heliograph.rpc.methods import Method

_PLACES = ((proto.SCHEMAS, "schemas", "schema"), (proto.SCHEMA_REGISTRIES, "external", "schema registry"))


def methods(manager: ConfigManager) -> list[Method]:
    """`schemas.*`, and `schema_registries.*` for registries of others."""
    return [
        method
        for asks, name, what in _PLACES
        for method in _of(asks, ConfiguredGroups(manager, ("schema_registry", name), what))
    ]


def _of(asks: proto.NamedAsks, groups: ConfiguredGroups) -> list[Method]:
    return [
        asks.list.by(lambda args, call: groups.listed()),
        asks.show.by(groups.shown),
        asks.put.by(groups.put),
        asks.delete.by(groups.delete),
    ]
