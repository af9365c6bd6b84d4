"""Clients as they are listed: which of them are wanted, and the columns of each.

It is compiled since many clients are looked at, and few listed: looking at one costs a tenth of a microsecond.
"""

from typing import Final

from mypy_extensions import i64

from heliograph.broker.client import ClientInfo
from heliograph.broker.drops import Drops
from heliograph.broker.walkable import Listed, ListWalk
from heliograph.channel.authorization import Authorizer
from heliograph.channel.context import ChannelContext
from heliograph.session.durable import DurableSession
from heliograph.session.known import Asleep
from heliograph.session.outbox import Outbox
from heliograph.session.session import Session
from heliograph.session.table import SessionTable

ANY: Final = -1  # a number that does not matter
CONNECTED: Final = 1
DISCONNECTED: Final = 0
_NO_LIMIT: Final = 0x7FFFFFFFFFFFFFFF
_LOOKED_AT_ONCE: Final = 64
_LONG_NAME: Final = 256  # a name of so many characters counts as another one that was looked at

Columns = tuple[object, ...]
_NO_DROPS: Final[Columns] = ()
_NO_TRAFFIC: Final[Columns] = ()


class WantedClients:
    """Which clients are wanted; what has its default does not matter. Times are microseconds since the epoch.

    Attributes:
        clientids: One of these; None for any.
        connected: `CONNECTED`, `DISCONNECTED` or `ANY`.
    """

    def __init__(self) -> None:
        self.clientids: list[str] | None = None
        self.usernames: set[str] | None = None
        self.clientid_like = ""
        self.username_like = ""
        self.ip = ""
        self.listener = ""
        self.zone = ""
        self.connected: i64 = ANY
        self.clean_start: i64 = ANY
        self.version: i64 = ANY
        self.created_from_us: i64 = 0
        self.created_until_us: i64 = 0
        self.connected_from_us: i64 = 0
        self.connected_until_us: i64 = 0
        self.queue_min: i64 = 0
        self.dropped_min: i64 = 0
        self.is_all = True  # no more than ids and a state of the connection has to be looked at
        self.is_anything = True  # nothing is asked for at all

    def settle(self) -> None:
        self.is_all = (
            self._is_anyone
            and self.created_from_us == 0
            and self.created_until_us == 0
            and self.queue_min == 0
            and self.dropped_min == 0
        )
        self.is_anything = self.is_all and self.clientids is None and not self.clientid_like and self.connected == ANY

    def matches(self, context: ChannelContext, entry: Listed) -> bool:
        """Whether what a walk met is wanted."""
        if isinstance(entry, Session):
            if self.clientid_like and self.clientid_like not in entry.clientid:
                return False
            if self.connected != ANY and (entry.sender.outbox is not None) != (self.connected == CONNECTED):
                return False
            return self.is_all or self._matches_session(context, entry)
        if not isinstance(entry, Asleep) or self.connected == CONNECTED:
            return False
        return self.is_all and (not self.clientid_like or self.clientid_like in entry.clientid)

    def _matches_session(self, context: ChannelContext, session: Session) -> bool:
        if session.sender.queued_count < self.queue_min or session.sender.dropped_count < self.dropped_min:
            return False
        if not _is_between(session.created_at_us, self.created_from_us, self.created_until_us):
            return False
        channel = context.channels.find(session.clientid)
        client = None if channel is None else channel.client_info()
        return self._is_anyone if client is None else self._matches_client(client)

    @property
    def _is_anyone(self) -> bool:
        """Whether nothing is asked for that is known of connected clients only."""
        return (
            self.usernames is None
            and not self.username_like
            and not self.ip
            and not self.listener
            and not self.zone
            and self.clean_start == ANY
            and self.version == ANY
            and self.connected_from_us == 0
            and self.connected_until_us == 0
        )

    def _matches_client(self, client: ClientInfo) -> bool:
        username = client.username
        return (
            (self.usernames is None or username in self.usernames)
            and (not self.username_like or (username is not None and self.username_like in username))
            and (not self.ip or client.peerhost == self.ip)
            and (not self.listener or client.listener == self.listener)
            and (not self.zone or client.zone == self.zone)
            and (self.clean_start == ANY or client.clean_start == (self.clean_start == 1))
            and (self.version == ANY or client.version == self.version)
            and _is_between(client.connected_at_us, self.connected_from_us, self.connected_until_us)
        )


class ClientRows:
    """Makes rows of clients, in the order of `control.proto_v1.clients.ClientRow`; owned by what answers with them.

    The first column of a row is the mark of the client, for cursors of pages: its serial number plus the time of the
    start, so one from before a restart matches no client.
    """

    def __init__(self, context: ChannelContext) -> None:
        self.context = context
        self._base_us: i64 = context.broker.now_us

    def mark(self, serial: i64) -> i64:
        return serial + self._base_us

    def serial(self, mark: i64) -> i64:
        """The serial number of the client that has the mark; 0 if no client of this process had it."""
        serial = mark - self._base_us
        return serial if 0 < serial <= self.context.sessions.walk(0).before else 0

    def row(self, entry: Listed) -> Columns:
        if isinstance(entry, Session):
            return self._of_session(entry)
        assert isinstance(entry, Asleep)
        behind_us = behind_since_us(self.context.sessions, entry)
        behind: object = behind_us if behind_us > 0 else None
        return (self.mark(entry.serial), behind, entry.clientid, (entry.expiry_s, None, entry.left_us, True, True))

    def _of_session(self, session: Session) -> Columns:
        channel = self.context.channels.find(session.clientid)
        client = None if channel is None else channel.client_info()
        behind_us = behind_since_us(self.context.sessions, session)
        behind: object = behind_us if behind_us > 0 else None
        left_us: object = session.left_us if session.left_us > 0 and client is None else None
        durable = isinstance(session, DurableSession)
        place = (self.mark(session.serial), behind, session.clientid)
        life = (session.expiry_interval_s, session.created_at_us, left_us, durable, False)
        drops = session.sender.drops
        dropped = _NO_DROPS if drops is None else _dropped(drops)
        if client is None:
            return (*place, life, _held(session), dropped)
        outbox = session.sender.outbox
        traffic = _NO_TRAFFIC if outbox is None else _traffic(outbox)
        return (*place, life, _held(session), dropped, _connection(client, session), traffic)


class ClientListing:
    """Goes through the clients of a node, the newest first; owned by what answers one request.

    Args:
        before: Only clients with lower numbers; 0 for all.
        count_max: So many are listed; 0 for all.

    Attributes:
        characters: Of names that were listed since it was set to 0.
        matched: How many wanted ones it came across, with those that it passed over.
    """

    def __init__(self, rows: ClientRows, wanted: WantedClients, before: i64, count_max: i64, skip: i64) -> None:
        context = rows.context
        self._rows = rows
        self._context = context
        self._wanted = wanted
        self._skip = skip
        self._left: i64 = count_max if count_max > 0 else i64(0x7FFFFFFF)
        self._walk: ListWalk[Listed] = context.sessions.walk(before)
        self._named = 0
        self.characters: i64 = 0
        self.matched: i64 = 0
        self.is_done = False
        if wanted.is_anything:
            self._walk.skip(skip)
            self._skip = 0

    def next_rows(self, rows: list[Columns], count_max: i64) -> None:
        """Look at some more clients, and add so many rows at the most; then look at `is_done`."""
        looked: i64 = 0
        while looked < _LOOKED_AT_ONCE and count_max > 0 and self._left > 0:
            entry = self._next()
            if entry is None:
                self.is_done = True
                return
            looked += 1 + self._length(entry) // _LONG_NAME
            if not self._wanted.matches(self._context, entry):
                continue
            self.matched += 1
            if self._skip > 0:
                self._skip -= 1
                continue
            rows.append(self._rows.row(entry))
            self.characters += self._length(entry)
            self._left -= 1
            count_max -= 1
        if self._left == 0:
            self.is_done = True

    def count_some(self) -> None:
        """Look at some more clients without telling any; then look at `is_done` and `matched`."""
        for _ in range(_LOOKED_AT_ONCE):
            entry = self._next()
            if entry is None:
                self.is_done = True
                return
            if self._wanted.matches(self._context, entry):
                self.matched += 1

    def _next(self) -> Listed | None:
        clientids = self._wanted.clientids
        if clientids is None:
            found = self._walk.take(1)
            return found[0] if found else None
        while self._named < len(clientids):
            entry = self._context.sessions.known.entry(clientids[self._named])
            self._named += 1
            if entry is not None and entry.serial < self._walk.before:
                return entry
        return None

    def _length(self, entry: Listed) -> i64:
        if isinstance(entry, Session):
            return len(entry.clientid)
        return len(entry.clientid) if isinstance(entry, Asleep) else 0


def behind_since_us(sessions: SessionTable, entry: Listed) -> i64:
    """Since when messages for a session may wait in storage; 0 if none are known to.

    A durable session in memory has all that was stored until then. Of one that is on the disk only it is when its
    client left. How many wait is not known: they would have to be read.
    """
    durability = sessions.durability
    if durability is None:
        return 0
    since_us: i64 = 0
    if isinstance(entry, Asleep):
        since_us = entry.left_us
    elif isinstance(entry, DurableSession) and entry.backlog.behind:
        since_us = max(entry.backlog.cursor.at_us, entry.created_at_us)
    else:
        return 0
    return since_us if since_us < durability.head_us else 0


def _held(session: Session) -> Columns:
    lost = isinstance(session, DurableSession) and session.has_lost
    sender, options, unreleased = session.sender, session.options, session.unreleased
    return (
        session.mountpoint,
        len(session.subscriptions),
        session.shared_count,
        None if lost else len(sender.window.deliveries),
        sender.window.size,
        sender.queued_count,
        options.max_mqueue_len,
        0 if sender.queue is None else sender.queue.size_bytes,
        options.max_mqueue_bytes,
        0 if unreleased is None else len(unreleased),
        options.max_awaiting_rel,
        0 if unreleased is None else unreleased.given_up_count,
    )


def _dropped(drops: Drops) -> Columns:
    return (drops.queue_full, drops.qos0_msg, drops.expired, drops.too_large, drops.not_authorized)


def _connection(client: ClientInfo, session: Session) -> Columns:
    access_check = session.sender.access_check
    subscriptions_max: i64 = -1
    is_authenticated = True
    if isinstance(access_check, Authorizer):
        subscriptions_max = access_check.options.max_subscriptions or _NO_LIMIT
        is_authenticated = access_check.options.listener.enable_authn
    return (
        client.username,
        client.peerhost,
        client.peerport,
        client.proto_name,
        client.version,
        client.keepalive_s,
        client.clean_start,
        client.connected_at_us,
        client.listener,
        client.zone,
        is_authenticated,
        subscriptions_max,
        client.is_superuser,
        dict(client.client_attrs) if client.client_attrs else None,
    )


def _traffic(outbox: Outbox) -> Columns:
    return (
        outbox.received_bytes,
        outbox.received_count,
        outbox.received_packets,
        outbox.received_qos0,
        outbox.received_qos1,
        outbox.received_qos2,
        outbox.sent_bytes,
        outbox.sent_count,
        outbox.sent_packets,
        outbox.sent_qos0,
        outbox.sent_qos1,
        outbox.sent_qos2,
        outbox.waiting_bytes,
    )


def _is_between(time_us: i64, from_us: i64, until_us: i64) -> bool:
    return (from_us == 0 or time_us >= from_us) and (until_us == 0 or time_us <= until_us)
