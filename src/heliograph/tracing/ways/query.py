"""What ways are searched by, and how what was recorded of one message in pieces becomes one."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from heliograph.tracing.ways.chunks import ChunkHeader, WayRecord
from heliograph.tracing.ways.scope import is_to

Id = tuple[int, int]


@dataclass(frozen=True, slots=True)
class WayQuery:
    """Which ways are wanted, the newest first.

    Args:
        topic_filter: Messages to topics that match it; empty for all.
        clientid: Those that a client published or should have received; empty for all.
        since_us: Not older, in microseconds since the epoch.
        before: Older than the message with this id: the last one of the page before.
        only: The message with this id and no other.
    """

    topic_filter: str = ""
    clientid: str = ""
    since_us: int = 0
    before: Id | None = None
    only: Id | None = None

    def may_be_in(self, header: ChunkHeader) -> bool:
        if self.only is not None:
            return header.may_have_id(self.only[0])
        if header.last_us < self.since_us and not any(at_us >= self.since_us for at_us in header.later):
            return False
        if self.before is not None and header.first_us > self.before[0] and not header.later:
            return False
        if self.clientid and not header.may_have_client(self.clientid):
            return False
        topics = header.topics
        return not self.topic_filter or topics is None or self._has_topic(topics)

    def is_met_by(self, record: WayRecord) -> bool:
        if self.only is not None:
            return record.id == self.only
        if record.id_high < self.since_us or (self.before is not None and record.id >= self.before):
            return False
        if self.topic_filter and not self._has_topic(record.topics()):
            return False
        return not self.clientid or self.clientid in record.clients()

    def _has_topic(self, topics: Iterable[str]) -> bool:
        return any(is_to(topic, self.topic_filter) for topic in topics)


def joined(pieces: Sequence[WayRecord]) -> WayRecord:
    """One record of the pieces that were recorded of a message, in any order."""
    if len(pieces) == 1:
        return pieces[0]
    first, *others = sorted(pieces, key=lambda one: (not one.is_begun, one.at_us))
    steps = list(first.steps)
    for one in others:
        later_us = one.at_us - first.at_us
        steps += [(step[0] + later_us, step[1], step[2], step[3], step[4]) for step in one.steps]
        first.left_out_count += one.left_out_count
    first.steps = steps
    return first
