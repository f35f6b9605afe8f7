"""States of windows in the calendar of a zone: whether the clock that they were written with is still the zone's.

The tz database changes every few months, mostly for the future, and zones get other names. What counts is what the clock does
over the time that is stored.

    clock changes   |      |           |      x         the stored ones
                    |      |           |         y      those of today
    stored                       [--------)             the same here: the state is taken
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from operators.columns.records import FAR_FUTURE, FAR_PAST
from operators.columns.zones import DAY_S, Zone
from operators.kinds.calendars import CLOCK_CHANGES, ZONE
from operators.runtime.binding import Binding
from state_backends import StateError, WindowStore

_MARGIN_S = 2 * DAY_S
"""The latest local time so far depends on the clock of the day before."""


def check_clock_changes(
    binding: Binding, store: WindowStore, stored_identity: Mapping[str, Any], close_time: int
) -> None:
    """Refuse a state that another clock has cut into windows. O(state) if the clocks differ at any time; O(1) if not.

    Args:
        binding: the operator.
        store: has the state.
        stored_identity: what the state depends on.
        close_time: that it has reached.

    Raises:
        StateError: names the first instant at which the clocks differ, and the way out.
    """
    before = former_clock(binding, stored_identity)
    if before is None:
        return
    latest = None
    for _, entries in store.scan():
        times = entries.time[entries.time < FAR_FUTURE]
        latest = int(times.max(initial=close_time if latest is None else latest))
    if latest is None or latest <= FAR_PAST:
        return
    differs = clock_difference(binding, before, close_time, latest)
    if differs is not None:
        raise StateError(
            f"the windows of the state follow {differs}. Go back to the former zone, or to the former tz database, or start "
            "this one with a new checkpoint"
        )


def former_clock(binding: Binding, stored_identity: Mapping[str, Any]) -> Zone | None:
    """Return the clock that something stored follows, if it is another one at any time; None if it is the operator's.

    Raises:
        CorruptDataError: what is stored is no clock.
    """
    zone, text = binding.plan.zone, stored_identity.get(CLOCK_CHANGES)
    if zone is None or text is None or text == zone.text:
        return None
    return Zone.of_text(stored_identity[ZONE], text)


def clock_difference(binding: Binding, before: Zone, close_time: int, latest: int) -> str | None:
    """Return how the clock that something stored follows differs from the operator's; None if it does not.

    Args:
        binding: the operator.
        before: the clock of what is stored.
        close_time: the time in ticks up to which windows are closed.
        latest: the latest time of an entry.
    """
    zone, per_second = binding.plan.zone, 1_000_000 // binding.tick_us
    assert zone is not None  # noqa: S101 - `former_clock` found another one
    since, until = binding.plan.stored_span(close_time, latest)
    found = before.first_difference(zone, since // per_second - _MARGIN_S, until // per_second)
    if found is None:
        return None
    at, was, is_now = found
    moment = str(np.datetime64(at, "s")).replace("T", " ")
    return (
        f"the clock of {before.name!r} as it was known when they were written, and that of {zone.name!r} differs from "
        f"{moment} UTC on: it was {was} s ahead of UTC, and is {is_now} s"
    )
