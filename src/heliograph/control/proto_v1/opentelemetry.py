"""What an OpenTelemetry collector gets: spans and log entries that wait, and the lists of what is always traced."""

import msgspec

from heliograph.rpc.asks import ACTS, ONE, STATE, Ask, ListAsk
from heliograph.rpc.methods import Args


class WaitingArgs(Args, frozen=True):
    """`opentelemetry.spans` and `opentelemetry.logs`.

    Attributes:
        after: The number of the newest item that the asker has, 0 for none; the node forgets those up to it.
        limit: How many at the most.
    """

    after: int = 0
    limit: int = 512


class SpanRow(msgspec.Struct, frozen=True, array_like=True):
    """A row of `opentelemetry.spans`.

    Attributes:
        number: Spans are numbered as they come; the numbers that are missing were dropped.
        trace_id: 32 hexadecimal digits.
        span_id: 16 hexadecimal digits.
        parent_id: 16 hexadecimal digits; empty for none.
        kind: 1 internal, 2 server, 3 client, 4 producer, 5 consumer.
        started_ns: Nanoseconds since the epoch.
        error: What went wrong; empty where nothing did.
        state: The `tracestate` of its trace.
    """

    number: int
    trace_id: str
    span_id: str
    parent_id: str
    name: str
    kind: int
    started_ns: int
    ended_ns: int
    attributes: dict[str, str | int | bool | list[str]]
    error: str = ""
    state: str = ""


class LogRow(msgspec.Struct, frozen=True, array_like=True):
    """A row of `opentelemetry.logs`.

    Attributes:
        number: Entries are numbered as they come.
        at_ns: Nanoseconds since the epoch.
        level: Its severity: 10 debug, 20 info, 25 notice, 30 warning, 40 error, 50 critical, and above.
        logger: Which module wrote it.
        error: The exception that it is about; empty for none.
    """

    number: int
    at_ns: int
    level: int
    logger: str
    text: str
    error: str = ""


class WhitelistArgs(Args, frozen=True):
    """`opentelemetry.whitelist`: which list.

    Attributes:
        kind: `clientid` or `topic`.
    """

    kind: str


class NewWhitelistArgs(Args, frozen=True):
    """`opentelemetry.set_whitelist`: what a list has from now on.

    Attributes:
        kind: `clientid` or `topic`.
        values: Client ids, or topic filters.
    """

    kind: str
    values: list[str]


class WhitelistSet(msgspec.Struct, frozen=True):
    """The answer of `opentelemetry.set_whitelist`."""

    kind: str
    count: int


class ExportArgs(Args, frozen=True):
    """`opentelemetry.exported`: how the export goes, from the process that does it.

    Attributes:
        fault: Why the collector takes nothing now; empty while it does.
        sent: Spans, points of metrics and log entries that the collector has taken since that process began.
        dropped: Those that it did not take, and that were given up.
    """

    fault: str = ""
    sent: int = 0
    dropped: int = 0


class ExportNoted(msgspec.Struct, frozen=True):
    """The answer of `opentelemetry.exported`."""


OPENTELEMETRY_SPANS = ListAsk("opentelemetry.spans", WaitingArgs, SpanRow, ONE)
OPENTELEMETRY_LOGS = ListAsk("opentelemetry.logs", WaitingArgs, LogRow, ONE)
OPENTELEMETRY_WHITELIST = ListAsk("opentelemetry.whitelist", WhitelistArgs, str, STATE)
OPENTELEMETRY_SET_WHITELIST = Ask("opentelemetry.set_whitelist", NewWhitelistArgs, WhitelistSet, STATE, ACTS)
OPENTELEMETRY_EXPORTED = Ask("opentelemetry.exported", ExportArgs, ExportNoted, ONE)
