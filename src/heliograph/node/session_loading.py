"""Reading durable sessions back at the start, and the messages that were in flight when their clients come."""

import logging

from heliograph.broker.message import Message, make_message
from heliograph.broker.subscription import Subscription
from heliograph.mqtt.topic import EXCLUSIVE_PREFIX, bare_filter, split_share
from heliograph.node import session_record as record
from heliograph.node.session_replay import ReplayedDatabase, find_message
from heliograph.session.durability import Durability
from heliograph.session.durable import DurableSession
from heliograph.session.mqueue import RELEASED, Delivery
from heliograph.session.options import SessionOptions
from heliograph.session.table import EXPIRY_NEVER, SessionTable
from heliograph.storage.errors import StorageError

_log = logging.getLogger(__name__)


class SessionLoader:
    """Makes sessions of records; made for one start.

    Args:
        options: Those of the sessions until their clients come.
    """

    def __init__(self, table: SessionTable, durability: Durability, options: SessionOptions) -> None:
        self._table = table
        self._broker = table.broker
        self._durability = durability
        self._options = options

    def find(self, clientid: str) -> DurableSession | None:
        """A session that was read."""
        session = self._table.find(clientid)
        return session if isinstance(session, DurableSession) else None

    def load_session(self, key: bytes, value: bytes, lost: dict[str, list[record.Inflight]]) -> bool:
        """Read a session; whether it is still to be kept.

        Args:
            lost: Where what is in flight goes, by client id.
        """
        clientid = key[1:].decode()
        try:
            saved = record.decode_session(value)
        except (ValueError, TypeError) as error:
            _log.error("the saved session of client %.200r cannot be read, and is left alone: %s", clientid, error)
            return True
        now: int = self._broker.now_us
        left_us = saved.left_us or now
        if saved.expiry_s != EXPIRY_NEVER and left_us + saved.expiry_s * 1_000_000 <= now:
            return False
        session = DurableSession(clientid, self._broker, self._options, saved.created_at_us, self._durability)
        session.expiry_interval_s = saved.expiry_s
        session.mountpoint = saved.mountpoint
        session.left_us = left_us
        session.qos0_after_us = saved.qos0_after_us if saved.left_us else now
        session.cursor_us = saved.cursor_us
        session.behind = True
        session.taken = {(high, low): qos for high, low, qos in saved.assigned}
        session.restore_packet_id(saved.last_packet_id)
        if saved.inflight:
            lost[clientid] = saved.inflight
            session.has_lost = True
        self._table.restore(session, max(0, now - left_us))
        return True

    def load_subscription(self, key: bytes, value: bytes) -> None:
        """Read a subscription, and route messages to it."""
        clientid, rest = record.owner(key)
        session = self.find(clientid)
        if session is None:
            return
        name = rest.decode()
        try:
            saved = record.decode_subscription(value)
        except (ValueError, TypeError) as error:
            _log.error("client %.200r's subscription to %.200r cannot be read: %s", clientid, name, error)
            return
        group, _ = split_share(name)
        topic_filter = session.mountpoint + bare_filter(name)
        if name.startswith(EXCLUSIVE_PREFIX):
            self._broker.exclusive[topic_filter] = session
        subscription = Subscription(
            session,
            topic_filter,
            saved.qos,
            saved.no_local,
            saved.retain_as_published,
            saved.retain_handling,
            saved.subscription_id,
            group,
        )
        subscription.is_new = False
        session.restore(name, subscription, saved.made_us)


def recalled(messages: ReplayedDatabase, session: DurableSession, one: record.Inflight) -> Delivery | None:
    """What is in flight, with its message read again; None if that is not there any more."""
    message: Message | None = None
    try:
        message = find_message(messages, one.topic, one.after_us, one.id_high, one.id_low)
    except StorageError as error:
        _log.warning("a message in flight cannot be read again [%s]: %s", error.code, error)
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
