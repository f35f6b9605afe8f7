"""Files of savepoints: what is alike, large or long comes back as it was; what a file claims is not believed."""

import hashlib
import random
import zlib
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from operators import SlidingWindows
from operators import aggregates as agg
from operators.runtime.local import LocalRunner
from serializers import CorruptDataError, PageLayout
from serializers.blobs import BlobFormat
from state_backends.checkpoints import saved_files
from state_backends.checkpoints.saved_files import FILE_VERSION, SavedFile
from state_backends.checkpoints.savepoint import Savepoint, read_header
from state_backends.errors import StateError
from state_backends.store.schema import TIME, StoredSchema


@pytest.mark.slow
def test_states_that_are_much_alike_are_gone_on_from(tmp_path: Path) -> None:
    """A savepoint whose values take many MiB in memory and few bytes in the file starts a runner."""
    windows = SlidingWindows(size=10, grace=100).group_by("k").aggregate(all=agg.collect_list("v"))
    rows = 40 * 500
    names = [f"key {row % 40}" for row in range(rows)]
    texts = [name + "x" * 4_000 for name in names]
    with windows.local_runner("at") as runner:
        batch = pa.table([pa.array(names), pa.array([7] * rows), pa.array(texts)], ["k", "at", "v"])
        runner.process(batch)
        saved = runner.savepoint(tmp_path)
        expected = runner.process(batch.slice(0, 0), 1_000)
    assert (tmp_path / saved.files[0].name).stat().st_size < 2 << 20
    with windows.local_runner("at", options={"state.savepoint": saved.uri}) as moved:
        found = moved.process(batch.slice(0, 0), 1_000)
    assert expected.sort_by("k").equals(found.sort_by("k"))
    assert 40 * 500 == sum(map(len, expected["all"].to_pylist()))


@pytest.fixture
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files of 30 kB, of which a few are read at once."""
    monkeypatch.setattr(saved_files, "_FILE_BYTES", 30_000)
    monkeypatch.setattr(saved_files, "_AT_ONCE_BYTES", 100_000)


@pytest.mark.slow
@pytest.mark.usefixtures("small_parts")
def test_long_keys_and_states_come_in_parts(tmp_path: Path) -> None:
    """The rows of a runner that starts from many small parts are those of one that goes on; each part has all of its keys."""
    rng = random.Random(7)
    windows = SlidingWindows(size=50, grace=500).group_by("k")
    operator = windows.aggregate(n=agg.count(), all=agg.collect_list("v"))
    names = [f"{number} " + "k" * rng.choice([5, 10_000, 70_000]) for number in range(30)]
    rows = [(rng.choice(names), rng.randrange(400), "v" * rng.randrange(900)) for _ in range(400)]
    batch = pa.table(dict(zip(("k", "at", "v"), zip(*rows, strict=True), strict=True)))
    with operator.local_runner("at", options={"state.segment": "60 ms"}) as runner:
        runner.process(batch)
        saved = runner.savepoint(tmp_path)
        expected = runner.process(batch.slice(0, 0), 10_000)
    assert 20 < len(saved.files)
    parts = [keys for _, keys, _ in read_header(saved.uri).groups(0, 1)]
    assert 5 < len(parts)
    assert len({name for part in parts for name in part}) == sum(map(len, parts))
    with operator.local_runner("at", options={"state.savepoint": saved.uri}) as moved:
        found = moved.process(batch.slice(0, 0), 10_000)
    assert sorted(map(repr, expected.to_pylist())) == sorted(map(repr, found.to_pylist()))


@pytest.mark.slow
def test_more_than_two_gib_of_keys_come_back(tmp_path: Path) -> None:
    """Each entry of a file repeats its key, also where all together are more than the offsets of a column reach."""
    operator = SlidingWindows(size=10, grace=10_000).group_by("k").aggregate(n=agg.count())
    names = [letter * (1 << 20) for letter in "abc"]
    batches = [pa.table([names * 250, range(at, at + 750)], ["k", "at"]) for at in (0, 750, 1_500)]
    with operator.local_runner("at") as runner:
        for batch in batches:
            runner.process(batch)
        saved = runner.savepoint(tmp_path)
        expected = times(runner)
    assert 2_250 == sum(one.rows for one in saved.files)
    with operator.local_runner("at", options={"state.savepoint": saved.uri}) as moved:
        moved.process(batches[0].slice(0, 0))
        assert expected == times(moved)


def times(runner: LocalRunner) -> dict[bytes, list[int]]:
    """Of each key, by its last letter, the times of the entries that a runner stores."""
    found: dict[bytes, list[int]] = {}
    for keys, entries in runner.store.scan():
        for number, key in enumerate(keys):
            found.setdefault(key[-1:], []).extend(entries.time[entries.key == number].tolist())
    return found


PAGE = PageLayout(("i8",)).encode([np.array([5])], np.array([1]))[0]
KEYS = sorted((b"one", b"other", b"third"), key=zlib.crc32)


def forged(folder: Path, blob: bytes, size: int | None = None) -> Savepoint:
    """A savepoint of one file with these bytes, whose header agrees."""
    (folder / "a file").write_bytes(blob)
    size = len(blob) if size is None else size
    file = SavedFile("a file", 3, size, hashlib.sha256(blob).hexdigest(), 0, 0, 2**32)
    schema = StoredSchema(pa.schema([]), 1_000, 0, 10, (("time", TIME),), ())
    return Savepoint(str(folder), {}, schema, 0, (file,), {})


def test_files_that_a_header_describes_wrongly_are_refused(tmp_path: Path) -> None:
    """A file of another size, or with pages in another order, whoever wrote its digest."""
    form = BlobFormat(b"SWSP", FILE_VERSION)
    good = form.encode([KEYS, [PAGE] * 3])
    ((_, keys, entries),) = forged(tmp_path, good).groups(0, 1)
    assert (KEYS, [5] * 3) == (keys, entries.time.tolist())
    for blob, size, message in (
        (good, len(good) - 1, "is truncated or altered"),
        (form.encode([KEYS[::-1], [PAGE] * 3]), None, "pages that are not in the order"),
        (form.encode([KEYS, [PAGE] * 2]), None, "a form that this library does not write"),
        (b"PAR1 and more", None, "was not written by this library"),
    ):
        with pytest.raises(CorruptDataError, match=message):
            list(forged(tmp_path, blob, size).groups(0, 1))


def test_offsets_of_kafka_are_what_a_new_query_begins_with() -> None:
    """As the option takes them; a source that is not Kafka's is refused with what it has."""
    offsets = {"clicks": {"0": 3, "2": 7}}
    saved = Savepoint("there", {}, None, 0, (), {"sources": [{"logOffset": 4}, offsets]})
    assert '{"clicks": {"0": 3, "2": 7}}' == saved.starting_offsets(1)
    for source in (0, 2, -1):
        with pytest.raises(
            StateError, match=rf"source {source} of the savepoint there has no offsets of Kafka.*logOffset"
        ):
            saved.starting_offsets(source)
