"""What a store has to hold, as plain dictionaries, and the comparison of a store with them."""

import random
import reprlib
from collections.abc import Callable
from typing import Any

from state_backends.interface import StateBackend, WriteBatch

Pages = dict[int, dict[bytes, bytes]]

AWKWARD_KEYS = [
    b"", b"\x00", b"\0\0", b"a", b"a\x00", b"a\x00\x00", b"ab", b"b", b"\x7f", b"\x80", b"\xfe\xff", b"\xff",
    b"\xff\x00", b"\xff\xff", b"\xff" * 9, b"m:version", b"p", b"q", bytes(range(256)), b"k" * 20_000,
    b"\xc1", b"\xc1" + bytes(8) + b"a",
]  # fmt: skip
FAR = 2**62
_NEAR = range(-5, 6)
_ALONE = (b"", b"a", b"b")
"""Segments and keys that many tests use: they are asked for one by one, too, also when they are gone."""
AWKWARD_SEGMENTS = [-FAR, -(2**32), -256, -255, -2, -1, 0, 1, 255, 256, 2**31, 2**32, FAR - 1, FAR]
_LENGTHS = [*range(1_100), *((1 << power) + n for power in range(11, 15) for n in (-1, 0, 1))]
_ALIKE = [b"k" * at + b"x" + b"k" * (19_000 - at) for at in (0, 100, 9_000, 9_001, 18_900, 19_000)]
_SAME_CRC = [b"k" * 600 + end for end in (b"plumless", b"buckeroo")]
LONG_KEYS = [*(b"k" * length for length in _LENGTHS), *_ALIKE, *_SAME_CRC]
"""Keys of each length, and long ones that are alike."""
DAMAGES: dict[str, Callable[[bytes], bytes]] = {
    "garbage": lambda data: random.Random(1).randbytes(len(data)),
    "empty files": lambda data: data[:0],
}
"""What is made of each file."""
_ALL = "a store shows what was written, and nothing else"
_SHORT = reprlib.Repr()
_SHORT.maxlist, _SHORT.maxdict, _SHORT.maxset, _SHORT.maxother = 20, 10, 10, 60


def check(promise: str, expected: object, found: object) -> None:
    """Fail with the promise and both values, unless they are equal. Of long lists only the first difference is shown.

    Raises:
        AssertionError: they differ.
    """
    __tracebackhide__ = True
    if expected != found:
        where, expected, found = _difference(expected, found)
        fail(promise, f"expected{where}: {_SHORT.repr(expected)}\n  found{where}: {_SHORT.repr(found)}")


def fail(promise: str, what: str) -> None:
    """Fail with the promise that is broken and what happened.

    Raises:
        AssertionError: always.
    """
    __tracebackhide__ = True
    raise AssertionError(f"a promise of StateBackend is broken: {promise}\n  {what}")


def _difference(expected: Any, found: Any) -> tuple[str, Any, Any]:
    """The place of the first difference, and both values there."""
    if not (isinstance(expected, list) and isinstance(found, list)) or len(expected) <= _SHORT.maxlist:
        return "", expected, found
    if len(expected) != len(found):
        return " length", len(expected), len(found)
    place = next(n for n, (one, other) in enumerate(zip(expected, found, strict=True)) if one != other)
    return f" at {place}", expected[place], found[place]


def assert_holds(backend: StateBackend, pages: Pages, version: bytes | None, promise: str = _ALL) -> None:
    """Assert that every read of the backend shows these pages and this version, and no others."""
    __tracebackhide__ = True
    check(f"{promise} (version)", version, backend.version)
    check(f"{promise} (segments)", sorted(pages), backend.segments())
    asked = list(dict.fromkeys([*AWKWARD_KEYS, *(key for kept in pages.values() for key in kept)]))
    for segment in {0, *pages}:
        kept = pages.get(segment, {})
        found = list(backend.iterate(segment))
        scanned = [pair for keys, values in backend.scan(segment) for pair in zip(keys, values, strict=True)]
        check(f"{promise} (pages that scan({segment}) yields)", sorted(found), sorted(scanned))
        keys = sorted(key for some in backend.scan_keys(segment) for key in some)
        check(f"{promise} (keys that scan_keys({segment}) yields)", sorted(kept), keys)
        check(
            f"{promise} (keys that iterate({segment}) yields)", sorted(kept), sorted(key for key, _ in found)
        )
        wrong = {key: page for key, page in found if page != kept[key]}
        check(f"{promise} (pages that iterate({segment}) yields)", {key: kept[key] for key in wrong}, wrong)
        answers = backend.get_many(segment, asked)
        others = {type(one) for one in answers if one is not None} | {
            type(one) for pair in found for one in pair
        }
        check(f"{promise} (types of keys and pages in segment {segment})", set(), others - {bytes})
        _check_answers(f"{promise} (pages that get_many({segment}, ...) returns)", kept, asked, answers)
    for segment in {*_NEAR, *pages}:
        kept = pages.get(segment, {})
        many = f"{promise} (pages that get_many({segment}, ...) returns where all keys have one)"
        _check_answers(many, kept, list(kept), backend.get_many(segment, list(kept)))
        for key in _ALONE:
            alone = f"{promise} (what get_many({segment}, [{key!r}]) returns)"
            _check_answers(alone, kept, [key], backend.get_many(segment, [key]))


def _check_answers(
    promise: str, kept: dict[bytes, bytes], asked: list[bytes], answers: list[bytes | None]
) -> None:
    __tracebackhide__ = True
    got = dict(zip(asked, answers, strict=True))
    wrong = [key for key in asked if got[key] != kept.get(key)]
    check(promise, {key: kept.get(key) for key in wrong}, {key: got[key] for key in wrong})


def applied(pages: Pages, batch: WriteBatch) -> Pages:
    """Return what the pages are after the batch, as plain dictionaries."""
    edge = batch.drop_segments_below
    after = {n: dict(kept) for n, kept in pages.items() if edge is None or n >= edge}
    for segment, keys in batch.deletes.items():
        for key in keys:
            after.get(segment, {}).pop(key, None)
    for segment, puts in batch.puts.items():
        after.setdefault(segment, {}).update(puts)
    return {segment: kept for segment, kept in after.items() if kept}


def random_batch(rng: random.Random) -> WriteBatch:
    """Return a batch over few segments and keys, so that batches overlap."""

    def some_keys(most: int) -> list[bytes]:
        return rng.sample(AWKWARD_KEYS, rng.randint(0, most))

    segments = [*range(-3, 4), -FAR, FAR]
    puts = {
        n: {key: rng.randbytes(rng.choice([0, 1, 50])) for key in some_keys(4)}
        for n in rng.sample(segments, 3)
    }
    deletes = {n: set(some_keys(len(AWKWARD_KEYS))) for n in rng.sample(segments, rng.randint(0, 3))}
    return WriteBatch(puts, deletes, rng.choice([None, None, None, rng.randint(-4, 4)]))
