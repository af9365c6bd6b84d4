"""Spans and log entries for the process that exports them, and the lists of what is always traced."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Protocol

from heliograph.control.proto_v1.opentelemetry import (
    OPENTELEMETRY_EXPORTED,
    OPENTELEMETRY_LOGS,
    OPENTELEMETRY_SET_WHITELIST,
    OPENTELEMETRY_SPANS,
    OPENTELEMETRY_WHITELIST,
    ExportArgs,
    ExportNoted,
    LogRow,
    NewWhitelistArgs,
    SpanRow,
    WaitingArgs,
    WhitelistArgs,
    WhitelistSet,
)
from heliograph.control.slices import in_slices
from heliograph.observe.log_ring import LogRing
from heliograph.rpc.methods import Call, Method, RpcError

if TYPE_CHECKING:
    from heliograph.tracing.spans.node_spans import NodeSpans


class Telemetry(Protocol):
    """What waits in a node; `node.opentelemetry` implements it."""

    @property
    def spans(self) -> "NodeSpans | None":
        """The spans; None until they were wanted."""

    @property
    def log(self) -> LogRing | None:
        """The log; None until it was wanted."""

    def whitelist(self, kind: str) -> Sequence[str]:
        """A list of what is always traced."""

    async def set_whitelist(self, kind: str, values: Sequence[str]) -> None:
        """Replace a list; raises ValueError and OSError."""

    def note_export(self, fault: str, sent: int, dropped: int) -> None:
        """How the export goes."""


def methods(part: Telemetry) -> list[Method]:
    def spans(args: WaitingArgs, call: Call) -> Iterator[list[SpanRow]]:
        return in_slices(_spans(part, args), _length)

    def logs(args: WaitingArgs, call: Call) -> Iterator[list[LogRow]]:
        return in_slices(_logs(part, args), lambda row: len(row.text) + len(row.error))

    def whitelist(args: WhitelistArgs, call: Call) -> Iterator[list[str]]:
        with_words = part.whitelist(_kind(args.kind))
        return in_slices(with_words, len)

    async def set_whitelist(args: NewWhitelistArgs, call: Call) -> WhitelistSet:
        try:
            await part.set_whitelist(_kind(args.kind), args.values)
        except ValueError as error:
            raise RpcError("opentelemetry_whitelist", str(error)) from None
        except OSError as error:
            raise RpcError("opentelemetry_whitelist", f"it cannot be stored: {error}") from None
        return WhitelistSet(args.kind, len(args.values))

    def exported(args: ExportArgs, call: Call) -> ExportNoted:
        part.note_export(args.fault, args.sent, args.dropped)
        return ExportNoted()

    return [
        OPENTELEMETRY_SPANS.by(spans),
        OPENTELEMETRY_LOGS.by(logs),
        OPENTELEMETRY_WHITELIST.by(whitelist),
        OPENTELEMETRY_SET_WHITELIST.by(set_whitelist),
        OPENTELEMETRY_EXPORTED.by(exported),
    ]


def _kind(kind: str) -> str:
    if kind not in ("clientid", "topic"):
        raise RpcError("opentelemetry_whitelist", f"there is no list {kind!r}; there are clientid and topic")
    return kind


def _spans(part: Telemetry, args: WaitingArgs) -> Iterator[SpanRow]:
    spans = part.spans
    if spans is None:
        return
    spans.ring.release(args.after)
    for number, one in spans.after(args.after, args.limit):
        ids = f"{one.trace_id:032x}", f"{one.span_id:016x}", f"{one.parent_id:016x}" if one.parent_id else ""
        times = one.started_ns, one.ended_ns
        yield SpanRow(number, *ids, one.name, one.kind, *times, one.attributes, one.error, one.state)


def _logs(part: Telemetry, args: WaitingArgs) -> Iterator[LogRow]:
    if part.log is None:
        return
    entries = part.log.entries
    entries.release(args.after)
    for number, one in entries.after(args.after, args.limit):
        yield LogRow(number, *one)


def _length(row: SpanRow) -> int:
    return sum(len(value) for value in row.attributes.values() if isinstance(value, str))
