"""A Spark driver that can be killed: python -m tests.faults.driver FOLDER MASTER CONF; each line of its input is a task."""

import faulthandler
import json
import signal
import sys
from pathlib import Path

from operators import spark_session
from tests.faults.plans import Plan
from tests.faults.query import check, judge, run
from tests.operators.spark.frames import session_conf

TASKS = {"run": run, "judge": judge, "check": check}


def main(folder: Path, master: str, conf: dict[str, str]) -> None:
    """Do the tasks that come in, and write each one's answer to FOLDER/answers."""
    faulthandler.register(signal.SIGUSR1)
    settings = {
        **session_conf(folder),
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.streaming.stateStore.maintenanceInterval": "2s",
        "spark.sql.streaming.stateStore.minDeltasForSnapshot": "3",
        **conf,
    }
    spark = spark_session("faults", master=master, buckets=3, conf=settings)
    spark.sparkContext.setLogLevel("WARN")
    for line in sys.stdin:
        request = json.loads(line)
        answer = TASKS[request["task"]](spark, [Plan(**plan) for plan in request["plans"]])
        aside = folder / "answers" / "aside"
        aside.write_text(json.dumps(answer))
        aside.rename(folder / "answers" / str(request["number"]))
    spark.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], json.loads(sys.argv[3]))
