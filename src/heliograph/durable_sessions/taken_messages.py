"""QoS 2 messages that were taken from clients: saved with what the session's turn saves, found again after a crash."""

import logging
from collections.abc import Callable

from heliograph.broker.repetition import Repetition
from heliograph.durable_sessions import record
from heliograph.durable_sessions.orphans import claim_orphan
from heliograph.durable_sessions.replay import ReplayedDatabase, newest_retained
from heliograph.durable_sessions.saver import SessionSaver
from heliograph.mqtt import reason_codes as rc
from heliograph.mqtt.errors import ProtocolError
from heliograph.observe.bounded_log import BoundedLog
from heliograph.session.session import Session
from heliograph.session.taken_messages import TakenMessages
from heliograph.storage.errors import StorageDamagedError, StorageError, StorageFullError, UnknownStreamError

_log = logging.getLogger(__name__)


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
            return claim_orphan(self._journal, session.clientid, repetition)
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
