"""Adds what Spark reports of micro-batches to the figures of a query, over its restarts."""

from collections.abc import Mapping
from typing import Any

from heliograph.pipeline.datasource.offsets import offset_positions
from heliograph.pipeline.running.figures import QueryFigures
from heliograph.pipeline.running.queries import BatchCounters
from heliograph.pipeline.running.views import DECODE_FAILED, RULE_METRICS
from heliograph.pipeline.side_outputs.leftovers import OUTPUT_METRICS, REFUSED_METRICS


def add_progress(figures: QueryFigures, progress: Mapping[str, Any]) -> None:
    """Add what Spark reports of a micro-batch."""
    sources = progress.get("sources", ())
    figures.positions = [
        offset_positions(source.get("endOffset"))
        or (figures.positions[number] if number < len(figures.positions) else {})
        for number, source in enumerate(sources)
    ]
    observed = {name: counts or {} for name, counts in progress.get("observedMetrics", {}).items()}
    rules = [counts for name, counts in observed.items() if name.startswith(RULE_METRICS)]
    figures.rows_read += sum(source.get("numInputRows", 0) for source in sources)
    figures.rows_failed += sum(counts.get("failed", 0) for counts in rules)
    figures.decode_failed += sum(counts.get(DECODE_FAILED, 0) for counts in rules)
    figures.rows_refused += observed.get(REFUSED_METRICS, {}).get("rows", 0)
    figures.rows_given += observed.get(OUTPUT_METRICS, {}).get("rows", 0)
    # The sink has reported its part of a batch before Spark does.
    figures.rows_written = max(0, figures.rows_given - figures.sink_refused)
    figures.rows_late += sum(operator.get("numRowsDroppedByWatermark", 0) for operator in progress["stateOperators"])
    figures.batch_ms = progress.get("batchDuration", 0)
    figures.last_batch_at = progress.get("timestamp")
    figures.batches += 1


def add_counters(figures: QueryFigures, counters: BatchCounters) -> None:
    """Add what the sink and the dead letters of batches came to."""
    figures.dead_letters += counters.letters
    figures.late_kept += counters.late
    figures.rows_fallen_back += counters.fallen_back
    figures.rows_refused += counters.refused
    figures.sink_refused += counters.refused
    figures.rows_total = counters.rows_total if counters.rows_total is not None else figures.rows_total
    figures.sink_figures.update(counters.figures)
