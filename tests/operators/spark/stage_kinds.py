"""Operators of every kind over columns of every type, for tests of what their tasks send."""

from collections.abc import Callable
from typing import Any

import pyarrow as pa

from operators import (
    AggregateOperation,
    HoppingWindows,
    RollingWindows,
    SessionWindows,
    SlidingWindows,
    TumblingWindows,
)
from operators import aggregates as agg
from operators.aggregates.sides import EVENT_TIME
from operators.columns.arrow import bounds_type
from operators.definitions.labels import as_of as features_as_of
from operators.runtime.binding import Binding
from operators.steps.late_reports import LateSide
from state_backends import resolve
from tests.faults.runs import Runs

FIELDS = {
    "k": pa.string(),
    "other": pa.int64(),
    "at": pa.timestamp("us", "UTC"),
    "v": pa.int64(),
    "x": pa.float64(),
    "text": pa.string(),
    "flag": pa.bool_(),
    "small": pa.int16(),
    "narrow": pa.float32(),
    "day": pa.date32(),
    "exact": pa.decimal128(20, 4),
    "raw": pa.binary(),
    "tags": pa.list_(pa.string()),
    "deep": pa.list_(pa.struct([("a", pa.int32()), ("b", pa.list_(pa.float64()))])),
    "info": pa.struct([("a", pa.int64()), ("b", pa.string())]),
    "counts": pa.map_(pa.string(), pa.int64()),
}
SCHEMA = pa.schema(FIELDS.items())
RESULTS = {
    "n": agg.count(),
    "total": agg.sum("x"),
    "mean": agg.avg("x"),
    "low": agg.min("v"),
    "spread": agg.variance("x"),
    "first": agg.first("text"),
    "last": agg.last("x"),
    "most": agg.max_by("text", "v"),
    "listed": agg.collect_list("x"),
    "set": agg.collect_set("text"),
    "distinct": agg.count_distinct("v"),
    "about": agg.approx_count_distinct("v"),
    "top": agg.top_n("v", 3),
    "middle": agg.median("x"),
}


def _append(state: str, text: str | None) -> str:
    return f"{state}{text}"[-40:]


def added() -> Any:
    """An aggregate of a user: a sum whose last bits depend on the order of what is added."""
    operation = AggregateOperation(
        "added",
        state=(float,),
        create=lambda: (0.0,),
        accumulate=lambda state, x: (state[0] + x,),
        combine=lambda left, right: (left[0] + right[0],),
        finish=lambda state: state[0],
        type="double",
    )
    return operation("x")


def named(*names: str) -> dict[str, Any]:
    """Some of the results."""
    return {name: RESULTS[name] for name in names}


def joined() -> Any:
    """Two frames in one window."""
    sides = {
        "left": named("n", "total", "first"),
        "right": {"m": agg.count(), "lists": agg.collect_list("v")},
    }
    return TumblingWindows("1 second").group_by("k").cogroup(**sides).joint


def as_of() -> Any:
    """Aggregates beside labels."""
    features = RollingWindows("1 second").group_by("k").aggregate(**named("n", "total", "last"))
    return features_as_of(features, ["k", "asked", "v", "info"], "asked")[0]


def simple(windows: Any, *results: str) -> Any:
    """Windows by key."""
    return windows.group_by("k", "other").aggregate(**named(*(results or RESULTS)))


KINDS: dict[str, Callable[[], Any]] = {
    "sliding": lambda: simple(SlidingWindows("500 ms")),
    "sliding on update": lambda: simple(SlidingWindows("500 ms", grace="1 second")).emit("on_update"),
    "hopping": lambda: simple(HoppingWindows("1 second", "500 ms")),
    "hopping, sums": lambda: simple(HoppingWindows("1 second", "500 ms"), "n", "total", "spread"),
    "tumbling, rows as they are": lambda: simple(TumblingWindows("2 ms")),
    "session": lambda: simple(SessionWindows("20 ms")),
    "session on update": lambda: simple(SessionWindows("20 ms", grace="1 second")).emit("on_update"),
    "session of gaps": lambda: simple(SessionWindows(gap_column="small")),
    "session up to a length": lambda: simple(SessionWindows("20 ms", max_length="100 ms")),
    "rolling": lambda: simple(RollingWindows({"short": "50 ms", "long": "1 second"})),
    "rolling on arrival": lambda: simple(RollingWindows("1 second")).emit("on_arrival"),
    "as of": as_of,
    "fold": lambda: (
        SlidingWindows("50 ms").group_by("k").aggregate(t=agg.fold(str, _append, "text", type="string"))
    ),
    "user operation": lambda: TumblingWindows("1 second").group_by("k").aggregate(t=added()),
    "user operator": lambda: Runs(gap="30 ms").group_by("k"),
    "cogroup": joined,
    "hopping, samples": lambda: (
        HoppingWindows("1 second", "500 ms").group_by("k").aggregate(q=agg.approx_quantiles("x", [0.5], k=8))
    ),
    "late as data": lambda: simple(TumblingWindows("1 second")),
}


def bind(kind: str) -> Binding:
    """The operator of a kind, bound to the columns of these tests."""
    made = KINDS[kind]()
    config = resolve("memory", {})
    if kind in ("cogroup", "as of"):
        sides = ("left", "right") if kind == "cogroup" else ("labels", "records")
        fields = [
            ("k", FIELDS["k"]),
            (EVENT_TIME, FIELDS["at"]),
            *((f"{side}.*", pa.bool_()) for side in sides),
        ]
        fields += [(f"{side}.{name}", type_) for side in sides for name, type_ in FIELDS.items()]
        fields.append(("labels.asked", FIELDS["at"]))
        bound: Binding = made.bind(pa.schema(fields), EVENT_TIME, config)
        return bound
    bound = made.bind(SCHEMA, "at", config)
    return (
        bound.reporting(LateSide(SCHEMA, bounds_type(FIELDS["at"], 1_000), 1_000))
        if kind == "late as data"
        else bound
    )


THREE = ("sliding on update", "hopping", "session", "rolling", "user operator")
"""Kinds of which chains of three are tried, too."""


def following(first: Binding, result: str = "rows") -> Binding:
    """Rolling windows over the rows of an operator, with all of their columns and a result of this name."""
    schema = first.rows
    time = next((name for name in ("at", EVENT_TIME, "asked") if name in schema.names), "end")
    if time == "end":
        schema = pa.schema(
            [
                *(field for field in schema if field.name not in ("window", "ended")),
                pa.field("end", FIELDS["at"]),
            ]
        )
    operator = RollingWindows("1 second").group_by("k").aggregate(**{result: agg.count()})
    return operator.bind(schema, time, resolve("memory", {}))
