"""Changelog blobs come back as they were, and damage is never read as changes."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from serializers import CorruptDataError, NewerFormatError
from serializers.changes import CHANGES_VERSION, decode_changes, encode_changes
from tests.effort import examples

SEGMENTS = st.integers(-(2**63), 2**63 - 1)
PUTS = st.dictionaries(
    SEGMENTS, st.dictionaries(st.binary(max_size=6), st.binary(max_size=30), max_size=4), max_size=4
)
DELETES = st.dictionaries(SEGMENTS, st.frozensets(st.binary(max_size=6), max_size=4), max_size=4)
PUTS_HERE = {-1: {b"": b"", b"\xff": b"page"}, 2**62: {b"k": b"\x00" * 20}}
BLOB = encode_changes(PUTS_HERE, {3: {b"a", b"b"}}, -5)


@examples(2)
@given(PUTS, DELETES, st.none() | SEGMENTS)
def test_round_trip(
    puts: dict[int, dict[bytes, bytes]], deletes: dict[int, frozenset[bytes]], drop_segments_below: int | None
) -> None:
    """Any puts, deletes and drop come back, empty segments and all."""
    assert (puts, deletes, drop_segments_below) == decode_changes(
        encode_changes(puts, deletes, drop_segments_below)
    )


def test_what_comes_back_can_be_changed() -> None:
    """Puts come back as dicts of dicts, deletes as dicts of sets, so that they are a batch again."""
    puts, deletes, _ = decode_changes(BLOB)
    assert [dict, dict, set] == [type(puts), type(puts[-1]), type(deletes[3])]


def test_order_of_deletes_is_of_no_account() -> None:
    """The same changes are the same bytes."""
    keys = [b"%d" % n for n in range(100)]
    assert encode_changes({}, {0: set(keys)}, None) == encode_changes({}, {0: {*reversed(keys)}}, None)


def test_large_changes() -> None:
    """Pages of many MiB, compressible or not, come back."""
    puts = {0: {b"zeros": bytes(9 << 20), b"noise": random.Random(1).randbytes(9 << 20)}}
    assert (puts, {}, None) == decode_changes(encode_changes(puts, {}, None))


def test_truncation_is_refused() -> None:
    """A blob cut off at any length is refused."""
    for length in range(len(BLOB)):
        with pytest.raises(CorruptDataError):
            decode_changes(BLOB[:length])


def test_trailing_bytes_are_refused() -> None:
    """A blob with bytes after it is refused."""
    with pytest.raises(CorruptDataError, match="truncated or altered"):
        decode_changes(BLOB + b"\x00")


@pytest.mark.parametrize("flip", [0x01, 0x80, 0xFF])
def test_flipped_byte_is_refused(flip: int) -> None:
    """A blob with one altered byte is refused wherever the byte is."""
    unnoticed = []
    for at in range(len(BLOB)):
        try:
            decode_changes(BLOB[:at] + bytes([BLOB[at] ^ flip]) + BLOB[at + 1 :])
        except (CorruptDataError, NewerFormatError):
            continue
        unnoticed.append(at)
    assert [] == unnoticed


def test_newer_blobs_are_refused() -> None:
    """A blob that a newer version wrote is refused with both versions and the way out."""
    with pytest.raises(
        NewerFormatError, match=r"a changelog entry has format version 2; this .* up to 1: upgrade"
    ):
        decode_changes(BLOB[:4] + bytes([CHANGES_VERSION + 1]) + BLOB[5:])


@pytest.mark.parametrize("data", [b"", b"S", b"SWC", b"something else altogether", bytes(30)])
def test_what_is_no_blob_is_refused(data: bytes) -> None:
    """Other bytes are refused as no changelog entry."""
    with pytest.raises(
        CorruptDataError, match=f"a changelog entry was not written by this library: it has {len(data)} bytes"
    ):
        decode_changes(data)


def test_way_out_is_named() -> None:
    """A damaged blob's error says how large it is and what to do."""
    with pytest.raises(
        CorruptDataError, match=f"entry of {len(BLOB) - 1} bytes .* go back to an earlier checkpoint"
    ):
        decode_changes(BLOB[:-1])


def test_blobs_are_stable() -> None:
    """The bytes of version 1 are these: what is stored today is read by every later version."""
    assert (PUTS_HERE, {3: {b"a", b"b"}}, -5) == decode_changes(bytes.fromhex(STORED))


STORED = (
    "5357434c0110c2af3428b52ffd2042950100940293fb810392c40161c4016282ff9292c400c401ff92c400c404706167"
    "65cf40009291c4016b91c414000200201d0ce009"
)
