"""The table "Change the operator" of docs/operations.md, cell by cell: what a change needs, for each kind of windows."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from feeds import BACKENDS

from operators import (
    AggregateOperation,
    Declaration,
    HoppingWindows,
    KeyedOperator,
    RollingWindows,
    SessionWindows,
    SlidingWindows,
    TumblingWindows,
)
from operators import aggregates as agg
from operators.errors import DefinitionError
from state_backends import StateError

PAGE = Path(__file__).parents[3] / "docs" / "operations.md"
HEADING, LEGEND = "## Change the operator", "| change |"
NONE = "\N{EN DASH}"
INSTANT, LOCAL = pa.timestamp("ms", "UTC"), pa.timestamp("ms")
COLUMNS: Mapping[str, pa.DataType] = {
    "k": pa.string(),
    "other_key": pa.string(),
    "at": LOCAL,
    "v": pa.int32(),
    "w": pa.int32(),
    "x": pa.int32(),
}
BOTH = {"ms": 20, "ever": "lifetime"}
KINDS: Mapping[str, Any] = {
    "sliding": SlidingWindows,
    "tumbling, hopping": HoppingWindows,
    "sessions": SessionWindows,
    "rolling": RollingWindows,
    "custom": None,
}
LENGTHS: Mapping[str, dict[str, Any]] = {
    "sliding": {"size": "20 ms"},
    "tumbling, hopping": {"size": "20 ms", "advance": "10 ms"},
    "sessions": {"gap": "20 ms"},
    "rolling": {"lookbacks": BOTH},
}


def total(factor: int, number: int = 1) -> type[KeyedOperator]:
    """A custom operator with this code and version."""

    class Total(KeyedOperator):
        """The sum of the values so far."""

        version = number

        def schema(self, types: Any) -> Declaration:
            return Declaration(["v"], results={"total": "bigint"})

        def process(self, time: int, record: Any, context: Any) -> Iterator[dict[str, Any]]:
            context.value = (context.value or 0) + factor * record["v"]
            yield {"total": context.value}

    return Total


def operation(factor: int, version: int = 1) -> Any:
    """A user's aggregate with this code and version."""
    return AggregateOperation(
        name="weighed",
        state=(int,),
        create=lambda: (0,),
        accumulate=lambda state, v: (state[0] + factor * v,),
        combine=lambda a, b: (a[0] + b[0],),
        finish=lambda state: state[0],
        type="bigint",
        version=version,
    )("v")


def folded(factor: int, **given: Any) -> Any:
    """A fold with this code."""
    return agg.fold(0, lambda s, v: s + factor * v, "v", type="bigint", name="folded", **given)


@dataclass(frozen=True)
class Query:
    """An operator, and how it is started.

    Attributes:
        kind: of windows, a column of the table.
        windows: what they are given.
        results: the aggregates.
        keys: to group by.
        policy: if it is not the default.
        columns: of the input.
        options: of the state.
        backend: if it is not that of the test.
        custom: the class of a custom operator, if it is not the first one.
        another: the class of windows, if it is not that of the kind.
    """

    kind: str
    windows: Mapping[str, Any] = field(default_factory=dict)
    results: Mapping[str, Any] = field(default_factory=lambda: {"n": agg.count(), "sum": agg.sum("v")})
    keys: tuple[str, ...] = ("k",)
    policy: str | None = None
    columns: Mapping[str, pa.DataType] = field(default_factory=lambda: COLUMNS)
    options: Mapping[str, Any] = field(default_factory=dict)
    backend: str | None = None
    custom: type[KeyedOperator] | None = None
    another: Any = None

    def given(self, **windows: Any) -> "Query":
        """The same with other arguments of the windows."""
        return replace(self, windows={**self.windows, **windows})

    def typed(self, **columns: Any) -> "Query":
        """The same over other columns; one of type None is left out."""
        types = {**self.columns, **columns}
        return replace(self, columns={name: type_ for name, type_ in types.items() if type_ is not None})

    @property
    def operator(self) -> Any:
        """The operator."""
        settings: dict[str, Any] = {"grace": "100 ms", **self.windows}
        if self.kind == "custom" and self.another is None:
            return (self.custom or total(1))(**settings).group_by(*self.keys)
        if self.another is None:
            settings = LENGTHS[self.kind] | settings
        windows = (self.another or KINDS[self.kind])(**settings)
        grouped = windows.group_by(*self.keys).aggregate(**self.results)
        return grouped if self.policy is None else grouped.emit(self.policy)

    def run(self, backend: str, directory: Path, first: int, **options: Any) -> None:
        """Process a batch, and one that closes some of its windows."""
        columns = {
            "k": ["a", "b"],
            "other_key": ["a", "b"],
            "at": pa.array([first, first + 5], pa.int64()).cast(LOCAL).cast(self.columns["at"]),
            "v": [1, 2],
        }
        arrays = [
            pa.array(columns[name], type_)
            if name in columns and name != "at"
            else columns.get(name, pa.nulls(2, type_))
            for name, type_ in self.columns.items()
        ]
        table = pa.table(arrays, schema=pa.schema([*self.columns.items()]))
        chosen = {**self.options, **options}
        with self.operator.local_runner("at", self.backend or backend, directory, chosen) as runner:
            runner.process(table)
            if directory.name == "state":
                self.save(runner, directory)

    @staticmethod
    def save(runner: Any, directory: Path) -> None:
        """Keep a savepoint of the last state, once."""
        folder = directory.with_name("saved")
        if not folder.exists():
            runner.savepoint(folder)


def needs(before: Query, now: Query, backend: str, tmp_path: Path) -> str:
    """What it takes to go on with the state of one query as another one, in the words of the table."""
    state = tmp_path / "state"
    before.run(backend, state, 1_000)
    for word, options in (("restart", {}), ("adapt", {"state.evolution": "adapt"})):
        try:
            now.run(backend, state, 1_040, **options)
        except StateError:
            continue
        return word
    try:
        now.run(backend, tmp_path / "moved", 1_040, **{"state.savepoint": str(tmp_path / "saved")})
    except StateError:
        return "new"
    return "savepoint"


Change = tuple[Query, Query] | None
BUILT_IN = ("sliding", "tumbling, hopping", "sessions", "rolling")
EVERY: dict[str, Callable[[str], Change]] = {}
"""For the begin of each row of the table: the query before and after the change, or None if the kind has no such thing."""


def change(row: str, *kinds: str) -> Callable[[Callable[[Query], Any]], None]:
    """Have a function say what becomes of a query; or of two, what it is before and after."""

    def add(make: Callable[[Query], Any]) -> None:
        def of(kind: str) -> Change:
            if kind not in (kinds or KINDS):
                return None
            query = Query(kind)
            found = make(query)
            return found if isinstance(found, tuple) else (query, found)

        EVERY[row] = of

    return add


def with_results(query: Query, before: Any, now: Any) -> tuple[Query, Query]:
    """Two queries with these aggregates; the class of a custom operator if it has none."""
    return replace(query, results=before), replace(query, results=now)


DAYS, TO_DATE = {"size": "7 days", "advance": "1 day"}, {"lookbacks": {"day": "day to date"}}
COUNT, SUM = {"n": agg.count()}, {"sum": agg.sum("v")}
CODE = [{"f": folded(n, merge=lambda a, b: a + b), "o": operation(n)} for n in (1, 10)]
change("another name of a result", *BUILT_IN)(
    lambda q: replace(q, results={"s": agg.sum("v"), "m": agg.count()})
)
change("a result that follows", *BUILT_IN)(
    lambda q: with_results(q, SUM, {"mean": agg.avg("v"), "m": agg.count("v")})
)
change("an aggregate added", *BUILT_IN)(lambda q: with_results(q, COUNT, COUNT | {"low": agg.min("v")}))
change("an aggregate removed", *BUILT_IN)(lambda q: with_results(q, COUNT | SUM, COUNT))
change("the first fold without", "sliding", "tumbling, hopping", "rolling")(
    lambda q: with_results(
        q, COUNT, COUNT | {"f": folded(1).over("ms") if q.kind == "rolling" else folded(1)}
    )
)


change("the code of a fold")(
    lambda q: (
        replace(q, results=CODE[0]),
        replace(q, results=CODE[1], custom=total(10)),
    )
)
change("`version` of")(
    lambda q: (
        replace(q, results={"o": operation(1, 1)}),
        replace(q, results={"o": operation(1, 2)}, custom=total(1, 2)),
    )
)
change("a column that an aggregate")(lambda q: q.typed(v=pa.int64()))
change("it becomes another type")(lambda q: (q.typed(v=pa.int64()), q.typed(v=pa.int32())))
change("another column added")(lambda q: q.typed(new=pa.int64()))
change("another column removed")(lambda q: q.typed(x=None))
change("another column becomes wider")(lambda q: q.typed(x=pa.int64()))
change("another column becomes another type")(lambda q: q.typed(x=pa.string()))
change("`keep`: a column more", "rolling")(lambda q: (q.given(keep=["w"]), q.given(keep=["w", "x"])))
change("`keep`: a column less", "rolling")(lambda q: (q.given(keep=["w", "x"]), q.given(keep=["w"])))
change("`grace`")(lambda q: q.given(grace="200 ms"))
change("the size, advance", *BUILT_IN[:3])(
    lambda q: q.given(**{name: "30 ms" for name in LENGTHS[q.kind] if name != "advance"})
)
change("the longest lookback", "rolling")(lambda q: q.given(lookbacks={**BOTH, "ms": 30}))
change("other lookbacks", "rolling")(
    lambda q: (
        replace(q, results={"n": agg.count().over("ms", "ever")}),
        replace(q, results={"n": agg.count().over("few", "ever")}).given(lookbacks={"few": 5, **BOTH}),
    )
)
change("an aggregate over the lifetime", "rolling")(
    lambda q: with_results(q, {"n": agg.count().over("ms")}, {"n": agg.count()})
)
change("`closed`", "rolling")(lambda q: q.given(closed="left"))
change("`forget_after`", "rolling")(lambda q: q.given(forget_after="1 hour"))
change("`zone`", "tumbling, hopping", "rolling")(
    lambda q: (
        q.typed(at=INSTANT).given(zone="UTC", **(TO_DATE if q.kind == "rolling" else DAYS)),
        q.typed(at=INSTANT).given(zone="Asia/Tokyo", **(TO_DATE if q.kind == "rolling" else DAYS)),
    )
)
change("lookbacks to date", "rolling")(
    lambda q: (
        q.typed(at=INSTANT).given(zone="UTC", lookbacks={"month": "month to date", "day": "day to date"}),
        q.typed(at=INSTANT).given(zone="UTC", lookbacks={"month": "month to date", "week": "week to date"}),
    )
)
change("the kind of windows")(lambda q: replace(q, another=TumblingWindows, windows={"size": "50 ms"}))
change("the keys")(lambda q: replace(q, keys=("other_key",)))
change("the emission", *BUILT_IN)(
    lambda q: replace(q, policy="on_arrival" if q.kind == "rolling" else "on_update")
)
change("the tick")(lambda q: q.given(tick="1 us"))
change("event time from timestamp")(lambda q: q.typed(at=INSTANT))
change("`state.segment`")(lambda q: replace(q, options={"state.segment": "7 ms"}))
change("the backend")(
    lambda q: replace(
        q, backend="rocksdb", options={"state.snapshots.batches": 1, "state.snapshots.retain": 3}
    )
)
ON_SPARK = {"`state.forget.folder`"}
"""Rows that are about queries of Spark alone."""


def table() -> dict[str, dict[str, str]]:
    """The cells of the page's table by the begin of their row, and by kind."""
    section = PAGE.read_text("utf-8").partition(HEADING)[2].partition("\n## ")[0]
    lines = [
        [cell.strip() for cell in line.split("|")[1:-1]]
        for line in section.splitlines()
        if line.startswith("| ")
    ]
    kinds, rows = lines[0][1:], lines[1:]
    assert [*KINDS] == kinds
    named = {
        next((begin for begin in (*EVERY, *ON_SPARK) if row[0].startswith(begin)), row[0]): row
        for row in rows
    }
    return {name: dict(zip(kinds, row[1:], strict=True)) for name, row in named.items()}


TABLE = table()


def test_each_row_of_the_table_is_tried() -> None:
    """And no two rows are one."""
    assert {*EVERY, *ON_SPARK} == {*TABLE}


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("row", EVERY)
def test_a_change_needs_what_the_table_says(row: str, kind: str, backend: str, tmp_path: Path) -> None:
    """No more, and no less."""
    found = EVERY[row](kind)
    said = TABLE[row][kind]
    if found is None:
        assert said == NONE
    else:
        assert said == needs(*found, backend, tmp_path)


def test_sessions_have_no_folds_without_merge() -> None:
    """So that none can be added."""
    with pytest.raises(DefinitionError, match="sessions merge: give the fold a merge function"):
        Query("sessions", results={"f": folded(1)}).operator.bind(pa.schema([*COLUMNS.items()]), "at", None)
