"""Which records of each database of state are erased, and what is left of those that stay."""

import json
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Final

from heliograph.durable_sessions import record as session_record
from heliograph.node import delayed_record
from heliograph.shared_groups import record as group_record
from heliograph.storage.erasure.keyed_records import Pairs, state_records
from heliograph.storage.erasure.messages import MessageIds
from heliograph.storage.erasure.subject import ErasureSubject
from heliograph.storage.keyed import records as keyed_records
from heliograph.tracing.ways.chunks import WayRecord, encoded_records, header_of, records_of
from heliograph.tracing.ways.way import SENT

_INFLIGHT_AT: Final = 9  # in the record of a session
_OWNED: Final = (
    session_record.SESSION,
    session_record.SUBSCRIPTION,
    session_record.TAKEN,
    session_record.TAKEN_UP_TO,
    session_record.ORPHAN,
    session_record.WILL,
)
_WAY_HEADER: Final = b"H"
_WAY_DATA: Final = b"C"


class StateEraser:
    """Goes through the records of databases of state, and counts what it leaves out.

    Args:
        ids: The messages that were erased of those that sessions have in flight.
    """

    def __init__(self, subject: ErasureSubject, ids: MessageIds) -> None:
        self.count = 0
        self._subject = subject
        self._ids = ids

    def of(self, path: Path) -> Callable[[Pairs], Pairs] | None:
        """What goes through a database; None for one that erasing leaves alone."""
        walks = {
            "sessions": self._sessions,
            "delayed": self._delayed,
            "retained": self._retained,
            "message_ways": lambda pairs: self._ways(pairs, dict(_way_headers(path))),
        }
        return walks.get(path.name)

    def _sessions(self, pairs: Pairs) -> Iterator[tuple[bytes, bytes]]:
        for key, value in pairs:
            if self._is_of_client(key) or self._is_will_of_topic(key, value):
                self.count += 1
                continue
            yield key, self._without_inflight(value) if key[:1] == session_record.SESSION else value

    def _is_of_client(self, key: bytes) -> bool:
        clientid = self._subject.clientid
        if clientid is None:
            return False
        if key[:1] == group_record.MEMBER:
            return group_record.member_of_key(key)[1] == clientid
        if key[:1] == group_record.BORROWED:
            return group_record.client_of_borrowed(key) == clientid
        return key[:1] in _OWNED and session_record.owner(key)[0] == clientid

    def _is_will_of_topic(self, key: bytes, value: bytes) -> bool:
        topics = self._subject.topics
        return (
            topics is not None
            and key[:1] == session_record.WILL
            and topics.matches(session_record.decode_will(value).topic)
        )

    def _without_inflight(self, value: bytes) -> bytes:
        """The record of a session without what it has in flight of erased messages."""
        session = session_record.decode_session(value)
        left = [one for one in session.inflight if not self._is_erased(one)]
        if len(left) == len(session.inflight):
            return value
        self.count += len(session.inflight) - len(left)
        fields = json.loads(value)
        fields[_INFLIGHT_AT] = left
        return json.dumps(fields, ensure_ascii=False, separators=(",", ":")).encode()

    def _is_erased(self, one: session_record.Inflight) -> bool:
        topics = self._subject.topics
        return (one.id_high, one.id_low) in self._ids or (topics is not None and topics.matches(one.topic))

    def _delayed(self, pairs: Pairs) -> Iterator[tuple[bytes, bytes]]:
        for key, value in pairs:
            if key[:1] == delayed_record.MESSAGE:
                message = delayed_record.decode(value).message
                if self._subject.takes(message.clientid, message.topic, message.id_high):
                    self.count += 1
                    continue
            yield key, value

    def _retained(self, pairs: Pairs) -> Iterator[tuple[bytes, bytes]]:
        for key, value in pairs:
            if keyed_records.is_message(b"K" + key):
                message = keyed_records.stored_message(b"K" + key, value)
                if self._subject.takes(message.clientid, message.topic, message.stored_at):
                    self.count += 1
                    continue
            yield key, value

    def _ways(self, pairs: Pairs, headers: dict[bytes, bytes]) -> Iterator[tuple[bytes, bytes]]:
        """Contents come before all headers, of which each content needs its own."""
        for key, value in pairs:
            name = key[1:]
            if key[:1] == _WAY_HEADER:
                if name in headers:
                    yield key, headers[name]
                continue
            if key[:1] != _WAY_DATA or name not in headers:
                yield key, value
                continue
            records = records_of(header_of(headers[name]), value, lambda record: True)
            left = [record for record in records if not self._is_way(record)]
            changed = len(records) - len(left) + sum(self._forget_receiver(record) for record in left)
            self.count += changed
            if not left:
                del headers[name]
                continue
            if changed:
                headers[name], value = encoded_records(left)
            yield key, value

    def _is_way(self, record: WayRecord) -> bool:
        subject = self._subject
        if subject.topics is not None:
            return any(map(subject.topics.matches, record.topics()))
        return subject.takes(record.clientid, record.topic, record.at_us)

    def _forget_receiver(self, record: WayRecord) -> int:
        """Leave out the steps of a client that got the message of another; 1 if there were any."""
        clientid = self._subject.clientid
        left = [step for step in record.steps if step[1] < SENT or step[2] != clientid]
        is_changed = len(left) < len(record.steps)
        record.steps = left
        return int(is_changed)


def _way_headers(path: Path) -> Iterator[tuple[bytes, bytes]]:
    return ((key[1:], value) for key, value in state_records(path) if key[:1] == _WAY_HEADER)


def ids_in_flight(sessions: Path) -> MessageIds:
    """The messages that sessions have in flight."""
    found: MessageIds = set()
    for key, value in state_records(sessions):
        if key[:1] == session_record.SESSION:
            found |= {(one.id_high, one.id_low) for one in session_record.decode_session(value).inflight}
    return found


def records_naming(pairs: Iterable[tuple[bytes, bytes]], name: str) -> int:
    """How many records of a database have a name in them."""
    wanted = name.encode()
    return sum(wanted in key or wanted in value for key, value in pairs)
