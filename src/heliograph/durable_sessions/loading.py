"""Reading durable sessions back, each when its client comes."""

import logging
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Final

from heliograph.broker.subscription import Subscription
from heliograph.durable_sessions import record
from heliograph.durable_sessions.inflight import LostInflight
from heliograph.durable_sessions.journal import SessionJournal
from heliograph.mqtt.topic import EXCLUSIVE_PREFIX, bare_filter, split_share
from heliograph.session.durability import Durability, SavedSubscription
from heliograph.session.durable import DurableSession
from heliograph.session.options import SessionOptions
from heliograph.session.table import EXPIRY_NEVER, SessionTable

_log = logging.getLogger(__name__)

_DECODED_AT_ONCE: Final = 64  # subscriptions: 0.3 ms


class SessionLoader:
    """Makes sessions of records, with `options` until their clients come; owned by `DurableSessions`."""

    def __init__(
        self,
        table: SessionTable,
        durability: Durability,
        journal: SessionJournal,
        inflight: LostInflight,
        options: SessionOptions,
    ) -> None:
        self._table = table
        self._broker = table.broker
        self._durability = durability
        self._journal = journal
        self._inflight = inflight
        self.options = options
        self.began_us = int(self._broker.now_us)
        self.awoken_count = 0

    def read(self, clientid: str, value: bytes) -> record.SessionRecord | None:
        """A session's record; None if it cannot be read. A client that was connected left when the broker did."""
        try:
            saved = record.decode_session(value)
        except (ValueError, TypeError) as error:
            _log.error("the saved session of client %.200r cannot be read: %s", clientid, error)
            return None
        return saved if saved.left_us else saved._replace(left_us=self.began_us, qos0_after_us=self.began_us)

    def load(self, clientid: str) -> DurableSession | None:
        """Read a session with all that belongs to it; None if there is none, or its time is over."""
        for _ in self.read_session(clientid):
            pass
        session = self._table.held(clientid)
        return session if isinstance(session, DurableSession) else None

    def awaken(self, clientid: str) -> DurableSession | None:
        """Read a session for its client, at once; otherwise as `load`."""
        session = self.load(clientid)
        if session is not None:
            self.awoken_count += 1
        return session

    def read_for_client(self, clientid: str, clean_start: bool) -> Iterator[None]:
        """Read what a client that comes needs of its session, in steps."""
        if self._table.held(clientid) is None:
            yield from self.read_session(clientid)
            self.awoken_count += self._table.held(clientid) is not None
        session = self._table.held(clientid)
        if isinstance(session, DurableSession) and session.has_lost and not clean_start:
            yield from self._inflight.read(session)

    def read_session(self, clientid: str) -> Iterator[None]:
        """Read a session with all that belongs to it, a page in each step, and put it into the table.

        Nothing of a session changes that lies on the disk only, but that it ends, or is read by someone else first.
        """
        key = record.session_key(clientid)
        value = self._journal.get(key)
        saved = None if value is None else self.read(clientid, value)
        if saved is None or is_over(saved, self._broker.now_us):
            return
        was_known = self._table.knows(clientid)
        subscriptions: dict[bytes, bytes] = {}
        yield from self._journal.read_into(subscriptions, record.subscription_key(clientid, ""))
        taken: dict[bytes, bytes] = {}
        yield from self._journal.read_into(taken, record.taken_prefix(clientid))
        has_orphans = next(self._journal.scan(record.orphan_prefix(clientid)), None) is not None
        # Its time may be over by now: where that was reported already, its records may be there for some turns still.
        has_ended = is_over(saved, self._broker.now_us) or (was_known and not self._table.knows(clientid))
        if not has_ended and self._table.held(clientid) is None and self._journal.get(key) is not None:
            self._put(clientid, saved, subscriptions, taken, has_orphans)

    def saved_subscriptions(self, clientid: str) -> Iterator[list[SavedSubscription]]:
        """The subscriptions of a session that lies on the disk only, a page in each step; it stays there."""
        found: dict[bytes, bytes] = {}
        for _ in self._journal.read_into(found, record.subscription_key(clientid, "")):
            yield _decoded(found)
            found.clear()
        yield _decoded(found)

    def all_saved_subscriptions(self, part: str = "") -> Iterator[list[tuple[str, SavedSubscription]]]:
        """The subscriptions of all durable sessions, with the clients that they are of, some in each step.

        Args:
            part: Those whose filters do not have this text are left out, if that is seen without decoding them.
        """
        found: dict[bytes, bytes] = {}
        for _ in self._journal.read_into(found, record.SUBSCRIPTION):
            yield from _parts(found, part)
            found.clear()
        yield from _parts(found, part)

    def _put(
        self,
        clientid: str,
        saved: record.SessionRecord,
        subscriptions: Mapping[bytes, bytes],
        taken: Mapping[bytes, bytes],
        has_orphans: bool,
    ) -> None:
        session = self._make(clientid, saved)
        if saved.inflight:
            self._inflight.records[clientid] = saved.inflight
            session.has_lost = True
        if taken or has_orphans:
            awaiting = session.durable_awaiting_rel()
            awaiting.has_orphans = has_orphans
            for key, value in taken.items():
                record.decode_taken(value)  # an invalid record is reported now
                packet_id = int.from_bytes(record.owner(key)[1], "big")
                awaiting.restore(packet_id, self._broker.uptime_us)
        self._subscribe(session, subscriptions)
        self._table.restore(session, max(0, self._broker.now_us - saved.left_us))
        if saved.left_us == self.began_us:
            session.backlog.touch()  # when its client left is to be saved

    def _make(self, clientid: str, saved: record.SessionRecord) -> DurableSession:
        session = DurableSession(clientid, self._broker, self.options, saved.created_at_us, self._durability)
        session.expiry_interval_s = saved.expiry_s
        session.mountpoint = saved.mountpoint
        if saved.mountpoint:
            self._table.has_mountpoints = True
        session.owner = saved.owner
        session.left_us = saved.left_us
        session.backlog.qos0_after_us = saved.qos0_after_us
        session.backlog.cursor.at_us = saved.cursor_us
        session.backlog.behind = True
        session.parked = True
        for high, low, qos in saved.assigned:
            session.backlog.cursor.note(high, low, qos)
        session.sender.window.last_id = saved.last_packet_id
        return session

    def _subscribe(self, session: DurableSession, subscriptions: Mapping[bytes, bytes]) -> None:
        self._broker.router.parked_count -= len(subscriptions)  # they were counted where they lay
        for key, value in subscriptions.items():
            name = record.owner(key)[1].decode()
            try:
                saved = record.decode_subscription(value)
            except (ValueError, TypeError) as error:
                _log.error("client %.200r's subscription to %.200r cannot be read: %s", session.clientid, name, error)
                continue
            topic_filter = session.mountpoint + bare_filter(name)
            if name.startswith(EXCLUSIVE_PREFIX):
                self._broker.exclusive.take(topic_filter, session)
            options = saved.qos, saved.no_local, saved.retain_as_published, saved.retain_handling, saved.subscription_id
            subscription = Subscription(session, topic_filter, *options, split_share(name)[0])
            subscription.is_new = False
            session.restore(name, subscription, saved.beginning)


def is_over(saved: record.SessionRecord, now_us: int) -> bool:
    """Whether a session ended while it was on the disk only."""
    return saved.expiry_s != EXPIRY_NEVER and saved.left_us + saved.expiry_s * 1_000_000 <= now_us


def _decoded(found: Mapping[bytes, bytes]) -> list[SavedSubscription]:
    return [one for _, one in _owned(found)]


def _parts(found: dict[bytes, bytes], part: str) -> Iterator[list[tuple[str, SavedSubscription]]]:
    """Those of a page that may have a text in their filters, decoded a few at a time."""
    if part:
        text = part.encode()
        found = {key: value for key, value in found.items() if text in key or record.has_mountpoint(value)}
    keys = list(found)
    for begin in range(0, len(keys), _DECODED_AT_ONCE):
        yield _owned({key: found[key] for key in keys[begin : begin + _DECODED_AT_ONCE]})
    yield []


def _owned(found: Mapping[bytes, bytes]) -> list[tuple[str, SavedSubscription]]:
    """Subscriptions and whose they are; one that cannot be read is left out, and reported when its client comes."""
    decoded = []
    for key, value in found.items():
        with suppress(ValueError, TypeError):
            saved = record.decode_subscription(value)
            options = saved.qos, saved.no_local, saved.retain_as_published, saved.retain_handling, saved.subscription_id
            clientid, name = record.owner(key)
            decoded.append((clientid, SavedSubscription(name.decode(), saved.mountpoint, *options, saved.made_us)))
    return decoded
