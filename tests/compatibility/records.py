"""The records of the stored queries: by arithmetic alone, so that every version of Python makes the same ones."""

from datetime import datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

import pyarrow as pa

SCHEMA = pa.schema(
    [
        ("k", pa.string()),
        ("at", pa.timestamp("us", "UTC")),
        ("batch", pa.int32()),
        ("v", pa.int64()),
        ("i", pa.int32()),
        ("x", pa.float64()),
        ("s", pa.string()),
        ("d", pa.decimal128(10, 2)),
        ("flag", pa.bool_()),
        ("gap", pa.int64()),
        ("day", pa.date32()),
        ("seen", pa.timestamp("us", "UTC")),
    ]
)
SPARK_SCHEMA = (
    "k string, at timestamp, batch int, v bigint, i int, x double, s string, d decimal(10,2), flag boolean, "
    "gap bigint, day date, seen timestamp"
)
GRACE = "20 seconds"
GRACE_MS = 20_000
STORED_BATCHES = 3
"""So many batches were read before the checkpoints were stored; the others come after."""
_BATCHES = 5
_RECORDS = 24
_START = datetime(2023, 11, 14, 22, 0, tzinfo=timezone.utc)
_MINUTE_MS = 60_000
_FAR_MS = 36_000_000
_KEYS = (None, "a", "b", "c")


def batches() -> list[pa.Table]:
    """Return the batches: each a minute later than the one before, out of order by up to 45 seconds."""
    return [_batch(number) for number in range(_BATCHES)]


def many_batches() -> list[pa.Table]:
    """Return batches of which the first has so many records of one key that it has several pages."""
    many = [_row(0, 1_000 + 20 * n, "many", n, None) for n in range(400)]
    later = [_row(3, 1_050 + 1_000 * n, "many", n, None) for n in range(10)]
    rows = [many, [], [], later, [_row(4, _FAR_MS, "last", 0, None)]]
    return [pa.Table.from_pylist(some, schema=SCHEMA) for some in rows]


def _batch(batch: int) -> pa.Table:
    rows = [_record(batch, number) for number in range(_RECORDS)]
    # The last time of a batch comes with both flags: two streams that are split by it have one watermark.
    # Behind the last batch it is so far away that every window before it closes.
    last = _FAR_MS if batch == _BATCHES - 1 else (batch + 1) * _MINUTE_MS
    rows += [_row(batch, last, "last", 0, flag) for flag in (True, False)]
    return pa.Table.from_pylist(rows, schema=SCHEMA)


def _record(batch: int, number: int) -> dict[str, Any]:
    n = batch * _RECORDS + number
    # The last term tells all times apart: the order of equal ones is not defined for every operator.
    time = batch * _MINUTE_MS + number * 7 % _RECORDS * 2_500 - n * n * 13 % 45 * 1_000 + n
    return _row(batch, time, _KEYS[(n * 5 + batch) % 4], n, (True, False, None)[n * 7 % 3])


def _row(batch: int, time: int, key: str | None, n: int, flag: bool | None) -> dict[str, Any]:
    return {
        "k": key,
        "at": _START + timedelta(milliseconds=time),
        "batch": batch,
        "v": None if n % 11 == 5 else n * 31 % 41 - 20,
        "i": n * 17 % 29,
        "x": None if n % 7 == 3 else (n * 19 % 53 - 26) / 8,
        "s": "pqrstu"[n * 5 % 6],
        "d": Decimal(n * 23 % 997 - 500).scaleb(-2),
        "flag": flag,
        "gap": 3_000 + n % 5 * 3_000,
        "day": _START.date() + timedelta(days=n % 3),
        "seen": _START + timedelta(microseconds=n % 5),
    }
