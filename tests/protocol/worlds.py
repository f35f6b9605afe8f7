"""The small worlds that are searched through, with at most one fault.

With three batches, an attempt begins only when the one before it has ended (retries). A second one at the same time is in
worlds of three batches without a fault, of two batches with a fault of a call or a reader, and of one batch with any fault. Two
attempts at a time with any fault in more batches are left to random runs: a death in two batches alone has more than 24,000
states. So are two attempts in three batches on a disk, and, with snapshots of files on a disk, clocks that jump and returns to
an earlier batch.
"""

from dataclasses import replace

from tests.protocol.executor_world import Executors
from tests.protocol.world import Scenario

_BASE = Scenario(batches=3, processes=2, attempts=1, every=2)
_PLACES = [(kind, where) for kind in ("memory", "files") for where in ("objects", "disk")]
_FAULTS = "death", "failure", "lost answer", "clock", "read", "return", "power"


def _faulty(base: Scenario, kind: str, where: str, fault: str) -> Scenario:
    return replace(base, kind=kind, disk=where == "disk", allowed=(fault,))


QUIET = {
    f"{kind}, objects, three batches, two attempts, no fault": replace(_BASE, kind=kind, faults=0)
    for kind in ("memory", "files")
}
RETRIES = {
    f"{kind}, {where}, three batches, retries, {fault}": _faulty(
        replace(_BASE, attempts=0), kind, where, fault
    )
    for kind, where in _PLACES
    for fault in _FAULTS
    if where == "disk" or fault != "power"
    if (kind, where, fault) not in {("files", "disk", "clock"), ("files", "disk", "return")}
}
TWO_ATTEMPTS = {
    f"{kind}, {where}, one batch, two attempts, {fault}": _faulty(
        replace(_BASE, batches=1, every=1), kind, where, fault
    )
    for kind, where in _PLACES
    for fault in _FAULTS
    if (where == "objects" and fault != "power") or (kind, where, fault) == ("memory", "disk", "power")
}
TWO_BATCHES = {
    f"{kind}, objects, two batches, two attempts, {fault}": _faulty(
        replace(_BASE, batches=2, every=1), kind, "objects", fault
    )
    for kind in ("memory", "files")
    for fault in ("failure", "lost answer", "read")
}
TWO_WORKERS = Executors(batches=1, executors=1, workers=2, faults=0)
EXECUTORS = {
    "executors, two workers, one batch, two attempts, no fault": TWO_WORKERS,
    **{
        f"executors, two workers, one batch, retries, {fault}": replace(
            TWO_WORKERS, attempts=0, faults=1, allowed=(fault,)
        )
        for fault in TWO_WORKERS.allowed
    },
}
SMALL: dict[str, Scenario | Executors] = {**RETRIES, **QUIET, **TWO_BATCHES, **TWO_ATTEMPTS, **EXECUTORS}
TINY = {
    "memory, objects, two batches and no fault": replace(_BASE, batches=2, faults=0),
    "memory, disk, one attempt, a loss of power": replace(
        _BASE, disk=True, attempts=0, batches=1, every=1, allowed=("power",)
    ),
    "memory, objects, one batch, a lost answer": replace(_BASE, batches=1, every=1, allowed=("lost answer",)),
}
"""Smaller ones, which take seconds."""
