"""The turn of a worker process: one thread at a time works on a bucket, or calls user functions.

Several tasks at once may ask a process for state. Not all that it works with is made for several threads, user functions
least of all, and threads of one interpreter gain little: two processes with 2, 4 and 8 buckets took the same time of the
processor either way, and the same time within what two runs differ by.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock

from operators.runtime.binding import Binding

_turn = Lock()


@contextmanager
def in_turn() -> Iterator[None]:
    """Run the block while no other thread of this process runs such a block."""
    with _turn:
        yield


def end_if_forked(process: int) -> None:
    """End this process if a user function has forked it and come back: copies and answers are those of the other one.

    Args:
        process: the number that this process had before it called the function.
    """
    if os.getpid() != process:
        os._exit(0)


@contextmanager
def one_at_a_time(binding: Binding) -> Iterator[None]:
    """Run the block in turn if the binding has user functions. Without them, it does not wait."""
    if not binding.plan.calls_user_code:
        yield
        return
    with in_turn():
        yield
