"""polars: its own rolling and dynamic windows, on all cores, all records at once."""

import polars as pl
import pyarrow as pa
from task import Task, read_task

FIVE = (
    pl.len().alias("n"),
    pl.col("v").sum().alias("total"),
    pl.col("v").min().alias("low"),
    pl.col("v").max().alias("high"),
    pl.col("v").mean().alias("mean"),
)


def sliding(frame: pl.DataFrame, task: Task) -> pl.DataFrame:
    """Return each record's left window."""
    window = {"by": "at", "window_size": f"{task.size}ms", "closed": "both"}
    value = pl.col("v")
    return frame.select(
        "k",
        "at",
        value.is_not_null().cast(pl.Int64).rolling_sum_by(**window).over("k").alias("n"),
        value.rolling_sum_by(**window).over("k").alias("total"),
        value.rolling_min_by(**window).over("k").alias("low"),
        value.rolling_max_by(**window).over("k").alias("high"),
        value.rolling_mean_by(**window).over("k").alias("mean"),
    )


def rolling(frame: pl.DataFrame, task: Task) -> pl.DataFrame:
    """Return each record with its windows of three lengths; the names of the longest have no suffix."""
    frame = frame.with_columns(pl.col("v").is_not_null().cast(pl.Int64).alias("one"))
    results = []
    for length, suffix in ((task.size // 100, "_s"), (task.size // 10, "_m"), (task.size, "")):
        window = {"by": "at", "window_size": f"{length}ms", "closed": "both"}
        value = pl.col("v")
        results += [
            pl.col("one").rolling_sum_by(**window).over("k").alias(f"n{suffix}"),
            value.rolling_sum_by(**window).over("k").alias(f"total{suffix}"),
            value.rolling_min_by(**window).over("k").alias(f"low{suffix}"),
            value.rolling_max_by(**window).over("k").alias(f"high{suffix}"),
            value.rolling_mean_by(**window).over("k").alias(f"mean{suffix}"),
        ]
    return frame.select("k", "at", "v", *results)


def tumbling(frame: pl.DataFrame, task: Task) -> pl.DataFrame:
    """Return tumbling windows, by truncated event time."""
    return frame.group_by("k", pl.col("at").dt.truncate(f"{task.size}ms")).agg(FIVE)


def hopping(frame: pl.DataFrame, task: Task) -> pl.DataFrame:
    """Return hopping windows, from the first that holds a key's first record."""
    window = {"every": f"{task.step}ms", "period": f"{task.size}ms", "offset": f"-{task.size - task.step}ms"}
    return frame.group_by_dynamic("at", group_by="k", **window).agg(FIVE)


def session(frame: pl.DataFrame, task: Task) -> pl.DataFrame:
    """Return sessions: a number for each key that grows where a gap is too long."""
    begins = pl.col("at").diff() > pl.duration(milliseconds=task.size)
    number = begins.fill_null(value=False).cum_sum().over("k").alias("number")
    return frame.with_columns(number).group_by("k", "number").agg(pl.col("at").min(), *FIVE)


WORKS = {"sliding": sliding, "rolling": rolling, "tumbling": tumbling, "hopping": hopping, "session": session}


def main() -> None:
    task = read_task()
    frame = pl.from_arrow(task.records)

    def job() -> pa.Table:
        return WORKS[task.work](frame, task).to_arrow()

    seconds, table = task.clocked(job)
    task.answer(seconds, pl.__version__, table)


if __name__ == "__main__":
    main()
