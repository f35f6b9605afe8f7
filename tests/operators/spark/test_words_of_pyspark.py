"""What a PySpark user types: each aggregate of `pyspark.sql.functions` is there with Spark's result, or named with ours."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyspark.sql.functions
import pytest
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from operators import RollingWindows, SessionWindows, SlidingWindows, TumblingWindows
from operators import aggregates as agg
from operators.aggregates.elsewhere import INSTEAD

PAGE = Path(__file__).parents[3] / "docs" / "migrating.md"
_LISTED = Path(pyspark.sql.functions.__file__).read_text("utf-8")
_SECTION = re.search(r"# Aggregate Functions\n((?:\s+\"\w+\",\n)+)", _LISTED)
NAMES = re.findall(r"\"(\w+)\"", _SECTION[1] if _SECTION else "")
"""The aggregates of the version of PySpark that is installed."""
_SKETCHES = tuple(name for name in NAMES if name.startswith(("hll_", "kll_")))
"""Their bytes need not be those of Spark: test_sketches_on_spark.py lets Spark read them."""
HERE = [name for name in NAMES if name in agg.__all__ and name not in _SKETCHES]
PAIRS = ("corr", "covar_pop", "covar_samp")
PICKS = ("any_value", "first", "first_value", "last", "last_value")
ANY_TYPE = (
    *PICKS,
    "approx_count_distinct",
    "array_agg",
    "collect_list",
    "collect_set",
    "count_distinct",
    "max",
    "min",
    "mode",
)
_TEXTS = ("listagg", "listagg_distinct", "string_agg", "string_agg_distinct")
ARGUMENTS: dict[str, list[tuple[Any, ...]]] = {
    **{key: [("b",)] for key in ["bool_and", "bool_or", "count_if", "every", "some"]},
    **{key: [("i",), ("l",)] for key in ["bit_and", "bit_or", "bit_xor"]},
    **{key: [("s",), ("s", ", ")] for key in _TEXTS},
    **{key: [("i",), ("x",), ("l",), ("d",)] for key in ["sum_distinct", "try_avg", "try_sum"]},
    **{key: [("x", "l"), ("s", "l"), ("s", "l", 3), ("i", "l", 100)] for key in ["max_by", "min_by"]},
    "collect_union": [("n",)],
    "percentile": [("i", 0.3), ("x", 1.0), ("d", [0.0, 0.5, 0.99]), ("l", [0.25])],
    "count": [("*",), ("s",)],
}


def arguments(name: str) -> list[tuple[Any, ...]]:
    """What to call an aggregate with, as PySpark and as this library takes it."""
    if name in ARGUMENTS:
        return ARGUMENTS[name]
    if name in PAIRS or name.startswith("regr_"):
        return [("x", "i"), ("i", "x")]
    columns = ("i", "x", "l", *(["s"] if name in ANY_TYPE else []), *(["d"] if name == "median" else []))
    return [*((column,) for column in columns), *([("s", True)] if name in PICKS else [])]


def judge(name: str, args: tuple[Any, ...]) -> Column:
    """Spark's own function; in place of one that takes records in any order, or estimates, one that does not."""
    if name == "approx_count_distinct":
        return F.count_distinct(*args)
    if name == "mode":
        return F.mode(*args, deterministic=True)
    if name in _TEXTS:
        text = F.when(F.col(args[0]).isNotNull(), F.struct("at", args[0]))
        values = F.transform(F.array_sort(F.collect_list(text)), lambda pair: pair[args[0]])
        values = F.array_sort(F.array_distinct(values)) if name.endswith("_distinct") else values
        return F.when(F.size(values) > 0, F.array_join(values, "".join(args[1:])))
    if name not in PICKS:
        return getattr(F, name)(*args)
    pick = F.max_by if name.startswith("last") else F.min_by
    return pick(args[0], F.when(F.col(args[0]).isNotNull() | F.lit(args[1:] != (True,)), F.col("at")))


@pytest.fixture(scope="module")
def frame(spark: SparkSession) -> DataFrame:
    """Records of two keys in order of time, with nulls, NaN, and a window whose values are all null."""
    rows = spark.range(240, numPartitions=1).selectExpr(
        "if(id % 3 = 0, 'a', 'b') k",
        "timestamp_millis(1767600000000 + id * 250) at",
        "if(id % 5 = 1 or id between 60 and 100, null, cast(id * 37 % 11 as int)) i",
        "if(id % 7 = 1 or id between 60 and 100, null, if(id = 7, double('NaN'), id * 31 % 13 / 4)) x",
        "if(id % 4 = 1, null, id * id * 1000000007) l",
        "if(id % 6 = 1, null, cast(id % 9 as decimal(12, 2)) / 4) d",
        "if(id % 5 = 0, null, concat('s', id % 4)) s",
        "if(id % 4 = 2, null, id % 3 = 0) b",
        "if(id % 8 = 0, null, array(cast(id % 5 as int), null, cast(id % 7 as int))) n",
    )
    return rows.sortWithinPartitions("at").cache()


def test_each_aggregate_of_pyspark_is_there_or_says_what_is() -> None:
    """No name is missing, and what an error names is there."""
    assert 60 < len(NAMES)
    assert [] == [name for name in NAMES if (name in agg.__all__) == (name in INSTEAD)]
    for name, said in INSTEAD.items():
        with pytest.raises(AttributeError, match=f"has no attribute '{name}': use "):
            getattr(agg, name)
        assert set(re.findall(r"agg\.(\w+)", said)) <= set(agg.__all__)


def test_the_table_in_the_docs_has_each() -> None:
    """Every name, with what it is here."""
    section = PAGE.read_text("utf-8").partition("## In the words of PySpark")[2].partition("\n## ")[0]
    rows = [line.split("|")[1:3] for line in section.splitlines() if line.startswith("| `")]
    there = {name: ours for names, ours in rows for name in re.findall(r"`(\w+)`", names)}
    assert [] == [name for name in NAMES if name not in there]
    for name in NAMES:
        assert (name in agg.__all__) == there[name].strip().startswith("the same"), name


@pytest.mark.spark
def test_the_table_has_each_aggregate_of_sql(spark: SparkSession) -> None:
    """Also those that Spark has in SQL only: its own registry is asked."""
    registry = spark._jvm.org.apache.spark.sql.catalyst.analysis.FunctionRegistry.builtin()
    every = registry.listFunction().iterator()
    names = set()
    while every.hasNext():
        name = every.next()
        if registry.lookupFunction(name).get().getGroup() == "agg_funcs":
            names.add(name.funcName())
    assert 80 < len(names)
    page = PAGE.read_text("utf-8")
    assert {"any"} >= {name for name in names if name not in agg.__all__ and name not in INSTEAD}
    assert set() == {name for name in names if f"`{name}`" not in page}


@pytest.mark.slow
@pytest.mark.spark
def test_aggregates_of_sql_mean_what_they_mean_there(frame: DataFrame) -> None:
    """Those that PySpark has no function for."""
    made = {
        "cont": (agg.percentile_cont("i", 0.3), "percentile_cont(0.3) WITHIN GROUP (ORDER BY i)"),
        "disc": (agg.percentile_disc("i", 0.3), "percentile_disc(0.3) WITHIN GROUP (ORDER BY i)"),
        "median": (agg.percentile_disc("x", 0.5), "percentile_disc(0.5) WITHIN GROUP (ORDER BY x)"),
        "top": (agg.approx_top_k("s", 4), "approx_top_k(s, 4) FILTER (WHERE s IS NOT NULL)"),
        "items": (agg.approx_top_k("i", 20, 100), "approx_top_k(i, 20, 100) FILTER (WHERE i IS NOT NULL)"),
    }
    windows = (
        TumblingWindows("5 seconds").group_by("k").aggregate(**{name: one for name, (one, _) in made.items()})
    )
    found = windows.apply(frame, event_time="at")
    groups = frame.groupBy("k", F.window("at", "5 seconds"))
    wanted = groups.agg(*(F.expr(text).alias(name) for name, (_, text) in made.items()))
    assert wanted.schema["top"].dataType.simpleString() == found.schema["top"].dataType.simpleString()
    right, ours = ({(row.k, row.window.start): row for row in one.collect()} for one in (wanted, found))
    assert 24 == len(right)
    for key, row in right.items():
        assert {name: comparable(row[name], name, near) for name in made} == {
            name: comparable(ours[key][name], name) for name in made
        }


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.parametrize("part", range(2))
def test_aggregates_of_pyspark_mean_what_they_mean_there(frame: DataFrame, part: int) -> None:
    """Called as in PySpark: each gives the values and the type of Spark's."""
    calls = {f"{name} {n}": (name, args) for name in HERE for n, args in enumerate(arguments(name))}
    some = dict(list(calls.items())[part::2])
    made = {label: getattr(agg, name)(*args) for label, (name, args) in some.items()}
    windows = TumblingWindows("5 seconds").group_by("k").aggregate(**made).apply(frame, event_time="at")
    groups = frame.groupBy("k", F.window("at", "5 seconds"))
    called = groups.agg(*(getattr(F, name)(*args).alias(label) for label, (name, args) in some.items()))
    wanted = groups.agg(*(judge(name, args).alias(label) for label, (name, args) in some.items()))

    assert [(field.name, field.dataType.simpleString()) for field in called.schema] == [
        (field.name, field.dataType.simpleString()) for field in windows.schema
    ]
    right, found = ({(row.k, row.window.start): row for row in one.collect()} for one in (wanted, windows))
    assert 24 == len(right)
    assert right.keys() == found.keys()
    for key, row in right.items():
        both = {
            label: (comparable(row[label], label, near), comparable(found[key][label], label))
            for label in made
        }
        assert {} == {label: values for label, values in both.items() if values[0] != values[1]}, key


def near(value: float) -> Any:
    """A number up to rounding."""
    return pytest.approx(value, rel=1e-9, abs=1e-9)


def comparable(value: Any, label: str, form: Callable[[float], Any] = float) -> Any:
    """A value with NaN made comparable, and lists without their order but for percentiles."""
    if isinstance(value, list):
        values = value if label.startswith("percentile") else sorted(value, key=str)
        return [comparable(one, label, form) for one in values]
    if isinstance(value, float):
        return "NaN" if value != value else form(value)
    return value


WORDS = {
    "groupBy": r"\.group_by\('k'\)",
    "agg": r"\.aggregate\(n=agg\.count\(\)",
    "count": r"\.aggregate\(",
    "rangeBetween": "RollingWindows",
    "withWatermark": "grace=",
    "transformWithState": "KeyedOperator",
    "writeStream": r"\.apply\(",
}


@pytest.mark.parametrize("name", WORDS)
def test_methods_of_pyspark_lead_to_ours(name: str) -> None:
    """On windows of all kinds, and on operators with and without aggregates."""
    kinds = [
        SlidingWindows("1 hour"),
        TumblingWindows("1 hour"),
        SessionWindows("1 hour"),
        RollingWindows("1 hour"),
    ]
    grouped = [windows.group_by("k") for windows in kinds]
    whole = [one.aggregate(n=agg.count()) for one in grouped]
    joint = kinds[0].group_by("k").cogroup(a={"n": agg.count()}, b={"m": agg.count()})
    for one in (*kinds, *grouped, *whole, joint):
        with pytest.raises(AttributeError, match=f"has no attribute '{name}': use .*{WORDS[name]}"):
            getattr(one, name)


def test_an_aggregate_has_no_alias() -> None:
    """It is named where it is added; other attributes are Python's."""
    with pytest.raises(
        AttributeError, match=r"no attribute 'alias': the name of a result is the keyword, as in \.aggr"
    ):
        agg.count().alias("n")
    with pytest.raises(AttributeError, match="no attribute 'cast': cast the column"):
        agg.sum("v").cast("int")
    with pytest.raises(AttributeError, match=r"'Count' object has no attribute 'nothing'$"):
        _ = agg.count().nothing
