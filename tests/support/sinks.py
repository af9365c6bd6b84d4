"""Sinks made of text as a pipeline file has it, and micro-batches for them."""

import json
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from heliograph.hocon.document import parse_text
from heliograph.pipeline.files.section import FileSection
from heliograph.pipeline.runner.local_rows import LocalRows
from heliograph.pipeline.sinks import MicroBatch, OutputMode, Sink, Written, read_sink
from heliograph.pipeline.sinks.interface import RowSink


def sink_of(text: str, mode: OutputMode = OutputMode.APPEND) -> Sink:
    """The sink of a section such as ``{ type = console }``."""
    document = FileSection(parse_text(f"sink {text}"))
    section = document.section("sink")
    assert section is not None
    return read_sink(section, mode)


@dataclass
class Refused:
    """The rows that a sink refused, with the reasons."""

    rows: list[tuple[Mapping[str, Any], str]] = field(default_factory=list)

    def take(self, row: Mapping[str, Any], reason: str) -> None:
        self.rows.append((row, reason))


class Retries:
    """What a sink says of its tries; `tell` is the batch's `tell_retry`.

    Attributes:
        reasons: Why it tries again, and None when that went well.
    """

    def __init__(self) -> None:
        self.reasons: list[str | None] = []
        self._has_one = threading.Event()

    def tell(self, reason: str | None) -> None:
        self.reasons.append(reason)
        self._has_one.set()

    def wait(self) -> None:
        """Wait for the first since the last wait."""
        assert self._has_one.wait(60)
        self._has_one.clear()


def batch_of(number: int, refused: Refused | None = None, *, query: str = "obs", owner: str = "owner-1") -> MicroBatch:
    """A micro-batch; without `refused`, its rows must all be taken."""
    return MicroBatch(
        query, owner, number, Path("/nonexistent"), "127.0.0.1:1", refused.take if refused else _unexpected
    )


def _unexpected(row: Mapping[str, Any], reason: str) -> None:
    raise AssertionError(f"{row} was refused: {reason}")


def rows_of(sink: Sink, *rows: Mapping[str, Any]) -> LocalRows:
    """Rows of a rule as they are stored for an action, for a sink whose templates begin with `payload`."""
    assert isinstance(sink, RowSink)
    return LocalRows([json.dumps(row).encode() for row in rows], sink)


def write_rows(sink: Sink, batch: MicroBatch, *rows: Mapping[str, Any]) -> Written:
    """Bring rows of a rule to their target as the action runner does."""
    assert isinstance(sink, RowSink)
    return sink.write(rows_of(sink, *rows), batch)
