"""All of Spark's types through every door where a value is stored and comes out: what functions get, and what comes out."""

import datetime as dt
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, ClassVar

import pyarrow as pa
import pytest
from feeds import BACKENDS

from operators import Declaration, KeyedOperator, Operator, OperatorError, RollingWindows, TumblingWindows
from operators import aggregates as agg
from operators.columns.python_values import Unreadable, arrow_values, python_values
from operators.columns.records import FAR_FUTURE
from serializers.values import pack_value, unpack_value

UTC = dt.timezone.utc
BERLIN = pa.timestamp("us", "Europe/Berlin")
NOON = dt.datetime(2024, 7, 1, 12, tzinfo=UTC)
DAY = dt.date(2024, 2, 29)
STRUCT = pa.struct([("a", pa.int32()), ("at", BERLIN), ("m", pa.map_(pa.string(), BERLIN))])
TYPES: Mapping[str, tuple[pa.DataType, list[Any]]] = {
    "boolean": (pa.bool_(), [True, False]),
    "tinyint": (pa.int8(), [-128, 127]),
    "smallint": (pa.int16(), [-(2**15), 1]),
    "int": (pa.int32(), [-(2**31), 1]),
    "bigint": (pa.int64(), [2**63 - 1, -1]),
    "float": (pa.float32(), [0.5, float("inf")]),
    "double": (pa.float64(), [0.1, -1e300]),
    "decimal": (pa.decimal128(38, 10), [Decimal("1.5000000000"), Decimal("-9999999999.0000000001")]),
    "string": (pa.string(), ["", "é\0"]),
    "binary": (pa.binary(), [b"", b"\xff\0"]),
    "date": (pa.date32(), [DAY, dt.date.max]),
    "timestamp": (BERLIN, [NOON, dt.datetime.max.replace(tzinfo=UTC)]),
    "timestamp_ntz": (pa.timestamp("us"), [NOON.replace(tzinfo=None), dt.datetime.min]),
    "time": (pa.time64("ns"), [dt.time(23, 59, 59, 1), dt.time(0)]),
    "interval": (pa.duration("us"), [dt.timedelta(days=-1), dt.timedelta(microseconds=1)]),
    "void": (pa.null(), [None]),
    "array": (pa.list_(BERLIN), [[NOON, None], []]),
    "array of arrays": (pa.list_(pa.list_(pa.date32())), [[[DAY], None, []]]),
    "array of maps": (pa.list_(pa.map_(pa.date32(), pa.int64())), [[{DAY: 1}, None, {}]]),
    "map": (pa.map_(pa.string(), pa.int64()), [{"a": 1, "b": None}, {}]),
    "map of times": (pa.map_(BERLIN, pa.decimal128(5, 2)), [{NOON: Decimal("1.00")}]),
    "map of intervals": (pa.map_(pa.duration("us"), pa.list_(BERLIN)), [{dt.timedelta(1): [NOON]}]),
    "map of maps": (pa.map_(pa.binary(), pa.map_(pa.int32(), BERLIN)), [{b"k": {1: NOON}}]),
    "map of structs": (pa.map_(pa.string(), STRUCT), [{"s": {"a": 1, "at": NOON, "m": {"x": NOON}}}]),
    "map by struct": (
        pa.map_(pa.struct([("a", BERLIN)]), pa.map_(pa.list_(pa.int64()), pa.int64())),
        [[[{"a": NOON}, [[[1, 2], 3]]]]],
    ),
    "struct": (STRUCT, [{"a": None, "at": NOON, "m": None}, {"a": 1, "at": None, "m": {"x": NOON}}]),
}
"""Arrow types of Spark's, and values in the form that functions get."""
BEYOND: Mapping[str, pa.Array] = {
    "date": pa.array([2**30], pa.int32()).cast(pa.date32()),
    "timestamp": pa.array([2**60], pa.int64()).cast(BERLIN),
    "timestamp_ntz": pa.array([-(2**60)], pa.int64()).cast(pa.timestamp("us")),
    "array": pa.ListArray.from_arrays([0, 1], pa.array([2**60], pa.int64()).cast(BERLIN)),
    "struct": pa.StructArray.from_arrays([pa.array([2**60], pa.int64()).cast(pa.timestamp("us"))], ["at"]),
    "map": pa.MapArray.from_arrays([0, 1], ["k"], pa.array([2**30], pa.int32()).cast(pa.date32())),
}
"""Times that Spark has and Python has not."""


def _seen(values: list[Any], value: Any) -> list[Any]:
    return [*values, value]


def table(values: pa.Array, at: int = 0) -> pa.Table:
    """A record of one key for each value, a ms apart."""
    times = pa.array([at + n for n in range(len(values))], pa.timestamp("ms"))
    return pa.table({"k": ["a"] * len(values), "at": times, "v": values})


def same(found: Any, expected: Any) -> bool:
    """Whether values are equal and of the same types at any depth."""
    return repr(found) == repr(expected) and type(found) is type(expected)


@dataclass(frozen=True, kw_only=True)
class Echo(KeyedOperator):
    """Emits what it gets; fails for what is not of the form, which is in `forms`."""

    emits: Any
    reads: ClassVar[list[Any]] = []

    def schema(self, types: Mapping[str, pa.DataType]) -> Declaration:
        return Declaration(inputs=["v"], results={"v": self.emits, "kept": self.emits})

    def settings(self) -> dict[str, Any]:
        return {}

    def process(self, time: int, record: dict[str, Any], context: Any) -> Iterator[dict[str, Any]]:
        self.reads.append(record["v"])
        kept, context.value = context.value, record["v"]
        yield {"v": record["v"], "kept": kept}


@dataclass(frozen=True, kw_only=True)
class Keeping(Operator):
    """Stores what it gets as it is, and emits it a millisecond later."""

    emits: Any

    def declare(self, types: Mapping[str, pa.DataType]) -> Declaration:
        return Declaration(inputs=["v"], state={"v": object}, results={"v": self.emits})

    def settings(self) -> dict[str, Any]:
        return {}

    def process_batch(self, context: Any) -> None:
        records = context.records
        context.add(context.stored(records.key, records.time, v=context.column("v")))

    def due(self, entries: Any) -> Any:
        return entries.time

    def fire(self, context: Any) -> Any:
        return context.rows(context.due.key, v=context.due["v"])


@pytest.mark.parametrize("name", TYPES)
def test_a_value_has_one_form(name: str) -> None:
    """What a function gets is what storing it gives back, and both come out as the column that they were."""
    type_, values = TYPES[name]
    values = [*values, None]
    column = arrow_values(values, type_)
    found = python_values(column)
    assert same(found, values)
    stored = [unpack_value(pack_value(value)) for value in found]
    assert same(stored, values)
    assert column.equals(arrow_values(stored, type_))


@pytest.mark.parametrize("batches", [1, 2])
@pytest.mark.parametrize("name", TYPES)
def test_every_type_through_folds(name: str, batches: int) -> None:
    """Folds get and give values of each type, however many batches there are."""
    type_, values = TYPES[name]
    values = [*values, None]
    seen: list[Any] = []

    def add(state: list[Any], value: Any) -> list[Any]:
        seen.append(value)
        return [*state, value]

    for merge in (None, list.__add__):
        seen.clear()
        folded = agg.fold(list, add, "v", type=pa.list_(type_), merge=merge)
        with TumblingWindows(100).group_by("k").aggregate(v=folded).local_runner("at") as runner:
            whole = table(arrow_values(values, type_))
            cut = len(values) if batches == 1 else 1
            runner.process(whole.slice(0, cut), 0)
            runner.process(whole.slice(cut), 0)
            rows = runner.process(whole.slice(0, 0), FAR_FUTURE)
        assert rows["v"].combine_chunks().values.equals(arrow_values(values, type_))
        assert all(any(same(one, value) for value in values) for one in seen)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", TYPES)
def test_every_type_through_operators_and_rows_that_wait(name: str, backend: str) -> None:
    """Records that wait, states, emitted rows and reports have values of each type."""
    type_, values = TYPES[name]
    values = [*values, None]
    column = arrow_values(values, type_)
    Echo.reads.clear()
    with Echo(emits=type_).group_by("k").local_runner("at", backend) as runner:
        runner.process(table(column), 0)
        rows = runner.process(table(column).slice(0, 0), FAR_FUTURE)
    assert same(Echo.reads, values)
    assert rows["v"].combine_chunks().equals(column)
    assert rows["kept"].combine_chunks().equals(arrow_values([None, *values[:-1]], type_))
    with Keeping(emits=type_).group_by("k").local_runner("at", backend) as runner:
        runner.process(table(column), 0)
        assert runner.process(table(column).slice(0, 0), FAR_FUTURE)["v"].combine_chunks().equals(column)
    with RollingWindows(10).group_by("k").aggregate(n=agg.count()).local_runner("at", backend) as runner:
        runner.process(table(column), 0)
        assert runner.process(table(column).slice(0, 0), FAR_FUTURE)["v"].combine_chunks().equals(column)


@dataclass(frozen=True, kw_only=True)
class Failing(Echo):
    """Fails for each record."""

    def process(self, time: int, record: dict[str, Any], context: Any) -> Iterator[dict[str, Any]]:
        raise KeyError("of the test")


@pytest.mark.parametrize("name", TYPES)
def test_every_type_in_reports(name: str) -> None:
    """A record that is skipped is reported as it came, whatever its type."""
    type_, values = TYPES[name]
    column = arrow_values([*values, None], type_)
    op = Failing(emits=type_, on_error="skip").group_by("k")
    with op.local_runner("at", late=True) as runner:
        runner.process(table(column), 0)
        runner.process(table(column).slice(0, 0), FAR_FUTURE)
        assert runner.late is not None
        record = runner.late["record"].combine_chunks()
        assert record.field("v").equals(column)


@pytest.mark.parametrize("name", BEYOND)
def test_times_beyond_python(name: str) -> None:
    """They stand for themselves in a column, are skipped and reported by themselves, and end a query by name otherwise."""
    beyond = BEYOND[name]
    good = pa.concat_arrays([pa.nulls(1, beyond.type), beyond])
    (nothing, found) = python_values(good)
    assert nothing is None
    assert isinstance(found, Unreadable)
    assert good.equals(arrow_values([None, found], beyond.type))
    batch, end = table(good), table(good).slice(0, 0)
    for merge in (None, list.__add__):
        for on_error in ("skip", "fail"):
            folded = agg.fold(list, _seen, "v", type=pa.list_(beyond.type), merge=merge, on_error=on_error)
            op = TumblingWindows(100).group_by("k").aggregate(v=folded, n=agg.count())
            with op.local_runner("at", late=True) as runner:
                if on_error == "fail":
                    with pytest.raises(
                        agg.AggregateError, match="column 'v' has a time that Python cannot hold"
                    ):
                        runner.process(batch, 0)
                    continue
                runner.process(batch, 0)
                assert runner.late is not None
                assert runner.late["record"].combine_chunks().field("v").equals(beyond)
                (row,) = runner.process(end, FAR_FUTURE).to_pylist()
                assert ([None], 2) == (row["v"], row["n"])
    with Echo(emits=beyond.type, on_error="skip").group_by("k").local_runner("at", late=True) as runner:
        runner.process(batch, 0)
        assert 1 == runner.counters.failed
        assert runner.late is not None
        assert runner.late["record"].combine_chunks().field("v").equals(beyond)
        assert [None] == runner.process(end, FAR_FUTURE)["v"].to_pylist()
    with (
        Echo(emits=beyond.type).group_by("k").local_runner("at") as runner,
        pytest.raises(OperatorError, match=r"process at event time 1 .*column 'v' has a time"),
    ):
        runner.process(batch, 0)


def test_a_key_beyond_python_fails_alone() -> None:
    """Other keys of the same batch go on."""

    class OfKey(Echo):
        def process(self, time: int, record: dict[str, Any], context: Any) -> Iterator[dict[str, Any]]:
            yield {"v": context.key["k"]}

    keys = pa.array([0, 2**60], pa.int64()).cast(BERLIN)
    batch = pa.table({"k": keys, "at": pa.array([0, 1], pa.timestamp("ms")), "v": keys})
    with OfKey(emits=BERLIN, on_error="skip").group_by("k").local_runner("at") as runner:
        runner.process(batch.set_column(2, "v", pa.array([1, 2])), 0)
        rows = runner.process(batch.set_column(2, "v", pa.array([1, 2])).slice(0, 0), FAR_FUTURE)
        assert (1, 1) == (rows.num_rows, runner.counters.failed)


def test_ticks_beyond_python_come_out() -> None:
    """An operator may emit an event time of the year 20,000."""

    class Late(Echo):
        def process(self, time: int, record: dict[str, Any], context: Any) -> Iterator[dict[str, Any]]:
            yield {"v": time}

    far = 600_000_000_000_000
    with Late(emits=BERLIN).group_by("k").local_runner("at") as runner:
        runner.process(table(pa.array([1]), far), 0)
        found = runner.process(table(pa.array([1])).slice(0, 0), FAR_FUTURE)["v"].combine_chunks()
    assert [far * 1_000] == found.cast(pa.int64()).to_pylist()
