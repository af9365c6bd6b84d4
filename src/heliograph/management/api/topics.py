"""Topic filters that are routed, and exclusive topics."""

from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Annotated, Final

from fastapi import Query, Response
from typing_extensions import TypedDict

from heliograph.control.proto_v1.subscriptions import (
    EXCLUSIVE_DELETE,
    EXCLUSIVE_LIST,
    TOPICS_LIST,
    TOPICS_SHOW,
    ExclusiveRow,
    TopicName,
    TopicRow,
    TopicsWanted,
)
from heliograph.management.asking.nodes import Node
from heliograph.management.web.answering import answering
from heliograph.management.web.area import Area
from heliograph.management.web.asked_nodes import NodesDep
from heliograph.management.web.errors import ApiError
from heliograph.management.web.paging import PageDep, PageOf, page_response, take_page, take_whole_page
from heliograph.management.web.rows import ApiRow
from heliograph.rpc.methods import RpcError

area = Area("Topics", "What messages are routed to.", scope="clients")


class RouteObject(TypedDict):
    """A filter, and a node that has subscriptions to it."""

    topic: str
    node: str


_HELD: Final = ApiRow("HeldTopic", ExclusiveRow, node=str)


@area.get("/topics", answers=PageOf[RouteObject])
async def list_topics(
    nodes: NodesDep,
    page: PageDep,
    topic: Annotated[str, Query(description="Exactly this filter")] = "",
    node: Annotated[str | None, Query(description="Those of this node")] = None,
) -> Response:
    """A page of the filters that have subscriptions; those of a shared group stand as `$share/group/filter`."""
    (asked,) = nodes.chosen(node)
    if topic:
        found = await _routes(asked, topic)
        return page_response(
            found[page.skip : page.skip + page.limit], page, len(found), len(found) > page.skip + page.limit
        )
    rows, has_next = await take_page(_all(asked), page)
    return page_response(rows, page, None, has_next)


@area.get("/topics/{topic}", errors={404: ("TOPIC_NOT_FOUND",)})
async def get_topic(topic: str, nodes: NodesDep) -> list[RouteObject]:
    """The routes of one filter."""
    found = await _routes(nodes.own, topic)
    if not found:
        raise ApiError(404, "TOPIC_NOT_FOUND", f"Topic not found: {topic[:200]}")
    return found


@area.get("/heliograph/exclusive_topics", answers=_HELD.page)
async def list_exclusive_topics(nodes: NodesDep, page: PageDep) -> Response:
    """A page of the exclusive topics that clients hold."""
    wanted = TopicsWanted(page.limit + 1, page.skip)
    rows, has_next = await take_whole_page(nodes.own.slices(EXCLUSIVE_LIST(wanted)), page.limit)
    return page_response([_HELD(row, node=nodes.own.name) for row in rows], page, None, has_next)


@area.delete("/heliograph/exclusive_topics/{topic}", errors={404: ("TOPIC_NOT_FOUND",)})
async def delete_exclusive_topic(topic: str, nodes: NodesDep) -> None:
    """Drop the subscription that holds an exclusive topic."""
    with answering(not_found=(404, "TOPIC_NOT_FOUND")):
        await nodes.own.ask(EXCLUSIVE_DELETE(TopicName(topic)))


async def _all(node: Node) -> AsyncIterator[list[RouteObject]]:
    async with aclosing(node.slices(TOPICS_LIST(TopicsWanted()))) as slices:
        async for rows in slices:
            yield [route for row in rows for route in _of_row(row, node)]


async def _routes(node: Node, topic: str) -> list[RouteObject]:
    try:
        rows = await node.rows(TOPICS_SHOW(TopicName(topic)))
    except RpcError as error:
        if error.code in ("not_found", "bad_arguments"):
            return []
        raise
    return [route for row in rows for route in _of_row(row, node) if topic in (route["topic"], row.topic)]


def _of_row(row: TopicRow, node: Node) -> list[RouteObject]:
    groups = row.groups or {}
    found = [] if len(groups) == row.subscriptions_cnt else [row.topic]
    return [
        {"topic": topic, "node": node.name} for topic in (*found, *(f"$share/{group}/{row.topic}" for group in groups))
    ]
