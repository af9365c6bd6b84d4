"""Groups that are asleep, by the streams whose growth wakes them.

A commit says which streams have grown: groups that sleep by one of them are behind. A stream that is new may match any
group, so that all are looked through once for it. Both go on in later turns, some groups in each.
"""

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from heliograph.shared_groups.durable_group import DurableGroup
from heliograph.storage.errors import StorageError
from heliograph.storage.interface import StreamId

# What one turn does, in groups: less than 1 ms. Asking the database for a filter's streams costs as much as so many.
_PER_TURN: Final = 256
_ASKING_COST: Final = 16
_CACHED_MAX: Final = 256
_KNOWN_MAX: Final = 100_000

FindStreams = Callable[[str], Sequence[StreamId]]


class Sleepers:
    """Which groups sleep by which streams; owned by the node's durable groups.

    Args:
        find_streams: The streams of a filter that can still grow.
        on_behind: Called for a group that sleeps and may have messages.
        on_more: Called when `go_on` is to be called in a later turn.
    """

    def __init__(
        self,
        find_streams: FindStreams,
        groups: Callable[[], Iterable[DurableGroup]],
        on_behind: Callable[[DurableGroup], object],
        on_more: Callable[[], object],
    ) -> None:
        self._find_streams = find_streams
        self._groups = groups
        self._on_behind = on_behind
        self._on_more = on_more
        self._of_stream: dict[StreamId, dict[DurableGroup, None]] = {}
        self._known: dict[StreamId, StreamId] = {}  # streams that all groups were looked through for
        self._grown: deque[dict[DurableGroup, None]] = deque()  # groups that are behind, and do not know it yet
        self._unsought: deque[DurableGroup] = deque()  # groups to be looked at for streams that are new
        self._is_new = False  # there are such streams since that began
        self._cached: dict[str, tuple[StreamId, ...]] = {}

    def add(self, group: DurableGroup) -> None:
        try:
            group.streams = self.streams(group.name.topic_filter)
        except StorageError:  # what would wake it is unknown
            self._on_behind(group)
            return
        for stream in group.streams:
            self._of_stream.setdefault(stream, {})[group] = None

    def remove(self, group: DurableGroup) -> None:
        for stream in group.streams:
            groups = self._of_stream.get(stream)
            if groups is not None:
                groups.pop(group, None)
                if not groups:
                    del self._of_stream[stream]
        group.streams = ()

    def streams(self, topic_filter: str) -> tuple[StreamId, ...]:
        """The streams of a filter that can still grow."""
        found = self._cached.get(topic_filter)
        if found is None:
            found = tuple(self._known.get(one, one) for one in self._find_streams(topic_filter))
            if len(self._cached) >= _CACHED_MAX:
                self._cached.clear()
            self._cached[topic_filter] = found
        return found

    def on_grown(self, streams: Sequence[StreamId]) -> None:
        for stream in streams:
            groups = self._of_stream.pop(stream, None)
            if groups:
                self._grown.append(groups)
            if stream not in self._known:
                self._known[stream] = stream
                self._is_new = True
        if len(self._known) > _KNOWN_MAX:  # most of them are of generations that were closed long ago
            self._known.clear()
        if self._is_new:
            self._cached.clear()
        if self._is_new or self._grown:
            self._on_more()

    def renew(self) -> None:
        """Time has passed: streams may be gone with their generation, which no commit says."""
        self._cached.clear()

    def go_on(self) -> None:
        left = _PER_TURN
        while self._grown and left > 0:
            left -= 1
            if self._grown[0]:
                group, _ = self._grown[0].popitem()
                if not group.is_behind and group.awake is None:
                    self._on_behind(group)
            else:
                self._grown.popleft()
        while self._unsought and left > 0:
            left -= self._look(self._unsought.popleft())
        if self._is_new and not self._unsought:
            self._is_new = False
            self._unsought.extend(self._groups())
        if self._grown or self._unsought:
            self._on_more()

    def _look(self, group: DurableGroup) -> int:
        """Whether a group has streams that it did not have: what looking cost."""
        if group.is_behind or group.awake is not None:
            return 1
        topic_filter = group.name.topic_filter
        cost = 1 if topic_filter in self._cached else _ASKING_COST
        try:
            streams = self.streams(topic_filter)
        except StorageError:
            self._on_behind(group)
            return cost
        if streams is group.streams or streams == group.streams:
            return cost
        if not set(streams).issubset(group.streams):
            self._on_behind(group)
        return cost

    def __repr__(self) -> str:
        return f"Sleepers({len(self._of_stream)} streams, {len(self._unsought)} groups to be looked at)"
