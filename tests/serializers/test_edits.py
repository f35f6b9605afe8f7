"""Edits turn old pages into new ones, to the last byte, and have the rows that differ and no others."""

import random
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from serializers import CorruptDataError
from serializers.changes import decode_changes, decode_edits, encode_edits
from serializers.edits import EDIT_BYTES, PageEdits, apply_edits, edits_between, pages_to_log
from serializers.pages import PageLayout
from tests.effort import examples

LAYOUTS = [
    PageLayout(("i8",)),
    PageLayout(("i8", "i8", "f8")),
    PageLayout(("i8", "f8", "i8", "i8", "i8")),
    PageLayout(("i8", "object", "i8")),
]
NUMBERS = PageLayout(("i8", "i8", "i8"))
OBJECTS: list[Any] = [None, b"a", "a", 1, True, 1.0, [1, [None]], {"k": 0.0}, {"k": -0.0}]
FLOATS = [0.0, -0.0, float("nan"), float("inf"), 5e-324]
Row = tuple[Any, ...]


def page(layout: PageLayout, rows: list[Row]) -> bytes:
    """The page of rows, or nothing."""
    if not rows:
        return b""
    columns = []
    for code, values in zip(layout.codes, zip(*rows, strict=True), strict=True):
        columns.append(
            np.fromiter(values, object, len(rows)) if code == "object" else np.array(values, f"<{code}")
        )
    return layout.encode(columns, np.array([len(rows)]))[0]


def a_row(rng: random.Random, layout: PageLayout, latest: int) -> Row:
    choices = {"i8": [0, 1, -(2**63)], "f8": FLOATS, "object": OBJECTS}
    return (rng.randrange(latest), *(rng.choice(choices[code]) for code in layout.codes[1:]))


def changed(rng: random.Random, layout: PageLayout, rows: list[Row], latest: int) -> list[Row]:
    """Rows of which some are gone, some others, and some new, in order of time."""
    kept = [row for row in rows if rng.random() > rng.choice([0, 0, 0.1, 1])]
    kept = [a_row(rng, layout, latest) if rng.random() < 0.1 else row for row in kept]
    more = [a_row(rng, layout, latest) for _ in range(rng.choice([0, 1, 5, 150]))]
    return sorted([*kept, *more], key=lambda row: row[0])


@pytest.mark.slow
@examples(8)
@given(st.randoms(use_true_random=False), st.sampled_from(LAYOUTS))
def test_edits_make_the_new_pages(rng: random.Random, layout: PageLayout) -> None:
    """Pages of any rows, many with the same time, come out byte for byte; those that are not edited are logged whole."""
    old, new = {}, {}
    for number in range(rng.randrange(1, 7)):
        key, latest = b"%d" % number, rng.choice([1, 4, 1_000])
        rows = sorted(
            (a_row(rng, layout, latest) for _ in range(rng.choice([0, 1, 7, 127, 130]))), key=lambda r: r[0]
        )
        old[key] = page(layout, rows) or None
        new[key] = page(layout, changed(rng, layout, rows, latest) or [a_row(rng, layout, latest)])
    whole, edits = pages_to_log(layout, new, list(old.values()))
    _, found, _, _ = decode_edits(encode_edits({3: whole}, {3: edits}, {}, None))
    pages = dict(whole)
    for some in found[3]:
        assert not set(some.keys) & set(pages)
        pages.update(zip(some.keys, apply_edits(some, [old[key] for key in some.keys]), strict=True))
    assert new == pages


@pytest.mark.parametrize("rows", [10, 127, 128, 5_000])
@pytest.mark.parametrize(
    ("at", "change"), [(-1, "append"), (0, "insert"), (3, "insert"), (3, "change"), (0, "drop"), (5, "drop")]
)
def test_an_edit_has_the_row_that_differs(rows: int, at: int, change: str) -> None:
    """Whatever the page has already: a changed or new row once, and for each page at most so many bytes more."""
    before = [(2 * n, n, n) for n in range(rows)]
    row = (2 * rows if at < 0 else 2 * at + (change == "insert"), -1, -1)
    after = [*before]
    if change == "append":
        after.append(row)
    elif change == "insert":
        after.insert(at + 1, row)
    else:
        after[at : at + 1] = [row] if change == "change" else []
    old, new = page(NUMBERS, before), page(NUMBERS, after)
    keys = [b"%02d" % n for n in range(50)]
    (edits,) = edits_between(NUMBERS, keys, [old] * 50, [new] * 50)
    assert [new] * 50 == apply_edits(edits, [old] * 50)
    row_bytes = 0 if change == "drop" else 24
    assert 50 * row_bytes == len(edits.page) - (24 if edits.page else 0)
    assert 50 * (2 * row_bytes + EDIT_BYTES) > edits.size


@pytest.mark.parametrize(("gone", "ties"), [(1, 1), (50, 1), (200, 1), (2, 2), (150, 2), (3, 3), (198, 3)])
def test_an_edit_of_expired_rows_has_none_of_the_others(gone: int, ties: int) -> None:
    """The earliest rows are gone, a later one changed, and one came at the end, in some of the pages."""
    before = [(n // ties, n, n) for n in range(200)]
    after = [*before[gone:], (200, 0, 0)]
    if gone < 150:
        after[-20] = (after[-20][0], -1, -1)
    olds, news = (
        [page(NUMBERS, before)] * 3,
        [page(NUMBERS, rows) for rows in (before, after, after[:-1] or after)],
    )
    (edits,) = edits_between(NUMBERS, [b"a", b"b", b"c"], olds, news)
    assert news == apply_edits(edits, olds)
    changed = int(gone < 150)
    assert [0, gone + changed, gone + changed] == edits.gone.tolist()
    assert [0, 1 + changed, changed if len(after) > 1 else 1] == edits.added.tolist()


def test_rows_are_compared_as_they_are_stored() -> None:
    """-0.0 is not 0.0, True is not 1, and one NaN is another one's equal if its bytes are."""
    layout = PageLayout(("i8", "f8", "object"))
    values = [(0.0, 1), (float("nan"), 1.0), (1.0, [0.0])]
    others = [(-0.0, 1), (float("nan"), True), (1.0, [-0.0])]
    old, new = (
        page(layout, [(n, *value) for n, value in enumerate(each)] + [(9, 0.0, None)] * 9)
        for each in (values, others)
    )
    (edits,) = edits_between(layout, [b"k"], [old], [new])
    assert ([0, 1, 2], [new]) == (edits.added_at.tolist(), apply_edits(edits, [old]))


def test_another_page_is_found() -> None:
    """An edit is refused where its page has other rows, fewer, more, or none at all."""
    rows = [(n, n, n) for n in range(20)]
    old, new = page(NUMBERS, rows), page(NUMBERS, [*rows, (20, 0, 0)])
    (edits,) = edits_between(NUMBERS, [b"k"], [old], [new])
    others = [page(NUMBERS, [*rows[:5], (5, 5, 6), *rows[6:]]), page(NUMBERS, rows[:-1]), new, None]
    for other in [*others, page(PageLayout(("i8", "f8", "i8")), rows), old[:-1], b"\x00" * len(old)]:
        with pytest.raises(CorruptDataError):
            apply_edits(edits, [other])
    assert [new] == apply_edits(edits, [old])


def an_edit() -> PageEdits:
    rows = [(n, n, n) for n in range(20)]
    (edits,) = edits_between(
        NUMBERS, [b"a", b"b"], [page(NUMBERS, rows)] * 2, [page(NUMBERS, [*rows[1:], (30, 1, 1)])] * 2
    )
    return edits


@pytest.mark.parametrize("place", range(9))
@pytest.mark.parametrize("value", [None, b"", [], b"\x00\x00\x00", b"\xff" * 8, [b"a"], [b"a", b"a"], ["i9"]])
def test_what_no_edits_are_is_refused(place: int, value: Any) -> None:
    """Values of other forms, and numbers that do not fit one another, are damage, and nothing else."""
    plain = an_edit().plain()
    plain[place] = value
    old = page(NUMBERS, [(n, n, n) for n in range(20)])
    with pytest.raises(CorruptDataError):
        apply_edits(PageEdits.from_plain(plain), [old] * 2)


def test_blobs_of_both_forms_are_told_apart() -> None:
    """What has edits is not read as whole pages."""
    with pytest.raises(CorruptDataError, match="not written by this library"):
        decode_changes(encode_edits({}, {0: [an_edit()]}, {}, None))
