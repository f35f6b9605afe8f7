"""Many things gathered to few, for pictures of a bounded size."""

from collections.abc import Sequence
from itertools import pairwise
from typing import TypeVar

T = TypeVar("T")


def group_evenly(things: Sequence[T], most: int) -> list[Sequence[T]]:
    """Return neighbours in groups of nearly equal size: as many groups as things, but `most` at most."""
    count = min(most, len(things))
    bounds = [len(things) * at // count for at in range(count + 1)] if count else [0]
    return [things[low:high] for low, high in pairwise(bounds)]


def span(first: object, last: object) -> str:
    """Return a range as text, or what is both its ends."""
    return str(first) if first == last else f"{first} to {last}"
