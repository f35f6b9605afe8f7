"""The open windows of a key over several frames, from published pages: those that the runner itself gives."""

import datetime as dt
import random
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from operators import DefinitionError, SessionWindows, SlidingWindows, TumblingWindows
from operators import aggregates as agg
from operators.aggregates.sides import EVENT_TIME
from operators.definitions.publishing import PublishedFeatures
from operators.runtime.local import LocalRunner
from operators.sinks import SinkError, SQLitePages
from operators.sinks.publish import Publish
from operators.sinks.published import Definition
from state_backends import resolve
from tests.operators.sinks.publishing import BEGIN, SEGMENT

KINDS: dict[str, Any] = {
    "tumbling": TumblingWindows("1 minute", grace="2 minutes"),
    "sliding": SlidingWindows("40 seconds", grace="2 minutes"),
    "session": SessionWindows("10 seconds", grace="2 minutes"),
    "calendar": TumblingWindows("1 day", zone="Europe/Berlin", grace="2 minutes"),
}
SCHEMAS = {
    "clicks": pa.schema([("k", pa.string()), ("at", pa.timestamp("us", "UTC"))]),
    "orders": pa.schema([("k", pa.string()), ("at", pa.timestamp("us", "UTC")), ("v", pa.int64())]),
}


def grouped(windows: Any) -> Any:
    """Return windows over two frames."""
    return windows.group_by("k").cogroup(
        clicks={"clicks": agg.count()}, orders={"revenue": agg.sum("v"), "last": agg.last("v")}
    )


def frames(rnd: random.Random, now: int, schemas: Mapping[str, pa.Schema] = SCHEMAS) -> dict[str, pa.Table]:
    """Return some records of each frame, of which one may have none."""
    found = {}
    for name, schema in schemas.items():
        rows = [
            {
                "k": rnd.choice("aab"),
                "at": (BEGIN + dt.timedelta(milliseconds=now + rnd.randrange(60_000))).replace(
                    tzinfo=dt.timezone.utc if schema.field("at").type.tz else None
                ),
                "v": rnd.randrange(9),
            }
            for _ in range(rnd.choice([0, 3, 20]))
        ]
        names = set(schema.names)
        rows = [{column: row[column] for column in names} for row in rows]
        found[name] = pa.Table.from_pylist(rows, schema=schema)
    return found


@pytest.mark.parametrize("kind", KINDS)
def test_open_windows_over_several_frames_are_those_of_the_runner(kind: str, tmp_path: Path) -> None:
    """After each batch, for keys with windows and without."""
    seed = random.randrange(2**32)
    print(f"seed {seed}")  # noqa: T201 - to repeat the test
    rnd, operator = random.Random(seed), grouped(KINDS[kind])
    pages, now = SQLitePages(tmp_path / "f.db", "pages"), 0
    config, published = resolve("memory", SEGMENT), PublishedFeatures(operator.joint)
    with (
        operator.local_runner("at", options=SEGMENT) as beside,
        LocalRunner(lambda s, c: published.bind(s, EVENT_TIME, c), config, None) as runner,
        operator.reader(pages) as reader,
    ):
        for batch in range(4):
            records = frames(rnd, now)
            now += rnd.choice([1_000, 30_000, 100_000])
            stream_time = BEGIN + dt.timedelta(milliseconds=now)
            beside.process(records, stream_time=stream_time)
            times = dict.fromkeys(records, "at")
            united = beside._unite(records, times)
            definition = Definition.of(published.bind(united.schema, EVENT_TIME, config), united.schema)
            changed = runner.process(united, stream_time=stream_time)
            Publish(pages, definition, 1).write(changed, batch, "one")
            rows = beside.runner.open_windows().to_pylist()
            for key in "abx":
                found = reader.windows({"k": key})
                assert [row for row in rows if row["k"] == key] == found.table.to_pylist()
                assert batch == found.freshness.batch


def test_other_aggregates_of_a_frame_are_refused(tmp_path: Path) -> None:
    """With what differs; expressions of Spark before anything is read."""
    operator, pages = grouped(KINDS["tumbling"]), SQLitePages(tmp_path / "f.db", "pages")
    other = (
        KINDS["tumbling"].group_by("k").cogroup(clicks={"clicks": agg.count()}, orders={"top": agg.max("v")})
    )
    config, published = resolve("memory", SEGMENT), PublishedFeatures(operator.joint)
    with operator.local_runner("at") as beside:
        tables = frames(random.Random(1), 0)
        beside.process(tables)
        united = beside._unite(tables, dict.fromkeys(tables, "at"))
    with LocalRunner(lambda s, c: published.bind(s, EVENT_TIME, c), config, None) as runner:
        definition = Definition.of(published.bind(united.schema, EVENT_TIME, config), united.schema)
        Publish(pages, definition, 1).write(runner.process(united), 0, "one")
    with other.reader(pages) as reader, pytest.raises(SinkError, match="other features"):
        reader.windows({"k": "a"})
    with operator.reader(pages) as reader, pytest.raises(DefinitionError, match=r"use windows\(key\)"):
        reader.get({"k": "a"})
    with pytest.raises(DefinitionError, match="reader takes a table of pages"):
        operator.reader("f.db")
