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


def test_targets_of_many_keys_are_of_their_stage(stored, taken) -> None:
    """Processor time and look-ups are beside the figure; of another number of keys they don't count."""
    figures = [
        taken(
            "10 million live keys",
            "rocksdb",
            4.0,
            rows=1_000_000,
            keys=keys,
            stage="steady",
            beside={"processor_us_a_row": us, "lookups_a_row": us / 10, "resident_mb": 1},
        )
        for keys, us in ((1_000_000, 5.0), (2_000_000, 15.0), (10_000_000, 20.0))
    ]
    found = verdicts(stored(*figures))
    assert found["2 million keys: processor time, a row"] == ("missed", 15.0)
    assert found["2 million keys: look-ups in the backend, a row"] == ("met", 1.5)
    assert found["10 million keys: rows/s steady"] == ("met", 250_000.0)
    assert found["10 million keys: rows/s while keys arrive"] == (NOT_MEASURED, None)


def test_a_hot_key_is_compared_with_the_same_kind(stored, taken) -> None:
    """Both times are of memory and of one kind of windows."""
    figures = [
        taken("one hot key", system, seconds, kind=kind, records=records)
        for system, kind, records, seconds in (
            ("memory", "session", "spread", 2.0),
            ("memory", "session", "half of one", 4.0),
            ("rocksdb", "tumbling", "spread", 1.0),
            ("memory", "tumbling", "half of one", 1.0),
        )
    ]
    found = verdicts(stored(*figures))
    what = "half of all records of one key, {} windows, of the same records spread out"
    assert found[what.format("session")] == ("missed", 2.0)
    assert found[what.format("tumbling")] == (NOT_MEASURED, None)
