"""Definitions that cannot work are refused when they are made, or bound to a table: what is wrong, and the way out."""

from datetime import timedelta
from typing import Any

import pyarrow as pa
import pytest

from operators import DefinitionError, SlidingWindows, WindowedAggregation
from operators import aggregates as agg

COUNTING = SlidingWindows(size=10).aggregate(n=agg.count())
TABLE = pa.table(
    {
        "time": pa.array([1], pa.timestamp("ms")),
        "day": pa.array([1], pa.date32()),
        "key": ["a"],
        "value": [1],
        "list": [[1]],
        "struct": [{"a": 1}],
        "money": pa.array([1], pa.decimal128(10, 2)),
        "fine": pa.array([1], pa.timestamp("ns")),
    }
)


def bind(operator: WindowedAggregation, time: str = "time", table: pa.Table = TABLE, **options: Any) -> None:
    """Bind the operator to a table's columns."""
    with operator.local_runner(time, **options) as runner:
        runner.process(table)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"size": "ten minutes"}, "size is 'ten minutes': write a number and a unit, such as '60 minutes'"),
        ({"size": ""}, "size is '': write a number and a unit"),
        ({"size": "10"}, "size is '10': write a number and a unit"),
        ({"size": "1.5 hours"}, r"size is '1\.5 hours': write a number and a unit"),
        (
            {"size": "10 fortnights"},
            "size is '10 fortnights': unknown unit 'fortnights'; known: us, .*, week",
        ),
        ({"size": 1.5}, r"size is 1\.5: give text such as '60 minutes', a timedelta, or whole milliseconds"),
        ({"size": True}, "size is True: give text such as"),
        ({"size": None}, "size is None: give text such as"),
        ({"size": "-5 minutes"}, "size is '-5 minutes': it must not be negative"),
        ({"size": 10, "grace": -1}, "grace is -1: it must not be negative"),
        ({"size": 10, "grace": "soon"}, "grace is 'soon': write a number and a unit"),
        (
            {"size": "10 us"},
            "size is '10 us', which is not a whole number of ticks of 1000 us; choose tick='1 us'",
        ),
        (
            {"size": timedelta(microseconds=1500)},
            "size is .*, which is not a whole number of ticks .* choose tick='1 us'",
        ),
        ({"size": 10, "grace": "1 us"}, "grace is '1 us', which is not a whole number of ticks"),
        ({"size": 10, "tick": "1 s"}, "tick is '1 s'; known are '1 ms', '1 us'"),
        ({"size": 2**60}, f"size {2**60} is too long: times would overflow 64 bits"),
        ({"size": 10, "grace": 2**60}, f"grace {2**60} is too long: times would overflow 64 bits"),
    ],
    ids=str,
)
def test_lengths_of_windows(arguments: dict[str, Any], message: str) -> None:
    """Size, grace and tick are checked when the windows are defined."""
    with pytest.raises(DefinitionError, match=message):
        SlidingWindows(**arguments)


@pytest.mark.parametrize(
    ("size", "ticks"),
    [
        (1500, 1500),
        ("90 s", 90_000),
        ("1 hour 30 min", 5_400_000),
        ("2 weeks", 1_209_600_000),
        (timedelta(seconds=1.5), 1500),
        ("3000 us", 3),
    ],
)
def test_lengths_as_text_timedelta_or_milliseconds(size: Any, ticks: int) -> None:
    """A length is text with units, a timedelta, or whole milliseconds."""
    assert ticks == SlidingWindows(size=size).size_ticks


def test_windows_are_equal_by_definition() -> None:
    """Definitions are values: frozen, and equal if they mean the same arguments."""
    windows = SlidingWindows(size="1 minute", grace="5 s")

    assert SlidingWindows(size="1 minute", grace="5 s") == windows
    with pytest.raises(AttributeError):
        windows.size = 5  # type: ignore[misc]


def test_methods_return_changed_copies() -> None:
    """An operator can be the start of several others."""
    grouped = COUNTING.group_by("key")

    assert ((), ("key",)) == (COUNTING.keys, grouped.keys)
    assert ("on_close", "on_update") == (grouped.policy, grouped.emit("on_update").policy)
    assert ["n", "total"] == [name for name, _ in grouped.aggregate(total=agg.sum("value")).aggregates]


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (lambda: COUNTING.group_by(3), "group_by takes column names, not 3"),
        (
            lambda: COUNTING.group_by("key", "key"),
            "key column 'key' occurs twice: give each its own name",
        ),
        (
            lambda: COUNTING.aggregate(total=sum),
            "total=<built-in function sum> is not an aggregate: use one of operators",
        ),
        (lambda: COUNTING.aggregate(total=agg.sum), "total=<function sum .*> is not an aggregate"),
        (
            lambda: COUNTING.aggregate(n=agg.count()),
            "output column 'n' occurs twice: give each its own name",
        ),
        (
            lambda: COUNTING.aggregate(window=agg.count()),
            "result columns must have distinct names: 'window' is already used",
        ),
        (
            lambda: COUNTING.group_by("window"),
            "result columns must have distinct names: 'window' is already used",
        ),
        (lambda: COUNTING.group_by("n"), "output column 'n' occurs twice"),
        (
            lambda: COUNTING.group_by("change").emit("on_update"),
            "must have distinct names: 'change' is already used",
        ),
        (
            lambda: COUNTING.emit("on_update").aggregate(change=agg.count()),
            "must have distinct names: 'change' is already used",
        ),
        (
            lambda: COUNTING.emit("sometimes"),
            "emit takes 'on_close' or 'on_update', not 'sometimes'",
        ),
    ],
)
def test_operators(wrong: Any, message: str) -> None:
    """Keys, aggregates and emission are checked when they are named."""
    with pytest.raises(DefinitionError, match=message):
        wrong()


def test_change_is_an_ordinary_name_on_close() -> None:
    """Only on update is `change` taken."""
    assert ("change",) == COUNTING.group_by("change").keys


@pytest.mark.parametrize(
    ("operator", "message"),
    [
        (
            SlidingWindows(size=10).group_by("key"),
            r"the operator has no aggregates: add some, such as \.aggregate\(n=",
        ),
        (
            COUNTING.group_by("kye"),
            "key column 'kye' does not exist; the frame has the columns time, day, key, value",
        ),
        (
            COUNTING.group_by("list"),
            "key column 'list' is of type list<.*>; keys must be atomic: cast it",
        ),
        (
            COUNTING.group_by("fine"),
            r"key column 'fine' is of type timestamp\[ns\]; keys must be atomic: cast it",
        ),
        (
            COUNTING.group_by("struct"),
            r"key column 'struct' is of type struct<.*>; keys must be atomic: group by its fields; .*F\.col\('struct\.",
        ),
        (
            COUNTING.aggregate(x=agg.sum("valeu")),
            r"aggregate 'x': sum\(valeu\): column 'valeu' does not exist; the frame has",
        ),
        (
            COUNTING.aggregate(x=agg.count("valeu")),
            r"aggregate 'x': count\(valeu\): column 'valeu' does not exist",
        ),
        (
            COUNTING.aggregate(x=agg.sum("key")),
            r"aggregate 'x': sum\(key\): column 'key' is of type string, not a number: cast",
        ),
        (
            COUNTING.aggregate(x=agg.sum("day")),
            r"aggregate 'x': sum\(day\): column 'day' is of type date32.*, not a number",
        ),
        (
            COUNTING.aggregate(x=agg.avg("key")),
            r"aggregate 'x': avg\(key\): column 'key' is of type string, not a number",
        ),
        (
            COUNTING.aggregate(x=agg.var_pop("money")),
            r"var_pop\(money\): column 'money' is of type decimal128\(10, 2\), .* cast",
        ),
        (
            COUNTING.aggregate(x=agg.variance("key")),
            r"variance\(key\): column 'key' is of type string, not an integer or float",
        ),
        (
            COUNTING.aggregate(x=agg.stddev("money")),
            r"stddev\(money\): column 'money' is of type decimal128\(10, 2\)",
        ),
        (
            COUNTING.aggregate(x=agg.min("list")),
            r"min\(list\): column 'list' is of type list<.*>, not an orderable type",
        ),
        (
            COUNTING.aggregate(x=agg.max("struct")),
            r"max\(struct\): column 'struct' is of type struct<.*>, not an orderable type",
        ),
        (
            COUNTING.aggregate(x=agg.collect_list("struct")),
            r"'struct' is of type struct<.*>, not an atomic type",
        ),
    ],
)
def test_columns_of_a_table(operator: WindowedAggregation, message: str) -> None:
    """Columns are checked when the first table comes: they are there, and of types that can be used."""
    with pytest.raises(DefinitionError, match=message):
        bind(operator)


@pytest.mark.parametrize(
    ("time", "message"),
    [
        ("tmie", "event time column 'tmie' does not exist; the frame has the columns time, day"),
        (
            "day",
            r"event time column 'day' is of type date32\[day\], not a timestamp: cast it, for example with to_timestamp",
        ),
        ("key", "event time column 'key' is of type string, not a timestamp"),
    ],
)
def test_event_time_column(time: str, message: str) -> None:
    """Event time is a column of timestamps, or of whole numbers."""
    with pytest.raises(DefinitionError, match=message):
        bind(COUNTING, time)


@pytest.mark.parametrize("column", ["key", "value"])
def test_types_that_cannot_be_stored(column: str) -> None:
    """A type that state cannot hold is refused at once and by name, not when its first value comes."""
    table = TABLE.set_column(TABLE.column_names.index(column), column, pa.array([1], pa.time64("us")))
    with pytest.raises(DefinitionError, match=f"column '{column}' is of type time64"):
        bind(COUNTING.group_by("key").aggregate(low=agg.min("value")), table=table.slice(0, 0))


@pytest.mark.parametrize(
    ("segment", "message"),
    [
        ("0 ms", "must be positive"),
        ("soon", "write a number and a unit"),
        ("1 us", "not a whole number of ticks"),
    ],
)
def test_length_of_a_segment(segment: str, message: str) -> None:
    """The option is named in full."""
    with pytest.raises(DefinitionError, match=rf"spark\.windows\.state\.segment is '{segment}'.*{message}"):
        bind(COUNTING, options={"state.segment": segment})


def test_unknown_backend_or_option() -> None:
    """A misspelt backend or option is refused when the runner is made, with those that are known."""
    with pytest.raises(
        ValueError, match=r"unknown state backend 'rocksbd'; did you mean rocksdb\? Known: memory, rocksdb"
    ):
        COUNTING.local_runner("time", "rocksbd")
    with pytest.raises(
        ValueError, match=r"unknown option spark\.windows\.state\.segmnt; did you mean .*segment\?"
    ):
        COUNTING.local_runner("time", options={"state.segmnt": "1 s"})
