"""The subjects `rules`, `alarms`, `pipeline`, `log` and `configuration`."""

from typing import Any, Final

from heliograph.control.proto_v1.alarms import ALARMS_LIST, AlarmsWanted
from heliograph.control.proto_v1.conf import CONF_STATE
from heliograph.control.proto_v1.log import LOG_ENTRIES, LogEntriesWanted
from heliograph.control.proto_v1.pipeline import PIPELINE_STATUS
from heliograph.control.proto_v1.rules import RULES_LIST, RuleRow
from heliograph.management.asking.nodes import Nodes
from heliograph.management.live.log_entries import entry_object
from heliograph.management.live.rates import GrowingCounts
from heliograph.management.live.subject import LiveSubject, Look
from heliograph.management.web.times import rfc3339_or_none

_SHOWN_MAX: Final = 500  # rules and alarms of an event
_ENTRIES_MAX: Final = 100  # of the log in an event
_COUNTS: Final = (
    *("matched", "passed", "failed", "failed.exception", "failed.no_result"),
    *("actions.success", "actions.failed"),
)


def _rules(nodes: Nodes) -> Look:
    counts = GrowingCounts()

    async def take() -> dict[str, Any]:
        rows = await nodes.own().rows(RULES_LIST())
        counted = counts.with_rates({row.id: _counts(row) for row in rows})
        return {"count": len(rows), "rules": {row.id: {**_state(row), **counted[row.id]} for row in rows[:_SHOWN_MAX]}}

    return take


def _state(row: RuleRow) -> dict[str, Any]:
    return {"enable": row.enable, "last_error": row.last_error, "last_error_at": row.last_error_at}


def _counts(row: RuleRow) -> dict[str, int]:
    return {name.replace(".", "_"): row.counts.get(name, 0) for name in _COUNTS}


def _alarms(nodes: Nodes) -> Look:
    async def take() -> dict[str, Any]:
        found = [
            {
                "node": node.name,
                "name": row.name,
                "message": row.message,
                "details": row.details,
                "activate_at": row.activate_at,
            }
            for node in nodes.all()
            for row in await node.rows(ALARMS_LIST(AlarmsWanted()))
        ]
        found.sort(key=lambda one: -int(str(one["activate_at"])))
        return {"count": len(found), "alarms": found[:_SHOWN_MAX]}

    return take


def _pipeline(nodes: Nodes) -> Look:
    async def take() -> dict[str, Any]:
        status = await nodes.own().ask(PIPELINE_STATUS())
        return {
            "enable": status.is_enabled,
            "is_running": status.pid is not None,
            "restarts": status.restarts,
            "failures": status.failures,
            "note": status.told,
            "queries": [
                {"name": one.name, "state": one.state, "lag": one.lag, "last_error": one.last_error, **one.figures}
                for one in status.queries
            ],
        }

    return take


def _log(nodes: Nodes) -> Look:
    last = 0

    async def take() -> dict[str, Any]:
        nonlocal last
        rows = await nodes.own().rows(LOG_ENTRIES(LogEntriesWanted(after=last, limit=_ENTRIES_MAX)))
        last = rows[-1].number if rows else last
        return {"last": last, "entries": [entry_object(row) for row in rows]}

    return take


def _configuration(nodes: Nodes) -> Look:
    async def take() -> dict[str, Any]:
        state = await nodes.own().ask(CONF_STATE())
        return {"revision": state.revision, "confirm_until": rfc3339_or_none(state.confirm_until)}

    return take


SUBJECTS: Final = (
    LiveSubject("rules", "rules:read", 2.0, _rules),
    LiveSubject("alarms", "alarms:read", 1.0, _alarms),
    LiveSubject("pipeline", "pipeline:read", 2.0, _pipeline),
    LiveSubject("log", "log:read", 1.0, _log),
    LiveSubject("configuration", "config:read", 2.0, _configuration),
)
