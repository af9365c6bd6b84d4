"""The picture of the demo: a year of temperatures at the three airports, with the wind alerts marked."""

from pathlib import Path
from typing import Any

import matplotlib as mpl
import matplotlib.dates as mdates
import pandas as pd

mpl.use("Agg")
from matplotlib import pyplot as plt
from matplotlib.axes import Axes

_NAMES = {"EWR": "Newark Liberty", "JFK": "John F. Kennedy", "LGA": "LaGuardia"}
_COLOURS = {"EWR": "#2f6f9f", "JFK": "#3f8f6b", "LGA": "#7a5fa3"}
_ALERT = "#d1482f"
_INK = "#222831"
_FAINT = "#8a929c"
_FREEZING_F = 32


def draw(daily: pd.DataFrame, alerts: pd.DataFrame, file: Path) -> None:
    """Draw one panel for each station: the range and mean of each day, and a mark for each wind alert.

    Args:
        daily: Rows of the table `daily`.
        alerts: The alerts received: station, gust_mph, observed_at.
        file: The PNG file to write.
    """
    style = {"font.size": 10, "font.family": "DejaVu Sans", "text.color": _INK, "axes.labelcolor": _INK}
    with plt.rc_context(style):
        figure, panels = plt.subplots(len(_NAMES), 1, figsize=(11, 9), sharex=True, sharey=True)
        for panel, station in zip(panels, _NAMES, strict=True):
            _draw_station(panel, station, daily[daily["station"] == station], alerts[alerts["station"] == station])
        low, high = daily["temp_min_f"].min(), daily["temp_max_f"].max()
        panels[0].set_ylim(low - 4, high + 18)
        panels[-1].xaxis.set_major_locator(mdates.MonthLocator())
        panels[-1].xaxis.set_major_formatter(mdates.DateFormatter("%b"))
        panels[-1].set_xlim(daily["day"].min(), daily["day"].max())
        figure.suptitle(
            "Temperature at the New York airports, 2013", x=0.065, y=0.975, ha="left", size=16, weight="bold"
        )
        figure.text(
            0.065,
            0.932,
            "Each day's range (band) and mean (line), published over MQTT and aggregated by Spark",
            color=_FAINT,
        )
        alert_count = f"\u25bc  gust of 40 mph or more: {len(alerts)} alerts"
        figure.text(0.935, 0.932, alert_count, ha="right", color=_ALERT)
        figure.subplots_adjust(left=0.065, right=0.935, top=0.90, bottom=0.05, hspace=0.12)
        figure.savefig(file, dpi=150)
        plt.close(figure)


def _draw_station(panel: Axes, station: str, daily: pd.DataFrame, alerts: pd.DataFrame) -> None:
    daily = daily.sort_values("day")
    colour = _COLOURS[station]
    panel.fill_between(daily["day"], daily["temp_min_f"], daily["temp_max_f"], color=colour, alpha=0.22, linewidth=0)
    panel.plot(daily["day"], daily["temp_mean_f"], color=colour, linewidth=1.4)
    panel.axhline(_FREEZING_F, color=_FAINT, linewidth=0.7, linestyle=(0, (4, 3)))
    height = panel.get_xaxis_transform()
    gusts = alerts["gust_mph"].astype(float)
    panel.scatter(
        alerts["observed_at"], [0.93] * len(alerts), s=14 + (gusts - 40) * 3.5, marker="v", color=_ALERT, alpha=0.75,
        linewidths=0, transform=height, zorder=3,
    )  # fmt: skip
    panel.text(0.008, 0.80, f"{_NAMES[station]} ({station})", transform=panel.transAxes, weight="bold", color=colour)
    panel.text(0.008, 0.70, f"{len(alerts)} wind alerts", transform=panel.transAxes, color=_ALERT, size=9)
    panel.set_ylabel("\u00b0F", rotation=0, labelpad=10)
    celsius = panel.secondary_yaxis("right", functions=(_to_celsius, _to_fahrenheit))
    celsius.set_ylabel("\u00b0C", rotation=0, labelpad=10)
    for axis in (panel, celsius):
        axis.tick_params(colors=_FAINT, length=0)
        for side in axis.spines.values():
            side.set_visible(False)
    panel.grid(axis="both", color="#e6e9ed", linewidth=0.8)
    panel.set_axisbelow(True)


def _to_celsius(fahrenheit: Any) -> Any:
    return (fahrenheit - 32) / 1.8


def _to_fahrenheit(celsius: Any) -> Any:
    return celsius * 1.8 + 32
