"""Which records are late: the one place that decides it.

A record is late if all windows that could contain it are closed. Each plan says before which time that is so:

                          late_before(c)     c: close time at the start of the batch
    time of a record   late    |   not late  |   not late

Late records are counted. Where they are to be reported, `late_reports.py` makes rows of them.
"""

import numpy as np

from operators.columns.ranges import Ints, Mask
from operators.columns.records import Records
from operators.steps.plan import Plan
from operators.steps.step import Step
from state_backends.store.ordering import row_order


def are_late(time: Ints, plan: Plan, step: Step) -> Mask:
    """Return which times are late in a step."""
    return time < plan.late_before(step.close_time_start)


def count_and_report(records: Records, plan: Plan, step: Step) -> Mask:
    """Count the records of a batch, report the late ones, and return which are late."""
    step.count_rows(records.key, records.bad)
    late = are_late(records.time, plan, step)
    rows = np.flatnonzero(late)
    step.report_late(rows, plan.last_window(records.time[rows]))
    return late


def accept(records: Records, plan: Plan, step: Step) -> Records:
    """Count the records of a batch, report the late ones, and return the others sorted by key and time."""
    late = count_and_report(records, plan, step)
    accepted = records.take(np.flatnonzero(~late)) if late.any() else records
    order = row_order(accepted.key, accepted.time)
    return accepted if order is None else accepted.take(order)
