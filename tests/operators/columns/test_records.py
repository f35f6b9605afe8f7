"""A batch as columns: event times in ticks, keys numbered as GROUP BY would group them, bad rows counted."""

import math
import re
from datetime import date, datetime, timezone
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from operators import DefinitionError, HoppingWindows, SessionWindows, SlidingWindows
from operators import aggregates as agg
from operators.columns.checks import check_event_time
from operators.columns.records import RecordColumns, event_ticks, number_keys
from serializers import encode_keys
from serializers.keys import NO_COLUMNS

EDGE = 2**60
PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}


@pytest.mark.parametrize("unit", PER_SECOND)
@pytest.mark.parametrize("tick_us", [1, 1_000])
@given(words=st.lists(st.integers(-(2**63), 2**63 - 1) | st.integers(-5_000_000, 5_000_000), max_size=8))
def test_times_are_floored_to_ticks(unit: str, tick_us: int, words: list[int]) -> None:
    """A time of any unit is the tick that it lies in; beyond 2**60 ticks, or what the unit can tell, it is not usable."""
    exact = [word * (10**6 // tick_us) // PER_SECOND[unit] for word in words]
    times, usable = event_ticks(pa.array(words, pa.timestamp(unit)), tick_us)
    units_per_tick = max(1, tick_us * PER_SECOND[unit] // 10**6)
    good = [abs(tick) < min(EDGE, (2**63 - 1) // units_per_tick) for tick in exact]
    assert good == ([True] * len(words) if usable is None else usable.tolist())
    assert [tick for tick, near in zip(exact, good, strict=True) if near] == times[
        np.array(good, bool)
    ].tolist()


@given(
    words=st.lists(st.integers(-(2**63), 2**63 - 1) | st.integers(-9, 9), max_size=8),
    tick_us=st.sampled_from([1, 1_000]),
)
def test_integers_are_ticks(words: list[int], tick_us: int) -> None:
    """Whole numbers are ticks as they are; what is beyond 2**60 is not usable."""
    times, usable = event_ticks(pa.array(words, pa.int64()), tick_us)
    assert words == times.tolist()
    assert [abs(word) < EDGE for word in words] == (
        [True] * len(words) if usable is None else usable.tolist()
    )


@pytest.mark.parametrize(
    ("word", "usable"),
    [
        (EDGE - 1, True),
        (EDGE, False),
        (1 - EDGE, True),
        (-EDGE, False),
        (2**63 - 1, False),
        (-(2**63), False),
    ],
)
def test_edge_of_time(word: int, usable: bool) -> None:
    """Times up to 2**60 ticks from the epoch can be used, the others not, to the very ends of 64 bits."""
    _, mask = event_ticks(pa.array([0, word], pa.int64()), 1)
    assert [True, usable] == ([True, True] if mask is None else mask.tolist())


def test_null_times() -> None:
    """Times that are null are not usable, and hide none of the others."""
    for column in (
        pa.array([None, -1, None, 7], pa.timestamp("us")),
        pa.chunked_array([pa.array([None, -1], pa.timestamp("us")), pa.array([None, 7], pa.timestamp("us"))]),
    ):
        times, usable = event_ticks(column, 1)
        assert usable is not None
        assert ([False, True, False, True], [-1, 7]) == (usable.tolist(), times[usable].tolist())


def test_no_rows() -> None:
    """No rows have no times, and all of them can be used."""
    for column in (pa.array([], pa.timestamp("us")), pa.chunked_array([], pa.timestamp("us", "UTC"))):
        times, usable = event_ticks(column, 1_000)
        assert (0, None) == (len(times), usable)


def test_zone_is_of_no_account() -> None:
    """One instant is one tick in every zone."""
    instant = [datetime(1969, 7, 20, 20, 17, 40, 999, tzinfo=timezone.utc)]
    found = {
        int(event_ticks(pa.array(instant, pa.timestamp("us", zone)), 1_000)[0][0])
        for zone in ("UTC", "Asia/Tokyo")
    }
    assert {-14_182_940_000} == found


@pytest.mark.parametrize(
    "type_", [pa.string(), pa.float64(), pa.date32(), pa.int32(), pa.duration("us")], ids=str
)
def test_event_time_of_another_type_is_refused(type_: pa.DataType) -> None:
    """An event time that is no time is refused by name and type, with the way out."""
    with pytest.raises(
        DefinitionError,
        match=re.escape(f"event time column 'at' is of type {type_}, not a timestamp: cast it"),
    ):
        check_event_time(type_, "at")


@pytest.mark.parametrize("type_", [pa.int64(), pa.timestamp("ns"), pa.timestamp("s", "UTC")], ids=str)
def test_event_time_types(type_: pa.DataType) -> None:
    """Timestamps of any unit and zone, and whole numbers of 64 bits, are event times."""
    check_event_time(type_, "at")


class TestNumberKeys:
    """Rows get the numbers of their distinct keys."""

    def test_order_of_first_appearance(self) -> None:
        """Keys are numbered in the order in which they first appear, null among them."""
        numbers, (keys,) = number(pa.array(["b", None, "a", "b", None, "c"]))
        assert ([0, 1, 2, 0, 1, 3], ["b", None, "a", "c"]) == (numbers, keys.to_pylist())

    def test_no_columns(self) -> None:
        """Without columns all rows are one group."""
        numbers, columns = number_keys([], 4)
        assert ([0, 0, 0, 0], []) == (numbers.tolist(), columns)

    @pytest.mark.parametrize("width", [1, 2, 3])
    def test_no_rows(self, width: int) -> None:
        """No rows have no keys."""
        numbers, columns = number(*[pa.array([], pa.string())] * width)
        assert ([], [0] * width) == (numbers, [*map(len, columns)])

    def test_zeros(self) -> None:
        """-0.0 is 0.0, alone and with other columns."""
        zeros = pa.array([0.0, -0.0, 1.0, -0.0])
        assert [0, 0, 1, 0] == number(zeros)[0]
        assert [0, 0, 1, 0] == number(zeros, pa.array([1, 1, 1, 1]))[0]

    @pytest.mark.parametrize("type_", [pa.float32(), pa.float64()], ids=str)
    def test_nan_of_any_bits(self, type_: pa.DataType) -> None:
        """Every NaN is the same key, whatever its bits are, and null is another."""
        bits = np.array([0x7FF8000000000000, 0xFFF8000000000000, 0x7FF8000020000000], np.uint64)
        nans = pa.array(bits.view(np.float64)).cast(type_)
        column = pa.concat_arrays([nans, pa.nulls(1, type_), nans])
        assert [0, 0, 0, 1, 0, 0, 0] == number(column)[0]
        assert [0, 0, 0, 1, 0, 0, 0] == number(column, pa.array([5] * 7))[0]

    @pytest.mark.parametrize("type_", [pa.float32(), pa.float64()], ids=str)
    def test_dictionary_encoded_floats(self, type_: pa.DataType) -> None:
        """Dictionary-encoded floats make the keys that plain ones make, alone and with other columns."""
        plain = pa.array([-0.0, 1.0, 0.0, None, math.nan], type_, from_pandas=False)
        other = pa.array([1, 1, 1, 1, 1])
        for others in ([], [other]):
            expected = keys_of(*number(plain, *others))
            assert expected == keys_of(*number(plain.dictionary_encode(), *others))

    def test_two_columns_are_not_mixed_up(self) -> None:
        """(a, null), (null, a) and (a, a) are three keys."""
        numbers, columns = number(pa.array(["a", None, "a", "a"]), pa.array([None, "a", "a", None]))
        assert ([0, 1, 2, 0], ["a", None, "a"]) == (numbers, columns[0].to_pylist())

    def test_null_columns(self) -> None:
        """A column that has no type but null is one key."""
        assert [0, 0, 0] == number(pa.nulls(3))[0]
        assert [0, 1, 0] == number(pa.nulls(3), pa.array([1, 2, 1]))[0]

    def test_wide_products(self) -> None:
        """Eight columns of ten thousand values, whose product is beyond 64 bits, keep their rows apart."""
        rng, rows = np.random.default_rng(1), 20_000
        columns = [pa.array(rng.permutation(rows // 2).repeat(2)) for _ in range(7)]
        numbers, distinct = number(*columns, pa.array(np.arange(rows) % 2))
        assert list(range(rows)) == numbers
        twice = [pa.concat_arrays([column, column]) for column in columns]
        assert list(range(rows // 2)) * 2 == number(*twice)[0][::2]
        assert rows == len(distinct[0])

    def test_many_columns(self) -> None:
        """Seventy columns of two values each keep rows apart that differ in any one."""
        rows = [[0] * 70, [1] * 70, *([int(n == one) for n in range(70)] for one in range(70))]
        numbers, distinct = number(*(pa.array([row[n] for row in rows]) for n in range(70)))
        assert list(range(len(rows))) == numbers
        assert rows == [list(row) for row in zip(*(column.to_pylist() for column in distinct), strict=True)]

    @pytest.mark.slow
    @given(
        st.lists(
            st.tuples(
                st.none() | st.integers(-2, 2),
                st.none() | st.sampled_from([0.0, -0.0, 1.5, math.nan, math.inf]),
                st.none() | st.sampled_from(["", "a", "b"]),
                st.none() | st.booleans(),
                st.none() | st.sampled_from([Decimal("0.1"), Decimal("0.2")]),
                st.none() | st.sampled_from([date(1, 1, 1), date(2024, 2, 29)]),
            ),
            max_size=25,
        ),
        st.lists(st.integers(0, 5), min_size=1, max_size=6, unique=True),
        st.data(),
    )
    def test_groups_are_those_of_sql(
        self, rows: list[tuple[Any, ...]], chosen: list[int], data: st.DataObject
    ) -> None:
        """Rows of any columns, in any chunks, get the numbers of a dictionary of groups."""
        types = [pa.int64(), pa.float64(), pa.string(), pa.bool_(), pa.decimal128(3, 1), pa.date32()]
        cut = data.draw(st.integers(0, len(rows)))
        columns = [
            pa.chunked_array(
                [
                    pa.array([row[n] for row in part], types[n], from_pandas=False)
                    for part in (rows[:cut], rows[cut:])
                ]
            )
            for n in chosen
        ]
        known: dict[tuple[Any, ...], int] = {}
        expected = [known.setdefault(tuple(sql(row[n]) for n in chosen), len(known)) for row in rows]
        numbers, distinct = number_keys(columns, len(rows))
        assert expected == numbers.tolist()
        listed = zip(*(column.to_pylist() for column in distinct), strict=True)
        assert list(known) == [tuple(map(sql, row)) for row in listed]
        assert len(known) == len(set(encode_keys(distinct)))


def number(*columns: pa.Array) -> tuple[list[int], list[pa.Array]]:
    """Number the rows of plain arrays."""
    numbers, distinct = number_keys([pa.chunked_array([column]) for column in columns], len(columns[0]))
    return numbers.tolist(), distinct


def keys_of(numbers: list[int], distinct: list[pa.Array]) -> list[bytes]:
    """The encoded key of each row."""
    keys = encode_keys(distinct)
    return [keys[n] for n in numbers]


def sql(value: Any) -> Any:
    """A value as GROUP BY compares it."""
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else value + 0.0
    return ("bool", value) if isinstance(value, bool) else value


class TestReadRecords:
    """A table as records."""

    def test_columns(self) -> None:
        """Records have numbered keys, times in ticks and the columns asked for, in the order of arrival."""
        table = pa.table(
            {
                "k": ["b", "a", "b"],
                "t": pa.array([1_999, -1, 5_000], pa.timestamp("us")),
                "v": [1, None, 3],
                "unused": list("xyz"),
            }
        )
        records = RecordColumns("t", ("k",), ("v",), 1_000).read(table)
        assert (3, 0, ["v"]) == (len(records), records.bad, list(records.values))
        assert ([0, 1, 0], [1, -1, 5]) == (records.key.tolist(), records.time.tolist())
        assert encode_keys([pa.array(["b", "a"])]) == records.keys
        assert ([1, 0, 3], [True, False, True]) == (
            records.values["v"].values.tolist(),
            records.values["v"].valid.tolist(),
        )

    def test_bad_rows_are_left_out_and_counted(self) -> None:
        """Rows without a usable time are counted and leave no trace, not even their keys."""
        table = pa.table(
            {"k": ["x", "a", "y", "a"], "t": pa.array([None, 5, 2**61, 6], pa.int64()), "v": [1, 2, 3, 4]}
        )
        records = RecordColumns("t", ("k",), ("v",), 1_000).read(table)
        assert (2, 2) == (len(records), records.bad)
        assert ([0, 0], [5, 6], [2, 4]) == (
            records.key.tolist(), records.time.tolist(), records.values["v"].values.tolist()
        )  # fmt: skip
        assert encode_keys([pa.array(["a"])]) == records.keys

    def test_only_bad_rows(self) -> None:
        """A batch of bad rows only is empty, and they are counted."""
        records = RecordColumns("t", (), (), 1).read(pa.table({"t": pa.array([None, None], pa.int64())}))
        assert (0, 2) == (len(records), records.bad)

    def test_without_keys(self) -> None:
        """Without key columns every record has the one key of no columns, also in an empty batch."""
        for times in ([1, 2], []):
            records = RecordColumns("t", (), (), 1).read(pa.table({"t": pa.array(times, pa.int64())}))
            assert ([NO_COLUMNS], [0] * len(times)) == (records.keys, records.key.tolist())

    @pytest.mark.parametrize(
        "column",
        [
            pa.array(np.array([0x7FF8000000000000, 0xFFF8000000000000], np.uint64).view(np.float64)),
            pa.array([0.0, -0.0]),
        ],
        ids=["NaN", "zero"],
    )
    def test_keys_are_distinct(self, column: pa.Array) -> None:
        """No two keys of a batch are the same bytes, whatever the key columns' types are."""
        table = pa.table({"k": column, "t": pa.array([1, 2], pa.int64())})
        keys = RecordColumns("t", ("k",), (), 1).read(table).keys
        assert len(set(keys)) == len(keys)

    def test_event_time_as_key_and_value(self) -> None:
        """The event time may be a key and a value too."""
        table = pa.table({"t": pa.array([5, 5, 7], pa.timestamp("us"))})
        records = RecordColumns("t", ("t",), ("t",), 1).read(table)
        assert ([0, 0, 1], [5, 5, 7]) == (records.key.tolist(), records.values["t"].values.tolist())

    def test_columns_are_read_in_the_types_that_are_known(self) -> None:
        """Whatever zone a session has its times in, whether they may be null, and however values are encoded."""
        utc, york = (pa.timestamp("us", zone) for zone in ("UTC", "America/New_York"))
        hour = 3_600_000_000
        instants = [1_699_164_000_000_000 + n * hour for n in (-1, 0, 1)]  # 01:00, 01:00 again, 02:00
        listed = [[{"at": one}] for one in instants]

        def table(zone: pa.DataType, *, nullable: bool) -> pa.Table:
            inner = pa.list_(pa.field("element", pa.struct([pa.field("at", zone, nullable)]), nullable))
            fields = [pa.field("t", zone, nullable), pa.field("nested", inner, nullable)]
            columns = [pa.array(instants, zone), pa.array(listed, inner)]
            schema = pa.schema([*fields, pa.field("k", pa.string(), nullable)])
            return pa.table([*columns, pa.array(list("xyx"))], schema=schema)

        plain = table(utc, nullable=True)
        given = table(york, nullable=False)
        encoded = given.set_column(2, "k", given.column("k").dictionary_encode())
        types = tuple(zip(plain.column_names, plain.schema.types, strict=True))
        columns = RecordColumns("t", ("k",), ("t", "nested"), 1, rows=("t", "nested", "k"), types=types)
        for records in (columns.read(encoded), columns.records(columns.sift(encoded).usable)):
            assert records.rows is not None
            assert records.rows.schema.equals(plain.schema)
            assert records.rows.equals(plain)
            assert records.time.tolist() == records.values["t"].values.tolist() == instants
            assert plain.column("nested").to_pylist() == records.values["nested"].values.tolist()

    def test_take(self) -> None:
        """Rows are taken with their values; the list of keys stays."""
        table = pa.table({"k": ["a", "b"], "t": pa.array([1, 2], pa.int64()), "v": [1.5, 2.5]})
        records = RecordColumns("t", ("k",), ("v",), 1).read(table)
        taken = records.take(np.array([1]))
        assert ([1], [2], [2.5]) == (
            taken.key.tolist(),
            taken.time.tolist(),
            taken.values["v"].values.tolist(),
        )
        assert records.keys is taken.keys


KINDS = {
    "sliding": (SlidingWindows("1 hour"), 3_600_001),
    "hopping": (HoppingWindows("1 hour", "10 minutes", offset="7 s"), 3_600_000),
    "session": (SessionWindows("1 hour"), 3_600_000),
    "session with gaps": (SessionWindows(gap_column="gap"), 3_600_000),
    "sliding by fold": (SlidingWindows("1 hour"), 3_600_001),
    "hopping by fold": (HoppingWindows("1 hour", "10 minutes"), 3_600_000),
}


@pytest.mark.parametrize("unit", ["us", "ns"])
@pytest.mark.parametrize("kind", KINDS)
def test_bounds_next_to_the_end_of_time(kind: str, unit: str) -> None:
    """Records whose windows the unit of their times can tell get them, the next ones are bad: no bound wraps."""
    windows, reach = KINDS[kind]
    count = agg.fold(0, lambda n, _: n + 1, "gap", type="int") if "fold" in kind else agg.count()
    per_tick = PER_SECOND[unit] // 1_000
    last = (2**63 - 1) // per_tick - reach - 1
    times = [-last - 1, -last, 0, last, last + 1]
    column = pa.array([time * per_tick for time in times]).cast(pa.timestamp(unit))
    table = pa.table({"k": times, "at": column, "gap": [3_600_000] * 5})
    op = windows.group_by("k").aggregate(n=count).emit("on_update")
    with op.local_runner("at", late=True) as runner:
        rows = runner.process(table.slice(2, 1), stream_time=-last)
        rows = pa.concat_tables([rows, runner.process(table)])
        reasons = runner.late.column("reason").to_pylist()
        assert 2 == runner.counters.bad
    window = rows.column("window").combine_chunks()
    start, end = (window.field(name).cast(pa.int64()).to_numpy() // per_tick for name in ("start", "end"))
    key = rows.column("k").to_numpy()
    assert {0, last} <= set(key.tolist()) <= {-last, 0, last}
    assert (start <= end).all()
    assert (np.abs(start - key) <= reach).all()
    assert (np.abs(end - key) <= reach).all()
    wrong = "gap is not positive, or out of range" if "gaps" in kind else "event time is out of range"
    assert 2 == reasons.count(wrong)


def test_windows_that_the_unit_cannot_tell() -> None:
    """Windows longer than the unit of the event time reaches are refused with the way out."""
    op = SlidingWindows("200000 days").aggregate(n=agg.count())
    table = pa.table({"at": pa.array([5], pa.timestamp("ns"))})
    message = r"windows of .* are longer than timestamp\[ns\] can express: .* cast 'at' to a coarser unit"
    with op.local_runner("at") as runner, pytest.raises(DefinitionError, match=message):
        runner.process(table)
