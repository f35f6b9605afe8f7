"""Savepoints and open_bucket buckets: every value comes back as it was, damage is told by file, and nothing else is touched."""

import json
import random
import tempfile
import zlib
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import fields, replace
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from aggregate_cases import CASES, Case, Row, plain
from feeds import BACKENDS, KINDS, Feed, operator
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from operators import SlidingWindows, TumblingWindows
from operators import aggregates as agg
from operators.runtime.local import LocalRunner
from serializers import CorruptDataError, NewerFormatError, encode_keys
from state_backends import StateError
from state_backends.checkpoints.open_bucket import open_bucket
from state_backends.checkpoints.savepoint import HEADER, SAVEPOINT_VERSION, read_header
from state_backends.durability.signed import decode_signed, encode_signed
from state_backends.journal import Journal, MemoryJournal
from state_backends.sqlite_journal import SqliteJournal
from state_backends.store.schema import NUMBER, TIME, StoredSchema, StoredState
from tests.effort import examples
from tests.serializers.test_keys import COLUMNS

CHUNK = 12
NAMES = [sorted(CASES)[at : at + CHUNK] for at in range(0, len(CASES), CHUNK)]
WINDOWS = TumblingWindows(size=10, grace=5).group_by("k").emit("on_update")


def go_on(runner: LocalRunner, op: Any, folder: Path, backend: str, time: str = "at") -> LocalRunner:
    """A runner on another backend that starts from a savepoint of this one."""
    saved = runner.savepoint(folder)
    return op.local_runner(time, backend, options={"state.savepoint": saved.uri})


@pytest.mark.parametrize("name", COLUMNS)
def test_keys_of_all_types(name: str, tmp_path: Path) -> None:
    """Groups of keys of each type, null among them, are the same groups after a move, and in all of the buckets together."""
    type_, values = COLUMNS[name]
    keys = pa.array([*values, None], type_)
    table = pa.table([keys, pa.array([3] * len(keys))], ["k", "at"])
    op = WINDOWS.aggregate(n=agg.count())
    with op.local_runner("at") as runner:
        runner.process(table)
        with go_on(runner, op, tmp_path / "savepoint", "rocksdb") as moved:
            emitted = moved.process(table)
    assert [2] * len(keys) == emitted["n"].to_pylist()
    assert keys.to_pylist() == emitted["k"].to_pylist()
    saved = read_header(str(tmp_path / "savepoint"))
    found = [key for n in range(5) for _, names, _ in saved.groups(n, 5) for key in names]
    assert sorted(encode_keys([keys])) == sorted(found)
    ((_, names, entries),) = saved.groups(0, 1)
    read = saved.schema.table(names, entries.key, entries.columns)["k"]
    assert (type_, set(map(repr, keys.to_pylist()))) == (read.type, set(map(repr, read.to_pylist())))


def test_keys_of_one_crc(tmp_path: Path) -> None:
    """Keys that nothing but their bytes tells apart keep what is theirs, in order, over several segments."""
    names = ["20b6bf6-bcbe82ef1e", "bf3d7f-62d17654ba"]
    first, second = encode_keys([pa.array(names)])
    assert zlib.crc32(first) == zlib.crc32(second)
    op = SlidingWindows(size=100, grace=1000).group_by("k").aggregate(all=agg.collect_list("v"))
    times = [time for time in range(0, 60, 3) for _ in names]
    batch = pa.table([names * 20, times, list(range(40))], ["k", "at", "v"])
    with op.local_runner("at", options={"state.segment": "7 ms"}) as runner:
        runner.process(batch)
        with go_on(runner, op, tmp_path / "savepoint", "memory") as moved:
            expected, found = (one.process(batch.slice(0, 0), 5000).to_pylist() for one in (runner, moved))
    assert expected
    assert sorted(map(repr, expected)) == sorted(map(repr, found))


def side_by_side(names: Sequence[str]) -> Mapping[str, Case]:
    """Cases whose aggregates read columns of their own."""
    found = {}
    for number, name in enumerate(names):
        given = replace(over_columns(CASES[name].aggregate, number), where="ok")
        found[f"r{number}"] = replace(CASES[name], aggregate=given)
    return found


def over_columns(given: Any, number: int) -> Any:
    """The aggregate over the columns of a number."""
    changes: dict[str, Any] = {}
    for field in fields(given):
        value = getattr(given, field.name)
        if field.name in ("column", "order", "other") and value is not None:
            changes[field.name] = f"{value}{number}"
        if field.name == "columns":
            changes["columns"] = tuple(f"{column}{number}" for column in value)
        if field.name == "of":  # each category's aggregate
            changes["of"] = over_columns(value, number)
    return replace(given, **changes)


def columns_of(cases: Mapping[str, Case], rows: Mapping[str, Sequence[Row]]) -> pa.Table:
    """Rows of each case, as many for each, as one table; the event times and `where` are those of the first case."""
    first = next(iter(rows.values()))
    columns = {
        "k": pa.array((["a", "b"] * len(first))[: len(first)], pa.string()),
        "at": pa.array([row.time for row in first], pa.int64()),
        "ok": pa.array([row.ok for row in first], pa.bool_()),
    }
    for number, (name, case) in enumerate(cases.items()):
        columns[f"v{number}"] = pa.array([row.v for row in rows[name]], case.type, from_pandas=False)
        columns[f"w{number}"] = pa.array([row.w for row in rows[name]], case.other[0], from_pandas=False)
    return pa.table(columns)


@pytest.mark.parametrize("names", NAMES, ids=lambda names: names[0])
@settings(examples(0.02), phases=[Phase.generate])  # to shrink a dozen aggregates at once takes minutes
@given(data=st.data())
def test_states_of_all_aggregates(names: Sequence[str], data: st.DataObject) -> None:
    """Every state is the same bytes after two moves, and every result bit for bit that of a runner that never moved."""
    cases = side_by_side(names)
    op = WINDOWS.aggregate(**{name: case.aggregate for name, case in cases.items()})
    backends = data.draw(st.permutations(BACKENDS))
    with tempfile.TemporaryDirectory() as folder, ExitStack() as runners:
        undisturbed = moved = runners.enter_context(op.local_runner("at"))
        for number, backend in enumerate(backends[:2]):
            count = data.draw(st.integers(0, 5))
            batch = columns_of(
                cases,
                {
                    name: data.draw(case.rows(st.integers(0, 25), count, count))
                    for name, case in cases.items()
                },
            )
            emitted = [undisturbed.process(batch)]
            if moved is not undisturbed:
                emitted.append(moved.process(batch))
            assert plain(emitted[0].to_pylist()) == plain(emitted[-1].to_pylist())
            assert repr(emitted[0].to_pylist()) == repr(emitted[-1].to_pylist())
            moved = runners.enter_context(go_on(moved, op, Path(folder, str(number)), backend))
        moved.process(batch.slice(0, 0))
        with (
            open_bucket(undisturbed._journal, None, None) as one,
            open_bucket(moved._journal, None, None) as other,
        ):
            pages = [
                {
                    (segment, key): page
                    for segment in b.backend.segments()
                    for key, page in b.backend.iterate(segment)
                }
                for b in (one, other)
            ]
            assert pages[0] == pages[1]
            for stored in one.entries():
                table = one.schema.table(stored.keys, stored.key, stored.columns)
                table.validate(full=True)
                for state in one.schema.states:
                    check_json(table[state.name].combine_chunks())


def check_json(states: pa.StructArray) -> None:
    """Parts that are text are JSON that any reader takes."""
    for part in states.flatten():
        if pa.types.is_string(part.type):
            for text in part.to_pylist():
                assert text is None or json.loads(text, parse_constant=pytest.fail) is not text


@pytest.mark.parametrize("grouped", [False, True])
@pytest.mark.parametrize("backend", BACKENDS)
def test_empty_states_and_no_keys(grouped: bool, backend: str, tmp_path: Path) -> None:
    """A state of nothing can be saved and gone on from; so can one without keys."""
    op = SlidingWindows(size=10).aggregate(n=agg.count(), s=agg.sum("v"))
    op = op.group_by("k") if grouped else op
    batch = pa.table([["a"], [5], [7]], ["k", "at", "v"])
    with op.local_runner("at", backend) as runner:
        runner.process(batch.slice(0, 0))
        with go_on(runner, op, tmp_path / "empty", backend) as second:
            second.process(batch)
            with go_on(second, op, tmp_path / "one", backend) as third:
                assert [7] == third.process(batch.slice(0, 0), 100)["s"].to_pylist()
    counts = [[one.rows for one in read_header(str(tmp_path / name)).files] for name in ("empty", "one")]
    assert [[], [1]] == counts
    assert [] == list(read_header(str(tmp_path / "empty")).groups(0, 1))


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    """A savepoint of some windows."""
    op = WINDOWS.aggregate(s=agg.sum("v"), all=agg.collect_list("v"))
    with op.local_runner("at") as runner:
        runner.process(pa.table([["a", "b"], [5, 14], [7, 8]], ["k", "at", "v"]))
        runner.savepoint(tmp_path / "a savepoint")
    return tmp_path / "a savepoint"


def start(folder: Path, op: Any = WINDOWS, **options: str) -> list[dict[str, Any]]:
    """What a runner that starts from the folder makes of one more record."""
    op = op.aggregate(s=agg.sum("v"), all=agg.collect_list("v"))
    options = {f"state.{name}": value for name, value in options.items()} | {"state.savepoint": str(folder)}
    with op.local_runner("at", options=options) as runner:
        return runner.process(pa.table([["a"], [6], [1]], ["k", "at", "v"])).to_pylist()


def test_another_segment_and_grace_are_fine(saved: Path) -> None:
    """How long stored segments are is of no account to a savepoint; nor is grace, but that time never goes back."""
    for op in (WINDOWS, TumblingWindows(size=10, grace=500).group_by("k").emit("on_update")):
        for segment in ("1 ms", "7 ms", "1 day"):
            (row,) = start(saved, op, segment=segment)
            assert (8, [7, 1]) == (row["s"], row["all"])


@pytest.mark.parametrize("damage", ["deleted", "truncated", "empty", "flipped", "longer"])
@pytest.mark.parametrize("part", ["header", "entries"])
def test_damage_is_told_by_file(part: str, damage: str, saved: Path) -> None:
    """A file that is gone or altered in any byte is named, with the way out; nothing is started from half a state."""
    (path,) = [saved / HEADER] if part == "header" else saved.glob("entries/*")
    blob = path.read_bytes()
    step = max(len(blob) // 25, 1)
    spoilt = {
        "truncated": [blob[:at] for at in (1, len(blob) // 2, len(blob) - 1)],
        "empty": [b""],
        "longer": [blob + b"\n"],
        "flipped": [blob[:at] + bytes([blob[at] ^ 4]) + blob[at + 1 :] for at in range(0, len(blob), step)],
    }
    if damage == "deleted":
        path.unlink()
        with pytest.raises((StateError, CorruptDataError), match=f"{path.name} is (missing|not there)"):
            start(saved)
        return
    for content in spoilt[damage]:
        path.write_bytes(content)
        with pytest.raises(CorruptDataError, match=f"{path.name} is truncated.* altered"):
            start(saved)
    path.write_bytes(blob)
    assert start(saved)


def test_header_of_a_newer_version(saved: Path) -> None:
    """A savepoint of a later version is refused as such."""
    values = decode_signed((saved / HEADER).read_bytes(), SAVEPOINT_VERSION, "header")
    (saved / HEADER).write_bytes(encode_signed(values, SAVEPOINT_VERSION + 1))
    with pytest.raises(
        NewerFormatError, match=f"{HEADER} has format version 2; .* upgrade spark-stateful-windows"
    ):
        start(saved)


def test_files_outside_the_folder_are_refused(saved: Path) -> None:
    """Who can write a header can write its checksum, but not make a reader leave the folder."""
    values = decode_signed((saved / HEADER).read_bytes(), SAVEPOINT_VERSION, "header")
    values["files"][0]["name"] = "entries/../../other/entries"
    (saved / HEADER).write_bytes(encode_signed(values, SAVEPOINT_VERSION))
    with pytest.raises(CorruptDataError, match=f"{HEADER} names a file outside its folder"):
        start(saved)


def test_folder_with_a_savepoint_is_left_alone(saved: Path) -> None:
    """A savepoint is never written over; a folder without one is told to a reader."""
    before = {path: path.read_bytes() for path in saved.rglob("*.*")}
    with WINDOWS.aggregate(n=agg.count()).local_runner("at") as runner:
        runner.process(pa.table([["a"], [5]], ["k", "at"]))
        with pytest.raises(
            StateError, match=f"the folder {saved} already contains a savepoint: choose a new folder"
        ):
            runner.savepoint(saved)
        with pytest.raises(StateError, match=r"elsewhere contains no savepoint"):
            start(saved.parent / "elsewhere")
    assert before == {path: path.read_bytes() for path in saved.rglob("*.*")}


def contents(journal: Journal) -> dict[str, bytes | None]:
    """Each blob."""
    if isinstance(journal, MemoryJournal):
        assert not journal._staged
        return {name: journal.get(name) for name in journal._blobs}
    assert isinstance(journal, SqliteJournal)
    assert not journal._db.in_transaction
    return dict(journal._db.execute("SELECT name, blob FROM blobs").fetchall())


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("with_folder", [False, True])
@pytest.mark.parametrize("durable", [False, True])
def test_opening_leaves_everything_as_it_was(
    backend: str, with_folder: bool, durable: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Opened with any backend, with an error inside or none: journal and snapshots stay, and nothing temporary is left."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    (tmp_path / "temporary").mkdir()
    options = {"state.segment": "7 ms", "state.snapshots.batches": "2", "state.snapshots.background": "false"}
    if with_folder:
        options["state.snapshots.folder"] = str(tmp_path / "snapshots")
    directory = tmp_path / "state"
    op = WINDOWS.aggregate(s=agg.sum("v"), all=agg.collect_list("v"))
    with op.local_runner("at", backend, directory, options) as runner:
        for number in range(6):
            times = list(range(number, number + 40, 3))
            runner.process(pa.table([["a"] * len(times), times, times], ["k", "at", "v"]))
        journal = runner._journal
        if not durable:
            copied = MemoryJournal()
            for name, blob in contents(journal).items():
                copied.put(name, blob)
            copied.commit()
            journal = copied
        before, files = contents(journal), sorted((tmp_path / "snapshots").rglob("*"))
        assert with_folder == bool(files) or backend == "spark"
        entries = set()
        for name in (None, *BACKENDS):
            with open_bucket(journal, name, options.get("state.snapshots.folder")) as bucket:
                entries.add(sum(len(stored.columns[0]) for stored in bucket.entries()))
            with (
                pytest.raises(KeyError, match="inside"),
                open_bucket(journal, name, options.get("state.snapshots.folder")),
            ):
                raise KeyError("inside")
        if backend != "spark":
            with (
                pytest.raises(ValueError, match="unknown state backend 'none'"),
                open_bucket(journal, "none", None),
            ):
                pass
        assert 1 == len(entries)
        assert (before, files) == (contents(journal), sorted((tmp_path / "snapshots").rglob("*")))
        assert [] == list((tmp_path / "temporary").iterdir())


@pytest.mark.parametrize("kind", KINDS)
def test_stored_entries_can_be_read(kind: str, tmp_path: Path) -> None:
    """What each kind of windows keeps is a table of keys, times and results; times that stand for none are null."""
    op = operator(kind, "on_close", {"n": agg.count(), "s": agg.sum("v")})
    feed = Feed(random.Random(3))
    with op.local_runner("at", directory=tmp_path) as runner:
        for number in range(6):
            runner.process(feed.table(number))
        with open_bucket(runner._journal, None, None) as bucket:
            tables = [bucket.schema.table(s.keys, s.key, s.columns) for s in bucket.entries()]
    table = pa.concat_tables(tables)
    table.validate(full=True)
    rows = table.to_pylist()
    assert rows
    times = [name for name, sort in bucket.schema.head if sort == TIME]
    for row in rows:
        assert row["k"] is None or row["k"] in "abc"
        assert row["n"]["count"] > 0 or kind == "sliding by fold" or row["waiting"] > 0
        assert ["count", "sum", "wraps"] == list(row["s"])
        assert all(row[name] is None or 1969 <= row[name].year <= 1970 for name in times)


def schema(tick_us: int = 1000, **changed: Any) -> StoredSchema:
    """Panes by a key."""
    given = {
        "keys": pa.schema([("k", pa.string())]),
        "head": (("time", TIME), ("visible_from", TIME)),
        "states": (StoredState("A", (("state", "object"),)),),
    }
    return StoredSchema(tick_us=tick_us, segment=10, grace=0, **(given | changed))


@pytest.mark.parametrize("tick_us", [1, 1000])
def test_times_end_with_those_of_spark(tick_us: int) -> None:
    """From the first tick of the year 1 to the last one of the year 9999 times are times, and null beyond."""
    second = 1_000_000 // tick_us
    first, last = -62_135_596_800 * second, 253_402_300_800 * second - 1
    ticks = np.array([first - 1, first, 0, last, last + 1, 2**61, -(2**61), 2**62])
    found = schema(tick_us).instants(ticks).to_pylist()
    utc, part = timezone.utc, 999_999 if tick_us == 1 else 999_000
    assert [None, *(None,) * 4] == [found[0], *found[4:]]
    assert found[1:4] == [
        datetime(1, 1, 1, tzinfo=utc),
        datetime(1970, 1, 1, tzinfo=utc),
        datetime(9999, 12, 31, 23, 59, 59, part, tzinfo=utc),
    ]


def test_objects_are_told_as_json() -> None:
    """Whatever an aggregate keeps is JSON that any reader takes, or null."""
    values = [
        None,
        [1.5, float("nan"), float("inf"), -float("inf"), -0.0],
        {b"\xff": [1], 2: "ä", None: {"a": b"\x01"}},
        b"\x00\xff",
        2**70,
        [True, datetime(2020, 1, 2, tzinfo=timezone.utc)],
    ]
    column = np.empty(len(values), object)
    column[:] = values
    ticks = np.zeros(len(values), np.int64)
    table = schema().table(encode_keys([pa.array(["a"])]), ticks, [ticks, ticks, column])
    assert [
        None,
        '[1.5, "NaN", "Infinity", "-Infinity", -0.0]',
        '{"ff": [1], "2": "ä", "None": {"a": "01"}}',
        '"00ff"',
        str(2**70),
        '[true, "2020-01-02 00:00:00+00:00"]',
    ] == [state["state"] for state in table["A"].to_pylist()]


def panes_of(runner: Any) -> pa.Table:
    """The stored entries of a local runner, as `read_state` shows them."""
    with open_bucket(runner._journal, None, None) as bucket:
        return pa.concat_tables(
            bucket.schema.table(s.keys, s.key, s.columns) for s in bucket.entries(bucket.schema)
        )


def test_panes_show_results_by_the_names_of_the_last_start(tmp_path: Path) -> None:
    """Results that share states have them each; after a restart with other names, these are shown."""
    rows = pa.table(
        {
            "k": ["a", "a"],
            "at": pa.array([1, 1], pa.timestamp("ms", "UTC")),
            "v": pa.array([4, None], pa.int32()),
        }
    )
    windows = TumblingWindows("1 hour").group_by("k")
    names = {"n": agg.count(), "mean": agg.avg("v"), "Worst": agg.max("v"), "worst_2": agg.max("v")}
    with windows.aggregate(**names).local_runner("at", directory=tmp_path) as runner:
        runner.process(rows)
        (row,) = panes_of(runner).drop_columns(["k", "time"]).to_pylist()
    worst = {"count": 1, "max": 4}
    assert {"n": {"count": 2}, "mean": {"count": 1, "sum": 4}, "Worst": worst, "worst_2": worst} == row

    other = windows.aggregate(rows=agg.count(), total=agg.sum("v"), high=agg.max("v"))
    with other.local_runner("at", directory=tmp_path) as runner:
        runner.process(rows)
        (row,) = panes_of(runner).drop_columns(["k", "time"]).to_pylist()
    assert {"rows": {"count": 4}, "total": {"count": 2, "sum": 8}, "high": {"count": 2, "max": 4}} == row


def test_states_without_a_result_have_their_own_names() -> None:
    """Beside results, in that order; fields of one name are told apart, and so are columns, whatever the case."""
    states = (StoredState("A", (("state", "i8"),)), StoredState("B", (("state", "f8"),)))
    given = schema(states=(*states, StoredState("TIME", (("x", "i8"),))), results=(("time", (1, 0)),))
    assert ["k", "time", "visible_from", "time_2", "TIME_3"] == given.readable.names
    zero = np.zeros(1, np.int64)
    columns = [zero, zero, zero + 1, np.full(1, 2.5), zero + 3]
    (row,) = given.table(encode_keys([pa.array(["a"])]), zero, columns).to_pylist()
    assert [{"state": 2.5, "state_2": 1}, {"x": 3}] == list(row.values())[3:]
    assert given == StoredSchema.from_plain(given.plain())


@pytest.mark.parametrize(
    "results", [7, [["n"]], [["n", [1]]], [["n", [-1]]], [["n", []]], [[7, [0]]], [["n", [[]]]], [["n", 0]]]
)
def test_results_of_states_that_are_not_there_are_damage(results: Any) -> None:
    """Numbers of states that a schema does not have, and values that are no results at all."""
    with pytest.raises(CorruptDataError, match="description of the stored columns is invalid"):
        StoredSchema.from_plain({**schema().plain(), "results": results})


def test_columns_have_names_of_their_own() -> None:
    """A key called as a stored column, in whatever case, and two states of one name can be told apart."""
    twice = StoredState("A", (("state", "i8"),))
    given = schema(
        keys=pa.schema([("Time", pa.int64()), ("end", pa.int64()), ("time_2", pa.int64())]),
        head=(("time", TIME), ("end", TIME), ("is_window", NUMBER)),
        states=(twice, twice),
    )
    names = ["Time", "end", "time_2", "time_3", "end_2", "is_window", "A", "A_2"]
    assert names == given.readable.names
    zero = np.zeros(1, np.int64)
    keys = encode_keys([pa.array([number]) for number in (1, 2, 3)])
    (row,) = given.table(keys, zero, [zero] * 5).to_pylist()
    assert [1, 2, 3] == list(row.values())[:3]
