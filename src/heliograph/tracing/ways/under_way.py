"""The ways that are under way: by the ids of their messages, until nothing more is to be expected of them."""

from collections.abc import Callable, Sequence
from typing import Final

from mypy_extensions import i64

from heliograph.broker.message import Message
from heliograph.broker.pubsub import Broker
from heliograph.channel.commits import Commits
from heliograph.tracing.commit_watch import CommitWatch, MessageId
from heliograph.tracing.ways import way as steps
from heliograph.tracing.ways.scope import WayScope
from heliograph.tracing.ways.way import Way

CHUNK: Final = 256  # ways that are kept together
_CHUNK_BYTES: Final = 4 << 20  # or fewer, where they have many receivers
_LOW: Final = 0x7FFFFFFFFFFFFFFF


class WaysUnderWay:
    """Holds ways until they are settled; owned by `WayRecorder`."""

    def __init__(
        self, broker: Broker, commits: Commits, scope: WayScope, hand_over: Callable[[list[Way]], object]
    ) -> None:
        self._broker = broker
        self._all_commits = commits
        self._commits = CommitWatch(commits, self._on_committed)
        self._scope = scope
        self._hand_over = hand_over
        self._ways: dict[MessageId, Way] = {}
        self._finished: list[Way] = []
        self._finished_bytes: i64 = 0
        self._loose: list[Way] = []  # those that no end of a PUBLISH comes for
        self._unnamed_count: i64 = 0  # that never had the id of a message

    def __len__(self) -> int:
        return len(self._ways)

    def find(self, message: Message) -> Way | None:
        return self._ways.get((int(message.id_high), int(message.id_low)))

    def identify(self, way: Way, message: Message) -> None:
        way.has_id = message.is_traced = True
        way.id_high, way.id_low, way.expiry_s = message.id_high, message.id_low, message.expiry_s
        self._put(way, (int(message.id_high), int(message.id_low)))

    def name(self, way: Way) -> None:
        """Give an id to a PUBLISH that never became a message."""
        self._unnamed_count += 1
        way.id_low = -self._unnamed_count & _LOW
        self._put(way, (int(way.id_high), int(way.id_low)))

    def rename(self, way: Way, message: Message) -> None:
        """The message has another id now."""
        key = (int(message.id_high), int(message.id_low))
        if key != way.key and way.key in self._ways:
            del self._ways[way.key]
            self._put(way, key)

    def begin(self, message: Message, is_begun: bool) -> Way:
        """Hold the way of a message that no PUBLISH that is handled now brings; it is ended with the next tick."""
        size: i64 = len(message.publish.data) - message.publish.payload_at
        high, low, now_us = message.id_high, message.id_low, self._broker.now_us
        name, clientid = message.username, message.clientid
        way = Way(high, low, now_us, message.topic, clientid, name, message.qos, message.retain, size, -1, is_begun)
        way.expiry_s, way.made_by, way.has_id = message.expiry_s, message.made_by, True
        self._scope.held_bytes += way.held_bytes
        self._put(way, (int(high), int(low)))
        self._loose.append(way)
        return way

    def loosen(self, way: Way) -> None:
        """End it with the next tick, or when its message is no longer on its way to receivers."""
        self._loose.append(way)

    def end(self, way: Way) -> None:
        fanouts = self._broker.fanouts
        if fanouts.count != 0 and fanouts.has_lane(way.topic):
            self._loose.append(way)
            return
        way.is_ended = True
        self._settle(way)

    def await_commit(self, way: Way, ticket: i64) -> bool:
        """Hold it until a commit is done; False if it is."""
        if ticket == 0 or not self._all_commits.is_pending(ticket):
            return False
        if way.commits_count == 0:
            way.commits_count = 1
            self._commits.wait(int(ticket), way.key)
        return True

    def _on_committed(self, ticket: int, code: int, messages: Sequence[MessageId]) -> None:
        now_us = self._broker.now_us
        for key in messages:
            way = self._ways.get(key)
            if way is None:
                continue
            way.commits_count = 0
            way.add(now_us, steps.COMMITTED, "", "", code)
            if way.answer >= 0:
                way.add(now_us, steps.ANSWERED, "", "", code or way.answer)
                way.answer = -1
            self._settle(way)

    def done_with(self, way: Way, clientid: str) -> None:
        waits = way.waits
        if waits is not None and clientid in waits:
            del waits[clientid]
            self._settle(way)

    def tick(self, settle_us: i64) -> None:
        """End those that nothing ends, and finish those that take longer than so long."""
        loose, self._loose = self._loose, []
        fanouts = self._broker.fanouts
        for way in loose:
            if fanouts.count != 0 and fanouts.has_lane(way.topic):
                self._loose.append(way)
                continue
            way.is_ended = True
            self._settle(way)
        late: list[Way] = []
        before = self._broker.now_us - settle_us
        for way in self._ways.values():  # in the order in which they began
            if way.at_us > before:
                break
            late.append(way)
        for way in late:
            self._finish(way)

    def count(self, way: Way) -> None:
        self._scope.held_bytes += way.grown_bytes
        way.held_bytes += way.grown_bytes
        way.grown_bytes = 0

    def take_finished(self) -> list[Way]:
        finished, self._finished = self._finished, []
        self._finished_bytes = 0
        return finished

    def waiting(self) -> list[Way]:
        return [*self._finished, *self._ways.values()]

    def close(self) -> None:
        for way in [*self._ways.values()]:
            self._finish(way)
        self._loose = []

    def _put(self, way: Way, key: MessageId) -> None:
        way.key = key
        self._ways[key] = way

    def _settle(self, way: Way) -> None:
        if way.is_ended and way.commits_count <= 0 and not way.waits and way.left_out_count == 0:
            self._finish(way)

    def _finish(self, way: Way) -> None:
        if self._ways.pop(way.key, None) is None:
            return
        self.count(way)
        self._finished.append(way)
        self._finished_bytes += way.held_bytes
        if len(self._finished) >= CHUNK or self._finished_bytes >= _CHUNK_BYTES:
            self._hand_over(self.take_finished())
