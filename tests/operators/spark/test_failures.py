"""Errors of Spark that say that executors were lost, in words that help."""

import pytest

from operators import what_failed

CASES = {
    "1 named: executor 7": (
        "Job aborted due to stage failure: Task 1 in stage 3.0 failed 4 times, most recent failure: Lost task 1.3 in stage 3.0 "
        "(TID 9) (10.0.0.7 executor 7): ExecutorLostFailure (executor 7 exited caused by one of the running tasks) Reason: "
        "Command exited with code 137\nDriver stacktrace:"
    ),
    "2 named: executor 12, executor 4 on 10.0.0.4": (
        "Lost task 0.0 in stage 5.2 (TID 31) (10.0.0.4 executor 2): FetchFailed(BlockManagerId(4, 10.0.0.4, 41234, None), "
        "shuffleId=1, mapIndex=0, mapId=4, reduceId=2, message=\norg.apache.spark.shuffle.FetchFailedException\n"
        "ExecutorLostFailure (executor 12 exited unrelated to the running tasks) Reason: Executor decommission"
    ),
    "none is named": (
        "Job aborted due to stage failure: ResultStage 7 (start at NativeMethodAccessorImpl.java:0) has failed the maximum "
        "allowable number of times: 4. Most recent failure reason:\norg.apache.spark.shuffle.FetchFailedException: Connection "
        "refused: /10.0.0.4:41234"
    ),
}


@pytest.mark.parametrize("which", CASES)
def test_lost_executors_are_counted_and_named(which: str) -> None:
    """With what it costs, and what to set."""
    told = what_failed(RuntimeError(CASES[which]))
    assert told is not None
    assert told.startswith(f"executors of Spark were lost ({which}), ")
    assert "Nothing is lost of the query: start it again" in told
    assert "spark.stage.maxConsecutiveAttempts" in told
    assert "spark.task.maxFailures" in told


def test_an_indeterminate_stage_is_one_that_ran_again_for_lost_executors() -> None:
    """Spark names no executor then; nothing else is mistaken for it."""
    said = (
        "Job aborted due to stage failure: A shuffle map stage with indeterminate output was failed and retried. However, "
        "Spark cannot rollback the ResultStage 12 to re-process the input data, and has to fail this job."
    )
    assert str(what_failed(RuntimeError(said))).startswith("executors of Spark were lost (none is named), ")
    assert (
        what_failed(RuntimeError("Job aborted due to stage failure: Task 1 in stage 3.0 failed 4 times"))
        is None
    )
