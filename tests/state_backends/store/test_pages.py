"""Pages of a key: their names, which of them hold what, where they are cut, and what memory holds about them."""

import functools
import itertools
import operator
import random
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from serializers import PageLayout
from state_backends.store import cutting
from state_backends.store.cutting import cuts, encode_pages
from state_backends.store.entries import Entries
from state_backends.store.page_ids import (
    PageIds,
    count_further,
    distinct_keys,
    further_names,
    further_starts,
    key_of,
    keys_and_starts,
)
from state_backends.store.rows_by_key import RowsByKey
from tests.effort import examples

SPAN = (-100, 99)
TIMES = st.integers(*SPAN)
KEYS = [b"\x01k%d" % number for number in range(5)]
STARTS = st.dictionaries(st.integers(0, 4), st.sets(st.integers(-99, 99), max_size=4), min_size=1)


def ints(values: Any) -> Any:
    return np.array(list(values), np.int64)


def pages_of(starts: dict[int, set[int]], scale: int = 1) -> PageIds:
    """All pages of keys, given the starts of their further ones; times are multiplied by the scale."""
    numbers = sorted(starts)
    further = [(at, scale * start) for at, number in enumerate(numbers) for start in sorted(starts[number])]
    owners, begins = ints(at for at, _ in further), ints(start for _, start in further)
    return PageIds.all_of((scale * SPAN[0], scale * SPAN[1]), ints(numbers), (owners, begins))


@given(st.binary(max_size=30).filter(lambda key: key[:1] != b"\xc1"), st.integers(-(2**63), 2**63 - 1))
def test_names_say_key_and_start(key: bytes, start: int) -> None:
    """A name is taken apart again, for every key and every time of 64 bits."""
    (name,) = further_names([key], ints([start]))
    assert (key, key) == (key_of(name), key_of(key))
    keys, starts = keys_and_starts([name, key], 7)
    assert ([key, key], [start, 7]) == (keys, starts.tolist())
    assert ([key], [0], [start]) == tuple(list(each) for each in further_starts([key, name]))
    assert 1 == count_further([key, name, key])
    assert ([key], [0, 0]) == (distinct_keys([name, key])[0], distinct_keys([name, key])[1].tolist())


@given(st.lists(st.integers(-(2**63), 2**63 - 1)))
def test_names_are_in_the_order_of_starts(starts: list[int]) -> None:
    """Also of times before 1970: so pages that change together are neighbours in a sorted backend."""
    names = further_names([b"k"] * len(starts), ints(starts))
    assert further_names([b"k"] * len(starts), ints(sorted(starts))) == sorted(names)


@examples(2)
@given(
    STARTS,
    st.lists(st.tuples(st.integers(0, 4), st.integers(SPAN[0] - 9, SPAN[1] + 9)), max_size=50),
    st.sets(st.integers(0, 20)),
    st.booleans(),
    st.sampled_from([1, 2**55]),
)
def test_each_time_is_in_one_page(
    starts: dict[int, set[int]],
    asked: list[tuple[int, int]],
    left_out: set[int],
    in_order: bool,
    scale: int,
) -> None:
    """Of all pages, and of some of them: by a search through all. Also of a segment too long to number its ticks by key."""
    whole = pages_of(starts, scale)
    asked = [(key, scale * time) for key, time in (sorted(asked) if in_order else asked)]
    some = whole.take(ints(row for row in range(len(whole)) if row not in left_out))
    for pages in (whole, some):
        rows = list(zip(pages.key.tolist(), pages.start.tolist(), pages.last.tolist(), strict=True))
        expected = [
            next((row for row, (k, a, b) in enumerate(rows) if k == key and a <= time <= b), -1)
            for key, time in asked
        ]
        assert expected == pages.holding(ints(k for k, _ in asked), ints(t for _, t in asked)).tolist()
        assert [row in {*left_out} for row in range(len(whole))] == (~whole.among(some)).tolist()
    begin = whole.span[0]
    assert whole.further.tolist() == [start > begin for start in whole.start.tolist()]
    names = whole.names(KEYS)
    assert ([KEYS[number] for number in whole.key.tolist()], whole.start.tolist()) == (
        keys_and_starts(names, begin)[0],
        keys_and_starts(names, begin)[1].tolist(),
    )


def test_pages_of_other_keys_are_joined_in_order() -> None:
    """New keys come between those that there are."""
    union = pages_of({0: {5}, 3: set()}).union(PageIds.first(SPAN, ints([1, 4])))
    assert ([0, 0, 1, 3, 4], [-100, 5, -100, -100, -100]) == (union.key.tolist(), union.start.tolist())
    assert [4, 99, 99, 99, 99] == union.last.tolist()


@examples(2)
@given(
    st.lists(st.tuples(st.lists(TIMES, min_size=1, max_size=40), st.booleans()), min_size=1, max_size=5),
    st.integers(1, 9),
)
def test_cuts(given_: list[tuple[list[int], bool]], limit: int) -> None:
    """No part is too large, but for equal times; the last page of a key is filled, others fall into equal parts."""
    runs = [sorted(times) for times, _ in given_]
    count = ints(map(len, runs))
    begin = np.cumsum(count) - count
    is_last = np.array([last for _, last in given_])
    page, at = cuts(
        count, np.full(len(runs), limit), is_last, begin, ints(functools.reduce(operator.iadd, runs, []))
    )
    for number, times in enumerate(runs):
        edges = [0, *(at[page == number] - begin[number]).tolist(), len(times)]
        parts = [times[a:b] for a, b in itertools.pairwise(edges)]
        assert all(parts)
        assert all(earlier[-1] < later[0] for earlier, later in itertools.pairwise(parts))
        if len(set(times)) == len(times):
            assert max(map(len, parts)) <= limit
            assert -(-len(times) // limit) == len(parts)
            if is_last[number]:
                assert {limit} >= {len(part) for part in parts[:-1]}
            else:
                assert max(map(len, parts)) - min(map(len, parts)) <= 1


def test_equal_times_stay_together() -> None:
    """However many they are: a page is cut before them."""
    time = ints([0, *[1] * 50, 2])
    entries = Entries(np.zeros(52, np.int64), (time,))
    pages = PageIds.first((0, 9), ints([0]))
    written, count, encoded = encode_pages(PageLayout(("i8",)), pages, entries.key, entries)
    assert ([0, 1], [1, 51], 2) == (written.start.tolist(), count.tolist(), len(encoded))
    assert [0, 9] == written.last.tolist()


def test_pages_with_large_objects_have_few_entries() -> None:
    """As many as fit into some kB, one at least; small ones beside them are cut by number as ever."""
    layout = PageLayout(("i8", "object"))
    sizes = [3_000] * 12 + [5] * 40 + [20_000] * 3
    key = np.repeat([0, 1, 2], [12, 40, 3])
    values = np.array(["x" * size for size in sizes], object)
    entries = Entries(key, (np.arange(len(key)), values))
    pages = PageIds.first((0, 99), ints([0, 1, 2]))
    written, count, encoded = encode_pages(layout, pages, key, entries)
    by_key = [count[written.key == number].tolist() for number in range(3)]
    assert [[2] * 6, [32, 8], [1, 1, 1]] == by_key
    assert max(map(len, encoded[:6])) < cutting.PAGE_BYTES
    assert len(entries) == sum(len(layout.decode([page])[0][0]) for page in encoded)


@pytest.mark.parametrize("width", [1, 3])
def test_rows_by_key_are_a_dictionary(width: int, rng: random.Random) -> None:
    """Whatever is added, replaced and removed, in whatever order."""
    held, model = RowsByKey(width), dict[tuple[int, bytes, int], list[int]]()
    for _ in range(300):
        segment, keys = rng.randrange(3), rng.sample(KEYS, rng.randint(1, 4))
        pairs = {(rng.randrange(len(keys)), rng.randint(-5, 5)) for _ in range(rng.randint(0, 6))}
        number, first = ints(n for n, _ in pairs), ints(f for _, f in pairs)
        kind = rng.choices(["add", "remove", "keys", "segment", "before"], [6, 4, 1, 1, 1])[0]
        if kind == "add":
            rows = np.stack(
                [first, *(ints(rng.randint(0, 9) for _ in pairs) for _ in range(width - 1))], axis=1
            )
            held.add(segment, keys, number, rows)
            model |= {
                (segment, keys[n], row[0]): row for n, row in zip(number.tolist(), rows.tolist(), strict=True)
            }
        elif kind == "remove":
            held.remove(segment, keys, number, first)
            for n, f in pairs:
                model.pop((segment, keys[n], f), None)
        else:
            if kind == "keys":
                held.remove_keys(segment, keys)
            elif kind == "segment":
                held.remove_segment(segment)
            else:
                held.drop_segments_below(segment)
            model = {
                (s, k, f): row
                for (s, k, f), row in model.items()
                if not (
                    (kind == "keys" and s == segment and k in keys)
                    or (kind == "segment" and s == segment)
                    or (kind == "before" and s < segment)
                )
            }
        assert 8 * width * len(model) == held.size
        for s in range(3):
            owner, rows = held.rows(s, KEYS)
            expected = [
                (n, model[s, key, f])
                for n, key in enumerate(KEYS)
                for f in range(-5, 6)
                if (s, key, f) in model
            ]
            assert expected == list(zip(owner.tolist(), rows.tolist(), strict=True))
            assert [any(n == m for m, _ in expected) for n in range(5)] == held.has(s, KEYS).tolist()
            assert bool(expected) == (s in held)
    held.clear()
    assert 0 == held.size
