"""Stops between two commits: a driver follows a plan of them, and is started again until it is done."""

import time
from collections.abc import Callable, Sequence
from pathlib import Path

from pyspark.sql.streaming import StreamingQuery

from tests.faults.processes import kill_all, start
from tests.patience import TOO_BUSY, TRIES, files, wait_until


class StoppedError(Exception):
    """What ends a query between the two commits."""


def stop_as_planned(folder: Path, batch: int) -> None:
    """Stop after a batch, once, if the plan has it: "raise" ends the query, "wait" waits to be killed."""
    plan = folder / "plan" / str(batch)
    if not plan.exists():
        return
    stopped = plan.rename(folder / "stopped" / plan.name)
    if stopped.read_text() == "raise":
        raise StoppedError(stopped.name)
    (folder / "waits").touch()
    time.sleep(3_600)


def run_to_the_end(start_query: Callable[[], StreamingQuery]) -> None:
    """Run a query to the end of its input; start it again whenever it was stopped."""
    busy = 0
    while True:
        query = start_query()
        try:
            query.processAllAvailable()
        except Exception as error:
            busy += TOO_BUSY in str(error)
            if StoppedError.__name__ not in str(error) and not (TOO_BUSY in str(error) and busy < TRIES):
                raise
        else:
            return
        finally:
            query.stop()


def run_until_it_waits(folder: Path, command: Sequence[str], mark: str) -> bool:
    """Run a driver until it waits between the commits, and kill it with its JVM; False if it came to its end."""
    waits, log = folder / "waits", folder / "log"
    process = start(command, log, mark, {"SPARK_LOCAL_IP": "127.0.0.1"})
    try:
        wait_until(lambda: waits.exists() or process.poll() is not None, "the driver", files(folder))
        if not waits.exists():
            assert 0 == process.returncode, log.read_text(errors="replace")[-4_000:]
            return False
        waits.unlink()
        return True
    finally:
        kill_all(process.pid)
        process.wait()
