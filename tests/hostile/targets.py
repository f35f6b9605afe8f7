"""Everything that is read back, as functions of bytes: what each accepts, how to forge it, and what it may raise."""

import atexit
import hashlib
import random
import shutil
import tempfile
import zlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import zstandard

from operators import SlidingWindows
from operators import aggregates as agg
from serializers import CorruptDataError, NewerFormatError, PageLayout, decode_keys, encode_keys, pack_value
from serializers.changes import decode_changes, encode_changes
from serializers.rows import RowCodec
from serializers.values import unpack_value
from state_backends import StateError, WriteBatch
from state_backends.backends.journaled import JournalBackend
from state_backends.checkpoints.query import stored_query
from state_backends.checkpoints.savepoint import HEADER, Savepoint, read_header
from state_backends.durability.changelog import entries, entry_name, put_entry
from state_backends.durability.pointer import NO_VERSION, Pending, Pointer, Snapshot, new_version
from state_backends.durability.snapshots import Manifest, Part
from state_backends.journal import MemoryJournal
from tests.hostile.mutate import mutated, packed, written

DOCUMENTED = (CorruptDataError, NewerFormatError, StateError)
Mutate = Callable[[random.Random, bytes], bytes]


@dataclass(frozen=True)
class Target:
    """A decoder.

    Attributes:
        name: of what it reads.
        seeds: bytes that it accepts.
        read: decodes, and looks at what came out as the library does.
        forge: changes the content of a seed, and makes its checksums right again; None if there are none.
    """

    name: str
    seeds: Callable[[], list[bytes]]
    read: Callable[[bytes], object]
    forge: Mutate | None = None

    def example(self, rng: random.Random) -> bytes:
        """Return bytes: any, altered ones, or forged ones."""
        seed = rng.choice(self.seeds())
        how = rng.randrange(8)
        if how == 0:
            return rng.randbytes(rng.choice((0, 1, 5, 24, 100, 1_000)))
        if how <= 2 or self.forge is None:
            return mutated(rng, seed)
        return self.forge(rng, seed)


def sealed_blob(at: int, name: str) -> Mutate:
    """Return what forges the blobs of a format.

    Args:
        at: bytes before its checksum.
        name: of the blob.
    """

    def forge(rng: random.Random, blob: bytes) -> bytes:
        body = blob[at + 4 :]
        content = zstandard.ZstdDecompressor().decompress(body)
        forged = zstandard.ZstdCompressor(level=1).compress(packed(rng, content))
        body = forged if rng.randrange(4) else mutated(rng, body)
        return blob[:at] + zlib.crc32(body, zlib.crc32(name.encode())).to_bytes(4, "big") + body

    return forge


def forge_entry(rng: random.Random, blob: bytes) -> bytes:
    """Return a changelog entry with other versions or other changes."""
    if rng.randrange(3):
        return blob[:36] + sealed_blob(5, "")(rng, blob[36:])
    versions = mutated(rng, blob[:32]).ljust(32)[:32]
    return versions + zlib.crc32(versions).to_bytes(4, "big") + blob[36:]


def forge_signed(rng: random.Random, blob: bytes) -> bytes:
    """Return a signed file with other content."""
    body = blob.partition(b"\n")[2]
    body = written(rng, body) if rng.randrange(4) else mutated(rng, body)
    return hashlib.sha256(body).hexdigest().encode() + b"\n" + body


def forge_pointer(rng: random.Random, blob: bytes) -> bytes:
    """Return a pointer with other fields, and with a checksum or without."""
    blob = blob[:1] + packed(rng, blob[1:])
    return blob[:-4] + zlib.crc32(blob[:-4]).to_bytes(4, "big") if rng.randrange(2) else blob


LAYOUTS = (PageLayout(("i8", "f8", "i8")), PageLayout(("i8", "object", "f8", "object")), PageLayout(("i8",)))


def forge_page(layout: PageLayout) -> Mutate:
    """Return what changes a page's words or objects, and makes its checksum right."""

    def forge(rng: random.Random, page: bytes) -> bytes:
        columns, counts = layout.decode([page])
        rows = int(counts[0])
        (again,) = layout.encode(columns, counts)
        edge = len(again) if "object" not in layout.codes else (rows + 1) * 8 * layout.width
        tail = packed(rng, again[edge:]) if edge < len(again) else b""
        body = mutated(rng, again[24:edge]) if rng.randrange(2) else again[24:edge]
        return _sealed_page(layout, again[:24] + body, tail)

    return forge


def _sealed_page(layout: PageLayout, page: bytes, tail: bytes) -> bytes:
    """The page with the length of its tail, and its checksum."""
    width = layout.width
    page = page[: len(page) // (8 * width) * 8 * width].ljust(8 * width, b"\0")
    head = np.frombuffer(page[:16], "<u8").copy()
    head[1] = (len(tail) << 32) | layout.fingerprint
    body = np.frombuffer(page[8 * width :], "<u8")
    by_column = page[2:4] == b"\2\0" and len(body) >= 128 * width
    words = body.reshape(width, -1).T if by_column else body.reshape(-1, width)
    used = sum(code != "object" for code in layout.codes)
    weights = 2 * np.arange(width, dtype="<u8") + 1
    with np.errstate(over="ignore"):
        total = (words[:, :used] * weights[:used]).sum(dtype="<u8") + head[0] + head[1] * np.uint64(3)
        total += np.uint64(zlib.crc32(tail) if "object" in layout.codes else 0)
    return head.tobytes() + np.uint64(total).tobytes() + page[24:] + tail


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


def read_keys(key: bytes) -> object:
    """Read a key with others, so many that they may be read as columns. Values of other types are refused by Arrow."""
    try:
        return [decode_keys([*keys() * times, key], KEYS.types) for times in (1, 40)]
    except (pa.ArrowException, ValueError, OverflowError) as error:
        raise CorruptDataError(str(error)) from error


def forge_key(rng: random.Random, key: bytes) -> bytes:
    """Return a key with other values."""
    return key[:1] + packed(rng, key[1:])


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


def read_slots(name: str, blob: bytes) -> object:
    """Read all pages of a journal in which one blob is another."""
    journal = MemoryJournal()
    for one in stored_journal()._blobs:
        journal.put(one, stored_journal().get(one) or b"")
    journal.put(name, blob)
    backend = JournalBackend.open(Path("/nowhere"), {})
    backend.attach(journal)
    return [dict(backend.iterate(segment)) for segment in backend.segments()]


@cache
def entry() -> bytes:
    """Return a changelog entry."""
    journal = MemoryJournal()
    put_entry(journal, NO_VERSION, (1).to_bytes(8, "big") + b"12345678", BATCH)
    return journal.get(entry_name(1)) or b""


def read_entry(blob: bytes) -> object:
    """Read a changelog entry, and its changes."""
    journal = MemoryJournal()
    journal.put(entry_name(1), blob)
    last = replace(Pointer.fresh(), number=1, version=(1).to_bytes(8, "big") + b"12345678")
    return [one.changes() for one in entries(journal, 0, NO_VERSION, last)]


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


def read_savepoint(blob: bytes) -> object:
    """Read a savepoint with this header."""
    place = folder() / "header"
    if not place.exists():
        shutil.copytree(folder() / "savepoint", place)
    (place / HEADER).write_bytes(blob)
    header = read_header(str(place))
    assert all(is_inside(place, saved.file) for saved in header.buckets)
    return list(header.groups(0, 1))


def is_inside(place: Path, name: str) -> bool:
    """Whether a file of that name is in the folder."""
    return place.resolve() in Path(f"{place}/{name}").resolve().parents


def read_manifest(blob: bytes) -> object:
    """Read a manifest."""
    manifest = Manifest.decode(blob, "here")
    place = Path("/nowhere")
    for part in manifest.parts:
        assert [place, place] == [(place / name).resolve().parent for name in (part.name, part.file)]
    return manifest


def read_pointer(blob: bytes) -> object:
    """Read a pointer, and write it again."""
    found = Pointer.decode(blob)
    assert found == Pointer.decode(found.encode()) or "nan" in repr(found).lower()
    for snapshot in (*found.snapshots, *found.retired):
        assert is_inside(Path("/nowhere"), f"{found.store_id}/{snapshot.name}.json")
    return found


@cache
def savepoint() -> Savepoint:
    """Return the savepoint."""
    return read_header(str(folder() / "savepoint"))


def saved_file() -> list[bytes]:
    """Return the file of its entries."""
    return [(folder() / "savepoint" / savepoint().buckets[0].file).read_bytes()]


def read_saved(blob: bytes) -> object:
    """Read a savepoint whose file has these bytes, and whose header agrees."""
    (folder() / "file").mkdir(exist_ok=True)
    (folder() / "file" / "entries.parquet").write_bytes(blob)
    saved = replace(savepoint().buckets[0], file="entries.parquet", digest=hashlib.sha256(blob).hexdigest())
    rows = BOMB_ROWS if len(blob) > BOMB_BYTES else saved.rows
    altered = replace(savepoint(), uri=str(folder() / "file"), buckets=(replace(saved, rows=rows),))
    return list(altered.groups(0, 1))


BOMB_ROWS, BOMB_BYTES = 40_000_000, 1 << 20
"""Of the one file of entries that is large: its header says how many rows it has."""
QUERY = {
    "metadata": b'{"id":"0123"}',
    "offsets": b'v1\n{"batchWatermarkMs":0,"batchTimestampMs":1,"conf":{"a":"b"}}\n{"path":"x"}\n17',
    "commits": b'v1\n{"nextBatchWatermarkMs":5}',
}


def read_query(name: str, blob: bytes) -> object:
    """Read what the files of a checkpoint say, one of which has these bytes."""
    place = folder() / "query"
    for one, content in {**QUERY, name: blob}.items():
        file = place / one if one == "metadata" else place / one / "0"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content)
    return stored_query(str(place))


def forge_lines(rng: random.Random, blob: bytes) -> bytes:
    """Return lines with one value of a line of JSON replaced."""
    lines = blob.split(b"\n")
    at = rng.choice([number for number, line in enumerate(lines) if line.startswith(b"{")])
    return b"\n".join([*lines[:at], written(rng, lines[at]), *lines[at + 1 :]])


def forge_value(rng: random.Random, data: bytes) -> bytes:
    """Return a value with another in it."""
    return packed(rng, data)


VALUE = pack_value([None, True, -5, 2**70, 1.5, "t", b"b", {"k": [1, [2, [3]]]}, [list(range(20))] * 50])


def targets() -> list[Target]:
    """Return all decoders."""
    return [
        Target("value", lambda: [VALUE], unpack_value, forge_value),
        *(
            Target(
                f"page {number}",
                lambda one=one: pages(one),
                lambda page, one=one: one.decode([page]),
                forge_page(one),
            )
            for number, one in enumerate(LAYOUTS)
        ),
        Target("key", keys, read_keys, forge_key),
        Target("rows", rows, lambda blob: RowCodec(ROWS).decode([blob])),
        Target(
            "changes",
            lambda: [encode_changes(BATCH.puts, BATCH.deletes, 3)],
            decode_changes,
            sealed_blob(5, ""),
        ),
        Target("entry", lambda: [entry()], read_entry, forge_entry),
        Target("index", stored("index"), lambda blob: read_slots("index", blob), sealed_blob(5, "index")),
        Target(
            "slot",
            stored(slot_name()),
            lambda blob: read_slots(slot_name(), blob),
            sealed_blob(5, slot_name()),
        ),
        Target(
            "pointer", lambda: [pointer().encode(), Pointer.fresh().encode()], read_pointer, forge_pointer
        ),
        Target("manifest", lambda: [MANIFEST.encode()], read_manifest, forge_signed),
        Target(
            "savepoint header",
            lambda: [(folder() / "savepoint" / HEADER).read_bytes()],
            read_savepoint,
            forge_signed,
        ),
        Target("savepoint file", saved_file, read_saved),
        *(
            Target(
                f"query {name}",
                lambda blob=blob: [blob],
                lambda blob, name=name: read_query(name, blob),
                forge_lines,
            )
            for name, blob in QUERY.items()
        ),
    ]
