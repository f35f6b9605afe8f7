"""The year as a picture: for each airport a map of day by time of day in colours of mean delay."""

from collections.abc import Mapping, Sequence
from datetime import datetime, time, timedelta
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
import pyarrow as pa
from matplotlib.axes import Axes
from matplotlib.colors import BoundaryNorm, ListedColormap
from matplotlib.figure import Figure

from examples.flights_data import AIRPORTS
from examples.flights_report import span, spoken, weekday
from examples.flights_windows import DAY_BEGINS, LEAST_FLIGHTS, Hour, of_airport, operating_day

NEW_YEAR = datetime(2013, 1, 1)
DAYS = 365
SLOT = timedelta(minutes=20)
FIRST, LAST = timedelta(hours=5, minutes=20), timedelta(hours=26)
LEAST_IN_CELL = 3

PAPER, INK, FAINT = "#fbfaf7", "#22262b", "#6d7278"
EARLY, LATEST = "#dde5e7", "#3f0d47"
COLOURS = ("#f6e7c6", "#f7c67f", "#ee8f4d", "#d4513f", "#94204f")
STEPS = (0, 15, 30, 60, 90, 120)
TITLE = "The later the hour, the longer the wait"
SUBTITLE = "Flights from New York in 2013: mean departure delay over 60 minutes, by day and time of day"
LEFT, RIGHT = 0.045, 0.985
RING: Any = {"marker": "o", "markersize": 12.5, "markerfacecolor": PAPER, "markeredgecolor": INK}


def cells(windows: pa.Table) -> np.ndarray:
    """Return the mean delay by time of day and day, shape (slots, 365); NaN where hardly a flight left.

    A cell is the mean of the windows whose middle lies in it, weighted by their flights.
    """
    start, end, flights, mean = (
        windows.column(n).to_numpy() for n in ("start", "end", "flights", "mean_delay")
    )
    since = start + (end - start) // 2 - np.datetime64(NEW_YEAR) - np.timedelta64(DAY_BEGINS)
    day = since // np.timedelta64(1, "D")
    slot = (since % np.timedelta64(1, "D") - np.timedelta64(FIRST - DAY_BEGINS)) // np.timedelta64(SLOT)
    slots = (LAST - FIRST) // SLOT
    inside = (day >= 0) & (day < DAYS) & (slot >= 0) & (slot < slots) & (flights >= LEAST_IN_CELL)
    cell = slot[inside] * DAYS + day[inside]
    weight = np.bincount(cell, flights[inside], slots * DAYS)
    total = np.bincount(cell, (mean * flights)[inside], slots * DAYS)
    with np.errstate(invalid="ignore"):
        return (total / weight).reshape(slots, DAYS)


def draw(windows: pa.Table, worst: Mapping[str, Sequence[Hour]], notes: Sequence[str], path: Path) -> None:
    """Draw the picture and write it as PNG.

    Args:
        windows: those of all airports.
        worst: the worst hours by airport; they are marked and listed.
        notes: lines below the picture.
        path: of the PNG.
    """
    with mpl.rc_context({"font.family": "DejaVu Sans", "text.color": INK}):
        figure = Figure(figsize=(16, 11.4), facecolor=PAPER)
        panels = figure.subplots(len(AIRPORTS), 2, gridspec_kw={"width_ratios": (5, 1)})
        figure.subplots_adjust(LEFT, 0.105, RIGHT, 0.85, wspace=0.03, hspace=0.17)
        for (axes, aside), (origin, name) in zip(panels, AIRPORTS.items(), strict=True):
            hours = worst.get(origin, ())
            _map(axes, cells(of_airport(windows, origin)), f"{name}  {origin}")
            _mark(axes, hours)
            _list(aside, hours)
        _months(panels[-1][0])
        listed = f"Worst hours with {LEAST_FLIGHTS} flights or more"
        panels[0][1].set_title(listed, loc="left", fontsize=9.5, color=FAINT)
        _heading(figure)
        figure.text(LEFT, 0.062, "\n".join(notes), fontsize=9, color=FAINT, va="top", linespacing=1.6)
        figure.savefig(path, dpi=150)


def _map(axes: Axes, values: np.ndarray, title: str) -> None:
    colours = ListedColormap(COLOURS).with_extremes(under=EARLY, over=LATEST, bad=PAPER)
    top, bottom = FIRST / timedelta(hours=1), LAST / timedelta(hours=1)
    norm = BoundaryNorm(STEPS, len(COLOURS))
    axes.imshow(values, colours, norm, aspect="auto", interpolation="nearest", extent=(0, DAYS, bottom, top))
    axes.set_yticks(range(6, 25, 3), [f"{hour % 24:02}:00" for hour in range(6, 25, 3)])
    axes.set_xticks([])
    axes.tick_params(length=0, labelsize=9.5, labelcolor=FAINT)
    axes.spines[:].set_visible(False)
    axes.set_title(title, loc="left", fontsize=13, fontweight="bold", pad=6)


def _months(axes: Axes) -> None:
    """Name the months below the lowest map, between ticks where they begin."""
    begins = [datetime(2013, month, 1) for month in range(1, 13)]
    days = [(begin - NEW_YEAR).days for begin in begins]
    axes.set_xticks([*days, DAYS], [""] * 13)
    axes.tick_params("x", length=5, color=FAINT)
    axes.set_xticks([day + 15 for day in days], [f"{begin:%B}" for begin in begins], minor=True)
    axes.tick_params("x", which="minor", length=0, labelsize=10, labelcolor=FAINT)


def _mark(axes: Axes, hours: Sequence[Hour]) -> None:
    for place, hour in enumerate(hours, 1):
        day = datetime.combine(operating_day(hour), time())
        middle = hour.first + (hour.last - hour.first) / 2
        _number(axes, (day - NEW_YEAR).days + 0.5, (middle - day) / timedelta(hours=1), place)


def _number(axes: Axes, x: float, y: float, number: int) -> None:
    axes.plot(x, y, clip_on=False, **RING)
    axes.text(x, y, str(number), ha="center", va="center_baseline", fontsize=8, fontweight="bold")


def _list(axes: Axes, hours: Sequence[Hour]) -> None:
    axes.set_axis_off()
    axes.set(xlim=(0, 1), ylim=(0, 1))
    for place, hour in enumerate(hours, 1):
        y = 1.1 - place / 5
        _number(axes, 0.05, y, place)
        axes.text(0.14, y + 0.035, f"{weekday(hour)}  {span(hour)}", fontsize=10, va="center")
        mean = f"mean {spoken(hour.mean_delay)}, {hour.flights} flights"
        axes.text(0.14, y - 0.045, mean, fontsize=9, va="center", color=FAINT)


def _heading(figure: Figure) -> None:
    figure.text(LEFT, 0.957, TITLE, fontsize=23, fontweight="bold", va="center")
    figure.text(LEFT, 0.916, SUBTITLE, fontsize=12, color=FAINT, va="center")
    _key(figure.add_axes((0.66, 0.94, RIGHT - 0.66, 0.018)))


def _key(axes: Axes) -> None:
    colours = [EARLY, *COLOURS, LATEST]
    last = len(colours) - 1
    axes.imshow([range(len(colours))], ListedColormap(colours), aspect="auto", extent=(-1, last, 0, 1))
    axes.set_xticks([-0.5, *range(last), last - 0.5], ["early", *map(str, STEPS), "later"])
    axes.set_yticks([])
    axes.tick_params(length=0, labelsize=9.5, labelcolor=FAINT)
    axes.spines[:].set_visible(False)
    said = f"Mean delay in minutes; blank where fewer than {LEAST_IN_CELL} flights left"
    axes.set_title(said, loc="left", fontsize=9.5, color=FAINT)
