"""What can be asked of the bans of a node, and done with them."""

import asyncio
from collections.abc import Iterator, Sequence

from heliograph.access.ban_table import CLIENTID, KINDS, Ban, BanError
from heliograph.access.banned import BanList
from heliograph.channel.context import ChannelContext
from heliograph.channel.kicking import kick
from heliograph.control.proto_v1 import bans as proto
from heliograph.control.slices import in_slices
from heliograph.rpc.methods import SLICE, Call, Method, NoArgs, RpcError


def methods(bans: BanList, context: ChannelContext) -> list[Method]:
    """What can be asked: `banned.list`, `banned.show`, `banned.add`, `banned.delete`, `banned.clear`."""
    answers = BansAnswers(bans, context)
    return [
        Method("banned.list", proto.BansWanted, answers.list),
        Method("banned.show", proto.BanName, answers.show),
        Method("banned.add", proto.NewBan, answers.add, is_action=True),
        Method("banned.delete", proto.BanName, answers.delete, is_action=True),
        Method("banned.clear", NoArgs, answers.clear, is_action=True),
    ]


class BansAnswers:
    """Answers what is asked of bans; owned by the control socket."""

    def __init__(self, bans: BanList, context: ChannelContext) -> None:
        self._bans = bans
        self._context = context

    def list(self, args: proto.BansWanted, call: Call) -> Iterator[Sequence[proto.BanRow]]:
        """Answer `banned.list`: those that hold."""
        if args.kind and args.kind not in KINDS:
            raise _invalid(f"{args.kind!r} is no kind of ban; {', '.join(KINDS)} are valid")
        return in_slices(self._rows(args), lambda row: len(row.who) + len(row.reason))

    def show(self, args: proto.BanName, call: Call) -> proto.BanRow:
        """Answer `banned.show`: one ban."""
        return _row(self._found(args))

    def add(self, args: proto.NewBan, call: Call) -> proto.BanMade:
        """Answer `banned.add`: make a ban; a client that is banned by its id is kicked."""
        self._context.begin_turn()
        now_s = int(self._context.broker.now_us) // 1_000_000
        until_s = args.until if args.for_s is None else now_s + args.for_s
        ban = Ban(args.kind, args.who, args.reason, args.by or call.who, now_s, until_s)
        try:
            held = self._bans.find(args.kind, args.who)
            if held is None and not self._bans.add(ban):
                raise RpcError(
                    "bans_full", f"there is no room for another ban; {len(self._bans)} are held (banned.max_entries)"
                )
        except BanError as error:
            raise _invalid(str(error)) from error
        if held is not None:
            raise RpcError(
                "already_exists", f"{args.kind} {args.who!r} is banned already; `ctl banned delete` lifts that ban"
            )
        is_client = args.kind == CLIENTID and self._context.sessions.knows(args.who)
        return proto.BanMade(_row(ban), is_client and kick(self._context, args.who))

    def delete(self, args: proto.BanName, call: Call) -> proto.BanRow:
        """Answer `banned.delete`: lift a ban."""
        ban = self._found(args)
        self._bans.remove(args.kind, args.who)
        return _row(ban)

    async def clear(self, args: NoArgs, call: Call) -> proto.BansCleared:
        """Answer `banned.clear`: lift all that hold now."""
        count = 0
        for ban in self._bans.walk():
            count += self._bans.remove(ban.kind, ban.who)
            if count % SLICE == 0:
                await asyncio.sleep(0)
        return proto.BansCleared(count)

    def _rows(self, wanted: proto.BansWanted) -> Iterator[proto.BanRow | None]:
        count = 0
        for ban in self._bans.walk():
            if wanted.kind and ban.kind != wanted.kind:
                yield None
                continue
            yield _row(ban)
            count += 1
            if count == wanted.limit:
                return

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


def _invalid(message: str) -> RpcError:
    return RpcError("ban_invalid", message)
