"""What can be asked of the schema registry, and done with it: changes are changes of the configuration."""

from heliograph.config_changes.manager import ConfigManager
from heliograph.control.configured import ConfiguredGroups
from heliograph.control.proto_v1 import groups as proto
from heliograph.rpc.methods import Method, NoArgs

_PLACES = (("schemas", "schemas", "schema"), ("schema_registries", "external", "schema registry"))


def methods(manager: ConfigManager) -> list[Method]:
    """`schemas.*`, and `schema_registries.*` for registries of others."""
    return [
        method
        for area, name, what in _PLACES
        for method in _of(area, ConfiguredGroups(manager, ("schema_registry", name), what))
    ]


def _of(area: str, groups: ConfiguredGroups) -> list[Method]:
    return [
        Method(f"{area}.list", NoArgs, lambda args, call: groups.listed()),
        Method(f"{area}.show", proto.NamedGroup, groups.shown),
        Method(f"{area}.put", proto.GroupSettings, groups.put),
        Method(f"{area}.delete", proto.NamedGroup, groups.delete),
    ]
