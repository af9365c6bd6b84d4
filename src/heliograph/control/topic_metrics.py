"""Topic metrics: listed and set to 0; topics come and go as changes of `topic_metrics` in the configuration."""

import json
from collections.abc import Callable, Iterator, Sequence

from heliograph.config.monitoring import COUNTED_TOPICS_MAX
from heliograph.config_changes.edits import Edit
from heliograph.config_changes.manager import ConfigManager
from heliograph.config_changes.terms import Terms
from heliograph.control.conf import answered, author_of
from heliograph.control.proto_v1 import topic_metrics as proto
from heliograph.control.slices import in_slices
from heliograph.events.topic_metrics import NAMES, CountedTopic, TopicMetrics
from heliograph.rpc.methods import Call, Method, NoArgs, RpcError


def methods(counted: TopicMetrics, topics: Callable[[], Sequence[str]], manager: ConfigManager | None) -> list[Method]:
    """`topic_metrics.list`, `reset`, and where the configuration can be changed `add` and `delete`.

    Args:
        topics: Those of the configuration.
    """
    answers = _Answers(counted, topics, manager)
    found = [
        proto.TOPIC_METRICS_LIST.by(answers.list),
        proto.TOPIC_METRICS_RESET.by(answers.reset),
    ]
    if manager is not None:
        found.append(proto.TOPIC_METRICS_ADD.by(answers.add))
        found.append(proto.TOPIC_METRICS_DELETE.by(answers.delete))
    return found


class _Answers:
    def __init__(
        self, counted: TopicMetrics, topics: Callable[[], Sequence[str]], manager: ConfigManager | None
    ) -> None:
        self._counted = counted
        self._topics = topics
        self._manager = manager

    def list(self, args: NoArgs, call: Call) -> Iterator[Sequence[proto.CountedTopicRow]]:
        """All topics."""
        return in_slices(map(_row, self._counted), lambda row: len(row.topic))

    def reset(self, args: proto.TopicToCount, call: Call) -> proto.TopicCounted:
        """Set counts to 0."""
        if not self._counted.reset(args.topic):
            raise _missing(args.topic)
        return proto.TopicCounted(len(self._counted))

    async def add(self, args: proto.TopicToCount, call: Call) -> proto.TopicCounted:
        """Count one more topic."""
        topics = list(self._topics())
        if args.topic in topics:
            raise RpcError("already_exists", f"the topic {args.topic!r} is counted already")
        if len(topics) >= COUNTED_TOPICS_MAX:
            raise RpcError("topics_full", f"{COUNTED_TOPICS_MAX} topics are counted, and that is the most")
        return await self._change([*topics, args.topic], call, f"the topic {args.topic} is counted")

    async def delete(self, args: proto.TopicToCount, call: Call) -> proto.TopicCounted:
        """Stop counting a topic."""
        topics = list(self._topics())
        if args.topic not in topics:
            raise _missing(args.topic)
        left = [topic for topic in topics if topic != args.topic]
        return await self._change(left, call, f"the topic {args.topic} is not counted any more")

    async def _change(self, topics: Sequence[str], call: Call, comment: str) -> proto.TopicCounted:
        assert self._manager is not None
        text = json.dumps({"topic_metrics": [{"topic": topic} for topic in topics]})
        terms = Terms(revision=self._manager.revision, comment=comment)
        await answered(self._manager.change(Edit(text), author_of(call), terms))
        return proto.TopicCounted(len(self._counted))


def _missing(topic: str) -> RpcError:
    return RpcError("not_found", f"the topic {topic!r} is not counted")


def _row(one: CountedTopic) -> proto.CountedTopicRow:
    counts, rates = dict(zip(NAMES, one.counts, strict=True)), dict(zip(NAMES, one.rates, strict=True))
    return proto.CountedTopicRow(one.topic, one.created_us, one.reset_us, counts, rates)
