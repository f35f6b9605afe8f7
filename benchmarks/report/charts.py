"""Charts as SVG: lines and bars, with one colour for each system and labels at the lines."""

import io
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import matplotlib as mpl
from matplotlib.figure import Figure as Canvas
from matplotlib.ticker import FuncFormatter, LogLocator

from benchmarks.report.systems import colour, is_ours, place

INK = "#333333"
STYLE: dict[Any, Any] = {
    "axes.edgecolor": INK,
    "axes.labelcolor": INK,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlelocation": "left",
    "axes.titlesize": 10.5,
    "font.family": ["sans-serif"],
    "font.size": 9.5,
    "svg.fonttype": "none",
    "svg.hashsalt": "benchmarks",
    "text.color": INK,
    "xtick.color": INK,
    "ytick.color": INK,
}
_ROOM = 0.075
"""Least distance between two labels, as a share of the height of a panel."""


@dataclass(frozen=True, slots=True)
class Lines:
    """Lines over one axis, one for each system, with logarithmic axes.

    Attributes:
        title: name of the values.
        across: name of the axis.
        points: points (position, value) of each system, in order of position.
    """

    title: str
    across: str
    points: dict[str, list[tuple[float, float]]]

    @property
    def height(self) -> float:
        """Height in inches."""
        return 3.4

    def draw(self, axes: Any) -> None:
        """Draw into matplotlib's axes."""
        ends = []
        for system, points in sorted(self.points.items(), key=lambda item: place(item[0])):
            across, values = zip(*sorted(points), strict=True)
            width = 2.6 if is_ours(system) else 1.4
            axes.plot(
                across, values, color=colour(system), linewidth=width, marker="o", markersize=1.6 * width
            )
            ends.append((system, across[-1], values[-1]))
        places = sorted({x for points in self.points.values() for x, _ in points})
        positive = min(x for x in places if x > 0) if any(places) else 1
        axes.set_xscale("symlog", linthresh=positive) if 0 in places else axes.set_xscale("log")
        axes.set_yscale("log")
        axes.set_xticks(places, [position(x) for x in places])
        axes.minorticks_off()
        _roomy(axes, [y for points in self.points.values() for _, y in points])
        axes.set_title(self.title)
        axes.set_xlabel(self.across)
        _label(axes, ends)


@dataclass(frozen=True, slots=True)
class Bars:
    """Horizontal bars.

    Attributes:
        title: name of the values.
        bars: system, label and value of each bar, from the top.
        floors: the part of each value that is drawn in a paler colour, or nothing.
        log: whether the axis is logarithmic.
    """

    title: str
    bars: Sequence[tuple[str, str, float]]
    floors: Sequence[float] = ()
    log: bool = False

    @property
    def height(self) -> float:
        """Height in inches."""
        return 0.75 + 0.3 * len(self.bars)

    def draw(self, axes: Any) -> None:
        """Draw into matplotlib's axes."""
        rows = range(len(self.bars))
        values = [value for _, _, value in self.bars]
        colours = [colour(system) for system, _, _ in self.bars]
        left = min(values) / 3 if self.log else 0
        axes.barh(rows, [value - left for value in values], left=left, color=colours, height=0.68)
        for row, floor in enumerate(self.floors):
            axes.barh(row, floor, color="white", alpha=0.55, height=0.68)
        if self.log:
            axes.set_xscale("log")
            axes.minorticks_off()
        for row, value in enumerate(values):
            axes.annotate(
                f" {short(value)}", (value, row), va="center", xytext=(2, 0), textcoords="offset points"
            )
        axes.set_yticks(rows, [label for _, label, _ in self.bars])
        axes.invert_yaxis()
        axes.tick_params(left=False, bottom=False, labelbottom=False)
        axes.spines[["bottom", "left"]].set_visible(False)
        axes.margins(x=0.15)
        axes.set_title(self.title)


Panel = Lines | Bars


def svg(panels: Sequence[Panel], width: float = 9.2) -> str:
    """Return panels side by side as one SVG, in the text colour of the page."""
    canvas = drawn(panels, width)
    out = io.StringIO()
    with mpl.rc_context(STYLE):
        canvas.savefig(out, format="svg", transparent=True, metadata={"Date": None})
    text = out.getvalue()
    return text[text.index("<svg") :].replace(INK, "currentColor")


def drawn(panels: Sequence[Panel], width: float) -> Canvas:
    """Return panels side by side as matplotlib's figure."""
    with mpl.rc_context(STYLE):
        canvas = Canvas(figsize=(width, max(panel.height for panel in panels)), layout="constrained")
        spots = canvas.subplots(1, len(panels), squeeze=False)[0]
        for panel, spot in zip(panels, spots, strict=True):
            panel.draw(spot)
    return canvas


def position(value: float) -> str:
    """Return a position on an axis as text: 10,000, 1 M."""
    return f"{value:,g}" if value < 100_000 else short(value)


def short(value: float) -> str:
    """Return a number with two or three digits: 1.3 M, 420 k, 0.043."""
    for limit, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= limit:
            return f"{_digits(value / limit)} {unit}"
    return _digits(value)


def _digits(value: float) -> str:
    return f"{value:.0f}" if value >= 100 or value == int(value) else f"{value:.2g}"


def _roomy(axes: Any, values: Sequence[float]) -> None:
    """Set the height to a decade or more, so that flat lines look flat."""
    low, high = min(values), max(values)
    middle, half = (low * high) ** 0.5, max((high / low) ** 0.5 * 1.5, 10**0.5)
    axes.set_ylim(middle / half, middle * half)
    axes.yaxis.set_major_locator(LogLocator(subs=(1.0,) if half > 10 else (1.0, 2.0, 5.0)))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: short(value)))
    axes.minorticks_off()
    axes.grid(axis="y", color="#9ca3af", alpha=0.25, linewidth=0.7)


def _label(axes: Any, ends: Sequence[tuple[str, float, float]]) -> None:
    """Write the names of systems to the right of all lines, without overlaps, each connected to the end of its line."""
    to_height = axes.transAxes.inverted()
    places = [to_height.transform(axes.transData.transform((x, y))) for _, x, y in ends]
    highest = 1 - _ROOM / 2
    ordered = sorted(zip(ends, places, strict=True), key=lambda one: one[1][1], reverse=True)
    for (system, x, y), (_, height) in ordered:
        at = min(height, highest)
        axes.annotate(
            system,
            (x, y),
            (1.05, at),
            textcoords="axes fraction",
            color=colour(system),
            va="center",
            weight="bold" if is_ours(system) else "normal",
            arrowprops={"arrowstyle": "-", "color": colour(system), "linewidth": 0.7, "alpha": 0.6},
        )
        highest = at - _ROOM
