"""Which records are late: the one place that decides it.

A record is late if all windows that could contain it are closed. Each plan says before which time that is so:

                          late_before(c)     c: close time at the start of the batch
    time of a record   late    |   not late  |   not late

Late records are counted. Where they are to be reported, `late_reports.py` makes rows of them.
"""

from typing import Protocol

import numpy as np

from operators.columns.ranges import Ints, Mask
from operators.columns.records import Records
from operators.steps.step import Step
from state_backends.store.ordering import row_order


class LateRule(Protocol):
    """A plan, as far as lateness goes."""

    def late_before(self, close_time: int) -> int:
        """Return the time before which a record is late: all windows that could contain it are closed."""


class RecordRule(LateRule, Protocol):
    """A plan that takes records one by one."""

    def last_window(self, time: Ints) -> tuple[Ints, Ints]:
        """Return start and end, as they are emitted, of the last window that could contain a record at each time."""


def are_late(time: Ints, rule: LateRule, step: Step) -> Mask:
    """Return which times are late in a step."""
    return time < rule.late_before(step.close_time_start)


def count_and_report(records: Records, rule: RecordRule, step: Step) -> Mask:
    """Count the records of a batch, report the late ones, and return which are late."""
    step.count_rows(records.key, records.bad)
    late = are_late(records.time, rule, step)
    rows = np.flatnonzero(late)
    step.report_late(rows, rule.last_window(records.time[rows]))
    return late


def accept(records: Records, rule: RecordRule, step: Step) -> Records:
    """Count the records of a batch, report the late ones, and return the others sorted by key and time."""
    late = count_and_report(records, rule, step)
    accepted = records.take(np.flatnonzero(~late)) if late.any() else records
    order = row_order(accepted.key, accepted.time)
    return accepted if order is None else accepted.take(order)
