"""Writes a part of versions.md: `python docs/support.py`. What it says of windows and aggregates is run to find out."""
# ruff: noqa: INP001 - a script next to the pages

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from operators import (
    AggregateOperation,
    DefinitionError,
    Explanation,
    HoppingWindows,
    RollingWindows,
    SessionWindows,
    SlidingWindows,
    TumblingWindows,
)
from operators import aggregates as agg
from state_backends.registry import BUILT_IN

HERE = Path(__file__).parent
PAGE = HERE / "versions.md"
BEGIN, UNTIL = "<!-- what docs/support.py found -->\n", "<!-- until here -->\n"
"""Stand around the part of the page."""

KINDS: dict[str, Any] = {
    "tumbling": TumblingWindows(40),
    "hopping": HoppingWindows(40, 10),
    "sliding": SlidingWindows(40),
    "session": SessionWindows(15),
    "session with `max_length`": SessionWindows(15, max_length=30),
    "rolling": RollingWindows(40),
    "rolling over a lifetime": RollingWindows("lifetime"),
}
TYPES: dict[str, pa.DataType] = {
    "boolean": pa.bool_(),
    "integer": pa.int64(),
    "float": pa.float64(),
    "decimal": pa.decimal128(12, 2),
    "string": pa.string(),
    "binary": pa.binary(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", "UTC"),
    "interval": pa.duration("us"),
    "array": pa.list_(pa.int64()),
    "struct": pa.struct([("x", pa.int64())]),
}
POLICIES = "on_close", "on_update", "on_arrival"
TIMES = (0, 5, 5, 10, 40, 41, 80, 200)
END = 10_000

_COLUMNS: dict[str, tuple[Any, ...]] = {
    **dict.fromkeys(("bool_and", "bool_or", "count_if"), ("ok",)),
    **dict.fromkeys(
        (
            "corr",
            "covar_pop",
            "covar_samp",
            "linear_trend",
            *("regr_avgx", "regr_avgy", "regr_count", "regr_intercept", "regr_r2", "regr_slope"),
            *("regr_sxx", "regr_sxy", "regr_syy"),
            "min_by",
            "max_by",
        ),
        ("v", "w"),
    ),
    **dict.fromkeys(("bottom_n", "first_n", "last_n", "top_n"), ("v", 3)),
    **dict.fromkeys(("decayed_avg", "decayed_sum"), ("v", 20)),
    "decayed_count": (20,),
    "collect_union": ("tags",),
    **dict.fromkeys(("listagg", "listagg_distinct", "string_agg", "string_agg_distinct"), ("text",)),
    "hll_union_agg": ("distinct",),
    **dict.fromkeys(("kll_merge_agg_bigint", "kll_merge_agg_double", "kll_merge_agg_float"), ("ranks",)),
    "approx_quantiles": ("v", [0.5]),
    **dict.fromkeys(("percentile", "percentile_cont", "percentile_disc"), ("v", 0.5)),
}
"""Arguments of the aggregates that take something else than one number."""


def _operation(*, deducts: bool) -> AggregateOperation:
    return AggregateOperation(
        name="total",
        state=(int,),
        create=lambda: (0,),
        accumulate=lambda state, v: (state[0] + v,),
        combine=lambda a, b: (a[0] + b[0],),
        deduct=(lambda a, b: (a[0] - b[0],)) if deducts else None,
        finish=lambda state: state[0],
        type="bigint",
    )


def aggregates() -> dict[str, Any]:
    """Return each aggregate that the library has, by name."""
    own = {name: getattr(agg, name) for name in agg.__all__ if name.islower() and name != "fold"}
    names = sorted(name for name, one in own.items() if name == one.__name__)  # without Spark's other names
    found = {name: getattr(agg, name)(*_COLUMNS.get(name, ("v",))) for name in names}
    found["fold"] = agg.fold(0, lambda total, v: total + v, "v", type="bigint")
    found["fold, with merge"] = agg.fold(
        0, lambda total, v: total + v, "v", type="bigint", merge=lambda a, b: a + b
    )
    found["sum, by a column"] = agg.sum("v").by("text")
    found["AggregateOperation"] = _operation(deducts=False)("v")
    found["AggregateOperation, with deduct"] = _operation(deducts=True)("v")
    return found


def table() -> pa.Table:
    """Return the records that everything is run on."""
    count = len(TIMES)
    return pa.table(
        {
            "k": ["a", "b"] * (count // 2),
            "at": pa.array(TIMES, pa.timestamp("ms")),
            "v": pa.array(range(count), pa.int64()),
            "w": [n / 2 for n in range(count)],
            "ok": [n % 2 == 0 for n in range(count)],
            "text": [f"t{n % 3}" for n in range(count)],
            "tags": [[n % 3, n % 5] for n in range(count)],
            "distinct": [sketch(agg.hll_sketch_agg("v"))] * count,
            "ranks": [sketch(agg.kll_sketch_agg_double("v"))] * count,
        }
    )


def sketch(aggregate: Any) -> bytes:
    """Return a sketch without values, which has the same bytes for each type."""
    with TumblingWindows(10).aggregate(sketch=aggregate).local_runner("at") as runner:
        records = pa.table({"at": [1], "v": pa.array([None], pa.int64())})
        return bytes(runner.process(records, 100).column("sketch")[0].as_py())


def rows(windows: Any, results: dict[str, Any], policy: str, backend: str = "memory") -> list[dict[str, Any]]:
    """Return what the windows make of the records, in two batches and to the end; of each batch, retractions first."""
    records = table()
    with windows.group_by("k").aggregate(**results).emit(policy).local_runner("at", backend) as runner:
        steps = (records[:5], None), (records[5:], None), (records[:0], END)
        batches = [runner.process(part, time).to_pylist() for part, time in steps]
    return [
        row
        for batch in batches
        for row in sorted(batch, key=lambda row: (row.get("change") != "retract", repr(row)))
    ]


class Notes:
    """Reasons by number, each listed once."""

    def __init__(self) -> None:
        self.reasons: list[str] = []

    def number(self, reason: str) -> str:
        """Return a cell that refers to a reason."""
        if reason not in self.reasons:
            self.reasons.append(reason)
        return f"no ({self.reasons.index(reason) + 1})"

    def listed(self) -> str:
        """Return the reasons as a list."""
        return "\n".join(f"{number}. {reason}" for number, reason in enumerate(self.reasons, 1))


def grid(corner: str, heads: Iterable[str], body: Iterable[Sequence[str]]) -> str:
    """Return a table in Markdown."""
    heads = list(heads)
    lines = [[corner, *heads], ["---"] * (len(heads) + 1), *body]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def alike(body: Iterable[Sequence[str]], others: str = "") -> list[list[str]]:
    """Return rows of a table with those of equal cells as one.

    Args:
        body: the rows, each with its head.
        others: head of the row that has most of them; by default their heads, too.
    """
    groups: dict[tuple[str, ...], list[str]] = {}
    for head, *cells in body:
        groups.setdefault(tuple(cells), []).append(head)
    most = max(groups.values(), key=len)
    found = [[", ".join(heads), *cells] for cells, heads in groups.items() if not others or heads is not most]
    return found + [[others, *cells] for cells, heads in groups.items() if others and heads is most]


def require(what: str, *, holds: bool) -> None:
    """Stop if what the page would say is not so."""
    if not holds:
        raise SystemExit(f"versions.md cannot be written: {what}")


def refusals() -> dict[tuple[str, str], str | None]:
    """Return for each window kind and aggregate why it is refused; None if the rows of all windows have values."""
    found: dict[tuple[str, str], str | None] = {}
    for kind, windows in KINDS.items():
        known = rows(windows, {"n": agg.count()}, "on_close")
        for name, aggregate in aggregates().items():
            try:
                made = rows(windows, {"n": agg.count(), "x": aggregate}, "on_close")
            except DefinitionError as error:
                found[kind, name] = str(error)
                continue
            values = [row.pop("x") for row in made]
            require(f"{name} over {kind} windows", holds=made == known and any(v is not None for v in values))
            found[kind, name] = None
    return found


def by_aggregate(found: dict[tuple[str, str], str | None], notes: Notes) -> str:
    """Return the table of aggregates and window kinds."""

    def cell(kind: str, name: str) -> str:
        reason = found[kind, name]
        return "yes" if reason is None else notes.number(reason)

    body = [[f"`{name}`", *(cell(kind, name) for kind in KINDS)] for name in aggregates()]
    return grid("aggregate", KINDS, alike(body, others="all others"))


def by_emission(refused: dict[tuple[str, str], str | None], notes: Notes) -> str:
    """Return the table of window kinds and emission; all supported aggregates are in each run, on all backends."""
    body = []
    for kind, windows in KINDS.items():
        given = aggregates().items()
        results = {f"r{n}": one for n, (name, one) in enumerate(given) if refused[kind, name] is None}
        cells = []
        final = sorted(rows(windows, results, "on_close"), key=repr)
        for policy in POLICIES:
            try:
                found = rows(windows, results, policy)
            except DefinitionError as error:
                cells.append(notes.number(str(error)))
                continue
            require(f"{kind} windows {policy}", holds=_last(found) == final)
            for backend in set(BUILT_IN) - {"memory"}:
                same = found == rows(windows, results, policy, backend)
                require(f"{kind} windows {policy} on {backend}", holds=same)
            cells.append("yes")
        body.append([kind, *cells])
    return grid("windows", [f'`emit("{policy}")`' for policy in POLICIES], alike(body))


def _last(found: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """The rows that are left in a table that takes updates and retractions in their order."""
    table: dict[str, dict[str, Any]] = {}
    for row in found:
        key = repr((row["k"], row.get("window") or repr(row)))
        table.pop(key, None)
        if row.get("change") != "retract":
            left = {name: row[name] for name in row if name not in ("change", "sequence")}
            table[key] = left
    return sorted(table.values(), key=repr)


def by_type() -> str:
    """Return the table of aggregates and the types of their first column, and of what else a column can be."""
    tumbling = KINDS["tumbling"]
    uses = {
        f"`{name}`": tumbling.group_by("k").aggregate(x=given) for name, given in _aggregates_of_v().items()
    }
    uses["a key"] = tumbling.group_by("v").aggregate(x=agg.count())
    uses["a gap of sessions"] = SessionWindows(gap_column="v").group_by("k").aggregate(x=agg.count())
    body = [
        [use, *(_fits(operator, "at", type_) for type_ in TYPES.values())] for use, operator in uses.items()
    ]
    times = tumbling.group_by("k").aggregate(x=agg.count())
    body.append(["an event time", *(_fits(times, "v", type_) for type_ in TYPES.values())])
    return grid("column is", ["takes"], [[what, _taken(cells)] for what, *cells in alike(body)])


def _taken(cells: Sequence[str]) -> str:
    """Return the types whose cells say yes, or those that do not if these are fewer."""
    taken, refused = (
        [name for name, said in zip(TYPES, cells, strict=True) if said == one] for one in ("yes", "no")
    )
    return ", ".join(taken) if len(taken) <= len(refused) else f"all but {', '.join(refused)}"


def _aggregates_of_v() -> dict[str, Any]:
    """Return the aggregates whose first column has one of several types."""
    return {
        name: getattr(agg, name)("v", *_COLUMNS.get(name, ("v",))[1:])
        for name in sorted(agg.__all__)
        if name.islower() and name not in ("fold", "count", "decayed_count")
    }


def _fits(operator: Any, time: str, type_: pa.DataType) -> str:
    """Return whether an operator takes a column "v" of this type."""
    fields = [("k", pa.string()), ("at", pa.timestamp("us")), ("w", pa.float64()), ("v", type_)]
    try:
        Explanation.of(operator, pa.schema(fields), time)
    except DefinitionError:
        return "no"
    return "yes"


def page() -> str:
    """Return the page."""
    before, _, rest = PAGE.read_text("utf-8").partition(BEGIN)
    return before + BEGIN + part() + UNTIL + rest.partition(UNTIL)[2]


def part() -> str:
    """Return the part of the page that is found out."""
    found, of_aggregates, of_emission = refusals(), Notes(), Notes()
    backends = ", ".join(f"`{backend}`" for backend in BUILT_IN)
    return f"""
### Windows and aggregates

{by_aggregate(found, of_aggregates)}

{of_aggregates.listed()}

A fold with `merge` and an `AggregateOperation` are among the others. `over` limits an aggregate to lookbacks
other than a lifetime.

### Windows and emission

Run with all aggregates that the windows support, on {backends}: the rows are the same on each backend, and
the last row of each window is the same with each emission.

{by_emission(found, of_emission)}

{of_emission.listed()}

### Columns

Of {", ".join(TYPES)}:

{by_type()}

On Spark, an event time is a `timestamp` or `timestamp_ntz`, and a gap can also be text or an expression. Whole numbers as event
times are ticks of the local runner. `count` takes all types, a fold or an `AggregateOperation` those that its functions can
handle. Other columns of [rolling windows](features.md) can also be arrays, maps and structs.

"""


if __name__ == "__main__":
    PAGE.write_text(page(), "utf-8")
