"""What can be asked of the topic filters that are routed, and of exclusive topics."""

from collections.abc import Iterator, Sequence
from typing import Final

from heliograph.broker.shared import SharedGroup
from heliograph.broker.subscription import FilterEntry
from heliograph.broker.trie import TrieWalk
from heliograph.channel.context import ChannelContext
from heliograph.control.checks import check_topic
from heliograph.control.proto_v1 import subscriptions as proto
from heliograph.control.slices import in_slices
from heliograph.control.subscriptions import drop_subscription
from heliograph.mqtt.topic import EXCLUSIVE_PREFIX, has_wildcard, split_share
from heliograph.rpc.methods import Call, Method, NoArgs, RpcError
from heliograph.session.session import Session

_VISITED: Final = 256  # levels of filters that are looked at in one go
_LOOKED_MAX: Final = 256  # subscriptions among which groups are looked for


def methods(context: ChannelContext) -> list[Method]:
    answers = TopicsAnswers(context)
    return [
        proto.TOPICS_LIST.by(answers.list),
        proto.TOPICS_COUNT.by(answers.count),
        proto.TOPICS_SHOW.by(answers.show),
        proto.EXCLUSIVE_LIST.by(answers.exclusive),
        proto.EXCLUSIVE_DELETE.by(answers.release),
    ]


class TopicsAnswers:
    def __init__(self, context: ChannelContext) -> None:
        self._context = context
        self._broker = context.broker

    def list(self, args: proto.TopicsWanted, call: Call) -> Iterator[Sequence[proto.TopicRow]]:
        return in_slices(self._rows(args), _length)

    def count(self, args: NoArgs, call: Call) -> proto.SubscriptionsCount:
        return proto.SubscriptionsCount(len(self._broker.router.filters))

    def show(self, args: proto.TopicName, call: Call) -> Iterator[Sequence[proto.TopicRow]]:
        """Answer `topics.show`: the filters that a topic name matches, or one filter."""
        check_topic(args.topic)
        return in_slices(self._routes(args.topic), _length)

    def exclusive(self, args: proto.TopicsWanted, call: Call) -> Iterator[Sequence[proto.ExclusiveRow]]:
        return in_slices(self._taken(args.limit))

    def release(self, args: proto.TopicName, call: Call) -> proto.ExclusiveRow:
        topic = args.topic.removeprefix(EXCLUSIVE_PREFIX)
        holder = self._broker.exclusive.holder(topic)
        if not isinstance(holder, Session):
            raise RpcError(
                "not_found",
                f"no client has the exclusive topic {topic!r}; `ctl exclusive list` shows those that are taken",
            )
        drop_subscription(self._context, holder, EXCLUSIVE_PREFIX + topic.removeprefix(holder.mountpoint))
        return proto.ExclusiveRow(topic, holder.clientid)

    def _rows(self, wanted: proto.TopicsWanted) -> Iterator[proto.TopicRow]:
        walk = self._broker.router.filters.walk()
        walk.skip(wanted.skip)
        count = 0
        while found := walk.take(1):
            yield _row(found[0])
            count += 1
            if count == wanted.limit:
                return

    def _routes(self, topic: str) -> Iterator[proto.TopicRow | None]:
        filters = self._broker.router.filters
        topic_filter = split_share(topic)[1]
        exact = filters.named(topic_filter)
        found = [] if exact is None else [exact]
        if not has_wildcard(topic_filter):
            walk = TrieWalk(topic_filter)
            while not filters.trie.advance(walk, _VISITED):
                yield None
            found += walk.found
        for entry in found:
            yield None if entry.is_empty() else _row(entry)
        if not found:
            raise RpcError("not_found", f"no filter matches {topic!r} that is routed; `ctl topics list` shows all")

    def _taken(self, limit: int) -> Iterator[proto.ExclusiveRow]:
        walk = self._broker.exclusive.walk()
        count = 0
        while found := walk.take(1):
            yield proto.ExclusiveRow(found[0].topic, found[0].holder.clientid)
            count += 1
            if count == limit:
                return


def _row(entry: FilterEntry) -> proto.TopicRow:
    subscriptions = entry.subscriptions
    groups: dict[str, int] | None = None
    if len(subscriptions) <= _LOOKED_MAX:
        found = [one.subscriber for one in subscriptions if isinstance(one.subscriber, SharedGroup)]
        groups = {group.clientid.partition("/")[0]: len(group.members) for group in found}
    return proto.TopicRow(entry.topic_filter, len(subscriptions), groups)


def _length(row: proto.TopicRow) -> int:
    return len(row.topic)
