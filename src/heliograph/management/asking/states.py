"""How authenticators, sources of authorization and actions are and what they have counted, by the names of the API."""

from collections.abc import Mapping
from typing import Final, TypeAlias

from typing_extensions import TypedDict

from heliograph.control.proto_v1.actions import ActionRow, SourceRow
from heliograph.control.proto_v1.authn import AuthnRow
from heliograph.control.proto_v1.authorization import SourceStatus

GLOBAL: Final = "global"
"""The chain of authenticators of all listeners that have none of their own."""

Metrics: TypeAlias = dict[str, float]


class NodeMetrics(TypedDict):
    """What is counted on one node."""

    node: str
    metrics: Metrics


_OF_AUTHENTICATORS: Final = ("total", "success", "failed", "nomatch")
_AUTHENTICATOR_STATES: Final = {"enabled": "connected", "disabled": "stopped"}
_SOURCE_STATES: Final = {"works": "connected", "no rules": "connected", "disabled": "stopped"}
_WORKS_NOT: Final = "disconnected"


def authenticator_state(row: AuthnRow) -> tuple[str, Metrics]:
    """`connected`, `stopped` or `disconnected`, and what it has counted."""
    counts: Metrics = {name: row.counts.get(name, 0) for name in _OF_AUTHENTICATORS}
    return _AUTHENTICATOR_STATES.get(row.state, _WORKS_NOT), counts | _asked(row.rates)


def source_state(row: SourceStatus) -> tuple[str, Metrics]:
    """The same of a source."""
    counts: Metrics = {
        "total": row.total,
        "allow": row.allow,
        "deny": row.deny,
        "nomatch": row.nomatch,
        "ignore": row.ignore,
    }
    return _SOURCE_STATES.get(row.state, _WORKS_NOT), counts | _asked(row.rates)


def metrics_in(row: ActionRow | SourceRow) -> Metrics:
    """What an action or a source has counted."""
    return {**row.counts, **{name.replace(".", "_"): rate for name, rate in row.rates.items()}}


def _asked(rates: Mapping[str, float]) -> Metrics:
    return {
        "rate": rates.get("rate", 0.0),
        "rate_max": rates.get("rate.max", 0.0),
        "rate_last5m": rates.get("rate.last5m", 0.0),
    }
