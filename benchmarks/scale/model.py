"""A job on a cluster in numbers, and what follows from them by closed formulas, where nothing is skewed, slow or lost."""

import math
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Job:
    """What is asked for.

    Attributes:
        keys: live keys.
        state_bytes: bytes of all state on disk.
        rows_a_second: rows that arrive.
        buckets: slices of the key space.
        interval: seconds from one batch to the next.
        snapshot_bytes: the option `state.snapshots.bytes`; 0 if it is not set.
        sources: files that the sources write into the checkpoint with each batch.
        skew: spread of the buckets' shares of the rows, as sigma of a log-normal distribution; keys are hashed, so it is
            that of keys which have very many rows.
    """

    keys: float = 10e9
    state_bytes: float = 5e12
    rows_a_second: float = 5e6
    buckets: int = 1_000
    interval: float = 10.0
    snapshot_bytes: float = 0.0
    sources: int = 0
    skew: float = 0.1

    @property
    def rows(self) -> float:
        """Rows of a batch."""
        return self.rows_a_second * self.interval

    @property
    def due_bytes(self) -> float:
        """Bytes of changes after which a bucket writes a snapshot: by default after an eighth of its state."""
        return self.snapshot_bytes or max(16 * 2**20, self.state_bytes / self.buckets / 8)


@dataclass(frozen=True, slots=True)
class Cluster:
    """What it runs on. Rates of bytes are by executor.

    Attributes:
        executors, cores: executors, and the cores of each.
        storage_bytes: bytes a second from and to the object store.
        latency: seconds of one request to it.
        requests: requests a second that it accepts in all.
        straggle: spread of the speed of tasks, as sigma of a log-normal distribution.
        lost_an_hour: how often an executor is lost, for each executor.
    """

    executors: int = 125
    cores: int = 8
    storage_bytes: float = 300e6
    latency: float = 0.05
    requests: float = 3_500
    straggle: float = 0.15
    lost_an_hour: float = 0.01


@dataclass(frozen=True, slots=True)
class Measured:
    """Figures of one machine.

    Attributes:
        row_seconds: processor time of a row in its bucket, steady, many keys on rocksdb.
        batch_seconds: fixed time of a batch, whatever its rows.
        task_seconds: fixed processor time of a bucket's task.
        row_bytes: bytes of a row in the shuffle.
        logged_bytes: bytes of the changelog for a row, before compression. After so many, a snapshot is due.
        log_share: what compression leaves of them.
        rewritten: bytes that snapshots send for each of them: the pages as such, and what RocksDB rewrites.
        snapshot_requests: requests of a snapshot: its new files, a list, and the manifest.
        file_requests: requests to write a file of the checkpoint: 1, or 4 where it is renamed into place.
        result_bytes: bytes that a bucket's task sends to the driver.
        restored_bytes: bytes a second that a task restores, if the storage delivers them.
        key_bytes: memory of a key in its worker.
    """

    row_seconds: float = 15e-6
    batch_seconds: float = 0.4
    task_seconds: float = 0.14
    row_bytes: float = 20.0
    logged_bytes: float = 107.0
    log_share: float = 0.24
    rewritten: float = 2.2
    snapshot_requests: float = 6.0
    file_requests: float = 1.0
    result_bytes: float = 28_400.0
    restored_bytes: float = 400e6
    key_bytes: float = 105.0


@dataclass(frozen=True, slots=True)
class Batch:
    """A batch by formulas.

    Attributes:
        seconds: its duration.
        files: that it adds to the checkpoint.
        requests: to the object store, a second: of the checkpoint and of snapshots.
        shuffle_bytes, uploaded_bytes, driver_bytes: bytes in the shuffle, to the object store, and to the driver.
        snapshots: that it begins, in all buckets.
        restore_seconds: of the buckets of one lost executor, spread over all others.
        memory_bytes: of keys, by executor.
    """

    seconds: float
    files: float
    requests: float
    shuffle_bytes: float
    uploaded_bytes: float
    driver_bytes: float
    snapshots: float
    restore_seconds: float
    memory_bytes: float


def batch(job: Job, cluster: Cluster, measured: Measured) -> Batch:
    """Return a batch in which all buckets are equal, and nothing is slow or lost."""
    logged = job.rows * measured.logged_bytes
    files = job.buckets + 2 + job.sources
    snapshots = job.buckets / batches_of_a_snapshot(job, measured)
    sent = files * measured.file_requests + snapshots * measured.snapshot_requests
    requests = sent / job.interval
    return Batch(
        seconds=max(_tasks(job, cluster, measured), sent / cluster.requests) + measured.batch_seconds,
        files=files,
        requests=requests,
        shuffle_bytes=job.rows * measured.row_bytes,
        uploaded_bytes=logged * (measured.log_share + measured.rewritten),
        driver_bytes=job.buckets * measured.result_bytes,
        snapshots=snapshots,
        restore_seconds=restore_seconds(job, cluster, measured),
        memory_bytes=job.keys * measured.key_bytes / cluster.executors,
    )


def batches_of_a_snapshot(job: Job, measured: Measured) -> int:
    """Return after how many batches a bucket writes a snapshot."""
    logged = job.rows * measured.logged_bytes / job.buckets
    return max(math.ceil(job.due_bytes / logged), 1)


def task_seconds(cluster: Cluster, measured: Measured, rows: float) -> float:
    """Return the seconds of a bucket's task: its rows, and one file of the checkpoint."""
    log = rows * measured.logged_bytes * measured.log_share
    send = cluster.latency * measured.file_requests + log * cluster.cores / cluster.storage_bytes
    return measured.task_seconds + rows * measured.row_seconds + send


def _tasks(job: Job, cluster: Cluster, measured: Measured) -> float:
    waves = math.ceil(math.ceil(job.buckets / cluster.executors) / cluster.cores)
    return waves * task_seconds(cluster, measured, job.rows / job.buckets)


def restore_seconds(job: Job, cluster: Cluster, measured: Measured) -> float:
    """Return the seconds in which the other executors restore the buckets of a lost one, each as many as it must."""
    lost = math.ceil(job.buckets / cluster.executors)
    each = math.ceil(lost / max(cluster.executors - 1, 1))
    pace = min(measured.restored_bytes, cluster.storage_bytes / min(each, cluster.cores))
    waves = math.ceil(each / cluster.cores)
    return waves * (cluster.latency + job.state_bytes / job.buckets / pace)
