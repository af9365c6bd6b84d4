"""Rules: made, changed, tried, counted."""

import json
import uuid
from typing import Annotated, Any, Final, TypeAlias

from fastapi import Query, Response
from pydantic import ConfigDict, Field, model_validator
from typing_extensions import TypedDict

from heliograph.config.actions.roots import SPARK, engine_of
from heliograph.control.proto_v1.groups import RULES, GroupRemoval, GroupSettings
from heliograph.control.proto_v1.rules import (
    RULES_ALL,
    RULES_EVENTS,
    RULES_ONE,
    RULES_RESET,
    RULES_RUN,
    RULES_TRY,
    RuleEvent,
    RuleId,
    RuleShown,
    RuleTrial,
    RuleTried,
)
from heliograph.management.asking.settings_trees import settings_tree
from heliograph.management.asking.states import NodeMetrics
from heliograph.management.web.answering import answering
from heliograph.management.web.area import MISSING, Area
from heliograph.management.web.asked_nodes import AskedNodes, NodesDep
from heliograph.management.web.errors import ApiError
from heliograph.management.web.models import Body, Bool, Str
from heliograph.management.web.paging import PageDep, json_response, page_of, page_response
from heliograph.management.web.rows import ApiRow
from heliograph.mqtt.topic import topic_filter_fault, topic_matches
from heliograph.rules.events import SOURCE_PREFIXES

area = Area("Rules", "Rules in SQL over messages and events.", scope="rules")

_NEEDS_JSON: Final = {415: ("UNSUPPORTED_MEDIA_TYPE",)}
_COUNTS: Final = (
    "matched",
    "passed",
    "failed",
    "failed.exception",
    "failed.no_result",
    "actions.total",
    "actions.success",
    "actions.pending",
    "actions.failed",
    "actions.failed.out_of_service",
    "actions.failed.unknown",
)
_LEVELS_MAX: Final = 65_536
_ONLY_READ: Final = frozenset({"id", "from", "created_at", "last_modified_at"})
_EXAMPLE: Final[dict[str, Any]] = {
    "name": "warm rooms",
    "sql": 'SELECT payload.temp AS temp, clientid FROM "rooms/+/climate" WHERE payload.temp > 30',
    "actions": [{"function": "republish", "args": {"topic": "alerts/${clientid}", "payload": "${temp}"}}],
    "enable": True,
}


class ActionBody(Body):
    """A built-in function."""

    function: Str = Field(description="`console`, `republish` or `pipeline`")
    args: dict[str, Any] | None = None


class RuleBody(Body):
    """A rule."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [_EXAMPLE]})

    sql: Str = Field(min_length=1)
    name: Str = ""
    actions: list[Str | ActionBody] = Field(default=[], description="`type:name` of an action, or a built-in function")
    enable: Bool = True
    description: Str = ""
    metadata: dict[str, Any] = Field(default={})

    @model_validator(mode="before")
    @classmethod
    def without_what_was_read(cls, value: Any) -> Any:
        """What was read may be sent back with the keys that only answers have."""
        if not isinstance(value, dict):
            return value
        return {name: one for name, one in value.items() if name in cls.model_fields or name not in _ONLY_READ}

    def settings(self) -> str:
        """What the configuration says of it."""
        plain = self.model_dump(exclude_none=True, include=set(RuleBody.model_fields))
        return json.dumps(plain, ensure_ascii=False)


class NewRule(RuleBody):
    """A rule that is made."""

    id: Str | None = Field(default=None, min_length=1, description="Made up where it is left out")


_RULE: Final = ApiRow("RuleObject", RuleShown)
_EVENT: Final = ApiRow("RuleEventObject", RuleEvent)


class RuleTestBody(Body):
    """Columns that a rule of the node is tried on."""

    context: dict[str, Any]
    stop_action_after_template_rendering: Bool = Field(default=True, description="Whether its actions are left out")


class SqlTestBody(Body):
    """A rule, and columns that it is tried on."""

    sql: Str = Field(min_length=1)
    context: dict[str, Any]


class RuleMetrics(TypedDict):
    """What is counted of a rule.

    Attributes:
        metrics: Counts since the rule was made or reset, and rates per second.
    """

    id: str
    metrics: dict[str, float]
    node_metrics: list[NodeMetrics]


RuleOutput: TypeAlias = dict[str, Any] | list[dict[str, Any]]
"""The columns of one row, or of the rows that FOREACH makes."""


@area.get("/rules", answers=_RULE.page)
async def list_rules(
    nodes: NodesDep,
    page: PageDep,
    enable: bool | None = None,
    from_: Annotated[str | None, Query(alias="from", description="A topic of its FROM")] = None,
    like_id: str | None = None,
    like_from: str | None = None,
    like_description: str | None = None,
    match_from: Annotated[str | None, Query(description="A filter that matches a topic of its FROM")] = None,
    action: Annotated[list[str] | None, Query(description="The id of one of its actions")] = None,
    source: Annotated[list[str] | None, Query(description="The id of a source that it reads")] = None,
) -> Response:
    """A page of rules."""
    fault = None if match_from is None else topic_filter_fault(match_from, _LEVELS_MAX)
    if fault is not None:
        raise ApiError(400, "BAD_REQUEST", f"match_from is no topic filter: {fault}")
    rows = await nodes.own.rows(RULES_ALL())
    sources = None if source is None else [f"{prefix}{one}" for one in source for prefix in SOURCE_PREFIXES]
    found = [
        row
        for row in rows
        if (enable is None or row.enable is enable)
        and (from_ is None or from_ in row.topics)
        and (like_id is None or like_id in row.id)
        and (like_from is None or any(like_from in topic for topic in row.topics))
        and (like_description is None or like_description in row.description)
        and (match_from is None or any(topic_matches(topic, match_from) for topic in row.topics))
        and (action is None or not {*action}.isdisjoint(_named_actions(row)))
        and (sources is None or not {*sources}.isdisjoint(row.topics))
    ]
    if any(one is not None for one in (like_id, like_from, like_description, match_from)):
        end = page.skip + page.limit
        return page_response([_RULE(row) for row in found[page.skip : end]], page, None, end < len(found))
    return page_of([_RULE(row) for row in found], page)


@area.post("/rules", status=201, answers=_RULE.one, errors=_NEEDS_JSON)
async def create_rule(body: NewRule, nodes: NodesDep, response: Response) -> dict[str, Any]:
    """Make a rule; the header `Warning` says that its rows wait for the pipeline, where that is off."""
    rule_id = body.id or f"rule_{uuid.uuid4().hex[:8]}"
    await _warn(response, body, nodes)
    with answering(already_exists=(400, "BAD_REQUEST")):
        await nodes.own.ask(RULES.put(GroupSettings(rule_id, body.settings(), is_new=True)))
    return await _shown(nodes, rule_id)


@area.get("/rules/{id}", answers=_RULE.one, errors=MISSING)
async def get_rule(id: str, nodes: NodesDep) -> dict[str, Any]:
    """One rule."""
    return await _shown(nodes, id)


@area.put("/rules/{id}", answers=_RULE.one, errors=_NEEDS_JSON)
async def put_rule(id: str, body: RuleBody, nodes: NodesDep, response: Response) -> dict[str, Any]:
    """Replace a rule, or create it if its id is new; `Warning` as for POST."""
    await _warn(response, body, nodes)
    with answering():
        await nodes.own.ask(RULES.put(GroupSettings(id, body.settings())))
    return await _shown(nodes, id)


@area.delete("/rules/{id}", errors=MISSING)
async def delete_rule(id: str, nodes: NodesDep) -> None:
    """Delete a rule."""
    with answering():
        await nodes.own.ask(RULES.delete(GroupRemoval(id)))


@area.post(
    "/rules/{id}/test", answers=RuleOutput, errors={404: ("RULE_NOT_FOUND",), 412: ("NOT_MATCH",), **_NEEDS_JSON}
)
async def test_rule(id: str, body: RuleTestBody, nodes: NodesDep) -> Response:
    """Try a rule of the node on columns, with its actions on request."""
    ask = RULES_TRY if body.stop_action_after_template_rendering else RULES_RUN
    with answering(not_found=(404, "RULE_NOT_FOUND")):
        return _output(await nodes.own.ask(ask(RuleTrial(json.dumps(body.context), id=id))))


@area.get("/rules/{id}/metrics", errors=MISSING)
async def get_rule_metrics(id: str, nodes: NodesDep) -> RuleMetrics:
    """The counters of a rule."""
    with answering():
        row = await nodes.own.ask(RULES_ONE(RuleId(id)))
    metrics = rule_metrics(row)
    return {"id": id, "metrics": metrics, "node_metrics": [{"node": nodes.own.name, "metrics": metrics}]}


@area.put("/rules/{id}/metrics/reset", status=204, errors=MISSING)
async def reset_rule_metrics(id: str, nodes: NodesDep) -> None:
    """Reset the counters of a rule."""
    with answering():
        await nodes.own.ask(RULES_RESET(RuleId(id)))


@area.post("/rule_test", answers=RuleOutput, errors={412: ("NOT_MATCH",), **_NEEDS_JSON})
async def test_sql(body: SqlTestBody, nodes: NodesDep) -> Response:
    """Try a text as a rule on columns; columns that are left out have sample values."""
    with answering():
        return _output(await nodes.own.ask(RULES_TRY(RuleTrial(json.dumps(body.context), sql=body.sql))))


@area.get("/rule_events", answers=_EVENT.rows)
async def list_rule_events(nodes: NodesDep) -> list[dict[str, Any]]:
    """The events that rules can read."""
    return [_EVENT(row) for row in await nodes.own.rows(RULES_EVENTS())]


def rule_metrics(row: RuleShown) -> dict[str, float]:
    """The counts of a rule, by the names of the API."""
    counts = {name: row.counts[name] for name in _COUNTS}
    return {**counts, "actions.discarded": 0, **{f"matched.{name}": rate for name, rate in row.rates.items()}}


async def _warn(response: Response, rule: RuleBody, nodes: AskedNodes) -> None:
    """Say in a header that rows of a rule wait for a pipeline, or a storage reader, that is off."""
    if not rule.enable:
        return
    engine = str((await settings_tree(nodes.own, "actions")).get("engine"))
    engines = {engine_of(engine, one.partition(":")[0]) for one in rule.actions if isinstance(one, str)}
    engines |= {SPARK for one in rule.actions if not isinstance(one, str) and one.function == "pipeline"}
    if not engines:
        return
    from heliograph.config.pipeline_needs import FLIGHT_OFF, PIPELINE_OFF  # most processes never need the declarations

    text = ""
    if SPARK in engines and not (await settings_tree(nodes.own, "pipeline")).get("enable"):
        text = f"the rows of this rule wait for the pipeline, which is off: {PIPELINE_OFF}"
    elif not (await settings_tree(nodes.own, "durable_storage.flight")).get("enable"):
        text = f"the rows of this rule wait for their engine: {FLIGHT_OFF}"
    if text:
        response.headers["Warning"] = f'199 - "{text}"'


async def _shown(nodes: AskedNodes, rule_id: str) -> dict[str, Any]:
    with answering():
        return _RULE(await nodes.own.ask(RULES_ONE(RuleId(rule_id))))


def _named_actions(row: RuleShown) -> list[str]:
    return [one for one in json.loads(row.actions) if isinstance(one, str)]


def _output(tried: RuleTried) -> Response:
    if not tried.is_match:
        raise ApiError(412, "NOT_MATCH", "SQL Not Match")
    return json_response(json.loads(tried.output))
