"""Sinks made of text as a pipeline file has it, and micro-batches for them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from heliograph.hocon.document import parse_text
from heliograph.pipeline.files.section import FileSection
from heliograph.pipeline.sinks import MicroBatch, OutputMode, Sink, read_sink


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


def batch_of(number: int, refused: Refused | None = None, *, query: str = "obs", owner: str = "owner-1") -> MicroBatch:
    """A micro-batch; without `refused`, its rows must all be taken."""
    return MicroBatch(
        query, owner, number, Path("/nonexistent"), "127.0.0.1:1", refused.take if refused else _unexpected
    )


def _unexpected(row: Mapping[str, Any], reason: str) -> None:
    raise AssertionError(f"{row} was refused: {reason}")
