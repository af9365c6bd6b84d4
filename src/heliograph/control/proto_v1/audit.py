"""The audit log: what is asked of it, and its lines."""

import msgspec

from heliograph.rpc.asks import LISTED, ListAsk
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


AUDIT_LIST = ListAsk("audit.list", AuditWanted, AuditRow, LISTED)
