"""The pictures of how-it-works.md. Layers, names, bytes and the order of calls are those of the code."""

import struct
from collections.abc import Callable, Sequence
from dataclasses import fields
from importlib import import_module
from inspect import getdoc
from pathlib import Path
from textwrap import wrap

import pyarrow as pa

from docs.pictures.drawing import WIDTH, Drawing
from operators import HoppingWindows, LocalRunner
from operators import aggregates as agg
from operators.aggregates.state_words import in_words
from serializers import encode_keys
from serializers.changes import CHANGES_VERSION, EDITS_VERSION
from serializers.keys import bucket_of
from state_backends.backends.memory import MemoryBackend
from state_backends.durability.changelog import entry_name, put_entry
from state_backends.durability.durable import Durable
from state_backends.durability.pointer import NO_VERSION, Pointer
from state_backends.durability.progress import Progress
from state_backends.durability.snapshots import Manifest, Part
from state_backends.interface import WriteBatch
from state_backends.journal import Blob, MemoryJournal
from tests.test_architecture import ORDER, PACKAGES

ROOT = Path(__file__).parents[2]
BUCKETS = 8
DEPARTURES = pa.table(
    {
        "origin": ["EWR", "EWR", "EWR", "JFK"],
        "departed": pa.array([10_000, 65_000, 70_000, 5_000], pa.timestamp("ms")),
        "delay": [4, 25, -3, 7],
    }
)
SHOWN = 1
"""The row of `DEPARTURES` whose way is drawn."""
OPERATOR = (
    HoppingWindows("3 minutes", "1 minute")
    .group_by("origin")
    .aggregate(flights=agg.count(), worst=agg.max("delay"))
)


def layers() -> str:
    """The packages and their folders, in the order in which the tests of architecture let them import."""
    drawing, y = Drawing(), 18.0
    for package in reversed(PACKAGES):
        drawing.box(16, y, WIDTH - 32, 24, "", "a")
        drawing.text(26, y + 16.5, f"{package}/", "bold")
        drawing.text(150, y + 16.5, _purpose(package), "dim")
        y += 32
        for rank in reversed(ORDER.get(package, ())):
            for name in rank.split():
                if not (ROOT / package / name).is_dir():
                    continue
                lines = wrap(_purpose(f"{package}.{name}"), 92)
                drawing.text(40, y + 13, name, "mono")
                for line in lines:
                    drawing.text(150, y + 13, line, "dim")
                    y += 17
        y += 14
    return drawing.svg(int(y), "Packages and folders: each imports only what is below it")


def _purpose(name: str) -> str:
    """The first sentence of a package's documentation."""
    return (getdoc(import_module(name)) or "").partition("\n")[0].rstrip(".").replace("`", "")


def record() -> str:
    """The way of one record to a page, and of its window out of it, with the names and numbers of the example."""
    key = encode_keys([DEPARTURES.column("origin").combine_chunks()])[SHOWN]
    bucket = bucket_of(key, BUCKETS)
    with OPERATOR.local_runner("departed") as runner:
        runner.process(DEPARTURES)
        segment = runner.store.segments()[0]
        time = DEPARTURES.column("departed").cast(pa.int64())[SHOWN].as_py()
        pane = next(row for row in _columns(runner, segment, key) if row[0] <= time < row[0] + 60_000)
        closed = runner.process(DEPARTURES.slice(0, 0), stream_time=10**6)
        states = [name for name, _ in _heads(runner)]
    row = next(row for row in closed.to_pylist() if row["flights"] == len(DEPARTURES) - 1)
    steps = (
        ("a row of the DataFrame", f"EWR, {time // 1_000} s, delay 25", "", "none"),
        ("key as bytes", key.hex(" "), "serializers/keys.py", "a"),
        ("bucket", f"{bucket} of {BUCKETS}, by the key's CRC-32", "operators/spark/inputs/packing.py", "a"),
        ("shuffle", "one blob for each bucket", "operators/spark/inputs/blobs.py", "none"),
        ("late?", "no: its last window is open", "operators/steps/lateness.py", "b"),
        ("pane", f"{pane[0] // 1_000} s: {_named(states[1:], pane[1:])}", "operators/steps/panes.py", "b"),
        ("page", f"segment {segment}, key EWR", "state_backends/store/window_store.py", "b"),
        (
            "window, once it has closed",
            f"{row['window']['start']:%H:%M} to {row['window']['end']:%H:%M}: {row['flights']} flights, worst {row['worst']}",
            "operators/kinds/hopping.py",
            "b",
        ),
        ("rows of the result", "unpacked from the bucket's blobs", "operators/steps/emission.py", "none"),
    )
    drawing, y = Drawing(), 16.0
    for number, (name, value, module, kind) in enumerate(steps):
        drawing.box(16, y, 186, 28, name, kind)
        drawing.text(216, y + 18.5, value, "mono")
        drawing.text(WIDTH - 16, y + 18.5, _existing(module), "dim end")
        y += 28
        if number + 1 < len(steps):
            drawing.line(109, y, 109, y + 10, "strong")
            y += 10
    drawing.text(16, y + 24, "outlined: Spark's processes", "dim")
    drawing.text(216, y + 24, "blue: a Python worker of the first task", "dim")
    drawing.text(480, y + 24, "orange: the process that has the bucket", "dim")
    return drawing.svg(int(y) + 40, "The life of a record")


def _heads(runner: LocalRunner) -> list[tuple[str, str]]:
    """Name and code of each column of a page, in order."""
    stored = runner._binding.stored_schema()  # noqa: SLF001 - what the page shows is inside
    states = [(in_words(state.name), code) for state in stored.states for _, code in state.parts]
    return [(name, "i8") for name, _ in stored.head] + states


def _columns(runner: LocalRunner, segment: int, key: bytes) -> list[tuple[int, ...]]:
    """The entries of a key's page."""
    (page,) = runner.store.backend.get_many(segment, [key])
    columns, _ = runner.store.layout.decode([page])
    return list(zip(*(column.tolist() for column in columns), strict=True))


def _named(names: Sequence[str], values: Sequence[int]) -> str:
    return ", ".join(f"{name} {value}" for name, value in zip(names, values, strict=True))


def _existing(module: str) -> str:
    """The path, which has to be there."""
    if module and not (ROOT / module).is_file():
        raise FileNotFoundError(f"how-it-works.md names {module}, which does not exist")
    return module


class _Noted(MemoryJournal):
    """A journal that notes what is done with it."""

    def __init__(self, calls: list[str]) -> None:
        super().__init__()
        self._calls = calls

    def put(self, name: str, blob: Blob) -> None:
        self._calls.append(f"put {name}")
        super().put(name, blob)

    def commit(self) -> None:
        self._calls.append("commit")
        super().commit()


class _NotedBackend(MemoryBackend):
    """A backend that notes what is written to it."""

    calls: list[str]

    def write(self, batch: WriteBatch, version: bytes) -> None:
        self.calls.append(f"write {struct.unpack('>Q', version[:8])[0]}")
        super().write(batch, version)


def commit() -> str:
    """The order of what is said and written while a bucket works on a batch; the writes are those that the code makes."""
    said: tuple[tuple[int, int, str], ...] = (
        (3, 0, "pointer: version 7"),
        (0, 1, "request: pointer, rows"),
        (1, 2, "which version?"),
        (2, 1, "5: behind"),
        (1, 0, "wanted: log-6, log-7"),
        (0, 1, "their bytes"),
        (1, 2, "write 6, write 7"),
        (1, 2, "read, step, write 8"),
        (1, 0, "done: what to write"),
        (0, 3, "put log-8"),
        (0, 3, "put pointer"),
        (0, 4, "rows"),
        (0, 3, "commit, at the end of the task"),
        (4, 3, "commit log: the batch counts"),
    )
    _require_calls()
    lanes = ("task", "state process", "local copy", "Spark's state store", "sink and driver")
    left, wide = 72, 154
    drawing, y = Drawing(), 56.0
    bottom = y + 30 * len(said)
    for number, lane in enumerate(lanes):
        x = left + wide * number
        drawing.box(x - 64, 16, 128, 24, lane, "ab"[number in (1, 2)])
        drawing.line(x, 40, x, bottom, "dash")
    for sender, receiver, words in said:
        y += 30
        x, x2 = left + wide * sender, left + wide * receiver
        last = words.startswith("commit log")
        drawing.arrow(x, y, x2, y, "warn" if last else "strong")
        drawing.text(WIDTH - 6 if last else (x + x2) / 2, y - 6, words, f"{'end' if last else 'mid'} dim")
    return drawing.svg(int(bottom) + 20, "The life of a batch's commit")


def _require_calls() -> None:
    """Stop if a commit writes anything else, or in another order, than the picture has."""
    calls: list[str] = []
    backend = _NotedBackend()
    backend.calls = calls
    durable = Durable(backend, "memory", ROOT / "build")
    journal, pointer = _Noted(calls), Pointer.fresh()
    for _ in range(2):
        calls.clear()
        pointer = durable.align(journal, pointer).pointer
        pointer = durable.commit(
            journal, pointer, WriteBatch(puts={0: {b"EWR": b"page"}}), Progress(buckets=1)
        )
    if calls != ["write 2", "put log-2", "put pointer", "commit"]:
        raise ValueError(f"how-it-works.md has another order of writes than {calls}")


def disk() -> str:
    """The bytes of a page, a changelog entry, a pointer and a manifest."""
    drawing = Drawing()
    y = _page(drawing, 30)
    y = _entry(drawing, y + 20)
    y = _pointer(drawing, y + 20)
    y = _manifest(drawing, y + 20)
    return drawing.svg(int(y) + 6, "What is on disk, to the byte")


def _page(drawing: Drawing, y: float) -> float:
    key = encode_keys([pa.array(["EWR"])])[0]
    with OPERATOR.local_runner("departed") as runner:
        runner.process(DEPARTURES)
        segment = runner.store.segments()[0]
        (page,) = runner.store.backend.get_many(segment, [key])
        names, width = [name for name, _ in _heads(runner)], runner.store.layout.width
    drawing.text(16, y, f"a page: {len(page)} bytes in words of 8, little-endian, under its key", "bold")
    drawing.text(462, y, key.hex(" "), "mono")
    y += 14
    heads = ("magic 2, version 2, entries 4", "layout's CRC-32 4, tail's length 4", "checksum", "zero")
    wide = (WIDTH - 92) / width
    for number in range(len(page) // (8 * width)):
        titles = heads[:width] if number == 0 else names
        drawing.text(16, y + 26, "header" if number == 0 else f"entry {number}", "dim")
        for column, title in enumerate(titles):
            at = 8 * (number * width + column)
            x = 76 + column * wide
            drawing.box(x, y + 12, wide - 4, 22, "", "b" if number == 0 else "a")
            drawing.text(x + (wide - 4) / 2, y + 27, page[at : at + 8].hex(" "), "tiny mid")
            drawing.text(x + 2, y + 8, title, "note")
        y += 42
    return y


def _entry(drawing: Drawing, y: float) -> float:
    version = struct.pack(">Q8s", 1, bytes(range(0xA0, 0xA8)))
    journal = MemoryJournal()
    put_entry(journal, NO_VERSION, version, WriteBatch(puts={0: {b"EWR": b"page"}}))
    blob = journal.get(entry_name(1)) or b""
    if blob[36:41] != b"SWCL" + bytes([CHANGES_VERSION]) or EDITS_VERSION != CHANGES_VERSION:
        raise ValueError("how-it-works.md has another head of changelog entries than the code")
    parts = (
        ("version before: number 8, token 8", blob[:16]),
        ("version after", blob[16:32]),
        ("CRC-32 of both", blob[32:36]),
        ("format", blob[36:40]),
        ("its version", blob[40:41]),
        ("CRC-32 of the rest", None),
        ("changes", None),
    )
    drawing.text(16, y, "a changelog entry, log-1", "bold")
    return _strip(drawing, y + 14, parts, ("4 bytes", "zstd of msgpack"))


def _strip(
    drawing: Drawing, y: float, parts: Sequence[tuple[str, bytes | None]], last: Sequence[str]
) -> float:
    """Parts one after another, two lines at most."""
    words = iter(last)
    x = 16.0
    for title, data in parts:
        text = next(words) if data is None else data.hex(" ")
        wide = max(len(text) * 6.1 + 10, len(title) * 5.2 + 6)
        if x + wide > WIDTH - 10:
            x, y = 16.0, y + 42
        drawing.box(x, y + 12, wide - 4, 22, "", "a" if data is None else "b")
        drawing.text(x + (wide - 4) / 2, y + 27, text, "tiny mid")
        drawing.text(x + 2, y + 8, title, "note")
        x += wide
    return y + 42


def _pointer(drawing: Drawing, y: float) -> float:
    blob = Pointer("00112233aabbccdd").encode()
    names = [field.name for field in fields(Pointer)]
    parts = (
        ("version", blob[:1]),
        ("list", blob[1:2]),
        ("msgpack", None),
        ("CRC-32 of all before", blob[-4:]),
    )
    drawing.text(16, y, "the pointer", "bold")
    return _strip(drawing, y + 14, parts, (" ".join(names),))


def _manifest(drawing: Drawing, y: float) -> float:
    part = Part("000012.sst", "DIGEST-12-TOKEN", "DIGEST", 1_048_576)
    blob = Manifest("00112233aabbccdd", "VERSION", "rocksdb", (part,)).encode()
    check, _, body = blob.partition(b"\n")
    drawing.text(16, y, "a manifest, STORE/12-TOKEN.json", "bold")
    lines = [f"{len(check)} hex digits: SHA-256 of what follows", *body.decode().splitlines()]
    for number, line in enumerate(lines):
        drawing.text(16 + 7.2 * (len(line) - len(line.lstrip())), y + 20 + 15 * number, line.strip(), "mono")
    return y + 24 + 15 * len(lines)


PICTURES: dict[str, Callable[[], str]] = {"layers": layers, "record": record, "commit": commit, "disk": disk}
"""By the names of their files."""
