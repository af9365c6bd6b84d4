"""What can be asked of the bans of a node, and done with them."""

import asyncio
from collections.abc import Iterator, Sequence
from typing import Final

from heliograph.access.bans.ban_list import BanList
from heliograph.access.bans.ban_table import CLIENTID, KINDS, Ban, BanError
from heliograph.channel.context import ChannelContext
from heliograph.channel.operator_actions import kick
from heliograph.control.proto_v1 import bans as proto
from heliograph.control.slices import in_slices
from heliograph.rpc.methods import SLICE, Call, Method, RpcError

_NOT_STORED: Final = "until the node stops: the disk refuses to keep that"


def methods(bans: BanList, context: ChannelContext) -> list[Method]:
    answers = BansAnswers(bans, context)
    return [
        proto.BANNED_LIST.by(answers.list),
        proto.BANNED_COUNT.by(answers.count),
        proto.BANNED_SHOW.by(answers.show),
        proto.BANNED_ADD.by(answers.add),
        proto.BANNED_ADD_CLIENTS.by(answers.add_clients),
        proto.BANNED_DELETE.by(answers.delete),
        proto.BANNED_CLEAR.by(answers.clear),
    ]


class BansAnswers:
    def __init__(self, bans: BanList, context: ChannelContext) -> None:
        self._bans = bans
        self._context = context

    def list(self, args: proto.BansWanted, call: Call) -> Iterator[Sequence[proto.BanRow]]:
        _check_kind(args.kind)
        return in_slices(self._rows(args), lambda row: len(row.who) + len(row.reason))

    def count(self, args: proto.BansWanted, call: Call) -> Iterator[Sequence[proto.BansCount]]:
        """Answer `banned.count`, in one row."""
        _check_kind(args.kind)
        return in_slices(self._counted(args))

    def show(self, args: proto.BanName, call: Call) -> proto.BanRow:
        return _row(self._found(args))

    async def add(self, args: proto.NewBan, call: Call) -> proto.BanMade:
        """Answer `banned.add`: make a ban; a client that is banned by its id is kicked."""
        ban, was_kicked = self._add(args, call)
        if ban is None:
            raise RpcError(
                "already_exists", f"{args.kind} {args.who!r} is banned already; `ctl banned delete` lifts that ban"
            )
        await self._saved(f"{args.kind} {args.who!r} is banned {_NOT_STORED}")
        return proto.BanMade(_row(ban), was_kicked)

    async def add_clients(self, args: proto.ClientBans, call: Call) -> proto.ClientBansMade:
        """Answer `banned.add_clients`: ban clients by their ids, and kick them if that is wanted."""
        banned = held = kicked = 0
        for pieces in in_slices(self._each_added(args, call)):
            for is_new, was_kicked in pieces:
                banned, held, kicked = banned + is_new, held + (not is_new), kicked + was_kicked
            await asyncio.sleep(0)
        await self._saved(f"{'1 client is' if banned == 1 else f'{banned} clients are'} banned {_NOT_STORED}")
        return proto.ClientBansMade(banned, held, kicked)

    async def delete(self, args: proto.BanName, call: Call) -> proto.BanRow:
        ban = self._found(args)
        self._bans.remove(args.kind, args.who)
        await self._saved(f"{args.kind} {args.who!r} is not banned any more {_NOT_STORED}")
        return _row(ban)

    async def clear(self, args: proto.BansWanted, call: Call) -> proto.BansCleared:
        """Answer `banned.clear`: lift those that hold now, all or as wanted."""
        _check_kind(args.kind)
        count = 0
        for seen, ban in enumerate(self._bans.walk()):
            if _is_wanted(ban, args):
                count += self._bans.remove(ban.kind, ban.who)
                if count == args.limit:
                    break
            if seen % SLICE == 0:
                await asyncio.sleep(0)
        await self._saved(f"{'1 ban is' if count == 1 else f'{count} bans are'} lifted {_NOT_STORED}")
        return proto.BansCleared(count)

    def _each_added(self, args: proto.ClientBans, call: Call) -> Iterator[tuple[bool, bool]]:
        for clientid in args.clientids:
            new = proto.NewBan(CLIENTID, clientid, args.reason, args.by, args.until, kicks=args.kicks)
            ban, was_kicked = self._add(new, call)
            yield ban is not None, was_kicked

    def _add(self, args: proto.NewBan, call: Call) -> tuple[Ban | None, bool]:
        """A ban that is made, None where there is one already; and whether its client was kicked.

        Raises:
            RpcError: The ban is not valid, or there is no room for it.
        """
        self._context.begin_turn()
        now_s = int(self._context.broker.now_us) // 1_000_000
        until_s = args.until if args.for_s is None else now_s + args.for_s
        at_s = now_s if args.at is None else args.at
        ban = Ban(args.kind, args.who, args.reason, args.by or call.who, at_s, until_s)
        try:
            held = None if args.replaces else self._bans.find(args.kind, args.who)
            if held is None and not self._bans.add(ban, args.replaces):
                raise RpcError(
                    "bans_full", f"there is no room for another ban; {len(self._bans)} are held (banned.max_entries)"
                )
        except BanError as error:
            raise _invalid(str(error)) from error
        if held is not None:
            return None, False
        is_client = args.kicks and args.kind == CLIENTID and self._context.sessions.knows(args.who)
        return ban, is_client and kick(self._context, args.who)

    async def _saved(self, done: str) -> None:
        """Wait until what was done is on the disk.

        Raises:
            RpcError: It is not; the text begins with what holds all the same.
        """
        error = await self._bans.saved()
        if error is not None:
            raise RpcError("ban_not_stored", f"{done}: {error}")

    def _rows(self, wanted: proto.BansWanted) -> Iterator[proto.BanRow | None]:
        count = 0
        for ban in self._bans.walk():
            if not _is_wanted(ban, wanted):
                yield None
                continue
            count += 1
            yield _row(ban) if count > wanted.skip else None
            if count == wanted.limit + wanted.skip and wanted.limit:
                return

    def _counted(self, wanted: proto.BansWanted) -> Iterator[proto.BansCount | None]:
        count = 0
        for ban in self._bans.walk():
            count += _is_wanted(ban, wanted)
            yield None
        yield proto.BansCount(count)

    def _found(self, name: proto.BanName) -> Ban:
        try:
            ban = self._bans.find(name.kind, name.who)
        except BanError as error:
            raise _invalid(str(error)) from error
        if ban is None:
            raise RpcError(
                "not_found", f"{name.kind} {name.who!r} is not banned; `ctl banned list` shows the bans that hold"
            )
        return ban


def _row(ban: Ban) -> proto.BanRow:
    return proto.BanRow(ban.kind, ban.who, ban.reason, ban.by, ban.at_s, ban.until_s)


def _is_wanted(ban: Ban, wanted: proto.BansWanted) -> bool:
    return wanted.kind in ("", ban.kind) and wanted.by in ("", ban.by) and wanted.who in ("", ban.who)


def _check_kind(kind: str) -> None:
    if kind and kind not in KINDS:
        raise _invalid(f"{kind!r} is no kind of ban; {', '.join(KINDS)} are valid")


def _invalid(message: str) -> RpcError:
    return RpcError("ban_invalid", message)
