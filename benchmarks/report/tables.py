"""The figures of the curves as tables of a page in Markdown, between two comments that name the curve."""

import re
from collections.abc import Iterator

from benchmarks.report.charts import Lines, position, short
from benchmarks.report.figures import Run
from benchmarks.report.growth import CURVES
from benchmarks.report.systems import place

_PLACE = re.compile(r"(<!-- figures: ([\w-]+) -->\n).*?(<!-- end of figures -->)", re.DOTALL)


def with_tables(text: str, run: Run) -> str:
    """Return a page with the figures of a run; where the run has none, the page keeps its own.

    Raises:
        ValueError: the page names a curve that does not exist.
    """
    questions = {curve.name: curve.question for curve in CURVES}

    def written(found: re.Match[str]) -> str:
        begin, name, end = found.groups()
        if name not in questions:
            raise ValueError(f"the page has figures of {name!r}; the curves are {', '.join(questions)}")
        panels = [panel for panel in questions[name].panels(run) if isinstance(panel, Lines)]
        return f"{begin}\n{table(panels)}\n\n{end}" if panels else found[0]

    return _PLACE.sub(written, text)


def table(panels: list[Lines]) -> str:
    """Return a table with a line for each system of each panel, and a column for each position."""
    places = sorted({across for panel in panels for points in panel.points.values() for across, _ in points})
    head = ["", *map(position, places)]
    rows = [row for panel in panels for row in _rows(panel, places)]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (head, ["---"] * len(head), *rows))


def _rows(panel: Lines, places: list[float]) -> Iterator[list[str]]:
    for system in sorted(panel.points, key=place):
        values = dict(panel.points[system])
        yield [f"{panel.title}: {system}", *(short(values[at]) if at in values else "" for at in places)]
