"""The open windows of a key, from published pages: those that the runner itself gives."""

import asyncio
import random
from pathlib import Path
from typing import Any

import pytest

from operators import DefinitionError, HoppingWindows, SessionWindows, SlidingWindows, TumblingWindows
from operators import aggregates as agg
from operators.sinks import SQLitePages
from tests.operators.sinks.publishing import Publisher, moment, table_of
from tests.operators.sinks.test_features_now import MINUTE, SIMPLE, random_batch

KINDS: dict[str, Any] = {
    "tumbling": TumblingWindows("1 minute", grace="2 minutes"),
    "hopping": HoppingWindows("3 minutes", "1 minute", grace="10 seconds"),
    "sliding": SlidingWindows("40 seconds", grace="2 minutes"),
    "session": SessionWindows("10 seconds", grace="2 minutes"),
    "bounded session": SessionWindows("10 seconds", grace="2 minutes", max_length="1 minute"),
}


@pytest.mark.parametrize("policy", ["on_close", "on_update"])
@pytest.mark.parametrize("kind", KINDS)
def test_open_windows_are_those_of_the_runner(kind: str, policy: Any, tmp_path: Path) -> None:
    """After each batch, for keys with windows and without."""
    seed = random.randrange(2**32)
    print(f"seed {seed}")  # noqa: T201 - to repeat the test
    rnd = random.Random(seed)
    operator = (
        KINDS[kind]
        .group_by("k")
        .aggregate(n=agg.count(), s=agg.sum("v"), kinds=agg.approx_count_distinct("v"))
    ).emit(policy)
    pages, now = SQLitePages(tmp_path / "f.db", "pages"), 0
    with (
        Publisher(operator, pages) as publisher,
        operator.reader(pages) as reader,
        operator.local_runner("at") as runner,
    ):
        for _ in range(6):
            records = random_batch(rnd, now)
            now += rnd.choice([1_000, 30_000, 100_000])
            publisher.step(records, stream_time=moment(now))
            runner.process(table_of(records), stream_time=moment(now))
            rows = runner.open_windows().to_pylist()
            for key in "abcx":
                found = reader.windows({"k": key})
                assert [row for row in rows if row["k"] == key] == found.table.to_pylist()
                assert publisher.batch == found.freshness.batch


def test_each_kind_has_its_own_question(tmp_path: Path) -> None:
    """Rolling windows have no bounds of their own, and others do not end now."""
    pages = SQLitePages(tmp_path / "f.db", "pages")
    tumbling = KINDS["tumbling"].group_by("k").aggregate(n=agg.count())
    with Publisher(SIMPLE, pages) as publisher, Publisher(tumbling, pages, query="two") as other:
        publisher.step([("a", 0, 1)])
        other.step([("a", 0, 1)])
    with SIMPLE.reader(pages) as reader, pytest.raises(DefinitionError, match=r"use get\(key, at\)"):
        reader.windows({"k": "a"})
    with tumbling.reader(pages) as reader, pytest.raises(DefinitionError, match=r"use windows\(key\)"):
        reader.get({"k": "a"})


def test_a_service_asks_without_blocking_its_loop(tmp_path: Path) -> None:
    """Several at a time; a call that is cancelled leaves the others their own answers."""
    pages = SQLitePages(tmp_path / "f.db", "pages")
    with Publisher(SIMPLE, pages) as publisher:
        publisher.step([(key, n, n) for key in "ab" for n in range(ord(key) - ord("a") + 1)])

    async def ask() -> list[int]:
        with SIMPLE.reader(pages) as reader:
            await reader.aget({"k": "a"}, moment(MINUTE))
            cancelled = [asyncio.create_task(reader.aget({"k": "a"}, moment(MINUTE))) for _ in range(5)]
            await asyncio.sleep(0)
            for task in cancelled:
                task.cancel()
            found = await asyncio.gather(*(reader.aget({"k": key}, moment(MINUTE)) for key in "ab" * 20))
            return [answer["n_5m"] for answer in found]

    assert [1, 2] * 20 == asyncio.run(ask())
