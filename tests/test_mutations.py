"""The bugs that `python -m tests.mutations` and `python -m tests.protocol` put into the product can still be put there."""

import re
from fnmatch import fnmatch

import pytest

from tests.mutations import MUTATIONS, ROOT, file_of
from tests.protocol.bugs import BUGS

PLANTED = *MUTATIONS, *(bug.mutation for bug in BUGS)


@pytest.mark.parametrize("mutation", PLANTED, ids=lambda mutation: mutation.breaks)
def test_each_text_stands_in_one_place(mutation) -> None:
    """The text that a bug replaces is in the packages exactly once, so that a change of the code updates the list."""
    path = file_of(mutation.old)
    assert 1 == path.read_text().count(mutation.old)


def rows_of_where_to_look() -> dict[str, list[str]]:
    """What each row of the table in How it works names in backticks, by its first cell."""
    page = (ROOT / "docs" / "how-it-works.md").read_text("utf-8")
    table = page.partition("## Where to look")[2].partition("\n## ")[0]
    cells = [line.strip("| ").split(" | ") for line in table.splitlines() if line.startswith("| ")]
    return {first: re.findall(r"`([^`]+)`", " ".join(rest)) for first, *rest in cells[1:]}


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: mutation.breaks)
def test_its_symptom_leads_to_its_file(mutation) -> None:
    """Who reads what a user says of the bug finds the file by the table of How it works."""
    row = rows_of_where_to_look()[mutation.row]
    file = file_of(mutation.old).relative_to(ROOT)
    places = [f"*/{name}*" if name.endswith("/") else f"*/{name}" for name in row if "/" in name]
    assert any(fnmatch(f"/{file}", place) for place in places), places


def test_each_bug_has_a_symptom() -> None:
    assert all(bug.symptom and bug.row for bug in MUTATIONS)
    assert 40 <= len(MUTATIONS)
