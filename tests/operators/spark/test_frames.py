"""How far it is from a bucket's call to the store: short enough to be read in one go."""

import sys
from collections.abc import Iterator
from types import FrameType
from typing import Any

import pyarrow as pa
import pytest

from operators import RollingWindows, SessionWindows, SlidingWindows, TumblingWindows
from operators import aggregates as agg
from operators.runtime.batch_clock import Call
from operators.runtime.watermark_rule import WatermarkRule
from operators.spark.inputs.blobs import to_blobs
from operators.spark.replicas.calls import Blobs, Request
from operators.spark.stream.job import Job
from state_backends import WindowStore, resolve
from state_backends.durability.pointer import Pointer, read_pointer
from state_backends.journal import MemoryJournal

MOST_FRAMES = 13
MOST_MODULES = 8
TABLE = pa.table({"t": pa.array(range(4_000), pa.timestamp("ms")), "v": range(4_000)})
WINDOWS: dict[str, Any] = {
    "sliding": SlidingWindows("2 seconds"),
    "tumbling": TumblingWindows("1 second"),
    "session": SessionWindows("1 ms"),
    "rolling": RollingWindows("2 seconds"),
    "by fold": SlidingWindows("10 ms"),
}
FOLD = agg.fold(0, lambda total, v: total + v, "v", type="bigint")


def callers(frame: FrameType | None) -> Iterator[tuple[str, str]]:
    """Module and function of a frame and of those that called it, up to the bucket's call."""
    while frame is not None:
        module = frame.f_globals["__name__"]
        yield module, frame.f_code.co_name
        if (module, frame.f_code.co_name) == (Job.__module__, "run"):
            return
        frame = frame.f_back


@pytest.mark.slow
@pytest.mark.parametrize("name", WINDOWS)
def test_a_batch_takes_few_frames_and_modules_to_the_store(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where sums of pages are made, which is the longest way."""
    found: list[list[tuple[str, str]]] = []
    read = WindowStore.read

    def noted(*given: Any) -> Any:
        found.append(list(callers(sys._getframe())))
        return read(*given)

    monkeypatch.setattr(WindowStore, "read", noted)
    operator = WINDOWS[name].aggregate(n=FOLD if name == "by fold" else agg.sum("v"))
    config = resolve("memory", {"state.segment": "200 ms"})
    binding = operator.bind(TABLE.schema, "t", config)
    job, journal, pointer = Job(binding, config, (0,), WatermarkRule()), MemoryJournal(), Pointer.fresh()
    for number in range(40):
        rows = TABLE.slice(100 * number, 100).select(binding.inputs.names)
        call = Call(100 * number, 0, (None,))
        job.run(journal.get, Request(pointer, 0, number, call, Blobs(list(to_blobs(rows))))).write_to(journal)
        pointer = read_pointer(journal) or pointer
    longest = max(found, key=len)
    assert ("run", "noted") == (longest[-1][1], longest[0][1])
    assert MOST_FRAMES >= len(longest)
    assert MOST_MODULES >= len({module for module, _ in longest})
