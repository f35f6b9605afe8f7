"""Changes of a batch over the pages of a backend."""

from pathlib import Path

import numpy as np
import pytest

from serializers import CorruptDataError, PageLayout
from state_backends.backends.memory import MemoryBackend
from state_backends.backends.spark_state import SparkStateBackend
from state_backends.errors import DamagedCopyError
from state_backends.interface import LoggedPages
from state_backends.store.staged_pages import StagedPages

ROWS = np.arange(200)


@pytest.mark.parametrize("resident", [False, True])
@pytest.mark.parametrize("code", ["i8", "object"])
def test_a_damaged_page_below_a_new_one(tmp_path: Path, code: str, *, resident: bool) -> None:
    """What turns the old page into the new one is logged, for which it is read; damage is that of copy or journal."""
    layout = PageLayout(("i8", code))
    staged = StagedPages(SparkStateBackend.open(tmp_path, {}) if resident else MemoryBackend())
    staged.changes.logged = LoggedPages({}, {})
    (old,) = layout.encode([ROWS, ROWS.astype(object if code == "object" else np.int64)], np.array([200]))
    (new,) = layout.encode(
        [ROWS, ROWS[::-1].astype(object if code == "object" else np.int64)], np.array([200])
    )
    staged.put(0, [(b"a", new)], [])
    staged.log(layout, 0, [old])
    assert {0: {}} == staged.changes.logged.whole
    with pytest.raises(CorruptDataError if resident else DamagedCopyError, match="truncated or altered"):
        staged.log(layout, 0, [old[:-1]])
