"""Which aggregates are over a lifetime may change at a restart: none counts a part of its records unnoticed."""

import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from operators import RollingWindows
from operators import aggregates as agg
from operators.definitions.rolling import RollingAggregation
from state_backends import StateError

ADAPT = {"state.evolution": "adapt"}
WINDOWS = RollingWindows({"s": 10, "ever": "lifetime"})
COUNTED = WINDOWS.group_by("k").emit("on_arrival").aggregate(n=agg.count())
LIMITED = COUNTED.aggregate(x=agg.sum("v").over("s"))
WHOLE = COUNTED.aggregate(x=agg.sum("v"))
FIRST, THEN = (0, 60_000, 120_000, 180_000), (240_000, 300_000)
"""Times of records, each in a segment of its own."""


def rows_of(
    operator: RollingAggregation, times: Sequence[int], folder: Path | None = None, **options: Any
) -> list[dict[str, int]]:
    """The results of records of one key, each with 1 as its value and in a batch of its own."""
    rows = []
    with operator.local_runner("t", directory=folder, options=options) as runner:
        for time in times:
            rows += runner.process(pa.table({"k": ["a"], "t": [time], "v": [1], "f": [1.0]})).to_pylist()
    results = [*operator.results]
    return [{name: row[name] for name in results} for row in rows]


def saved(operator: RollingAggregation, folder: Path) -> Path:
    """A savepoint of an operator after the first records."""
    with operator.local_runner("t") as runner:
        for time in FIRST:
            runner.process(pa.table({"k": ["a"], "t": [time], "v": [1], "f": [1.0]}))
        runner.savepoint(folder)
    return folder


def test_what_is_over_the_lifetime_for_the_first_time_is_refused_by_name(tmp_path: Path) -> None:
    """A sum over the last 10 ms has no lifetime, as its older panes hold nothing: to take them for one would be wrong."""
    rows_of(LIMITED, FIRST, tmp_path)
    with pytest.raises(
        StateError, match=r"x was not over the lifetime, and would count from now on.*evolution to adapt"
    ):
        rows_of(WHOLE, THEN, tmp_path)
    assert [5, 6] == [row["n_ever"] for row in rows_of(LIMITED, THEN, tmp_path)]


def test_a_lifetime_ends_from_a_restart_on(tmp_path: Path) -> None:
    """`forget_after` needs columns of the panes that were not stored: what is there counts until a pause that is too long."""
    ending = RollingWindows({"s": 10, "ever": "lifetime"}, forget_after=70_000)
    rows_of(COUNTED, FIRST, tmp_path)
    operator = ending.group_by("k").emit("on_arrival").aggregate(n=agg.count())
    assert [5, 1, 2] == [row["n_ever"] for row in rows_of(operator, (240_000, 320_000, 330_000), tmp_path)]


def test_it_counts_from_then_on_if_that_is_wanted(tmp_path: Path) -> None:
    """Its lookbacks all begin anew; the option is needed once."""
    rows_of(LIMITED, FIRST, tmp_path)
    rows = rows_of(WHOLE, (180_005, *THEN[:1]), tmp_path, **ADAPT) + rows_of(WHOLE, THEN[1:], tmp_path)
    assert [5, 6, 7] == [row["n_ever"] for row in rows]
    assert [1, 2, 3] == [row["x_ever"] for row in rows]
    assert [2, 1, 1] == [row["n_s"] for row in rows]
    assert [1, 1, 1] == [row["x_s"] for row in rows]


def test_what_was_over_the_lifetime_can_be_so_again(tmp_path: Path) -> None:
    """An aggregate that is limited for a while keeps its history."""
    undisturbed = rows_of(WHOLE, (*FIRST, *THEN, 360_000))
    found = rows_of(WHOLE, FIRST, tmp_path)
    limited = rows_of(LIMITED, THEN, tmp_path)
    found += rows_of(WHOLE, (360_000,), tmp_path)
    assert found == [*undisturbed[:4], *undisturbed[6:]]
    assert limited == [{name: row[name] for name in LIMITED.results} for row in undisturbed[4:6]]


@pytest.mark.slow
def test_a_mean_beside_a_sum(tmp_path: Path) -> None:
    """It follows from the states of a sum over the lifetime; not from those of a sum that was limited."""
    total, mean = agg.sum("f"), agg.avg("f")
    whole, limited = COUNTED.aggregate(x=total), COUNTED.aggregate(x=total.over("s"))
    for name, before in (("whole", whole), ("limited", limited)):
        rows_of(before, FIRST, tmp_path / name)
    rows = rows_of(whole.aggregate(m=mean), THEN, tmp_path / "whole")
    assert [(5.0, 1.0), (6.0, 1.0)] == [(row["x_ever"], row["m_ever"]) for row in rows]
    with pytest.raises(StateError, match="m was not over the lifetime"):
        rows_of(limited.aggregate(m=mean), THEN, tmp_path / "limited")
    # The mean of the last 10 ms alone needs no lifetime.
    short = rows_of(limited.aggregate(m=mean.over("s")), THEN, tmp_path / "limited")
    assert [(5, 1.0), (6, 1.0)] == [(row["n_ever"], row["m_s"]) for row in short]
    both = limited.aggregate(m=mean, c=agg.count("f"), y=total)
    (row,) = rows_of(both, (360_000,), tmp_path / "limited", **ADAPT)
    assert row == {"n_s": 1, "n_ever": 7, "x_s": 1} | dict.fromkeys(
        ("m_s", "m_ever", "c_s", "c_ever", "y_s", "y_ever"), 1
    )


def test_a_savepoint(tmp_path: Path) -> None:
    """It says what is over the lifetime, as a checkpoint does."""
    limited, whole = saved(LIMITED, tmp_path / "limited"), saved(WHOLE, tmp_path / "whole")
    with pytest.raises(StateError, match=r"x was not over the lifetime.*state.savepoint"):
        rows_of(WHOLE, THEN, **{"state.savepoint": limited})
    adapted = rows_of(WHOLE, THEN, **ADAPT, **{"state.savepoint": limited})
    assert [(5, 1), (6, 2)] == [(row["n_ever"], row["x_ever"]) for row in adapted]
    assert [5, 6] == [row["x_ever"] for row in rows_of(WHOLE, THEN, **{"state.savepoint": whole})]
    assert [5, 6] == [row["n_ever"] for row in rows_of(LIMITED, THEN, **{"state.savepoint": whole})]


POOL = {
    "n": agg.count,
    "low": lambda **where: agg.min("u", **where),
    "high": lambda **where: agg.max("v", **where),
    "total": lambda **where: agg.sum("w", **where),
    "last": lambda **where: agg.last("x", **where),
    "distinct": lambda **where: agg.approx_count_distinct("y", **where),
}
"""Aggregates of which no two share a state."""
PHASES = 6


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(6))
def test_lookbacks_come_and_go(seed: int, tmp_path: Path) -> None:
    """Whatever is limited, not limited, added and dropped: each counts the records since it was there, or over the lifetime."""
    chance = random.Random(seed)
    everything = {
        f"{name}_{phase}": make(where=f"from_{phase}")
        for name, make in POOL.items()
        for phase in range(PHASES)
    }
    began: dict[str, int] = {}
    lasts: dict[str, bool] = {}
    with WINDOWS.group_by("k").emit("on_arrival").aggregate(**everything).local_runner("t") as undisturbed:
        for phase in range(PHASES):
            names = chance.sample(sorted(POOL), 4)
            over = {name: chance.choice([("s",), ("s", "ever")]) for name in names}
            for name in names:
                needs = "ever" in over[name]
                if name not in began or (needs and not lasts[name]):
                    began[name], lasts[name] = phase, needs
            began = {name: began[name] for name in names}
            given = {name: POOL[name]().over(*over[name]) for name in names}
            operator = WINDOWS.group_by("k").emit("on_arrival").aggregate(**given)
            backend = chance.choice(["memory", "rocksdb", "spark"])
            with operator.local_runner("t", backend, tmp_path, ADAPT) as runner:
                for number in range(3):
                    table = records(chance, 3 * phase + number, phase)
                    found, wanted = runner.process(table), undisturbed.process(table)
                    for name in names:
                        for lookback in over[name]:
                            since = wanted.column(f"{name}_{began[name]}_{lookback}")
                            assert since.equals(found.column(f"{name}_{lookback}")), (phase, name)


def records(chance: random.Random, batch: int, phase: int) -> pa.Table:
    """Records of a few keys around a time, sorted."""
    times = sorted(40_000 * batch + chance.randrange(30_000) for _ in range(8))
    columns = {name: [chance.randrange(100) for _ in times] for name in "uvwxy"}
    flags = {f"from_{number}": [number <= phase] * len(times) for number in range(PHASES)}
    return pa.table({"k": [chance.choice("abc") for _ in times], "t": times, **columns, **flags})
