"""Sizes of segments and keys, as counted in batches of entries; and what Spark's files say about a query."""

import json
from pathlib import Path

import numpy as np
import pytest

from state_backends import StateError
from state_backends.checkpoints.query import StoredQuery, stored_query
from state_backends.checkpoints.sizes import SegmentSize, SizeCount, segment_sizes
from state_backends.checkpoints.stored_bucket import EntryBatch


def batch(segment: int, panes: dict[bytes, list[int]]) -> EntryBatch:
    """Entries at the given times of each key; a key takes ten bytes for each of them, and its own."""
    key = np.repeat(np.arange(len(panes)), [len(times) for times in panes.values()])
    times = np.array([time for of_key in panes.values() for time in of_key])
    sizes = [len(name) + 10 * len(of_key) for name, of_key in panes.items()]
    return EntryBatch(segment, list(panes), key, [times], sizes)


BATCHES = [
    batch(2, {b"a": [20, 25], b"bb": [21]}),
    batch(1, {b"a": [12], b"ccc": [11, 13, 14]}),
    batch(2, {b"ccc": [29]}),
]


def test_segments_are_counted_over_batches() -> None:
    """In the order of their numbers."""
    assert [SegmentSize(1, 2, 4, 44, 11, 14), SegmentSize(2, 3, 4, 46, 20, 29)] == segment_sizes(BATCHES)


def test_keys_are_counted_over_segments() -> None:
    """The largest first, with their bytes and panes."""
    count = SizeCount()
    for stored in BATCHES:
        count.add_keys(stored)
    assert 3 == count.keys
    assert [(b"ccc", 46, 4), (b"a", 32, 3)] == count.largest(2)


def test_a_query_is_read_from_sparks_files(tmp_path: Path) -> None:
    """Of the last committed batch, or of one that is named; a file that is gone leaves out what it has."""
    for name, lines in {
        "metadata": ['{"id":"some id"}'],
        "offsets/3": ["v1", json.dumps({"batchTimestampMs": 5, "conf": {"a": "b"}}), '{"at":1}', "-"],
        "commits/2": ["v1", '{"nextBatchWatermarkMs":6}'],
        "commits/3": ["v1", '{"nextBatchWatermarkMs":7}'],
        "offsets/4": ["v1", "{}"],
    }.items():
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text("\n".join(lines))
    assert StoredQuery("some id", 3, 5, 7, {"a": "b"}, [{"at": 1}, "-"]) == stored_query(str(tmp_path))
    assert StoredQuery("some id", 2, None, 6, {}, []) == stored_query(str(tmp_path), 2)


def test_a_folder_without_a_batch_is_refused(tmp_path: Path) -> None:
    """By name."""
    with pytest.raises(StateError, match=f"the state in {tmp_path} cannot be read: no batch was committed"):
        stored_query(str(tmp_path))
