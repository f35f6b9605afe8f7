"""A heat map of a state: its buckets by its segments of time."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from math import ceil
from operator import add

from operators.command.report.groups import group_evenly, span
from operators.command.report.markup import Html, element
from operators.command.text.formats import NEVER, byte_text, counted, instant
from state_backends.checkpoints.sizes import SegmentSize
from state_backends.checkpoints.survey import StateSurvey, SurveyedBucket
from state_backends.store.schema import StoredSchema

MOST_ROWS, MOST_COLUMNS = 60, 80
STEPS = 7
_WIDTH, _LEFT, _TOP, _BOTTOM, _LEGEND = 960, 88, 8, 26, 40
_TALLEST, _LOWEST = 26, 9
_DIGIT_WIDTH, _TIME_GAP = 7.2, 14
"""Room below the map for a character of a time, and between two times."""
_TIMELESS_WIDTH = 90
"""Room for the words of the last column, if it has no time."""


@dataclass(frozen=True, slots=True)
class _Grid:
    """The cells of a map, and their size on the page."""

    schema: StoredSchema
    rows: list[Sequence[SurveyedBucket]]
    columns: list[Sequence[int]]
    cells: dict[tuple[int, int], SegmentSize]

    @property
    def width(self) -> float:
        return (_WIDTH - _LEFT) / len(self.columns)

    @property
    def height(self) -> float:
        return max(_LOWEST, min(_TALLEST, 420 / len(self.rows)))

    @property
    def largest(self) -> int:
        return max(cell.size for cell in self.cells.values())

    @property
    def bottom(self) -> float:
        return _TOP + self.height * len(self.rows)

    def step(self, cell: SegmentSize) -> int:
        """The step of a cell's colour, from 1 to STEPS."""
        return max(1, -(-cell.size * STEPS // self.largest))


def heat_map(found: StateSurvey) -> Html:
    """Return a picture of the bytes in each bucket and segment. Segments that hold nothing have no column."""
    segments = [size.segment for size in found.segments]
    if not segments:
        return element("p", "The state is empty.")
    grid = _grid(found, segments)
    height = grid.bottom + _BOTTOM + _LEGEND
    title = "Bytes of each bucket and segment of time, as a heat map"
    return element(
        "svg",
        element("title", title),
        *_cells(grid),
        *_row_labels(grid),
        *_column_labels(grid),
        *_legend(grid),
        viewBox=f"0 0 {_WIDTH} {height:.0f}",
        role="img",
        aria_label=title,
    )


def _grid(found: StateSurvey, segments: Sequence[int]) -> _Grid:
    rows, columns = group_evenly(found.buckets, MOST_ROWS), group_evenly(segments, MOST_COLUMNS)
    column_of = {segment: at for at, group in enumerate(columns) for segment in group}
    cells: dict[tuple[int, int], list[SegmentSize]] = {}
    for row, buckets in enumerate(rows):
        for bucket in buckets:
            for size in bucket.segments:
                cells.setdefault((row, column_of[size.segment]), []).append(size)
    return _Grid(found.schema, rows, columns, {at: reduce(add, sizes) for at, sizes in cells.items()})


def _cells(grid: _Grid) -> Iterator[Html]:
    width, height = grid.width, grid.height
    whole = {"width": f"{width * len(grid.columns):.1f}", "height": f"{height * len(grid.rows):.1f}"}
    yield element("rect", x=_LEFT, y=_TOP, class_="empty", **whole)
    for (row, column), cell in sorted(grid.cells.items()):
        yield element(
            "rect",
            element("title", _said(grid, row, column, cell)),
            x=f"{_LEFT + column * width + 0.5:.1f}",
            y=f"{_TOP + row * height + 0.5:.1f}",
            width=f"{width - 1:.1f}",
            height=f"{height - 1:.1f}",
            class_=f"h{grid.step(cell)}",
        )


def _said(grid: _Grid, row: int, column: int, cell: SegmentSize) -> str:
    counts = f"{byte_text(cell.size)}, {counted(cell.panes, 'pane')}, {counted(cell.keys, 'key')}"
    return f"{_bucket_name(grid.rows[row])}, {_times(grid, column)}: {counts}"


def _bucket_name(group: Sequence[SurveyedBucket]) -> str:
    return f"bucket{'s' if len(group) > 1 else ''} {span(group[0].number, group[-1].number)}"


def _times(grid: _Grid, column: int) -> str:
    group, length = grid.columns[column], grid.schema.segment
    bounds = group[0] * length, (group[-1] + 1) * length
    texts = [instant(ticks, grid.schema) for ticks in bounds]
    return "without a time" if NEVER in texts else f"{texts[0]} to {texts[1]}"


def _row_labels(grid: _Grid) -> Iterator[Html]:
    every = max(1, -(-13 // int(grid.height)))
    for row in range(0, len(grid.rows), every):
        y = _TOP + (row + 0.5) * grid.height + 4
        group = grid.rows[row]
        label = _bucket_name(group) if len(group) == 1 else span(group[0].number, group[-1].number)
        yield element("text", label, x=_LEFT - 8, y=f"{y:.1f}", class_="end")


def _column_labels(grid: _Grid) -> Iterator[Html]:
    """Times of the first columns, as many as there is room for, and of a last one without a time."""
    texts = [instant(group[0] * grid.schema.segment, grid.schema) for group in grid.columns]
    time_width = _DIGIT_WIDTH * max(map(len, texts)) + _TIME_GAP
    every = ceil(time_width / grid.width)
    timeless = texts[-1] == NEVER  # What stays for the lifetime of a key comes last.
    room = _WIDTH - (_TIMELESS_WIDTH if timeless else 0)
    for column in range(0, len(texts), every):
        x = _LEFT + column * grid.width
        if texts[column] == NEVER or (x + time_width - _TIME_GAP > room and column):
            break
        yield element("path", d=f"M{x + 0.5:.1f} {grid.bottom:.1f}v5", class_="axis")
        yield element("text", texts[column], x=f"{x:.1f}", y=f"{grid.bottom + 18:.1f}")
    if timeless:
        yield element("text", "without a time", x=_WIDTH, y=f"{grid.bottom + 18:.1f}", class_="end")


def _legend(grid: _Grid) -> Iterator[Html]:
    y = grid.bottom + _BOTTOM + 14
    yield element("text", "bytes", x=_LEFT - 8, y=f"{y + 11:.1f}", class_="end")
    for step in range(1, STEPS + 1):
        x = _LEFT + (step - 1) * 112
        size = byte_text(grid.largest * step / STEPS)
        yield element("rect", x=x, y=f"{y:.1f}", width=14, height=14, class_=f"h{step}")
        yield element("text", f"\N{LESS-THAN OR EQUAL TO} {size}", x=x + 18, y=f"{y + 11:.1f}")
