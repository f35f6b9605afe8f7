"""What a user's function may do to its process."""

import os


def end_if_forked(process: int) -> None:
    """End this process if a user function has forked it and come back: copies and answers are those of the other one.

    Args:
        process: the number that this process had before it called the function.
    """
    if os.getpid() != process:
        os._exit(0)
