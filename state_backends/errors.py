"""The error of state that cannot be used."""

CHECKPOINT_CHANGED = (
    "the checkpoint was changed by another program. Restore it from a copy, or start with a new one"
)
"""The end of messages about a journal that does not fit together."""


class StateError(RuntimeError):
    """State that cannot be opened, read or written. The message says what is wrong and the way out."""


class DamagedCopyError(StateError):
    """A local copy cannot be read, because its files are damaged or missing, or its disk fails.

    Whoever has the copy deletes it, rebuilds it from the changelog and repeats the batch, once.
    """
