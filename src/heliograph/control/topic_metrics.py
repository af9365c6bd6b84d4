"""Topic metrics: listed and set to 0; topics come and go as changes of `topic_metrics` in the configuration."""

import json

from heliograph.config.monitoring import COUNTED_TOPICS_MAX
from heliograph.config_changes.manager import ConfigManager
from heliograph.control.configured import COUNTED_TOPICS, ConfiguredList
from heliograph.control.proto_v1 import topic_metrics as proto
from heliograph.control.slices import in_slices
from heliograph.events.topic_metrics import NAMES, CountedTopic, TopicMetrics
from heliograph.rpc.methods import Call, Method, RpcError


def methods(counted: TopicMetrics, manager: ConfigManager | None) -> list[Method]:
    """`topic_metrics.list`, `reset`, and where the configuration can be changed `add` and `delete`."""
    return [
        proto.TOPIC_METRICS_LIST.by(lambda args, call: in_slices(map(_row, counted), lambda row: len(row.topic))),
        proto.TOPIC_METRICS_RESET.by(lambda args, call: _reset(counted, args)),
        *([] if manager is None else _changes(counted, ConfiguredList(manager, COUNTED_TOPICS))),
    ]


def _reset(counted: TopicMetrics, args: proto.TopicToCount) -> proto.TopicCounted:
    if not counted.reset(args.topic):
        raise RpcError("not_found", f"the topic {args.topic!r} is not counted")
    return proto.TopicCounted(len(counted))


def _changes(counted: TopicMetrics, topics: ConfiguredList) -> list[Method]:
    async def add(args: proto.TopicToCount, call: Call) -> proto.TopicCounted:
        names = (await topics.groups()).names
        if args.topic not in names and len(names) >= COUNTED_TOPICS_MAX:
            raise RpcError("topics_full", f"{COUNTED_TOPICS_MAX} topics are counted, and that is the most")
        await topics.change(call, lambda them: them.add(json.dumps({"topic": args.topic})))
        return proto.TopicCounted(len(counted))

    async def delete(args: proto.TopicToCount, call: Call) -> proto.TopicCounted:
        await topics.change(call, lambda them: them.delete(args.topic))
        return proto.TopicCounted(len(counted))

    return [proto.TOPIC_METRICS_ADD.by(add), proto.TOPIC_METRICS_DELETE.by(delete)]


def _row(one: CountedTopic) -> proto.CountedTopicRow:
    counts, rates = dict(zip(NAMES, one.counts, strict=True)), dict(zip(NAMES, one.rates, strict=True))
    return proto.CountedTopicRow(one.topic, one.created_us, one.reset_us, counts, rates)
