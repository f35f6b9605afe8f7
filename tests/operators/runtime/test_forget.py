"""Keys that are forgotten: nothing of them is left, other keys do not notice, and later records are the first ones."""

from dataclasses import dataclass
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from operators import (
    Declaration,
    DefinitionError,
    HoppingWindows,
    KeyContext,
    KeyedOperator,
    RollingWindows,
    SessionWindows,
    SlidingWindows,
    TumblingWindows,
)
from operators import aggregates as agg
from operators.runtime.local import LocalRunner
from operators.testing import expected_rows
from state_backends import StateError
from tests.key_bytes import holding
from tests.operators.custom import samples

pytestmark = pytest.mark.usefixtures("pages_of_few_entries")
WINDOWS: dict[str, Any] = {
    "tumbling": TumblingWindows("10 ms", grace="6 ms"),
    "hopping": HoppingWindows("12 ms", "4 ms", grace="6 ms"),
    "sliding": SlidingWindows("9 ms", grace="6 ms"),
    "session": SessionWindows("5 ms", grace="6 ms"),
    "session of a length": SessionWindows("5 ms", max_length="20 ms", grace="6 ms"),
    "rolling": RollingWindows({"short": "4 ms", "long": "13 ms"}, grace="6 ms"),
    "lifetime": RollingWindows({"short": "4 ms", "ever": "lifetime"}, grace="6 ms"),
    "lifetime with an end": RollingWindows(
        {"short": "4 ms", "ever": "lifetime"}, grace="6 ms", forget_after="30 ms"
    ),
}
CASES = [
    (kind, emit)
    for kind in WINDOWS
    for emit in ("on_close", "on_arrival" if isinstance(WINDOWS[kind], RollingWindows) else "on_update")
]
FOLDED = [(kind, emit) for kind, emit in CASES if kind in ("tumbling", "hopping", "sliding")]
GONE = ("SECRET-PERSON-1", "SECRET-PERSON-2")
KEYS = (*GONE, "a", "b", None)
EPOCH, MS = datetime(1970, 1, 1), timedelta(milliseconds=1)
BATCHES, REQUEST = 9, 5
"""How many batches there are, and which one the request comes with."""


def batches(seed: int) -> list[tuple[pa.Table, int]]:
    """Batches of random records, with the stream time after each, so that it does not depend on keys."""
    rng = np.random.default_rng(seed)
    found = []
    for number in range(BATCHES):
        rows = 40
        time = np.maximum(number * 6 + rng.integers(-9, 8, rows), 0)
        # One of the forgotten keys has records in the batch of the request, the other does not.
        keys = [KEYS[n] for n in rng.integers(number == REQUEST, len(KEYS), rows)]
        table = pa.table(
            {
                "k": pa.array(keys, pa.string()),
                "t": pa.array(time, pa.int64()),
                "v": pa.array(rng.integers(0, 50, rows), pa.int64()),
            }
        )
        found.append((table, number * 6 + 7))
    return found


def without_earlier(steps: list[tuple[pa.Table, int]]) -> list[tuple[pa.Table, int]]:
    """The same batches as if the forgotten keys had begun with the request."""
    kept = [key not in GONE for key in KEYS]
    return [
        (
            table
            if number >= REQUEST
            else table.filter(pa.array([kept[KEYS.index(k)] for k in table["k"].to_pylist()])),
            at,
        )
        for number, (table, at) in enumerate(steps)
    ]


def plain(rows: list[dict[str, Any]]) -> list[str]:
    """Rows without the number of their batch, in one order."""
    return sorted(repr({name: value for name, value in row.items() if name != "sequence"}) for row in rows)


AGGREGATES = {"n": agg.count(), "sum": agg.sum("v"), "top": agg.max("v"), "seen": agg.collect_set("v")}
EXPECTED: dict[str, Any] = {
    "n": len,
    "sum": lambda rows: sum(row["v"] for row in rows) if rows else None,
    "top": lambda rows: max((row["v"] for row in rows), default=None),
    "seen": lambda rows: sorted({row["v"] for row in rows}),
}
FOLD = {"n": agg.fold(0, lambda n: n + 1, type="bigint")}


def runner_of(kind: str, emit: str, aggregates: dict[str, Any], **given: Any) -> LocalRunner:
    """A runner of an operator."""
    return WINDOWS[kind].group_by("k").aggregate(**aggregates).emit(emit).local_runner("t", **given)


def in_ticks(table: pa.Table) -> list[dict[str, Any]]:
    """The rows that came out, as `expected_rows` has them."""
    rows = table.to_pylist()
    for row in rows:
        if "window" in row:
            row["window"] = {bound: (moment - EPOCH) // MS for bound, moment in row["window"].items()}
    return rows


@pytest.mark.parametrize(
    ("kind", "emit", "folds", "backend"),
    [
        *((*case, False, "memory") for case in CASES),
        *((*case, True, "memory") for case in FOLDED),
        ("sliding", "on_update", False, "rocksdb"),
        ("lifetime", "on_close", False, "spark"),
    ],
)
def test_other_keys_do_not_notice_and_the_keys_begin_anew(
    kind: str, emit: str, folds: bool, backend: str
) -> None:
    """From the request on, rows are those of a run in which earlier records of the keys never were; and retractions."""
    aggregates, expected = (FOLD, {"n": len}) if folds else (AGGREGATES, EXPECTED)
    steps = batches(seed=len(kind))
    wanted = expected_rows(WINDOWS[kind], without_earlier(steps), "t", expected, ["k"], emit)
    before = expected_rows(WINDOWS[kind], steps, "t", expected, ["k"], emit)
    with runner_of(kind, emit, aggregates, backend=backend) as runner:
        for number, (table, at) in enumerate(steps):
            gone = [{"k": key} for key in GONE] if number == REQUEST else None
            if gone:
                runner.abort(table, at, forget=gone)
                runner.restart()
            rows = in_ticks(runner.process(table, at, forget=gone))
            if number == REQUEST:
                retracted = [row for row in rows if row.get("change") == "retract" and row["k"] in GONE]
                rows = [row for row in rows if row not in retracted]
                check_retracted(retracted, rows, before[:REQUEST], kind, emit)
                assert (
                    sum(row.get("change") == "retract" for row in wanted[number]) + len(retracted)
                    == runner.metrics["windows_retracted"]
                )
            assert plain((before if number < REQUEST else wanted)[number]) == plain(rows), number


def check_retracted(
    retracted: list[dict[str, Any]],
    others: list[dict[str, Any]],
    before: list[list[dict[str, Any]]],
    kind: str,
    emit: str,
) -> None:
    """On update, every window that had come out, is still open and does not come out anew is retracted, and no other."""
    if emit != "on_update":
        assert [] == retracted
        return
    table: dict[Any, bool] = {}
    for rows in before:
        for change in ("retract", "update"):
            for row in rows:
                if row["change"] == change and row["k"] in GONE:
                    table[place(row)] = change == "update"
    close_time = (REQUEST - 1) * 6 + 7 - 6
    inclusive = kind not in ("tumbling", "hopping")
    open_ = {window for window, there in table.items() if there and window[2] + inclusive > close_time}
    again = {place(row) for row in others}
    assert open_ & again or kind.startswith("session"), "some come out anew"
    assert open_ - again, "and some do not"
    assert sorted(open_ - again) == sorted(map(place, retracted))


def place(row: dict[str, Any]) -> tuple[Any, int, int]:
    """Key and bounds of a row."""
    return row["k"], row["window"]["start"], row["window"]["end"]


@pytest.mark.slow
@pytest.mark.parametrize("snapshots", ["journal", "folder"])
@pytest.mark.parametrize("backend", ["memory", "rocksdb", "spark"])
@pytest.mark.parametrize("kind", ["sliding", "lifetime"])
def test_no_file_has_the_bytes_of_the_key(kind: str, backend: str, snapshots: str, tmp_path: Path) -> None:
    """Neither log, snapshots, journal nor local copy; in a folder of snapshots, once the replaced ones are gone."""
    folder = {
        "state.snapshots.folder": tmp_path / "snapshots",
        "state.snapshots.batches": 2,
        "state.snapshots.retain": 2,
        "state.snapshots.background": "false",
    }
    options = {"state.rocksdb.compression": "none"} | (folder if snapshots == "folder" else {})
    with runner_of(
        kind, "on_close", AGGREGATES, backend=backend, directory=tmp_path, options=options
    ) as runner:
        for table, at in batches(seed=3)[:REQUEST]:
            runner.process(table, at)
        runner.restart()
        assert holding(tmp_path, GONE[0]), "the test finds keys"
        runner.forget([{"k": GONE[0]}])
        if snapshots == "journal" or backend == "spark":
            assert [] == holding(tmp_path, GONE[0])
        for number in range(4):
            records = pa.table({"k": ["a"], "t": [REQUEST * 6 + 8 + number], "v": [1]})
            runner.process(records, REQUEST * 6 + 8 + number)
        assert [] == holding(tmp_path, GONE[0])
        assert holding(tmp_path, GONE[1]), "another key stays"
    assert [] == holding(tmp_path, GONE[0]), "closed"
    with runner_of(
        kind, "on_close", AGGREGATES, backend=backend, directory=tmp_path, options=options
    ) as runner:
        runner.process(records, REQUEST * 6 + 8)
        assert holding(tmp_path, GONE[1])


UTC = timezone.utc
VALUES: dict[str, tuple[pa.DataType, Any, Any]] = {
    "text": (pa.string(), "x", "y"),
    "null": (pa.string(), None, "y"),
    "number": (pa.int64(), 7, 8),
    "small number": (pa.int16(), 7, 8),
    "not a number": (pa.float64(), float("nan"), 1.0),
    "minus zero": (pa.float64(), -0.0, 1.0),
    "decimal": (pa.decimal128(20, 2), Decimal("1.50"), Decimal("2.00")),
    "date": (pa.date32(), date(2026, 1, 1), date(2026, 1, 2)),
    "moment": (pa.timestamp("us", "UTC"), datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 1, 2, tzinfo=UTC)),
    "bytes": (pa.binary(), b"\0x", b"y"),
    "flag": (pa.bool_(), True, False),
}


@pytest.mark.parametrize("as_table", [False, True], ids=["rows", "table"])
@pytest.mark.parametrize("value", VALUES)
def test_keys_of_every_type(value: str, as_table: bool) -> None:
    """The key of two columns goes, and the others with one of its values stay."""
    type_, gone, other = VALUES[value]
    given = [(gone, 1), (gone, 2), (other, 1)]
    records = pa.table(
        {
            "k": pa.array([k for k, _ in given], type_),
            "j": pa.array([j for _, j in given], pa.int32()),
            "t": pa.array([1, 2, 3], pa.int64()),
        }
    )
    key = [{"j": 1, "k": gone}]
    op = SlidingWindows("9 ms").group_by("k", "j").aggregate(n=agg.count())
    with op.local_runner("t") as runner:
        runner.process(records, 0)
        runner.forget(pa.table({"k": pa.array([gone], type_), "j": [1]}) if as_table else key)
        assert 2 == runner.metrics["live_keys"]
        left = runner.process(records.slice(0, 0), 100).to_pylist()
        expected = sorted(f"{k} {j} 1".replace("-0.0", "0.0") for k, j in given[1:])
        assert expected == sorted(f"{row['k']} {row['j']} {row['n']}" for row in left)


WRONG: list[tuple[Any, str]] = [
    ([], "no rows"),
    ([{"k": "x"}], "lack the key column 'j'"),
    ([{"k": "x", "j": 1}, {"k": "y"}], "a key lacks the column 'j'.*for null, give None"),
    ([{"k": "x", "j": 1, "v": 3}], "'v', which is not a key column"),
    ([{"k": 1, "j": 1}], "'k' is of type int64, but the operator's is string"),
    ([{"k": "x", "j": "1"}], "'j' is of type string, but the operator's is int32"),
    ([{"k": "x", "j": 2**40}], "'j'"),
    ([{"k": "x", "j": [1]}], "'j' is of type list"),
    ([("x", 1)], "a list of dictionaries"),
    ({"k": ["x"], "j": [1]}, "a list of dictionaries"),
    ("x", "a list of dictionaries"),
    (pa.table({"k": ["x"]}), "lack the key column 'j'"),
    (
        pa.table({"k": ["x"], "j": pa.array([2**40])}),
        "'j' has a value that is none of the operator's type int32",
    ),
]


@pytest.mark.parametrize(("keys", "message"), WRONG)
def test_keys_that_are_none_of_the_operator_are_refused(keys: Any, message: str) -> None:
    """The error says what is wrong with them, and nothing is forgotten."""
    records = pa.table({"k": ["x"], "j": pa.array([1], pa.int32()), "t": [1]})
    with SlidingWindows("9 ms").group_by("k", "j").aggregate(n=agg.count()).local_runner("t") as runner:
        with pytest.raises(StateError, match="process a batch first"):
            runner.forget(keys)
        runner.process(records)
        with pytest.raises(DefinitionError, match=message):
            runner.forget(keys)
        assert 1 == runner.process(records.slice(0, 0), 100).num_rows


def test_without_key_columns_there_is_no_key() -> None:
    """All records are of one key."""
    with SlidingWindows("9 ms").aggregate(n=agg.count()).local_runner("t") as runner:
        runner.process(pa.table({"t": [1]}))
        with pytest.raises(DefinitionError, match=r"no key columns.*new checkpoint"):
            runner.forget([{"k": 1}])


def test_custom_operators_forget_entries_and_timers() -> None:
    """An operator over columns: what was to come out does not, and timers of pages that are gone do no harm."""
    with samples.Echo().group_by("k").local_runner("t") as runner:
        runner.process(samples.table([("x", 1, 3.0), ("y", 2, 3.0)]))
        runner.forget([{"k": "x"}])
        rows = runner.process(samples.table([("x", 30, 1.0)]), 100)
    assert [("x", 30, 0), ("y", 2, 2), ("y", 12, 1), ("y", 22, 0)] == sorted(samples.plain(rows, "left"))


@dataclass(frozen=True, kw_only=True)
class Total(KeyedOperator):
    """The sum of a key's values, and a timer that tells it."""

    def schema(self, types: Any) -> Declaration:
        return Declaration(["v"], results={"at": "timestamp", "total": "double"})

    def process(self, time: int, record: dict[str, Any], context: KeyContext) -> list[dict[str, Any]]:
        context.value = (context.value or 0.0) + record["v"]
        context.set_timer(time + 50, "tell")
        return [{"at": time, "total": context.value}]

    def on_timer(self, time: int, name: str, context: KeyContext) -> list[dict[str, Any]]:
        return [{"at": time, "total": -context.value}]


def test_custom_operators_in_plain_python_forget_values_and_timers() -> None:
    """A key's value begins anew, its timer does not fire, and a record of it that waited is gone."""
    with Total().group_by("k").local_runner("t") as runner:
        runner.process(samples.table([("x", 1, 1.0), ("y", 2, 10.0)]), 5)
        runner.process(samples.table([("x", 8, 2.0), ("y", 9, 20.0)]), 5)
        runner.forget([{"k": "x"}])
        rows = runner.process(samples.table([("x", 10, 4.0)]), 1_000)
    expected = [("x", 10, 4.0), ("x", 60, -4.0), ("y", 9, 30.0), ("y", 59, -30.0)]
    assert expected == sorted(samples.plain(rows))


def test_frames_in_one_window_forget_a_key() -> None:
    """What each frame had of it goes; if windows come out on update, its open window is retracted."""
    op = TumblingWindows("10 ms").group_by("k").cogroup(left={"n": agg.count()}, right={"m": agg.count()})
    table = pa.table({"k": ["x", "y"], "t": [1, 2]})
    with op.emit("on_update").local_runner("t") as frames:
        with pytest.raises(StateError, match="process a batch first"):
            frames.forget([{"k": "x"}])
        frames.process({"left": table, "right": table})
        gone = frames.forget([{"k": "x"}]).to_pylist()
        assert [("x", "retract")] == [(row["k"], row["change"]) for row in gone]
        with pytest.raises(DefinitionError, match="key column 'k'"):
            frames.forget([{"k": 7}])
        rows = frames.process({"left": table, "right": table.slice(0, 0)}).to_pylist()
    assert [("x", 1, 0), ("y", 2, 1)] == sorted((row["k"], row["n"], row["m"]) for row in rows)


def test_labels_and_records_forget_a_key() -> None:
    """Labels of it that wait never come out, and its earlier records count for no label; those of other keys do."""
    op = RollingWindows({"10": "10 ms"}).group_by("k").aggregate(n=agg.count()).emit("on_close")
    with op.local_runner_as_of("t", "t") as join:
        with pytest.raises(StateError, match="process a batch first"):
            join.forget([{"k": "x"}])
        both = pa.table({"k": ["x", "y"], "t": [3, 3]})
        join.process(both, both)
        assert 0 == join.forget([{"k": "x"}]).num_rows
        later = pa.table({"k": ["x", "y"], "t": [5, 5]})
        rows = join.process(later, later.slice(0, 0), 100).to_pylist()
    assert [("x", 5, 0), ("y", 3, 1), ("y", 5, 1)] == sorted(
        (row["k"], row["t"], row["n_10"]) for row in rows
    )


def test_a_batch_that_fails_forgets_nothing() -> None:
    """Its keys are there in the next batch, as if it had not been."""

    def add(total: int, value: int) -> int:
        if value < 0:
            raise ValueError("negative")
        return total + value

    fold = agg.fold(0, add, "v", type="bigint")
    with (
        TumblingWindows("1 hour")
        .group_by("k")
        .aggregate(n=fold)
        .emit("on_update")
        .local_runner("t") as runner
    ):
        runner.process(pa.table({"k": ["x", "y"], "t": [1, 2], "v": [3, 4]}))
        with pytest.raises(Exception, match="negative"):
            runner.process(pa.table({"k": ["y"], "t": [3], "v": [-1]}), forget=[{"k": "x"}])
        rows = runner.process(pa.table({"k": ["x"], "t": [4], "v": [5]})).to_pylist()
    assert [("x", 8, "update")] == [(row["k"], row["n"], row["change"]) for row in rows]
