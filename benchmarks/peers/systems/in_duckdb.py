"""duckdb: SQL on a table of its own, on all cores, all records at once; hopping windows from partial results for each step."""

import duckdb
import pyarrow as pa
from task import read_task

FIVE = "count(v) AS n, sum(v) AS total, min(v) AS low, max(v) AS high, avg(v) AS mean"
WORKS = {
    "sliding": """
        SELECT k, moment AS "at", count(v) OVER w AS n, sum(v) OVER w AS total, min(v) OVER w AS low,
            max(v) OVER w AS high, avg(v) OVER w AS mean
        FROM records
        WINDOW w AS (
            PARTITION BY k ORDER BY moment RANGE BETWEEN INTERVAL {size} MILLISECONDS PRECEDING AND CURRENT ROW)""",
    "tumbling": """
        SELECT k, make_timestamp_ms(epoch_ms(moment) // {size} * {size}) AS "at", {five}
        FROM records
        GROUP BY ALL""",
    "hopping": """
        WITH steps AS (
            SELECT k, epoch_ms(moment) // {step} * {step} AS step, count(v) AS n, sum(v) AS total, min(v) AS low,
                max(v) AS high
            FROM records
            GROUP BY ALL)
        SELECT k, make_timestamp_ms(step - back) AS "at", sum(n)::BIGINT AS n, sum(total) AS total, min(low) AS low,
            max(high) AS high, sum(total) / sum(n) AS mean
        FROM steps, range(0, {size}, {step}) AS earlier(back)
        GROUP BY k, step - back""",
    "session": """
        WITH gaps AS (
            SELECT k, moment, v,
                moment - lag(moment) OVER (PARTITION BY k ORDER BY moment) > INTERVAL {size} MILLISECONDS AS begins
            FROM records),
        numbered AS (
            SELECT k, moment, v, count(*) FILTER (begins) OVER (PARTITION BY k ORDER BY moment) AS number
            FROM gaps)
        SELECT k, min(moment) AS "at", {five}
        FROM numbered
        GROUP BY k, number""",
}
"""A left window for each record; windows by truncated event time; the same of steps, each of which goes into every window
that holds it; sessions by a number for each key that grows where a gap is too long."""


def main() -> None:
    task = read_task()
    database = duckdb.connect()
    arrived = task.records.rename_columns(["k", "moment", "v"])
    database.register("arrived", arrived)
    # `epoch_ms` of a column in milliseconds is an error in duckdb 2.0.
    database.execute("CREATE TABLE records AS SELECT * REPLACE (moment::TIMESTAMP AS moment) FROM arrived")
    query = WORKS[task.work].format(size=task.size, step=task.step, five=FIVE)
    seconds, table = task.clocked(lambda: rows(database, query))
    task.answer(seconds, duckdb.__version__, table)


def rows(database: duckdb.DuckDBPyConnection, query: str) -> pa.Table:
    """Run a query and return its rows."""
    return database.sql(query).to_arrow_table()


if __name__ == "__main__":
    main()
