"""The errors of state that cannot be used."""

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager

CHECKPOINT_CHANGED = (
    "the checkpoint was changed by another program. Restore it from a copy, or start with a new one"
)
"""The end of messages about a journal that does not fit together."""
_OF_DISK = os.strerror(errno.ENOSPC), os.strerror(errno.EIO)


class StateError(RuntimeError):
    """State that cannot be opened, read or written. The message says what is wrong and the way out."""


class DamagedCopyError(StateError):
    """A local copy cannot be read, because its files are damaged or missing, or its disk fails.

    Whoever has the copy deletes it, rebuilds it from the changelog and repeats the batch, once.
    """


def is_of_disk(error: Exception) -> bool:
    """Return whether an error says that a local disk is full or fails, and nothing of what was to be stored there."""
    return any(text in str(error) for text in _OF_DISK)


@contextmanager
def pages_of_copy(*, resident: bool) -> Iterator[None]:
    """Raise damage of pages that a backend returned as that of its copy, unless they are the journal's own.

    Args:
        resident: whether the backend's pages live in the journal.

    Raises:
        DamagedCopyError: a page of a local copy is damaged.
        CorruptDataError: one of the journal is.
    """
    # Here, since the driver's Python has the errors of a journal, and loads no Arrow.
    from serializers import CorruptDataError

    try:
        yield
    except CorruptDataError as error:
        if resident:
            raise
        raise DamagedCopyError(f"a page of a local copy is damaged: {error}") from error
