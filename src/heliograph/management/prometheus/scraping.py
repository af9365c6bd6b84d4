"""Scrapes: the families that a caller wants, of one node or of all."""

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Final

from heliograph.control.proto_v1.actions import ACTIONS, CONNECTORS, ActionRow
from heliograph.control.proto_v1.authn import AUTHN_LIST, AuthnRow
from heliograph.control.proto_v1.authorization import AUTHZ_SOURCES, SourceStatus
from heliograph.control.proto_v1.groups import SCHEMAS, TRANSFORMATIONS, VALIDATIONS, OrderedAsks
from heliograph.control.proto_v1.metrics import DeclaredMetric
from heliograph.control.proto_v1.rules import RULES_LIST
from heliograph.management.asking.nodes import Node
from heliograph.management.asking.numbers import numbers_of
from heliograph.management.prometheus.emqx import LABELLED, add_cluster, stats_families
from heliograph.management.prometheus.families import (
    COUNTER,
    GAUGE,
    HISTOGRAM,
    Labels,
    MetricFamilies,
    MetricFamily,
    aggregated,
    unaggregated,
)
from heliograph.management.prometheus.machine import MachineMeter
from heliograph.management.prometheus.snapshot import Snapshot, Snapshots
from heliograph.observe import metrics as catalogue
from heliograph.observe.metric import SUM
from heliograph.rpc.conversation import UnreachableError

_PREFIX: Final = "heliograph_"
_MICROSECONDS: Final = "microseconds"
_INFINITE: Final = "+Inf"
# Ways of writing units at the end of a name, by the unit that Prometheus wants there.
_ENDS: Final = {"seconds": ("_us", "_s"), "bytes": ()}

# Names that would be those of other metrics.
_NAMED: Final = {"storage.last_commit_us": "storage.last_commit_at_us"}


def is_emqx(name: str) -> bool:
    """Whether a metric of ours is shown under EMQX's name, and means just that."""
    return name in catalogue.COUNTERS or name in catalogue.SIZES or name in LABELLED


def name_of(declared: DeclaredMetric) -> str:
    """The name of a metric in Prometheus: its unit and `_total` stand at its end."""
    name = _NAMED.get(declared.name, declared.name).replace(".", "_")
    unit = "seconds" if declared.unit == _MICROSECONDS else declared.unit
    for end in _ENDS.get(unit, ()):
        name = name.removesuffix(end)
    if unit and not name.endswith(f"_{unit}"):
        name = f"{name}_{unit}"
    return f"{_PREFIX}{name}_total" if declared.kind == COUNTER else _PREFIX + name


def our_families(snapshot: Snapshot) -> MetricFamilies:
    found = MetricFamilies()
    for sample in snapshot.samples:
        declared = snapshot.declared.get(sample.name)
        if declared is None or is_emqx(sample.name):
            continue
        family = found.family(name_of(declared), declared.kind, declared.meaning)
        if declared.kind == HISTOGRAM:
            _put_bucket(family, tuple(zip(declared.labels, sample.labels, strict=True)), sample.value)
        else:
            value = sample.value / 1e6 if declared.unit == _MICROSECONDS else sample.value
            family.put(value, tuple(zip(declared.labels, sample.labels, strict=True)))
    return found


def _put_bucket(family: MetricFamily, labels: Labels, value: float) -> None:
    """A number of a histogram; its last label is the bound, or says that it is the sum."""
    of_all, bound = labels[:-1], labels[-1][1]
    if bound == SUM:
        family.put(value, of_all, "_sum")
        return
    family.put(value, labels, "_bucket")
    if bound == _INFINITE:
        family.put(value, of_all, "_count")


def names_of(declared: Iterable[DeclaredMetric]) -> set[str]:
    """The names of families that a node may give, buckets and sums of histograms included."""
    found: set[str] = set()
    for one in declared:
        if is_emqx(one.name):
            continue
        name = name_of(one)
        found |= {name + end for end in ("_bucket", "_sum", "_count")} if one.kind == HISTOGRAM else {name}
    return found


_RULE_COUNTS: Final = (
    "matched",
    "failed",
    "passed",
    "failed.exception",
    "failed.no_result",
    "actions.total",
    "actions.success",
    "actions.pending",
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


_ENABLED = "enabled"
_DISABLED = "disabled"
_WORKS = ("works", "no rules")


async def access_families(node: Node) -> MetricFamilies:
    found = MetricFamilies()
    for authenticator in await node.rows(AUTHN_LIST()):
        if authenticator.chain == "global":
            _put_authenticator(found, authenticator)
    for source in await node.rows(AUTHZ_SOURCES()):
        _put_source(found, source)
    banned = await numbers_of(node, ["banned.count"])
    found.put("emqx_banned_count", GAUGE, banned.get("banned.count", 0), "Bans that hold.")
    return found


def _put_authenticator(found: MetricFamilies, row: AuthnRow) -> None:
    is_enabled = row.state != _DISABLED
    found.put("emqx_authn_enable", GAUGE, is_enabled, "Whether an authenticator is asked.", id=row.id)
    found.put("emqx_authn_status", GAUGE, row.state == _ENABLED, "Whether it works.", id=row.id)
    for name in ("nomatch", "total", "success", "failed"):
        found.put(f"emqx_authn_{name}", COUNTER, row.counts.get(name, 0), _MEANT[name], id=row.id)


def _put_source(found: MetricFamilies, row: SourceStatus) -> None:
    found.put("emqx_authz_enable", GAUGE, row.enable, "Whether a source of authorization is asked.", type=row.type)
    found.put("emqx_authz_status", GAUGE, row.state in _WORKS, "Whether it works.", type=row.type)
    for name, count in (("nomatch", row.nomatch), ("total", row.total), ("allow", row.allow), ("deny", row.deny)):
        found.put(f"emqx_authz_{name}", COUNTER, count, _MEANT[name], type=row.type)


_MEANT = {
    "nomatch": "Times that it left the decision to others.",
    "total": "Times that it was asked.",
    "success": "Times that it let a client in.",
    "failed": "Times that it refused one.",
    "allow": "Times that it allowed.",
    "deny": "Times that it denied.",
}


NODE: Final = "node"
AGGREGATED: Final = "all_nodes_aggregated"
UNAGGREGATED: Final = "all_nodes_unaggregated"
MODES: Final = (NODE, AGGREGATED, UNAGGREGATED)

STATS: Final = "stats"
_FOR_STRANGERS_S: Final = 1.0  # for so long an answer counts for callers without credentials


class Scrapes:
    """Answers scrapes; owned by the program, in whose event loop it is used."""

    def __init__(self) -> None:
        self._snapshots = Snapshots()
        self._machine = MachineMeter()
        self._kinds: Mapping[str, Callable[[Node], Awaitable[MetricFamilies]]] = {
            STATS: self._stats,
            "auth": access_families,
            "data_integration": integration_families,
            **{kind: _policies(kind) for kind in POLICIES},
        }
        self._asking: dict[tuple[str, str], asyncio.Task[MetricFamilies]] = {}
        self._made: dict[tuple[str, str], tuple[float, MetricFamilies]] = {}

    async def shared(self, kind: str, nodes: list[Node], own: Node, mode: str, *, is_known: bool) -> MetricFamilies:
        """The same, made once for all that want it meanwhile.

        Args:
            is_known: Whether the caller has credentials; others get what was made within the last second.
        """
        key = kind, mode
        if not is_known:
            made_s, made = self._made.get(key, (0.0, None))
            if made is not None and asyncio.get_running_loop().time() < made_s + _FOR_STRANGERS_S:
                return made
            if (asking := self._asking.get(key)) is None:
                asking = asyncio.create_task(self._keep(key, nodes, own), name=f"scrape of {kind}")
                self._asking[key] = asking
                asking.add_done_callback(lambda task: self._done(key, task))
            return await asyncio.shield(asking)
        return await self.scrape(kind, nodes, own, mode)

    async def stop(self) -> None:
        """Give up what is asked."""
        tasks = list(self._asking.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _keep(self, key: tuple[str, str], nodes: list[Node], own: Node) -> MetricFamilies:
        made = await self.scrape(key[0], nodes, own, key[1])
        self._made[key] = asyncio.get_running_loop().time(), made
        return made

    def _done(self, key: tuple[str, str], task: asyncio.Task[MetricFamilies]) -> None:
        self._asking.pop(key, None)
        if not task.cancelled():
            task.exception()  # it goes to those that wait, which may all be gone

    async def scrape(self, kind: str, nodes: list[Node], own: Node, mode: str) -> MetricFamilies:
        """The families of one kind.

        Args:
            kind: `stats`, `auth`, `data_integration`, `schema_validation` or `message_transformation`.
            own: The one beside this process.
            mode: Of `MODES`.
        """
        wanted = [own] if mode == NODE else nodes
        answers = await asyncio.gather(*(self._kinds[kind](node) for node in wanted), return_exceptions=True)
        found: dict[str, MetricFamilies] = {}
        for node, answer in zip(wanted, answers, strict=True):
            if isinstance(answer, MetricFamilies):
                found[node.name] = answer
            elif not isinstance(answer, UnreachableError) or len(wanted) == 1:
                raise answer
        joined = unaggregated(found) if mode == UNAGGREGATED else aggregated(found)
        if kind == STATS:
            add_cluster(joined, len(found), len(wanted) - len(found))
        return joined

    async def _stats(self, node: Node) -> MetricFamilies:
        snapshot = await self._snapshots.take(node)
        found = stats_families(snapshot, self._machine.look())
        found.add(our_families(snapshot))
        return found


def _policies(kind: str) -> Callable[[Node], Awaitable[MetricFamilies]]:
    async def families(node: Node) -> MetricFamilies:
        return await policy_families(node, kind)

    return families
