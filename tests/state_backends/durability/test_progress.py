"""The progress in a pointer keeps its form: what an earlier version packed is read, and packed again as it was."""

from typing import Any

import pyarrow as pa
import pytest

from serializers import CorruptDataError, pack_value, unpack_value
from state_backends.durability.progress import FAR_PAST, Progress
from state_backends.store.schema import StoredSchema, StoredState

SCHEMA = StoredSchema(
    keys=pa.schema([("k", pa.string())]),
    tick_us=1_000,
    segment=60_000,
    grace=5_000,
    head=(("time", "time"), ("count", "number")),
    states=(StoredState("SumLong(v)", (("sum", "i8"), ("seen", "i8"))),),
)
OPERATOR = {
    "identity": {"window": "sliding", "size in ticks": 60_000, "state": ["SumLong(v)"]},
    "schema": {
        "keys": SCHEMA.keys.serialize().to_pybytes(),
        "tick_us": 1_000,
        "segment": 60_000,
        "grace": 5_000,
        "head": [["time", "time"], ["count", "number"]],
        "states": [["SumLong(v)", [["sum", "i8"], ["seen", "i8"]]]],
    },
    "close": -7,
    "usage": [[3, 10, 20, 900]],
}


@pytest.mark.parametrize(
    "host",
    [
        {"buckets": 4, "timer": 60_001},
        {"buckets": 4, "timer": None},
        {"buckets": 4, "timer": 60_001, "behind": 0},
        {"stream_time": 17, "highest": 20},
        {"stream_time": None, "highest": None},
    ],
)
def test_packed_form_is_kept(host: dict[str, Any]) -> None:
    """The bytes of a query's and of a runner's progress are the same before and after, keys in their order."""
    blob = pack_value(OPERATOR | host)
    progress = Progress.from_plain(unpack_value(blob))
    assert blob == pack_value(progress.plain())
    assert (SCHEMA, -7, OPERATOR["identity"], OPERATOR["usage"]) == (
        progress.schema, progress.close_time, progress.identity, progress.usage,
    )  # fmt: skip
    attribute = {"highest": "max_event_time"}
    assert host == {name: getattr(progress, attribute.get(name, name)) for name in host}


def test_fresh_state_has_no_progress() -> None:
    """A state without a batch has an empty record, and closes nothing."""
    assert {} == Progress().plain()
    assert Progress() == Progress.from_plain({})
    assert FAR_PAST == Progress().close_time


def test_unknown_keys_are_ignored() -> None:
    """What another version noted besides is no obstacle."""
    assert Progress(close_time=5) == Progress.from_plain({"close": 5, "more": [1, 2]})


@pytest.mark.parametrize("plain", [None, [1], {"schema": {"keys": b"not a schema"}}])
def test_what_is_no_progress_is_refused(plain: Any) -> None:
    """A record of another form is damage, and not an empty state."""
    with pytest.raises(CorruptDataError):
        Progress.from_plain(plain)
