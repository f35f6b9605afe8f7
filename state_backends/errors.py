"""The error of state that cannot be used."""

CHECKPOINT_CHANGED = (
    "the checkpoint was changed by another program. Restore it from a copy, or start with a new one"
)
"""The end of messages about a journal that does not fit together."""


class StateError(RuntimeError):
    """State that cannot be opened, read or written. The message says what is wrong and the way out."""


class DamagedCopyError(StateError):
    """A local copy cannot be opened, because files of it are damaged or missing. The changelog restores what it held."""
