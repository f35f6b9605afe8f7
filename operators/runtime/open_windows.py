"""What the open windows of a stored state hold, as the rows that would come out if no record followed."""

from typing import Any

import pyarrow as pa

from operators.columns.records import FAR_FUTURE
from operators.runtime.binding import Binding
from operators.runtime.clock_changes import check_clock_changes
from operators.runtime.evolution import REFUSE, state_conversion
from operators.runtime.restarts import effective_binding
from operators.steps.step import Step
from state_backends import Entries, WindowStore
from state_backends.backends.memory import MemoryBackend
from state_backends.checkpoints.stored_bucket import Bucket


def open_windows(binding: Binding, closing: Binding, bucket: Bucket) -> pa.Table:
    """Return the rows of the windows that are open in a bucket's state. The bucket is changed: it is a copy.

    Args:
        binding: the operator that wrote the state.
        closing: the same, emitting windows when they close.
        bucket: its state.

    Raises:
        StateError: the state belongs to another operator; names what differs.
        AggregateError: a function of the user fails; names the window.
    """
    change = state_conversion(binding, bucket.identity, bucket.schema, REFUSE)
    effective = effective_binding(closing, bucket.identity)
    effective = effective.counting_since(bucket.pointer.progress.since or {})
    store = WindowStore(bucket.backend, effective.plan.layout, bucket.schema.segment)
    if change is not None:
        store = WindowStore(MemoryBackend(), effective.plan.layout, bucket.schema.segment)
        for stored in bucket.entries():
            store.put_many(stored.keys, Entries(stored.key, tuple(change.columns(stored.columns))))
    check_clock_changes(effective, store, bucket.identity, bucket.close_time)
    engine = effective.plan.engine(store)
    engine.state.rebuild(bucket.close_time)
    nothing = effective.read([effective.inputs.empty()])
    with effective.windows_named():
        emitted = engine.step(nothing, Step(FAR_FUTURE, FAR_FUTURE))
        return pa.concat_tables(
            [effective.output.table([]), *(_still_open(effective, rows, bucket) for rows in emitted)]
        )


def _still_open(binding: Binding, emitted: Any, bucket: Bucket) -> pa.Table:
    """Emitted rows, without sessions that are final: on update, they stay in the state while records may join them."""
    rows = binding.output.table([emitted])
    if binding.output.bounds_type is None:  # Rows that are not of windows.
        return rows
    return rows.filter(pa.array(emitted.end >= bucket.close_time))
