"""Pages come back as they were, many at once, and damage is never read as data."""

import math
import zlib
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from serializers import CorruptDataError, NewerFormatError, PageLayout
from serializers.arrays import fill
from tests.effort import examples

CODES = {
    "times only": ("i8",),
    "two words": ("i8", "f8"),
    "three words": ("i8", "i8", "f8"),
    "five words": ("i8", "f8", "i8", "f8", "i8"),
    "object": ("i8", "object"),
    "mixed": ("i8", "object", "f8", "i8", "object"),
    "wide mixed": ("i8", "i8", "i8", "i8", "object"),
}
CELLS = {
    "i8": st.integers(-(2**63), 2**63 - 1),
    "f8": st.floats(),
    "object": st.none()
    | st.integers()
    | st.text(max_size=5)
    | st.lists(st.integers() | st.text(max_size=2), max_size=3),
}
DTYPES = {"i8": np.int64, "f8": np.float64}
Table = list[list[Any]]


def columns_of(codes: Sequence[str], rows: Table) -> list[Any]:
    """The rows' columns as a layout wants them."""
    cells = list(zip(*rows, strict=True)) if rows else [()] * len(codes)
    return [
        fill(column) if code == "object" else np.array(column, DTYPES[code])
        for code, column in zip(codes, cells, strict=True)
    ]


def exact(columns: Sequence[Any]) -> list[Any]:
    """Columns as plain values that tell every float's bits apart."""
    return [
        column.view(np.int64).tolist() if column.dtype == np.float64 else column.tolist()
        for column in columns
    ]


def pages_of(codes: Sequence[str], tables: Sequence[Table]) -> list[bytes]:
    """One page for each table."""
    rows = [row for table in tables for row in table]
    return PageLayout(tuple(codes)).encode(columns_of(codes, rows), np.array([*map(len, tables)], np.int64))


@st.composite
def layouts_and_tables(draw: st.DrawFn) -> tuple[tuple[str, ...], list[Table]]:
    codes = ("i8", *draw(st.lists(st.sampled_from(sorted(CELLS)), max_size=5)))
    row = st.tuples(*(CELLS[code] for code in codes)).map(list)
    return codes, draw(st.lists(st.lists(row, min_size=1, max_size=4), max_size=5))


def some_tables(codes: Sequence[str]) -> list[Table]:
    """Three tables of 1, 3 and 2 rows."""
    values = {
        "i8": [5, -1, 2**62, 0, 7, -(2**63)],
        "f8": [0.5, -0.0, math.inf, 1e300, 0.0, -3.25],
        "object": ["a", None, [1, "b"], 2**70, "", [[]]],
    }
    rows = [[values[code][(n + i) % 6] for i, code in enumerate(codes)] for n in range(6)]
    return [rows[:1], rows[1:4], rows[4:]]


@pytest.mark.slow
@examples(1.5)
@given(layouts_and_tables())
def test_round_trip(case: tuple[tuple[str, ...], list[Table]]) -> None:
    """Any number of pages of any layout come back at once, bit for bit, with their numbers of rows."""
    codes, tables = case
    columns, counts = PageLayout(codes).decode(pages_of(codes, tables))
    assert [*map(len, tables)] == counts.tolist()
    assert exact(columns_of(codes, [row for table in tables for row in table])) == exact(columns)


@given(layouts_and_tables())
def test_pages_are_their_own(case: tuple[tuple[str, ...], list[Table]]) -> None:
    """A page does not depend on those written with it, and pages read in any order are themselves."""
    codes, tables = case
    pages = pages_of(codes, tables)
    assert pages == [page for table in tables for page in pages_of(codes, [table])]
    columns, _ = PageLayout(codes).decode(pages[::-1])
    assert exact(columns_of(codes, [row for table in tables[::-1] for row in table])) == exact(columns)


def large_tables(codes: Sequence[str]) -> list[Table]:
    """Tables of few rows and of many."""
    rows = [row for table in some_tables(codes) for row in table]
    return [[rows[(n * n + size) % len(rows)] for n in range(size)] for size in (1, 300, 127, 128, 5, 129)]


@pytest.mark.parametrize("codes", CODES.values(), ids=CODES)
@pytest.mark.parametrize("chosen", [slice(None), slice(3, 4), slice(1, None, 2), slice(0, 3, 2)])
def test_large_pages(codes: tuple[str, ...], chosen: slice) -> None:
    """Pages of many entries come back as they were, by themselves and among small ones, in any order."""
    tables = large_tables(codes)[chosen]
    pages = pages_of(codes, tables)
    assert pages == [page for table in tables for page in pages_of(codes, [table])]
    for some, written in ((tables, pages), (tables[::-1], pages[::-1])):
        columns, counts = PageLayout(codes).decode(written)
        assert [*map(len, some)] == counts.tolist()
        assert exact(columns_of(codes, [row for table in some for row in table])) == exact(columns)
        for column in columns:
            column[:] = column[::-1].copy()
    assert pages == pages_of(codes, tables)


@pytest.mark.parametrize("codes", CODES.values(), ids=CODES)
def test_damage_of_large_pages(codes: tuple[str, ...]) -> None:
    """A large page that is cut off, or has an altered byte, is refused, alone and among small ones."""
    layout, (small, page, *_) = PageLayout(codes), pages_of(codes, large_tables(codes))
    places = {*range(30), *range(30, len(page), 97)}
    for damaged in (*(flipped(page, at, 0x10) for at in places), *(page[:length] for length in places)):
        for pages in ([damaged], [small, damaged], [damaged, page]):
            with pytest.raises((CorruptDataError, NewerFormatError)):
                layout.decode(pages)


@pytest.mark.parametrize("codes", CODES.values(), ids=CODES)
def test_large_pages_of_another_format(codes: tuple[str, ...]) -> None:
    """Large pages of a newer version, or of another layout, say so."""
    page = pages_of(codes, large_tables(codes))[1]
    newer = page[:2] + (2).to_bytes(2, "little") + page[4:]
    with pytest.raises(NewerFormatError, match="a stored page has format version 2"):
        PageLayout(codes).decode([newer])
    with pytest.raises(CorruptDataError, match="not a stored page"):
        PageLayout(codes).decode([b"??" + page[2:]])


@pytest.mark.parametrize("codes", CODES.values(), ids=CODES)
def test_no_pages(codes: tuple[str, ...]) -> None:
    """No pages are empty columns of the right dtypes, and the other way round."""
    layout = PageLayout(codes)
    columns, counts = layout.decode([])
    assert [np.dtype(DTYPES.get(code, object)) for code in codes] == [column.dtype for column in columns]
    assert [0] * len(codes) == [*map(len, columns)]
    assert (np.int64, 0) == (counts.dtype, len(counts))
    assert [] == layout.encode(columns, counts)


@pytest.mark.parametrize("codes", CODES.values(), ids=CODES)
def test_dtypes_and_ownership(codes: tuple[str, ...]) -> None:
    """Decoded columns have the dtypes of the layout and can be written, without an effect on the pages."""
    pages = pages_of(codes, some_tables(codes))
    columns, _ = PageLayout(codes).decode(pages)
    for code, column in zip(codes, columns, strict=True):
        assert np.dtype(DTYPES.get(code, object)) == column.dtype
        column[:] = column[::-1].copy()
    assert pages_of(codes, some_tables(codes)) == pages


def test_nan_bits_survive() -> None:
    """Every NaN keeps its bits."""
    bits = np.array([0x7FF8000000000001, 0xFFF8000000000000, 0x7FF0000000000001], np.uint64)
    layout = PageLayout(("i8", "f8"))
    columns, _ = layout.decode(layout.encode([np.arange(3), bits.view(np.float64)], np.array([3])))
    assert bits.tolist() == columns[1].view(np.uint64).tolist()


def test_encode_leaves_its_columns_alone() -> None:
    """Encoding changes nothing in the columns given to it, and takes views with strides."""
    table = np.arange(20, dtype=np.int64).reshape(10, 2)
    layout = PageLayout(("i8", "i8"))
    pages = layout.encode([table[:, 0], table[::-1, 1]], np.array([4, 6]))
    assert list(range(20)) == table.reshape(-1).tolist()
    columns, _ = layout.decode(pages)
    assert [list(range(0, 20, 2)), list(range(19, 0, -2))] == [column.tolist() for column in columns]


@pytest.mark.parametrize("codes", CODES.values(), ids=CODES)
def test_truncation_is_refused(codes: tuple[str, ...]) -> None:
    """A page cut off at any length is refused, alone and among whole ones."""
    layout, pages = PageLayout(codes), pages_of(codes, some_tables(codes))
    for page in pages:
        for length in range(len(page)):
            for damaged in ([page[:length]], [pages[0], page[:length], pages[2]]):
                with pytest.raises((CorruptDataError, NewerFormatError)):
                    layout.decode(damaged)


@pytest.mark.parametrize("codes", CODES.values(), ids=CODES)
@pytest.mark.parametrize("more", [b"\x00", bytes(24), bytes(40)], ids=len)
def test_trailing_bytes_are_refused(codes: tuple[str, ...], more: bytes) -> None:
    """A page with bytes after it is refused, be they a whole row of zeros."""
    layout, (first, *rest) = PageLayout(codes), pages_of(codes, some_tables(codes))
    for damaged in ([first + more], [first + more, *rest]):
        with pytest.raises(CorruptDataError):
            layout.decode(damaged)


@pytest.mark.parametrize("flip", [0x01, 0x80, 0xFF])
@pytest.mark.parametrize("codes", CODES.values(), ids=CODES)
def test_flipped_byte_never_gives_wrong_data(codes: tuple[str, ...], flip: int) -> None:
    """A page with one altered byte is refused, or read as what was written; other data never comes out."""
    layout, pages = PageLayout(codes), pages_of(codes, some_tables(codes))
    expected = exact(layout.decode(pages)[0])
    for number, page in enumerate(pages):
        for at in range(len(page)):
            pages[number] = flipped(page, at, flip)
            try:
                found, _ = layout.decode(pages)
            except (CorruptDataError, NewerFormatError):
                continue
            assert expected == exact(found)
        pages[number] = page


@pytest.mark.parametrize("codes", CODES.values(), ids=CODES)
def test_flipped_byte_is_refused(codes: tuple[str, ...]) -> None:
    """A page with one altered byte is refused wherever the byte is, in padding too."""
    layout, pages = PageLayout(codes), pages_of(codes, some_tables(codes))
    unnoticed = []
    for page in pages:
        for at in range(len(page)):
            try:
                layout.decode([flipped(page, at, 0x10)])
            except (CorruptDataError, NewerFormatError):
                continue
            unnoticed.append((at // 8, at % 8))
    assert [] == unnoticed


def flipped(page: bytes, at: int, mask: int) -> bytes:
    """The page with some bits of one byte turned."""
    return page[:at] + bytes([page[at] ^ mask]) + page[at + 1 :]


@examples(1.5)
@given(st.data())
def test_many_altered_bytes_never_give_wrong_data(data: st.DataObject) -> None:
    """Zeroed and overwritten stretches of a page are refused, or change nothing."""
    codes = data.draw(st.sampled_from(list(CODES.values())))
    layout, page = PageLayout(codes), pages_of(codes, some_tables(codes))[1]
    at = data.draw(st.integers(0, len(page) - 1))
    patch = data.draw(st.binary(min_size=1, max_size=16) | st.integers(1, 64).map(bytes))
    damaged = (page[:at] + patch + page[at + len(patch) :])[: len(page)]
    try:
        columns, _ = layout.decode([damaged])
    except (CorruptDataError, NewerFormatError):
        return
    assert exact(layout.decode([page])[0]) == exact(columns)


@pytest.mark.parametrize("codes", CODES.values(), ids=CODES)
def test_newer_pages_are_refused(codes: tuple[str, ...]) -> None:
    """A page that a newer version wrote is refused with both versions and the way out."""
    layout, pages = PageLayout(codes), pages_of(codes, some_tables(codes))
    newer = pages[1][:2] + (2).to_bytes(2, "little") + pages[1][4:]
    for damaged in ([newer], [pages[0], newer]):
        with pytest.raises(
            NewerFormatError, match="a stored page has format version 2; this version reads up to 1: upgrade"
        ):
            layout.decode(damaged)


@pytest.mark.parametrize(
    ("written", "read"),
    [
        (("i8", "f8"), ("i8", "i8")),
        (("i8", "i8", "f8"), ("i8", "f8", "i8")),
        (("i8",), ("i8", "f8")),
        (("i8", "f8", "object"), ("i8", "object", "f8")),
        (("i8", "object"), ("i8", "object", "object")),
    ],
)
def test_pages_of_another_layout_are_refused(written: tuple[str, ...], read: tuple[str, ...]) -> None:
    """A page of another layout is refused, with the cause and the way out."""
    pages = pages_of(written, some_tables(written))
    with pytest.raises(
        CorruptDataError, match=r"another layout.*aggregates of this operator were changed.*new checkpoint"
    ):
        PageLayout(read).decode(pages)


@pytest.mark.parametrize(
    ("written", "read"),
    [(("i8",), ("i8", "object")), (("i8", "object"), ("i8",)), (("i8",) * 3, ("i8",) * 5)],
)
def test_pages_of_another_shape_are_refused(written: tuple[str, ...], read: tuple[str, ...]) -> None:
    """A page of other width, or with objects where none are wanted, is refused too."""
    for page in pages_of(written, some_tables(written)):
        with pytest.raises(CorruptDataError):
            PageLayout(read).decode([page])


@pytest.mark.parametrize(
    "data", [b"", b"x", b"not a page at all, but long enough to look at", bytes(48), b"\xff" * 48]
)
@pytest.mark.parametrize("codes", CODES.values(), ids=CODES)
def test_what_is_no_page_is_refused(codes: tuple[str, ...], data: bytes) -> None:
    """Other bytes are refused as no page."""
    with pytest.raises(CorruptDataError, match=f"not a stored page: {len(data)} bytes"):
        PageLayout(codes).decode([data])


@pytest.mark.parametrize("codes", [(), ("f8",), ("object",), ("i8", "i4"), ("i8", "")])
def test_layouts_are_checked(codes: tuple[str, ...]) -> None:
    """A layout with an unknown column, or without a time in front, is refused with what is accepted."""
    with pytest.raises(ValueError, match="columns are 'i8', 'f8' or 'object', and the first is 'i8'"):
        PageLayout(codes)


def test_layouts_are_values() -> None:
    """Layouts of the same columns are equal and hash alike; their fingerprint is that of the columns."""
    one, same, other = PageLayout(("i8", "f8")), PageLayout(("i8", "f8")), PageLayout(("i8", "i8"))
    assert (one, hash(one)) == (same, hash(same))
    assert one != other
    assert zlib.crc32(b"i8,f8") == one.fingerprint == same.fingerprint != other.fingerprint


def test_pages_are_stable() -> None:
    """The bytes of small pages are these: what is stored today is read by every later version."""
    (page,) = PageLayout(("i8", "f8", "object")).encode(
        [np.array([-1, 2]), np.array([0.5, -0.0]), fill(["a", [1]])], np.array([2])
    )
    assert PAGE == page.hex()
    columns, counts = PageLayout(("i8", "f8", "object")).decode([bytes.fromhex(PAGE)])
    assert [[-1, 2], [0.5, -0.0], ["a", [1]]] == [column.tolist() for column in columns]
    assert [2] == counts.tolist()


PAGE = (
    "5750010002000000b030c56106000000f726f2941500a03fffffffffffffffff000000000000e03f0000000000000000"
    "0200000000000000000000000000008000000000000000009192a1619101"
)


def test_fill_keeps_lists_whole() -> None:
    """Lists, tuples and arrays become single objects of a one-dimensional array."""
    values = [[1, 2], [3, 4], (5,), None]
    assert (values, (4,)) == (fill(values).tolist(), fill(values).shape)
    assert (0,) == fill([]).shape
