"""Subscriptions of clients: lists of them, and making and dropping them on a client's behalf."""

from typing import Annotated, Any, Final

from fastapi import Query, Response
from pydantic import Field

from heliograph.control.proto_v1.clients import ClientId
from heliograph.control.proto_v1.subscriptions import (
    SUBSCRIPTIONS_ADD,
    SUBSCRIPTIONS_COUNT,
    SUBSCRIPTIONS_DEL,
    SUBSCRIPTIONS_LIST,
    SUBSCRIPTIONS_SHOW,
    NewSubscription,
    SubscriptionName,
    SubscriptionRow,
    SubscriptionsWanted,
)
from heliograph.management.api.clients import NOT_FOUND, about_client
from heliograph.management.asking.nodes import Node
from heliograph.management.web.answering import answering
from heliograph.management.web.area import Area
from heliograph.management.web.asked_nodes import NodesDep
from heliograph.management.web.errors import ApiError
from heliograph.management.web.models import Body, Str, Whole
from heliograph.management.web.paging import PageDep, page_response, take_whole_page
from heliograph.management.web.rows import ApiRow
from heliograph.rpc.methods import RpcError

area = Area("Subscriptions", "What clients are subscribed to.", scope="clients")

_SHARE: Final = "$share/"
_INVALID: Final = (400, "INVALID_PARAMETER")
_BAD: Final = NOT_FOUND | {400: ("INVALID_PARAMETER", "BAD_REQUEST")}


class WantedSubscription(Body):
    """A subscription to make."""

    topic: Str
    qos: Annotated[Whole, Field(ge=0, le=2)] = 0
    nl: Annotated[Whole, Field(ge=0, le=1)] = 0
    rap: Annotated[Whole, Field(ge=0, le=1)] = 0
    rh: Annotated[Whole, Field(ge=0, le=2)] = 0


class SubscriptionTopic(Body):
    """The filter of a subscription."""

    topic: Str


_SUBSCRIPTION: Final = ApiRow("ListedSubscription", SubscriptionRow, node=str)


_MADE: Final = ApiRow("MadeSubscription", SubscriptionRow, without=("durable",), node=str)


@area.get("/subscriptions", errors={400: ("INVALID_PARAMETER",)}, answers=_SUBSCRIPTION.page)
async def list_subscriptions(
    nodes: NodesDep,
    page: PageDep,
    clientid: Annotated[str, Query(description="Of this client")] = "",
    qos: Annotated[int | None, Query(ge=0, le=2)] = None,
    topic: Annotated[str, Query(description="To exactly this filter")] = "",
    share_group: Annotated[str, Query(description="Shared, in the group of this name")] = "",
    match_topic: Annotated[str, Query(description="To a filter that this filter covers")] = "",
    durable: Annotated[bool | None, Query(description="Whether they survive the broker")] = None,
    node: Annotated[str | None, Query(description="Those of this node")] = None,
) -> Response:
    """A page of the subscriptions that match."""
    (asked,) = nodes.chosen(node)
    if topic and share_group and not topic.startswith(_SHARE):
        topic = f"{_SHARE}{share_group}/{topic}"
    wanted = SubscriptionsWanted(clientid, topic, "", page.limit + 1, qos, share_group, durable, match_topic, page.skip)
    try:
        slices = asked.slices(SUBSCRIPTIONS_LIST(wanted))
        rows, has_next = await take_whole_page(slices, page.limit)
        count = None
        if not match_topic:
            count = await _counted(asked, wanted) if has_next or (page.skip and not rows) else page.skip + len(rows)
    except RpcError as error:
        if error.code == "bad_arguments":
            message = f"match_topic_invalid: {error.message}" if match_topic else error.message
            raise ApiError(400, "INVALID_PARAMETER", message) from error
        raise
    return page_response([_SUBSCRIPTION(row, node=asked.name) for row in rows], page, count, has_next)


async def _counted(node: Node, wanted: SubscriptionsWanted) -> int:
    (counted,) = await node.rows(SUBSCRIPTIONS_COUNT(wanted))
    return counted.count


@area.get("/heliograph/subscriptions", errors={400: ("INVALID_PARAMETER",)}, answers=_SUBSCRIPTION.page)
async def list_receiving_subscriptions(
    nodes: NodesDep,
    page: PageDep,
    receives: Annotated[str, Query(description="The name of a topic")],
    clientid: Annotated[str, Query(description="Of this client")] = "",
    share_group: Annotated[str, Query(description="Shared, in the group of this name")] = "",
) -> Response:
    """A page of the subscriptions that match a topic; of a shared group, one member gets each message."""
    limit = page.limit + 1
    wanted = SubscriptionsWanted(clientid, matches=receives, limit=limit, share_group=share_group, skip=page.skip)
    if not receives:
        raise ApiError(400, "INVALID_PARAMETER", "receives: the name of a topic is needed, as room/1/temperature")
    try:
        slices = nodes.own.slices(SUBSCRIPTIONS_LIST(wanted))
        rows, has_next = await take_whole_page(slices, page.limit)
    except RpcError as error:
        if error.code == "bad_arguments":
            raise ApiError(400, "INVALID_PARAMETER", f"receives: {error.message}") from error
        raise
    return page_response([_SUBSCRIPTION(row, node=nodes.own.name) for row in rows], page, None, has_next)


@area.get("/clients/{clientid}/subscriptions", errors=NOT_FOUND, answers=_SUBSCRIPTION.rows)
async def list_subscriptions_of_client(clientid: str, nodes: NodesDep) -> list[dict[str, Any]]:
    """All subscriptions of a client."""
    async with about_client(clientid):
        rows = await nodes.own.rows(SUBSCRIPTIONS_SHOW(ClientId(clientid)))
    return [_SUBSCRIPTION(row, node=nodes.own.name) for row in rows]


@area.post("/clients/{clientid}/subscribe", errors=_BAD, answers=_MADE.one)
async def subscribe(clientid: str, body: WantedSubscription, nodes: NodesDep) -> dict[str, Any]:
    """Subscribe a connected client to a filter, as its SUBSCRIBE would, but without authorization."""
    return await _subscribed(nodes.own, clientid, body)


@area.post("/clients/{clientid}/subscribe/bulk", errors=_BAD, answers=_MADE.rows)
async def subscribe_bulk(clientid: str, body: list[WantedSubscription], nodes: NodesDep) -> list[dict[str, Any]]:
    """Subscribe a client to several filters in order; those before a refused one stay."""
    return [await _subscribed(nodes.own, clientid, one) for one in body]


@area.post("/clients/{clientid}/unsubscribe", status=204, errors=NOT_FOUND)
async def unsubscribe(clientid: str, body: SubscriptionTopic, nodes: NodesDep) -> None:
    """Unsubscribe a client from a filter; it is no error if it has no such subscription."""
    await _unsubscribed(nodes.own, clientid, body.topic)


@area.post("/clients/{clientid}/unsubscribe/bulk", status=204, errors=NOT_FOUND)
async def unsubscribe_bulk(clientid: str, body: list[SubscriptionTopic], nodes: NodesDep) -> None:
    """Unsubscribe a client from several filters."""
    for one in body:
        await _unsubscribed(nodes.own, clientid, one.topic)


async def _subscribed(node: Node, clientid: str, body: WantedSubscription) -> dict[str, Any]:
    if body.nl and body.topic.startswith(_SHARE):
        raise ApiError(400, "INVALID_PARAMETER", "Invalid subscribe options: no_local is not for shared subscriptions")
    new = NewSubscription(clientid, body.topic, body.qos, body.nl == 1, body.rap == 1, body.rh)
    with answering(bad_arguments=_INVALID, subscription_refused=_INVALID):
        async with about_client(clientid):
            made = await node.ask(SUBSCRIPTIONS_ADD(new))
    row = SubscriptionRow(clientid, body.topic, made.qos, new.nl, new.rap, body.rh, sub_id=0, durable=False)
    return _MADE(row, node=node.name)


async def _unsubscribed(node: Node, clientid: str, topic: str) -> None:
    try:
        await node.ask(SUBSCRIPTIONS_DEL(SubscriptionName(clientid, topic)))
    except RpcError as error:
        if error.code != "not_found":
            raise
        async with about_client(clientid):  # which of the two is not there?
            await node.rows(SUBSCRIPTIONS_SHOW(ClientId(clientid)))
