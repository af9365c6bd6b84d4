"""Messages in flight as saved with a session: records, until the messages themselves are read again."""

import logging
from collections.abc import Iterator

from heliograph.broker.message import Message, make_message
from heliograph.broker.subscription import Subscription
from heliograph.durable_sessions.record import Inflight
from heliograph.durable_sessions.replay import ReplayedDatabase, find_message
from heliograph.session.durable import DurableSession
from heliograph.session.mqueue import RELEASED, Delivery
from heliograph.storage.errors import StorageDamagedError, UnknownStreamError

_log = logging.getLogger(__name__)


class LostInflight:
    """The messages in flight to sessions that were read from the disk, until their clients come.

    Owned by `DurableSessions`.
    """

    def __init__(self, messages: ReplayedDatabase) -> None:
        self.records: dict[str, list[Inflight]] = {}
        self.forgotten_count = 0
        self._messages = messages
        self._found: dict[DurableSession, list[tuple[int, Delivery | None]]] = {}

    def read(self, session: DurableSession) -> Iterator[None]:
        """Read the messages, one in each step."""
        if session in self._found:
            return
        found: list[tuple[int, Delivery | None]] = []
        for one in self.records.get(session.clientid, []):
            found.append((one.packet_id, _recalled(self._messages, session, one)))
            yield
        if session.has_lost and session.clientid in self.records:
            self._found[session] = found

    def give_back(self, session: DurableSession) -> None:
        """Give a session its messages, those that were not read yet included."""
        found = self._found.pop(session, None)
        records = self.records.get(session.clientid, [])
        if found is None:
            found = [(one.packet_id, _recalled(self._messages, session, one)) for one in records]
        self.records.pop(session.clientid, None)
        for packet_id, delivery in found:
            if delivery is None:
                self.forgotten_count += 1
            else:
                session.sender.window.deliveries[packet_id] = delivery

    def forget(self, session: DurableSession) -> None:
        self.records.pop(session.clientid, None)
        self._found.pop(session, None)


def _recalled(messages: ReplayedDatabase, session: DurableSession, one: Inflight) -> Delivery | None:
    """What is in flight, with its message read again; None if that is not there any more."""
    message: Message | None = None
    try:
        message = find_message(messages, one.topic, one.after_us, one.id_high, one.id_low)
    except (UnknownStreamError, StorageDamagedError) as error:
        _log.warning("a message in flight to client %.200r is lost [%s]: %s", session.clientid, error.code, error)
    if message is None:
        if one.phase != RELEASED:
            return None
        # Only its identifier matters now.
        message = make_message(one.id_high, one.id_low, one.topic, b"", one.qos, False, b"", "", None)
    subscription = Subscription(session, one.topic, one.qos, False, False, 0, one.subscription_id)
    delivery = Delivery(message, one.qos, one.retain, subscription)
    delivery.phase = one.phase
    delivery.after_us = one.after_us
    return delivery
