"""Entries of the log as the API and the live stream show them."""

from typing import Any

from heliograph.control.proto_v1.log import LogEntryRow
from heliograph.management.web.times import rfc3339


def entry_object(row: LogEntryRow) -> dict[str, Any]:
    return {
        "number": row.number,
        "at": rfc3339(row.at),
        "level": row.level,
        "logger": row.logger,
        "text": row.text,
        "error": row.error,
    }
