"""A bucket's share of a savepoint, brought to one close time: what becomes due by it, and what remains."""

from collections.abc import Callable

from operators.runtime.binding import Binding
from operators.runtime.evolution import StateConversion
from operators.steps.step import FailedCall, Step
from operators.steps.timed_store import Emitted
from state_backends import Entries
from state_backends.backends.memory import MemoryBackend
from state_backends.checkpoints.savepoint import Savepoint


def load_share(
    binding: Binding,
    change: StateConversion | None,
    savepoint: Savepoint,
    share: tuple[int, int],
    failed: list[FailedCall],
    keep: Callable[[list[bytes], Entries], None],
) -> list[Emitted]:
    """Return what becomes due at the savepoint's close time, and hand over the entries that remain.

    Args:
        binding: the operator as it goes on with the state.
        change: how entries are converted; None if they fit.
        savepoint: the savepoint.
        share: number of the bucket, and how many there are.
        failed: gets the calls that raise.
        keep: called with keys and their entries.

    Raises:
        AggregateError: a function of the user fails; names the window.
        CorruptDataError: a file of the savepoint is damaged; names it.

    Cost: the entries of one of the old query's buckets at a time are in memory, in addition to what is kept.
    """
    emitted: list[Emitted] = []
    for close_time, keys, entries in savepoint.groups(*share):
        if change is not None:
            entries = Entries(entries.key, tuple(change.columns(entries.columns)))  # noqa: PLW2901
        store = binding.store(MemoryBackend())
        store.put_many(keys, binding.plan.cut_entries(entries, binding.segment, close_time))
        engine = binding.plan.engine(store)
        engine.state.rebuild(close_time)
        nothing = binding.read([binding.inputs.empty()])
        with binding.windows_named():
            emitted += engine.step(nothing, Step(savepoint.close_time, savepoint.close_time, failed=failed))
        for names, left in store.scan():
            keep(names, left)
    return emitted
