"""Why a client is kept out, or was refused something: its ban, and what is remembered of its attempts, in words."""

from collections.abc import Sequence
from datetime import UTC, datetime

from heliograph.access.bans.ban_list import BanList
from heliograph.access.bans.ban_table import Ban
from heliograph.channel.context import ChannelContext
from heliograph.channel.refusals import CONNECT, SUBSCRIBE, Attempt
from heliograph.control.proto_v1 import clients as proto
from heliograph.control.proto_v1.bans import BanRow
from heliograph.mqtt import reason_codes as rc
from heliograph.mqtt.topic import bare_filter, topic_matches
from heliograph.rpc.methods import Call, Method


class ClientTroubles:
    """What is known of refused clients; asked by every method that says why one is silent."""

    def __init__(self, bans: BanList, context: ChannelContext) -> None:
        self._bans = bans
        self._context = context

    def methods(self) -> list[Method]:
        return [proto.CLIENTS_REFUSALS.by(self.answer)]

    def answer(self, args: proto.ClientId, call: Call) -> proto.ClientRefusals:
        """Answer `clients.refusals`, also of a client that has no session."""
        attempts = self._context.refused.of(args.clientid)
        ban = self._ban(args.clientid, attempts)
        row = None if ban is None else BanRow(ban.kind, ban.who, ban.reason, ban.by, ban.at_s, ban.until_s)
        return proto.ClientRefusals(row, [_row(one) for one in attempts], _sentences(ban, attempts))

    def sentences(self, clientid: str) -> list[str]:
        attempts = self._context.refused.of(clientid)
        return _sentences(self._ban(clientid, attempts), attempts)

    def about_session(self, clientid: str) -> str:
        """Why a client has no session, or is not connected, as an end of a sentence; empty where that is not known."""
        attempts = [one for one in self._context.refused.of(clientid) if one.what == CONNECT]
        found = _sentences(self._ban(clientid, attempts), attempts)
        return f": {'; '.join(found)}" if found else ""

    def about_topic(self, clientid: str, topic: str) -> str:
        """Why a client has no subscription to a topic, as an end of a sentence; empty where that is not known."""
        attempts = self._context.refused.of(clientid)
        found = [one for one in attempts if one.what == SUBSCRIBE and topic_matches(topic, bare_filter(one.about))]
        return f": {'; '.join(map(_sentence, found))}" if found else ""

    def _ban(self, clientid: str, attempts: Sequence[Attempt]) -> Ban | None:
        """The ban that holds for a client id; or for the address or user name with which it was refused for one."""
        ban = self._bans.check(clientid, None, "")
        banned = rc.name_of(rc.BANNED)
        for one in attempts:
            if ban is None and one.what == CONNECT and one.reason == banned:
                ban = self._bans.check(clientid, one.about or None, one.peerhost)
        return ban


def _sentences(ban: Ban | None, attempts: Sequence[Attempt]) -> list[str]:
    found = [] if ban is None else [_of_ban(ban)]
    return found + [_sentence(one) for one in attempts]


def _of_ban(ban: Ban) -> str:
    until = "" if ban.until_s is None else f" until {_time(ban.until_s)}"
    by = f" by {ban.by}" if ban.by else ""
    why = f" ({ban.reason})" if ban.reason else ""
    return f"it is banned as {ban.kind} {ban.who!r} since {_time(ban.at_s)}{until}{by}{why}"


def _sentence(one: Attempt) -> str:
    times = "" if one.count == 1 else f" {int(one.count)} times"
    last = "at" if one.count == 1 else "last at"
    if one.what == SUBSCRIBE:
        what = f"its SUBSCRIBE to {one.about!r}"
    else:
        what = f"its CONNECT{f' as user {one.about!r}' if one.about else ''} from {one.peerhost}"
    return f"{what} was refused{times}, {last} {_time(int(one.last_us) // 1_000_000)}: {one.reason}"


def _row(one: Attempt) -> proto.RefusedAttempt:
    times = int(one.last_us), int(one.first_us)
    return proto.RefusedAttempt(*times, one.what, one.reason, one.about, one.peerhost, int(one.count))


def _time(at_s: int) -> str:
    return f"{datetime.fromtimestamp(at_s, UTC):%Y-%m-%dT%H:%M:%SZ}"
