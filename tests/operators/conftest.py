"""What tests of operators share."""

from collections.abc import Iterator

import pytest

from operators.kinds import page_sums


@pytest.fixture(scope="module")
def sums_of_all_pages() -> Iterator[None]:
    """Sums stand in for pages of any size and state, so that the few records of these tests go the way of many."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(page_sums, "_DENSE", 1)
        patch.setattr(page_sums, "_FIXED", page_sums._FIXED | {"object"})
        yield
