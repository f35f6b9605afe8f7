"""Batches that are too large for memory: a bucket takes them in parts, and the rows are those of the whole."""

import os
import socket
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from threading import Thread
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyspark import cloudpickle

from operators import HoppingWindows, RollingWindows, SessionWindows, SlidingWindows, TumblingWindows
from operators import aggregates as agg
from operators.runtime.batch_clock import Call
from operators.runtime.binding import Binding, Runnable
from operators.runtime.stateful import StatefulOperator
from operators.runtime.watermark_rule import WatermarkRule
from operators.spark.inputs import blobs, spool
from operators.spark.inputs.blobs import from_blobs
from operators.spark.inputs.packing import PACKED, Pack
from operators.spark.inputs.spool import Spool
from operators.spark.replicas.bucket_service import BucketService
from operators.spark.replicas.calls import Blobs, Done, Functions, Origin, Request, in_place
from operators.spark.replicas.connection import Connection
from operators.spark.replicas.conversation import Conversation
from operators.spark.replicas.copies import drop_copy
from operators.spark.replicas.protocol import Heard
from operators.spark.replicas.where_held import converse
from operators.spark.stream import batch_parts
from operators.spark.stream.job import Job
from operators.steps.late_reports import LateSide
from state_backends import StateError, resolve
from state_backends.durability.pointer import Pointer, read_pointer
from state_backends.journal import MemoryJournal
from tests.effort import few, slow, soak
from tests.operators.spark.bounded_frames import IN_ORDER, RESULTS

SCHEMA = pa.schema(
    [
        ("k", pa.int64()),
        ("t", pa.timestamp("us")),
        ("v", pa.int64()),
        ("gap", pa.duration("us")),
        ("wide", pa.string()),
    ]
)
WINDOWS = {
    "sliding": SlidingWindows("300 ms", grace="200 ms"),
    "hopping": HoppingWindows("60 ms", "40 ms", grace="100 ms"),
    "tumbling": TumblingWindows("40 ms"),
    "session": SessionWindows("7 ms", grace="50 ms"),
    "session of gaps": SessionWindows(gap_column="gap"),
    "session up to a length": SessionWindows("12 ms", max_length="100 ms"),
}
LOOKBACKS = RollingWindows({"long": "300 ms", "short": "50 ms", "ever": "lifetime"}, grace="150 ms")
ROLLED = {name: result for name, result in RESULTS.items() if name != "values"}
OPERATORS: dict[str, Runnable] = {
    **{kind: windows.group_by("k").aggregate(**RESULTS) for kind, windows in WINDOWS.items()},
    **{
        f"{kind}, on update": windows.group_by("k").aggregate(**RESULTS).emit("on_update")
        for kind, windows in WINDOWS.items()
    },
    "fold": TumblingWindows("40 ms").group_by("k").aggregate(values=IN_ORDER),
    "sliding fold": SlidingWindows("100 ms", grace="200 ms").group_by("k").aggregate(values=IN_ORDER),
    "rolling": LOOKBACKS.group_by("k").aggregate(**ROLLED),
    "rolling, on arrival": LOOKBACKS.group_by("k").aggregate(**ROLLED).emit("on_arrival"),
    "rolling without a key": RollingWindows({"1s": "1 second"}).aggregate(n=agg.count(), w=agg.max("v")),
}


def batches(seed: int, *, keys: int = 3, count: int = 4, rows: int = 60) -> list[pa.Table]:
    """Batches of records, out of order, some without a time, as wide as they come; several of a time."""
    rng = np.random.default_rng(seed)
    made = []
    for number in range(count):
        time = (rng.integers(0, 700, rows) + 400 * number) * 1_000
        made.append(
            pa.table(
                {
                    "k": rng.integers(0, keys, rows),
                    "t": pa.array(time, pa.timestamp("us"), mask=rng.random(rows) < 0.05),
                    "v": rng.integers(-50, 50, rows),
                    "gap": pa.array(rng.integers(1, 12_000, rows), pa.duration("us")),
                    "wide": ["x" * n for n in rng.integers(0, 300, rows)],
                },
                SCHEMA,
            )
        )
    return made


@contextmanager
def limits(at_once: int | None, blob: int = 1_500, in_memory: int = 900) -> Iterator[None]:
    """With limits of a few rows; None for those that there are."""
    with pytest.MonkeyPatch.context() as patch:
        if at_once is not None:
            patch.setattr(blobs, "AT_ONCE_BYTES", at_once)
            patch.setattr(blobs, "BLOB_BYTES", blob)
            patch.setattr(spool, "IN_MEMORY_BYTES", in_memory)
            patch.setattr(batch_parts, "MOST_PIECES", 8)
        yield


def packed(binding: Binding, table: pa.Table, folder: Path) -> Blobs:
    """What the first stage sends of a batch."""
    names = list(binding.inputs.aliases.values())
    read = table.select(binding.inputs.names).rename_columns(names).to_batches(max_chunksize=7)
    sent = pa.Table.from_batches(list(Pack(binding, (0,))(iter(read))), PACKED).to_pylist()
    np.random.default_rng(len(sent)).shuffle(sent)  # Spark keeps no order.
    return in_place([(row["place"], row["kind"], row["blob"]) for row in sent], folder)


def times(table: pa.Table) -> list[int]:
    """The event times of records in milliseconds."""
    return [time // 1_000 for time in table.column("t").drop_null().cast(pa.int64()).to_pylist()]


def worked(
    operator: Runnable,
    tables: Sequence[pa.Table],
    folder: Path,
    *,
    late: bool,
    backend: str = "memory",
    chained: bool = False,
    segment: str | None = None,
    last_ms: int = -1,
) -> tuple[list[Counter[str]], list[dict[str, int]], int]:
    """The rows and metrics of each batch, and the largest blob; the last batch has no records, perhaps a later watermark."""
    options = {} if segment is None else {"state.segment": segment}
    config = resolve(backend, {"state.directory": str(folder), **options})
    binding = operator.bind(SCHEMA, "t", config)
    binding = binding.reporting(LateSide(SCHEMA, pa.timestamp("us"), binding.tick_us) if late else None)
    journal, pointer = MemoryJournal(), replace(Pointer.fresh(), store_id=f"{id(folder):016x}"[:16])
    job, out, told, largest = Job(binding, config, (0,), WatermarkRule(chained=chained)), [], [], 0
    newest = -1
    for number, table in enumerate([*tables, SCHEMA.empty_table()]):
        grace_ms = binding.grace * binding.tick_us // 1_000
        if chained:  # A batch closes windows that its own records pass, and is late by the one before.
            newest = max([newest, *times(table)])
        call = Call(max(0, newest - grace_ms), 0)
        done = job.run(
            journal.get, Request(pointer, 0, number, call, packed(binding, table, folder))
        ).write_to(journal)
        pointer = read_pointer(journal) or pointer
        largest = max([largest, *map(len, done.blobs)])
        found = pa.concat_tables([binding.rows.empty_table(), *from_blobs(done.blobs)])
        out.append(Counter(map(str, found.to_pylist())))
        told.append({name: done.metrics[name] for name in ("rows", "late", "windows", "windows_retracted")})
        newest = max([newest, *times(table), *([last_ms] if number == len(tables) - 1 else [])])
    drop_copy(config, pointer.store_id)
    return out, told, largest


@pytest.mark.parametrize(
    ("late", "chained"), [(False, False), slow(True, True), soak(True, False), soak(False, True)]
)
@pytest.mark.parametrize("name", few(OPERATORS, 4))
def test_a_batch_in_parts_gives_the_rows_of_the_whole(
    name: str, late: bool, chained: bool, tmp_path: Path
) -> None:
    """Batch by batch the same rows, the same late records, and the same counts, whatever the limits are."""
    for seed, at_once in enumerate((4_000, 1)):
        tables = batches(seed, keys=1 + 3 * seed)
        whole = worked(OPERATORS[name], tables, tmp_path / f"{seed}", late=late, chained=chained)
        assert sum(sum(rows.values()) for rows in whole[0]) > 20
        with limits(at_once):
            folder = tmp_path / f"{seed}-{at_once}"
            parted = worked(OPERATORS[name], tables, folder, late=late, chained=chained)
        assert whole[:2] == parted[:2], (seed, at_once)


@pytest.mark.parametrize("name", ["rolling", "rolling, on arrival", "session"])
@pytest.mark.parametrize("backend", ["memory", "rocksdb", "spark"])
def test_parts_on_each_backend(name: str, backend: str, tmp_path: Path) -> None:
    """To a backend, each part is a batch."""
    tables = batches(5)
    whole = worked(OPERATORS[name], tables, tmp_path / "whole", late=True, backend=backend)
    with limits(2_000):
        parted = worked(OPERATORS[name], tables, tmp_path / "parts", late=True, backend=backend)
    assert whole[:2] == parted[:2]
    assert parted[2] < 8_000 < whole[2]


@pytest.mark.parametrize("first_ms", [0, 1_800_000, 3_599_000])
@pytest.mark.parametrize("keys", [1, 40])
def test_rows_of_one_segment_come_out_some_at_a_time(
    keys: int, first_ms: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many wait in it, and wherever in it they are."""
    rng = np.random.default_rng(1)
    at = pa.array((first_ms + np.arange(800)) * 1_000, pa.timestamp("us"))
    gap, wide = pa.array(np.ones(800, int), pa.duration("us")), [rng.bytes(500).hex() for _ in at]
    table = pa.table([rng.integers(0, keys, 800), at, np.arange(800), gap, wide], schema=SCHEMA)
    step, out = StatefulOperator.step, []

    def watched(self: StatefulOperator, *given: Any, **named: Any) -> Any:
        done = step(self, *given, **named)
        out.append(done.rows.num_rows)
        return done

    monkeypatch.setattr(StatefulOperator, "step", watched)
    rolling = RollingWindows({"h": "1 hour"}, grace="1 second").group_by("k").aggregate(n=agg.count())
    with limits(100_000, in_memory=10**7):
        found, *_ = worked(rolling, [table], tmp_path, late=False, segment="1 hour", last_ms=3_700_000)
    assert 800 == sum(out) == sum(found[-1].values())
    assert max(out) < 200


@pytest.mark.slow
def test_what_is_on_disk_is_gone_after_the_batch(tmp_path: Path) -> None:
    """No file stays, and no descriptor, though the operator and its copy do."""
    with limits(500):
        worked(OPERATORS["rolling"], batches(1), tmp_path / "a", late=True)
        open_files = len(list(Path("/proc/self/fd").iterdir()))
        worked(OPERATORS["rolling"], batches(2), tmp_path / "b", late=True)
    assert open_files == len(list(Path("/proc/self/fd").iterdir()))
    assert not [path for path in tmp_path.rglob("tmp*") if path.is_file()]


@pytest.mark.parametrize("sizes", [[], [0], [3], [0, 5, 0, 7], [400, 1, 9_000, 2]])
@pytest.mark.parametrize("most", [0, 3, 100, 10**6])
def test_a_spool_returns_what_was_added(sizes: list[int], most: int, tmp_path: Path) -> None:
    """In memory or on disk, one by one, in slices and as a whole."""
    added = [bytes([n % 251]) * size for n, size in enumerate(sizes)]
    some = Spool(tmp_path / "new", most)
    some.extend(added[:1])
    some.extend(added[1:])
    assert (sum(sizes) > most) == some.on_disk
    assert added == list(some) == some[:] == [part.to_pybytes() for part in some.map_blobs()]
    assert (len(added), sum(sizes)) == (len(some), some.size)
    assert bool(added) == bool(some)
    mapped = some.map_blobs()
    some.reorder(range(len(added))[::-1])
    assert added[::-1] == list(some) == [part.to_pybytes() for part in some.map_blobs()]
    some.close()
    assert added == [part.to_pybytes() for part in mapped]


@pytest.mark.parametrize("damage", ["cut", "altered"])
@pytest.mark.parametrize("read", [list, Spool.map_blobs], ids=["one by one", "mapped"])
def test_a_spool_whose_file_was_damaged_is_an_error(
    damage: str, read: Callable[[Spool], object], tmp_path: Path
) -> None:
    """Rows are not left out, and no others are read."""
    some = Spool(tmp_path, 0)
    some.extend([b"a" * 500, b"b" * 500])
    some.reorder([1, 0])
    assert [b"b" * 500, b"a" * 500] == [bytes(blob) for blob in some.map_blobs()]
    assert some._file is not None
    if damage == "cut":
        os.truncate(some._file, 900)
    else:
        os.pwrite(some._file, b"c", 700)
    with pytest.raises(
        StateError, match=f"a file of rows in {tmp_path} was {damage}. Spark runs the task again"
    ):
        read(some)


def test_a_spool_without_room_says_where_it_is(tmp_path: Path) -> None:
    """The folder is a file: the error names it, and the option."""
    (tmp_path / "taken").write_text("")
    with pytest.raises(OSError, match=r"spark\.windows\.state\.directory.*taken"):
        Spool(tmp_path / "taken", 3).extend([b"1234"])


@pytest.mark.slow
def test_after_an_error_in_a_part_nothing_of_the_batch_counts(tmp_path: Path) -> None:
    """A batch that fails in its third part begins again from the state before it, though two parts were in the copy."""
    tables, folder = batches(7), tmp_path / "x"
    operator: Any = OPERATORS["rolling"]
    config = resolve("memory", {"state.directory": str(folder)})
    binding = operator.bind(SCHEMA, "t", config)
    job = Job(binding, config, (0,), WatermarkRule())
    with limits(2_000):
        expected = worked(operator, tables, tmp_path / "y", late=False)[0]
        journal, pointer = MemoryJournal(), replace(Pointer.fresh(), store_id="0" * 16)
        first = job.run(
            journal.get, Request(pointer, 0, 0, Call(0, 0), packed(binding, tables[0], folder))
        ).write_to(journal)
        committed = dict(journal._blobs)
        pointer = read_pointer(journal) or pointer
        newest = max(times(tables[0]))
        call = Call(max(0, newest - 150), 0)
        broken = packed(binding, tables[1], folder)
        columns = broken.rows.map_blobs()
        damaged = Blobs([*map(bytes, columns[:-1]), b"no blob"])
        with pytest.raises(pa.ArrowInvalid):
            job.run(journal.get, Request(pointer, 0, 1, call, damaged)).write_to(journal)
        journal._blobs = dict(committed)
        again = job.run(journal.get, Request(pointer, 0, 1, call, broken)).write_to(journal)
    found = [
        Counter(map(str, pa.concat_tables([binding.rows.empty_table(), *from_blobs(done.blobs)]).to_pylist()))
        for done in (first, again)
    ]
    assert expected[:2] == found
    drop_copy(config, pointer.store_id)


@pytest.mark.parametrize("at_once", [None, 2_000])
def test_rows_are_sent_one_blob_at_a_time(at_once: int | None, tmp_path: Path) -> None:
    """The process that has the copy may emit far more than it was sent: what waited for a day."""
    config = resolve("memory", {"state.directory": str(tmp_path)})
    operator: Any = OPERATORS["rolling, on arrival"]
    job = Job(operator.bind(SCHEMA, "t", config), config, (0,), WatermarkRule())
    sent = packed(job.binding, batches(1)[0], tmp_path)
    store_id = "0" * 15 + "1"
    request = Request(replace(Pointer.fresh(), store_id=store_id), 0, 0, Call(0, 0), sent)
    functions = Functions(Origin("run", "digest"), "warning", cloudpickle.dumps(job))
    one, other = socket.socketpair(socket.AF_UNIX)
    service = BucketService()
    service.take(Connection(other, 60))
    thread = Thread(target=service.serve_next, args=(60,), daemon=True)
    thread.start()
    with limits(at_once), Connection(one, 60) as process:
        heard, answer = converse(Conversation(functions, MemoryJournal(), request, Spool(tmp_path)), process)
        assert Heard.DONE is heard
        assert isinstance(answer, Done)
    thread.join()
    found = pa.concat_tables(from_blobs(answer.outcome.blobs))
    blobs = answer.outcome.blobs
    assert isinstance(blobs, Spool)
    assert blobs.on_disk == (at_once is not None)
    assert (at_once is not None) == (len(blobs) > 10)
    assert 60 == found.num_rows + sum(time is None for time in batches(1)[0].column("t").to_pylist())
    drop_copy(config, store_id)
