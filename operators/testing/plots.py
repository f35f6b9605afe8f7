"""Plots of windows over the records of one key, as in the figures of KIP-450. Needs the extra `plots`."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from operators.definitions.rolling import RollingWindows
from operators.errors import DefinitionError
from operators.explain.lengths import plural
from operators.testing.evaluator import Definition, Step
from operators.testing.scene import LEFT, RIGHT, Bar, Mark, Scene, scene

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_MOST_BARS = 60
_MOST_LABELS = 40
# Colours of Okabe and Ito, which colour-blind people can distinguish.
_COLOURS = {"": "#0072B2", LEFT: "#0072B2", RIGHT: "#E69F00"}
_LATE, _RETRACTED, _INK, _FAINT = "#D55E00", "#8a8f94", "#22262b", "#c9cdd1"
_INCHES_PER_BAR, _INCHES_BESIDE = 0.3, 1.9
_THICK = 0.5
_RECORDS_Y = -1.0


def plot_windows(
    records: pa.Table | Sequence[Step],
    rows: pa.Table | Sequence[Mapping[str, Any]],
    windows: Definition | RollingWindows | None,
    event_time: str,
    *,
    key: Any = None,
    label: str | None = None,
    ax: "Axes | None" = None,
) -> "Axes":
    """Plot the records of one key on a time axis, and below them each window as a bar. Return the axes.

    A bar ends with a filled dot if the bound is inclusive, and with a hollow dot if it is exclusive. Sliding windows have one
    colour if they end with a record (left windows), and another if they start just after one (right windows). Bounds are on the
    left, results on the right. The first 60 windows are drawn; a note shows their total number. The axis covers the windows:
    records further from them than half of their span are counted at its ends. Save the plot with
    `ax.figure.savefig("windows.png", dpi=150)`.

    Args:
        records: the input, as one table or as batches: tables, or pairs of a table and the stream time after it. With batches,
            late records are found by brute force and marked.
        rows: the emitted rows, as a table, or as dictionaries with bounds in ticks.
        windows: the window definition; None for windows of a custom operator, whose bounds are both inclusive.
        event_time: column of the records with timestamps, or with int64 ticks.
        key: value of the key column, or a tuple of values of several; optional if there is only one key. For rolling windows,
            values by name, such as {"card": "gold"}, if they have keys.
        label: column of the records with the labels to show above them.
        ax: axes to draw on; by default the axes of a new figure of a suitable height.

    Raises:
        ImportError: matplotlib is not installed.
        DefinitionError: a column is missing, the key is ambiguous, or there is nothing to draw.
    """
    drawn = scene(records, rows, windows, event_time, key, label)
    if not drawn.marks and not drawn.bars:
        raise DefinitionError(f"there is nothing to draw{f' for {drawn.key}' if drawn.key else ''}")
    shown = drawn.cut(_MOST_BARS)
    axes = _new_axes(len(shown.bars)) if ax is None else ax
    scale = _Scale(shown)
    inside = [mark for mark in shown.marks if scale.first <= mark.time <= scale.last]
    _draw_records(axes, inside, scale, len(shown.bars))
    for row, bar in enumerate(shown.bars):
        _draw_bar(axes, bar, row, scale, half_open=shown.half_open)
    _draw_axes(axes, shown, scale)
    _draw_outside(axes, shown.marks, scale)
    _caption(axes, shown, len(drawn.bars))
    return axes


def _new_axes(bars: int) -> "Axes":
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ImportError(
            "plot_windows needs matplotlib: pip install 'spark-stateful-windows[plots]'"
        ) from error
    height = _INCHES_BESIDE + _INCHES_PER_BAR * bars
    figure = Figure(figsize=(10, height), layout="constrained")
    return figure.subplots()


class _Scale:
    """Ticks as positions on the axis: numbers unchanged, times as matplotlib's days."""

    def __init__(self, drawn: Scene) -> None:
        self.clock = drawn.clock
        self.first, self.last = _span(drawn)

    def x(self, tick: int) -> float:
        """Return the position of a tick."""
        return float(tick) if self.clock.numbers else tick * self.clock.tick_us / 86_400_000_000


def _span(drawn: Scene) -> tuple[int, int]:
    """The first and last tick of the axis, which covers the windows and the records near them."""
    if not drawn.bars:
        return drawn.first, drawn.last
    first, last = min(bar.start for bar in drawn.bars), max(bar.end for bar in drawn.bars)
    reach = max(1, (last - first) // 2)
    near = [mark.time for mark in drawn.marks if first - reach <= mark.time <= last + reach]
    return min([first, *near]), max([last, *near])


def _draw_outside(axes: "Axes", marks: Sequence[Mark], scale: _Scale) -> None:
    """Draw an arrow with the number of records beyond each end of the axis."""
    before = [mark for mark in marks if mark.time < scale.first]
    after = [mark for mark in marks if mark.time > scale.last]
    for outside, end, marker, where in ((before, 0, "<", "before"), (after, 1, ">", "after")):
        if outside:
            late = all(mark.late for mark in outside)
            place, colour = (axes.get_xlim()[end], _RECORDS_Y), _LATE if late else _INK
            axes.plot(*([value] for value in place), marker=marker, color=colour, markersize=7, clip_on=False)
            what = plural(len(outside), "late record" if late else "record")
            axes.annotate(
                f"{what} {where}",
                place,
                (0, 7),
                textcoords="offset points",
                ha="right" if end else "left",
                fontsize=10,
                color=colour,
            )


def _draw_records(axes: "Axes", marks: Sequence[Mark], scale: _Scale, rows: int) -> None:
    for late, marker, colour in ((False, "o", _INK), (True, "X", _LATE)):
        places = [scale.x(mark.time) for mark in marks if mark.late == late]
        if places:
            look: dict[str, Any] = {"marker": marker, "color": colour, "linestyle": "none", "markersize": 7}
            name = "late record" if late else "record"
            axes.plot(places, [_RECORDS_Y] * len(places), label=name, zorder=4, **look)
    on_time = {scale.x(mark.time) for mark in marks if not mark.late}
    axes.vlines(list(on_time), _RECORDS_Y, rows - 0.5, colors=_FAINT, linewidths=0.8, zorder=1)
    for tick, text in _labels(marks, scale):
        axes.annotate(
            text,
            (scale.x(tick), _RECORDS_Y),
            (0, 7),
            textcoords="offset points",
            ha="center",
            fontsize=10,
            color=_INK,
        )


def _labels(marks: Sequence[Mark], scale: _Scale) -> list[tuple[int, str]]:
    """Positions and texts of labels: those at one position are joined, and those that would overlap are omitted."""
    least = max(1, (scale.last - scale.first) // _MOST_LABELS)
    found: list[tuple[int, str]] = []
    for mark in marks:
        if found and mark.time == found[-1][0]:
            found[-1] = (mark.time, f"{found[-1][1]} {mark.label}".strip())
        elif mark.label and (not found or mark.time - found[-1][0] >= least * len(found[-1][1])):
            found.append((mark.time, mark.label))
    return found


def _draw_bar(axes: "Axes", bar: Bar, row: int, scale: _Scale, *, half_open: bool) -> None:
    start, end = scale.x(bar.start), scale.x(bar.end)
    colour = _RETRACTED if bar.retracted else _COLOURS[bar.side]
    axes.barh(
        row,
        end - start,
        left=start,
        height=_THICK,
        color=colour,
        alpha=0.35,
        hatch="///" if bar.retracted else None,
        edgecolor=colour,
        linewidth=0.8,
        zorder=2,
    )
    ends: dict[str, Any] = {
        "marker": "o",
        "markersize": 5,
        "markeredgecolor": colour,
        "linestyle": "none",
        "zorder": 3,
    }
    axes.plot([start], [row], markerfacecolor=colour, **ends)
    axes.plot([end], [row], markerfacecolor="white" if half_open else colour, **ends)
    axes.annotate(
        bar.text,
        (1, row),
        (8, 0),
        xycoords=("axes fraction", "data"),
        textcoords="offset points",
        va="center",
        fontsize=10,
        color=_INK,
    )


def _draw_axes(axes: "Axes", drawn: Scene, scale: _Scale) -> None:
    """Set the limits and labels of both axes."""
    from matplotlib.dates import AutoDateLocator, ConciseDateFormatter
    from matplotlib.ticker import MaxNLocator

    room = 0.03 * (scale.x(scale.last) - scale.x(scale.first)) or 1.0
    axes.set_xlim(scale.x(scale.first) - room, scale.x(scale.last) + room)
    axes.set_ylim(len(drawn.bars) - 0.4, _RECORDS_Y - 0.9)
    axes.set_yticks(
        [_RECORDS_Y, *range(len(drawn.bars))], ["records", *map(drawn.bounds, drawn.bars)], fontsize=10
    )
    axes.tick_params("y", length=0)
    axes.tick_params("x", labelsize=10)
    if scale.clock.numbers:
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        axes.set_xlabel("event time in ticks", fontsize=10)
    else:
        day = scale.clock.day
        locator = AutoDateLocator()  # type: ignore[no-untyped-call]
        axes.xaxis.set_major_locator(locator)
        axes.xaxis.set_major_formatter(ConciseDateFormatter(locator, show_offset=not day))  # type: ignore[no-untyped-call]
        axes.set_xlabel(f"event time, UTC{f', {day}' if day else ''}", fontsize=10)
    axes.spines[["left", "right", "top"]].set_visible(False)


def _caption(axes: "Axes", drawn: Scene, windows: int) -> None:
    """Draw the title, and the legend below it."""
    from matplotlib.patches import Patch

    omitted = windows > len(drawn.bars)
    note = f"the first {len(drawn.bars)} of {windows} windows" if omitted else ""
    axes.set_title(", ".join(filter(None, [drawn.key, note])), loc="left", fontsize=12, pad=28)
    sides = {bar.side for bar in drawn.bars}
    handles, _ = axes.get_legend_handles_labels()
    handles += [
        Patch(color=_COLOURS[side], alpha=0.35, label=f"{side} window")
        for side in (LEFT, RIGHT)
        if side in sides
    ]
    if any(bar.retracted for bar in drawn.bars):
        handles.append(Patch(facecolor=_RETRACTED, alpha=0.35, hatch="///", label="retracted"))
    place: dict[str, Any] = {
        "loc": "lower left",
        "bbox_to_anchor": (0, 1),
        "borderaxespad": 0.2,
        "handletextpad": 0.5,
    }
    axes.legend(handles=handles, ncols=len(handles), frameon=False, fontsize=10, **place)
