"""Since when the results of a stored state count all records: aggregates that were added later lack the earlier ones.

records    x  x   x | x   x
added               ^ here: the state has records until the one before
since                 ^ a window that begins at this time or later has all its records
"""

from collections.abc import Mapping

from operators.runtime.binding import Binding
from operators.runtime.evolution import StateConversion
from state_backends import WindowStore
from state_backends.store.schema import TIME, StoredSchema

_FAR = 2**60
"""Times from here on are none of records: entries of lifetimes have such a one."""
_OF_NO_RECORD = {"waits_until"}


def with_begun(
    since: Mapping[str, int],
    change: StateConversion | None,
    binding: Binding,
    store: WindowStore,
    close_time: int,
) -> dict[str, int]:
    """Return since when each state that was added later counts, in ticks, with those that a conversion adds.

    Args:
        since: the `since` of earlier additions.
        change: the conversion; None if there is none.
        binding: the operator, as it goes on with the state.
        store: has the converted state.
        close_time: that the state had reached.

    Cost: O(state), if states are added.
    """
    names = {operation.describe() for operation in binding.plan.operations}
    kept = {name: time for name, time in since.items() if name in names}
    begun = [] if change is None else change.begun
    latest = latest_time(binding, store, close_time) if begun else None
    # Without entries, no open window has earlier records.
    return kept if latest is None else kept | dict.fromkeys(begun, latest + 1)


def latest_time(binding: Binding, store: WindowStore, close_time: int) -> int | None:
    """Return a time in ticks that no record in the store is after, or None if it has none."""
    plan, latest = binding.plan, None
    columns = [n for n, (name, kind) in enumerate(plan.head) if kind == TIME and name not in _OF_NO_RECORD]
    for _, entries in store.scan():
        latest = close_time - 1 if latest is None else latest
        for number in columns:
            times = entries.columns[number]
            times = times[times < _FAR]
            latest = max(latest, int(times.max()) + plan.longest_pane - 1) if len(times) else latest
    return latest


def since_of_results(schema: StoredSchema, since: Mapping[str, int]) -> dict[str, int]:
    """Return since when each result that was added later counts all records, in ticks, by name."""
    found = {
        result: [since[name] for name in (schema.states[n].name for n in numbers) if name in since]
        for result, numbers in schema.results
    }
    return {result: max(times) for result, times in found.items() if times}
