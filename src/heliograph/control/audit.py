"""What can be asked of the audit log."""

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence

import msgspec

from heliograph.config_changes.audit import AuditLog, AuditRecord, all_newest_first
from heliograph.control.proto_v1 import audit as proto
from heliograph.rpc.methods import REFUSED, SLICE, Action, Call, Method, RpcError


def methods(log: AuditLog) -> list[Method]:
    answers = AuditAnswers(log)
    return [proto.AUDIT_LIST.by(answers.list), proto.AUDIT_REFUSED.by(answers.refused)]


class AuditAnswers:
    def __init__(self, log: AuditLog) -> None:
        self._log = log

    async def list(self, args: proto.AuditWanted, call: Call) -> AsyncIterator[Sequence[proto.AuditRow]]:
        await self._log.written()
        pieces = all_newest_first(self._log.file, args.since)
        try:
            while (rows := await asyncio.to_thread(_next, pieces, args)) is not None:
                for start in range(0, len(rows), SLICE):
                    yield rows[start : start + SLICE]
        except OSError as error:
            raise RpcError("audit_unreadable", f"the audit log cannot be read: {error.strerror}") from None

    def refused(self, args: proto.RefusedCall, call: Call) -> proto.RefusedNoted:
        """Answer `audit.refused`.

        Raises:
            RpcError: Another user of the machine asks, who could write what did not happen.
        """
        if not call.is_ours:
            raise RpcError("not_permitted", "refusals are noted by the user only that the node runs as")
        more: dict[str, object] = {"count": args.count, "addresses": list(args.addresses)} if args.count > 1 else {}
        line = Action(call.who, call.origin, REFUSED, {"request": args.request, **more}, args.code, args.message)
        self._log.record(line)
        return proto.RefusedNoted()


def _next(pieces: Iterator[list[AuditRecord]], wanted: proto.AuditWanted) -> list[proto.AuditRow] | None:
    """In a thread: the rows that are wanted of the next piece of the files; None at the end."""
    piece = next(pieces, None)
    return None if piece is None else [_row(record) for record in piece if _is_wanted(record, wanted)]


def _is_wanted(record: AuditRecord, wanted: proto.AuditWanted) -> bool:
    return (
        wanted.who in record.who
        and record.method.startswith(wanted.method)
        and wanted.is_done in (None, record.outcome == "done")
        and (not wanted.until or record.at <= wanted.until)
    )


def _row(record: AuditRecord) -> proto.AuditRow:
    return proto.AuditRow(
        record.at,
        record.who,
        record.origin,
        record.method,
        record.outcome,
        msgspec.json.encode(record.args).decode(),
        record.message,
        record.missing,
    )
