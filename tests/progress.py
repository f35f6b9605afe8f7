"""How far a check of hours has come."""

# ruff: noqa: T201 - for scripts that print

import time
from collections.abc import Iterable, Iterator
from typing import TypeVar

Thing = TypeVar("Thing")
SECONDS = 60.0


def told(
    name: str, things: Iterable[Thing], total: int | None = None, seconds: float = SECONDS
) -> Iterator[Thing]:
    """Yield each, and print from time to time how many there were.

    Args:
        name: of what is done.
        things: that are yielded.
        total: how many there are, if that is known.
        seconds: from one line to the next.
    """
    began = said = time.monotonic()
    for number, thing in enumerate(things):
        now = time.monotonic()
        if now - said >= seconds:
            of = f" of {total:,}" if total is not None else ""
            print(f"{now - began:6.0f} s  {name}: {number:,}{of}", flush=True)
            said = now
        yield thing
