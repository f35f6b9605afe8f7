"""Flink's SQL from Python: its own windows over very many keys, state in its RocksDB backend, a checkpoint every five seconds.

    in_flink.py KIND KEYS ROWS FOLDER      KIND is tumbling, by the hour, or session, with a gap of an hour

A source of Flink's own makes the records, so that no Python works on them: one of each key in the first hour, then ROWS of
random keys at the same pace. What Flink's own counter says of the source is read every half a second; printed is the rate
of the rows after that hour, and after a tenth of them.
"""

import json
import sys
import time
import urllib.error
import urllib.request
from importlib.metadata import version
from itertools import pairwise

from pyflink.common import Configuration
from pyflink.table import EnvironmentSettings, TableEnvironment

PORT = 18_081
PRIME = 2_654_435_761
HOUR_MS = 3_600_000
WINDOWS = {
    "tumbling": "TUMBLE(TABLE source, DESCRIPTOR(`at`), INTERVAL '1' HOUR)",
    "session": "SESSION(TABLE source PARTITION BY k, DESCRIPTOR(`at`), INTERVAL '1' HOUR)",
}
CONF = {
    "execution.checkpointing.interval": "5 s",
    "execution.checkpointing.incremental": "true",
    "execution.runtime-mode": "STREAMING",
    "metrics.fetcher.update-interval": "200",
    "parallelism.default": "2",
    "rest.bind-port": str(PORT),
    "rest.port": str(PORT),
    "state.backend.type": "rocksdb",
    "table.local-time-zone": "UTC",
}
SOURCE = """CREATE TABLE source (
    seq BIGINT, r BIGINT, v DOUBLE,
    k AS CASE WHEN seq < {keys} THEN MOD(seq * {prime}, {keys}) ELSE r END,
    `at` AS TO_TIMESTAMP_LTZ(seq * {hour} / {keys}, 3),
    WATERMARK FOR `at` AS `at`
) WITH ('connector' = 'datagen', 'rows-per-second' = '1000000000', 'fields.seq.kind' = 'sequence',
    'fields.seq.start' = '0', 'fields.seq.end' = '{last}', 'fields.r.min' = '0', 'fields.r.max' = '{most}')"""
SINK = """CREATE TABLE sink (k BIGINT, n BIGINT, total DOUBLE, low DOUBLE, high DOUBLE, mean DOUBLE)
    WITH ('connector' = 'blackhole')"""
QUERY = """INSERT INTO sink SELECT k, COUNT(*), SUM(v), MIN(v), MAX(v), AVG(v)
    FROM TABLE({windows}) GROUP BY k, window_start, window_end"""


def started(kind: str, keys: int, rows: int, folder: str) -> str:
    """Start the query and return the job's id."""
    conf = Configuration()
    for name, value in {**CONF, "execution.checkpointing.dir": f"file://{folder}"}.items():
        conf.set_string(name, value)
    tables = TableEnvironment.create(EnvironmentSettings.new_instance().with_configuration(conf).build())
    tables.execute_sql(
        SOURCE.format(keys=keys, prime=PRIME, hour=HOUR_MS, last=keys + rows - 1, most=keys - 1)
    )
    tables.execute_sql(SINK)
    return str(tables.execute_sql(QUERY.format(windows=WINDOWS[kind])).get_job_client().get_job_id())


def asked(path: str) -> dict:
    """Return what Flink answers."""
    with urllib.request.urlopen(f"http://localhost:{PORT}/jobs/{path}", timeout=30) as answer:
        return json.load(answer)


def watched(job: str, total: int) -> list[tuple[float, int]]:
    """Return times and numbers of records that the source has sent, until the job ends and its cluster with it."""
    looks = [(time.perf_counter(), 0)]
    while looks[-1][1] < total:
        time.sleep(0.5)
        count = counted(job)
        if count is None and not looks[-1][1]:
            raise RuntimeError("the job ended before it was seen: give it more rows")
        looks.append((time.perf_counter(), total if count is None else count))
    return looks


def counted(job: str) -> int | None:
    """Return how many records the source has sent, or None if the job has ended."""
    try:
        return max(vertex["metrics"]["write-records"] for vertex in asked(job)["vertices"])
    except urllib.error.URLError:
        return None


def rate(looks: list[tuple[float, int]], first: int, last: int) -> float:
    """Return the records per second between two numbers of records: while the first is passed, until the last is."""
    moments = [moment(looks, number) for number in (first, last)]
    return (last - first) / (moments[1] - moments[0])


def moment(looks: list[tuple[float, int]], number: int) -> float:
    """Return when a number of records was reached, between two looks in proportion."""
    for (begin, before), (end, after) in pairwise(looks):
        if after >= number:
            return begin + (end - begin) * (number - before) / max(after - before, 1)
    raise ValueError(f"only {looks[-1][1]} of {number} records were seen")


def main(kind: str, keys: int, rows: int, folder: str) -> None:
    """Run the query and print the figures as one line of JSON."""
    looks = watched(started(kind, keys, rows, folder), keys + rows)
    found = {"growing": rate(looks, keys // 10, keys), "steady": rate(looks, keys + rows // 10, keys + rows)}
    print(json.dumps({**found, "version": version("apache-flink")}))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4])
