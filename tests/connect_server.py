"""A Spark Connect server of its own for tests."""

import socket
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from subprocess import Popen

import pyspark

from operators.spark.base.java import ensure_java
from tests.faults.processes import start
from tests.patience import files, wait_until

_CLASS = "org.apache.spark.sql.connect.service.SparkConnectServer"


@dataclass(frozen=True)
class Server:
    """The address of a server, and its process."""

    url: str
    process: "Popen[str]"


@contextmanager
def connect_server(
    folder: Path,
    master: str,
    conf: Mapping[str, object],
    env: Mapping[str, str] | None = None,
    mark: str = "",
) -> Iterator[Server]:
    """Run a server until the block ends.

    Args:
        folder: for its files and its log.
        master: as Spark has it.
        conf: more conf.
        env: more of its environment, by default the workers run this interpreter.
        mark: on all its processes.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    conf = {
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": port,
        "spark.local.dir": folder / "local",
        "spark.log.level": "ERROR",
        "spark.ui.enabled": "false",
        **conf,
    }
    home = Path(pyspark.__file__).parent
    settings = [part for key, value in conf.items() for part in ("--conf", f"{key}={value}")]
    command = [str(home / "bin" / "spark-submit"), "--master", master, *settings, "--class", _CLASS]
    usual = {"JAVA_HOME": ensure_java(), "SPARK_HOME": str(home), "PYSPARK_PYTHON": sys.executable}
    log = folder / "log"
    process = start(command, log, mark, {**usual, **(env or {})}, folder)
    try:
        _wait_for(port, process, log)
        yield Server(f"sc://127.0.0.1:{port}", process)
    finally:
        process.terminate()
        process.wait()


def _wait_for(port: int, process: "Popen[str]", log: Path) -> None:
    """Wait until something listens at the port."""

    def listens() -> bool:
        assert process.poll() is None, log.read_text()
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", port)) == 0

    wait_until(listens, "a server", files(log.parent))
