"""What a node and the process of its erasure say to each other."""

from typing import Final

import msgspec

from heliograph.storage.erasure.subject import ErasureSubject
from heliograph.storage.topic_filter import TopicFilter

LENGTH_BYTES: Final = 4


class ErasureOptions(msgspec.Struct, frozen=True):
    """What is erased; one of the last three is set."""

    data_dir: str
    clientid: str | None = None
    topic: str | None = None
    before_us: int | None = None

    def subject(self) -> ErasureSubject:
        topics = None if self.topic is None else TopicFilter(self.topic)
        return ErasureSubject(self.clientid, topics, self.before_us)


class ErasureStep(msgspec.Struct, frozen=True, omit_defaults=True):
    """Find what is erased in a database of messages; or, with none, sign how much was erased in each place."""

    database: str = ""
    messages: dict[str, int] = msgspec.field(default_factory=dict)
    records: dict[str, int] = msgspec.field(default_factory=dict)


class Left(msgspec.Struct, frozen=True):
    """What there is of the subject afterwards: a stopped node can erase it."""

    messages: dict[str, int] = msgspec.field(default_factory=dict)
    offloaded_messages: int = 0
    offloaded_files: int = 0
    records: dict[str, int] = msgspec.field(default_factory=dict)
    audit_lines: int = 0
    dead_letters: int = 0


class StepAnswer(msgspec.Struct, frozen=True, omit_defaults=True):
    """Part of an answer, or all of it.

    Attributes:
        changes: The fields of `RecordChange`, for the node to write.
        is_end: Whether the step is done.
        messages: How many are erased.
    """

    changes: list[tuple[bytes, int | None, bytes | None]] = msgspec.field(default_factory=list)
    is_end: bool = False
    messages: int = 0
    left: Left = Left()
    stays: list[str] = msgspec.field(default_factory=list)
    still_named: list[str] = msgspec.field(default_factory=list)
    record: str = ""
    error: str = ""
    code: str = ""
