"""Aggregates are checked when they are made and when they are bound to columns."""

import inspect
from dataclasses import replace
from datetime import date
from decimal import Decimal
from typing import ClassVar

import numpy as np
import pyarrow as pa
import pytest
from aggregate_cases import CASES, finished, stored

from operators import DefinitionError
from operators import aggregates as agg
from operators.aggregates.operations import CountRows, CountValid
from operators.columns.arrow import column_data
from operators.columns.records import Records

ANY_TYPE = {
    "uint64": pa.array([1, 2**62], pa.uint64()),
    "time": pa.array([5, 7], pa.time64("us")),
    "time ms": pa.array([5, 7], pa.time32("ms")),
    "timestamp ns": pa.array([5, 7], pa.timestamp("ns")),
    "half float": pa.array([np.float16(1.5), np.float16(2.5)], pa.float16()),
    "date64": pa.array([date(2024, 1, 1), date(1950, 1, 1)], pa.date64()),
    "fixed binary": pa.array([b"ab", b"aa"], pa.binary(2)),
    "large string": pa.array(["b", "a"], pa.large_string()),
    "decimal256": pa.array([Decimal(2), Decimal(1)], pa.decimal256(50, 0)),
    "calendar interval": pa.array([(1, 2, 3), (0, 1, 2)], pa.month_day_nano_interval()),
    "null": pa.nulls(2),
}


OF_ANY_TYPE = ("count", "min", "max", "first", "last", "collect_list", "collect_set", "count_distinct")


@pytest.mark.parametrize("name", [*OF_ANY_TYPE, "approx_count_distinct", "sum", "avg", "variance"])
@pytest.mark.parametrize("type_name", ANY_TYPE)
def test_type_is_refused_or_works(name: str, type_name: str) -> None:
    """A type that is accepted when the aggregate is bound can be stored and finished; others are refused."""
    column = ANY_TYPE[type_name]
    try:
        bound = getattr(agg, name)("v").bind({"v": column.type})
    except DefinitionError:
        return
    zeros = np.zeros(len(column), np.int64)
    records = Records([b""], zeros, zeros, {"v": column_data(column)}, 0)
    states = [op.reduce(op.lift(records), np.array([0])) for op in bound.operations]
    (found,) = finished(bound, stored(bound.operations, states)).to_pylist()
    values = column.to_pylist()
    references = {
        "min": min,
        "max": max,
        "first": min,
        "last": max,
        "collect_list": sorted,
        "collect_set": sorted,
        "count_distinct": len,
        "approx_count_distinct": len,
    }
    if name in references and None not in values:
        assert references[name](values) == found


class TestBinding:
    """Aggregates are checked when they are bound."""

    TYPES: ClassVar = {"origin": pa.string(), "time": pa.int64()}

    @pytest.mark.parametrize("name", CASES)
    def test_missing_column(self, name: str) -> None:
        """A column that the frame does not have is refused with those that it has."""
        if name != "count(*)":
            with pytest.raises(
                DefinitionError, match=r"column '[vw]' does not exist; the frame has the columns origin, time"
            ):
                CASES[name].aggregate.bind(self.TYPES)

    @pytest.mark.parametrize("name", CASES)
    def test_where(self, name: str) -> None:
        """A column for `where` that the frame does not have, or that is no boolean, is refused, and named."""
        case, where = CASES[name], replace(CASES[name].aggregate, where="origin")
        with pytest.raises(
            DefinitionError, match="column 'origin' does not exist; the frame has the columns v, w, ok"
        ):
            where.bind(case.types)
        with pytest.raises(DefinitionError, match="column 'origin' is of type string, not a boolean"):
            where.bind({**case.types, "origin": pa.string()})

    def test_where_is_a_keyword(self) -> None:
        """All aggregates take `where` by name alone."""
        functions = [getattr(agg, name) for name in agg.__all__ if name[0].islower() and name != "fold"]
        assert 80 == len(functions)
        for function in functions:
            parameter = inspect.signature(function).parameters["where"]
            assert (parameter.KEYWORD_ONLY, None) == (parameter.kind, parameter.default)

    def test_second_column(self) -> None:
        """The second column of an aggregate is checked and named as the first one is."""
        types = {"v": pa.float64(), "w": pa.string(), "l": pa.list_(pa.int64())}
        for aggregate in (agg.corr("v", "w"), agg.linear_trend("v", "w")):
            with pytest.raises(
                DefinitionError, match="column 'w' is of type string, not an integer or floating-point"
            ):
                aggregate.bind(types)
        for aggregate in (agg.min_by("v", "l"), agg.top_n("v", 3, by="l")):
            with pytest.raises(
                DefinitionError, match=r"column 'l' is of type list<.*>, not an orderable type"
            ):
                aggregate.bind(types)
        for aggregate in (agg.corr("v", "x"), agg.max_by("v", "x"), agg.top_n("v", 3, by="x")):
            with pytest.raises(DefinitionError, match="column 'x' does not exist"):
                aggregate.bind(types)

    def test_arguments(self) -> None:
        """Arguments out of bounds are refused when the aggregate is made."""
        for wrong in (0, -1, 1.5, True, "3"):
            with pytest.raises(
                DefinitionError, match=r"top_n\(v, .*\): n must be a whole number of 1 or more, got "
            ):
                agg.top_n("v", wrong)  # type: ignore[arg-type]
        for rsd in (0, -1, 0.51, 0.0007):
            with pytest.raises(DefinitionError, match=f"rsd must be from 0.00072 to 0.5, got {rsd}"):
                agg.approx_count_distinct("v", rsd)
        for probabilities in ([], [1.1], [-0.1, 0.5]):
            with pytest.raises(DefinitionError, match="probabilities must be numbers from 0 to 1, got "):
                agg.approx_quantiles("v", probabilities)
        with pytest.raises(DefinitionError, match="k must be a whole number from 8 to 65535, got 7"):
            agg.approx_quantiles("v", [0.5], k=7)

    def test_states_known_by_former_names(self) -> None:
        """What stored state is known by has not changed: checkpoints of earlier versions still open."""
        types = {"v": pa.float64(), "d": pa.decimal128(9, 2), "t": pa.string()}
        made = [
            agg.count(),
            agg.sum("v"),
            agg.max("v"),
            agg.variance("v"),
            agg.collect_list("v"),
            agg.sum("d"),
            agg.min("t"),
        ]
        assert [
            "CountRows()", "CountValid(v)", "SumFloat(v)", "CountValid(v)", "Max(v, f8)", "PowerSums(v)", "Collect(v)",
            "CountValid(d)", "SumDecimal(d, 2)", "ObjectExtreme(t, False)",
        ] == [op.describe() for aggregate in made for op in aggregate.bind(types).operations]  # fmt: skip

    @pytest.mark.parametrize(
        ("name", "type_", "expected"),
        [
            ("sum", pa.string(), "a number"),
            ("sum", pa.bool_(), "a number"),
            ("sum", pa.timestamp("us"), "a number"),
            ("avg", pa.string(), "a number"),
            ("avg", pa.date32(), "a number"),
            ("variance", pa.decimal128(5, 2), "an integer or floating-point number"),
            ("var_pop", pa.string(), "an integer or floating-point number"),
            ("bool_and", pa.int32(), "a boolean"),
            ("bool_or", pa.string(), "a boolean"),
            ("first", pa.list_(pa.int64()), "an atomic type"),
            ("last", pa.null(), "an atomic type"),
            ("count_distinct", pa.struct([]), "an atomic type"),
            ("collect_set", pa.list_(pa.int64()), "an atomic type"),
            ("approx_count_distinct", pa.struct([]), "an atomic type"),
            ("variance", pa.date32(), "an integer or floating-point number"),
            ("min", pa.list_(pa.int64()), "an orderable type"),
            ("max", pa.struct([("a", pa.int64())]), "an orderable type"),
            ("collect_list", pa.map_(pa.string(), pa.int64()), "an atomic type"),
        ],
    )
    def test_wrong_type(self, name: str, type_: pa.DataType, expected: str) -> None:
        """A column of a wrong type is refused with the expected type, by the aggregate's name."""
        with pytest.raises(
            DefinitionError,
            match=rf"^{name}.*: column 'v' is of type .*, not {expected}: cast it before apply",
        ):
            getattr(agg, name)("v").bind({"v": type_})

    def test_equal_states_are_shared(self) -> None:
        """Aggregates that need the same state have equal operations, and different ones have not."""
        types = {"v": pa.int32(), "w": pa.int32()}
        shared = {
            operation
            for name in ("sum", "avg", "count", "min")
            for operation in getattr(agg, name)("v").bind(types).operations
        }
        assert 3 == len(shared)
        assert CountValid("v") != CountRows("v")
        assert agg.sum("v").bind(types).operations != agg.sum("w").bind(types).operations

    def test_definitions_are_values(self) -> None:
        """Equal definitions are equal and hash alike; they cannot be changed."""
        assert (agg.max("v"), hash(agg.max("v"))) == (agg.max("v"), hash(agg.max("v")))
        assert agg.max("v") != agg.min("v")
        assert agg.sum("v") != agg.avg("v")
        with pytest.raises(AttributeError):
            agg.sum("v").column = "w"  # type: ignore[misc]
