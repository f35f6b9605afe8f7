"""Where snapshots go, and when."""

from dataclasses import dataclass

from state_backends.durability.folders import Folder


@dataclass(frozen=True)
class SnapshotPolicy:
    """Where snapshots go, and when.

    Attributes:
        folder: URI or local path of the folder; None keeps them in the journal.
        bytes: changes since the last snapshot after which a new one is due, before compression.
        batches: batches with changes since the last snapshot after which a new one is due.
        retain: batches that a replaced snapshot is kept for, because the host may return to one of them.
        background: whether batches continue while files are written.

    Raises:
        StateError: the URI is not valid.
    """

    folder: str | None = None
    bytes: int = 16 << 20
    batches: int = 1_000
    retain: int = 100
    background: bool = True

    def __post_init__(self) -> None:
        if self.folder is not None:
            Folder(self.folder)  # Refused on the driver, before any batch.
