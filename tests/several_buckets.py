"""The buckets of a query without Spark, some of which lag behind the others in close time."""

import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
from feeds import BACKENDS, GRACE, SCHEMA, Feed, committed, rows

from operators.columns.records import FAR_PAST
from operators.runtime.stateful import StatefulOperator
from serializers.keys import bucket_of, encode_keys
from state_backends import resolve
from state_backends.checkpoints.open_bucket import open_bucket
from state_backends.checkpoints.savepoint import Savepoint, write_bucket, write_header
from state_backends.durability.folders import Folder
from state_backends.durability.progress import Progress
from state_backends.journal import MemoryJournal

SEGMENTS = ("7 ms", "40 ms", "1 minute")


def unnumbered(emitted: pa.Table) -> list[str]:
    """Rows as texts without `sequence`, which each bucket counts by itself."""
    return rows(emitted.select([name for name in emitted.column_names if name != "sequence"]))


class Buckets:
    """A query's buckets, as on Spark: each an operator with a journal, called when it has rows, or at times by its timer."""

    def __init__(
        self, op: Any, count: int, folder: Path, chance: random.Random, segments: Sequence[str] = SEGMENTS
    ) -> None:
        options = {"state.segment": chance.choice(segments)}
        self.chance = chance
        self.binding = op.bind(SCHEMA, "at", resolve("memory", options))
        self.parts = []
        for number in range(count):
            config = resolve(chance.choice(BACKENDS), options)
            self.parts.append((StatefulOperator(self.binding, config, folder / f"{number}"), MemoryJournal()))

    def begin(self, savepoint: Savepoint) -> list[str]:
        """Start from a savepoint; return the rows that fall due."""
        found = []
        for number, (part, journal) in enumerate(self.parts):
            pointer = part.open(journal)
            found += unnumbered(part.start_from(savepoint, number, len(self.parts)).rows)
            found += unnumbered(part.step((FAR_PAST, FAR_PAST), [self.binding.inputs.empty()]).rows)
            part.commit(journal, pointer, Progress())
        return found

    def process(self, batch: pa.Table, close: int, lag: float) -> list[str]:
        """Give each bucket its rows; those without any are passed over with probability `lag`."""
        found = []
        keys = encode_keys([batch.column("k").combine_chunks()])
        slot = [bucket_of(key, len(self.parts)) for key in keys]
        for number, (part, journal) in enumerate(self.parts):
            own = batch.filter(pa.array([n == number for n in slot], pa.bool_()))
            if len(own) or self.chance.random() >= lag:
                emitted = committed(part, journal, close, [own]).rows
                found += unnumbered(emitted)
        return found

    def savepoint(self, uri: str, close: int) -> Savepoint:
        """Write a savepoint of the buckets that were ever called, and close them all."""
        saved, schema = [], self.binding.stored_schema()
        for number, (part, journal) in enumerate(self.parts):
            if journal.get("pointer") is not None:
                with open_bucket(journal, None, None) as bucket:
                    assert schema == bucket.schema
                    saved += write_bucket(Folder(uri), number, bucket)
            part.close()
        return write_header(Folder(uri), self.binding.identity(), schema, close, saved, {})


def feed(chance: random.Random, counts: Sequence[int]) -> list[list[tuple[pa.Table, int]]]:
    """Batches of several stages, each with the close time that the ones before it made."""
    stages, high, number, source = [], None, 0, Feed(chance, keys=20)
    for count in counts:
        stages.append([])
        for _ in range(count):
            batch = source.table(number)
            stages[-1].append((batch, FAR_PAST if high is None else high - GRACE))
            times = batch.column("at").cast(pa.int64()).to_pylist()
            high, number = max([*times, *([] if high is None else [high])], default=None), number + 1
    stages[-1].append((SCHEMA.empty_table(), 10_000))
    return stages
