"""A disk with local state that is full: at a query's start, and while it runs."""

import os
import re
import subprocess
import sys
from dataclasses import replace
from operator import ge
from pathlib import Path

import pytest

from tests.faults.disk import SmallDisk, in_front, why_not
from tests.faults.plans import Feed, Plan, committed, plans_for
from tests.faults.processes import Driver, assert_exact
from tests.patience import wait_until

pytestmark = pytest.mark.slow
ROOT = Path(__file__).parents[2]

_DIRECTORY = "spark.windows.state.directory"
_CONF = {"spark.windows.state.rocksdb.writeBufferMb": "1", "spark.sql.shuffle.partitions": "1"}


@pytest.mark.soak
def test_a_full_disk_ends_a_query_with_its_name_or_not_at_all(
    tmp_path: Path, driver: Driver, small_disk: Path, backends: list[str]
) -> None:
    """A query goes on, or ends with an error that says what is full; with space again, it ends with all rows."""
    if reason := why_not():
        pytest.skip(reason)
    feed = Feed(tmp_path, files=7, rows=8_000, seed=7)
    plans = [
        replace(
            plan,
            kind="sliding",  # More state than sessions.
            conf={**_CONF, _DIRECTORY: str(small_disk / plan.backend)},
        )
        for plan in plans_for(tmp_path, backends)
    ]
    disk = SmallDisk(driver.process.pid, small_disk)
    feed.give()
    disk.fill()
    driver.ask("run", plans)
    assert_sound(driver, plans)
    disk.make_space()
    assert not any(driver.run(plans))
    assert_exact(driver.judge(plans))

    end = tmp_path / "end"
    running = [replace(plan, until=str(end)) for plan in plans]
    driver.ask("run", running)
    feed_and_wait(feed, 1, driver, plans)
    disk.fill()
    feed_and_wait(feed, 3, driver, plans)
    end.touch()
    assert_sound(driver, plans)
    disk.make_space()
    feed.give()
    assert not any(driver.run(plans))
    assert_exact(driver.judge(plans))


SPARKS_OWN = """
import sys
from pathlib import Path
from operators import TumblingWindows, aggregates as agg, spark_session, what_failed
from tests.faults.disk import fill
from tests.operators.spark.frames import session_conf, stream, write_source

home, small = map(Path, sys.argv[1:])
spark = spark_session("full", master="local[2]", buckets=2, conf=session_conf(home))
spark.sparkContext.setLogLevel("OFF")
op = TumblingWindows("1 second", grace="3 seconds").group_by("k").aggregate(n=agg.count())


def run():
    writer = op.apply(stream(spark, home / "in"), "at").writeStream.format("parquet")
    writer = writer.option("path", str(home / "out")).option("checkpointLocation", str(small / "checkpoint"))
    return writer.trigger(availableNow=True).start()


write_source(home / "in", files=2, rows=500, seed=1)
run().awaitTermination()
write_source(home / "more", files=6, rows=500, seed=1)
for path in sorted((home / "more").iterdir())[2:]:
    path.rename(home / "in" / path.name)
fill(small / "filler")
query = run()
try:
    query.awaitTermination()
except Exception:
    print("told:", what_failed(query))
(small / "filler").unlink()
run().awaitTermination()
frame = spark.read.parquet(str(home / "in"))
closed = frame.selectExpr("max(at) - interval 3 seconds").first()[0]
expected = op.apply(frame, "at")
expected = expected.where(expected.window.end <= closed)
found = spark.read.parquet(str(home / "out"))
print("rows:", found.count(), found.exceptAll(expected).count(), found.count() - expected.count())
"""


def test_a_disk_that_spark_finds_full_is_named(tmp_path: Path) -> None:
    """The checkpoint's: nothing is lost, and with space again the query continues."""
    if reason := why_not():
        pytest.skip(reason)
    small = tmp_path / "small"
    small.mkdir()
    call = [*in_front(small, 8), sys.executable, "-c", SPARKS_OWN, str(tmp_path), str(small)]
    env = os.environ | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run(call, cwd=tmp_path, env=env, capture_output=True, text=True, check=False)
    told, rows = [line for line in done.stdout.splitlines() if line.startswith(("told:", "rows:"))]
    assert told.startswith("told: a disk is full")
    assert "No space left on device. Free space, then start the query again" in told
    assert re.fullmatch(r"rows: [1-9]\d+ 0 0", rows), done.stderr


def assert_sound(driver: Driver, plans: list[Plan]) -> None:
    """The queries that the driver runs end without error, or with one that says what is full; none of their rows is wrong."""
    for plan, error in zip(plans, driver.answer(), strict=True):
        print(f"{plan.backend}: {error}")  # noqa: T201 - what the user sees
        assert error is None or ("No space left on device" in error and plan.conf[_DIRECTORY] in error)
    assert [0 for _ in plans] == [verdict["extra"] for verdict in driver.judge(plans)]


def feed_and_wait(feed: Feed, files: int, driver: Driver, plans: list[Plan]) -> None:
    """Give files, and wait until each query has committed a batch for each, or has ended with an error."""
    wanted = [committed(plan) + files for plan in plans]
    feed.give(files)

    def there() -> bool:
        return driver.waits() or all(map(ge, map(committed, plans), wanted))

    wait_until(there, "batches, or an error", driver.moved)
