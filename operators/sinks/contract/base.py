"""What all tests of the suite share: the sink under test, and what its tables have to hold."""

import datetime as dt
from abc import abstractmethod
from collections.abc import Collection, Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa

from operators.sinks.interface import Changes, Sink, WrittenBatch

try:
    import pytest
except ImportError as missing:
    raise ImportError("the contract suite of sinks needs pytest: install pytest") from missing

Row = tuple[Any, ...]
SCHEMA = pa.schema(
    [
        pa.field("k", pa.string()),
        pa.field("window_start", pa.timestamp("us", "UTC"), nullable=False),
        pa.field("n", pa.int64()),
        pa.field("x", pa.float64()),
    ]
)
KEYS = ("k", "window_start")
_UTC = dt.timezone.utc
VALUES: Mapping[str, pa.Array] = {
    "bool": pa.array([True, False, None]),
    "int8": pa.array([-128, 127, None], pa.int8()),
    "int16": pa.array([-(2**15), 2**15 - 1, None], pa.int16()),
    "int32": pa.array([-(2**31), 2**31 - 1, None], pa.int32()),
    "int64": pa.array([-(2**63), 2**63 - 1, None], pa.int64()),
    "float": pa.array([0.1, -1e-45, None], pa.float32()),
    "double": pa.array([1.7976931348623157e308, 5e-324, None, 0.1]),
    "text": pa.array(
        [
            "",
            "a,b",
            'say "hi"',
            "it's",
            "two\nlines",
            "a\r\n\\.\nb",
            "\\N",
            "\\.",
            "NULL",
            "\t",
            "é\U0001f600",
            None,
        ]
    ),
    "bytes": pa.array([b"", b"\x00\xff", b"\\x00", None], pa.binary()),
    "date": pa.array([dt.date(1, 1, 1), dt.date(9999, 12, 31), None]),
    "instant": pa.array(
        [
            dt.datetime(1, 1, 1, tzinfo=_UTC),
            dt.datetime(1969, 12, 31, 23, 59, 59, 999_999, _UTC),
            dt.datetime(9999, 12, 31, 23, 59, 59, 999_999, _UTC),
            None,
        ],
        pa.timestamp("us", "UTC"),
    ),
    "local": pa.array([dt.datetime(2024, 2, 29, 12, 0, 0, 1), None], pa.timestamp("us")),
    "decimal": pa.array([Decimal("-99999999.99"), Decimal("1.20"), None], pa.decimal128(10, 2)),
    "list": pa.array([[1, None], [], None], pa.list_(pa.int64())),
    "texts": pa.array([['a"b', "é", None], [""], None], pa.list_(pa.string())),
    "struct": pa.array(
        [{"a": 1, "b": "x"}, {"a": None, "b": "'"}, None], pa.struct({"a": pa.int64(), "b": pa.string()})
    ),
    "structs": pa.array([[{"a": 1.5}], [None], None], pa.list_(pa.struct({"a": pa.float64()}))),
}
"""Awkward values of each type, and null."""
_BOUNDS_US = -62_135_596_800_000_000, 253_402_300_799_999_999
RARE: Mapping[str, pa.Array] = {
    "nul": pa.array(["a\0b", "\0", "a", "\\u0000"]),
    "nuls": pa.array([["a\\", "\0"], ["a"], [], ["\\u0000"]], pa.list_(pa.string())),
    "early": pa.array([0, _BOUNDS_US[0], _BOUNDS_US[0] - 1], pa.timestamp("us", "UTC")),
    "far": pa.array([0, _BOUNDS_US[1], _BOUNDS_US[1] + 1, 2**63 - 1], pa.timestamp("us", "UTC")),
    "early_local": pa.array([0, -(2**63)], pa.timestamp("us")),
    "early_days": pa.array([0, -719_163], pa.date32()),
    "far_days": pa.array([0, 2_932_897, 2**31 - 1], pa.date32()),
    "early_times": pa.array([[0], [_BOUNDS_US[0] - 1]], pa.list_(pa.timestamp("us", "UTC"))),
}
"""Values that some databases have no place for: text with NUL, and times outside of the years 1 to 9999."""
NOT_FINITE = pa.array([float("nan"), float("inf"), float("-inf")])


class Contract:
    """The sink under test; `SinkContract` describes the attributes."""

    not_finite: ClassVar[bool] = True
    has_keys: ClassVar[bool] = True
    held: ClassVar[Mapping[str, pa.Array]] = VALUES
    refused: ClassVar[Collection[pa.DataType]] = (pa.duration("us"),)
    batches: ClassVar[int] = 30
    kills: ClassVar[int] = 2
    seed: ClassVar[int | None] = None

    @abstractmethod
    def sink(self, place: Any, table: str) -> Sink:
        """Return a sink on the table of this name; each call returns a new sink, on the same table."""

    @abstractmethod
    def read(self, place: Any, table: str, schema: pa.Schema) -> pa.Table:
        """Return the rows of the table, with the columns and types of the schema, in any order."""

    @pytest.fixture
    def place(self, tmp_path: Path) -> Any:
        """Where the tables of one test are: by default an empty directory."""
        return tmp_path

    def rows(self, place: Any, table: str = "t") -> set[Row]:
        """Return the rows of a table of `SCHEMA`."""
        found = tuples(self.read(place, table, SCHEMA))
        check(
            "no two rows of a table have the same key", len(found), len({row[: len(KEYS)] for row in found})
        )
        return set(found)


def row(key: str | None, second: int = 0, n: int | None = 0, x: float | None = None) -> Row:
    """Return a row of `SCHEMA`."""
    return (key, dt.datetime.fromtimestamp(second, _UTC), n, x)


def table_of(rows: Sequence[Row], schema: pa.Schema = SCHEMA) -> pa.Table:
    """Return rows as a table."""
    columns = zip(*rows, strict=True) if rows else ([] for _ in schema)
    return pa.table(
        [pa.array(values, field.type) for field, values in zip(schema, columns, strict=True)], schema=schema
    )


def changes(
    batch: int,
    upserts: Sequence[Row] = (),
    deletes: Sequence[Row] = (),
    query: str = "one",
    fingerprint: int = 0,
) -> Changes:
    """Return a batch of `SCHEMA`; of the rows in `deletes` only the key counts."""
    return Changes(query, batch, table_of(deletes).select(KEYS), table_of(upserts), fingerprint)


def number_of(last: WrittenBatch | None) -> int | None:
    """Return the number of what `last_batch` returns."""
    return None if last is None else last.number


def tuples(table: pa.Table) -> list[Row]:
    """Return the rows of a table, times as UTC."""
    return [tuple(one.values()) for one in table.to_pylist()]


def check(promise: str, expected: object, found: object) -> None:
    """Fail with the promise and both values, unless they are equal.

    Raises:
        AssertionError: they differ.
    """
    __tracebackhide__ = True
    if expected != found:
        raise AssertionError(
            f"a promise of Sink is broken: {promise}\n  expected: {expected!r}\n  found: {found!r}"
        )
