"""Putting right, after a crash, what clients published at QoS 2.

A message and its packet identifier go to two databases. Their commits run side by side, so a crash may leave one
without the other. Everything up to a mark is known to be complete; behind it, messages are looked through once:

- An identifier whose message is not stored is forgotten: the client's repetition is published.
- A message without its identifier is an orphan: the client's repetition, which says the same, claims it.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Final

from heliograph.node import session_record as record
from heliograph.node.session_replay import ReplayedDatabase
from heliograph.session.durable import DurableSession
from heliograph.storage.interface import EndOfStream, StoredMessage
from heliograph.storage.state import StateBatch, StateDatabase

_PAGE: Final = 1024


class TakenRecords:
    """What was taken from clients and not released; made for one start.

    Args:
        messages: The database of messages.
        batch: Where the changes go.
        scan: Gives all records whose keys have a prefix.
    """

    def __init__(
        self,
        messages: ReplayedDatabase,
        state: StateDatabase,
        batch: StateBatch,
        scan: Callable[[bytes], Iterator[tuple[bytes, bytes]]],
    ) -> None:
        self._messages = messages
        self._state = state
        self._batch = batch
        self._scan = scan

    def load(self, find: Callable[[str], DurableSession | None], uptime_us: int) -> None:
        """Give sessions what was taken from their clients.

        Raises:
            StorageError: A database cannot be read.
        """
        mark = self._state.get(record.COMPLETE_UP_TO)
        if mark is None:
            return
        complete_us, complete_ticket = record.decode_pair(mark)
        recent: dict[str, list[StoredMessage]] = {}
        for stored in self._stored_after(complete_us):
            if find(stored.clientid) is not None:
                recent.setdefault(stored.clientid, []).append(stored)
        ids = {(stored.clientid, stored.id_high, stored.id_low) for some in recent.values() for stored in some}
        for key, value in self._scan(record.TAKEN):
            clientid, packet_id = record.owner(key)
            session = find(clientid)
            ticket, id_high, id_low = record.decode_taken(value)
            if session is None:
                continue
            if ticket <= complete_ticket or (clientid, id_high, id_low) in ids:
                session.durable_awaiting_rel().restore(int.from_bytes(packet_id, "big"), uptime_us)
                self._batch.put(key, record.encode_taken(0, id_high, id_low))  # tickets begin anew
            else:
                self._batch.delete(key)
        self._note_orphans(recent)
        for key, _ in self._scan(record.ORPHAN):
            session = find(record.owner(key)[0])
            if session is not None:
                session.durable_awaiting_rel().has_orphans = True
        for clientid in recent:
            session = find(clientid)
            if session is not None:
                session.durable_awaiting_rel().has_orphans = True

    def _note_orphans(self, recent: dict[str, list[StoredMessage]]) -> None:
        known = {key[1:].decode(): record.decode_pair(value) for key, value in self._scan(record.TAKEN_UP_TO)}
        counts: Counter[bytes] = Counter()
        for clientid, some in recent.items():
            for stored in some:
                if (stored.id_high, stored.id_low) > known.get(clientid, (0, 0)):
                    topic = stored.topic.encode()
                    counts[record.orphan_key(clientid, topic, stored.payload, stored.property_bytes)] += 1
            newest = max(known.get(clientid, (0, 0)), *((stored.id_high, stored.id_low) for stored in some))
            self._batch.put(record.taken_up_to_key(clientid), record.encode_pair(*newest))
        for key, count in counts.items():
            before = self._state.get(key)
            self._batch.put(key, b"%d" % (count + (0 if before is None else int(before))))

    def _stored_after(self, complete_us: int) -> Iterator[StoredMessage]:
        """The messages at QoS 2 that were stored behind the mark."""
        start = complete_us + 1
        for stream in self._messages.get_streams("#", start):
            iterator = self._messages.make_iterator(stream.id, "#", start)
            while True:
                batch = self._messages.next(iterator, _PAGE)
                if isinstance(batch, EndOfStream) or not batch.messages:
                    break
                iterator = batch.iterator
                yield from (stored for stored in batch.messages if stored.qos == 2)
