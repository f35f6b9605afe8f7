"""Runs a query on Flink SQL, set up as `flink_job` says.

    python -m benchmarks.nexmark.flink QUERY BIDS FOLDER CONSTANTS [--results FOLDER] [--pace BIDS]

It runs in an environment of Flink's, which has nothing of this library. CONSTANTS are those of `bids`, as JSON. A source of
Flink's own makes the same bids by SQL, so that no Python works on them. Prints a line of JSON, as `streams` does: the source's
own counter is read twice a second, and its bytes of state are those of the largest checkpoint. With `--results`, rows go there
as CSV.

With `--pace`, the source makes so many bids in a second, all at its beginning. Below the folder of the results are then `made`,
with the times at which it made some bids, and `rows`, whose last columns are the end of the window, or the time of the bid, and
when the row left the operator.
"""

import argparse
import json
import time
from importlib.metadata import version
from pathlib import Path
from typing import Any

from pyflink.table import TableDescriptor

from benchmarks.nexmark.processor import ProcessorTime
from benchmarks.peers.systems.flink_job import count_made, environment, moment, state_bytes

SOURCE = """CREATE TABLE source (
    seq BIGINT, auction AS {auction}, bidder AS {bidder}, price AS {price},
    `at` AS TO_TIMESTAMP_LTZ({at}, 3),
    WATERMARK FOR `at` AS `at`
) WITH ('connector' = 'datagen', 'rows-per-second' = '{pace}', 'fields.seq.kind' = 'sequence',
    'fields.seq.start' = '0', 'fields.seq.end' = '{last}')"""
TUMBLE = "TUMBLE(TABLE source, DESCRIPTOR(`at`), INTERVAL '10' SECOND)"
HOP = "HOP(TABLE source, DESCRIPTOR(`at`), INTERVAL '2' SECOND, INTERVAL '10' SECOND)"
SESSION = "SESSION(TABLE source PARTITION BY bidder, DESCRIPTOR(`at`), INTERVAL '10' SECOND)"
GROUPED = (
    "SELECT {key} AS k, {result} AS r, window_start, window_end FROM TABLE({windows}) "
    "GROUP BY {key}, window_start, window_end"
)
ROLLING = """SELECT bidder, `at`, n_hour, total_hour, COUNT(*) OVER d AS n_day, SUM(price) OVER d AS total_day
    FROM (SELECT bidder, `at`, price, COUNT(*) OVER h AS n_hour, SUM(price) OVER h AS total_hour FROM source WINDOW h AS
        (PARTITION BY bidder ORDER BY `at` RANGE BETWEEN INTERVAL '1' HOUR PRECEDING AND CURRENT ROW))
    WINDOW d AS (PARTITION BY bidder ORDER BY `at` RANGE BETWEEN INTERVAL '1' DAY PRECEDING AND CURRENT ROW)"""
QUERIES = {
    "q5": GROUPED.format(key="auction", result="COUNT(*)", windows=HOP),
    "q7": GROUPED.format(key="auction", result="MAX(price)", windows=TUMBLE),
    "q11": GROUPED.format(key="bidder", result="COUNT(*)", windows=SESSION),
    "q12": GROUPED.format(key="bidder", result="COUNT(*)", windows=TUMBLE),
    "rolling": ROLLING,
    "rolling, hot": ROLLING,
}
MADE = "SELECT seq, CURRENT_ROW_TIMESTAMP() AS made FROM source WHERE MOD(seq, 100) = 0"
SEEN = "SELECT {columns}, CURRENT_ROW_TIMESTAMP() AS seen FROM ({query})"
BEGINS = "SELECT k, r, window_start FROM ({query})"
FASTEST = 1_000_000_000


def source(count: int, constants: dict[str, Any], pace: int) -> str:
    """Return the table of bids: `bids.bids` in SQL."""
    live, salts = constants["live"], constants["salts"]
    # MOD has the type of its second argument, and the square of an INT overflows.
    prime = f"CAST({constants['prime']} AS BIGINT)"

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
        pace=pace,
    )


def sink(folder: Path | None) -> TableDescriptor:
    """Return a sink of files, or one that drops all rows."""
    if folder is None:
        return TableDescriptor.for_connector("blackhole").build()
    return (
        TableDescriptor.for_connector("filesystem").option("path", f"file://{folder}").format("csv").build()
    )


def inserts(name: str, results: Path | None, *, paced: bool) -> list[tuple[TableDescriptor, str]]:
    """Return what is written to each sink."""
    query, rolling = QUERIES[name], QUERIES[name] is ROLLING
    if paced and results is not None:
        columns = "bidder, n_hour, total_hour, n_day, total_day, `at`" if rolling else "*"
        rows = SEEN.format(columns=columns, query=query)
        return [(sink(results / "made"), MADE), (sink(results / "rows"), rows)]
    return [(sink(results), query if rolling else BEGINS.format(query=query))]


def main() -> None:
    """Run a query and print the figures."""
    parser = argparse.ArgumentParser()
    parser.add_argument("query", choices=QUERIES)
    parser.add_argument("bids", type=int)
    parser.add_argument("folder", type=Path)
    parser.add_argument("constants", type=json.loads)
    parser.add_argument("--results", type=Path)
    parser.add_argument("--pace", type=int)
    given = parser.parse_args()
    used, count = ProcessorTime(), given.bids
    tables = environment(given.folder / "checkpoints")
    tables.execute_sql(source(count, given.constants, given.pace or FASTEST))
    job = tables.create_statement_set()
    for target, rows in inserts(given.query, given.results, paced=given.pace is not None):
        job.add_insert(target, tables.sql_query(rows))
    running = job.execute()
    if given.results is not None:
        running.wait()
        return
    job_id, state = str(running.get_job_client().get_job_id()), 0
    looks = [(time.time(), 0, 0)]
    while looks[-1][1] < count:
        time.sleep(0.5)
        made = count_made(job_id)
        state = max(state, state_bytes(job_id))
        looks.append((time.time(), count if made is None else made, state))
    (begin, _), (end, _) = moment(looks, count // 3), moment(looks, count)
    figures = {
        "per_second": (count - count // 3) / (end - begin),
        "per_processor_second": (count - count // 3) / (used.at(end) - used.at(begin)),
        "state_bytes": state,
        "version": version("apache-flink"),
    }
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
