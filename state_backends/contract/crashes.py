"""A process that writes until it is killed, and what may be found after it."""

import random
from collections.abc import Mapping
from pathlib import Path

from state_backends.contract.states import Pages, applied
from state_backends.interface import WriteBatch
from state_backends.registry import load_backend

_KEPT = 20


def write_forever(name: str, directory: str, options: Mapping[str, str]) -> None:
    """Write the states of `crash_state` one after another until the process is killed."""
    backend = load_backend(name).open(Path(directory), options)
    number = 0
    while True:
        backend.write(crash_batch(number), b"%d" % number)
        if number == 200:
            print("writing", flush=True)
        number += 1


def crash_state(number: int) -> Pages:
    """Return the pages after that many writes of `write_forever` and one more."""
    pages: Pages = {}
    for n in range(max(0, number - _KEPT), number + 1):
        pages = applied(pages, crash_batch(n))
    return pages


def crash_batch(number: int) -> WriteBatch:
    """Pages in two segments, the deletion of an older one, and the drop of what is old."""
    page = random.Random(number).randbytes(4_000)
    return WriteBatch(
        puts={number: {b"a": page, b"b": page}, number - 1: {b"c": page}},
        deletes={number - 2: {b"a"}},
        drop_segments_below=number - _KEPT // 2,
    )
