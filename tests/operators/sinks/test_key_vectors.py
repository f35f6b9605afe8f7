"""The bytes of keys in tables of pages, and their buckets: readers of any version and in any language find them there."""

from typing import Any

import pyarrow as pa
import pytest

from serializers import encode_keys
from serializers.keys import bucket_of, stored_key

BUCKETS = 1_000
LONG = "ff" + "fa8b496509eb0b9d7515ff29581de4a1ce3b927b58c286d4b55468871962346a"
VECTORS: list[tuple[list[pa.Array], list[tuple[str, int]]]] = [
    ([pa.array([1, -2, None], pa.int32())], [("019101", 882), ("0191fe", 800), ("0191c0", 53)]),
    (
        [pa.array([1, 2**40, -(2**63)], pa.int64())],
        [("019101", 882), ("0191cf0000010000000000", 157), ("0191d38000000000000000", 979)],
    ),
    ([pa.array(["é", "", None])], [("0191a2c3a9", 420), ("0191a0", 250), ("0191c0", 53)]),
    (
        [pa.array([7, None], pa.int32()), pa.array(["a", "b"]), pa.array([True, None])],
        [("019307a161c3", 843), ("0193c0a162c0", 556)],
    ),
    (
        [pa.array([0.5, -0.0, float("nan")])],
        [("0191cb3fe0000000000000", 881), ("0191cb0000000000000000", 745), ("0191cb7ff8000000000000", 609)],
    ),
    ([pa.array([b"\xff\0", b""])], [("0191c402ff00", 997), ("0191c400", 791)]),
    ([pa.array(["x" * 5_000])], [(LONG, 728)]),
]


@pytest.mark.parametrize(("columns", "expected"), VECTORS)
def test_keys_have_the_bytes_that_they_always_had(
    columns: list[Any], expected: list[tuple[str, int]]
) -> None:
    """Whole numbers of any width are the same key; of a long key the table has a hash."""
    keys = encode_keys(columns)
    assert expected == [(stored_key(key).hex(), bucket_of(key, BUCKETS)) for key in keys]
