"""The clients of a node that have most of something, and what became of the connections of one."""

import heapq
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

from heliograph.broker.walkable import Listed
from heliograph.channel.client_listing import ClientRows, Columns, WantedClients, behind_since_us
from heliograph.channel.context import ChannelContext
from heliograph.control.clients import serial_of, wanted_clients
from heliograph.control.proto_v1 import clients as proto
from heliograph.control.slices import in_slices
from heliograph.events.disconnects import DisconnectHistory
from heliograph.rpc.codes import BAD_ARGUMENTS
from heliograph.rpc.methods import SLICE, Call, Method, RpcError
from heliograph.session.known import Asleep
from heliograph.session.session import Session

LIMIT_MAX: Final = 1_001  # a page of a thousand, and whether there are more
_SLICE_S: Final = 0.0001
_LOOKED_AT_ONCE: Final = 32
_ENDLESS: Final = 1 << 62
_FAR_FUTURE_US: Final = 1 << 52  # in 2112


_BEHIND: Final = "behind"
_RANKS: Final[Mapping[str, Callable[[Session], int]]] = {
    "backlog": lambda session: int(session.sender.queued_count),
    "backlog_bytes": lambda session: 0 if session.sender.queue is None else int(session.sender.queue.size_bytes),
    "drops": lambda session: int(session.sender.dropped_count),
    "inflight": lambda session: len(session.sender.window.deliveries),
    "subscriptions": lambda session: len(session.subscriptions),
    "unsent_bytes": lambda session: 0 if session.sender.outbox is None else int(session.sender.outbox.waiting_bytes),
}

Ranked = tuple[int, int, Listed]  # what it has, its serial number, which no other has
RankedColumns = tuple[int, int, Columns | None]


def methods(context: ChannelContext, disconnects: DisconnectHistory) -> list[Method]:
    answers = ClientRanks(context, disconnects)
    return [
        proto.CLIENTS_TOP.by_columns(answers.top),
        proto.CLIENTS_DISCONNECTS.by(answers.disconnects),
    ]


class ClientRanks:
    def __init__(self, context: ChannelContext, disconnects: DisconnectHistory) -> None:
        self._context = context
        self._disconnects = disconnects
        self._rows = ClientRows(context)

    def top(self, args: proto.TopClients, call: Call) -> Iterator[Sequence[RankedColumns]]:
        """Answer `clients.top`: every session is looked at, in pieces, for any page."""
        if args.by != _BEHIND and args.by not in _RANKS:
            raise RpcError(BAD_ARGUMENTS, f"by: found {args.by[:100]!r}; valid are {_BEHIND}, {', '.join(_RANKS)}")
        if not 1 <= args.limit <= LIMIT_MAX:
            raise RpcError(BAD_ARGUMENTS, f"limit is {args.limit}; 1 to {LIMIT_MAX} are valid")
        if (args.below_count > 0) != (args.below_at > 0):
            raise RpcError(BAD_ARGUMENTS, "below_count and below_at: both are given, or none")
        below = args.below_count or _ENDLESS, serial_of(self._rows, args.below_at)
        return self._top(wanted_clients(args.wanted), args.by, args.limit, below)

    def disconnects(self, args: proto.DisconnectsWanted, call: Call) -> Iterator[Sequence[proto.DisconnectRow]]:
        if args.limit < 1 or args.before < 0:
            raise RpcError(BAD_ARGUMENTS, f"limit is {args.limit}, before is {args.before}; 1, 0 or more are valid")
        return in_slices(self._disconnected(args))

    def _top(
        self, wanted: WantedClients, by: str, limit: int, below: tuple[int, int]
    ) -> Iterator[Sequence[RankedColumns]]:
        most: list[Ranked] = []  # a heap, the least of them first
        for _ in self._looked(wanted, by, limit, below, most):
            yield ()
        most.sort(reverse=True)
        yield ()
        for begin in range(0, len(most), SLICE):
            yield [self._ranked(*one) for one in most[begin : begin + SLICE]]

    def _ranked(self, count: int, serial: int, entry: Listed) -> RankedColumns:
        """A row; it says where the list goes on also if the session has ended, or has fallen asleep, meanwhile."""
        is_there = entry.serial == serial
        row = self._rows.row(entry) if is_there else None
        return count, int(self._rows.mark(serial)), row

    def _looked(
        self, wanted: WantedClients, by: str, limit: int, below: tuple[int, int], most: list[Ranked]
    ) -> Iterator[None]:
        """Look at all sessions, with a yield after each turn's share.

        Args:
            below: What the one before the wanted ones has, and its serial number.
            most: Gets those with most.
        """
        count_max, before = below
        rank = _RANKS.get(by, self._behind)
        is_behind = by == _BEHIND  # what is known of sessions that are on the disk only
        context, named = self._context, None if wanted.clientids is None else set(wanted.clientids)
        walk = context.sessions.walk(0)
        end = time.perf_counter() + _SLICE_S
        while entries := walk.take(_LOOKED_AT_ONCE):
            for entry in entries:
                if isinstance(entry, Session):
                    count = rank(entry)
                elif is_behind and isinstance(entry, Asleep):
                    count = self._behind(entry)
                else:
                    continue
                if count == 0 or count > count_max or (len(most) == limit and count <= most[0][0]):
                    continue
                if count == count_max and entry.serial >= before:
                    continue
                if (named is not None and entry.clientid not in named) or not wanted.matches(context, entry):
                    continue
                (heapq.heappush if len(most) < limit else heapq.heappushpop)(most, (count, int(entry.serial), entry))
            if time.perf_counter() >= end:
                yield
                end = time.perf_counter() + _SLICE_S

    def _behind(self, entry: Listed) -> int:
        """The higher, the longer a session is behind."""
        since_us = behind_since_us(self._context.sessions, entry)
        return _FAR_FUTURE_US - since_us if since_us else 0

    def _disconnected(self, wanted: proto.DisconnectsWanted) -> Iterator[proto.DisconnectRow | None]:
        newest: deque[proto.DisconnectRow] = deque(maxlen=wanted.limit)
        for number, one in self._disconnects.of(wanted.clientid):
            if wanted.before and number >= wanted.before:
                break
            if one is not None:
                newest.append(
                    proto.DisconnectRow(
                        one.at_us, one.reason, one.connected_at_us, one.peername, one.listener, one.version, number
                    )
                )
            yield None
        yield from reversed(newest)
