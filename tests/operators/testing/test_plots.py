"""Plots of windows: which bars, dots and texts are drawn, and where."""

import sys
from datetime import datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest
from matplotlib.axes import Axes
from matplotlib.colors import to_hex
from matplotlib.figure import Figure

from operators import DefinitionError, HoppingWindows, SessionWindows, SlidingWindows, TumblingWindows
from operators import aggregates as agg
from operators.testing import plot_windows

NINE = datetime(2024, 5, 1, 9)
BATCH = pa.table({"at": pa.array([10, 10, 14, 15], pa.int64()), "name": list("abcd")})
BLUE, ORANGE, GREY = "#0072b2", "#e69f00", "#8a8f94"


def clocked(*minutes: int) -> pa.Table:
    """Records at so many minutes after nine o'clock."""
    return pa.table({"at": pa.array([NINE + timedelta(minutes=m) for m in minutes], pa.timestamp("us"))})


def emitted(windows: Any, *batches: pa.Table, emit: str = "on_close") -> pa.Table:
    """What windows emit, batch by batch and when time ends."""
    with windows.aggregate(n=agg.count()).emit(emit).local_runner("at") as runner:
        tables = [runner.process(batch) for batch in batches]
        return pa.concat_tables([*tables, runner.process(batches[0].slice(0, 0), 2**60)])


def bars(axes: Axes) -> list[tuple[float, float, str]]:
    """Bounds and colours of the bars from the top down."""
    drawn = sorted(axes.patches, key=lambda bar: bar.get_y())
    return [(bar.get_x(), bar.get_x() + bar.get_width(), to_hex(bar.get_edgecolor())) for bar in drawn]


def dots(axes: Axes, name: str) -> list[float]:
    """Where the records of that name in the legend stand."""
    return [x for line in axes.lines if line.get_label() == name for x in line.get_xdata()]


def test_sliding_windows_have_colours_by_side() -> None:
    """Bars from bound to bound, left and right windows apart, with results beside and bounds as labels."""
    windows = SlidingWindows(10)
    axes = plot_windows(BATCH, emitted(windows, BATCH), windows, "at", label="name")

    left, right = BLUE, ORANGE
    assert [(0, 10, left), (4, 14, left), (5, 15, left), (11, 21, right), (15, 25, right)] == bars(axes)
    assert ["records", "[0, 10]", "[4, 14]", "[5, 15]", "[11, 21]", "[15, 25]"] == [
        label.get_text() for label in axes.get_yticklabels()
    ]
    assert ["a b", "c", "d", "n=2", "n=3", "n=4", "n=2", "n=1"] == [text.get_text() for text in axes.texts]
    assert [10, 10, 14, 15] == dots(axes, "record")
    assert ["record", "left window", "right window"] == [t.get_text() for t in axes.get_legend().get_texts()]


@pytest.mark.parametrize(
    ("windows", "hollow"), [(SlidingWindows(10), 0), (HoppingWindows(10, 5), 3), (SessionWindows(10), 0)]
)
def test_ends_that_do_not_belong_to_a_window_are_hollow(windows: Any, hollow: int) -> None:
    """The dot at the end of a half-open window is not filled."""
    axes = plot_windows(BATCH, emitted(windows, BATCH), windows, "at")

    assert hollow == sum(line.get_markerfacecolor() == "white" for line in axes.lines)


def test_late_records_and_retracted_windows_are_marked() -> None:
    """Times are on an axis of dates; a late record has a mark of its own, a retracted session is grey."""
    batches = [clocked(0, 13), clocked(62), clocked(5, 70)]
    windows = SessionWindows("20 minutes")
    axes = plot_windows(batches, emitted(windows, *batches, emit="on_update"), windows, "at")
    nine = (NINE - datetime(1970, 1, 1)) / timedelta(days=1)

    assert [5] == [round((x - nine) * 1_440) for x in dots(axes, "late record")]
    assert [0, 13, 62, 70] == [round((x - nine) * 1_440) for x in dots(axes, "record")]
    assert [(0, 33, BLUE), (62, 82, BLUE), (62, 82, GREY), (62, 90, BLUE)] == [
        (round((start - nine) * 1_440), round((end - nine) * 1_440), colour)
        for start, end, colour in bars(axes)
    ]
    assert "event time, UTC, 2024-05-01" == axes.get_xlabel()


@pytest.mark.parametrize("late", [True, False])
def test_the_axis_keeps_to_the_windows(late: bool) -> None:
    """A record that is far from all windows is counted at the end of the axis; one that is near is drawn."""
    windows = TumblingWindows("10 minutes")
    batches = [clocked(1, 25), clocked(-5, -100_000)] if late else [clocked(-5, 1, 25, -100_000)]
    rows = emitted(windows, clocked(1, 25))
    axes = plot_windows(batches if late else batches[0], rows, windows, "at")
    left, right = ((NINE + timedelta(minutes=m) - datetime(1970, 1, 1)) / timedelta(days=1) for m in (-5, 30))
    shown = axes.get_xlim()
    assert left - 0.1 * (right - left) < shown[0] < left < right < shown[1] < right + 0.1 * (right - left)
    assert ["1 late record before" if late else "1 record before"] == [
        text.get_text() for text in axes.texts if "before" in text.get_text()
    ]
    assert len(dots(axes, "late record")) == (1 if late else 0)
    assert not any("after" in text.get_text() for text in axes.texts)
    assert len(bars(axes)) == 2


@pytest.mark.slow
def test_first_sixty_windows_are_drawn() -> None:
    """A note says how many there are; the axis ends with the last that is drawn."""
    batch = pa.table({"at": pa.array(range(0, 700, 10), pa.int64())})
    axes = plot_windows(batch, emitted(TumblingWindows(10), batch), TumblingWindows(10), "at")

    assert 60 == len(axes.patches)
    assert "the first 60 of 70 windows" == axes.get_title(loc="left")
    assert 600 == max(dots(axes, "record"))


@pytest.mark.slow
def test_texts_do_not_overlap() -> None:
    """As drawn, neither results nor bounds nor the caption cover one another."""
    batch = pa.table({"at": pa.array(range(0, 90, 3), pa.int64()), "name": [f"name {n}" for n in range(30)]})
    axes = plot_windows(batch, emitted(TumblingWindows(6), batch), TumblingWindows(6), "at", label="name")
    axes.figure.draw_without_rendering()
    texts = [*axes.texts, *axes.get_yticklabels(), *axes.get_legend().get_texts()]
    boxes = [text.get_window_extent() for text in texts if text.get_text()]

    assert len(boxes) > 35
    assert [] == [(a, b) for n, a in enumerate(boxes) for b in boxes[:n] if a.overlaps(b)]


def test_given_axes_are_drawn_on() -> None:
    """Several plots can share a figure."""
    figure = Figure()
    upper, lower = figure.subplots(2)
    rows = emitted(TumblingWindows(10), BATCH)

    assert lower is plot_windows(BATCH, rows, TumblingWindows(10), "at", ax=lower)
    assert (0, 1) == (len(upper.patches), len(lower.patches))


def test_windows_without_records_are_drawn() -> None:
    """What came out for a key whose records are elsewhere can be looked at as well."""
    axes = plot_windows(BATCH.slice(0, 0), emitted(TumblingWindows(10), BATCH), TumblingWindows(10), "at")

    assert [(10, 20, BLUE)] == bars(axes)


def test_nothing_to_draw_is_an_error() -> None:
    """A key without records and windows is probably a mistake."""
    batch = BATCH.append_column("k", pa.array(["x"] * 4))
    rows = pa.table({"k": ["x"], "window": [{"start": NINE, "end": NINE}], "n": [1]})
    with pytest.raises(DefinitionError, match="there is nothing to draw for k=y"):
        plot_windows(batch, rows, None, "at", key="y")


def test_without_matplotlib_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without matplotlib, the message says how to install it."""
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(ImportError, match=r"needs matplotlib: pip install 'spark-stateful-windows\[plots\]'"):
        plot_windows(BATCH, [], None, "at")
