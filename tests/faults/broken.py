"""A backend and a journal with a bug that only a kill shows, which the soak of local runners has to find.

python -m tests.faults.broken OPTIONS is that soak with the journal.
"""

import sys
import time
from typing import Any

from state_backends.backends.rocksdb import RocksDBBackend
from state_backends.interface import WriteBatch
from state_backends.sqlite_journal import SqliteJournal
from tests.faults import soak_local

_LONG_SECONDS = 0.004
"""How long the wrong state is on disk, so that few kills meet it."""


class PagesFirst(RocksDBBackend):
    """Writes pages, and their version in a transaction of its own."""

    def write(self, batch: WriteBatch, version: bytes) -> None:
        if self.version is not None:
            super().write(batch, self.version)
            time.sleep(_LONG_SECONDS)
            batch = WriteBatch({}, {}, None)
        super().write(batch, version)


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
