"""The tests that run on each version of PySpark and Python, by what they are about: some minutes in all."""

from collections.abc import Mapping, Sequence

_SPARK = "tests/operators/spark/"
_STREAMS = [
    f"{_SPARK}test_streaming.py::test_stream_closes_what_the_bounded_frame_says",
    f"{_SPARK}test_streaming.py::test_state_is_gone_when_all_windows_have_closed",
    f"{_SPARK}test_streaming.py::test_bad_and_late_rows_are_counted",
    f"{_SPARK}test_streaming.py::test_times_without_zone",
    f"{_SPARK}test_batch_by_batch.py::test_of_two_inputs_the_slower_one_counts",
    f"{_SPARK}test_batch_by_batch.py::test_a_chain_emits_in_the_same_batch_from_end_to_end",
]
_OTHER_WINDOWS = [
    f"{_SPARK}test_sessions.py::test_stream_closes_sparks_own_sessions",
    f"{_SPARK}test_rolling.py::test_stream_emits_the_closed_rows_of_the_bounded_frame",
]
_GOES_ON = [f"{_SPARK}test_streaming.py::test_a_query_goes_on_with_another_backend"]
_READ = f"{_SPARK}test_state.py::test_state_is_read_as_it_was_after_each_batch"
_FORMAT_2 = f"{_SPARK}test_checkpoint_format.py"
_KILLS = "tests/faults/test_kills.py::test_a_query_outlives_a_worker_and_its_driver"
_LOST = "tests/faults/test_lost_executors.py::test_a_lost_executor_costs_its_tasks_and_not_the_query"
_STORED = "tests/compatibility/test_old_checkpoints.py::"

PARTS: Mapping[str, Sequence[str]] = {
    "formats and the local runner": [
        "tests/serializers/test_pages.py",
        "tests/serializers/test_rows.py",
        "tests/compatibility/test_old_directories.py::test_directories_go_on",
    ],
    "bounded frames": [
        f"{_SPARK}test_sessions.py::test_bounded_frame_gives_sparks_own_sessions",
        f"{_SPARK}test_rolling.py::test_bounded_frame_gives_sparks_own_ranges",
    ],
    "streams on each backend": [f"{_SPARK}test_inside.py", *_STREAMS],
    "session and rolling windows": _OTHER_WINDOWS,
    "stopped and started; state is read": [*_GOES_ON, _READ],
    "checkpoints of Spark 4.0 go on": [f"{_STORED}test_queries_of_the_oldest_spark_go_on"],
    "a worker and the driver are killed": [_KILLS],
    "executors are killed, and no query ends": [_LOST],
    "Spark Connect": [f"{_SPARK}test_connect.py"],
}
"""With the settings that Spark has by itself."""

WITH_FORMAT_2: Mapping[str, Sequence[str]] = {
    "format 2: streams on each backend": _STREAMS,
    "format 2: session and rolling windows": _OTHER_WINDOWS,
    "format 2: stopped and started; state is read": [_FORMAT_2, *_GOES_ON],
    "format 2: a worker and the driver are killed": [_KILLS],
}
"""With checkpoint format 2 of Spark's state store."""


def is_of(test: str, node: str) -> bool:
    """Whether a test is one of those that a node stands for.

    Args:
        test: its module and its name, as in "tests.serializers.test_pages::test_one[case]".
        node: a file, or a test of a file with all its cases.
    """
    file, _, name = node.partition("::")
    module = file.removesuffix(".py").replace("/", ".")
    place, _, case = test.partition("::")
    return place == module and (not name or case.partition("[")[0] == name)
