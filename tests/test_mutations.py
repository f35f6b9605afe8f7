"""The bugs that `python -m tests.mutations` and `python -m tests.protocol` put into the product can still be put there."""

import pytest

from tests.mutations import MUTATIONS, file_of
from tests.protocol.bugs import BUGS

PLANTED = *MUTATIONS, *(bug.mutation for bug in BUGS)


@pytest.mark.parametrize("mutation", PLANTED, ids=lambda mutation: mutation.breaks)
def test_each_text_stands_in_one_place(mutation) -> None:
    """The text that a bug replaces is in the packages exactly once, so that a change of the code updates the list."""
    path = file_of(mutation.old)
    assert 1 == path.read_text().count(mutation.old)
