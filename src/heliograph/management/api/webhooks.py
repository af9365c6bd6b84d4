"""Where others send webhooks: `POST /in/NAME/TOPIC` is a message of the source `http_in:NAME`."""

import asyncio
import time
from collections.abc import Mapping
from contextlib import ExitStack
from typing import Final
from urllib.parse import unquote

from fastapi import FastAPI, Request, Response

from heliograph.control.proto_v1.sources import (
    SOURCES_ADMIT,
    SOURCES_DELIVER,
    Delivered,
    SourceBatch,
    SourceCaller,
    SourceMessage,
)
from heliograph.management.asking.places import Places
from heliograph.management.people.back_off import KEYS, BackOff
from heliograph.management.web.addresses import place_of
from heliograph.management.web.answering import answering
from heliograph.management.web.errors import ApiError
from heliograph.management.web.paging import json_response
from heliograph.mqtt import properties as props
from heliograph.mqtt.properties import Properties, encode_properties
from heliograph.rpc.methods import RpcError

PATH: Final = "/in"
_BEARER: Final = "bearer "
_TOKEN: Final = "token"
_SECRET_HEADERS: Final = frozenset({"authorization", "cookie", "proxy-authorization"})
_HEADER_CHARS_MAX: Final = 4096
_TOO_LARGE: Final = "packet_too_large"
_WAIT_S: Final = 30.0
_UNPROVEN_MAX: Final = 20  # bodies whose signature has yet to come: callers that know no token send them too
_UNPROVEN_S: Final = 10.0  # for such a body, or some slow callers hold all places
_AGAIN: Final = {"retry-after": "2"}


def add_webhooks(app: FastAPI) -> None:
    """Serve them."""
    app.state.webhooks = _Callers()
    for path in (f"{PATH}/{{name}}", f"{PATH}/{{name}}/{{topic:path}}"):
        app.add_api_route(path, receive_webhook, methods=["POST"], include_in_schema=False, response_class=Response)


class _Callers:
    """Who sends webhooks, and how often that failed; owned by the application."""

    def __init__(self) -> None:
        self.back_off = BackOff(KEYS)
        self.unproven = Places(_UNPROVEN_MAX)


async def receive_webhook(request: Request) -> Response:
    """Take a message; the answer comes after its commit."""
    try:
        name, topic = (unquote(request.path_params.get(part, ""), errors="strict") for part in ("name", "topic"))
    except UnicodeDecodeError as error:
        raise ApiError(400, "BAD_REQUEST", "the path is not valid UTF-8") from error
    callers: _Callers = request.app.state.webhooks
    address = _host(request)
    if not callers.back_off.may_try(address, name):
        text = "too many requests from there had another token or signature, and the next ones wait"
        raise ApiError(429, "TOO_MANY_REQUESTS", text, headers={"retry-after": "10"})
    try:
        done = await _delivered(request, f"http_in:{name}", topic, callers.unproven)
    except RpcError as error:
        if error.code != "source_not_admitted":
            raise
        callers.back_off.failed(address, name)
        raise ApiError(401, "BAD_TOKEN", error.message, headers={"www-authenticate": "Bearer"}) from None
    callers.back_off.succeeded(address, name)
    return _answer(done)


async def _delivered(request: Request, source: str, topic: str, unproven: Places) -> Delivered:
    """What became of a request. Raises `RpcError` with `source_not_admitted` if its caller may not send it."""
    node = request.app.state.nodes.own()
    admitted = await node.ask(SOURCES_ADMIT(SourceCaller(source, _token_of(request))), timeout_s=_WAIT_S)
    signature = request.headers.get(admitted.signed_by, "") if admitted.signed_by else ""
    with ExitStack() as taken:
        if signature:
            place = place_of(_host(request))
            if not unproven.may_take(place):
                raise ApiError(503, "SERVICE_UNAVAILABLE", "too many bodies are on their way", headers=_AGAIN)
            taken.enter_context(unproven.taken(place))
        # Nothing is read of a caller who shows no signature: the node refuses it by that.
        body = b""
        if signature or not admitted.signed_by:
            try:
                async with asyncio.timeout(_UNPROVEN_S if signature else None):
                    body = await _body(request, admitted.bytes_max)
            except TimeoutError:
                text = f"the body did not come within {_UNPROVEN_S:g} s"
                raise ApiError(408, "BAD_REQUEST", text, headers={"connection": "close"}) from None
        message = _message(request, topic, body, admitted.qos, signature)
        asked = SOURCES_DELIVER(SourceBatch(source, _peer(request), [message]))
        with answering():
            done: Delivered = await node.ask(asked, timeout_s=_WAIT_S)
            return done


def _token_of(request: Request) -> str:
    shown = request.headers.get("authorization", "")
    if shown[: len(_BEARER)].lower() == _BEARER:
        return shown[len(_BEARER) :].strip()
    return request.query_params.get(_TOKEN, "")


async def _body(request: Request, bytes_max: int) -> bytes:
    """Of a caller who has shown the token."""
    body = b""
    async for part in request.stream():
        body += part
        if len(body) > bytes_max:
            text = f"a body of at most {bytes_max:,} bytes is taken here"
            raise ApiError(413, "EXCEED_LIMIT", text, headers={"connection": "close"})
    return body


def _message(request: Request, topic: str, body: bytes, qos: int, signature: str) -> SourceMessage:
    properties = Properties()
    content_type = request.headers.get("content-type", "")
    if content_type and content_type.isprintable():
        properties.strings[props.CONTENT_TYPE] = content_type[:_HEADER_CHARS_MAX]
    return SourceMessage(
        topic,
        body,
        qos,
        properties=encode_properties(properties),
        received_at_ms=time.time_ns() // 1_000_000,
        headers=_shown(request.headers, _SECRET_HEADERS),
        query=_shown(request.query_params, frozenset({_TOKEN})),
        signature=signature[:_HEADER_CHARS_MAX],
    )


def _shown(values: Mapping[str, str], secret: frozenset[str]) -> dict[str, str]:
    return {name: text[:_HEADER_CHARS_MAX] for name, text in values.items() if name.lower() not in secret}


def _host(request: Request) -> str:
    return "" if request.client is None else request.client.host


def _peer(request: Request) -> str:
    return "" if request.client is None else f"{request.client.host}:{request.client.port}"


def _answer(done: Delivered) -> Response:
    if done.hold:
        raise ApiError(503, "SERVICE_UNAVAILABLE", f"it is not taken now: {done.hold}", headers=_AGAIN)
    for one in done.refused:
        status, code = (413, "EXCEED_LIMIT") if one.reason == _TOO_LARGE else (400, "BAD_REQUEST")
        raise ApiError(status, code, one.text)
    return json_response({"result": "ok"})
