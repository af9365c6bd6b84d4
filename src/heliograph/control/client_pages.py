"""Pages of the clients of a node, and how many there are."""

import time
from collections.abc import Iterator, Sequence
from typing import Final

import msgspec

from heliograph.channel.client_listing import ANY, ClientListing, Columns, WantedClients, columns
from heliograph.channel.context import ChannelContext
from heliograph.control.checks import plain_address
from heliograph.control.proto_v1 import client_pages as proto
from heliograph.control.proto_v1.clients import ClientId
from heliograph.control.sessions import behind_since_us, held_session
from heliograph.rpc.codes import BAD_ARGUMENTS
from heliograph.rpc.methods import SLICE, Call, Method, RpcError

_SLICE_S: Final = 0.0001
_SLICE_CHARACTERS: Final = 256 << 10


def methods(context: ChannelContext) -> list[Method]:
    """What can be asked: `clients.page`, `clients.count`, `clients.columns`."""
    answers = ClientPages(context)
    return [
        proto.CLIENTS_PAGE.by_columns(answers.page),
        proto.CLIENTS_COUNT.by(answers.count),
        proto.CLIENTS_COLUMNS.by(answers.columns),
    ]


class ClientPages:
    """Answers what is asked of clients page by page; owned by the control socket."""

    def __init__(self, context: ChannelContext) -> None:
        self._context = context
        self._marks = ClientMarks(context)

    def page(self, args: proto.ClientsPage, call: Call) -> Iterator[Sequence[Columns]]:
        """Answer `clients.page`: clients with all columns; a page in the depth costs no more rows than the first."""
        wanted = wanted_clients(args.wanted)
        listing = ClientListing(self._context, wanted, self._marks.serial(args.before), args.limit, args.skip)
        return self._slices(listing)

    def count(self, args: proto.ClientsFilter, call: Call) -> Iterator[Sequence[proto.ClientsCount]]:
        """Answer `clients.count`, in one row."""
        wanted = wanted_clients(args)
        if wanted.is_anything:
            return iter([[proto.ClientsCount(len(self._context.sessions))]])
        return _counted(ClientListing(self._context, wanted, 0, 0, 0))

    async def columns(self, args: ClientId, call: Call) -> proto.ClientColumns:
        """Answer `clients.columns`: those of one client; a session that is on the disk only is read for it."""
        await held_session(self._context, args.clientid)
        entry = self._context.sessions.known.entry(args.clientid)
        assert entry is not None
        return _as_struct(self._marks.marked(columns(self._context, entry)))

    def _slices(self, listing: ClientListing) -> Iterator[Sequence[Columns]]:
        while not listing.is_done:
            rows: list[Columns] = []
            listing.characters = 0
            end = time.perf_counter() + _SLICE_S
            while not listing.is_done and len(rows) < SLICE and listing.characters < _SLICE_CHARACTERS:
                listing.next_rows(rows, min(8, SLICE - len(rows)))
                if time.perf_counter() >= end:
                    break
            yield [self._marks.marked(row) for row in rows]


class ClientMarks:
    """Where clients stand, as it is told: no number of an earlier process means another client; owned by what tells it.

    It is their serial number behind the time at which this was made.
    """

    def __init__(self, context: ChannelContext) -> None:
        self._sessions = context.sessions
        self._base = int(context.broker.now_us)

    def mark(self, serial: int) -> int:
        """Where the client of a session stands."""
        return serial + self._base

    def marked(self, row: Columns) -> Columns:
        """What is told of a client, with where it stands, and since when it is behind."""
        serial, clientid, life = row[:3]
        assert isinstance(serial, int)
        assert isinstance(clientid, str)
        assert isinstance(life, tuple)
        entry = self._sessions.known.entry(clientid)
        since_us = 0 if entry is None else behind_since_us(self._sessions, entry)
        return (self.mark(serial), clientid, (*life, since_us) if since_us else life, *row[3:])

    def serial(self, mark: int) -> int:
        """The serial number of the client that stands there; 0 for none if the mark is 0.

        Raises:
            RpcError: No client of this process has stood there.
        """
        if mark == 0:
            return 0
        serial = mark - self._base
        if not 0 < serial <= self._sessions.walk().before:
            raise RpcError(BAD_ARGUMENTS, f"{mark} is not the place of a client since this node started; begin anew")
        return serial


def _counted(listing: ClientListing) -> Iterator[Sequence[proto.ClientsCount]]:
    while not listing.is_done:
        end = time.perf_counter() + _SLICE_S
        while not listing.is_done and time.perf_counter() < end:
            listing.count_some()
        yield ()
    yield [proto.ClientsCount(int(listing.matched))]


def wanted_clients(args: proto.ClientsFilter) -> WantedClients:
    """Which clients a filter wants."""
    wanted = WantedClients()
    wanted.clientids = None if args.clientids is None else list(dict.fromkeys(args.clientids))
    wanted.usernames = None if args.usernames is None else set(args.usernames)
    wanted.clientid_like, wanted.username_like = args.clientid_like, args.username_like
    wanted.ip = plain_address(args.ip) if args.ip else ""
    wanted.listener, wanted.zone = args.listener, args.zone
    wanted.connected = _number(args.connected)
    wanted.clean_start = _number(args.clean_start)
    wanted.version = ANY if args.proto_ver is None else args.proto_ver
    wanted.created_from_us, wanted.created_until_us = args.created_from, args.created_until
    wanted.connected_from_us, wanted.connected_until_us = args.connected_from, args.connected_until
    wanted.queue_min, wanted.dropped_min = args.min_queue, args.min_dropped
    wanted.settle()
    return wanted


def _number(flag: bool | None) -> int:
    return ANY if flag is None else int(flag)


def _as_struct(row: Columns) -> proto.ClientColumns:
    return msgspec.convert(row, proto.ClientColumns)
