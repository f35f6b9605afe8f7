"""HyperLogLog: the number of distinct values from the highest rank of a hash in each register.

A hash of 32 bits says which register a value belongs to, and its rank: how many zeros another hash of the value begins with,
plus one.

    |  rank, 6 bits  |  place, 26 bits  |        the last bits of the place are the register's number

(Flajolet et al. 2007; the estimate is that of Ertl 2017, "New cardinality estimation algorithms for HyperLogLog sketches")
"""

from functools import cache

import numpy as np
import numpy.typing as npt

from operators.aggregates.hashes import Hashes
from operators.aggregates.once import ascending_runs, pairs_of_levels, weight_of_pairs
from operators.columns.ranges import Ints

Registers = npt.NDArray[np.uint8]
PLACE_BITS = 26
_MOST_ZEROS = 62
MAX_RANK = _MOST_ZEROS + 1
UNIT = 1 << 40
"""What a register without a value counts: half as much for each rank. Sums of 2**21 registers fit into 64 bits."""
_BLOCK_BYTES = 1 << 22
"""Registers that are computed at once: they fit into a core's cache."""
_COUNTED_ALONE = np.append(0, np.cumsum(UNIT >> np.arange(1, MAX_RANK + 1)))
"""What a register's rank takes away from what a register without a value counts."""


def shorten(hashes: tuple[Hashes, Hashes]) -> Ints:
    """Return place and rank of hashes of 128 bits, as numbers of 32 bits, none of which is 0."""
    first, second = hashes
    high, low = (
        np.frexp(half.astype(np.float64))[1]
        for half in (second >> np.uint64(32), second & np.uint64(0xFFFF_FFFF))
    )
    zeros = np.minimum(np.where(high > 0, 32 - high, 64 - low), _MOST_ZEROS).astype(np.int64)
    return (zeros + 1) << PLACE_BITS | (first & np.uint64((1 << PLACE_BITS) - 1)).astype(np.int64)


def slot_and_rank(short: Ints, log_size: int) -> tuple[Ints, Ints]:
    """Return the number of the register, and the rank, of numbers that `shorten` returned."""
    return short & ((1 << log_size) - 1), short >> PLACE_BITS


def estimates(filled: Ints, taken: Ints, log_size: int) -> Ints:
    """Return the number of distinct values of registers.

    Args:
        filled: shape (n,): how many registers have a value.
        taken: shape (n,): the sum of what their ranks take away from what they would count without a value.
        log_size: log2 of the number of registers.
    """
    size = 1 << log_size
    remaining = (filled * UNIT - taken) / UNIT  # the sum of 2**-rank
    raw = size * size / (2 * np.log(2)) / (size * _sigma(log_size)[filled] + remaining)
    return np.rint(raw).astype(np.int64)


@cache
def _sigma(log_size: int) -> npt.NDArray[np.float64]:
    """Ertl's correction for registers without a value, by how many have one."""
    size = 1 << log_size
    share = (size - np.arange(size + 1)) / size
    share[0] = 0  # it would be infinite, and is not asked for
    total, power, factor = share.copy(), share, 1.0
    while True:
        power = power * power
        more = total + power * factor
        if (more == total).all():
            return total
        total, factor = more, 2 * factor


def of_rows(registers: Registers) -> tuple[Ints, Ints]:
    """Return for each row of registers how many have a value, and what their ranks take away: arguments of `estimates`."""
    filled = np.count_nonzero(registers, axis=1)
    taken = np.empty(len(registers), np.int64)
    for first in range(0, len(registers), rows := max(1, _BLOCK_BYTES // registers.shape[1] // 8)):
        taken[first : first + rows] = _COUNTED_ALONE[registers[first : first + rows]].sum(axis=1)
    return filled, taken


def of_elements(slot: Ints, rank: Ints, begin: Ints, end: Ints) -> tuple[Ints, Ints]:
    """Return the arguments of `estimates` for each range of a sequence of values.

    Args:
        slot, rank: shape (n,): register and rank of each value.
        begin, end: shape (m,): ranges [begin, end), none empty.

    Cost: O(n + m) array work for each run of ranges whose ends ascend. No registers are made.
    """
    count = len(slot)
    keys = np.sort(slot << 38 | np.arange(count) << 6 | rank)
    slots, order, ranks = keys >> 38, keys >> 6 & 0xFFFF_FFFF, keys & 63
    totals = np.append(0, np.cumsum(_COUNTED_ALONE[rank]))
    taken = totals[end] - totals[begin]
    taken -= weight_of_pairs(pairs_of_levels(order, slots, ranks, UNIT), count, begin, end)
    same = np.flatnonzero(slots[1:] == slots[:-1])
    filled = end - begin - weight_of_pairs([(order[same], order[same + 1], 1)], count, begin, end)
    return filled, taken


def of_matrix(registers: Registers, lo: Ints, hi: Ints) -> tuple[Ints, Ints]:
    """Return the arguments of `estimates` for each range of rows, by blocks of 1, 2, 4, ... rows, two of which cover a range.

    Args:
        registers: shape (n, w): some registers of each row. The sums of all parts of the registers are those of all registers.
        lo, hi: shape (m,): ranges [lo, hi) of rows, none empty.
    """
    filled, taken = np.zeros(len(lo), np.int64), np.zeros(len(lo), np.int64)
    exponents = np.frexp((hi - lo).astype(np.float64))[1] - 1
    step, level = max(1, _BLOCK_BYTES // registers.shape[1] // 8), registers
    for exponent in range(int(exponents.max(initial=-1)) + 1):
        width, rows = 1 << exponent, np.flatnonzero(exponents == exponent)
        for first in range(0, len(rows), step):
            some = rows[first : first + step]
            filled[some], taken[some] = of_rows(np.maximum(level[lo[some]], level[hi[some] - width]))
        if len(level) > width:
            level = np.maximum(level[:-width], level[width:])
    return filled, taken


def cheaper_by_rows(values: int, rows: int, begin: Ints, end: Ints, log_size: int) -> bool:
    """Return whether `of_matrix` takes less time for these ranges of rows than `of_elements`, by what each took on one core."""
    levels = int((end - begin).max(initial=1)).bit_length()
    by_rows = (0.1 * rows * levels + 2 * len(begin)) * (1 << log_size)
    return by_rows < 100 * values * len(ascending_runs(begin, end))
