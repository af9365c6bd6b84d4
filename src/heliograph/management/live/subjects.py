"""The subjects of the areas of the API, and of what works or does not; all subjects."""

from collections.abc import Callable
from typing import Annotated, Any, Final, TypeVar

import orjson
from pydantic import Field

from heliograph.control.proto_v1.actions import ACTIONS, CONNECTORS, SOURCES, ActionRow, ConnectorRow, SourceRow
from heliograph.control.proto_v1.alarms import ALARMS_LIST, AlarmRow, AlarmsWanted
from heliograph.control.proto_v1.authn import AUTHN_LIST, AuthnRow
from heliograph.control.proto_v1.authorization import AUTHZ_SOURCES, SourceStatus
from heliograph.control.proto_v1.conf import CONF_STATE, ConfState
from heliograph.control.proto_v1.groups import TRANSFORMATIONS, VALIDATIONS, GroupShown, OrderedAsks
from heliograph.control.proto_v1.log import LOG_ENTRIES, LogEntriesWanted, LogEntryRow
from heliograph.control.proto_v1.pipeline import PIPELINE_STATUS, DriverFigures, PipelineStatus
from heliograph.control.proto_v1.rules import RULES_LIST, RuleRow
from heliograph.management.asking.nodes import Nodes
from heliograph.management.asking.states import GLOBAL, authenticator_state, metrics_in, source_state
from heliograph.management.live import broker
from heliograph.management.live.rates import GrowingCounts
from heliograph.management.live.subject import LiveSubject, Look
from heliograph.management.web.rows import ApiRow
from heliograph.rpc.asks import ListAsk
from heliograph.rpc.methods import NoArgs

T = TypeVar("T")
Facts = dict[str, Any]

_PERIOD_S: Final = 2.0


def _subject(name: str, area: str, rows: ListAsk[NoArgs, T], shown: Callable[[T], tuple[str, Facts]]) -> LiveSubject:
    """A subject of rows.

    Args:
        area: Of the scope.
        rows: What the node is asked.
        shown: The id of a row, empty where it is left out, and what an event has of it.
    """

    def begin(nodes: Nodes) -> Look:
        async def take() -> Facts:
            found = dict(map(shown, await nodes.own().rows(rows())))
            found.pop("", None)
            return {"count": len(found), name: dict(list(found.items())[:_SHOWN_MAX])}

        return take

    return LiveSubject(name, f"{area}:read", _PERIOD_S, begin)


def _connector(row: ConnectorRow) -> tuple[str, Facts]:
    shown = {"enable": row.is_enabled, "status": row.status, "status_reason": row.reason}
    return f"{row.type}:{row.name}", shown


def _action(row: ActionRow | SourceRow) -> tuple[str, Facts]:
    shown = {"enable": row.is_enabled, "status": row.status, "status_reason": row.reason}
    return f"{row.type}:{row.name}", {**shown, "metrics": metrics_in(row)}


def _authenticator(row: AuthnRow) -> tuple[str, Facts]:
    status, metrics = authenticator_state(row)
    shown = {"enable": status != "stopped", "status": status, "metrics": metrics}
    return row.id if row.chain == GLOBAL else "", shown


def _source(row: SourceStatus) -> tuple[str, Facts]:
    status, metrics = source_state(row)
    return row.type, {"enable": row.enable, "status": status, "metrics": metrics}


def _policies(name: str, asks: OrderedAsks) -> LiveSubject:
    """A subject of validations or transformations, in their order."""

    def begin(nodes: Nodes) -> Look:
        counts = GrowingCounts()

        async def take() -> Facts:
            rows = await nodes.own().rows(asks.list())
            counted = counts.with_rates({row.name: row.counts for row in rows})
            shown = {row.name: {"enable": _is_enabled(row), **counted[row.name]} for row in rows[:_SHOWN_MAX]}
            return {"count": len(rows), name: shown}

        return take

    return LiveSubject(name, "policies:read", _PERIOD_S, begin)


def _is_enabled(row: GroupShown) -> bool:
    return bool(orjson.loads(row.text).get("enable", True))


STATES: Final = (
    _subject("connectors", "connectors", CONNECTORS.list, _connector),
    _subject("actions", "actions", ACTIONS.list, _action),
    _subject("sources", "sources", SOURCES.list, _action),
    _subject("authentication", "authentication", AUTHN_LIST, _authenticator),
    _subject("authorization", "authorization", AUTHZ_SOURCES, _source),
    _policies("schema_validations", VALIDATIONS),
    _policies("message_transformations", TRANSFORMATIONS),
)


class LiveQuery(DriverFigures):
    """A query of the pipeline with its figures.

    Attributes:
        lag: Messages that it has yet to read; null where that is not known.
    """

    name: str
    state: str
    lag: int | None
    last_error: str | None


PIPELINE: Final = ApiRow("PipelineEvent", PipelineStatus, without=("file", "queries"), queries=list[LiveQuery])
_SINCE: Final = Annotated[int, Field(description="Milliseconds since the epoch")]
OPEN_ALARM: Final = ApiRow(
    "OpenAlarm", AlarmRow, without=("activate_at", "deactivate_at"), node=str, activate_at=_SINCE
)
CONFIGURATION: Final = ApiRow("ConfigurationEvent", ConfState)
LOG_ENTRY: Final = ApiRow("LogEntryShown", LogEntryRow)
_SHOWN_MAX: Final = 500  # rules and alarms of an event
_ENTRIES_MAX: Final = 100  # of the log in an event
_COUNTED: Final = (
    *("matched", "passed", "failed", "failed.exception", "failed.no_result"),
    *("actions.success", "actions.failed"),
)
#: Counts of a rule, by the names that events have.
RULE_COUNTS: Final = {name.replace(".", "_"): name for name in _COUNTED}


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
    return {name: row.counts.get(count, 0) for name, count in RULE_COUNTS.items()}


def _alarms(nodes: Nodes) -> Look:
    async def take() -> dict[str, Any]:
        found = [
            OPEN_ALARM(row, node=node.name, activate_at=row.activate_at)
            for node in nodes.all()
            for row in await node.rows(ALARMS_LIST(AlarmsWanted()))
        ]
        found.sort(key=lambda one: -int(str(one["activate_at"])))
        return {"count": len(found), "alarms": found[:_SHOWN_MAX]}

    return take


def _pipeline(nodes: Nodes) -> Look:
    async def take() -> dict[str, Any]:
        status = await nodes.own().ask(PIPELINE_STATUS())
        queries = [
            {"name": one.name, "state": one.state, "lag": one.lag, "last_error": one.last_error, **one.figures}
            for one in status.queries
        ]
        return PIPELINE(status, queries=queries)

    return take


def _log(nodes: Nodes) -> Look:
    last = 0

    async def take() -> dict[str, Any]:
        nonlocal last
        rows = await nodes.own().rows(LOG_ENTRIES(LogEntriesWanted(after=last, limit=_ENTRIES_MAX)))
        last = rows[-1].number if rows else last
        return {"last": last, "entries": [LOG_ENTRY(row) for row in rows]}

    return take


def _configuration(nodes: Nodes) -> Look:
    async def take() -> dict[str, Any]:
        return CONFIGURATION(await nodes.own().ask(CONF_STATE()))

    return take


AREAS: Final = (
    LiveSubject("rules", "rules:read", 2.0, _rules),
    LiveSubject("alarms", "alarms:read", 1.0, _alarms),
    LiveSubject("pipeline", "pipeline:read", 2.0, _pipeline),
    LiveSubject("log", "log:read", 1.0, _log),
    LiveSubject("configuration", "config:read", 2.0, _configuration),
)


#: A further subject is declared in a module of its own, and listed here.
SUBJECTS: Final[tuple[LiveSubject, ...]] = (*broker.SUBJECTS, *AREAS, *STATES)
