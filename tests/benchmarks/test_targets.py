"""The scoreboard: what a run has reached, by its own figures alone."""

import pytest

from benchmarks.report.figures import load_run
from benchmarks.report.targets import NOT_MEASURED, judged

SLIDING = "sliding windows, local"


def verdicts(path):
    """Verdict and number of each target, by what it is."""
    return {one.target.what: (one.verdict, one.reached) for one in judged(load_run(path))}


def test_a_run_without_figures_measures_no_target(stored) -> None:
    """What is not in the run is neither met nor missed."""
    assert {(NOT_MEASURED, None)} == set(verdicts(stored()).values())


@pytest.mark.parametrize(("seconds", "verdict"), [(2.0, "met"), (4.0, "missed")])
def test_ratios_are_of_rows_per_second(stored, taken, seconds, verdict) -> None:
    """Half of polars' speed is enough, a quarter is not; other keys don't count."""
    path = stored(
        taken(SLIDING, "memory", 0.001, per_window=10, keys=5),
        taken(SLIDING, "memory", seconds, per_window=10, keys=100),
        taken(SLIDING, "polars", 2.0, rows=2_000, per_window=10, keys=100, note="left windows only"),
    )
    expected = (verdict, pytest.approx(1 / seconds))
    assert expected == verdicts(path)["records/s, of polars', 10 per window"]


def test_flatness_needs_all_lengths(stored, taken) -> None:
    """The slowest and the fastest of all four lengths are compared; three are not enough."""
    figures = [
        taken(SLIDING, "memory", 1 + n / 10, per_window=10**n, keys=100, rows=1_000) for n in (1, 2, 3, 4)
    ]
    what = "fastest over slowest, from 10 to 10,000 per window"
    assert verdicts(stored(*figures))[what] == ("met", pytest.approx(1.4 / 1.1))
    assert verdicts(stored(*figures[:3]))[what] == (NOT_MEASURED, None)


def test_streams_are_compared_above_an_empty_batch(stored, taken) -> None:
    """The slowest of ours counts; without the time of an empty batch nothing does."""
    floor = taken("streaming: pass-through", "pass-through", 0.5, beside={"empty_seconds": 0.1})
    ours = [
        taken("streaming: sliding windows", "memory", seconds, beside={"empty_seconds": 0.3}, per_window=n)
        for n, seconds in ((10, 1.5), (1_000, 2.7))
    ]
    what = "sliding windows, of pass-through"
    assert verdicts(stored(floor, *ours))[what] == ("missed", pytest.approx(6.0))
    bare = taken("streaming: pass-through", "pass-through", 0.5)
    assert verdicts(stored(bare, *ours))[what] == (NOT_MEASURED, None)


def test_memory_of_many_keys_is_that_of_the_largest_stage(stored, taken) -> None:
    """Runs with fewer keys don't count."""
    what = "resident memory of a worker with 10 million live keys on rocksdb"
    figures = [
        taken("10 million live keys", "rocksdb", 1.0, keys=keys, stage=str(mb), beside={"resident_mb": mb})
        for keys, mb in ((10_000_000, 1_200), (10_000_000, 1_600), (1_000_000, 9_999))
    ]
    assert verdicts(stored(*figures))[what] == ("missed", 1_600)
    assert verdicts(stored(figures[-1]))[what] == (NOT_MEASURED, None)
