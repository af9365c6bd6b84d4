"""Wills that survive the broker: saved before CONNACK, deleted when they are withdrawn or stored themselves.

A will that was published is forgotten only after the commit of its own message, so a crash in between publishes it once
more: a will that comes twice says what one says, a lost one says nothing.
"""

import logging

from heliograph.broker.actions import ALLOW, DENY
from heliograph.broker.client import ClientInfo
from heliograph.broker.message import make_message
from heliograph.channel.authorization import Authorizer
from heliograph.channel.options import ChannelOptions
from heliograph.durable_sessions import record
from heliograph.durable_sessions.journal import SessionJournal
from heliograph.session.table import SessionTable
from heliograph.session.will import Will

_log = logging.getLogger(__name__)


class SavedWills:
    """The wills on the disk of a node's durable sessions; owned by `DurableSessions`."""

    def __init__(self, journal: SessionJournal, table: SessionTable, options: ChannelOptions) -> None:
        self._journal = journal
        self._table = table
        self._broker = table.broker
        self.options = options

    def save(self, clientid: str, will: Will) -> None:
        """Save a will as it is now; the batch of this turn takes it."""
        session, check = self._table.held(clientid), will.access_check
        due_us = int(will.due_us - self._broker.uptime_us + self._broker.now_us) if will.due_us else 0
        if isinstance(check, Authorizer):
            client, granted = check.client, check.granted(will.message)
        else:
            client, granted = ClientInfo(clientid, will.message.username, ""), ""
            client.mountpoint = "" if session is None else session.mountpoint
        value = record.encode_will(will, due_us, client, granted)
        self._journal.batch.put(record.will_key(clientid, will.number), value)

    def forget(self, clientid: str, will: Will) -> None:
        """A will was taken back, or is published and stored; the batch of this turn takes it away."""
        self._journal.batch.delete(record.will_key(clientid, will.number))

    def load(self) -> list[tuple[str, Will]]:
        """Every will that is saved, with its client. The delay of one whose client was connected begins now."""
        found = []
        for key, value in self._journal.scan(record.WILL):
            clientid, number = record.owner(key)
            try:
                saved = record.decode_will(value)
            except (ValueError, TypeError) as error:
                _log.error("the saved will of client %.200r cannot be read: %s", clientid, error)
                continue
            if saved.granted == DENY:  # its client may not publish it
                self._journal.batch.delete(key)
                continue
            will = self._restored(clientid, saved)
            will.number = int.from_bytes(number, "big")
            found.append((clientid, will))
            if not saved.due_us:
                self.save(clientid, will)
        return found

    def _restored(self, clientid: str, saved: record.WillRecord) -> Will:
        broker = self._broker
        message = make_message(
            int(broker.now_us),
            saved.id_low,
            saved.topic,
            saved.payload,
            saved.qos,
            saved.retain,
            saved.property_bytes,
            clientid,
            saved.username,
        )
        message.expiry_s = saved.expiry_s
        client = ClientInfo(clientid, saved.username, saved.peername)
        client.mountpoint = saved.mountpoint
        client.listener, client.zone, client.client_attrs = saved.listener, saved.zone, saved.client_attrs
        # The rights that it carried are gone with it: what they said of its will is known.
        client.is_superuser = saved.granted == ALLOW
        will = Will(message, saved.delay_s, Authorizer(broker, client, self.options), client.peerhost)
        due_us = saved.due_us or int(broker.now_us) + saved.delay_s * 1_000_000
        # Never 0, which would say that the client is connected.
        will.due_us = max(1, int(broker.uptime_us) + due_us - int(broker.now_us))
        return will
