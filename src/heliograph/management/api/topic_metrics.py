"""Topics whose messages are counted."""

from typing import Annotated, Final, Literal, NotRequired

from pydantic import Field
from typing_extensions import TypedDict

from heliograph.control.proto_v1.topic_metrics import (
    TOPIC_METRICS_ADD,
    TOPIC_METRICS_DELETE,
    TOPIC_METRICS_LIST,
    TOPIC_METRICS_RESET,
    CountedTopicRow,
    TopicToCount,
)
from heliograph.management.web.answering import answering
from heliograph.management.web.area import Area
from heliograph.management.web.asked_nodes import AskedNodes, NodesDep
from heliograph.management.web.errors import ApiError
from heliograph.management.web.models import Body, Str
from heliograph.management.web.times import rfc3339

area = Area("Topic metrics", "Topics whose messages are counted.", scope="metrics")

_MISSING: Final = {404: ("TOPIC_NOT_FOUND",)}
_NONE: Final = (404, "TOPIC_NOT_FOUND", "Topic not found")
_REFUSED: Final = {400: ("BAD_TOPIC",), 409: ("EXCEED_LIMIT",)}


class TopicToAdd(Body):
    """A topic to count."""

    topic: Annotated[Str, Field(min_length=1, description="A topic without wildcards")]


class TopicReset(Body):
    """Which counts begin with 0 again."""

    action: Literal["reset"]
    topic: Annotated[Str | None, Field(description="One topic; otherwise all")] = None


class CountedTopicObject(TypedDict):
    """What is counted of a topic.

    Attributes:
        metrics: Counts, and rates per second.
        reset_time: When the counts began with 0 again.
    """

    topic: str
    metrics: dict[str, float]
    create_time: NotRequired[str]
    reset_time: NotRequired[str]


@area.get("/mqtt/topic_metrics")
async def list_topic_metrics(nodes: NodesDep) -> list[CountedTopicObject]:
    """The counters of all counted topics, summed over nodes."""
    return list((await _all(nodes)).values())


@area.post("/mqtt/topic_metrics", errors=_REFUSED)
async def create_topic_metrics(body: TopicToAdd, nodes: NodesDep) -> CountedTopicObject:
    """Count another topic."""
    topic = body.topic
    if "+" in topic or "#" in topic:
        raise ApiError(400, "BAD_TOPIC", "Wildcard topic is not supported")
    twice = (400, "BAD_TOPIC", "Topic already registered")
    with answering(already_exists=twice, topics_full=(409, "EXCEED_LIMIT")):
        await nodes.own.ask(TOPIC_METRICS_ADD(TopicToCount(topic)))
    return await _one(nodes, topic)


@area.put("/mqtt/topic_metrics", errors=_MISSING)
async def reset_topic_metrics(body: TopicReset, nodes: NodesDep) -> list[CountedTopicObject] | CountedTopicObject:
    """Reset the counters of one topic, or of all."""
    for node in nodes.all():
        with answering(not_found=_NONE):
            await node.ask(TOPIC_METRICS_RESET(TopicToCount(body.topic or "")))
    return await _one(nodes, body.topic) if body.topic else list((await _all(nodes)).values())


@area.get("/mqtt/topic_metrics/{topic}", errors=_MISSING)
async def get_topic_metrics(topic: str, nodes: NodesDep) -> CountedTopicObject:
    """The counters of one topic."""
    return await _one(nodes, topic)


@area.delete("/mqtt/topic_metrics/{topic}", errors=_MISSING)
async def delete_topic_metrics(topic: str, nodes: NodesDep) -> None:
    """Stop counting a topic."""
    with answering(not_found=_NONE):
        await nodes.own.ask(TOPIC_METRICS_DELETE(TopicToCount(topic)))


async def _one(nodes: AskedNodes, topic: str) -> CountedTopicObject:
    found = (await _all(nodes)).get(topic)
    if found is None:
        raise ApiError(*_NONE)
    return found


async def _all(nodes: AskedNodes) -> dict[str, CountedTopicObject]:
    found: dict[str, CountedTopicObject] = {}
    for node in nodes.all():
        for row in await node.rows(TOPIC_METRICS_LIST()):
            shown = found.setdefault(row.topic, {"topic": row.topic, "metrics": {}})
            shown["create_time"] = rfc3339(row.created_at_us)
            if row.reset_at_us:
                shown["reset_time"] = rfc3339(row.reset_at_us)
            _add(shown["metrics"], row)
    return found


def _add(metrics: dict[str, float], row: CountedTopicRow) -> None:
    """Add what a node has counted; under `messages.` too, which is what EMQX answers (its document says `message.`)."""
    for prefix in ("message", "messages"):
        for kind, values in (("count", row.counts), ("rate", row.rates)):
            for name, value in values.items():
                key = f"{prefix}.{name}.{kind}"
                metrics[key] = metrics.get(key, 0) + value
