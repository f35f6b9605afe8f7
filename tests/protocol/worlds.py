"""The small worlds that are searched through: two attempts, three batches, at most one fault."""

from dataclasses import replace

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
    for fault in ("death", "failure", "lost answer", "clock", *(("power",) if where == "disk" else ()))
}
SMALL = QUIET | FAULTY
TINY = {
    "memory, objects, two batches and no fault": replace(_BASE, batches=2, faults=0),
    "memory, disk, one attempt, a loss of power": replace(
        _BASE, disk=True, attempts=0, batches=1, every=1, allowed=("power",)
    ),
    "memory, objects, one batch, a lost answer": replace(_BASE, batches=1, every=1, allowed=("lost answer",)),
}
"""Smaller ones, which take seconds."""
