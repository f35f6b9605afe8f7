"""States of sketches, and what the library does with them."""

import random
from functools import cache

import numpy as np
import pyarrow as pa

from operators import aggregates as agg
from operators.aggregates import Aggregate
from operators.columns.arrow import column_data
from operators.columns.records import Records
from serializers.arrays import fill
from tests.hostile.mutate import EDGES, mutated

DISTINCT = agg.approx_count_distinct("v", 0.09)
QUANTILES = agg.approx_quantiles("v", [0.1, 1.0], 8)
_COUNTS = 0, 1, 5, 20, 1_000


@cache
def seeds(aggregate: Aggregate) -> list[bytes]:
    """Return the states of no value, of a few, and of so many that they are condensed."""
    (operation,) = aggregate.bind({"v": pa.float64()}).operations
    found = []
    for count in _COUNTS:
        values = pa.array([*np.random.default_rng(1).random(count).tolist(), None])
        records = Records(
            [b""], np.zeros(count + 1, np.int64), np.arange(count + 1), {"v": column_data(values)}, 0
        )
        (state,) = operation.accumulate(records, np.array([0]))
        found += state.tolist()
    return found


def read(aggregate: Aggregate, sketch: bytes) -> object:
    """Combine a sketch with others, and compute the results of all."""
    bound = aggregate.bind({"v": pa.float64()})
    (operation,) = bound.operations
    stored = (fill([sketch, *seeds(aggregate), sketch]),)
    united = operation.reduce(stored, np.array([0, 2, 4]))
    lo, hi = np.array([0, 0, 1, 2]), np.array([1, 2, 3, 3])
    return [bound.finish([operation.combine_ranges(state, lo, hi)]) for state in (stored, united)]


def forge(rng: random.Random, sketch: bytes) -> bytes:
    """Return a sketch with some words that are others, or of another length."""
    words = np.frombuffer(sketch, "<u4").copy()
    for _ in range(rng.randrange(1, 4) if len(words) else 0):
        at = rng.randrange(min(len(words), rng.choice((6, 20, 500))))
        words[at] ^= rng.choice((1 << rng.randrange(32), rng.choice(EDGES) & 0xFFFFFFFF))
    return words.tobytes() if rng.randrange(4) else mutated(rng, words.tobytes())
