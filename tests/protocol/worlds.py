"""The small worlds that are searched through: two attempts, a few batches, at most one fault."""

from dataclasses import replace

from tests.protocol.executor_world import Executors
from tests.protocol.world import Scenario

_BASE = Scenario(batches=3, processes=2, attempts=1, every=2)
QUIET = {
    f"{kind}, {where}, no fault": replace(_BASE, kind=kind, disk=where == "disk", faults=0)
    for kind in ("memory", "files")
    for where in ("objects", "disk")
}
FAULTY = {
    f"{kind}, {where}, {fault}": replace(_BASE, kind=kind, disk=where == "disk", allowed=(fault,))
    for kind in ("memory", "files")
    for where in ("objects", "disk")
    for fault in (
        "death",
        "failure",
        "lost answer",
        "clock",
        "read",
        *(("power",) if where == "disk" else ()),
    )
}
TWO_WORKERS = Executors(batches=1, executors=1, workers=2, faults=0)
EXECUTORS = {
    "executors, two workers, one batch, no fault": TWO_WORKERS,
    "executors, two workers, two batches, no fault": replace(TWO_WORKERS, batches=2),
    **{
        f"executors, {where}, one batch, {fault}": replace(world, faults=1, allowed=(fault,))
        for where, world in (
            ("two workers", TWO_WORKERS),
            ("two of a worker each", replace(TWO_WORKERS, executors=2, workers=1)),
        )
        for fault in TWO_WORKERS.allowed
    },
}
SMALL: dict[str, Scenario | Executors] = {**QUIET, **FAULTY, **EXECUTORS}
TINY = {
    "memory, objects, two batches and no fault": replace(_BASE, batches=2, faults=0),
    "memory, disk, one attempt, a loss of power": replace(
        _BASE, disk=True, attempts=0, batches=1, every=1, allowed=("power",)
    ),
    "memory, objects, one batch, a lost answer": replace(_BASE, batches=1, every=1, allowed=("lost answer",)),
}
"""Smaller ones, which take seconds."""
