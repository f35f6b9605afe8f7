"""What a pointer keeps when a snapshot is added: which snapshots can be restored, and which log entries follow them."""

from collections.abc import Iterable
from dataclasses import replace

from state_backends.durability.changelog import entry_name
from state_backends.durability.pointer import Pointer, Snapshot
from state_backends.journal import Journal


def adopt(journal: Journal, pointer: Pointer, snapshot: Snapshot, log_bytes: int) -> Pointer:
    """Return the pointer with a new newest snapshot. The one before stays restorable if both are in folders."""
    before = pointer.snapshots
    kept = before[:1] if snapshot.name else ()
    kept = tuple(one for one in kept if one.name)
    _remove_blobs(journal, before)
    retired = [one for one in before if one.name and one not in kept]
    return replace(
        pointer,
        snapshots=(snapshot, *kept),
        retired=(*pointer.retired, *retired),
        log_bytes=max(pointer.log_bytes - log_bytes, 0) if snapshot.name else 0,
    )


def drop_damaged(pointer: Pointer, damaged: int, log_bytes: int) -> Pointer:
    """Return the pointer without its newest snapshots, `damaged` in number, and with the log bytes that follow the others."""
    retired = tuple(one for one in pointer.snapshots[:damaged] if one.name)
    return replace(
        pointer,
        snapshots=pointer.snapshots[damaged:],
        retired=(*pointer.retired, *retired),
        log_bytes=log_bytes,
    )


def trim_log(journal: Journal, pointer: Pointer, fewest: int) -> Pointer:
    """Return the pointer without log entries that no snapshot and no copy needs; the last `fewest` are kept."""
    starts = [one.number for one in pointer.snapshots] + [0] * (pointer.oldest == 1)
    # With files, the snapshot before the newest is the fallback if one of them is damaged; Spark guards the journal.
    needed = starts[: 2 if pointer.newest.name else 1][-1]
    oldest = max(pointer.oldest, min(pointer.number - fewest, needed) + 1)
    for number in range(pointer.oldest, oldest):
        journal.remove(entry_name(number))
    return replace(pointer, oldest=oldest)


def start_over(journal: Journal, pointer: Pointer) -> Pointer:
    """Return the pointer without log and snapshots, which belong to another form of the state, or have what must not stay."""
    for number in range(pointer.oldest, pointer.number + 1):
        journal.remove(entry_name(number))
    _remove_blobs(journal, pointer.snapshots)
    unfinished = () if pointer.pending is None else (pointer.pending.snapshot,)
    retired = tuple(one for one in (*pointer.snapshots, *unfinished) if one.name)
    return replace(
        pointer,
        snapshots=(),
        retired=(*pointer.retired, *retired),
        pending=None,
        oldest=pointer.number + 1,
        log_bytes=0,
    )


def _remove_blobs(journal: Journal, snapshots: Iterable[Snapshot]) -> None:
    for snapshot in snapshots:
        for part in range(snapshot.parts):
            journal.remove(f"base-{snapshot.number}-{part}")
