"""Bans: what is asked of them, and answers. Names are EMQX's; times are seconds since the epoch."""

import msgspec

from heliograph.rpc.methods import Args


class BansWanted(Args, frozen=True):
    """Which bans to list: those of one kind, or all; so many at the most, 0 for all."""

    kind: str = ""
    limit: int = 0


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
        by: Who decided it; who asks, if empty.
        until: Until when; None for ever.
        for_s: For so many seconds, instead.
    """

    kind: str
    who: str
    reason: str = ""
    by: str = ""
    until: int | None = None
    for_s: int | None = None


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
    at: int
    until: int | None


class BanMade(msgspec.Struct, frozen=True):
    """A ban that was made, and whether the client's connection and session ended for it."""

    ban: BanRow
    was_kicked: bool


class BansCleared(msgspec.Struct, frozen=True):
    """How many bans were lifted."""

    count: int
