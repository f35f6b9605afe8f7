"""What `make test` shows at least, though it leaves slow tests to `make test-all`: the table says which tests show it."""

import re
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
KINDS, SPARK = "tests/operators/kinds/", "tests/operators/spark/"
CUSTOM, RUNTIME = "tests/operators/custom/", "tests/operators/runtime/"
CONTRACT = "tests/state_backends/contract/test_contract.py::"
SINKS = "tests/operators/sinks/test_contract.py::"
BACKENDS = "memory", "rocksdb", "spark"
TABLE = {
    "rows of each kind of windows on each backend": [
        ("tests/operators/testing/test_aborts.py::", ("sliding", "hopping", "session"), BACKENDS),
        (f"{RUNTIME}test_going_on.py::", ("tumbling",), BACKENDS),
        (f"{SPARK}test_batch_parts.py::test_parts_on_each_backend", ("rolling", "session"), BACKENDS),
    ],
    "rows of custom operators on each backend": [
        (f"{CUSTOM}test_columnar.py::test_rows_are_those_of_brute_force", BACKENDS),
        (f"{CUSTOM}test_keyed.py::test_rows_are_those_of_going_through_one_by_one", BACKENDS),
    ],
    "a restart of each kind": [
        (f"{KINDS}test_window_properties.py::test_restarts_change_nothing",),
        (f"{KINDS}test_rolling.py::test_restarts_and_crashes_change_nothing",),
        (f"{RUNTIME}test_lookbacks.py::test_other_lookbacks_after_a_restart",),
    ],
    "a kill in a commit of each backend": [
        (f"{CONTRACT}{backend}::test_killed_process_leaves_some_version_whole",)
        for backend in ("TestMemory", "TestRocksDB", "TestJournal")
    ],
    "each sink, with batches that are repeated": [
        (f"{SINKS}Test{sink}::test_a_repeated_batch_changes_nothing",)
        for sink in ("SQLite", "Postgres", "Delta")
    ],
    "streams on Spark": [
        (f"{SPARK}test_streaming.py::test_stream_closes_what_the_bounded_frame_says", ("rocksdb",)),
        (f"{SPARK}test_forget.py::test_a_query_forgets_keys", ("memory",)),
        (f"{SPARK}test_batch_by_batch.py::test_each_batch_emits_what_the_local_runner_does", ("sliding",)),
        (f"{SPARK}test_chains.py::test_a_chain_gives_the_rows_of_its_steps",),
    ],
    "a kill of a worker and of a driver, in a query that goes on": [
        ("tests/faults/test_kills.py::test_a_query_outlives_a_worker_and_its_driver",)
    ],
    "state of earlier versions": [
        (
            "tests/compatibility/test_old_directories.py::test_directories_go_on",
            ("sliding", "hopping", "tumbling", "session", "rolling", "cogroup"),
        )
    ],
}
"""By what is to be shown: where tests of it begin, and choices of which each has to be in the name of one of them."""
Wanted = tuple[str, frozenset[str]]


def wanted() -> Iterator[Wanted]:
    """The beginning of each test that is to be there, and the parameters that it has to have."""
    for tests in TABLE.values():
        for begin, *choices in tests:
            combined: list[frozenset[str]] = [frozenset()]
            for choice in choices:
                combined = [taken | {one} for taken in combined for one in choice]
            yield from ((begin, one) for one in combined)


def lacking(names: Iterable[str]) -> set[Wanted]:
    """What no test shows of those with these names."""
    known = [(name, {*re.split(r"[\[\]-]", name)}) for name in names]
    return {
        (begin, parameters)
        for begin, parameters in wanted()
        if not any(name.startswith(begin) and parameters <= parts for name, parts in known)
    }


def chosen() -> list[str]:
    """The names of the tests that `make test` takes."""
    command = [
        sys.executable,
        "-m",
        "pytest",
        "--collect-only",
        "-q",
        "-m",
        "not slow",
        "-p",
        "no:cacheprovider",
    ]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    return [line for line in done.stdout.splitlines() if "::" in line]


def test_make_test_shows_each_thing_once(request: pytest.FixtureRequest) -> None:
    """A test that is made slow has another one in its place, or stays."""
    here = [item.nodeid for item in request.session.items if not item.get_closest_marker("slow")]
    missing = lacking(here)
    assert not missing or not lacking(chosen())


def test_what_is_missing_is_found() -> None:
    """Also where a test is there, but not with all of its parameters."""
    missing = {begin for begin, _ in lacking([f"{RUNTIME}test_going_on.py::test_it[tumbling-memory]"])}
    assert f"{RUNTIME}test_going_on.py::" in missing
    assert len(missing) > 10
