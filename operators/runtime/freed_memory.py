"""Memory of array work: a step's arrays are freed when it ends, and the next step needs as many."""

from functools import cache

import numpy as np

_LARGEST_KEPT = (32 << 20) - (64 << 10)
"""A little below the largest block that glibc takes as a measure of what is worth keeping."""


@cache
def keep_freed_memory() -> None:
    """Have the process keep up to 64 MiB of freed memory, instead of giving it back after each step. Once a process.

    What was given back comes again a page at a time, at about 2 us each: a step of 100,000 records takes 6,000 pages, a third
    of its time. glibc keeps twice as much as the largest block that was ever mapped apart and freed, which is what is done
    here, without touching the block. Nothing changes with an allocator of another kind. (mallopt(3), M_MMAP_THRESHOLD)
    """
    np.empty(_LARGEST_KEPT, np.uint8)
