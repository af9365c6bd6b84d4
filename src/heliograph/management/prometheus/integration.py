"""The families of `/prometheus/data_integration`, `/schema_validation` and `/message_transformation`."""

import json
from collections.abc import Mapping
from typing import Final

from heliograph.control.proto_v1.actions import ACTIONS, CONNECTORS, ActionRow
from heliograph.control.proto_v1.groups import SCHEMAS, TRANSFORMATIONS, VALIDATIONS, OrderedAsks
from heliograph.control.proto_v1.rules import RULES_LIST
from heliograph.management.asking.nodes import Node
from heliograph.management.prometheus.families import COUNTER, GAUGE, MetricFamilies

_RULE_COUNTS: Final = (
    "matched",
    "failed",
    "passed",
    "failed.exception",
    "failed.no_result",
    "actions.total",
    "actions.success",
    "actions.failed",
    "actions.failed.out_of_service",
    "actions.failed.unknown",
    "actions.discarded",
)
_ACTION_COUNTS: Final = (
    *("matched", "dropped", "success", "failed", "inflight", "received", "late_reply"),
    *("retried", "retried.success", "retried.failed", "dropped.resource_stopped", "dropped.resource_not_found"),
    *("dropped.queue_full", "dropped.other", "dropped.expired", "queuing"),
)
_ACTION_GAUGES: Final = ("inflight", "queuing")
_CONNECTED: Final = "connected"
POLICIES: Final[Mapping[str, OrderedAsks]] = {
    "schema_validation": VALIDATIONS,
    "message_transformation": TRANSFORMATIONS,
}
"""What is asked, by the families that it gives."""


async def integration_families(node: Node) -> MetricFamilies:
    """Rules, and how many of a thing there are, of one node."""
    found = MetricFamilies()
    rules = await node.rows(RULES_LIST())
    schemas = await node.rows(SCHEMAS.list())
    found.put("emqx_rules_count", GAUGE, len(rules), "Rules.")
    connectors = await node.rows(CONNECTORS.list())
    actions = await node.rows(ACTIONS.list())
    found.put("emqx_connectors_count", GAUGE, len(connectors), "Connectors.")
    found.put("emqx_actions_count", GAUGE, len(actions), "Actions.")
    found.put("emqx_schema_registrys_count", GAUGE, len(schemas), "Schemas.")
    for rule in rules:
        found.put("emqx_rule_enable", GAUGE, rule.enable, "Whether a rule is enabled.", id=rule.id)
        for name in _RULE_COUNTS:
            meaning = f"`{name}` of a rule."
            found.put(f"emqx_rule_{name.replace('.', '_')}", COUNTER, rule.counts.get(name, 0), meaning, id=rule.id)
    for connector in connectors:
        label = {"id": f"{connector.type}:{connector.name}"}
        found.put("emqx_connector_enable", GAUGE, connector.is_enabled, "Whether a connector is enabled.", **label)
        found.put("emqx_connector_status", GAUGE, connector.status == _CONNECTED, "Whether it is connected.", **label)
    for action in actions:
        _put_action(found, action)
    return found


def _put_action(found: MetricFamilies, action: ActionRow) -> None:
    label = {"id": f"{action.type}:{action.name}"}
    found.put("emqx_action_enable", GAUGE, action.is_enabled, "Whether an action is enabled.", **label)
    found.put("emqx_action_status", GAUGE, action.status == _CONNECTED, "Whether it is connected.", **label)
    for name in _ACTION_COUNTS:
        kind = GAUGE if name in _ACTION_GAUGES else COUNTER
        count = action.counts.get(name, 0)
        found.put(f"emqx_action_{name.replace('.', '_')}", kind, count, f"`{name}` of an action.", **label)


async def policy_families(node: Node, kind: str) -> MetricFamilies:
    """Schema validations or message transformations, of one node.

    Args:
        kind: Of `POLICIES`.
    """
    found = MetricFamilies()
    for policy in await node.rows(POLICIES[kind].list()):
        label = {"validation_name": policy.name}  # the label of both
        is_enabled = json.loads(policy.text).get("enable", True)
        found.put(f"emqx_{kind}_enable", GAUGE, bool(is_enabled), "Whether it is enabled.", **label)
        for name in ("matched", "failed", "succeeded"):
            found.put(f"emqx_{kind}_{name}", COUNTER, policy.counts.get(name, 0), f"Messages that it {name}.", **label)
    return found
