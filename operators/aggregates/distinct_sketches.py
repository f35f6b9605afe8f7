"""Sketches of distinct values in flat arrays: the hashes of a sketch while they are few, and its registers beyond.

Their bytes are those of Apache DataSketches' `hll_sketch`, which calls them a list or a set of coupons, and HLL_8:

    2 words, up to 7 hashes | 3 words, more hashes | 10 words, 2**log_size registers
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from operators.aggregates.hyperloglog import (
    MAX_RANK,
    PLACE_BITS,
    UNIT,
    Registers,
    cheaper_by_rows,
    estimates,
    of_elements,
    of_matrix,
    of_rows,
    slot_and_rank,
)
from operators.columns.ranges import Ints
from serializers.arrays import joined_words, rows_between
from serializers.shapes import refusing

_LIST, _SET, _REGISTERS = 2, 3, 10
"""Words of the head of each sort of sketch, and their first byte."""
_LIST_HEAD, _SET_HEAD, _REGISTERS_HEAD = (0x08_00_08_03, 0x09_00_08_00, 0x0A_00_18_00)
"""Second words of heads: sort, number of hashes in a list, flags, and log2 of the room for hashes."""
_MOST_LISTED, _SMALLEST_ROOM = 7, 5
_BLOCK_BYTES = 1 << 24
"""Registers that are made at once."""


def most_hashes(log_size: int) -> int:
    """Return how many hashes a sketch of 2**log_size registers has before it has registers instead."""
    return _MOST_LISTED if log_size < 8 else 3 << (log_size - 5)


@dataclass(frozen=True, slots=True)
class Sketches:
    """Sketches in flat arrays.

    Attributes:
        hashes: the hashes of the sketches without registers, one sketch after another.
        edges: shape (sketches + 1,): where the hashes of each begin, and where the last end.
        dense: shape (d,): the sketches with registers, ascending.
        registers: shape (d, 2**log_size).
    """

    hashes: Ints
    edges: Ints
    dense: Ints
    registers: Registers

    @classmethod
    @refusing("a state of approx_count_distinct")
    def read(cls, stored: Sequence[bytes], log_size: int) -> "Sketches":
        """Return the sketches of these bytes; no bytes are a sketch without values."""
        words, start, size = joined_words(stored)
        head = np.zeros(len(size), np.int64)
        filled = np.flatnonzero(size)
        head[filled] = words[start[filled]] & 0xFF
        dense = np.flatnonzero(head == _REGISTERS)
        if (
            not np.isin(head[filled], (_LIST, _SET, _REGISTERS)).all()
            or (4 * (size[dense] - _REGISTERS) != 1 << log_size).any()
        ):
            raise ValueError("a sketch with another head or number of registers")
        registers = words[rows_between(start[dense] + _REGISTERS, size[dense] - _REGISTERS)]
        counts = size - head
        counts[dense] = 0
        hashes = words[rows_between(start + head, counts)].astype(np.int64)
        ranks = registers.view(np.uint8).reshape(-1, 1 << log_size)
        if (
            (hashes >> PLACE_BITS == 0).any()
            or ranks.max(initial=1) > MAX_RANK
            or not ranks.any(axis=1).all()
        ):
            raise ValueError("a rank of a hash or of a register that does not exist")
        return cls(hashes, np.append(0, np.cumsum(counts)), dense, ranks)

    @classmethod
    def of(
        cls,
        run: Ints,
        hashes: Ints,
        many: int,
        log_size: int,
        dense: Ints | None = None,
        registers: Registers | None = None,
    ) -> "Sketches":
        """Return a sketch of each of many runs.

        Args:
            run, hashes: shape (n,): a hash and its run.
            many: number of runs.
            log_size: log2 of the number of registers.
            dense, registers: shape (d,) and (d, 2**log_size): registers and their run, ascending.
        """
        if dense is None or registers is None:
            dense, registers = np.empty(0, np.int64), np.empty((0, 1 << log_size), np.uint8)
        keys = np.sort(run << 32 | hashes)
        if len(keys):
            keys = keys[np.append(True, keys[1:] != keys[:-1])]
        run, hashes = keys >> 32, keys & 0xFFFF_FFFF
        counts = np.bincount(run, minlength=many)
        over = counts > most_hashes(log_size)
        over[dense] = True
        if not over.any():
            return cls(hashes, np.append(0, np.cumsum(counts)), dense, registers)
        full = np.flatnonzero(over)
        united, leaving = np.zeros((len(full), 1 << log_size), np.uint8), over[run]
        _put(united, np.searchsorted(full, run[leaving]), hashes[leaving], log_size)
        for row, more in zip(np.searchsorted(full, dense).tolist(), registers, strict=True):
            np.maximum(united[row], more, out=united[row])
        counts[full] = 0
        return cls(hashes[~leaving], np.append(0, np.cumsum(counts)), full, united)

    def write(self, log_size: int) -> list[bytes]:
        """Return the bytes of each sketch."""
        counts = np.diff(self.edges)
        many, listed = counts > _MOST_LISTED, counts > 0
        head = np.where(many, _SET, np.where(listed, _LIST, 0))
        ends = np.cumsum(head + counts)
        start = ends - head - counts
        words = np.zeros(ends[-1] if len(ends) else 0, "<u4")
        filled, sets = np.flatnonzero(listed), np.flatnonzero(many)
        words[start[filled]] = head[filled] | 0x07_01_00 | log_size << 24
        words[start[filled] + 1] = _LIST_HEAD | counts[filled] << 16
        room = np.frexp(np.ceil(counts[sets] * 4 / 3) - 1)[1]
        words[start[sets] + 1] = _SET_HEAD | np.maximum(room, _SMALLEST_ROOM)
        words[start[sets] + 2] = counts[sets]
        words[rows_between(start + head, counts)] = self.hashes
        content = words.tobytes()
        found = [content[a:b] for a, b in pairwise([0, *(4 * ends).tolist()])]
        for one, registers in zip(self.dense.tolist(), self.registers, strict=True):
            found[one] = _dense_bytes(registers, log_size)
        return found

    @property
    def row(self) -> Ints:
        """The sketch of each hash."""
        return np.repeat(np.arange(len(self.edges) - 1), np.diff(self.edges))

    def estimates_of(self, lo: Ints, hi: Ints, log_size: int) -> Ints:
        """Return the estimates of ranges of sketches, none empty, by registers."""
        if not (hi - lo > 1).any() and len(self.dense):
            return estimates(*of_rows(self.registers), log_size)[np.searchsorted(self.dense, lo)]
        values = len(self.hashes) + (len(self.dense) << log_size)
        if cheaper_by_rows(values, len(self.edges) - 1, lo, hi, log_size):
            return estimates(*self._sums_by_rows(lo, hi, log_size), log_size)
        hashes, edges = self.hashes, self.edges
        if len(self.dense):  # A register is as good as a hash that makes it what it is.
            row, slot = np.nonzero(self.registers)
            rows = np.append(self.row, self.dense[row])
            order = np.argsort(rows, kind="stable")
            register_hashes = self.registers[row, slot].astype(np.int64) << PLACE_BITS | slot
            hashes = np.append(hashes, register_hashes)[order]
            edges = np.searchsorted(rows[order], np.arange(len(edges)))
        return estimates(*of_elements(*slot_and_rank(hashes, log_size), edges[lo], edges[hi]), log_size)

    def _sums_by_rows(self, lo: Ints, hi: Ints, log_size: int) -> tuple[Ints, Ints]:
        """The sums of `of_matrix` of all registers, some registers at a time."""
        rows, row = len(self.edges) - 1, self.row
        slot, _ = slot_and_rank(self.hashes, log_size)
        width = 1 << max(5, min(log_size, (_BLOCK_BYTES // rows).bit_length() - 1))
        filled, taken = np.zeros(len(lo), np.int64), np.zeros(len(lo), np.int64)
        for begin in range(0, 1 << log_size, width):
            matrix = np.zeros((rows, width), np.uint8)
            here = np.flatnonzero((slot >= begin) & (slot < begin + width))
            _put(matrix, row[here], self.hashes[here] - begin, log_size)
            matrix[self.dense] = self.registers[:, begin : begin + width]
            more_filled, more_taken = of_matrix(matrix, lo, hi)
            filled, taken = filled + more_filled, taken + more_taken
        return filled, taken


def _put(registers: Registers, row: Ints, hashes: Ints, log_size: int) -> None:
    """Put hashes into registers, which are 0: of several for one, that with the highest rank."""
    slot, rank = slot_and_rank(hashes, log_size)
    order = np.argsort(rank.astype(np.uint8), kind="stable")
    place = row * registers.shape[1] + slot
    registers.reshape(-1)[place[order]] = rank[order]  # the last one stays


def _dense_bytes(registers: Registers, log_size: int) -> bytes:
    """The bytes of a sketch with registers, flagged as one whose estimate is to be made from them."""
    filled, taken = of_rows(registers[None])
    words = np.zeros(_REGISTERS, "<u4")
    words[:2] = _REGISTERS | 0x07_01_00 | log_size << 24, _REGISTERS_HEAD
    words[4:6] = np.array([(1 << log_size) - taken[0] / UNIT], "<f8").view("<u4")
    words[8] = (1 << log_size) - filled[0]
    return words.tobytes() + registers.tobytes()
