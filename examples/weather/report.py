"""The check of the demo: every figure beside the one expected from the data, and the tables row by row."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow.dataset as ds
from observations import Expected

# The order in which Spark and pandas add up a day's temperatures differs, and so may the last digits of a mean.
_TOLERANCE_F = 1e-9


@dataclass
class Report:
    """Figures found and expected, mismatches, and the time of each stage."""

    figures: list[tuple[str, int, int]] = field(default_factory=list)
    mismatches: list[str] = field(default_factory=list)
    stages: list[tuple[str, float]] = field(default_factory=list)

    def count(self, what: str, found: int, expected: int) -> None:
        """Note a figure; a wrong one is a mismatch."""
        self.figures.append((what, found, expected))
        if found != expected:
            self.mismatches.append(f"{what}: {found:,} instead of {expected:,}")

    def compare(self, what: str, found: pd.DataFrame, expected: pd.DataFrame, key: Sequence[str]) -> None:
        """Compare two tables row by row; a difference is a mismatch that names the column."""
        columns = list(expected.columns)
        missing = [column for column in columns if column not in found.columns]
        if missing:
            self.mismatches.append(f"{what}: no column {', '.join(missing)}")
            return
        ours, theirs = (table[columns].sort_values(list(key), ignore_index=True) for table in (found, expected))
        try:
            pd.testing.assert_frame_equal(ours, theirs, check_dtype=False, check_exact=False, rtol=0, atol=_TOLERANCE_F)
        except AssertionError as error:
            self.mismatches.append(f"{what}: {' '.join(str(error).split())}")

    def text(self) -> str:
        """The figures and times as two tables."""
        lines = [f"{'':34}{'found':>10}{'expected':>10}"]
        lines += [
            f"{what:34}{found:>10,}{expected:>10,}{'' if found == expected else '   <- differs'}"
            for what, found, expected in self.figures
        ]
        total = sum(seconds for _, seconds in self.stages)
        lines += ["", *(f"{stage:40}{seconds:>7.1f} s" for stage, seconds in [*self.stages, ("in all", total)])]
        return "\n".join(lines)


def check_tables(report: Report, tables: Path, alerts: list[dict[str, Any]], expected: Expected) -> pd.DataFrame:
    """Compare what the sinks have with what is expected; return the daily temperatures."""
    observations = _read(tables / "obs", partitioning="hive")
    daily = _read(tables / "daily")
    received = pd.DataFrame(alerts, columns=["station", "gust_mph", "observed_at"])
    received["observed_at"] = pd.to_datetime(received["observed_at"], utc=True)
    report.count("rows in the table obs", len(observations), len(expected.observations))
    report.count("rows in the table daily", len(daily), len(expected.daily))
    report.count("wind alerts received", len(received), len(expected.alerts))
    report.compare("the table obs", observations, expected.observations, ["station", "observed_at"])
    report.compare("the table daily", daily, expected.daily, ["station", "day"])
    report.compare("the wind alerts", received, expected.alerts, ["station", "observed_at"])
    return daily


def _read(table: Path, partitioning: str | None = None) -> pd.DataFrame:
    frame: pd.DataFrame = ds.dataset(table, format="parquet", partitioning=partitioning).to_table().to_pandas()
    for column in frame.columns:
        if isinstance(frame[column].dtype, pd.CategoricalDtype):
            frame[column] = frame[column].astype(str)
    return frame
