"""The turn of user functions in a worker process: one thread at a time calls them.

A process may work for several tasks at once: for the one that Spark has given it, and for others that ask it because it has the
copy of their bucket. Functions of users are not written for that.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock

from operators.runtime.binding import Binding

_turn = Lock()


@contextmanager
def one_at_a_time(binding: Binding) -> Iterator[None]:
    """Run the block while no other thread of this process runs user functions in such a block.

    A binding without user functions does not wait.
    """
    if not binding.plan.calls_user_code:
        yield
        return
    with _turn:
        yield
