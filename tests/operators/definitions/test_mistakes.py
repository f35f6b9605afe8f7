"""The likeliest mistakes where no Spark is needed, as code, and the message that each gives."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from operators import (
    AggregateOperation,
    DefinitionError,
    HoppingWindows,
    Operator,
    RollingWindows,
    SessionWindows,
    SlidingWindows,
    WindowedAggregation,
)
from operators import aggregates as agg
from operators.aggregates import AggregateError
from operators.custom.contract import Declaration
from state_backends import StateError

HOURS = SlidingWindows("1 hour").group_by("origin")
COUNT = HOURS.aggregate(n=agg.count())
BOTH = HOURS.cogroup(left={"n": agg.count()}, right={"m": agg.count()})
DOUBLED = AggregateOperation(
    name="doubled",
    state=(int,),
    create=lambda: (0,),
    accumulate=lambda state, x: (state[0] + 2 * x,),
    combine=lambda a, b: (a[0] + b[0],),
    finish=lambda state: state[0],
    type="bigint",
)
TABLE = pa.table(
    {
        "origin": ["EWR", "EWR", None],
        "departed": [datetime(2026, 1, 5, 9), datetime(2026, 1, 5, 9, 30), datetime(2026, 1, 5, 9)],
        "delay": [4, 25, -2],
        "day": pa.array([1, 2, 3], pa.date32()),
        "text": ["2026-01-05 09:00"] * 3,
        "place": [{"city": "Newark"}] * 3,
        "tags": [["a"], [], None],
    }
)


def run(operator: Any, *tables: Any, at: str = "departed", **arguments: Any) -> pa.Table:
    """Give tables to an operator, and return the rows of the last one."""
    out = None
    with operator.local_runner(at, **arguments) as runner:
        for table in tables or [TABLE]:
            out = runner.process(table)
    return out


def fold(add: Callable[..., Any], init: Any = 0, column: str = "delay") -> WindowedAggregation:
    """An operator with one fold."""
    return HOURS.aggregate(total=agg.fold(init, add, column, type="bigint"))


def in_place(seen: list[int], delay: int) -> None:
    """Add to a list, and forget to return it."""
    seen.append(delay)


@dataclass(frozen=True)
class Echo(Operator):
    """A custom operator without rows."""

    result: str = "n"

    def declare(self, types: Any) -> Declaration:
        return Declaration(inputs=[], state={}, results={self.result: "bigint"})

    def process_batch(self, context: Any) -> None:
        return None


DEFINITIONS = {
    r"size is '60 min\.': write a number and a unit, such as '60 minutes'": lambda: SlidingWindows("60 min."),
    r"size is '1\.5 hours'.*'1 hour 30 min', in whole numbers": lambda: SlidingWindows("1.5 hours"),
    r"size is 60\.5: .* text .* a timedelta, or whole milliseconds": lambda: SlidingWindows(60.5),
    "grace is '-1 minute': it must not be negative": lambda: SlidingWindows("1 hour", grace="-1 minute"),
    "advance is '2 hours', more than size '1 hour'": lambda: HoppingWindows("1 hour", advance="2 hours"),
    "SessionWindows need either gap or gap_column": SessionWindows,
    "emit takes 'on_close' or 'on_update', not 'onclose'": lambda: COUNT.emit("onclose"),
    r"group_by takes column names, not \['a', 'b'\]: pass them one by one": lambda: HOURS.group_by(
        ["a", "b"]
    ),
    "result columns must have distinct names: 'window' is already used": lambda: HOURS.aggregate(
        window=agg.count()
    ),
    "result columns must have distinct names: 'change' is .*rename yours": lambda: HOURS.aggregate(
        change=agg.sum("x")
    ).emit("on_update"),
    "output column 'origin' occurs twice: give each": lambda: HOURS.aggregate(origin=agg.count()),
    "output column 'Origin' differs from 'origin' in case only; without spark.sql.caseSensitive .*: give": lambda: (
        HOURS.aggregate(Origin=agg.count())
    ),
    "output column 'N' differs from 'n' in case only": lambda: COUNT.aggregate(N=agg.count()),
    "names: 'Window' is already used by the windows": lambda: HOURS.aggregate(Window=agg.count()),
    "output column 'N_1h' differs from 'n_1h' in case only": lambda: RollingWindows(
        {"1h": "1 hour"}
    ).aggregate(n=agg.count(), N=agg.count()),
    r"needs a name: \.aggregate\(n=agg\.count\(\)\)": lambda: HOURS.aggregate(agg.count()),
    "n='sum' is not an aggregate: use one of operators.aggregates": lambda: HOURS.aggregate(n="sum"),
    r"n=<function sum .*: call it, such as agg\.sum\('v'\)": lambda: HOURS.aggregate(n=agg.sum),
    r"AggregateOperation 'doubled' itself: call it with columns": lambda: HOURS.aggregate(n=DOUBLED),
    r"doubled takes column names, not \['delay'\]": lambda: DOUBLED(["delay"]),
    r"an aggregate takes column names, not 3": lambda: agg.sum(3),
    r"where takes column names, not True": lambda: agg.count(where=True),
    r"probabilities must be a list of numbers, such as \[0.5, 0.99\], got 0\.5": lambda: agg.approx_quantiles(
        "delay", 0.5
    ),
    r"result type must be .* such as 'bigint', or an Arrow type, got <class 'int'>": lambda: agg.fold(
        0, max, "delay", type=int
    ),
    "add must be a function, got 0": lambda: agg.fold(max, 0, "delay", type="bigint"),
    "frame left: results must be given by name, such as left=": lambda: HOURS.cogroup(
        left=agg.count(), right=agg.count()
    ),
    "at least two frames": lambda: HOURS.cogroup(left={"n": agg.count()}),
}
BINDINGS = {
    "result 'n_1h' has the name of a column of the frame 'N_1H', but for case, which .*another name": lambda: (
        run(
            RollingWindows({"1h": "1 hour"}).aggregate(n=agg.count()),
            TABLE.append_column("N_1H", TABLE["delay"]),
        )
    ),
    "output column 'ORIGIN' differs from 'origin' in case only": lambda: run(
        Echo("ORIGIN").group_by("origin")
    ),
    r"the operator has no aggregates: add some, such as \.aggregate\(n=agg\.count\(\)\)": lambda: run(HOURS),
    "key column 'orgin' does not exist; the frame has the columns origin, .*: did you mean 'origin'": lambda: (
        run(COUNT.group_by("orgin"))
    ),
    "event time column 'Departed' does not exist; .*: did you mean 'departed'": lambda: run(
        COUNT, at="Departed"
    ),
    r"'n': sum\(dely\): column 'dely' does not exist; .*: did you mean 'delay'": lambda: run(
        HOURS.aggregate(n=agg.sum("dely"))
    ),
    "event time column 'text' is of type string, not a timestamp: .*to_timestamp": lambda: run(
        COUNT, at="text"
    ),
    "event time column 'day' is of type date32.*, not a timestamp": lambda: run(COUNT, at="day"),
    r"sum\(text\): column 'text' is of type string, not a number: cast": lambda: run(
        HOURS.aggregate(n=agg.sum("text"))
    ),
    r"column 'delay' is of type int64, not a boolean": lambda: run(
        HOURS.aggregate(n=agg.count(where="delay"))
    ),
    r"count\(\): where must be the name of a boolean column: column 'delay > 9' does not exist; the frame has the "
    r"columns origin, .*. It is an expression: on Spark, give F\.expr\('delay > 9'\)$": lambda: run(
        HOURS.aggregate(n=agg.count(where="delay > 9"))
    ),
    "boolean column: column 'dlay' does not exist; the frame has the columns .*: did you mean 'delay'": lambda: (
        run(HOURS.aggregate(n=agg.count(where="dlay")))
    ),
    r"column 'delay \+ 1' does not exist.*\. It is an expression: .*F\.expr\('delay \+ 1'\)": lambda: run(
        HOURS.aggregate(n=agg.sum("delay + 1"))
    ),
    r"key column 'place\.city' does not exist; .*\. It is a field .*: on Spark, give F\.col\('place\.city'\)$": lambda: (
        run(COUNT.group_by("place.city"))
    ),
    "key column 'tags' is of type list<.*; keys must be atomic: cast it": lambda: run(COUNT.group_by("tags")),
    "fold max.delay. cannot be combined, but sessions merge: give the fold a merge": lambda: run(
        SessionWindows("1 hour").aggregate(n=agg.fold(0, max, "delay", type="bigint"))
    ),
    r"process takes a pyarrow\.Table, not a DataFrame: .*from_pandas": lambda: run(COUNT, TABLE.to_pandas()),
    r"process takes a pyarrow\.Table, not a list: .*from_pylist": lambda: run(COUNT, TABLE.to_pylist()),
    "the table lacks the columns origin; it has": lambda: run(COUNT, TABLE, TABLE.drop_columns("origin")),
    "column 'delay' is of type string, but was int64 in the first table": lambda: run(
        HOURS.aggregate(n=agg.sum("delay")), TABLE, TABLE.set_column(2, "delay", [["4"] * 3])
    ),
    "stream_time must be a datetime or whole ticks, not '2026'": lambda: COUNT.local_runner(
        "departed"
    ).process(TABLE, "2026"),
    r"frames must be given by name, as {'left': \.\.\., 'right'.* got a Table": lambda: run(BOTH),
    r"expected the frames left, right, got left: give one .*, such as {'left': \.\.\., 'right': \.\.\.}": lambda: (
        run(BOTH, {"left": TABLE})
    ),
    "expected the frames left, right, got left, middle": lambda: run(BOTH, {"left": TABLE, "middle": TABLE}),
}
CONFIGURATION = {
    "unknown state backend 'RocksDB'; did you mean rocksdb": lambda: run(COUNT, backend="RocksDB"),
    "state backend <class 'dict'> is not a string": lambda: run(COUNT, backend=dict),
    r"unknown option spark\.windows\.buckets; did you mean spark\.windows\.state\.buckets": lambda: run(
        COUNT, options={"buckets": 4}
    ),
    "snapshots.bytes is '16 MB': it must be .*such as 64m": lambda: run(
        COUNT, options={"state.snapshots.bytes": "16 MB"}
    ),
    r"options is \['state\.buckets'\]: it must map names to values": lambda: run(
        COUNT, options=["state.buckets"]
    ),
}
FUNCTIONS = {
    r"fold lambda\(text\): add raised TypeError: unsupported operand": lambda: run(
        fold(lambda total, text: total + text, column="text")
    ),
    r"fold in_place\(delay\): add raised AttributeError: .*None, add must return": lambda: run(
        fold(in_place, init=list)
    ),
    r"the state is '', expected int64": lambda: run(fold(lambda state, _: state, init="")),
    r"returned a state that cannot be stored: a value of type set .* use None, bool": lambda: run(
        fold(lambda state, delay: {state, delay})
    ),
    r"'doubled': accumulate raised TypeError\(.tuple indices": lambda: run(
        HOURS.aggregate(n=_doubled(accumulate=lambda state, x: state["x"] + x)("delay"))
    ),
    "'doubled': finish must return an array of .* rows, got a value of type int": lambda: run(
        HOURS.aggregate(n=_doubled(finish=lambda _: 1)("delay"))
    ),
}


def _doubled(**changes: Any) -> AggregateOperation:
    functions = {
        name: getattr(DOUBLED, name)
        for name in ("name", "state", "create", "accumulate", "combine", "finish", "type")
    }
    return AggregateOperation(**{**functions, **changes})


@pytest.mark.parametrize(
    ("error", "message", "mistake"),
    [
        (error, message, mistake)
        for error, mistakes in (
            (DefinitionError, DEFINITIONS),
            (DefinitionError, BINDINGS),
            (ValueError, CONFIGURATION),
            (AggregateError, FUNCTIONS),
        )
        for message, mistake in mistakes.items()
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_mistake_is_told(error: type[Exception], message: str, mistake: Callable[[], Any]) -> None:
    """What is wrong, where, and what to do."""
    with pytest.raises(error, match=message):
        mistake()


def test_windows_alone_are_no_operator() -> None:
    """What only an operator has is said to be missing together with the way there; other names are Python's affair."""
    with pytest.raises(
        AttributeError,
        match=r"define windows only: .* before 'apply', as in .*\.aggregate\(n=agg\.count\(\)\)\.apply",
    ):
        SlidingWindows("1 hour").apply(TABLE, "departed")
    with pytest.raises(AttributeError, match=r"before 'local_runner_as_of', as in "):
        RollingWindows("1 hour").local_runner_as_of("at", "at")
    with pytest.raises(AttributeError, match="'HoppingWindows' object has no attribute 'nothing'"):
        _ = HoppingWindows(2, 1).nothing


@pytest.mark.parametrize(
    "operator", [HOURS.windows, COUNT, BOTH, HoppingWindows(2, 1), Echo().group_by("origin")], ids=repr
)
def test_labels_are_joined_by_rolling_windows(operator: Any) -> None:
    """Other windows and operators say which ones have `apply_as_of`, and how it is written; other names are Python's affair."""
    said = r"'{}' object has no attribute '{}': labels .* RollingWindows alone: Rolling.*\.{}\(label.*'at'\)$"
    for name in ("apply_as_of", "local_runner_as_of"):
        with pytest.raises(AttributeError, match=said.format(type(operator).__name__, name, name)):
            getattr(operator, name)("at", "at")
    with pytest.raises(AttributeError, match=r"object has no attribute 'nothing'$"):
        _ = operator.nothing


def test_frames_share_windows_of_other_kinds() -> None:
    """Rolling windows say so."""
    beside = RollingWindows("1 hour").group_by("origin")
    for one in (beside, beside.windows):
        with pytest.raises(
            AttributeError, match=r"'cogroup': .* sliding, hopping, .*for labels beside records"
        ):
            _ = one.cogroup


@pytest.mark.parametrize(
    ("times", "message"),
    [
        (
            ("text", "departed"),
            "frame labels: event time column 'text' is of type string, not a timestamp: cast",
        ),
        (("departed", "day"), "frame records: event time column 'day' is of type date32"),
        (
            ("departed", "zoned"),
            r"column 'departed' is of type timestamp\[us\] in labels, .* in records \(column 'zoned'\): cast one of them",
        ),
    ],
)
def test_times_of_several_frames(times: tuple[str, str], message: str) -> None:
    """A column that is not a time is named as the user did, with its frame."""
    zoned = TABLE.append_column("zoned", TABLE.column("departed").cast(pa.timestamp("us", "UTC")))
    counts = RollingWindows("1 hour").group_by("origin").aggregate(n=agg.count())
    plain = zoned.drop_columns(["tags", "place"])
    with (
        counts.local_runner_as_of(*times) as runner,
        pytest.raises(DefinitionError, match=message),
    ):
        runner.process(plain, plain)


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("sumn", r"it has .*: did you mean 'sum'\?"),
        ("stdev", r"use agg\.stddev"),
        ("average", r"use agg\.avg"),
        (
            "quantile",
            r"use agg\.percentile\('v', 0\.95\), exact, or agg\.approx_quantiles\('v', \[0\.95\]\), .*",
        ),
        ("nunique", r"use agg\.count_distinct"),
    ],
)
def test_names_of_others_lead_to_ours(name: str, meant: str) -> None:
    """An aggregate by the name that it has elsewhere, or misspelt."""
    with pytest.raises(AttributeError, match=rf"has no attribute '{name}'[;:] {meant}$"):
        getattr(agg, name)


def test_what_looks_like_a_mistake_and_is_none(tmp_path: Path) -> None:
    """Null keys are a group, columns may come in another order, and options may be Python's own values."""
    options = {"state.snapshots.background": False, "state.snapshots.batches": 5}
    with COUNT.local_runner("departed", directory=tmp_path, options=options) as runner:
        assert runner.process(TABLE, datetime(2026, 1, 5)).num_rows == 0
        rows = runner.process(TABLE.select(TABLE.column_names[::-1]), datetime(2026, 1, 6)).to_pylist()
    assert [2] == [row["n"] for row in rows if row["origin"] is None]


def test_a_directory_that_cannot_be_made(tmp_path: Path) -> None:
    """A file in the way is named, whatever the backend."""
    (tmp_path / "file").write_text("in the way")
    for backend, directory in (("memory", tmp_path / "file"), ("rocksdb", tmp_path / "file" / "below")):
        with pytest.raises(
            StateError, match=f"cannot create the directory {directory}: .*Choose another directory"
        ):
            run(COUNT, backend=backend, directory=directory)


def test_a_savepoint_folder_is_used_once(tmp_path: Path) -> None:
    """A second savepoint wants a folder of its own; one that is not there is no start."""
    with COUNT.local_runner("departed") as runner:
        runner.process(TABLE)
        runner.savepoint(tmp_path / "one")
        with pytest.raises(
            StateError, match=r"the folder .*one already contains a savepoint: choose a new folder"
        ):
            runner.savepoint(tmp_path / "one")
    with pytest.raises(
        StateError, match=r"the folder .*two contains no savepoint: savepoint\.json is missing"
    ):
        run(COUNT, options={"state.savepoint": tmp_path / "two"})


def test_another_operator_on_old_state_is_refused(tmp_path: Path) -> None:
    """What differs is named, and the ways to go on."""
    run(COUNT, directory=tmp_path)
    with pytest.raises(StateError, match=r"size was 1 hour, is 2 hours.*start .* with a new checkpoint"):
        run(SlidingWindows("2 hours").group_by("origin").aggregate(n=agg.count()), directory=tmp_path)
    with pytest.raises(StateError, match=r"is new.*set spark\.windows\.state\.evolution to adapt"):
        run(COUNT.aggregate(total=agg.sum("delay")), directory=tmp_path)
