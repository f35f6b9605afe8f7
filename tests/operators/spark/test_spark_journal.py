"""The journal in Spark's state: blobs in parts."""

from typing import Any

import pytest

from operators.spark.stream import spark_journal
from operators.spark.stream.spark_journal import SparkJournal


class Handle:
    """A task's handle, over state that is the same in all tasks."""

    def __init__(self, state: dict[tuple[str, int], tuple[int, bytes]]) -> None:
        self.state = state
        self.read = 0

    def getMapState(self, name: str, key: Any, value: Any) -> "Handle":  # noqa: N802 - Spark's name
        return self

    def getValue(self, key: tuple[str, int]) -> tuple[int, bytes] | None:  # noqa: N802
        self.read += 1
        return self.state.get(key)

    def containsKey(self, key: tuple[str, int]) -> bool:  # noqa: N802
        return key in self.state

    def updateValue(self, key: tuple[str, int], value: tuple[int, bytes]) -> None:  # noqa: N802
        self.state[key] = value

    def removeKey(self, key: tuple[str, int]) -> None:  # noqa: N802
        self.state.pop(key, None)


@pytest.mark.parametrize("size", [0, 1, 4, 5, 12])
def test_blobs_are_read_and_removed_by_other_tasks(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the number of parts, a later task reads the whole blob, and removes it without reading it."""
    monkeypatch.setattr(spark_journal, "_PART_BYTES", 4)
    state: dict[tuple[str, int], tuple[int, bytes]] = {}
    SparkJournal(Handle(state)).put("log-1", bytes(range(size)))
    SparkJournal(Handle(state)).put("log-2", b"kept")
    assert bytes(range(size)) == SparkJournal(Handle(state)).get("log-1")
    handle = Handle(state)
    SparkJournal(handle).remove("log-1")
    SparkJournal(handle).remove("never there")
    assert [("log-2", 0)] == list(state)
    assert 0 == handle.read
