"""A standalone Spark cluster on the loopback device: a master, and workers that have an address of their own each."""

import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import pyspark

from operators.spark.base.java import ensure_java
from tests.faults.hosts import SPARK_FILES, Host
from tests.faults.processes import ROOT, Driver, kill_all, running, start
from tests.patience import files, wait_until

_SPARK_CLASS = Path(pyspark.__file__).parent / "bin" / "spark-class"
_MASTER_URL = re.compile(r"spark://127\.0\.0\.1:\d+")
HOSTS = ("127.0.0.1", "127.0.0.2")
"""Two, as Spark runs no speculative attempt on the host of the first one."""
CORES = 3
"""Of each worker: attempts that wait for each other must find room, whatever the machine has."""


class Cluster:
    """The master and its workers; `kill_marked` ends them.

    Args:
        folder: where they write, and their logs are.
        mark: on all their processes.
        rooms: the hosts that workers run on, by address; by default all run on the machine itself.
    """

    def __init__(self, folder: Path, mark: str, rooms: Mapping[str, Host] | None = None) -> None:
        ensure_java()
        self._folder = folder
        self._mark = mark
        self._rooms = rooms or {}
        options = ("--host", "127.0.0.1", "--port", "0", "--webui-port", "0")
        log = self._start("master", "127.0.0.1", "org.apache.spark.deploy.master.Master", *options)[1]
        wait_until(lambda: _MASTER_URL.search(log.read_text()), "a master", files(folder))
        found = _MASTER_URL.search(log.read_text())
        assert found is not None
        self.url = found[0]
        self._workers: dict[str, int] = {}
        for host in HOSTS:
            self.start_worker(host)

    def start_worker(self, host: str) -> None:
        """Start the worker of an address, if it does not run."""
        if host in self._workers:
            return
        options = (
            "--host",
            host,
            "--port",
            "0",
            "--webui-port",
            "0",
            "--cores",
            str(CORES),
            "--memory",
            "1200m",
        )
        directory = self._folder / "work" / host
        name = "org.apache.spark.deploy.worker.Worker"
        command = (name, *options, "--work-dir", str(directory), self.url)
        pid, log = self._start(f"worker-{host}", host, *command)
        seen = log.read_text().count("Successfully registered with master")
        wait_until(
            lambda: log.read_text().count("Successfully registered with master") > seen,
            f"a worker at {host}",
            files(self._folder),
        )
        self._workers[host] = pid

    def kill_worker(self, host: str) -> None:
        """SIGKILL a worker with its executor, as if the machine were lost."""
        kill_all(self._workers.pop(host))

    def crash(self, host: str) -> None:
        """SIGKILL all that runs on a host; its disk stays."""
        self._workers.pop(host, None)
        self._rooms[host].crash()

    def kill_executor(self, host: str) -> None:
        """SIGKILL a worker's executor; the worker starts another."""
        for pid in self.executors(host):
            kill_all(pid)

    def executors(self, host: str) -> list[int]:
        """Return the processes of a worker's executors."""
        return running(self._workers[host], "CoarseGrainedExecutorBackend")

    @contextmanager
    def driver(
        self, folder: Path, conf: Mapping[str, str] | None = None, wrapper: Sequence[str] = ()
    ) -> Iterator[Driver]:
        """Run a driver on the workers, perhaps with more conf, until the block ends."""
        conf = {**self.conf(), **(conf or {})}
        started = Driver(folder, self._mark, master=self.url, conf=conf, wrapper=wrapper)
        try:
            yield started
        finally:
            started.stop()

    def logs(self) -> dict[Path, str]:
        """Return what each executor has said that was ever started."""
        paths = sorted((self._folder / "work").glob("*/app-*/*/stderr"))
        return {path: path.read_text(errors="replace") for path in paths}

    def conf(self) -> dict[str, str]:
        """Return the conf of a driver that runs on both workers."""
        return {
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.executor.cores": str(CORES),
            "spark.executor.memory": "800m",
            "spark.executorEnv.PYTHONPATH": str(ROOT),
            "spark.locality.wait": "0",
            "spark.scheduler.minRegisteredResourcesRatio": "1.0",
            "spark.scheduler.maxRegisteredResourcesWaitingTime": "30min",
        }

    def _start(self, name: str, host: str, *command: str) -> tuple[int, Path]:
        log = self._folder / f"{name}.log"
        env = {
            "SPARK_LOCAL_IP": host,
            "SPARK_DAEMON_MEMORY": "256m",
            "SPARK_DAEMON_JAVA_OPTS": "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=256m -XX:+UseSerialGC",
            "SPARK_MASTER_OPTS": "-Dspark.master.rest.enabled=false",
            "SPARK_HOME": str(Path(pyspark.__file__).parent),
            "PYSPARK_PYTHON": sys.executable,
        }
        command = (str(_SPARK_CLASS), *command)
        if name.startswith("worker") and host in self._rooms:
            command = tuple(self._rooms[host].command(command))
            env["SPARK_LOCAL_DIRS"] = str(SPARK_FILES)
        return start(command, log, self._mark, env).pid, log
