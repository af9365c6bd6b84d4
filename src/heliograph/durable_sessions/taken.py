"""After a crash, matches what clients published at QoS 2 with its packet identifiers, which another commit holds.

A message and its packet identifier go to two databases. Their commits run side by side, so a crash may leave one
without the other. Everything up to a mark is known to be complete; behind it, messages are looked through once, up to
where sessions were switched off if they were:

- An identifier whose message is not stored is forgotten: the client's repetition is published.
- A message without its identifier is an orphan: the client's repetition, which says the same, claims it.
"""

import logging
from collections import Counter
from collections.abc import Iterator
from typing import Final

from heliograph.durable_sessions import record
from heliograph.durable_sessions.journal import SessionJournal
from heliograph.durable_sessions.replay import ReplayedDatabase
from heliograph.storage.interface import EndOfStream, StoredMessage
from heliograph.storage.state.interface import StateBatch, StateDatabase

_log = logging.getLogger(__name__)

_PAGE: Final = 1024
# The mark is about a second old when a broker is killed. It is much older only where the disk refused session state for
# long, and a start must not take as long as that did.
_LOOKED_AT_MAX: Final = 1_000_000


class TakenRecords:
    """What was taken from clients and not released; made for one start."""

    def __init__(self, messages: ReplayedDatabase, journal: SessionJournal) -> None:
        self._messages = messages
        self._journal = journal
        self._known: dict[str, bool] = {}  # whether a client has a session

    def put_right(self) -> None:
        """Make the records agree with what is stored, so that sessions can be read one by one."""
        mark = self._journal.get(record.COMPLETE_UP_TO)
        if mark is None:
            return
        complete_us, complete_ticket = record.decode_pair(mark)
        off_since = self._journal.get(record.OFF_SINCE)
        end_us = None if off_since is None else int(off_since) + 1
        recent: dict[str, list[StoredMessage]] = {}
        for stored in self._stored_between(complete_us + 1, end_us):
            if self._has_session(stored.clientid):
                recent.setdefault(stored.clientid, []).append(stored)
        ids = {(stored.clientid, stored.id_high, stored.id_low) for some in recent.values() for stored in some}
        batch = self._journal.batch
        batch.delete(record.OFF_SINCE)  # with the new mark
        for key, value in self._journal.scan(record.TAKEN):
            ticket, id_high, id_low = record.decode_taken(value)
            if ticket > complete_ticket and (record.owner(key)[0], id_high, id_low) not in ids:
                batch.delete(key)
            elif ticket:
                batch.put(key, record.encode_taken(0, id_high, id_low))  # tickets start again
        for clientid, some in recent.items():
            self._note_orphans(clientid, some)

    def _has_session(self, clientid: str) -> bool:
        known = self._known.get(clientid)
        if known is None:
            known = self._known[clientid] = self._journal.get(record.session_key(clientid)) is not None
        return known

    def _note_orphans(self, clientid: str, some: list[StoredMessage]) -> None:
        up_to_key = record.taken_up_to_key(clientid)
        value = self._journal.get(up_to_key)
        up_to = (0, 0) if value is None else record.decode_pair(value)
        counts: Counter[bytes] = Counter()
        newest: dict[bytes, tuple[int, int]] = {}
        for stored in some:
            if (stored.id_high, stored.id_low) > up_to:
                key = record.orphan_key(clientid, stored.topic.encode(), stored.payload, stored.property_bytes)
                counts[key] += 1
                newest[key] = max(newest.get(key, (0, 0)), (stored.id_high, stored.id_low))
        batch = self._journal.batch
        batch.put(up_to_key, record.encode_pair(*max(up_to, *((stored.id_high, stored.id_low) for stored in some))))
        for key, count in counts.items():
            before = self._journal.get(key)
            known = 0 if before is None else record.decode_orphans(before)[0]
            batch.put(key, record.encode_orphans(known + count, *newest[key]))

    def _stored_between(self, start: int, end: int | None) -> Iterator[StoredMessage]:
        """The messages at QoS 2 that were stored behind the mark, while sessions were kept."""
        left = _LOOKED_AT_MAX
        for stream in self._messages.get_streams("#", start, end):
            iterator = self._messages.make_iterator(stream.id, "#", start)
            while True:
                batch = self._messages.next(iterator, _PAGE)
                if isinstance(batch, EndOfStream) or not batch.messages:
                    break
                iterator = batch.iterator
                some = batch.messages if end is None else [one for one in batch.messages if one.stored_at < end]
                yield from (stored for stored in some if stored.qos == 2)
                left -= len(batch.messages)
                if left <= 0:
                    _log.warning(
                        "more than %d messages were stored since session state was saved last: of those behind them, "
                        "what clients repeat at QoS 2 may be published twice",
                        _LOOKED_AT_MAX,
                    )
                    return
                if len(some) < len(batch.messages):
                    break


def note_off(state: StateDatabase, head_us: int) -> None:
    """Sessions are not kept from now on: what is stored behind this commit time was published by none of theirs."""
    if state.get(record.COMPLETE_UP_TO) is None or state.get(record.OFF_SINCE) is not None:
        return
    batch = StateBatch()
    batch.put(record.OFF_SINCE, b"%d" % head_us)
    state.submit(batch)
