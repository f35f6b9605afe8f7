"""Buckets whose states differ after a restart are read in one form; other differences are refused."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from feeds import committed

from operators import TumblingWindows
from operators import aggregates as agg
from operators.columns.records import FAR_PAST
from operators.runtime.stateful import StatefulOperator
from state_backends import StateError, resolve
from state_backends.checkpoints.forms import common_form, sources
from state_backends.checkpoints.open_bucket import open_bucket
from state_backends.checkpoints.savepoint import write_bucket, write_header
from state_backends.checkpoints.sizes import SegmentSize, in_segments_of
from state_backends.durability.folders import Folder
from state_backends.durability.pointer import Pointer, read_pointer
from state_backends.durability.progress import Progress
from state_backends.journal import MemoryJournal
from state_backends.store.schema import StoredSchema, StoredState, name_and_since, name_since


def schema(*names: str, **changed: Any) -> StoredSchema:
    """Panes with states of these names; that of a mean has two columns."""
    states = tuple(
        StoredState(name, (("a", "i8"), ("b", "f8")) if name.startswith("Mean") else (("a", "i8"),))
        for name in names
    )
    keys = pa.schema([("k", pa.string())])
    given = StoredSchema(keys, 1_000, 60, 5, (("time", "time"), ("from", "time")), states)
    return replace(given, **changed)


def pointer(stored: StoredSchema, close_time: int = 0, **identity: Any) -> Pointer:
    """A pointer of a bucket with such entries."""
    given = {"state": [state.name for state in stored.states], "size in ticks": 9, **identity}
    return replace(Pointer.fresh(), progress=Progress(given, stored, close_time, buckets=3))


@pytest.mark.parametrize(
    ("form", "own", "expected"),
    [
        ("A|Mean|B", "A|Mean|B", [0, 1, 2, 3, 4, 5]),
        ("A|Mean|B", "B|A|Mean", [0, 1, 3, 4, 5, 2]),
        ("Mean|Mean since 1|A since 1", "A|Mean", [0, 1, 3, 4, 3, 4, 2]),
        ("A since 2|A|A since 4", "A since 7|A since 1|A", [0, 1, 3, 4, 2]),
        ("A", "A|A since 1", None),
        ("A|A since 1|A since 2", "A|A since 1", None),
        ("A|A", "A", None),
        ("A", "A|B", None),
        ("A|B since 1", "A", None),
    ],
)
def test_states_are_found_by_when_they_began(form: str, own: str, expected: list[int] | None) -> None:
    """Each column comes from the state of the same age, or from the only one of its name; nothing else is guessed."""
    assert expected == sources(schema(*form.split("|")), schema(*own.split("|")))


def test_names_say_when_a_state_began() -> None:
    """A name with a time has it at its end; other names are left alone."""
    assert ("Sum(v since 3)", 0) == name_and_since("Sum(v since 3)")
    assert ("fold since yesterday", 0) == name_and_since("fold since yesterday")
    assert ("Sum(a\nb)", 12) == name_and_since(name_since("Sum(a\nb)", 12))


def test_grace_and_segments_may_differ() -> None:
    """The grace of the bucket that has come furthest is told."""
    quiet, busy = schema("A", grace=5, segment=60), schema("A", grace=70, segment=90)
    form = common_form("here", [pointer(quiet, 3, new=["x"]), pointer(busy, 4), pointer(quiet, 2)])
    assert (70, ["A"], {"state", "size in ticks"}) == (
        form.schema.grace,
        form.identity["state"],
        form.identity.keys(),
    )


@pytest.mark.parametrize(
    ("others", "message"),
    [
        ([], "the checkpoint here has no state of windows"),
        ([Pointer.fresh()], "the checkpoint here has no state of windows"),
        ([pointer(schema("A", "B"))], "different columns: let the query complete one batch"),
        ([pointer(schema("A", tick_us=1))], "different columns"),
        ([pointer(schema("A", head=(("time", "time"),)))], "different columns"),
        ([pointer(schema("A", keys=pa.schema([("k", pa.int64())])))], "different columns"),
        ([pointer(schema("A"), lasting=[])], "different columns"),
    ],
)
def test_other_differences_are_refused(others: list[Pointer], message: str) -> None:
    """Buckets of which one is damaged, or was never asked since a change, are not put together."""
    with pytest.raises(StateError, match=message):
        common_form("here", [*others, *([pointer(schema("A"), lasting=["A"])] if others else [])])


def test_sizes_are_counted_in_segments_of_another_length() -> None:
    """Each segment counts where it begins."""
    sizes = [SegmentSize(number, 1, 2, 10, number * 60, number * 60 + 59) for number in (-1, 0, 1, 4)]
    assert sizes is in_segments_of(60, sizes, 60)
    found = in_segments_of(100, sizes, 60)
    assert [(-1, 1), (0, 2), (2, 1)] == [(size.segment, size.keys) for size in found]
    assert (20, 0, 119) == (found[1].size, found[1].oldest, found[1].newest)


class TwoBuckets:
    """Two buckets of a query, which is restarted with other aggregates."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.journals = [MemoryJournal(), MemoryJournal()]

    def run(self, op: Any, close: int, rows: dict[int, list[tuple[str, int, int]]]) -> list[Any]:
        """One batch of a run: the rows of each bucket; one without any is opened if it has state."""
        found = []
        for number, journal in enumerate(self.journals):
            table = (
                pa.table(list(zip(*rows[number], strict=True)), ["k", "at", "v"]) if number in rows else None
            )
            if table is None and read_pointer(journal) is None:
                continue
            table = EMPTY if table is None else table
            config = resolve("memory", {"state.evolution": "adapt"})
            binding = op.bind(EMPTY.schema, "at", config)
            part = StatefulOperator(binding, config, self.folder / f"{number}")
            found += committed(part, journal, close, [table]).rows.to_pylist()
            part.close()
        return found

    def pointers(self) -> list[Pointer]:
        """Those of both buckets."""
        return [one for one in map(read_pointer, self.journals) if one is not None]


EMPTY = pa.table(
    {"k": pa.array([], pa.string()), "at": pa.array([], pa.int64()), "v": pa.array([], pa.int64())}
)


def test_a_runner_goes_on_from_buckets_of_different_ages(tmp_path: Path) -> None:
    """A mean beside a sum begins later for old keys and not for new ones: so it does from a savepoint of both."""
    windows = TumblingWindows(size=10, grace=1_000).group_by("k")
    before = windows.aggregate(total=agg.sum("v"))
    after = windows.aggregate(total=agg.sum("v"), mean=agg.avg("v"))
    query = TwoBuckets(tmp_path)
    query.run(before, FAR_PAST, {0: [("old", 1, 100)]})
    query.run(after, FAR_PAST, {0: [("old", 2, 10), ("older", 3, 7)]})
    query.run(after, FAR_PAST, {1: [("new", 4, 5)]})

    form = common_form("here", query.pointers())
    names = [{state.name for state in one.progress.schema.states} for one in query.pointers()]
    kept, added = {"SumLong(v)", "CountValid(v)"}, ["SumFloat(v)", "CountValid(v)"]
    assert [kept | {name_since(name, 1) for name in added}, kept | {*added}] == names
    saved = []
    for number, journal in enumerate(query.journals):
        with open_bucket(journal, None, None) as bucket:
            saved += write_bucket(Folder(str(tmp_path / "saved")), number, bucket, form.schema)
    folder = Folder(str(tmp_path / "saved"))
    write_header(folder, form.identity, form.schema, FAR_PAST, saved, {"sequence": 3})

    last = {0: [("old", 5, 20)], 1: [("new", 6, 8)]}
    query.run(after, FAR_PAST, last)
    expected = query.run(after, 10_000, {})
    with after.local_runner("at", options={"state.savepoint": folder.uri}) as runner:
        runner.process(pa.table(list(zip(*last[0], *last[1], strict=True)), ["k", "at", "v"]), FAR_PAST)
        found = runner.process(EMPTY, 11_000)
    assert sorted(map(repr, expected)) == sorted(map(repr, found.to_pylist()))
    assert [("new", 13, 6.5), ("old", 130, 15.0), ("older", 7, 7.0)] == sorted(
        (row["k"], row["total"], row["mean"]) for row in expected
    )
