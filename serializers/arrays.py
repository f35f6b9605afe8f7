"""Arrays of any content, and rows of arrays."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt


def fill(values: Sequence[object]) -> npt.NDArray[np.object_]:
    """Return a one-dimensional object array of the values, lists among them left whole. O(n)."""
    return np.fromiter(values, object, len(values))


def rows_between(begins: npt.NDArray[np.int64], counts: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Return the rows of runs, one after another: `counts` rows from each of `begins` on. O(rows)."""
    shift = begins - (np.cumsum(counts) - counts)
    return np.arange(int(counts.sum())) + np.repeat(shift, counts)
