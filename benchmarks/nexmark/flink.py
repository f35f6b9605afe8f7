"""Runs a query on Flink SQL: state in RocksDB, a checkpoint every five seconds, objects reused, 1 GB of managed memory.

    python -m benchmarks.nexmark.flink QUERY BIDS FOLDER CONSTANTS [RESULTS]

It runs in an environment of Flink's, which has nothing of this library. CONSTANTS are those of `bids`, as JSON. A source of
Flink's own makes the same bids by SQL, so that no Python works on them. Read twice a second is the source's own counter: the
ones behind it count what a local aggregation has left. Prints a line of JSON, as `streams` does. With RESULTS, rows go there
as CSV.
"""

import json
import sys
import time
import urllib.error
import urllib.request
from importlib.metadata import version
from itertools import pairwise
from pathlib import Path
from typing import Any

from pyflink.common import Configuration
from pyflink.table import EnvironmentSettings, TableEnvironment

from benchmarks.nexmark.processor import ProcessorTime

PORT = 18_081
CONF = {
    "execution.checkpointing.interval": "5 s",
    "execution.checkpointing.incremental": "true",
    "execution.runtime-mode": "STREAMING",
    "metrics.fetcher.update-interval": "200",
    "parallelism.default": "2",
    "pipeline.object-reuse": "true",
    "rest.bind-port": str(PORT),
    "rest.port": str(PORT),
    "state.backend.type": "rocksdb",
    "table.local-time-zone": "UTC",
    "taskmanager.memory.managed.size": "1gb",
}
SOURCE = """CREATE TABLE source (
    seq BIGINT, auction AS {auction}, bidder AS {bidder}, price AS {price},
    `at` AS TO_TIMESTAMP_LTZ({at}, 3),
    WATERMARK FOR `at` AS `at`
) WITH ('connector' = 'datagen', 'rows-per-second' = '1000000000', 'fields.seq.kind' = 'sequence',
    'fields.seq.start' = '0', 'fields.seq.end' = '{last}')"""
TUMBLE = "TUMBLE(TABLE source, DESCRIPTOR(`at`), INTERVAL '10' SECOND)"
HOP = "HOP(TABLE source, DESCRIPTOR(`at`), INTERVAL '2' SECOND, INTERVAL '10' SECOND)"
SESSION = "SESSION(TABLE source PARTITION BY bidder, DESCRIPTOR(`at`), INTERVAL '10' SECOND)"
GROUPED = (
    "SELECT {key}, {result}, window_start FROM TABLE({windows}) GROUP BY {key}, window_start, window_end"
)
ROLLING = """SELECT bidder, `at`, n_hour, total_hour, COUNT(*) OVER d, SUM(price) OVER d
    FROM (SELECT bidder, `at`, price, COUNT(*) OVER h AS n_hour, SUM(price) OVER h AS total_hour FROM source WINDOW h AS
        (PARTITION BY bidder ORDER BY `at` RANGE BETWEEN INTERVAL '1' HOUR PRECEDING AND CURRENT ROW))
    WINDOW d AS (PARTITION BY bidder ORDER BY `at` RANGE BETWEEN INTERVAL '1' DAY PRECEDING AND CURRENT ROW)"""
OF_GROUPS = "k BIGINT, `result` BIGINT, `begin` TIMESTAMP(3)"
OF_ROLLING = (
    "k BIGINT, `at` TIMESTAMP_LTZ(3), n_hour BIGINT, total_hour BIGINT, n_day BIGINT, total_day BIGINT"
)
QUERIES = {
    "q5": (GROUPED.format(key="auction", result="COUNT(*)", windows=HOP), OF_GROUPS),
    "q7": (GROUPED.format(key="auction", result="MAX(price)", windows=TUMBLE), OF_GROUPS),
    "q11": (GROUPED.format(key="bidder", result="COUNT(*)", windows=SESSION), OF_GROUPS),
    "q12": (GROUPED.format(key="bidder", result="COUNT(*)", windows=TUMBLE), OF_GROUPS),
    "rolling": (ROLLING, OF_ROLLING),
    "rolling, hot": (ROLLING, OF_ROLLING),
}
BLACKHOLE = "'connector' = 'blackhole'"


def source(count: int, constants: dict[str, Any]) -> str:
    """Return the table of bids: `bids.bids` in SQL."""
    live, prime, salts = constants["live"], constants["prime"], constants["salts"]

    def drawn(choice: str) -> str:
        first = f"MOD(seq * {salts[choice]} + {salts[choice]}, {prime})"
        second = f"MOD({first} * {first} + seq, {prime})"
        return f"MOD({second} * 16807 + {first}, {prime})"

    person, auction = f"({live} + seq / 46)", f"({live} + seq / 46 * 3 + 2)"
    some, by = (f"MOD({drawn(choice)}, {live} + 10)" for choice in ("auction", "bidder"))
    any_auction, any_bidder = f"{auction} - {live} + {some}", f"{person} - {live} + 1 + {by}"
    if constants["hot"]:
        is_hot = f"MOD({drawn('hot auction')} / 8, 2) > 0"
        any_auction = f"CASE WHEN {is_hot} THEN {auction} / 100 * 100 ELSE {any_auction} END"
        is_hot = f"MOD({drawn('hot bidder')} / 8, 4) > 0"
        any_bidder = f"CASE WHEN {is_hot} THEN {person} / 100 * 100 + 1 ELSE {any_bidder} END"
    event = "(seq / 46 * 50 + 4 + MOD(seq, 46))"
    return SOURCE.format(
        auction=any_auction,
        bidder=any_bidder,
        price=f"100 + MOD({drawn('price')}, 9900)",
        at=f"{constants['begin_ms']} + {event} * {constants['event_us']} / 1000",
        last=count - 1,
    )


def asked(path: str) -> Any:
    """Return what Flink answers, or None once the job has ended."""
    try:
        with urllib.request.urlopen(f"http://localhost:{PORT}/jobs/{path}", timeout=30) as answer:
            return json.load(answer)
    except (urllib.error.URLError, ConnectionError):
        return None


def counted(job: str) -> int | None:
    """Return how many bids the source has made, by its own counter; None once the job has ended."""
    found = asked(job)
    if found is None:
        return None
    vertex = next(one["id"] for one in found["vertices"] if "ource" in one["name"])
    path = f"{job}/vertices/{vertex}/subtasks/metrics"
    names = [one["id"] for one in asked(path) or ()]
    own = sorted(name for name in names if name.startswith("Source") and name.endswith("numRecordsOut"))
    if not own:
        return 0
    values = asked(f"{path}?get={urllib.request.quote(own[0])}&agg=sum")
    return None if values is None else int(values[0]["sum"]) if values else 0


def state_bytes(job: str) -> int:
    """The bytes of the state in the newest checkpoint; 0 if there is none."""
    found = asked(f"{job}/checkpoints")
    newest = found and found["latest"]["completed"]
    return int(newest["state_size"]) if newest else 0


def main(name: str, count: int, folder: Path, constants: dict[str, Any], results: Path | None) -> None:
    """Run a query and print the figures."""
    used = ProcessorTime()
    conf = Configuration()
    for key, value in {**CONF, "execution.checkpointing.dir": f"file://{folder}/checkpoints"}.items():
        conf.set_string(key, value)
    tables = TableEnvironment.create(EnvironmentSettings.new_instance().with_configuration(conf).build())
    tables.execute_sql(source(count, constants))
    query, columns = QUERIES[name]
    where = (
        BLACKHOLE
        if results is None
        else f"'connector' = 'filesystem', 'path' = 'file://{results}', 'format' = 'csv'"
    )
    tables.execute_sql(f"CREATE TABLE sink ({columns}) WITH ({where})")
    running = tables.execute_sql(f"INSERT INTO sink {query}")
    if results is not None:
        running.wait()
        return
    job, state = str(running.get_job_client().get_job_id()), 0
    looks = [(time.time(), 0)]
    while looks[-1][1] < count:
        time.sleep(0.5)
        made = counted(job)
        looks.append((time.time(), count if made is None else made))
        state = state_bytes(job) or state
    begin, end = moment(looks, count // 3), moment(looks, count)
    figures = {
        "per_second": (count - count // 3) / (end - begin),
        "per_processor_second": (count - count // 3) / (used.at(end) - used.at(begin)),
        "state_bytes": state,
        "version": version("apache-flink"),
    }
    print(json.dumps(figures))


def moment(looks: list[tuple[float, int]], number: int) -> float:
    """Return when a number of bids was reached, between two looks in proportion."""
    for (begin, before), (end, after) in pairwise(looks):
        if after >= number:
            return begin + (end - begin) * (number - before) / max(after - before, 1)
    raise ValueError(f"only {looks[-1][1]} of {number} bids were seen")


if __name__ == "__main__":
    main(
        sys.argv[1],
        int(sys.argv[2]),
        Path(sys.argv[3]),
        json.loads(sys.argv[4]),
        Path(sys.argv[5]) if len(sys.argv) > 5 else None,
    )
