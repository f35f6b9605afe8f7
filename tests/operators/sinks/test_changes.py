"""From the rows of a batch to the changes of a table, without Spark."""

import datetime as dt
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest

from operators import DefinitionError
from operators.sinks import SinkError
from operators.sinks.changes import changes_of
from operators.steps.late_reports import LateSide

UTC = dt.timezone.utc
BERLIN = pa.timestamp("us", "Europe/Berlin")
WINDOW = pa.struct([pa.field("start", BERLIN, nullable=False), pa.field("end", BERLIN, nullable=False)])


def at(second: int) -> dt.datetime:
    """A time."""
    return dt.datetime.fromtimestamp(second, UTC)


def rows(*given: tuple[Any, ...], names: Sequence[str] = ("k", "window", "n", "change")) -> pa.Table:
    """Rows as an operator emits them; a window is given as its two seconds."""
    types = {
        "k": pa.string(),
        "window": WINDOW,
        "n": pa.int64(),
        "change": pa.string(),
        "sequence": pa.int64(),
    }
    fields = [pa.field(name, types[name], nullable=name != "window") for name in names]
    columns = list(zip(*given, strict=True)) or [()] * len(names)
    return pa.table(
        [
            pa.array(
                [{"start": at(v[0]), "end": at(v[1])} for v in column] if f.name == "window" else column,
                f.type,
            )
            for f, column in zip(fields, columns, strict=True)
        ],
        schema=pa.schema(fields),
    )


def split(table: pa.Table, *keys: str) -> tuple[list[Any], list[Any]]:
    """The values of deletes and of upserts."""
    changes = changes_of(table, keys, "query", 3)
    return tuple(
        [tuple(row.values()) for row in part.to_pylist()] for part in (changes.deletes, changes.upserts)
    )


def test_retracts_are_deletes_and_updates_upserts() -> None:
    """The window becomes two columns of the key, in UTC; `change` is not stored."""
    changes = changes_of(rows(("a", (0, 9), 1, "update"), (None, (0, 5), None, "retract")), ["k"], "query", 3)
    assert ("query", 3, ["k", "window_start", "window_end"], ["n"], False) == (
        changes.query,
        changes.batch,
        changes.keys,
        changes.values,
        changes.empty,
    )
    assert [{"k": None, "window_start": at(0), "window_end": at(5)}] == changes.deletes.to_pylist()
    assert [{"k": "a", "window_start": at(0), "window_end": at(9), "n": 1}] == changes.upserts.to_pylist()
    assert pa.timestamp("us", "UTC") == changes.upserts.schema.field("window_start").type
    assert [True, False, False, True] == [field.nullable for field in changes.upserts.schema]


def test_rows_on_close_are_upserts() -> None:
    """They have no `change`; without key columns the window is the key."""
    table = rows(((0, 5), 1), ((5, 9), 2), names=["window", "n"])
    assert ([], [(at(0), at(5), 1), (at(5), at(9), 2)]) == split(table)


def test_rows_without_a_window_have_the_named_key() -> None:
    """As rolling rows; the window is not missed."""
    assert ([], [("a", 1), ("b", 1)]) == split(rows(("a", 1), ("b", 1), names=["k", "n"]), "k")


def test_a_batch_without_rows_has_all_columns() -> None:
    """A sink creates its table from it."""
    changes = changes_of(rows(), ["k"], "query", 0)
    assert changes.empty
    assert ["k", "window_start", "window_end", "n"] == changes.upserts.column_names


def test_an_update_counts_more_than_a_retract() -> None:
    """Of one window in one batch: whichever comes first, it exists at the end."""
    gone, there = ("a", (0, 5), None, "retract"), ("a", (0, 5), 1, "update")
    for table in (rows(gone, there), rows(there, gone)):
        assert ([], [("a", at(0), at(5), 1)]) == split(table, "k")


def test_the_highest_sequence_counts() -> None:
    """Several batches of a changelog in one, in any order; `sequence` is stored."""
    names = ["k", "n", "change", "sequence"]
    table = rows(
        ("a", 2, "update", 2),
        ("a", 1, "update", 1),
        ("b", 1, "update", 1),
        ("b", None, "retract", 2),
        (None, None, "retract", 1),
        (None, 7, "update", 2),
        ("c", 1, "update", 1),
        names=names,
    )
    assert ([("b",)], [("a", 2, 2), (None, 7, 2), ("c", 1, 1)]) == split(table, "k")


def test_a_row_that_comes_twice_is_one() -> None:
    """As from a topic that was written at least once."""
    names = ["k", "n", "change", "sequence"]
    assert ([], [("a", 1, 4)]) == split(rows(("a", 1, "update", 4), ("a", 1, "update", 4), names=names), "k")
    assert ([], [(None, 1)]) == split(rows((None, 1), (None, 1), names=["k", "n"]), "k")


@pytest.mark.parametrize(
    "table",
    [
        rows(("a", 1), ("b", 1), ("a", 2), names=["k", "n"]),
        rows(("a", 1, "update", 4), ("a", 2, "update", 4), names=["k", "n", "change", "sequence"]),
    ],
)
def test_two_values_of_one_key_are_refused(table: pa.Table) -> None:
    """No rule could say which is the last."""
    with pytest.raises(SinkError, match="two different rows of the key k 'a', and no sequence says which"):
        split(table, "k")


def test_older_rows_may_differ() -> None:
    """Only the last one counts."""
    names = ["k", "n", "change", "sequence"]
    table = rows(("a", 1, "update", 4), ("a", 2, "update", 4), ("a", 3, "update", 5), names=names)
    assert ([], [("a", 3, 5)]) == split(table, "k")


@pytest.mark.parametrize(
    ("table", "keys", "message"),
    [
        (
            rows(("a", 1), names=["k", "n"]),
            ["key"],
            "key column 'key' does not exist; the rows have the columns k, n",
        ),
        (rows(("a", 1), names=["k", "n"]), [], "upsert_to needs keys"),
        (rows(("a", 1), names=["k", "n"]), ["k", "k"], "key column 'k' occurs twice"),
        (rows(("a", "update"), names=["k", "change"]), ["change"], "key column 'change' does not exist"),
        (pa.table({"k": pa.array([[1]])}), ["k"], "key column 'k' is of type list<.*>; keys must be atomic"),
        (
            rows(((0, 1), "x"), names=["window", "k"]).append_column("window_end", [[1]]),
            [],
            "'window_end' occurs twice",
        ),
    ],
)
def test_keys_that_cannot_be_are_refused(table: pa.Table, keys: list[str], message: str) -> None:
    """With the columns that there are, and the way out."""
    with pytest.raises(DefinitionError, match=message):
        changes_of(table, keys, "query", 0)


@pytest.mark.parametrize("type_", [pa.float32(), pa.float64()])
def test_zero_has_one_sign_in_keys(type_: pa.DataType) -> None:
    """Spark and SQL take -0.0 and 0.0 for equal; as a value, -0.0 stays."""
    table = pa.table({"k": pa.array([-0.0, None, 1.5], type_), "x": pa.array([-0.0, 1.0, 2.0], type_)})
    changes = changes_of(table, ["k"], "query", 0)
    assert "[0.0, None, 1.5]" == str(changes.upserts["k"].to_pylist())
    assert "[-0.0, 1.0, 2.0]" == str(changes.upserts["x"].to_pylist())
    both = pa.table({"k": pa.array([-0.0, 0.0], type_), "x": [1, 2]})
    with pytest.raises(
        SinkError, match=r"two different rows of the key k 0\.0 \(-0\.0 and 0\.0 are one key\)"
    ):
        changes_of(both, ["k"], "query", 0)
    assert ([], [(0.0, 2)]) == split(both.append_column("sequence", [[1, 2]]).drop_columns("x"), "k")


def test_rows_of_late_records_are_refused() -> None:
    """Also before there are any; with what to call."""
    report = LateSide(pa.schema([("at", pa.timestamp("us"))]), pa.timestamp("us"), 1)
    with pytest.raises(
        DefinitionError, match=r"apply_with_late.*result\.foreach_batch\(lambda windows, late, number:"
    ):
        changes_of(report.with_reports(rows().schema).empty_table(), ["k"], "query", 0)
    mine = pa.table({"k": ["a"], "late": pa.array([{"reason": "rain"}])})
    assert 1 == changes_of(mine, ["k"], "query", 0).upserts.num_rows


@pytest.mark.parametrize(
    ("values", "wrong"),
    [
        (pa.array([-62_135_596_800_000_001], pa.timestamp("us")), True),
        (pa.array([-62_135_596_800_000_000, None], pa.timestamp("us")), False),
        (pa.array([253_402_300_800], pa.timestamp("s", "UTC")), True),
        (pa.array([253_402_300_799], pa.timestamp("s", "UTC")), False),
        (pa.array([-719_163], pa.date32()), True),
        (pa.array([-719_162, 2_932_896], pa.date32()), False),
        (pa.array([None], pa.date32()), False),
        (pa.array([{"at": [2_932_897]}], pa.struct({"at": pa.list_(pa.date32())})), True),
        (pa.array([[("a", 2_932_896)], [], None], pa.map_(pa.string(), pa.date32())), False),
        (pa.array([[("a", 2_932_897)]], pa.map_(pa.string(), pa.date32())), True),
    ],
)
def test_times_that_no_table_holds_are_named(values: pa.Array, wrong: bool) -> None:
    """To the microsecond, in nested values as well."""
    table = pa.table({"k": pa.array(range(len(values))), "at": values})
    if wrong:
        with pytest.raises(SinkError, match="column 'at' has times outside of the years 1 to 9999"):
            changes_of(table, ["k"], "query", 0)
    else:
        assert len(values) == changes_of(table, ["k"], "query", 0).upserts.num_rows
        assert 0 == changes_of(table.slice(0, 0), ["k"], "query", 0).upserts.num_rows


@pytest.mark.parametrize("word", ["delete", None])
def test_unknown_changes_are_refused(word: str | None) -> None:
    """A column of the user's that happens to be called so."""
    with pytest.raises(
        SinkError, match=f"column 'change' is {word!r} in 1 rows; it must be 'update' or 'retract'"
    ):
        split(rows(("a", "update"), ("b", word), names=["k", "change"]), "k")


def test_types_are_plain() -> None:
    """Dictionaries and views are their values, times are in microseconds and UTC, in nested values as well."""
    table = pa.table(
        {
            "k": pa.array(["a"]).dictionary_encode(),
            "v": pa.array(["x"], pa.string_view()),
            "s": pa.array([1_700_000_000], pa.timestamp("s")),
            "l": pa.array([[{"t": at(0)}]], pa.list_(pa.struct({"t": BERLIN}))),
            "m": pa.array([[("a", at(1))]], pa.map_(pa.string(), BERLIN)),
        }
    )
    utc = pa.timestamp("us", "UTC")
    assert [
        pa.string(),
        pa.string(),
        pa.timestamp("us"),
        pa.list_(pa.struct({"t": utc})),
        pa.map_(pa.string(), utc),
    ] == changes_of(table, ["k"], "query", 0).upserts.schema.types


def test_the_newest_row_of_a_key_counts() -> None:
    """By the column that is named, and among equal ones by the other columns; the window is no part of the key."""
    given = rows(
        ("a", (0, 9), 5), ("a", (5, 14), 1), ("b", (0, 9), 2), ("a", (5, 14), 3), names=("k", "window", "n")
    )
    changes = changes_of(given, ["k"], "query", 3, "window_end")
    assert (["k"], "window_end", 0) == (changes.keys, changes.latest_by, changes.deletes.num_rows)
    assert [("b", 2), ("a", 3)] == [(row["k"], row["n"]) for row in changes.upserts.to_pylist()]


@pytest.mark.parametrize(
    ("column", "names", "message"),
    [
        ("at", ("k", "window", "n"), "latest_by names 'at', which does not exist"),
        ("k", ("n", "k"), "is of type string: it takes a timestamp, a date or a signed integer"),
        ("n", ("k", "n", "change"), "rows that are never taken back"),
    ],
)
def test_what_cannot_say_which_row_is_newest(column: str, names: Sequence[str], message: str) -> None:
    """A column that is missing, has no order, or rows that may be taken back."""
    value = {"k": "a", "window": (0, 9), "n": 1, "change": "update"}
    given = rows(tuple(value[name] for name in names), names=names)
    with pytest.raises(DefinitionError, match=message):
        changes_of(given, ["n"] if column == "k" else ["k"], "query", 3, column)
