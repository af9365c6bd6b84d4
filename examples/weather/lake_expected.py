"""What the tables of the lake must hold, computed with pandas straight from the data and by no part of Heliograph."""

from dataclasses import dataclass
from pathlib import Path

import pandas as pd

_AIRPORTS = Path(__file__).parent / "lake" / "airports.csv"


@dataclass(frozen=True)
class Lake:
    """The tables of the pipeline in `lake/`, in the order of their keys.

    Attributes:
        readings: One row for each observation.
        observations: The same with fewer columns.
        quarters: Six hours at each airport.
    """

    readings: pd.DataFrame
    observations: pd.DataFrame
    quarters: pd.DataFrame


def expect_lake(weather: pd.DataFrame) -> Lake:
    """Compute the tables for the observations of `observations.read_weather`, or for some of them."""
    readings = pd.DataFrame(
        {
            "station": weather["origin"],
            "observed_at": pd.to_datetime(weather["time_hour"], utc=True),
            "temp_f": weather["temp"].astype(float),
            "wind_mph": weather["wind_speed"].astype(float),
            "precip_in": weather["precip"].astype(float),
        }
    ).sort_values(["station", "observed_at"], ignore_index=True)
    return Lake(readings, readings[["station", "observed_at", "temp_f"]], _quarters(readings))


def _quarters(readings: pd.DataFrame) -> pd.DataFrame:
    airports = pd.read_csv(_AIRPORTS).set_index("faa")
    quarters = readings.assign(begins_at=readings["observed_at"].dt.floor("6h")).groupby(["station", "begins_at"])
    table = quarters.agg(
        observations=("observed_at", "size"),
        temp_min_f=("temp_f", "min"),
        temp_mean_f=("temp_f", "mean"),
        temp_max_f=("temp_f", "max"),
        wind_max_mph=("wind_mph", "max"),
        # A sum of nothing is null in SQL.
        precip_in=("precip_in", lambda values: values.sum(min_count=1)),
    ).reset_index()
    table.insert(0, "airport", table["station"].map(airports["name"]))
    table.insert(1, "altitude_ft", table["station"].map(airports["alt"]))
    return table
