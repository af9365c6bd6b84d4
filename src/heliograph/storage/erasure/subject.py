"""What is erased: everything of a client, of a topic filter, or of before a time."""

from dataclasses import dataclass

from heliograph.storage.topic_filter import TopicFilter


@dataclass(frozen=True, slots=True)
class ErasureSubject:
    """One of the three is set.

    Attributes:
        before_us: Everything that is older than this time.
    """

    clientid: str | None = None
    topics: TopicFilter | None = None
    before_us: int | None = None

    @property
    def kind(self) -> str:
        if self.clientid is not None:
            return "client"
        return "older-than" if self.topics is None else "topic"

    @property
    def text(self) -> str:
        """What it is, as the command line has it; a time is microseconds since the epoch."""
        if self.clientid is not None:
            return self.clientid
        return str(self.before_us) if self.topics is None else self.topics.text

    @property
    def name(self) -> str:
        """What is searched in files byte by byte; empty where that says nothing."""
        if self.topics is not None:
            return "" if {"+", "#"} & set(self.topics.levels) else self.topics.text
        return self.clientid or ""

    def takes(self, clientid: str, topic: str, at_us: int) -> bool:
        """Whether a message is erased: of its publisher, its topic and the time at which it was stored."""
        if self.clientid is not None:
            return clientid == self.clientid
        if self.topics is not None:
            return self.topics.matches(topic)
        return self.before_us is not None and at_us < self.before_us
