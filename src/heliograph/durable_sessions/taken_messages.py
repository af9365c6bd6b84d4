"""QoS 2 messages that were taken from clients: saved with what the session's turn saves, found again after a crash."""

import logging
from collections.abc import Callable
from itertools import islice
from typing import Final

from heliograph.broker.message import Message
from heliograph.broker.repetition import Repetition
from heliograph.durable_sessions import record
from heliograph.durable_sessions.journal import SessionJournal
from heliograph.durable_sessions.replay import ReplayedDatabase, newest_retained
from heliograph.durable_sessions.saver import SessionSaver
from heliograph.mqtt import reason_codes as rc
from heliograph.mqtt.errors import ProtocolError
from heliograph.observe.bounded_log import BoundedLog
from heliograph.session.session import Session
from heliograph.session.taken_messages import TakenMessages
from heliograph.storage.errors import StorageDamagedError, StorageError, StorageFullError, UnknownStreamError

_log = logging.getLogger(__name__)

# A client has as many stored messages without an identifier as it may have without PUBREL, 100 by default.
_TRIED_MAX: Final = 256


class SavedTakenMessages(TakenMessages):
    """What was taken by the durable sessions of a node; owned by `DurableSessions`."""

    def __init__(self, messages: ReplayedDatabase, saver: SessionSaver, uptime_us: Callable[[], int]) -> None:
        self._messages = messages
        self._saver = saver
        self._journal = saver.journal
        self._log = BoundedLog(_log, uptime_us)

    def take(self, session: Session, packet_id: int, message: int, id_high: int, id_low: int) -> int:
        batch = self._journal.batch
        batch.put(record.taken_key(session.clientid, packet_id), record.encode_taken(message, id_high, id_low))
        if message:
            batch.put(record.taken_up_to_key(session.clientid), record.encode_pair(id_high, id_low))
        return self._saver.gather()

    def release(self, session: Session, packet_id: int) -> int:
        self._journal.batch.delete(record.taken_key(session.clientid, packet_id))
        return self._saver.gather()

    def find(self, session: Session, packet_id: int) -> tuple[int, int] | None:
        try:
            value = self._journal.get(record.taken_key(session.clientid, packet_id))
        except StorageError as error:
            raise _refusal("whether it repeats a message that was taken before cannot be read now", error) from error
        return None if value is None else record.decode_taken(value)[1:]

    def claim_orphan(self, session: Session, repetition: Repetition) -> tuple[int, int] | None:
        try:
            return _claim_orphan(self._journal, session.clientid, repetition)
        except StorageError as error:
            detail = "whether it repeats a message that a crash interrupted cannot be read now"
            raise _refusal(detail, error) from error

    def is_replaced(self, topic: str, id_high: int, id_low: int) -> bool:
        try:
            newest = newest_retained(self._messages, topic, id_high)
        except (UnknownStreamError, StorageDamagedError) as error:
            self._log.warn("whether a message of topic %.200r is to be retained is unknown: %s", topic, error)
            return True
        except StorageError as error:
            detail = f"whether it is the last retained message of {topic!r} cannot be read now"
            raise _refusal(detail, error) from error
        return newest is not None and newest != (id_high, id_low)


def _refusal(detail: str, error: StorageError) -> ProtocolError:
    """What a client gets that publishes while a disk fails."""
    return ProtocolError(detail, rc.QUOTA_EXCEEDED if isinstance(error, StorageFullError) else rc.UNSPECIFIED_ERROR)


def _claim_orphan(journal: SessionJournal, clientid: str, repetition: Repetition) -> tuple[int, int] | None:
    """The id of the stored message that a PUBLISH repeats, which counts as claimed; None if there is none.

    What is compared is what is stored of a message. Where its id or its time went into that, the ids of those that are
    not claimed are tried in their order, which is the order that a client repeats them in.
    """
    message = repetition.stored_as_it_is()
    if message is None or message.qos != 2:  # only of those is it known which are not claimed
        return None
    found = _look_up(journal, message)
    if found is None and repetition.is_changed(message):
        found = _try_ids(journal, clientid, repetition)
    if found is None:
        return None
    key, value = found
    count, id_high, id_low = record.decode_orphans(value)
    if count > 1:
        journal.batch.put(key, record.encode_orphans(count - 1, id_high, id_low))
    else:
        journal.batch.delete(key)
    return id_high, id_low


def _look_up(journal: SessionJournal, message: Message) -> tuple[bytes, bytes] | None:
    key = _key(message)
    value = journal.get(key)
    return None if value is None else (key, value)


def _try_ids(journal: SessionJournal, clientid: str, repetition: Repetition) -> tuple[bytes, bytes] | None:
    some = islice(journal.scan(record.orphan_prefix(clientid)), _TRIED_MAX)
    for id_high, id_low, key, value in sorted((*record.decode_orphans(value)[1:], key, value) for key, value in some):
        message = repetition.stored_as(id_high, id_low)
        if message is not None and _key(message) == key:
            return key, value
    return None


def _key(message: Message) -> bytes:
    return record.orphan_key(message.clientid, message.publish.topic, message.payload, message.property_bytes)
