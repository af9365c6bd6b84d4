"""The JSON form of a scrape: EMQX's groups, each with its numbers by name."""

from collections.abc import Iterable
from typing import Final

from heliograph.management.prometheus.emqx import GROUPS, name_of
from heliograph.management.prometheus.families import MetricFamilies, MetricFamily
from heliograph.observe.metrics import STATISTICS

_VM: Final = "emqx_vm_"
_CLUSTER: Final = "emqx_cluster_nodes_"
_CERTIFICATES: Final = "emqx_cert_expiry_at"
_LISTS: Final = {
    "auth": (("emqx_authn", "emqx_authn_"), ("emqx_authz", "emqx_authz_")),
    "data_integration": (("rules", "emqx_rule_"), ("connectors", "emqx_connector_"), ("actions", "emqx_action_")),
    "schema_validation": (("schema_validations", "emqx_schema_validation_"),),
    "message_transformation": (("message_transformations", "emqx_message_transformation_"),),
}
_NUMBERS: Final = {"auth": "emqx_banned", "data_integration": "data_integration_overview"}


def stats_json(families: MetricFamilies, is_by_node: bool) -> dict[str, object]:
    """`/prometheus/stats`.

    Args:
        is_by_node: Whether each number is a list with an object for each node.
    """
    statistics = [name_of(f"{name}.{end}") for name in STATISTICS for end in ("count", "max")]
    found: dict[str, object] = {"stats": _numbers(_named(families, statistics), is_by_node)}
    found["metrics"] = _numbers((one for one in families if one.name.startswith(_VM)), is_by_node)
    for group, names in GROUPS.items():
        found[group] = _numbers(_named(families, map(name_of, names)), is_by_node)
    found["cluster"] = _numbers((one for one in families if one.name.startswith(_CLUSTER)), False)
    found["certs"] = _objects(one for one in families if one.name == _CERTIFICATES)
    return found


def lists_json(kind: str, families: MetricFamilies, is_by_node: bool) -> dict[str, object]:
    """The other scrapes: lists of what there is, each with its numbers, and numbers that are of no one."""
    found: dict[str, object] = {}
    listed: set[str] = set()
    for name, prefix in _LISTS[kind]:
        members = [one for one in families if one.name.startswith(prefix)]
        listed |= {one.name for one in members}
        found[name] = _objects(members)
    if kind in _NUMBERS:
        others = [one for one in families if one.name not in listed]
        found[_NUMBERS[kind]] = _numbers(others, is_by_node)
    return found


def _named(families: MetricFamilies, names: Iterable[str]) -> list[MetricFamily]:
    return [families[name] for name in names if name in families]


def _numbers(families: Iterable[MetricFamily], is_by_node: bool) -> dict[str, object]:
    if not is_by_node:
        return {one.name: value for one in families for value in one.series.values()}
    return {
        one.name: [{**dict(labels), "value": value} for (_, labels), value in one.series.items()] for one in families
    }


def _objects(families: Iterable[MetricFamily]) -> list[dict[str, object]]:
    """An object for each set of labels, with the numbers that have them."""
    found: dict[object, dict[str, object]] = {}
    for family in families:
        for (_, labels), value in family.series.items():
            found.setdefault(labels, dict(labels))[family.name] = value
    return list(found.values())
