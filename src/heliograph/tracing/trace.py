"""One trace: what it is about, how long, and what of a message it shows."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from heliograph.tracing.subject import Subject
from heliograph.tracing.trace_file import TraceFile

HIDDEN: Final = "hidden"
TEXT: Final = "text"
HEX: Final = "hex"
PAYLOADS: Final = (HIDDEN, TEXT, HEX)

TEXT_LINES: Final = "text"
JSON_LINES: Final = "json"
FORMATTERS: Final = (TEXT_LINES, JSON_LINES)

DURATION_S: Final = 600
SIZE_MAX: Final = 16_777_216

_SHOWN_BYTES: Final = 256  # of a payload


@dataclass(frozen=True, slots=True)
class TraceOrder:
    """What is asked for when a trace starts.

    Attributes:
        file: The name of its file below `trace/` in the data directory; empty for one made of its name.
        duration_s: When it ends by itself.
        size_max: Bytes of its file at the most.
        payload: What it shows of payloads: `hidden`, `text` or `hex`.
        start_at: When it begins, in seconds since the epoch; 0 for at once.
        formatter: How people are shown its records: as `text`, or as `json`, which its file always has.
    """

    name: str
    kind: str
    value: str
    file: str = ""
    duration_s: int = DURATION_S
    size_max: int = SIZE_MAX
    payload: str = "hidden"
    start_at: float = 0.0
    formatter: str = JSON_LINES


class Trace:
    """A trace that is on; owned by `Traces`.

    Args:
        started_at_us: When it begins, microseconds since the epoch.
        begins_us: The same on the monotonic clock, like `due_us`, its end.

    Attributes:
        clientids: For an address, the clients that connected from there.
    """

    def __init__(
        self,
        name: str,
        subject: Subject,
        file: TraceFile,
        started_at_us: int,
        begins_us: int,
        due_us: int,
        order: TraceOrder,
    ) -> None:
        self.name = name
        self.subject = subject
        self.file = file
        self.started_at_us = started_at_us
        self.begins_us = begins_us
        self.due_us = due_us
        self.order = order
        self.is_on = False
        self.records_count = 0
        self.clientids: set[str] = set()
        self._payload = order.payload

    def put(self, at_us: int, event: str, fields: Mapping[str, object], payload: bytes | None = None) -> None:
        """Record something.

        Args:
            at_us: When it happened, microseconds since the epoch.
            payload: What was published, of which the record has as much as the trace may show.
        """
        self.records_count += 1
        record = {"at": iso(at_us), "event": event, **fields}
        if payload is not None:
            record["payload_bytes"] = len(payload)
            if self._payload != HIDDEN:
                shown = payload[:_SHOWN_BYTES]
                record["payload"] = shown.decode("utf-8", "replace") if self._payload == TEXT else shown.hex()
        self.file.put(record)

    def __repr__(self) -> str:
        return f"Trace({self.name!r} about {self.subject}, {self.records_count} records)"


def iso(at_us: int) -> str:
    """A time of the wall clock as text, in microseconds."""
    return datetime.fromtimestamp(at_us / 1_000_000, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
