"""pandas: groupby.rolling and groupby, on one core, all records at once; hopping windows from partial results for each step."""

import numpy as np
import pandas as pd
import pyarrow as pa
from task import Task, read_task

FIVE = {"n": "count", "total": "sum", "low": "min", "high": "max", "mean": "mean"}
PARTIAL = {"n": ("v", "count"), "total": ("v", "sum"), "low": ("v", "min"), "high": ("v", "max")}
COMBINED = {"n": "sum", "total": "sum", "low": "min", "high": "max"}


def sliding(frame: pd.DataFrame, task: Task) -> pd.DataFrame:
    """Return each record's left window."""
    windows = frame.set_index("at").groupby("k")["v"].rolling(f"{task.size}ms", closed="both")
    results = {name: getattr(windows, how)() for name, how in FIVE.items()}
    return pd.DataFrame(results).reset_index()


def tumbling(frame: pd.DataFrame, task: Task) -> pd.DataFrame:
    """Return tumbling windows, by truncated event time."""
    keys = [frame["k"], frame["at"].dt.floor(f"{task.size}ms")]
    return frame.groupby(keys, sort=False)["v"].agg(**FIVE).reset_index()


def hopping(frame: pd.DataFrame, task: Task) -> pd.DataFrame:
    """Return hopping windows: the partial results of each step go into every window that holds it."""
    steps = (
        frame.groupby(["k", frame["at"].dt.floor(f"{task.step}ms")], sort=False).agg(**PARTIAL).reset_index()
    )
    windows = task.size // task.step
    back = pd.to_timedelta(np.tile(np.arange(windows) * task.step, len(steps)), unit="ms")
    spread = steps.loc[steps.index.repeat(windows)]
    spread["at"] = spread["at"].to_numpy() - back.to_numpy()
    results = spread.groupby(["k", "at"], sort=False).agg(COMBINED).reset_index()
    results["mean"] = results["total"] / results["n"]
    return results


def session(frame: pd.DataFrame, task: Task) -> pd.DataFrame:
    """Return sessions: a number for each key that grows where a gap is too long."""
    begins = frame.groupby("k", sort=False)["at"].diff() > pd.Timedelta(milliseconds=task.size)
    number = begins.groupby(frame["k"], sort=False).cumsum().rename("number")
    sessions = frame.groupby([frame["k"], number], sort=False)
    return sessions.agg(at=("at", "min"), **PARTIAL, mean=("v", "mean")).reset_index()


WORKS = {"sliding": sliding, "tumbling": tumbling, "hopping": hopping, "session": session}


def main() -> None:
    task = read_task()
    frame = task.records.to_pandas()
    seconds, results = task.clocked(lambda: WORKS[task.work](frame, task))
    task.answer(seconds, pd.__version__, pa.Table.from_pandas(results, preserve_index=False))


if __name__ == "__main__":
    main()
