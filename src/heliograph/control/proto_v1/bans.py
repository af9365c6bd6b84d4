"""Bans: what is asked of them, and answers. Names are EMQX's; times are seconds since the epoch."""

from typing import Annotated

import msgspec

from heliograph.control.columns import SECOND_US, Fact, TimeS
from heliograph.rpc.asks import ACTS, STATE, Ask, ListAsk
from heliograph.rpc.methods import Args, NarrowingArgs


class BansWanted(NarrowingArgs, frozen=True):
    """Which bans to list, or to lift: those of one kind, or all; so many at the most, 0 for all.

    Attributes:
        by: Only those that this one decided.
        who: Only the bans of exactly this.
        skip: Pass over so many that are wanted.
    """

    kind: str = ""
    limit: int = 0
    by: str = ""
    who: str = ""
    skip: int = 0


class BanName(Args, frozen=True):
    """One ban.

    Attributes:
        kind: What `who` is: clientid, username, peerhost, clientid_re, username_re or peerhost_net.
    """

    kind: str
    who: str


class NewBan(Args, frozen=True):
    """A ban to make.

    Attributes:
        kind: As in `BanName`.
        by: Who decided it; the caller, if empty.
        until: Until when; None for ever.
        for_s: For so many seconds, instead.
        at: Since when; None for now.
        kicks: Whether a client that is banned by its id loses its connection and session.
        replaces: Whether it takes the place of such a ban, which is refused otherwise.
    """

    kind: str
    who: str
    reason: str = ""
    by: str = ""
    until: int | None = None
    for_s: int | None = None
    at: int | None = None
    kicks: bool = True
    replaces: bool = False


class ClientBans(Args, frozen=True):
    """Bans of clients by their ids.

    Attributes:
        by: Who decided it; the caller, if empty.
        until: Until when; None for ever.
        kicks: Whether they lose their connections and sessions.
    """

    clientids: list[str]
    reason: str = ""
    by: str = ""
    until: int | None = None
    kicks: bool = True


class ClientBansMade(msgspec.Struct, frozen=True):
    """What became of bans of clients.

    Attributes:
        banned: How many were made.
        held: How many clients were banned by their ids already.
        kicked: How many connections and sessions ended.
    """

    banned: int
    held: int
    kicked: int


class BanRow(msgspec.Struct, frozen=True):
    """A ban.

    Attributes:
        kind: What `who` is.
        by: Who decided it.
        at: Since when.
        until: Until when; None for ever.
    """

    kind: str = msgspec.field(name="as")
    who: str
    reason: str
    by: str
    at: TimeS
    until: Annotated[int | None, Fact(time_us=SECOND_US, unknown="infinity")]


class BanMade(msgspec.Struct, frozen=True):
    """A ban that was made, and whether the client's connection and session ended for it."""

    ban: BanRow
    was_kicked: bool


class BansCount(msgspec.Struct, frozen=True):
    """How many bans are wanted."""

    count: int


class BansCleared(msgspec.Struct, frozen=True):
    """How many bans were lifted."""

    count: int


BANNED_LIST = ListAsk("banned.list", BansWanted, BanRow, STATE, is_vital=True)
BANNED_COUNT = ListAsk("banned.count", BansWanted, BansCount, STATE)
BANNED_SHOW = Ask("banned.show", BanName, BanRow, STATE, is_vital=True)
BANNED_ADD = Ask("banned.add", NewBan, BanMade, STATE, ACTS, is_vital=True)
BANNED_ADD_CLIENTS = Ask("banned.add_clients", ClientBans, ClientBansMade, STATE, ACTS)
BANNED_DELETE = Ask("banned.delete", BanName, BanRow, STATE, ACTS, is_vital=True)
BANNED_CLEAR = Ask("banned.clear", BansWanted, BansCleared, STATE, ACTS)
