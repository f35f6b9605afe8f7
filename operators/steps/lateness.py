"""Which records are late, and the window that each of them missed: the one place that decides it.

A record is late if all windows that could contain it are closed. Each plan says before which time that is so, and which of
these windows is the last one:

                          late_before(c)     c: close time at the start of the batch
    time of a record   late    |   not late  |   not late

Late records are counted. Where they are to be reported, `late_reports.py` makes rows of them.
"""

from collections.abc import Callable

import numpy as np

from operators.columns.ranges import Ints, Mask
from operators.columns.records import Records
from operators.steps.plan import Plan
from operators.steps.step import LateRecords, Step
from state_backends.store.ordering import row_order


def find_late(
    time: Ints, plan: Plan, step: Step, windows: Callable[[Ints], tuple[Ints, Ints]] | None = None
) -> tuple[Mask, LateRecords]:
    """Return which times are late in a step, and the last window that each of these could have been in.

    Args:
        time: shape (n,), int64: in ticks.
        plan: the plan of the operator.
        step: its close time at the start decides.
        windows: returns the bounds of the windows of the times at these positions; by default the plan knows them.
    """
    close_time = step.close_time_start
    late = time < plan.late_before(close_time)
    rows = np.flatnonzero(late)
    start, end = plan.last_window(time[rows]) if windows is None else windows(rows)
    return late, LateRecords(rows, start, end, close_time)


def count_and_report(records: Records, plan: Plan, step: Step) -> Mask:
    """Count the records of a batch, report the late ones, and return which are late."""
    step.count_rows(records.key, records.bad)
    late, missed = find_late(records.time, plan, step)
    step.report_late(missed)
    return late


def accept(records: Records, plan: Plan, step: Step) -> Records:
    """Count the records of a batch, report the late ones, and return the others sorted by key and time."""
    late = count_and_report(records, plan, step)
    accepted = records.take(np.flatnonzero(~late)) if late.any() else records
    order = row_order(accepted.key, accepted.time)
    return accepted if order is None else accepted.take(order)
