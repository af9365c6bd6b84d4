"""The sink `console`: rows as JSON lines on standard output."""

import sys
from dataclasses import dataclass
from typing import ClassVar, Final, Self

from pyspark.sql import DataFrame

from heliograph.pipeline.files.section import Section
from heliograph.pipeline.sinks.interface import Guarantee, MicroBatch, OutputMode, Written
from heliograph.pipeline.sinks.template import row_as_json

_ROWS: Final = 20


@dataclass(frozen=True)
class ConsoleSink:
    """Rows are printed as JSON lines.

    Attributes:
        rows: How many of each micro-batch at most.
    """

    guarantee: ClassVar[Guarantee] = Guarantee.AT_LEAST_ONCE

    rows: int = _ROWS

    @classmethod
    def read(cls, section: Section, mode: OutputMode, more_keys: tuple[str, ...]) -> Self:
        """See `Sink.read`."""
        section.check_keys("type", "rows", *more_keys)
        return cls(section.number("rows", _ROWS, range(1, 10_001)))

    @property
    def owned(self) -> tuple[str, ...]:
        """Nothing: lines of several queries may mix."""
        return ()

    @property
    def target(self) -> str:
        """Standard output."""
        return "standard output"

    def write(self, rows: DataFrame, batch: MicroBatch) -> Written:
        """Print the first rows of a batch."""
        lines = [row[0] for row in rows.select(row_as_json(rows.columns)).take(self.rows + 1)]
        for line in lines[: self.rows]:
            sys.stdout.write(f"{batch.query}: {line}\n")
        if len(lines) > self.rows:
            sys.stdout.write(f"{batch.query}: ... and more rows of this batch\n")
        sys.stdout.flush()
        return Written()
