"""The seam between the broker and storage: which messages are stored, and how they get into the group commit."""

from heliograph.broker.durable import DurableSink
from heliograph.broker.message import Message
from heliograph.mqtt.topic import topic_matches
from heliograph.storage.group_commit import GroupCommit


class StorageSink(DurableSink):
    """Joins the broker to the group commit of the `messages` database."""

    def __init__(self, group: GroupCommit, topics: tuple[str, ...]) -> None:
        super().__init__()
        self._group = group
        self._topics = topics

    def wants(self, topic: str) -> bool:
        """Whether the operator wants messages of this topic stored."""
        return any(topic_matches(topic, topic_filter) for topic_filter in self._topics)

    def append(self, message: Message) -> int:
        """Hand a message to the next commit."""
        return self._group.append(message)

    def is_full(self) -> bool:
        """Whether the buffer before storage is full."""
        return self._group.is_full
