"""Bytes that the decoders accept: what the library writes."""

import atexit
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from operators import SlidingWindows
from operators import aggregates as agg
from operators.runtime.batch_clock import Call
from operators.spark.replicas.calls import Blobs, Done, Functions, Origin, Outcome, Request
from operators.spark.replicas.messages import (
    Asked,
    Emitted,
    Failed,
    Ready,
    Refused,
    Wanted,
    WantedFunctions,
    encode_answer,
    encode_functions,
    encode_request,
)
from serializers import PageLayout, encode_keys, pack_value
from serializers.rows import RowCodec
from state_backends import WriteBatch
from state_backends.checkpoints.savepoint import Savepoint, read_header
from state_backends.durability.changelog import entry_name, put_entry
from state_backends.durability.pointer import NO_VERSION, Pending, Pointer, Snapshot, new_version
from state_backends.durability.snapshots import Manifest, Part
from state_backends.journal import MemoryJournal

LAYOUTS = (PageLayout(("i8", "f8", "i8")), PageLayout(("i8", "object", "f8", "object")), PageLayout(("i8",)))


@cache
def pages(layout: PageLayout) -> list[bytes]:
    """Return pages of a few entries and of many."""
    counts = np.array([1, 3, 200])
    columns: list[Any] = []
    for code in layout.codes:
        if code == "object":
            values: Any = np.fromiter(([n, None, b"x"][n % 3] for n in range(204)), object, 204)
        else:
            values = np.arange(204).astype(f"<{code}")
        columns.append(values)
    nothing = [column if column.dtype != object else np.full(204, None) for column in columns]
    return layout.encode(columns, counts) + layout.encode(nothing, counts)


KEYS = pa.schema(
    [("a", pa.string()), ("b", pa.timestamp("us")), ("c", pa.decimal128(12, 2)), ("d", pa.date32())]
)


@cache
def keys() -> list[bytes]:
    """Return keys of these types."""
    columns = [["x", None], [5, None], [None, Decimal("7.25")], [3, None]]
    return encode_keys([pa.array(column, type_) for column, type_ in zip(columns, KEYS.types, strict=True)])


ROWS = pa.schema(
    [
        ("n", pa.int64()),
        ("s", pa.string()),
        ("l", pa.list_(pa.struct([("x", pa.float64()), ("y", pa.binary())]))),
        ("m", pa.map_(pa.string(), pa.list_(pa.int32()))),
        ("z", pa.list_(pa.null())),
        ("f", pa.bool_()),
    ]
)


@cache
def rows() -> list[bytes]:
    """Return blobs of rows of these types."""
    plain = [
        {
            "n": n,
            "s": "t" * n,
            "l": [{"x": 1.5, "y": b"z"}] * n,
            "m": [("k", [n, None])],
            "z": [None] * n,
            "f": True,
        }
        for n in range(4)
    ]
    return RowCodec(ROWS).encode(pa.Table.from_pylist([*plain, {}], ROWS), np.array([0, 2]))


BATCH = WriteBatch({n: {b"k%d" % n: b"p" * 40, b"": b""} for n in range(-2, 3)}, {5: {b"gone"}}, -7)


@cache
def pointer() -> Pointer:
    """Return the pointer of a local runner, with snapshots of each kind."""
    journal = stored_journal()
    found = Pointer.decode(journal.get("pointer") or b"")
    version = new_version(3)
    folder, name = "/somewhere/else", "3-0123456789abcdef"
    snapshots = (Snapshot(3, version, 10, folder, name), Snapshot(2, version, 9, parts=2))
    pending = Pending(Snapshot(4, version, 0, folder, "4-0123456789abcdef"), 50, 1.5, "host:7")
    return replace(found, snapshots=snapshots, retired=snapshots[:1], pending=pending)


@cache
def stored_journal() -> MemoryJournal:
    """Return the journal of a local runner after a batch."""
    operator = (
        SlidingWindows(size="10 ms", grace="1 s")
        .group_by("k")
        .aggregate(n=agg.count(), all=agg.collect_list("v"))
    )
    with operator.local_runner("at", "spark") as runner:
        runner.process(pa.table([["a", "b"] * 9, list(range(18)), ["v"] * 18], ["k", "at", "v"]))
        journal = runner._journal
    assert isinstance(journal, MemoryJournal)
    return journal


def stored(name: str) -> Callable[[], list[bytes]]:
    """Return what returns the blobs of the journal whose names begin so."""

    def found() -> list[bytes]:
        journal = stored_journal()
        return [journal.get(one) or b"" for one in journal._blobs if one.startswith(name)]

    return found


def slot_name() -> str:
    """Return the name of a slot of the journal."""
    return next(name for name in stored_journal()._blobs if name.startswith("slot"))


@cache
def entry() -> bytes:
    """Return a changelog entry."""
    journal = MemoryJournal()
    put_entry(journal, NO_VERSION, (1).to_bytes(8, "big") + b"12345678", BATCH)
    return journal.get(entry_name(1)) or b""


MANIFEST = Manifest(
    "0123456789abcdef", "00" * 16, "pages", (Part("part-0", "f-1", "ab", 5), Part("part-1", "f-2", "cd", 6))
)


@cache
def folder() -> Path:
    """Return a folder for files that are read, with a savepoint."""
    place = Path(tempfile.mkdtemp(prefix="hostile-"))
    atexit.register(shutil.rmtree, place, ignore_errors=True)
    operator = (
        SlidingWindows(size="10 ms", grace="1 s")
        .group_by("k")
        .aggregate(n=agg.count(), all=agg.collect_list("v"))
    )
    with operator.local_runner("at") as runner:
        runner.process(pa.table([["a", "b"] * 9, list(range(18)), ["v"] * 18], ["k", "at", "v"]))
        runner.savepoint(place / "savepoint")
    return place


@cache
def savepoint() -> Savepoint:
    """Return the savepoint."""
    return read_header(str(folder() / "savepoint"))


def saved_file() -> list[bytes]:
    """Return the file of its entries."""
    return [(folder() / "savepoint" / savepoint().files[0].name).read_bytes()]


QUERY = {
    "metadata": b'{"id":"0123"}',
    "offsets": b'v1\n{"batchWatermarkMs":0,"batchTimestampMs":1,"conf":{"a":"b"}}\n{"path":"x"}\n17',
    "commits": b'v1\n{"nextBatchWatermarkMs":5}',
}


VALUE = pack_value([None, True, -5, 2**70, 1.5, "t", b"b", {"k": [1, [2, [3]]]}, [list(range(20))] * 50])


def request() -> bytes:
    """Return what a task sends to the process that has a bucket's copy."""
    call = Call(1_700_000_000_000, 1_700_000_000_500, max_event_times_us=(1_700_000_000_000_000, None))
    blobs = Blobs([b"rows"], [b"partial", b"aggregates"])
    return encode_request(Asked(Origin("run", "digest"), Request(pointer(), 1, 7, call, blobs)))


def answers() -> list[bytes]:
    """Return what that process answers."""
    done = Done([("pointer", pointer().encode()), ("log-1", None)], Outcome([b"rows"], {"rows": 1}, None))
    others = Ready(), Emitted(b"rows"), Refused(), Failed("ValueError: bad"), WantedFunctions()
    return [encode_answer(answer) for answer in (Wanted("log-2"), done, *others)]


def functions() -> bytes:
    """Functions of an operator that are sent. What they are pickled as is not looked at before its sender is known."""
    return encode_functions(Functions(Origin("run", "digest"), "info", b"pickled"), ["/lib"])
