"""The families of `/prometheus/stats` that EMQX has, under its names."""

from collections.abc import Iterable, Mapping
from typing import Final

from heliograph.management.prometheus.families import COUNTER, GAUGE, MetricFamilies
from heliograph.management.prometheus.machine import MachineUse
from heliograph.management.prometheus.snapshot import Snapshot
from heliograph.observe import metrics as catalogue

# EMQX's names of two metrics say less, or something else, than the metrics.
_RENAMED: Final = {
    "packets.connect.received": "packets.connect",
    "messages.dropped.await_pubrel_timeout": "messages.dropped.expired",
}

#: Metrics with labels that are shown under EMQX's names.
LABELLED: Final = frozenset({"client.disconnected.reason", "config.revision", "listeners.certificate_expires_at"})

# The groups of the JSON form, with what is in them; `stats`, `metrics`, `cluster` and `certs` come beside these.
GROUPS: Final[Mapping[str, tuple[str, ...]]] = {
    "packets": (*catalogue.BYTES, *catalogue.PACKETS),
    "messages": catalogue.MESSAGES,
    "delivery": catalogue.DELIVERY,
    "client": catalogue.CLIENT,
    "session": catalogue.SESSION,
    "olp": catalogue.OVERLOAD,
    "acl": catalogue.AUTHORIZATION,
    "authn": catalogue.AUTHENTICATION,
}


def name_of(metric: str) -> str:
    """EMQX's name in Prometheus of one of its metrics or statistics."""
    return "emqx_" + _RENAMED.get(metric, metric).replace(".", "_")


def stats_families(snapshot: Snapshot, machine: MachineUse) -> MetricFamilies:
    found = MetricFamilies()
    numbers = snapshot.numbers
    statistics = catalogue.statistics_of(numbers)
    for name, count in statistics.items():
        most = max(count, statistics[f"{name.removesuffix('.max')}.count"]) if name.endswith(".max") else count
        found.put(name_of(name), GAUGE, most, _help(snapshot, name))
    for name, count in catalogue.metrics_of(numbers).items():
        found.put(name_of(name), COUNTER, count, _help(snapshot, name))
    for name, value, meaning in _process(numbers, machine):
        found.put(f"emqx_{name}", GAUGE, value, meaning)
    reasons = found.family(
        "emqx_client_disconnected_reason", COUNTER, "Clients that disconnected, by listener and reason."
    )
    for (kind, listener, reason), value in snapshot.labelled("client.disconnected.reason").items():
        reasons.put(value, (("listener_type", kind), ("listener_name", listener), ("reason", reason)))
    certificates = found.family(
        "emqx_cert_expiry_at", GAUGE, "When the certificate of a listener expires, in seconds since the epoch."
    )
    for (kind, listener), value in snapshot.labelled("listeners.certificate_expires_at").items():
        certificates.put(value, (("listener_type", kind), ("listener_name", listener)))
    return found


def add_cluster(families: MetricFamilies, running: int, stopped: int) -> None:
    families.put("emqx_cluster_nodes_running", GAUGE, running, "Nodes that run.")
    families.put("emqx_cluster_nodes_stopped", GAUGE, stopped, "Nodes that do not answer.")


def _process(numbers: Mapping[str, float], machine: MachineUse) -> Iterable[tuple[str, float, str]]:
    waiting = numbers.get("system_messages.waiting", 0) + numbers.get("rules.messages_waiting", 0)
    return (
        ("vm_cpu_use", machine.cpu_percent, "Percent of the machine's processors that is used."),
        ("vm_cpu_idle", round(100 - machine.cpu_percent, 2), "Percent of them that is not."),
        ("vm_total_memory", machine.memory_bytes, "Memory of the machine, in bytes."),
        ("vm_used_memory", machine.used_bytes, "What of it is used."),
        ("vm_run_queue", numbers.get("turns.waiting", 0), "Connections that wait for their turn."),
        ("vm_process_messages_in_queues", waiting, "Messages of the node itself that wait to be published."),
        ("vm_mnesia_tm_mailbox_size", 0, "Always 0: there is no Mnesia."),
        ("vm_broker_pool_max_mailbox_size", 0, "Always 0: there is no pool."),
        ("conf_sync_txid", numbers.get("config.revision", 0), "The revision of the configuration."),
    )


def _help(snapshot: Snapshot, name: str) -> str:
    declared = snapshot.declared.get(catalogue.source_of(name))
    return "" if declared is None else declared.meaning
