"""The soak of local runners with a journal that has a bug, which only kills show and which it has to find.

python -m tests.faults.broken OPTIONS, which are those of `tests.faults.soak_local`.
"""

import sys
from typing import Any

from state_backends.sqlite_journal import SqliteJournal
from tests.faults import soak_local


def tear_commits() -> None:
    """Have each change of a journal be committed on its own."""
    change = SqliteJournal._change

    def changed(self: SqliteJournal, *args: Any) -> None:
        change(self, *args)
        self.commit()

    SqliteJournal._change = changed


if __name__ == "__main__":
    tear_commits()
    sys.exit(soak_local.main())
