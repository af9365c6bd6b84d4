"""The audit log: what is asked of it, and its lines."""

import msgspec

from heliograph.rpc.asks import LISTED, ONE, Ask, ListAsk
from heliograph.rpc.methods import Args


class AuditWanted(Args, frozen=True):
    """Which lines are wanted; what is empty or None allows all.

    Attributes:
        who: A part of the name of the caller.
        method: What the method begins with.
        is_done: Those that were carried out, or those that were not.
        since: The first time, as ISO 8601 in UTC with milliseconds.
        until: The last one.
    """

    who: str = ""
    method: str = ""
    is_done: bool | None = None
    since: str = ""
    until: str = ""


class AuditRow(msgspec.Struct, frozen=True):
    """One line.

    Attributes:
        at: When, as ISO 8601 in UTC.
        who: The caller; for one of the HTTP API with the id of the request.
        origin: From where.
        method: What was asked for.
        outcome: `done`, or the code of what went wrong.
        args: What it was asked with, without secrets, as JSON.
        message: What went wrong, for people.
        missing: How many lines could not be written before this one.
    """

    at: str
    who: str
    origin: str
    method: str
    outcome: str
    args: str
    message: str
    missing: int


class RefusedCall(Args, frozen=True):
    """A request that the HTTP API has refused, or many of them.

    Attributes:
        request: Its method and path.
        code: The code of the answer.
        count: How many it were; above 1 for those that have no line of their own.
        addresses: Some of the addresses that those came from.
    """

    request: str
    code: str
    message: str
    count: int = 1
    addresses: tuple[str, ...] = ()


class RefusedNoted(msgspec.Struct, frozen=True):
    """The line is written."""


AUDIT_LIST = ListAsk("audit.list", AuditWanted, AuditRow, LISTED)
# It changes nothing, and is in the audit log as the request that was refused.
AUDIT_REFUSED = Ask("audit.refused", RefusedCall, RefusedNoted, ONE, is_vital=True)
