"""Batches over buckets and executors, one after the other, with buckets of unequal size, slow tasks and lost executors."""

import heapq
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from benchmarks.scale.model import Cluster, Job, Measured, task_seconds

HOUR = 3_600.0


@dataclass(frozen=True, slots=True)
class Simulated:
    """What came of the batches, an array each with an element for a batch.

    Attributes:
        seconds: duration of the batch.
        requests: to the object store, in all.
        uploaded_bytes: of changelog and snapshots, as they were sent.
        waiting_bytes: of snapshots that wait for the storage at the end of the batch.
        snapshots: that were begun.
        restored: buckets that were restored.
    """

    seconds: np.ndarray
    requests: np.ndarray
    uploaded_bytes: np.ndarray
    waiting_bytes: np.ndarray
    snapshots: np.ndarray
    restored: np.ndarray

    def share_in_time(self, interval: float) -> float:
        """Return the share of batches that took no longer than the interval."""
        return float((self.seconds <= interval).mean())


class Simulation:
    """The state of a cluster between batches: where buckets are, what they have changed, and what waits to be uploaded."""

    def __init__(self, job: Job, cluster: Cluster, measured: Measured, seed: int = 0) -> None:
        self._job, self._cluster, self._measured = job, cluster, measured
        self._random = np.random.default_rng(seed)
        shares = self._random.lognormal(0.0, job.skew, job.buckets)
        self._rows = job.rows * shares / shares.sum()
        self._home = np.arange(job.buckets) % cluster.executors
        # Snapshots of different buckets come at different times.
        self._logged = self._random.random(job.buckets) * job.due_bytes
        self._waiting = np.zeros(cluster.executors)

    def run(self, batches: int) -> Simulated:
        """Run so many batches."""
        columns = zip(*(self._batch() for _ in range(batches)), strict=True)
        return Simulated(*(np.array(column, float) for column in columns))

    def _batch(self) -> tuple[float, float, float, float, int, int]:
        job, cluster, measured = self._job, self._cluster, self._measured
        lost = self._lose()
        slowness = self._random.lognormal(0.0, cluster.straggle, job.buckets)
        seconds = task_seconds(cluster, measured, self._rows) * slowness
        seconds[lost] += self._restores(lost)
        log = self._rows * measured.logged_bytes * measured.log_share
        begun = self._snapshot()
        sent = (job.buckets + 2 + job.sources) * measured.file_requests + begun * measured.snapshot_requests
        busy = max(self._makespan(seconds), sent / cluster.requests)
        took = busy + measured.batch_seconds
        uploaded = log.sum() + self._upload(max(took, job.interval), log)
        return took, sent, uploaded, float(self._waiting.sum()), begun, len(lost)

    def _lose(self) -> np.ndarray:
        """Lose executors; return the buckets that move to others. A new executor comes, without buckets."""
        chance = self._cluster.lost_an_hour * self._job.interval / HOUR
        gone = np.flatnonzero(self._random.random(self._cluster.executors) < chance)
        moved = np.flatnonzero(np.isin(self._home, gone))
        others = np.setdiff1d(np.arange(self._cluster.executors), gone)
        if len(others) == 0:
            others = gone
        # Each goes to one of the executors that have the fewest.
        counts = np.bincount(self._home, minlength=self._cluster.executors)[others]
        heap = [(int(count), int(executor)) for count, executor in zip(counts, others, strict=True)]
        heapq.heapify(heap)
        for bucket in moved:
            count, executor = heap[0]
            self._home[bucket] = executor
            heapq.heapreplace(heap, (count + 1, executor))
        self._waiting[gone] = 0.0
        return moved

    def _restores(self, moved: np.ndarray) -> np.ndarray:
        """Seconds to restore each of these buckets: those that go to one executor share its storage."""
        beside = np.bincount(self._home[moved], minlength=self._cluster.executors)[self._home[moved]]
        at_once = np.maximum(np.minimum(beside, self._cluster.cores), 1)
        pace = np.minimum(self._measured.restored_bytes, self._cluster.storage_bytes / at_once)
        size = self._job.state_bytes * self._rows[moved] / self._job.rows
        return self._cluster.latency + size / pace

    def _snapshot(self) -> int:
        """Begin the snapshots that are due, and return how many."""
        self._logged += self._rows * self._measured.logged_bytes
        due = self._logged >= self._job.due_bytes
        np.add.at(self._waiting, self._home[due], self._logged[due] * self._measured.rewritten)
        self._logged[due] = 0.0
        return int(due.sum())

    def _upload(self, seconds: float, log: np.ndarray) -> float:
        """Send what waits, as far as the storage takes it beside the changelog; return its bytes."""
        of_log = np.bincount(self._home, weights=log, minlength=self._cluster.executors)
        room = np.maximum(self._cluster.storage_bytes * seconds - of_log, 0.0)
        sent = np.minimum(self._waiting, room)
        self._waiting -= sent
        return float(sent.sum())

    def _makespan(self, seconds: np.ndarray) -> float:
        """Return when the last executor has done its tasks, each on the core that is free first."""
        order = np.argsort(self._home, kind="stable")
        bounds = np.searchsorted(self._home[order], np.arange(self._cluster.executors + 1))
        longest = 0.0
        for first, last in pairwise(bounds.tolist()):
            longest = max(longest, makespan(seconds[order[first:last]].tolist(), self._cluster.cores))
        return longest


def makespan(tasks: Sequence[float], cores: int) -> float:
    """Return when the last task ends, if each begins on the core that is free first."""
    free = [0.0] * cores
    for seconds in tasks:
        heapq.heapreplace(free, free[0] + seconds)
    return max(free)
