"""Recorded inputs and outputs: Kafka Streams', and ours where our rules differ. (cases/README.md)"""

import subprocess
import sys
from pathlib import Path

import pytest

from operators import RollingWindows
from operators.columns.records import FAR_FUTURE
from tests.conformance.play import AGGREGATES, Case, in_ms, play, play_by_brute_force, record_table, value
from tests.effort import slow


@pytest.mark.parametrize("backend", ["memory", slow("rocksdb")])
def test_operator_emits_what_was_recorded(case: Case, backend: str) -> None:
    """An operator emits the recorded rows, finds the recorded records late, and ends up empty."""
    played = play(case["options"], case["records"], backend)

    assert [sorted(expected) for expected in case["emitted"]] == played.emitted
    assert case["late"] == played.late
    assert played.empty


@pytest.mark.slow
def test_rolling_rows_have_the_recorded_left_windows(sliding_case: Case) -> None:
    """Beside each record is what was recorded of the sliding window that ends at its time."""
    options, records = sliding_case["options"], record_table(sliding_case["records"])
    windows = RollingWindows(options["size"], options["grace"]).group_by("key")
    rolling = windows.aggregate(result=AGGREGATES[options["aggregate"]])
    recorded = {(key, end): found for batch in sliding_case["emitted"] for key, _, end, found in batch}
    with rolling.local_runner("time") as runner:
        batches = [runner.process(records.slice(number, 1)) for number in range(len(records))]
        batches.append(runner.process(records.slice(0, 0), stream_time=FAR_FUTURE // 2))
        late = runner.counters.late
    found = [row for batch in batches[:-1] for row in batch.to_pylist()]
    assert len(found) + batches[-1].num_rows + late == len(records)
    assert [value(row) for row in found] == [recorded[row["key"], in_ms(row["time"])] for row in found]


def test_oracle_emits_what_was_recorded(case: Case) -> None:
    """The brute-force evaluator that judges the property tests gives the recorded rows itself."""
    expected = play_by_brute_force(case["options"], case["records"])

    assert [sorted(rows) for rows in case["emitted"]] == expected.emitted
    assert case["late"] == expected.late


@pytest.mark.slow
def test_directory_without_cases_is_an_error(tmp_path: Path) -> None:
    """Asked for a directory that holds no case, the run fails: nothing tested is no success."""
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", __file__, "--cases", str(tmp_path)]
    run = subprocess.run(command, capture_output=True, text=True, check=False)

    assert run.returncode not in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED)
    assert f"no conformance cases (*.json) below {tmp_path}" in run.stdout + run.stderr
