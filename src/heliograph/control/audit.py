"""What can be asked of the audit log."""

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence

import msgspec

from heliograph.config_changes.audit import AuditLog, AuditRecord, newest_first
from heliograph.control.proto_v1 import audit as proto
from heliograph.rpc.methods import SLICE, Call, Method, RpcError


def methods(log: AuditLog) -> list[Method]:
    return [proto.AUDIT_LIST.by(AuditAnswers(log).list)]


class AuditAnswers:
    def __init__(self, log: AuditLog) -> None:
        self._log = log

    async def list(self, args: proto.AuditWanted, call: Call) -> AsyncIterator[Sequence[proto.AuditRow]]:
        await self._log.written()
        pieces = newest_first(self._log.file, args.since)
        try:
            while (rows := await asyncio.to_thread(_next, pieces, args)) is not None:
                for start in range(0, len(rows), SLICE):
                    yield rows[start : start + SLICE]
        except OSError as error:
            raise RpcError("audit_unreadable", f"the audit log cannot be read: {error.strerror}") from None


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
