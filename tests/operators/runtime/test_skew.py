"""Metrics that show skew: the records of the key that has the most, and of the bucket, for every kind of operator."""

from collections import Counter
from typing import Any

import pyarrow as pa
import pytest

from operators import HoppingWindows, RollingWindows, SessionWindows, SlidingWindows, TumblingWindows
from operators import aggregates as agg
from operators.runtime.metrics import add_metrics
from tests.operators.custom import samples

MINUTE_US = 60_000_000
WINDOWS: dict[str, Any] = {
    "tumbling": TumblingWindows("10 minutes"),
    "hopping": HoppingWindows("10 minutes", "5 minutes"),
    "sliding": SlidingWindows("10 minutes"),
    "session": SessionWindows("10 minutes"),
    "session of a length": SessionWindows("10 minutes", max_length="1 hour"),
    "rolling": RollingWindows({"hour": "1 hour", "ever": "lifetime"}),
}
AGGREGATES: dict[str, Any] = {"states": agg.count(), "fold": agg.fold(0, lambda n: n + 1, type="bigint")}
CASES = [(kind, "states") for kind in WINDOWS] + [
    (kind, "fold") for kind in ("tumbling", "hopping", "sliding")
]
KEYS = [*"aababaaaac", None, None]
"""Of the first batch, by record."""


def table(keys: list[str | None], minutes: list[int | None]) -> pa.Table:
    """Records of these keys at these minutes."""
    times = [None if minute is None else MINUTE_US * minute for minute in minutes]
    return pa.table({"k": pa.array(keys, pa.string()), "at": pa.array(times, pa.timestamp("us", "UTC"))})


def skew(metrics: dict[str, int]) -> dict[str, int]:
    """The records of the bucket, and of its largest key."""
    assert metrics["rows"] == metrics["max_bucket_rows"]
    assert metrics["state_bytes"] == metrics["max_bucket_bytes"]
    return {"bucket": metrics["max_bucket_rows"], "key": metrics["max_key_rows"]}


@pytest.mark.parametrize("by", ["k", None], ids=["by key", "one group"])
@pytest.mark.parametrize(("kind", "aggregate"), CASES)
def test_the_largest_key_is_told(kind: str, aggregate: str, by: str | None) -> None:
    """Null is a key like any other, late records count, records without a time do not, and each batch begins anew."""
    operator = WINDOWS[kind] if by is None else WINDOWS[kind].group_by(by)
    with operator.aggregate(n=AGGREGATES[aggregate]).local_runner("at") as runner:
        runner.process(table(KEYS, [100 + n for n in range(len(KEYS))]))
        most = len(KEYS) if by is None else max(Counter(KEYS).values())
        assert {"bucket": len(KEYS), "key": most} == skew(runner.metrics)
        runner.process(table(["c", "b", "c", "c", "c"], [0, 1, 200, None, None]))
        assert {"bucket": 5, "key": 3 if by is None else 2} == skew(runner.metrics), "two have no time"
        runner.process(table([], []))
        assert {"bucket": 0, "key": 0} == skew(runner.metrics)


@pytest.mark.parametrize("backend", ["memory", "rocksdb"])
def test_the_largest_page_is_told(backend: str) -> None:
    """Of those that the batch wrote, not of all that are stored: one key's list among many small ones, and none."""
    operator = TumblingWindows("1 day").group_by("k").aggregate(values=agg.collect_list("k"))
    few, long = [f"key {n}" for n in range(50)], "a" * 1_000
    with operator.local_runner("at", backend=backend) as runner:
        told = []
        for keys in ([*few, *[long] * 40], few, [long], []):
            runner.process(table([*keys], [1] * len(keys)))
            stored = [page for _, pages in runner.store.backend.scan(0) for page in pages]
            told.append(runner.metrics["max_page_bytes"])
            largest = max(map(len, stored))
        assert [True, False, True, False] == [size > 40_000 for size in told]
        assert (0, largest) == (told[3], told[2])
        assert 0 < told[1] < 1_000


def test_the_largest_of_parts() -> None:
    """A batch that was taken in parts has the largest page of all, whichever part wrote it, and the state after the last."""
    parts = [(3, 20, 50), (4, 90, 40), (5, 30, 60)]
    told: dict[str, int] = {}
    for rows, page, state in parts:
        told = add_metrics(told, {"rows": rows, "max_page_bytes": page, "max_bucket_bytes": state})
    assert {"rows": 12, "max_page_bytes": 90, "max_bucket_bytes": 60} == told


def test_custom_operators_tell_it_too() -> None:
    """They count as the others do."""
    records = [("a", 1, 1.0), ("b", 2, 1.0), ("a", 3, 1.0)]
    with samples.Echo().group_by("k").local_runner("t") as runner:
        runner.process(samples.table(records))
        assert {"bucket": 3, "key": 2} == skew(runner.metrics)


def test_a_column_that_splits_the_largest_key() -> None:
    """What the runbook says of a bucket with one key: it has few records then, and a second operator adds the parts up."""
    windows = TumblingWindows("10 minutes")
    keys: list[str | None] = ["hot"] * 90 + ["a", "b", None]
    records = table(keys, [n % 45 for n in range(len(keys))])
    records = records.append_column("part", pa.array([n % 10 for n in range(len(keys))]))
    records = records.append_column("v", pa.array(range(len(keys))))

    def run(operator: Any, rows: pa.Table) -> tuple[pa.Table, dict[str, int]]:
        with operator.local_runner("at") as runner:
            first = runner.process(rows)
            metrics = dict(runner.metrics)
            return pa.concat_tables([first, runner.process(rows.slice(0, 0), 10**9)]), metrics

    whole, before = run(windows.group_by("k").aggregate(n=agg.count(), total=agg.sum("v")), records)
    parts, after = run(windows.group_by("k", "part").aggregate(n=agg.count(), total=agg.sum("v")), records)
    assert (90, 9) == (before["max_key_rows"], after["max_key_rows"])
    starts = pa.compute.struct_field(parts.column("window"), "start")
    again = windows.group_by("k").aggregate(n=agg.sum("n"), total=agg.sum("total"))
    added, _ = run(again, parts.append_column("at", starts))
    assert sorted(map(repr, whole.to_pylist())) == sorted(
        map(repr, added.select(whole.column_names).to_pylist())
    )
