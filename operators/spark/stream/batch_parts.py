"""How a bucket takes a batch that may be too large for memory: in parts, in order of time.

    rows of the batch by time   |---- part 1 ----|---- part 2 ----|---- part 3 ----|
    close time                start            first of 2       first of 3        end

After each part, the close time moves to the first time of the rows that are left, as far as the batch's own end allows. So a
part is to the operator what a batch is, and all parts together give the rows of the whole. Where rows come out before their
windows are closed, with the values after the whole batch, it has to be one step.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pyarrow as pa

from operators.columns.ranges import Ints
from operators.columns.records import FAR_PAST
from operators.runtime.binding import Binding
from operators.spark.inputs import blobs
from operators.spark.inputs.blobs import from_blobs
from operators.spark.replicas.calls import Blobs
from operators.steps.plan import Engine
from serializers.arrays import Chunks, cut_rows, row_bytes

MOST_PIECES = 256
"""Of one segment: more cost more steps than memory is worth."""


@dataclass(frozen=True, slots=True)
class Part:
    """A part of a batch.

    Attributes:
        close_times: the close times at its start and at its end, in ticks.
        rows: tables of records.
        partials: tables of what a first stage made of records.
    """

    close_times: tuple[int, int]
    rows: Sequence[pa.Table] = ()
    partials: Sequence[pa.Table] = ()


def pieces(binding: Binding, engine: Engine, close_times: tuple[int, int], arrived: Blobs) -> Iterator[Part]:
    """Yield what the operator processes at once, one after the other: all of a batch, if it is not too large.

    Args:
        binding: the binding of the operator.
        engine: it has processed each piece before the next one is asked for.
        close_times: the close times of the batch.
        arrived: what arrived in the batch.
    """
    whole = Part(close_times, from_blobs(arrived.rows), from_blobs(arrived.partials))
    cut = arrived.large and binding.plan.can_be_parted
    for part in in_parts(binding, whole) if cut else [whole]:
        yield from in_stages(engine, part)


def in_parts(binding: Binding, whole: Part) -> Iterator[Part]:
    """Yield a batch in parts of some MiB; rows of one time stay together.

    Args:
        binding: whose batches can be parted.
        whole: the batch.

    Cost: about 40 bytes of memory for each row, and one copy of the batch.
    """
    start, end = whole.close_times
    if not any(table.num_rows for table in whole.rows):
        yield whole
        return
    time, size = _times(binding, whole.rows), np.concatenate([row_bytes(table) for table in whole.rows])
    if not binding.plan.late_alone:
        time = np.maximum(time, start - 1)  # One may keep another from being late.
    order = np.argsort(time, kind="stable")
    time = time[order]
    moments = np.flatnonzero(np.append(True, time[1:] != time[:-1]))
    ranges = cut_rows(np.add.reduceat(size[order], moments), blobs.AT_ONCE_BYTES)
    edges = [*(int(moments[first]) for first, _ in ranges), len(time)]
    chunks, before = Chunks(pa.concat_tables(whole.rows)), start
    for first, last in pairwise(edges):
        after = end if last == len(time) else max(before, min(end, int(time[last])))
        rows = chunks.take(np.sort(order[first:last]))
        yield Part((before, after), [rows], () if first else whole.partials)
        before = after


def _times(binding: Binding, rows: Sequence[pa.Table]) -> Ints:
    """The times of all rows in ticks; of those that cannot be used, the earliest."""
    found = []
    for table in rows:
        time, _, usable = binding.inputs.records.times(table)
        found.append(time if usable is None else np.where(usable, time, FAR_PAST))
    return np.concatenate(found)


def in_stages(engine: Engine, part: Part) -> Iterator[Part]:
    """Yield a part so that the rows which wait come out some MiB at a time: by segments, and by parts of large ones."""
    if not engine.plan.stores_rows:
        yield part
        return
    start, end = part.close_times
    state, sizes = engine.state, (blobs.AT_ONCE_BYTES, MOST_PIECES)
    for stage in state.stages(state.close_time, start, *sizes):
        yield Part((stage, stage))
    later = list(state.stages(max(start, state.close_time), end, *sizes))
    if not later:
        yield part
        return
    yield Part((start, start), part.rows, part.partials)
    for stage in [*later, end]:
        yield Part((stage, stage))
