"""The questions of the report: each with charts over some figures, and how to read them."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from benchmarks.report.charts import Bars, Lines, Panel
from benchmarks.report.figures import Figure, Run
from benchmarks.report.systems import place

Value = Callable[[Figure], float]


def rate(figure: Figure) -> float:
    """Rows per second."""
    return figure.rate


def seconds(figure: Figure) -> float:
    """Median time."""
    return figure.seconds


def milliseconds(figure: Figure) -> float:
    """Median time, in milliseconds."""
    return 1_000 * figure.seconds


def mebibytes(figure: Figure) -> float:
    """Bytes written, in MiB."""
    return float(figure.extra["written_mib"])


def kept(figure: Figure) -> float:
    """Bytes kept on disk, in MB."""
    return float(figure.extra["kept_mb"])


def resident(figure: Figure) -> float:
    """Peak memory of a process, in MB."""
    return float(figure.extra["resident_mb"])


@dataclass(frozen=True, slots=True)
class LineChart:
    """Lines over an axis of one section.

    Attributes:
        section, axis, where: section of the figures, the axis, and the points on other axes.
        title, across: names of the values and of the axis.
        value: returns the value of a figure.
    """

    section: str
    axis: str
    title: str
    across: str
    where: Mapping[str, Any] = field(default_factory=dict)
    value: Value = rate

    def panel(self, run: Run) -> Panel | None:
        """Return the chart, or None if the run has no figures for it."""
        points: dict[str, list[tuple[float, float]]] = {}
        for figure in run.of(self.section, **self.where):
            if self.axis in figure.axes:
                points.setdefault(figure.system, []).append((figure.axes[self.axis], self.value(figure)))
        return Lines(self.title, self.across, points) if points else None

    @property
    def sections(self) -> tuple[str, ...]:
        """The sections that are drawn."""
        return (self.section,)


@dataclass(frozen=True, slots=True)
class BarChart:
    """Bars of all figures of several sections at one point.

    Attributes:
        sections, where, without: sections of the figures, their point, and a system to omit.
        title: name of the values.
        value: returns the value of a figure.
        log: whether the axis is logarithmic.
        floor: whether the part of the empty batch is drawn in a paler colour.
        named: whether labels begin with the name of the section.
    """

    sections: tuple[str, ...]
    title: str
    where: Mapping[str, Any] = field(default_factory=dict)
    value: Value = rate
    without: str = ""
    log: bool = False
    floor: bool = False
    named: bool = False

    def panel(self, run: Run) -> Panel | None:
        """Return the chart, or None if the run has no figures for it."""
        found = [one for name in self.sections for one in _in_order(run.of(name, **self.where))]
        figures = [one for one in found if one.system != self.without]
        same = {*self.where} if len({one.axes.get("keys") for one in figures}) > 1 else {"keys", *self.where}
        bars = [(one.system, self._label(one, same), self.value(one)) for one in figures]
        floors = [one.extra.get("empty_seconds", 0.0) for one in figures] if self.floor else []
        return Bars(self.title, bars, floors, self.log) if bars else None

    def _label(self, figure: Figure, same: Collection[str]) -> str:
        """The label of a bar, without the axes that are the same for all bars."""
        kind = figure.section.partition(": ")[2].removesuffix(" windows")
        rest = [_axis_text(name, value) for name, value in figure.axes.items() if name not in same]
        front = [kind] if self.named and kind != "pass-through" else []
        return ", ".join([*front, figure.system, *rest])


@dataclass(frozen=True, slots=True)
class Question:
    """One section of the report.

    Attributes:
        title: the question.
        reading: how to read the charts, in one sentence.
        pictures: the charts, side by side.
    """

    title: str
    reading: str
    pictures: Sequence[LineChart | BarChart]

    def panels(self, run: Run) -> list[Panel]:
        """Return the charts for which the run has figures."""
        return [panel for picture in self.pictures if (panel := picture.panel(run))]

    def figures(self, run: Run) -> list[Figure]:
        """Return the figures that are drawn."""
        names = dict.fromkeys(name for picture in self.pictures for name in picture.sections)
        return [figure for name in names for figure in _in_order(run.of(name))]


def _in_order(figures: Sequence[Figure]) -> Iterator[Figure]:
    """Figures by axes, then by system."""
    yield from sorted(figures, key=lambda one: (sorted(one.axes.items()), place(one.system), one.system))


def _axis_text(name: str, value: object) -> str:
    words = {"per_window": "per window", "keys": "keys", "lookbacks": "lookbacks"}
    return f"{value:,} {words[name]}" if name in words else str(value)
