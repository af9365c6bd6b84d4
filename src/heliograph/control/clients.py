"""What can be asked of the clients of a node, connected or away: lists of them, page by page, one, and its end."""

import time
from collections.abc import Iterator, Sequence
from typing import Final

import msgspec

from heliograph.channel.client_listing import ANY, ClientListing, ClientRows, Columns, WantedClients
from heliograph.channel.context import ChannelContext
from heliograph.channel.operator_actions import kick
from heliograph.control.checks import plain_address
from heliograph.control.proto_v1 import clients as proto
from heliograph.control.refusals import ClientTroubles
from heliograph.control.sessions import held_session, no_client
from heliograph.rpc.codes import BAD_ARGUMENTS
from heliograph.rpc.methods import SLICE, Call, Method, RpcError

_SLICE_S: Final = 0.0001
_SLICE_CHARACTERS: Final = 256 << 10


def methods(context: ChannelContext, troubles: ClientTroubles) -> list[Method]:
    answers = ClientsAnswers(context, troubles)
    return [
        proto.CLIENTS_LIST.by_columns(answers.list),
        proto.CLIENTS_COUNT.by(answers.count),
        proto.CLIENTS_ROW.by(answers.row),
        proto.CLIENTS_SHOW.by(answers.show),
        proto.CLIENTS_KICK.by(answers.kick),
    ]


class ClientsAnswers:
    def __init__(self, context: ChannelContext, troubles: ClientTroubles) -> None:
        self._context = context
        self._troubles = troubles
        self._rows = ClientRows(context)

    def list(self, args: proto.ClientsPage, call: Call) -> Iterator[Sequence[Columns]]:
        """Those on the disk only among them; a deep page costs as many rows as the first."""
        wanted = wanted_clients(args.wanted)
        listing = ClientListing(self._rows, wanted, serial_of(self._rows, args.before), args.limit, args.skip)
        return self._slices(listing)

    def count(self, args: proto.ClientsFilter, call: Call) -> Iterator[Sequence[proto.ClientsCount]]:
        """In one row, after slices without one."""
        wanted = wanted_clients(args)
        if wanted.is_anything:
            return iter([[proto.ClientsCount(len(self._context.sessions))]])
        return _counted(ClientListing(self._rows, wanted, 0, 0, 0))

    async def row(self, args: proto.ClientId, call: Call) -> proto.ClientRow:
        """One client as it is listed; a session that is on the disk only is read for it."""
        await held_session(self._context, args.clientid)
        return self._row(args.clientid)

    async def show(self, args: proto.ClientId, call: Call) -> proto.ClientDetails:
        """One client with what no list has."""
        try:
            await held_session(self._context, args.clientid)
        except RpcError as error:
            raise RpcError(error.code, f"{error}{self._troubles.about_session(args.clientid)}") from None
        channel = self._context.channels.find(args.clientid)
        client = None if channel is None else channel.client_info()
        return proto.ClientDetails(
            self._row(args.clientid),
            sockname="" if client is None else client.sockname,
            common_name=None if client is None else client.common_name,
            subject=None if client is None else client.subject,
            will_topic=None if client is None else client.will_topic,
            will_is_delayed=self._context.sessions.wills.has_delayed(args.clientid),
            refused=tuple(self._troubles.sentences(args.clientid)),
        )

    async def kick(self, args: proto.ClientId, call: Call) -> proto.Kicked:
        """End the connection and the session, wherever it is."""
        if not self._context.sessions.knows(args.clientid):
            await held_session(self._context, args.clientid)  # it may be on the disk, and not discovered yet
        was_connected = self._context.channels.find(args.clientid) is not None
        self._context.begin_turn()
        if not kick(self._context, args.clientid):
            raise no_client(args.clientid)
        return proto.Kicked(args.clientid, was_connected)

    def _row(self, clientid: str) -> proto.ClientRow:
        entry = self._context.sessions.known.entry(clientid)
        assert entry is not None
        return msgspec.convert(self._rows.row(entry), proto.ClientRow)

    def _slices(self, listing: ClientListing) -> Iterator[Sequence[Columns]]:
        while not listing.is_done:
            rows: list[Columns] = []
            listing.characters = 0
            end = time.perf_counter() + _SLICE_S
            while not listing.is_done and len(rows) < SLICE and listing.characters < _SLICE_CHARACTERS:
                listing.next_rows(rows, min(8, SLICE - len(rows)))
                if time.perf_counter() >= end:
                    break
            yield rows


def serial_of(rows: ClientRows, mark: int) -> int:
    """The serial number of the client that has a mark; 0 if the mark is 0.

    Raises:
        RpcError: No client of this process had it.
    """
    serial = rows.serial(mark) if mark else 0
    if mark and not serial:
        raise RpcError(BAD_ARGUMENTS, f"{mark} is not the place of a client since this node started; begin again")
    return int(serial)


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


def _counted(listing: ClientListing) -> Iterator[Sequence[proto.ClientsCount]]:
    while not listing.is_done:
        end = time.perf_counter() + _SLICE_S
        while not listing.is_done and time.perf_counter() < end:
            listing.count_some()
        yield ()
    yield [proto.ClientsCount(int(listing.matched))]


def _number(flag: bool | None) -> int:
    return ANY if flag is None else int(flag)
