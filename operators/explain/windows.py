"""The windows of an operator in time: their bounds, when they close, and how long their entries are kept."""

from functools import singledispatch
from typing import Any

from operators.custom.plan import CustomPlan
from operators.engines.fold_engine import FoldPlan
from operators.engines.pane_engine import PanePlan
from operators.engines.rolling import RollingPlan
from operators.engines.sessions import SessionPlan
from operators.explain.lengths import length
from operators.explain.parts import WindowsPart
from operators.kinds.fold_hopping import FoldedHopping
from operators.kinds.fold_sliding import FoldedSliding
from operators.kinds.hopping import Hopping, Hops
from operators.kinds.sliding import Sliding, SlidingBounds
from operators.runtime.binding import Binding

_CLOSED = "a window whose end is before the close time"


def windows_of(binding: Binding) -> WindowsPart:
    """Return the windows of a binding."""
    plan = binding.plan
    return _windows(plan.kind if isinstance(plan, PanePlan | FoldPlan) else plan, binding)


@singledispatch
def _windows(plan: Any, binding: Binding) -> WindowsPart:
    del binding
    raise TypeError(f"cannot explain a plan of type {type(plan).__name__}")


@_windows.register
def _(kind: Sliding, binding: Binding) -> WindowsPart:
    return WindowsPart(
        f"sliding windows of {length(kind.size * binding.tick_us)}",
        *_sliding(kind, binding),
        "a pane for each distinct event time of a key",
        "panes",
        "its event time",
        (1 - kind.dead_before(0)) * binding.tick_us,
    )


@_windows.register
def _(kind: FoldedSliding, binding: Binding) -> WindowsPart:
    return WindowsPart(
        f"sliding windows of {length(kind.size * binding.tick_us)}, window by window",
        *_sliding(kind, binding),
        "a window, about two for each distinct event time of a key",
        "windows",
        "its end",
        (1 - kind.dead_before(0)) * binding.tick_us,
    )


def _sliding(kind: SlidingBounds, binding: Binding) -> tuple[str, str, str]:
    size, tick = length(kind.size * binding.tick_us), length(binding.tick_us)
    behind = length(-kind.late_before(0) * binding.tick_us)
    return (
        f"[t - {size}, t] for each event time t of a key, and [t + {tick}, t + {tick} + {size}] if a record is in it",
        f"a record more than {behind} before the close time: all windows that could contain it are closed",
        _CLOSED,
    )


@_windows.register
def _(kind: Hopping, binding: Binding) -> WindowsPart:
    pane = length(kind.pane * binding.tick_us)
    one = kind.pane == kind.size
    entry = "a window" if one else f"a pane of {pane} (the greatest common divisor of size and advance)"
    return WindowsPart(
        _hopping_title(kind, binding),
        *_hopping(kind, binding),
        f"{entry} with a record in it",
        "windows" if one else "panes",
        "its start",
        kind.size * binding.tick_us,
        kind.pane * binding.tick_us,
    )


@_windows.register
def _(kind: FoldedHopping, binding: Binding) -> WindowsPart:
    return WindowsPart(
        f"{_hopping_title(kind, binding)}, window by window",
        *_hopping(kind, binding),
        "a window with a record in it",
        "windows",
        "its start",
        (kind.size - kind.dead_before(0)) * binding.tick_us,
        kind.advance * binding.tick_us,
    )


def _hopping_title(kind: Hops, binding: Binding) -> str:
    size, step = length(kind.size * binding.tick_us), length(kind.advance * binding.tick_us)
    return (
        f"tumbling windows of {size}"
        if kind.size == kind.advance
        else f"hopping windows of {size} every {step}"
    )


def _hopping(kind: Hops, binding: Binding) -> tuple[str, str, str]:
    size, step = length(kind.size * binding.tick_us), length(kind.advance * binding.tick_us)
    shifted = f", shifted by {length(kind.offset * binding.tick_us)}" if kind.offset else ""
    return (
        f"[start, start + {size}), a start every {step} since the epoch{shifted}",
        "a record whose last window is closed",
        "a window whose end (exclusive) is at or before the close time",
    )


@_windows.register
def _(plan: SessionPlan, binding: Binding) -> WindowsPart:
    gap = (
        f"the gap in column {binding.inputs.gap!r}"
        if plan.gap is None
        else length(plan.gap * binding.tick_us)
    )
    limit, late = "", "a record whose session, including all that it joins, is closed"
    entry, entries = "an open session of a key", "sessions"
    if plan.longest is not None:
        limit = f"; at most {length(plan.longest * binding.tick_us)} from first to last event, then the next session begins"
        late = "a record whose session without other records would be closed"
        entry, entries = (
            "a distinct event time of a session, since late records can move its bounds",
            "event times",
        )
    return WindowsPart(
        f"sessions with gaps of {'each record' if plan.gap is None else gap}",
        f"[first event, last event + {gap}], both ends inclusive{limit}",
        late,
        _CLOSED,
        entry,
        entries,
        "its last record",
        None if plan.gap is None else (plan.gap + 1) * binding.tick_us,
        lone=plan.longest is None,
    )


@_windows.register
def _(plan: RollingPlan, binding: Binding) -> WindowsPart:
    lengths = ["the lifetime" if n is None else length(n * binding.tick_us) for n in plan.kind.lookbacks]
    opening, closing = (
        "[" if plan.kind.closed in ("both", "left") else "(",
        "]" if plan.kind.closed in ("both", "right") else ")",
    )
    bounds = [
        f"{opening}t - {length(n * binding.tick_us)}, t{closing}"
        for n in plan.kind.lookbacks
        if n is not None
    ]
    bounds += [f"all {'until' if closing == ']' else 'before'} t"] if plan.kind.lifetime else []
    entry = "a pane for each distinct event time of a key"
    if plan.kind.lifetime:
        entry += ", one pane for all that is older than the longest other lookback"
        if plan.kind.forget_after is not None:
            entry += (
                f" until the key was without records for {length(plan.kind.forget_after * binding.tick_us)}"
            )
    if not plan.on_arrival:
        entry += ", and the rows of a key, segment and batch while they wait"
    return WindowsPart(
        f"rolling windows of {', '.join(lengths)}",
        f"{', '.join(bounds)} for each record at t",
        "a record before the close time: it gets no row, but counts in the rows that are not out",
        "a row whose event time is before the close time",
        entry,
        "panes",
        "its event time",
        (plan.kind.longest + 1) * binding.tick_us,
    )


@_windows.register
def _(plan: CustomPlan, binding: Binding) -> WindowsPart:
    del binding
    kind = type(plan.definition)
    return WindowsPart(
        f"{kind.__name__}, a custom operator, version {kind.version}",
        "those of the operator",
        "a record before the time that `late_before` gives"
        if kind.judges_late
        else "a record before the close time",
        "entries whose timer is before the close time go to `fire`" if kind.timed else "no timers",
        kind.entry,
        "entries",
        "its time",
        None,
    )
