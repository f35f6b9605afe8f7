"""The bugs that `python -m tests.mutations` puts into the product can still be put there."""

import pytest

from tests.mutations import MUTATIONS, file_of


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: mutation.breaks)
def test_each_text_stands_in_one_place(mutation) -> None:
    """The text that a bug replaces is in the packages exactly once, so that a change of the code updates the list."""
    path = file_of(mutation.old)
    assert 1 == path.read_text().count(mutation.old)
