"""Requests to forget keys in a folder: who writes them, which batch applies them, and what is left of them."""

import json
import logging
import os
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from filelock import FileLock

from operators import DefinitionError, SlidingWindows, forget, forget_requests
from operators import aggregates as agg
from operators.command.main import main
from operators.runtime.batch_clock import Call
from operators.runtime.keys_to_forget import encoded_keys
from operators.runtime.watermark_rule import WatermarkRule
from operators.spark.base import logs
from operators.spark.inputs.blobs import from_blobs, to_blobs
from operators.spark.replicas import forget_lookup
from operators.spark.replicas.calls import Blobs, Request
from operators.spark.replicas.copies import drop_copy
from operators.spark.replicas.forget_lookup import Requests
from operators.spark.stream.job import Job
from serializers.keys import bucket_of
from state_backends import StateError, resolve
from state_backends.durability.pointer import Pointer, read_pointer
from state_backends.durability.request_folder import RequestFolder, RequestReader
from state_backends.journal import MemoryJournal
from tests.key_bytes import holding

SCHEMA = pa.schema([("k", pa.string()), ("t", pa.timestamp("us"))])
KEYS = pa.schema([("k", pa.string())])
NAME = "people"
OPERATOR = SlidingWindows("1 hour").group_by("k").aggregate(n=agg.count()).emit("on_update")


@dataclass
class Query:
    """Two buckets of an operator, as Spark would call them, with a clock of their own.

    Attributes:
        folder: of requests.
        state: local directory.
        options: more of them.
    """

    folder: Path
    state: Path
    options: dict[str, Any] = field(default_factory=dict)
    clock: int = 0
    batch: int = 0
    journals: list[MemoryJournal] = field(default_factory=lambda: [MemoryJournal(), MemoryJournal()])

    def __post_init__(self) -> None:
        folders = {"state.directory": self.state, "state.forget.folder": self.folder}
        self.config = resolve("memory", folders | self.options)
        binding = OPERATOR.bind(SCHEMA, "t", self.config)
        self.requests = Requests(str(self.folder), RequestReader(NAME, KEYS, 2), (0, 1))
        self.job = Job(binding, self.config, (0, 1), WatermarkRule(), requests=self.requests)
        self.requests.announce()

    def pointer(self, label: int) -> Pointer:
        """The state of a bucket after the last batch."""
        fresh = replace(Pointer.fresh(), store_id=f"{label:016x}")
        return read_pointer(self.journals[label]) or fresh

    def call(self, label: int, keys: list[str], *, commits: bool = True) -> list[tuple[str, int, str]]:
        """Have a bucket process records of keys, and return key, count and change of what comes out."""
        before, journal, pointer = {**self.journals[label]._blobs}, self.journals[label], self.pointer(label)
        call = Call(0, self.clock)
        self.requests.note(pointer.progress.forgotten, self.clock, label)
        table = pa.table({"k": keys, "t": pa.array([1] * len(keys), pa.timestamp("us"))})
        blobs = Blobs(list(to_blobs(table))) if keys else Blobs()
        if not keys and not self.job.forgets(call, pointer, self.batch):
            return []
        outcome = self.job.run(journal.get, Request(pointer, label, self.batch, call, blobs)).write_to(
            journal
        )
        if not commits:
            journal._blobs = before
        rows = [row for table in from_blobs(outcome.blobs) for row in table.to_pylist()]
        return sorted((row["k"], row["n"], row["change"]) for row in rows)

    def close(self) -> None:
        """Release the copies."""
        for label in (0, 1):
            drop_copy(self.config, f"{label:016x}")


@pytest.fixture
def query(tmp_path: Path) -> Any:
    """A query; what processes remember of folders is forgotten."""
    for known in (forget_lookup._listed, forget_lookup._noted, logs._warned):
        known.clear()
    made = Query(tmp_path / "requests", tmp_path / "state")
    yield made
    made.close()


def names(bucket: int, number: int) -> list[str]:
    """Keys of a bucket."""
    found = (f"person-{n}" for n in range(1_000))
    return [k for k in found if bucket_of(encoded_keys([{"k": k}], KEYS)[0], 2) == bucket][:number]


ALICE, BOB = names(0, 2)
CAROL, DAVE = names(1, 2)


def test_a_batch_applies_the_requests_up_to_its_clock(query: Query) -> None:
    """Before that nothing changes; a task that runs again does the same; then records begin anew, and others do not notice."""
    query.call(0, [ALICE, BOB])
    query.call(1, [CAROL])
    request = forget(query.folder, [{"k": ALICE}])
    query.clock = request.number - 1
    assert [(ALICE, 2, "update")] == query.call(0, [ALICE])
    query.clock += 1
    for commits in (False, False, True):
        expected = [(ALICE, 1, "update"), (BOB, 2, "update")]
        assert expected == query.call(0, [ALICE, BOB], commits=commits)
    assert [(ALICE, 2, "update")] == query.call(0, [ALICE]), "the same clock applies it once"
    query.clock += 1_000
    assert [(ALICE, 3, "update")] == query.call(0, [ALICE])
    assert [(CAROL, 2, "update")] == query.call(1, [CAROL])


def test_a_bucket_without_records_is_called_for_it(query: Query) -> None:
    """Also one that has none of the keys: that all have passed the request shows only so. Then its keys are gone."""
    query.call(0, [ALICE])
    query.call(1, [CAROL])
    request = forget(query.folder, [{"k": ALICE}, {"k": BOB}])
    assert [(2, 0, 2, False)] == [
        (one.keys, one.applied, one.buckets, one.done) for one in forget_requests(query.folder)
    ]
    assert holds_keys(query.folder)
    query.clock = request.number
    assert [(ALICE, 1, "retract")] == query.call(0, [])
    assert [] == query.call(1, [])
    assert [0] == [one.applied for one in forget_requests(query.folder)], "not yet known to be committed"
    query.clock += 1
    query.call(0, [])
    assert [(1, False)] == [(one.applied, one.done) for one in forget_requests(query.folder)]
    query.call(1, [])
    assert [(2, True, 2)] == [(one.applied, one.done, one.keys) for one in forget_requests(query.folder)]
    assert not holds_keys(query.folder)
    assert [] == query.call(0, [])
    assert not query.job.forgets(Call(0, query.clock), query.pointer(0), query.batch)


def holds_keys(folder: Path) -> bool:
    """Whether a request has keys."""
    files = list((folder / "requests").iterdir())
    assert files
    return any(json.loads(file.read_text().partition("\n")[2])["keys"] for file in files)


def test_no_blob_of_the_journal_has_the_key(query: Query) -> None:
    """The log of the batches before is gone with the batch that applies the request, and that of other buckets is not."""
    for _ in range(3):
        query.call(0, [ALICE, BOB])
        query.call(1, [CAROL])
    logged = [name for name in query.journals[0]._blobs if name.startswith("log-")]
    query.clock = forget(query.folder, [{"k": ALICE}]).number
    query.call(0, [])
    query.call(1, [])
    assert 3 == len(logged)
    assert not [name for name in query.journals[0]._blobs if name.startswith("log-")]
    assert 3 == len([name for name in query.journals[1]._blobs if name.startswith("log-")])
    drop_copy(query.config, f"{0:016x}")
    assert [(BOB, 4, "update")] == query.call(0, [BOB]), "restored from the snapshot"


def test_of_a_batch_that_cannot_be_read_nothing_is_left(query: Query) -> None:
    """The copy had forgotten the key before the error, and has it again, and retracts nothing of it."""
    query.call(0, [ALICE])
    query.clock = forget(query.folder, [{"k": ALICE}]).number
    broken = Request(query.pointer(0), 0, 1, Call(0, query.clock), Blobs([b"no blob"]))
    with pytest.raises(pa.ArrowInvalid):
        query.job.run(query.journals[0].get, broken).write_to(query.journals[0])
    query.clock -= 1
    assert [(BOB, 1, "update")] == query.call(0, [BOB])
    assert [(ALICE, 2, "update")] == query.call(0, [ALICE])


def test_an_idle_bucket_is_called_to_remove_old_snapshots(tmp_path: Path) -> None:
    """They have the key, and go when so many batches have passed, though the bucket has no work of its own."""
    snapshots = {
        "state.snapshots.folder": tmp_path / "snapshots",
        "state.snapshots.batches": 1,
        "state.snapshots.retain": 2,
        "state.snapshots.background": "false",
    }
    query = Query(tmp_path / "requests", tmp_path / "state", snapshots)
    for query.batch in range(4):
        query.call(0, [ALICE, BOB])
    query.clock = forget(query.folder, [{"k": ALICE}]).number
    found = []
    for query.batch in range(4, 9):
        query.call(0, [])
        found.append(bool(holding(tmp_path / "snapshots", ALICE)))
    assert [True, True, True, False, False] == found
    query.close()


def test_free_copies_of_the_bucket_go_with_the_key(query: Query) -> None:
    """A task that worked alone left one. Those that another process holds, it is told to remove."""
    query.call(0, [ALICE])
    bucket_dir = query.state / f"{0:016x}"
    copies = [bucket_dir / f"{number}-abc-memory" for number in (7, 8)]
    for copy in copies:
        copy.mkdir()
        (copy / "pages").write_text(ALICE)
    (bucket_dir / "7.lock").touch()
    query.clock = forget(query.folder, [{"k": ALICE}]).number
    with FileLock(bucket_dir / "8.lock"):
        query.call(0, [])
    assert [False, True] == [copy.exists() for copy in copies]
    assert ["8.drop"] == [path.name for path in bucket_dir.glob("*.drop")]
    assert [(BOB, 1, "update")] == query.call(0, [BOB])


def test_requests_of_one_moment_are_applied_in_one_batch(query: Query) -> None:
    """Each has a number of its own."""
    query.call(0, [ALICE, BOB])
    numbers = [forget(query.folder, [{"k": key}]).number for key in (ALICE, BOB, ALICE)]
    assert numbers == sorted({*numbers})
    query.clock = numbers[-1]
    assert [(ALICE, 1, "retract"), (BOB, 1, "retract")] == query.call(0, [])
    assert numbers[-1] == query.pointer(0).progress.forgotten


def test_a_request_of_a_clock_that_is_behind_is_applied(
    query: Query, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It comes from a machine whose clock is ten minutes behind, after another request was applied."""
    query.call(0, [ALICE, BOB])
    query.clock = forget(query.folder, [{"k": ALICE}]).number
    query.call(0, [])
    now = time.time
    monkeypatch.setattr(time, "time", lambda: now() - 600)
    query.clock = max(query.clock + 1, forget(query.folder, [{"k": BOB}]).number)
    assert [(BOB, 1, "retract")] == query.call(0, [])


def test_a_damaged_request_does_not_block_later_ones(query: Query, caplog: pytest.LogCaptureFixture) -> None:
    """The log says so, and whoever asks for the requests sees it; mended later, it does not pass as applied."""
    query.call(0, [ALICE, BOB])
    forget(query.folder, [{"k": ALICE}])
    (file,) = (query.folder / "requests").iterdir()
    whole = file.read_text()
    file.write_text(whole.replace("people", "others"))
    query.clock = forget(query.folder, [{"k": BOB}]).number
    with caplog.at_level(logging.WARNING):
        assert [(ALICE, 2, "update"), (BOB, 1, "retract")] == query.call(0, [ALICE])
    query.call(1, [])
    assert "to forget keys: make it again" in caplog.text
    damaged, other = forget_requests(query.folder)
    assert "truncated or altered" in damaged.problem
    assert (False, 0, "") == (damaged.done, damaged.keys, other.problem)
    file.write_text(whole)
    query.clock += 1
    for label in (0, 1):
        query.call(label, [])
    assert [False, True] == [one.done for one in forget_requests(query.folder)]


@pytest.mark.parametrize("killed", ["after the last note", "before the keys were removed"])
def test_a_worker_that_is_killed_leaves_no_keys_in_the_request(query: Query, killed: str) -> None:
    """A later batch of bucket 0 takes them out, in whichever worker it runs. The request stays known as done."""
    query.call(0, [ALICE])
    query.clock = forget(query.folder, [{"k": ALICE}]).number
    for label in (0, 1):
        query.call(label, [])
    (file,) = RequestFolder(str(query.folder)).files()
    for label in (0, 1):
        note = query.folder / file.note_of(label)
        note.parent.mkdir(parents=True, exist_ok=True)
        note.touch()
    if killed != "after the last note":
        whole = (query.folder / file.path).read_bytes()
        RequestFolder(str(query.folder)).finish(file, query.requests.reader)
        (query.folder / file.path).write_bytes(whole)
    assert holds_keys(query.folder)
    query.clock += 1
    query.call(1, [])
    assert holds_keys(query.folder)
    query.call(0, [])
    assert not holds_keys(query.folder)
    assert 1 == len([*(query.folder / "requests").iterdir()])
    assert [(True, 1, "")] == [(one.done, one.keys, one.problem) for one in forget_requests(query.folder)]


def test_a_request_whose_operator_has_gone_is_shown(query: Query, capsys: pytest.CaptureFixture[str]) -> None:
    """It holds keys, and nobody will apply it; one that was done before stays done. A damaged operator's file says so, too."""
    query.call(0, [ALICE])
    query.clock = forget(query.folder, [{"k": ALICE}]).number
    for _ in range(2):
        for label in (0, 1):
            query.call(label, [])
        query.clock += 1
    forget(query.folder, [{"k": BOB}])
    (operator,) = (query.folder / "operators").iterdir()
    whole = operator.read_text()
    operator.unlink()
    assert [True, False] == [one.done for one in forget_requests(query.folder)]
    assert 0 == main(["forget", str(query.folder)])
    told = capsys.readouterr().out.splitlines()
    assert told[0].endswith("1 key of operator people: done")
    assert "1 key of operator people: not applied: no operator of this name looks for requests" in told[1]
    operator.write_text(whole.replace("people", "others"))
    assert "delete the operator's file" in forget_requests(query.folder)[1].problem
    operator.write_text(whole)
    assert [(True, ""), (False, "")] == [(one.done, one.problem) for one in forget_requests(query.folder)]


def test_a_second_operator_of_one_name_is_refused(query: Query) -> None:
    """Of another checkpoint: it would note requests as applied that the first one has not seen."""
    query.requests.announce("first")
    query.requests.announce("first")
    with pytest.raises(StateError, match=r"'people' of another checkpoint.*delete the file .*operators/"):
        query.requests.announce("second")


def test_notes_of_another_state_do_not_count(query: Query) -> None:
    """As after a rescale with the same folder, once the operator's file was removed: it has one bucket of four more."""
    query.call(0, [ALICE])
    request = forget(query.folder, [{"k": ALICE}])
    folder = RequestFolder(str(query.folder))
    (file,) = folder.files()
    for label in range(4):
        folder.note(file, label, RequestReader(NAME, KEYS, 8, "before"))
    assert [(0, False)] == [(one.applied, one.done) for one in forget_requests(query.folder)]
    assert holds_keys(query.folder)
    query.clock = request.number
    assert [(ALICE, 1, "retract")] == query.call(0, [])


def test_what_a_killed_writer_left_is_no_note(query: Query) -> None:
    """Nor does it keep keys for more than an hour."""
    query.call(0, [ALICE])
    query.clock = forget(query.folder, [{"k": ALICE}]).number
    (file,) = RequestFolder(str(query.folder)).files()
    query.call(0, [])
    query.clock += 1
    query.call(0, [])
    part = query.folder / f"{file.note_of(1)}.01234567.part"
    part.write_bytes(b"")
    assert [(1, False)] == [(one.applied, one.done) for one in forget_requests(query.folder)]
    left = query.folder / f"{file.path}.01234567.part"
    left.write_text(ALICE)
    forget_requests(query.folder)
    assert left.exists()
    os.utime(left, (time.time() - 7_200,) * 2)
    forget_requests(query.folder)
    assert not left.exists()


@pytest.mark.parametrize(
    "number",
    [int(time.time() * 1_000) + 400 * 86_400_000, 10**15 - 1, 10**19 - 1],
    ids=["400 days", "15 digits", "20 digits"],
)
def test_a_client_whose_clock_is_ahead_delays_only_itself(query: Query, number: int) -> None:
    """Requests of others count from their own time, and are found."""
    query.call(0, [ALICE])
    request = forget(query.folder, [{"k": ALICE}])
    (file,) = (query.folder / "requests").iterdir()
    file.rename(file.with_name(file.name.replace(str(request.number), str(number))))
    later = forget(query.folder, [{"k": ALICE}])
    assert later.number < time.time() * 1_000 + 11_000
    assert later.number in [one.number for one in forget_requests(query.folder)]
    query.clock = later.number
    assert [(ALICE, 1, "retract")] == query.call(0, [])


def test_a_folder_that_cannot_be_read_stops_no_query(
    query: Query, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    """Requests wait until it can be read again."""
    query.call(0, [ALICE])
    query.clock = forget(query.folder, [{"k": ALICE}]).number
    query.folder.rename(tmp_path / "aside")
    query.folder.symlink_to(query.folder)
    with caplog.at_level(logging.WARNING):
        assert [(BOB, 1, "update")] == query.call(0, [BOB])
    assert "not applied for now" in caplog.text
    query.folder.unlink()
    (tmp_path / "aside").rename(query.folder)
    query.clock += 1
    assert [(ALICE, 1, "retract")] == query.call(0, [])


def test_a_query_that_went_back_says_that_the_keys_are_gone(
    query: Query, caplog: pytest.LogCaptureFixture
) -> None:
    """All buckets had applied the request, so that it has no keys any more."""
    query.call(0, [ALICE])
    earlier = {**query.journals[0]._blobs}
    query.clock = forget(query.folder, [{"k": ALICE}]).number
    for _ in range(2):
        for label in (0, 1):
            query.call(label, [])
        query.clock += 1
    assert [True] == [one.done for one in forget_requests(query.folder)]
    query.journals[0]._blobs = earlier
    with caplog.at_level(logging.WARNING):
        assert [(ALICE, 2, "update")] == query.call(0, [ALICE])
    assert "make the request again" in caplog.text
    assert [False] == [one.done for one in forget_requests(query.folder)], "that state has the key"


def test_a_new_query_has_nothing_to_forget(query: Query, caplog: pytest.LogCaptureFixture) -> None:
    """With a new checkpoint and the folder of an old query, requests that were before do not concern it."""
    query.call(0, [ALICE])
    query.clock = forget(query.folder, [{"k": ALICE}]).number
    with caplog.at_level(logging.WARNING):
        assert [(CAROL, 1, "update")] == query.call(1, [CAROL])
        assert [(CAROL, 2, "update")] == query.call(1, [CAROL])
    assert "" == caplog.text
    assert query.clock == query.pointer(1).progress.forgotten


WRONG: list[tuple[Callable[[Path], Any], type[Exception], str]] = [
    (
        lambda folder: forget(folder / "new", [{"k": "x"}]),
        StateError,
        "state.forget.folder set to this folder",
    ),
    (lambda folder: forget(folder, [{"j": "x"}]), DefinitionError, "lack the key column 'k'"),
    (lambda folder: forget(folder, [{"k": 1}]), DefinitionError, "'k' is of type int64"),
    (lambda folder: forget(folder, [{"k": "x"}], "peeple"), DefinitionError, "did you mean 'people'"),
    (lambda _: forget("s3://", [{"k": "x"}]), StateError, "no bucket"),
]


@pytest.mark.parametrize(("act", "error", "message"), WRONG)
def test_wrong_requests_are_refused(
    query: Query, act: Callable[[Path], Any], error: type[Exception], message: str
) -> None:
    """When they are made, with the way out; no request is written."""
    with pytest.raises(error, match=message):
        act(query.folder)
    assert [] == forget_requests(query.folder)


def test_of_several_operators_one_has_to_be_named(query: Query) -> None:
    """Each has a state of its own, and only the one that is named applies the request."""
    RequestFolder(str(query.folder)).announce(RequestReader("orders", pa.schema([("id", pa.int64())]), 3))
    with pytest.raises(DefinitionError, match=r"several operators.*orders.*say which one"):
        forget(query.folder, [{"k": ALICE}])
    query.call(0, [ALICE])
    query.clock = forget(query.folder, [{"id": 1}], "orders").number
    assert [(ALICE, 2, "update")] == query.call(0, [ALICE])
    assert [("orders", 3)] == [(one.operator, one.buckets) for one in forget_requests(query.folder)]


def test_a_request_counts_some_seconds_later(query: Query) -> None:
    """So that a batch that has begun, perhaps on a machine whose clock is ahead, has no part of it."""
    now = time.time() * 1_000
    number = forget(query.folder, [{"k": ALICE}]).number
    assert now + 9_000 < number


@pytest.mark.parametrize("name", ["keys.csv", "keys.json", "keys.parquet"])
def test_the_command_writes_requests_and_prints_them(
    query: Query, name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Keys come from a file; without one, it says how far requests have come."""
    file = tmp_path / name
    rows = pa.table({"k": [ALICE, "007"]})
    if name == "keys.parquet":
        pa.parquet.write_table(rows, file)
    elif name == "keys.csv":
        file.write_text(f"k\n{ALICE}\n007\n")
    else:
        file.write_text("".join(json.dumps(row) + "\n" for row in rows.to_pylist()))
    query.call(0, [ALICE])
    assert 0 == main(["forget", str(query.folder)])
    assert "there are no requests\n" == capsys.readouterr().out
    assert 0 == main(["forget", str(query.folder), "--keys", str(file)])
    (request,) = forget_requests(query.folder)
    told = capsys.readouterr().out
    assert f"request {request.number}: 2 keys of operator people: applied by 0 of 2 buckets" in told
    query.clock = request.number
    assert [(ALICE, 1, "retract")] == query.call(0, [])
    assert 0 == main(["forget", str(query.folder), "--json"])
    assert {"request": request.number, "keys": 2, "done": False}.items() <= json.loads(
        capsys.readouterr().out
    ).items()


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (
            ["--keys", "nowhere.csv"],
            "there is no file nowhere.csv: give --keys a file with the key columns k",
        ),
        (["--name", "peeple", "--keys", "x.csv"], "did you mean 'people'"),
    ],
)
def test_the_command_says_what_is_wrong(
    query: Query, given: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """In one line."""
    assert 1 == main(["forget", str(query.folder), *given])
    assert message in capsys.readouterr().err
