"""Rows that wait until their time is closed, while other columns of the input come, go and become wider."""

import datetime as dt
from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from feeds import BACKENDS

from operators import RollingWindows
from operators import aggregates as agg
from operators.errors import DefinitionError
from serializers.row_changes import converted
from state_backends import StateError, resolve

ADAPT = {"state.evolution": "adapt"}
NTZ = pa.timestamp("us")
INNER, WIDE_INNER = (
    pa.struct([("a", pa.int32()), ("b", pa.string())]),
    pa.struct([("b", pa.string()), ("a", pa.int64()), ("c", pa.date32())]),
)
WIDER: Mapping[str, tuple[pa.DataType, pa.DataType, list[Any], list[Any]]] = {
    "int8": (pa.int8(), pa.int16(), [-128, None, 127], [-128, None, 127]),
    "int32": (pa.int32(), pa.int64(), [2**31 - 1, None, 0], [2**31 - 1, None, 0]),
    "int32 to double": (pa.int32(), pa.float64(), [2**31 - 1, None, 0], [2.0**31 - 1, None, 0.0]),
    "int64 to decimal": (
        pa.int64(),
        pa.decimal128(22, 2),
        [2**63 - 1, None, 1],
        [Decimal(2**63 - 1), None, Decimal(1)],
    ),
    "float": (pa.float32(), pa.float64(), [0.5, None, -1.25], [0.5, None, -1.25]),
    "decimal": (
        pa.decimal128(4, 2),
        pa.decimal128(8, 3),
        [Decimal("99.99"), None, Decimal(0)],
        [Decimal("99.990"), None, Decimal(0)],
    ),
    "date": (
        pa.date32(),
        NTZ,
        [dt.date(2026, 1, 5), None, dt.date(1, 1, 1)],
        [dt.datetime(2026, 1, 5), None, dt.datetime(1, 1, 1)],
    ),
    "unit": (
        pa.timestamp("ms"),
        NTZ,
        [dt.datetime(2026, 1, 5, 1), None, None],
        [dt.datetime(2026, 1, 5, 1), None, None],
    ),
    "struct": (
        INNER,
        WIDE_INNER,
        [{"a": 1, "b": "x"}, None, {"a": None, "b": None}],
        [{"b": "x", "a": 1, "c": None}, None, {"b": None, "a": None, "c": None}],
    ),
    "list": (pa.list_(pa.int32()), pa.list_(pa.int64()), [[1, None], None, []], [[1, None], None, []]),
    "list of structs": (
        pa.list_(INNER),
        pa.list_(WIDE_INNER),
        [[{"a": 1, "b": "x"}], None, []],
        [[{"b": "x", "a": 1, "c": None}], None, []],
    ),
}
OTHER: Mapping[str, tuple[pa.DataType, pa.DataType]] = {
    "narrower": (pa.int64(), pa.int32()),
    "fewer digits": (pa.decimal128(8, 2), pa.decimal128(8, 3)),
    "whole number of 64 bits to double": (pa.int64(), pa.float64()),
    "text to number": (pa.string(), pa.int64()),
    "number to text": (pa.int64(), pa.string()),
    "date to an instant": (pa.date32(), pa.timestamp("us", "UTC")),
    "inside": (pa.list_(pa.int64()), pa.list_(pa.int32())),
}


@pytest.mark.parametrize("name", WIDER)
def test_values_become_wider(name: str) -> None:
    """Each value is the same in the wider type, as Spark casts it."""
    before, now, values, expected = WIDER[name]
    table = pa.table({"v": pa.array(values, before), "gone": values})
    found = converted(table, pa.schema([("new", pa.int8()), ("v", now)]))
    assert {"new": [None] * 3, "v": expected} == found.to_pydict()
    # Values of a slice, as a part of a batch has them.
    assert expected[1:] == converted(table.slice(1), pa.schema([("v", now)]))["v"].to_pylist()


def rolling(**given: Any) -> Any:
    """Rows wait for a hundred ticks."""
    return (
        RollingWindows({"10": 10, "ever": "lifetime"}, grace=100, **given)
        .group_by("k")
        .aggregate(n=agg.count())
    )


def batch(first: int, columns: Mapping[str, pa.Array]) -> pa.Table:
    """Three records of two keys, at times from `first` on."""
    return pa.table({"k": ["a", "b", "a"], "t": [first, first + 1, first + 2], **columns})


def nothing(table: pa.Table) -> pa.Table:
    """A batch of no records."""
    return table.slice(0, 0)


def rows_of(
    directory: Path, *tables: pa.Table, backend: str = "memory", last: int | None = None, **given: Any
) -> list[dict[str, Any]]:
    """What a runner that goes on in the directory emits, in order."""
    options = given.pop("options", {})
    with rolling(**given).local_runner("t", backend, directory, options) as runner:
        found = [row for table in tables for row in runner.process(table).to_pylist()]
        if last is not None:
            found += runner.process(nothing(tables[-1]), last).to_pylist()
    return sorted(found, key=lambda row: (row["k"], row["t"]))


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", WIDER)
def test_columns_come_and_become_wider_without_an_option(name: str, backend: str, tmp_path: Path) -> None:
    """Waiting rows have them as if they had always been so: in a directory, and from a savepoint."""
    before, now, values, expected = WIDER[name]
    old = batch(0, {"v": pa.array(values, before), "w": ["x", None, "y"]})
    new = batch(50, {"new": pa.array([7, None, 8], pa.int64()), "w": ["z"] * 3, "v": pa.array(expected, now)})
    as_new = batch(0, {"new": pa.nulls(3, pa.int64()), "w": ["x", None, "y"], "v": pa.array(expected, now)})
    undisturbed = rows_of(tmp_path / "undisturbed", as_new, new, backend=backend, last=500)
    assert [] == rows_of(tmp_path / "changed", old, backend=backend)
    with rolling().local_runner("t", backend, tmp_path / "changed") as runner:
        runner.process(nothing(old))
        saved = runner.savepoint(tmp_path / "saved")
    assert undisturbed == rows_of(tmp_path / "changed", new, backend=backend, last=500)
    options = {"state.savepoint": saved.uri}
    assert undisturbed == rows_of(tmp_path / "moved", new, backend=backend, last=500, options=options)
    assert 6 == len(undisturbed)


@pytest.mark.parametrize("backend", BACKENDS)
def test_columns_that_go_are_named_and_need_the_option(backend: str, tmp_path: Path) -> None:
    """Also fields of structs. With the option, rows come out without them; nothing else changes."""
    inner = pa.array([{"a": 1, "b": "x"}, None, {"a": 2, "b": "y"}], INNER)
    old = batch(0, {"v": [1, 2, 3], "s": inner, "w": ["x", None, "y"]})
    less = pa.array([{"a": 1}, None, {"a": 2}], pa.struct([("a", pa.int32())]))
    new, as_new = (batch(first, {"s": less, "w": ["x", None, "y"]}) for first in (50, 0))
    undisturbed = rows_of(tmp_path / "undisturbed", as_new, new, backend=backend, last=500)
    rows_of(tmp_path / "changed", old, backend=backend)
    with pytest.raises(
        StateError,
        match=r"column 's.b' is gone, and would be dropped from rows that wait; column 'v' is gone.* adapt",
    ):
        rows_of(tmp_path / "changed", new, backend=backend)
    assert undisturbed == rows_of(tmp_path / "changed", new, backend=backend, last=500, options=ADAPT)


def test_columns_and_aggregates_change_at_once(tmp_path: Path) -> None:
    """A column that an aggregate reads becomes wider, in its state and in waiting rows; another aggregate is new."""
    old, new = (
        batch(first, {"v": pa.array([1, 2, 3], type_)})
        for first, type_ in ((0, pa.int32()), (50, pa.int64()))
    )
    before, after = (
        rolling().aggregate(total=agg.sum("v")),
        rolling().aggregate(total=agg.sum("v"), low=agg.min("t")),
    )
    with before.local_runner("t", directory=tmp_path) as runner:
        runner.process(old)
    with after.local_runner("t", directory=tmp_path, options=ADAPT) as runner:
        runner.process(new)
        found = runner.process(nothing(new), 500)
    assert pa.int64() == found.schema.field("v").type
    rows = found.sort_by([("k", "ascending"), ("t", "ascending")]).to_pylist()
    assert [1, 4, 5, 8, 2, 4] == [row["total_ever"] for row in rows]
    assert [None, None, 50, 50, None, 51] == [row["low_ever"] for row in rows]


@pytest.mark.parametrize("name", OTHER)
def test_columns_of_another_type_are_refused_whatever_is_wanted(name: str, tmp_path: Path) -> None:
    """By name, with both types and the ways out; the state stays as it was."""
    before, now = OTHER[name]
    old, new = (batch(first, {"v": pa.nulls(3, type_)}) for first, type_ in ((0, before), (50, now)))
    rows_of(tmp_path, old)
    for options in ({}, ADAPT):
        with pytest.raises(
            StateError,
            match=r"column 'v(.element)?' was .*, is .* Cast it back, give the changed column another name",
        ):
            rows_of(tmp_path, new, options=options)
    assert 6 == len(rows_of(tmp_path, old, last=500))


def test_event_time_under_another_name_is_refused(tmp_path: Path) -> None:
    """The rows that wait have no such column, so that their times would not be known."""
    old = batch(0, {"v": [1, 2, 3]})
    rows_of(tmp_path, old)
    renamed = old.rename_columns(["k", "time", "v"])
    with (
        rolling().local_runner("time", directory=tmp_path, options=ADAPT) as runner,
        pytest.raises(
            StateError, match=r"the event time is 'time' now, .* keep the name of the event time's column"
        ),
    ):
        runner.process(renamed)


def test_keep_says_which_columns_come_out(tmp_path: Path) -> None:
    """With the keys and the event time, in the frame's order; others may come, go and change as they like."""
    old = batch(0, {"v": [1, 2, 3], "x": ["p", "q", "r"], "w": ["x", None, "y"]})
    new = batch(50, {"w": ["x", None, "y"], "x": [1.5, 2.5, 3.5], "v": [4, 5, 6]})
    rows_of(tmp_path, old, keep=["v"])
    found = rows_of(tmp_path, new, last=500, keep=["v"])
    assert ["k", "t", "v", "n_10", "n_ever"] == [*found[0]]
    assert [1, 3, 4, 6, 2, 5] == [row["v"] for row in found]
    assert ["k", "t", "n_10", "n_ever"] == [*rows_of(tmp_path / "none", new, last=500, keep=[])[0]]
    for policy in ("on_close", "on_arrival"):
        bound = rolling(keep=["w", "t"]).emit(policy).bind(old.schema, "t", resolve("memory", {}))
        assert ["k", "t", "w", "n_10", "n_ever"] == bound.output.arrow.names


def test_keep_that_cannot_be() -> None:
    """Refused where it is written, or where the frame is known."""
    for wrong in ("v", 1, [1]):
        with pytest.raises(DefinitionError, match=r"keep is .*, such as keep=\['amount'\]"):
            rolling(keep=wrong)
    with pytest.raises(
        DefinitionError, match=r"keep: column 'vv' does not exist; the frame has the columns k, t, v"
    ):
        rolling(keep=["vv"]).bind(batch(0, {"v": [1, 2, 3]}).schema, "t", resolve("memory", {}))


def test_labels_come_out_whole() -> None:
    """`keep` is about the records that come out: labels of an as-of join have all columns."""
    labels = pa.table({"k": ["a"], "asked": [5], "paid": [True]})
    records = batch(0, {"v": [1, 2, 3]})
    with rolling(keep=["v"]).local_runner_as_of("asked", "t") as runner:
        runner.process(labels, records)
        found = runner.process(stream_time=500)
    assert [{"k": "a", "asked": 5, "paid": True, "n_10": 2, "n_ever": 2}] == found.to_pylist()
