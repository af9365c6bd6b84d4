"""The sink `console`: rows as JSON lines on standard output."""

import sys
from dataclasses import dataclass
from typing import ClassVar

from pyspark.sql import DataFrame

from heliograph.pipeline.sinks.interface import Guarantee, MicroBatch, TableSink, Written
from heliograph.pipeline.sinks.spark.template_columns import row_as_json
from heliograph.settings.fields import setting
from heliograph.settings.kinds import Integer


@dataclass(frozen=True)
class ConsoleSink(TableSink):
    """Rows of several queries may mix."""

    guarantee: ClassVar[Guarantee] = Guarantee.AT_LEAST_ONCE

    rows: int = setting(Integer(1, 10_000), 20, "How many rows of each micro-batch are printed at most.")

    @property
    def target(self) -> str:
        return "standard output"

    def write(self, rows: DataFrame, batch: MicroBatch) -> Written:
        lines = [row[0] for row in rows.select(row_as_json(rows.columns)).take(self.rows + 1)]
        for line in lines[: self.rows]:
            sys.stdout.write(f"{batch.query}: {line}\n")
        if len(lines) > self.rows:
            sys.stdout.write(f"{batch.query}: ... and more rows of this batch\n")
        sys.stdout.flush()
        return Written()
