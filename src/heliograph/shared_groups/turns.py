"""When which work for the durable groups of a node is done: in turns of the event loop, bounded each.

A turn delivers protocol messages, reads streams, sends what was read, and writes reports. What is left waits for the
next one.
"""

import logging
from collections import deque
from collections.abc import Callable, Iterable
from itertools import islice
from typing import Final, Protocol

from heliograph.broker.faults import TURNS, Faults
from heliograph.parts.loop import Loop
from heliograph.shared_groups.member import Member
from heliograph.shared_groups.stream_reader import StreamReader
from heliograph.storage.errors import StorageError
from heliograph.storage.interface import StreamId

_log = logging.getLogger(__name__)

# Messages read or sent between two writes of the outboxes, and protocol messages and reports: about 1 ms each.
_PER_TURN: Final = 256
_POSTED_PER_TURN: Final = 32
_REPORTS_PER_TURN: Final = 16
# Protocol messages that wait, beyond which no further ones are written: thousands of groups that begin at once have a
# million.
_POSTED_MAX: Final = 2048
_PER_MEMBER: Final = 128
_GROWN_PER_TURN: Final = 1024  # readers that learn that their streams have more
_RETRY_S: Final = 1.0
_READING_COST: Final = 32  # what asking a stream costs, in messages,
_ASKING_COST: Final = 1  # and asking a member
_NO_READERS: Final[dict[StreamReader, None]] = {}


class Work(Protocol):
    """What is called in the course of a turn."""

    def on_messages_read(self) -> None:
        """The protocol messages of this turn are delivered."""

    def on_sent(self, member: Member) -> None:
        """A member's client was sent what it takes in this turn."""

    def go_on(self) -> None:
        """Go on with what was put off by `schedule_more`."""


class GroupTurns:
    """All that waits for its turn; owned by the node's durable groups.

    Args:
        begin_turn: Tells the broker the time; called when the loop calls.
        report_s: How long reports may wait that nothing waits for.

    Attributes:
        faults: Where members, readers and leaders that raise are contained; set before the first turn.
    """

    def __init__(self, loop: Loop, begin_turn: Callable[[], object], work: Work, report_s: float) -> None:
        self.counts = {"delivered": 0, "read": 0, "read_errors": 0}
        self.faults = Faults()
        self.committed_us = 0  # what is stored up to this commit time is committed
        self._loop = loop
        self._begin_turn = begin_turn
        self._work = work
        self.report_s = report_s
        self._posted: deque[Callable[[], None]] = deque()
        self._readers: dict[StreamId, dict[StreamReader, None]] = {}  # those of each stream
        self._grown: dict[StreamReader, None] = {}  # their streams have more, which they do not know yet
        self._reading: dict[StreamReader, None] = {}
        self._cut: dict[StreamReader, None] = {}  # what they read next was not committed
        self._wanting: deque[Member] = deque()
        self._soon: dict[Member, None] = {}
        self._late: dict[Member, None] = {}
        self._is_scheduled = False
        self._has_more = False
        self._reports_later = False
        self._is_closed = False

    # --- what waits

    def statistics(self) -> dict[str, int]:
        return {**self.counts, "protocol_messages": len(self._posted)}

    def post(self, deliver: Callable[[], None]) -> None:
        self._posted.append(deliver)
        self.schedule()

    def add_reader(self, stream: StreamId, reader: StreamReader) -> None:
        self._readers.setdefault(stream, {})[reader] = None

    def remove_reader(self, stream: StreamId, reader: StreamReader) -> None:
        readers = self._readers[stream]
        del readers[reader]
        if not readers:
            del self._readers[stream]
        for waiting in (self._grown, self._reading, self._cut):
            waiting.pop(reader, None)

    def want_read(self, reader: StreamReader) -> None:
        self._reading[reader] = None
        self.schedule()

    def awaits(self, reader: StreamReader) -> bool:
        return reader in self._reading or reader in self._grown or reader in self._cut

    def want(self, member: Member) -> None:
        if not member.is_wanted:
            member.is_wanted = True
            self._wanting.append(member)
            self.schedule()

    def want_report(self, member: Member, soon: bool) -> None:
        """A member has something to report; a group may wait for it."""
        if soon:
            self._late.pop(member, None)
            self._soon[member] = None
            self.schedule()
        elif member not in self._soon:
            self._late[member] = None
            if not self._reports_later:
                self._reports_later = True
                self._loop.call_later(self.report_s, self._report_late)

    def on_committed(self, committed_us: int) -> None:
        self.committed_us = committed_us
        if self._cut:
            self._grown.update(self._cut)
            self._cut = {}
            self.schedule()

    def on_grown(self, streams: Iterable[StreamId]) -> None:
        for stream in streams:
            self._grown.update(self._readers.get(stream, _NO_READERS))
        self.schedule()  # leaders heard of them, too

    def schedule(self) -> None:
        if not self._is_scheduled and not self._is_closed:
            self._is_scheduled = True
            self._loop.call_soon(self._run)

    def schedule_more(self) -> None:
        """Ask for a turn in which `Work.go_on` is called."""
        self._has_more = True
        self.schedule()

    def close(self) -> None:
        """Report the progress of all, deliver what is on its way, and end the turns."""
        for member in [*self._soon, *self._late]:
            member.report()
        while self._posted:
            self._posted.popleft()()
        self._work.on_messages_read()
        self._is_closed = True

    # --- a turn

    def _run(self) -> None:
        self._is_scheduled = False
        if self._is_closed:
            return
        self._begin_turn()
        run = self.faults.run
        for _ in range(min(_POSTED_PER_TURN, len(self._posted))):
            run(TURNS, self._posted.popleft())
        if len(self._posted) < _POSTED_MAX:
            self._write()
        for reader in list(islice(self._grown, _GROWN_PER_TURN)):
            del self._grown[reader]
            run(TURNS, reader.on_grown)
            self._reading[reader] = None
        self._read()
        self._pump()
        if self._posted or self._wanting or self._grown or self._reading or self._soon:
            self.schedule()

    def _write(self) -> None:
        """Answer protocol messages, and write those that are due."""
        run = self.faults.run
        run(TURNS, self._work.on_messages_read)
        if self._has_more:
            self._has_more = False
            run(TURNS, self._work.go_on)
        for member in list(islice(self._soon, _REPORTS_PER_TURN)):
            del self._soon[member]
            run(TURNS, member.report)

    def _read(self) -> None:
        budget = _PER_TURN
        readers, self._reading = self._reading, {}
        for reader in list(readers):
            if budget <= 0:
                self._reading.update(readers)
                return
            del readers[reader]
            before = reader.read_count
            try:
                fed = reader.read(self.committed_us)
            except StorageError as error:
                self._on_unread(reader, error)
                continue
            except Exception as error:  # noqa: BLE001 - other groups read theirs, whatever it is
                self.faults.contain(TURNS, error)
                continue
            count = reader.read_count - before
            budget -= count + _READING_COST
            self.counts["read"] += count
            if reader.is_cut:
                self._cut[reader] = None
            if fed is None:
                continue
            self._reading[reader] = None
            for share in fed:
                owner = share.owner
                if isinstance(owner, Member):
                    owner.feed(share)
                    self.want(owner)

    def _on_unread(self, reader: StreamReader, error: StorageError) -> None:
        self.counts["read_errors"] += 1
        _log.warning("messages of shared groups wait [%s]: %s", error.code, error)
        self._loop.call_later(_RETRY_S, lambda: self.want_read(reader))

    def _pump(self) -> None:
        budget = _PER_TURN
        for _ in range(len(self._wanting)):
            if budget <= 0:
                return
            member = self._wanting.popleft()
            member.is_wanted = False
            if member.is_leaving:
                continue
            limit = min(budget, _PER_MEMBER)
            try:
                count = member.pump(limit)
            except Exception as error:  # noqa: BLE001 - other members get theirs, whatever it is
                self.faults.contain(TURNS, error, member.session.abort)
                continue
            budget -= count + _ASKING_COST
            self.counts["delivered"] += count
            self._work.on_sent(member)
            if count == limit and member.waits:
                self.want(member)

    def _report_late(self) -> None:
        self._reports_later = False
        late, self._late = self._late, {}
        self._soon.update(late)
        self.schedule()

    def __repr__(self) -> str:
        return f"GroupTurns({len(self._wanting)} members and {len(self._reading)} streams wait)"
