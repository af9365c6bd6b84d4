"""The subjects of what works or does not: connectors, actions, authenticators, sources of authorization, policies."""

from collections.abc import Callable
from typing import Any, Final, TypeVar

import orjson

from heliograph.control.proto_v1.actions import ACTIONS, CONNECTORS, ActionRow, ConnectorRow
from heliograph.control.proto_v1.authn import AUTHN_LIST, AuthnRow
from heliograph.control.proto_v1.authorization import AUTHZ_SOURCES, SourceStatus
from heliograph.control.proto_v1.groups import TRANSFORMATIONS, VALIDATIONS, GroupShown, OrderedAsks
from heliograph.management.asking.nodes import Nodes
from heliograph.management.asking.states import GLOBAL, action_metrics, authenticator_state, source_state
from heliograph.management.live.rates import GrowingCounts
from heliograph.management.live.subject import LiveSubject, Look
from heliograph.rpc.asks import ListAsk
from heliograph.rpc.methods import NoArgs

T = TypeVar("T")
Facts = dict[str, Any]

_SHOWN_MAX: Final = 500  # of an event
_PERIOD_S: Final = 2.0


def _subject(name: str, area: str, rows: ListAsk[NoArgs, T], shown: Callable[[T], tuple[str, Facts]]) -> LiveSubject:
    """A subject of rows.

    Args:
        name: Of the subject, and of its rows in an event.
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


def _action(row: ActionRow) -> tuple[str, Facts]:
    shown = {"enable": row.is_enabled, "status": row.status, "status_reason": row.reason}
    return f"{row.type}:{row.name}", {**shown, "metrics": action_metrics(row)}


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


SUBJECTS: Final = (
    _subject("connectors", "connectors", CONNECTORS.list, _connector),
    _subject("actions", "actions", ACTIONS.list, _action),
    _subject("authentication", "authentication", AUTHN_LIST, _authenticator),
    _subject("authorization", "authorization", AUTHZ_SOURCES, _source),
    _policies("schema_validations", VALIDATIONS),
    _policies("message_transformations", TRANSFORMATIONS),
)
