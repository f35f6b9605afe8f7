"""What do encoding panes as pages and decoding them cost, for many small pages and for few large ones?"""

import numpy as np
import pytest

from benchmarks.measure import Measure
from serializers.pages import Column, PageLayout

LAYOUT = PageLayout(("i8", "i8", "f8", "f8", "f8"))
SHAPES = {"100,000 pages of 2 rows": (100_000, 2), "100 pages of 2,000 rows": (100, 2_000)}
SECTION = "pages"


def content(pages: int, rows: int) -> tuple[list[Column], np.ndarray]:
    """Columns, and rows by page."""
    rng = np.random.default_rng(0)
    count = pages * rows
    numbers = [np.arange(count), rng.integers(0, 10**6, count)]
    return [*numbers, *(rng.random(count) for _ in range(3))], np.full(pages, rows)


@pytest.mark.parametrize("shape", SHAPES)
def test_encode(measure: Measure, shape: str) -> None:
    columns, counts = content(*SHAPES[shape])
    pages = measure(
        lambda: LAYOUT.encode(columns, counts),
        section=SECTION,
        system="encode",
        rows=len(columns[0]),
        rounds=9,
        shape=shape,
    )
    assert len(counts) == len(pages)


@pytest.mark.parametrize("shape", SHAPES)
def test_decode(measure: Measure, shape: str) -> None:
    columns, counts = content(*SHAPES[shape])
    pages = LAYOUT.encode(columns, counts)
    decoded, _ = measure(
        lambda: LAYOUT.decode(pages),
        section=SECTION,
        system="decode",
        rows=len(columns[0]),
        rounds=9,
        shape=shape,
    )
    assert all((a == b).all() for a, b in zip(columns, decoded, strict=True))
