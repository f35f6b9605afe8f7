"""Flink's SQL from Python: its own windows over keyed records.

    in_flink.py KIND KEYS ROWS FOLDER

KIND is tumbling, by the hour; session, with a gap of an hour; or rolling: beside each record, its key's last hour and last day
(`OVER RANGE`, two of them in a chain, as one query can have one).

A source of Flink's own makes the records, so that no Python works on them. For tumbling and session it is one of each key in
the first hour, then ROWS of random keys at the same pace. For rolling it is one of each key in ten seconds, for a day, and then
ROWS more. The source's own counter is read every half a second; printed is the rate of the rows after that
first hour, or day, and after a tenth of them, and the bytes that checkpoints have written for each.
"""

import json
import sys
import time
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path

from flink_job import count_made, environment, moment

PRIME = 2_654_435_761
HOUR_MS = 3_600_000
BUSY_MS, BUSY_FILL = 10_000, 8_640
"""Rolling windows: from one record of a key to its next, and how many of each come first: a day of them."""
WINDOWS = {
    "tumbling": "TUMBLE(TABLE source, DESCRIPTOR(`at`), INTERVAL '1' HOUR)",
    "session": "SESSION(TABLE source PARTITION BY k, DESCRIPTOR(`at`), INTERVAL '1' HOUR)",
}
SOURCE = """CREATE TABLE source (
    seq BIGINT, r BIGINT, v DOUBLE,
    k AS {key},
    `at` AS TO_TIMESTAMP_LTZ(seq * {span} / {keys}, 3),
    WATERMARK FOR `at` AS `at`
) WITH ('connector' = 'datagen', 'rows-per-second' = '1000000000', 'fields.seq.kind' = 'sequence',
    'fields.seq.start' = '0', 'fields.seq.end' = '{last}', 'fields.r.min' = '0', 'fields.r.max' = '{most}')"""
SCATTERED = "CASE WHEN seq < {keys} THEN MOD(seq * {prime}, {keys}) ELSE r END"
IN_TURN = "MOD(seq, {keys})"
SINK = """CREATE TABLE sink (k BIGINT, n BIGINT, total DOUBLE, low DOUBLE, high DOUBLE, mean DOUBLE)
    WITH ('connector' = 'blackhole')"""
QUERY = """INSERT INTO sink SELECT k, COUNT(*), SUM(v), MIN(v), MAX(v), AVG(v)
    FROM TABLE({windows}) GROUP BY k, window_start, window_end"""
ROLLING_SINK = """CREATE TABLE sink (k BIGINT, n_h BIGINT, total_h DOUBLE, n_d BIGINT, total_d DOUBLE)
    WITH ('connector' = 'blackhole')"""
ROLLING = """INSERT INTO sink SELECT k, n_h, total_h, COUNT(*) OVER d, SUM(v) OVER d
    FROM (SELECT k, `at`, v, COUNT(*) OVER h AS n_h, SUM(v) OVER h AS total_h FROM source WINDOW h AS
        (PARTITION BY k ORDER BY `at` RANGE BETWEEN INTERVAL '1' HOUR PRECEDING AND CURRENT ROW))
    WINDOW d AS (PARTITION BY k ORDER BY `at` RANGE BETWEEN INTERVAL '1' DAY PRECEDING AND CURRENT ROW)"""


def started(kind: str, keys: int, total: int, folder: Path) -> str:
    """Start the query over so many records and return the job's id."""
    tables = environment(folder)
    key, span = (IN_TURN, BUSY_MS) if kind == "rolling" else (SCATTERED, HOUR_MS)
    key = key.format(keys=keys, prime=PRIME)
    tables.execute_sql(SOURCE.format(key=key, keys=keys, span=span, last=total - 1, most=keys - 1))
    tables.execute_sql(ROLLING_SINK if kind == "rolling" else SINK)
    query = ROLLING if kind == "rolling" else QUERY.format(windows=WINDOWS[kind])
    return str(tables.execute_sql(query).get_job_client().get_job_id())


def watched(job: str, total: int, folder: Path) -> list[tuple[float, int, int]]:
    """Return times, numbers of records that the source has made, and bytes of checkpoints, until the job ends."""
    written: dict[Path, int] = {}
    looks = [(time.perf_counter(), 0, 0)]
    while looks[-1][1] < total:
        time.sleep(0.5)
        count = count_made(job)
        if count is None and not looks[-1][1]:
            raise RuntimeError("the job ended before it was seen: give it more rows")
        for path in folder.rglob("*"):
            with suppress(FileNotFoundError):
                written[path] = max(path.stat().st_size if path.is_file() else 0, written.get(path, 0))
        looks.append((time.perf_counter(), total if count is None else count, sum(written.values())))
    return looks


def rate(looks: list[tuple[float, int, int]], first: int, last: int) -> tuple[float, float]:
    """Return records per second, and bytes for a record, between two numbers of records: from the first on until the last."""
    (begin, before), (end, after) = (moment(looks, number) for number in (first, last))
    return (last - first) / (end - begin), (after - before) / (last - first)


def main(kind: str, keys: int, rows: int, folder: Path) -> None:
    """Run the query and print the figures as one line of JSON."""
    fill = keys * BUSY_FILL if kind == "rolling" else keys
    looks = watched(started(kind, keys, fill + rows, folder), fill + rows, folder)
    growing, _ = rate(looks, fill // 10, fill)
    steady, written = rate(looks, fill + rows // 10, fill + rows)
    found = {"growing": growing, "steady": steady, "checkpoint_bytes": written}
    print(json.dumps({**found, "version": version("apache-flink")}))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), Path(sys.argv[4]))
