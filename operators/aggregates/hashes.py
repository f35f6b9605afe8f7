"""Hashes of values: those of Apache DataSketches, the same in every process and version, so that stored ones stay good.

(MurmurHash3, x64, 128 bits)
"""

from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from serializers.arrays import Ints

Hashes = npt.NDArray[np.uint64]
_SEED = np.uint64(9001)
_C1, _C2 = np.uint64(0x87C37B91114253D5), np.uint64(0x4CF5AD432745937F)
_WORD, _BLOCK = 8, 16
_ALL = (1 << 64) - 1
_FEW = 8
"""So many texts that have a block are hashed together; fewer, one by one."""


def hashes_of(values: npt.NDArray[Any]) -> tuple[Hashes, Hashes]:
    """Return a hash of 128 bits of each value, in halves; none is null. All NaN are equal, and -0.0 equals 0.0.

    Args:
        values: shape (n,): int64, float64, or objects of one type: text, bytes, or what has a text.

    Cost: O(n) array work, and a pass for each 16 bytes of the longest text; values other than numbers are made text one by one.
    """
    if values.dtype == object:
        texts = [f"={v.decode('latin-1') if isinstance(v, bytes) else v}" for v in values.tolist()]
        return _of_bytes(pa.array(texts, pa.large_string()))
    if values.dtype == np.float64:
        values = np.where(np.isnan(values), np.nan, values + 0.0)
    words = np.ascontiguousarray(values).view(np.uint64)
    seeds = np.full(len(words), _SEED)
    return _finish(seeds ^ _first_half(words), seeds, np.full(len(words), np.uint64(_WORD)))


def hashes_of_bytes(values: npt.NDArray[np.object_]) -> tuple[Hashes, Hashes]:
    """Return a hash of 128 bits of the bytes of each text, or of bytes, in halves: what other libraries make of them.

    Args:
        values: shape (n,): text or bytes, none empty.
    """
    kind = pa.large_binary() if len(values) and isinstance(values[0], bytes) else pa.large_string()
    return _of_bytes(pa.array(values, kind))


def _of_bytes(texts: pa.Array) -> tuple[Hashes, Hashes]:
    _, offsets, data = texts.buffers()
    if not len(texts) or data is None:
        return np.empty(0, np.uint64), np.empty(0, np.uint64)
    edges = np.frombuffer(offsets, np.int64, len(texts) + 1)
    begin, length = edges[:-1], np.diff(edges)
    padded = np.zeros(int(edges[-1]) + _BLOCK + _WORD, np.uint8)
    padded[: edges[-1]] = np.frombuffer(data, np.uint8, int(edges[-1]))
    # Words of eight bytes from each byte on.
    words = np.ndarray((len(padded) - _WORD + 1,), "<u8", padded.data, strides=(1,))
    first, second = np.full(len(texts), _SEED), np.full(len(texts), _SEED)
    blocks = length // _BLOCK
    order = np.argsort(-blocks, kind="stable")
    longer = np.searchsorted(-blocks[order], -np.arange(int(blocks.max())), "left")
    shared = int(np.count_nonzero(longer >= _FEW))
    for number, count in enumerate(longer[:shared].tolist()):
        rows = order[:count]
        at = begin[rows] + _BLOCK * number
        first[rows], second[rows] = _with_block(first[rows], second[rows], words[at], words[at + _WORD])
    for row in order[: longer[shared] if shared < len(longer) else 0].tolist():
        at = begin[row] + _BLOCK * np.arange(shared, blocks[row])
        pairs = zip(words[at].tolist(), words[at + _WORD].tolist(), strict=True)
        first[row], second[row] = _with_blocks(int(first[row]), int(second[row]), pairs)
    at, rest = begin + _BLOCK * blocks, length % _BLOCK
    first ^= _first_half(_beginning(words[at], rest))
    second ^= _second_half(_beginning(words[at + _WORD], rest - _WORD))
    return _finish(first, second, length.astype(np.uint64))


def _beginning(words: Hashes, length: Ints) -> Hashes:
    """The first bytes of words, zeros after them."""
    bits = (8 * np.clip(length, 0, _WORD - 1)).astype(np.uint64)
    return np.where(length < _WORD, words & ((np.uint64(1) << bits) - np.uint64(1)), words)


def _with_block(first: Hashes, second: Hashes, low: Hashes, high: Hashes) -> tuple[Hashes, Hashes]:
    first = _rotate(first ^ _first_half(low), 27) + second
    first = first * np.uint64(5) + np.uint64(0x52DCE729)
    second = _rotate(second ^ _second_half(high), 31) + first
    return first, second * np.uint64(5) + np.uint64(0x38495AB5)


def _with_blocks(first: int, second: int, blocks: Iterable[tuple[int, int]]) -> tuple[int, int]:
    """What `_with_block` does, for all blocks of one text: arrays of few rows would take ten times as long."""

    def rotate(bits: int, by: int) -> int:
        return (bits << by | bits >> (64 - by)) & _ALL

    low_factor, high_factor = int(_C1), int(_C2)
    for low, high in blocks:
        first ^= rotate(low * low_factor & _ALL, 31) * high_factor & _ALL
        first = (rotate(first, 27) + second) * 5 + 0x52DCE729 & _ALL
        second ^= rotate(high * high_factor & _ALL, 33) * low_factor & _ALL
        second = (rotate(second, 31) + first) * 5 + 0x38495AB5 & _ALL
    return first, second


def _first_half(words: Hashes) -> Hashes:
    return _rotate(words * _C1, 31) * _C2


def _second_half(words: Hashes) -> Hashes:
    return _rotate(words * _C2, 33) * _C1


def _finish(first: Hashes, second: Hashes, length: Hashes) -> tuple[Hashes, Hashes]:
    first, second = first ^ length, second ^ length
    first = first + second
    second = second + first
    first, second = _mix(first), _mix(second)
    first = first + second
    return first, second + first


def _mix(bits: Hashes) -> Hashes:
    bits = (bits ^ bits >> np.uint64(33)) * np.uint64(0xFF51AFD7ED558CCD)
    bits = (bits ^ bits >> np.uint64(33)) * np.uint64(0xC4CEB9FE1A85EC53)
    return bits ^ bits >> np.uint64(33)


def _rotate(bits: Hashes, by: int) -> Hashes:
    return bits << np.uint64(by) | bits >> np.uint64(64 - by)
