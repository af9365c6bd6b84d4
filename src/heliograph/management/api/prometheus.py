"""Metrics for Prometheus, and where they are pushed."""

import asyncio
import json
from contextlib import suppress
from typing import Annotated, Any, Literal

import msgspec
from fastapi import Depends, Query, Request, Response
from typing_extensions import TypedDict

from heliograph.config.prometheus import PrometheusConfig
from heliograph.control.proto_v1.conf import CONF_CHANGE, ConfChangeArgs
from heliograph.management.prometheus.families import CONTENT_TYPE, text_of
from heliograph.management.prometheus.json_form import lists_json, stats_json
from heliograph.management.prometheus.scraping import STATS, UNAGGREGATED, Scrapes
from heliograph.management.web.area import OPEN, Area
from heliograph.management.web.asked_nodes import NodesDep
from heliograph.management.web.callers import Callers
from heliograph.management.web.errors import ApiError
from heliograph.management.web.known_hosts import check_open
from heliograph.management.web.paging import json_response
from heliograph.rpc.methods import HIDDEN

area = Area("Prometheus", "Metrics for Prometheus, and a push gateway.", scope="config")

_SCOPE = "metrics:read"
_TOLD_S = 5.0
_UPDATE_ERRORS = {400: ("BAD_REQUEST",)}

ModeDep = Annotated[
    Literal["node", "all_nodes_aggregated", "all_nodes_unaggregated"],
    Query(description="Of this node, of all as sums, or of all with the label `node`"),
]


async def _check(request: Request) -> bool:
    """Everybody may, unless the settings ask for a key; whether the caller has credentials."""
    if not request.app.state.settings.prometheus.enable_basic_auth:
        return await check_open(request)
    callers: Callers = request.app.state.callers
    caller = await callers.identify(request)
    if not caller.may(_SCOPE):
        raise ApiError(403, "UNAUTHORIZED_ROLE", f"a scrape needs the scope {_SCOPE}")
    return True


_SCRAPE: dict[str, Any] = {
    "scope": OPEN,
    "response_class": Response,
    "responses": {200: {"content": {"text/plain": {}, "application/json": {"schema": {"type": "object"}}}}},
}


class Scrape:
    """One scrape, as a caller wants it, who may."""

    def __init__(self, request: Request, nodes: NodesDep, mode: ModeDep = "node") -> None:
        self._request = request
        self._nodes = nodes
        self._mode = mode

    async def answer(self, kind: str) -> Response:
        """Families of one kind in the text form of Prometheus, or as JSON where `Accept` is `application/json`."""
        is_known = await _check(self._request)
        scrapes: Scrapes = self._request.app.state.scrapes
        families = await scrapes.shared(kind, self._nodes.all(), self._nodes.own, self._mode, is_known=is_known)
        if self._request.headers.get("accept") != "application/json":
            return Response(text_of(families), media_type=CONTENT_TYPE)
        is_by_node = self._mode == UNAGGREGATED
        return json_response(
            stats_json(families, is_by_node) if kind == STATS else lists_json(kind, families, is_by_node)
        )


ScrapeDep = Annotated[Scrape, Depends()]


class PushGatewayShown(TypedDict):
    """The push gateway; its headers are shown as stars."""

    enable: bool
    url: str
    method: str
    interval: str
    headers: dict[str, str]
    job_name: str


class PrometheusSettings(TypedDict):
    """The settings of metrics for Prometheus."""

    enable_basic_auth: bool
    push_gateway: PushGatewayShown
    collectors: dict[str, str]


@area.get("/prometheus/stats", **_SCRAPE)
async def scrape_stats(scrape: ScrapeDep) -> Response:
    """All metrics and statistics, under EMQX's names where it has them."""
    return await scrape.answer(STATS)


@area.get("/prometheus/auth", **_SCRAPE)
async def scrape_auth(scrape: ScrapeDep) -> Response:
    """Authenticators, sources of authorization, and bans."""
    return await scrape.answer("auth")


@area.get("/prometheus/data_integration", **_SCRAPE)
async def scrape_data_integration(scrape: ScrapeDep) -> Response:
    """Rules, connectors and actions."""
    return await scrape.answer("data_integration")


@area.get("/prometheus/schema_validation", **_SCRAPE)
async def scrape_schema_validation(scrape: ScrapeDep) -> Response:
    """Schema validations."""
    return await scrape.answer("schema_validation")


@area.get("/prometheus/message_transformation", **_SCRAPE)
async def scrape_message_transformation(scrape: ScrapeDep) -> Response:
    """Message transformations."""
    return await scrape.answer("message_transformation")


@area.get("/prometheus")
async def get_prometheus(request: Request) -> PrometheusSettings:
    """The settings."""
    return _shown(request.app.state.settings.prometheus)


@area.put("/prometheus", errors=_UPDATE_ERRORS)
async def update_prometheus(body: dict[str, Any], request: Request, nodes: NodesDep) -> PrometheusSettings:
    """Replace the settings; what is left out gets its default. EMQX's older flat form works too."""
    present: PrometheusConfig = request.app.state.settings.prometheus
    if isinstance(gateway := body.get("push_gateway"), dict):
        gateway["headers"] = _headers(gateway.get("headers"), present.push_gateway.headers)
    if "headers" in body:
        body["headers"] = _headers(body["headers"], present.headers)
    text = json.dumps({"prometheus": body})
    args = ConfChangeArgs(text=text, mode="replace", name="<request>")
    outcome = await nodes.own.ask(CONF_CHANGE(args))
    if outcome.settings:
        await _told_others(request, present)
    return _shown(request.app.state.settings.prometheus)


async def _told_others(request: Request, present: PrometheusConfig) -> None:
    """Wait until the node has sent this process other settings than these."""
    state = request.app.state
    with suppress(TimeoutError):
        async with asyncio.timeout(_TOLD_S):
            while state.settings.prometheus == present:  # earlier changes may arrive first
                changed: asyncio.Event = state.changed
                await changed.wait()


def _headers(given: object, present: object) -> object:
    """Headers with the values that the caller did not see in place of stars; EMQX's list of pairs is taken too."""
    if isinstance(given, list):
        given = {str(pair[0]): str(pair[1]) for pair in given if isinstance(pair, list) and len(pair) == 2}
    if not isinstance(given, dict):
        return {} if given is None else given
    known = present if isinstance(present, dict) else {}
    return {name: known.get(name, value) if value == HIDDEN else value for name, value in given.items()}


def _shown(settings: PrometheusConfig) -> PrometheusSettings:
    """The settings in EMQX's form."""
    push = settings.push
    return {
        "enable_basic_auth": settings.enable_basic_auth,
        "push_gateway": {
            "enable": push.enable,
            "url": push.url,
            "method": push.method,
            "interval": f"{push.interval:g}s",
            "headers": dict.fromkeys(push.headers, HIDDEN),
            "job_name": push.job_name,
        },
        "collectors": msgspec.to_builtins(settings.collectors),
    }
