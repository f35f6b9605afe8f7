"""What merge_to and append_to know before there is a table: names, ranges of days, and what a commit says."""

import random
from typing import Any

import pytest

from operators import DefinitionError
from operators.sinks import append_to, merge_to
from operators.sinks.lake import day_ranges
from operators.sinks.lake_tables import Note, note_of


def test_ranges_of_days() -> None:
    """All days are in one, few ranges have them, and the widest gaps are left out."""
    assert [(1, 3), (7, 7)] == day_ranges([1, 2, 3, 7])
    rng = random.Random(3)
    for count in (1, 5, 33, 200):
        days = sorted(rng.sample(range(-5_000, 20_000), count))
        ranges = day_ranges(days)
        assert len(ranges) <= 32
        assert all(any(a <= day <= b for a, b in ranges) for day in days)
        assert ranges == sorted(ranges)
        assert all(a in days and b in days for a, b in ranges)


@pytest.mark.parametrize(
    "name", ["", "a b", "x; DROP TABLE y", "lake.db.visits.branch_audit", "delta.`tables/visits`", 7]
)
def test_names_that_are_none(name: Any) -> None:
    """Before a query starts."""
    with pytest.raises(DefinitionError):
        merge_to(name, keys=["user"])
    with pytest.raises(DefinitionError):
        append_to(name)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"keys": "user"}, r"write keys=\['user'\]"),
        ({"keys": [], "query": ""}, "query takes a name"),
        ({"keys": [], "format": "hudi"}, "format is 'delta' or 'iceberg', not 'hudi'"),
        ({"keys": [], "partition_by": "country"}, "partition_by takes a list"),
        ({"keys": [("a",)]}, "keys takes column names"),
    ],
)
def test_arguments_that_are_refused(arguments: dict[str, Any], message: str) -> None:
    """With the way out."""
    with pytest.raises(DefinitionError, match=message):
        merge_to("lake.db.visits", **arguments)


@pytest.mark.parametrize(
    "name", ["visits", "lake.db.visits", "delta.`/tables/a b`", "delta.`s3://a/b`", "`a-b`.c.`d``e`"]
)
def test_names_that_are_taken(name: str) -> None:
    """As SQL has them."""
    assert name == merge_to(name, keys=["user", "window"]).table
    assert ("user",) == merge_to(name, keys=["user", "window"]).keys


def test_notes_are_read_back() -> None:
    """Those of other queries, and what others write into commits, are none."""
    note = Note("o'b\\", 7, 2**63 - 1, "x")
    assert note == note_of(note.text(), note.query)
    for text in (None, "", "{", "[]", "7", note.text()):
        assert note_of(text, "other") is None
