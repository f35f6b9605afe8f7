"""Where snapshots go, and when."""

from dataclasses import dataclass

from state_backends.durability.folders import Folder

_BYTES, _SNAPSHOT_TO_LOG = 16 << 20, 8


@dataclass(frozen=True)
class SnapshotPolicy:
    """Where snapshots go, and when.

    Attributes:
        folder: URI or local path of the folder; None keeps them in the journal.
        bytes: changes since the last snapshot after which a new one is due, before compression; None for 16 MiB, or an eighth
            of the last snapshot if that is more. So a large state sends less, and its restore reads little more.
        batches: batches with changes since the last snapshot after which a new one is due.
        retain: batches that a replaced snapshot is kept for, because the host may return to one of them.
        background: whether batches continue while files are written.

    Raises:
        StateError: the URI is not valid.
    """

    folder: str | None = None
    bytes: int | None = None
    batches: int = 1_000
    retain: int = 100
    background: bool = True

    def log_bytes(self, size: int = 0) -> int:
        """Return the bytes of changes after which a snapshot is due, given those of the last one."""
        return max(_BYTES, size // _SNAPSHOT_TO_LOG) if self.bytes is None else self.bytes

    def is_over(self, retired: int, host_batch: int) -> bool:
        """Return whether the host can no longer return to a batch that needs a snapshot.

        Args:
            retired: number of the batch that replaced the snapshot; negative if that batch is not known yet.
            host_batch: number of the host's batch now.
        """
        return 0 <= retired < host_batch - self.retain

    def __post_init__(self) -> None:
        if self.folder is not None:
            Folder(self.folder)  # Refused on the driver, before any batch.
