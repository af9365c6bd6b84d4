"""Connects the broker to storage: which messages are stored where, and how they get into the group commits."""

from collections.abc import Callable, Sequence
from typing import Final

from heliograph.broker.durable_sink import DurableSink
from heliograph.broker.message import Message
from heliograph.mqtt.topic import topic_matches
from heliograph.node.commit_join import CommitJoin, Follower
from heliograph.storage.group_commit import GroupCommit

_PLACES_REMEMBERED_MAX: Final = 10_000  # topics


class StorageSink(DurableSink):
    """Joins the broker to the group commit of `messages`; `code` gives the reason code of its refusal, or 0."""

    def __init__(
        self, group: GroupCommit, topics: Sequence[str], join: CommitJoin, code: Callable[[], int] = lambda: 0
    ) -> None:
        super().__init__()
        self._group = group
        self._topics = topics
        self._join = join
        self._code = code  # with which `messages` refuses messages now

    def wants(self, topic: str) -> bool:
        return _matches(self._topics, topic)

    def refusal(self, topic: str) -> int:
        return self._code()

    def append(self, message: Message) -> int:
        ticket = self._group.append(message)
        message.ticket = ticket
        return ticket

    def append_row(self, message: Message) -> int:
        """Handed to the next commit of `messages`, whatever topics are stored there."""
        self.rows_taken += 1
        self.row_ticket = self._group.append(message)
        return self.row_ticket

    def pending_ticket(self) -> int:
        """The ticket after which what became of the message handled now is durable."""
        return self._join.pending_ticket()

    def is_full(self) -> bool:
        return self._group.is_full or self._join.is_full

    def is_filling(self) -> bool:
        return self._group.is_filling or self._join.is_full


class CopyingSink(StorageSink):
    """Stores messages in further databases too, each by its own topics."""

    def __init__(
        self,
        group: GroupCommit,
        topics: Sequence[str],
        join: CommitJoin,
        others: Sequence[tuple[GroupCommit, Sequence[str], Follower, Callable[[], int]]],
        code: Callable[[], int] = lambda: 0,
    ) -> None:
        super().__init__(group, topics, join, code)
        self._others = others
        self._places: dict[str, tuple[bool, list[tuple[GroupCommit, Follower]]]] = {}  # by topic

    def wants(self, topic: str) -> bool:
        return super().wants(topic) or any(_matches(topics, topic) for _, topics, _, _ in self._others)

    def refusal(self, topic: str) -> int:
        """That of the first database that wants messages of this topic and refuses them."""
        own = self._code()
        if own and super().wants(topic):
            return own
        return next((code() for _, topics, _, code in self._others if code() and _matches(topics, topic)), 0)

    def append(self, message: Message) -> int:
        """Its ticket is answered for when all commits are done."""
        is_replayed, others = self._places.get(message.topic) or self._find_places(message.topic)
        self.is_joined = bool(others)
        for group, follower in others:
            follower.took(group.append(message))
        return super().append(message) if is_replayed else self.pending_ticket()

    def is_full(self) -> bool:
        return super().is_full() or any(group.is_full for group, _, _, _ in self._others)

    def is_filling(self) -> bool:
        return super().is_filling() or any(group.is_filling for group, _, _, _ in self._others)

    def _find_places(self, topic: str) -> tuple[bool, list[tuple[GroupCommit, Follower]]]:
        if len(self._places) >= _PLACES_REMEMBERED_MAX:
            self._places.clear()
        others = [(group, follower) for group, topics, follower, _ in self._others if _matches(topics, topic)]
        found = self._places[topic] = super().wants(topic), others
        return found


def _matches(topics: Sequence[str], topic: str) -> bool:
    return any(topic_matches(topic, topic_filter) for topic_filter in topics)
