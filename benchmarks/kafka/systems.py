"""The two systems: how each is started, what its messages say, and where its state is."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path

from benchmarks.kafka.records import GRACE_MS, LENGTHS_MS, Row, Window, last_time
from examples.kafka.jars import CONNECTOR, LOGGING, Artifact, java_program

STREAMS = Artifact("org.apache.kafka", "kafka-streams", "4.3.1")
_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


@dataclass(frozen=True, slots=True)
class Run:
    """What is run: which window, from which topic of which broker to which, with what it keeps in a folder.

    Attributes:
        broker_data: the broker's own folder, which has the changelogs of Kafka Streams.
    """

    servers: str
    window: str
    source: str
    output: str
    folder: Path
    broker_data: Path


@dataclass(frozen=True)
class System:
    """A system under test.

    Attributes:
        name: in tables.
        command: starts it, as a process that prints RUNNING.
        read: what a message says: the window, its row (None if it is deleted), and when its newest record was sent.
        state: bytes on the local disk, and bytes from which another machine restores the state.
    """

    name: str
    command: Callable[[Run], list[str]]
    read: Callable[[str, bytes, bytes | None], tuple[Window, Row | None, int]]
    state: Callable[[Run], tuple[int, int]]


class Process:
    """A running system."""

    def __init__(self, system: System, run: Run) -> None:
        self.started = time.time()
        jars = ",".join(map(str, CONNECTOR.jars()))
        self._log = (run.folder / "log").open("ab")
        self._process = subprocess.Popen(
            system.command(run),
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
            env={**os.environ, "PYSPARK_SUBMIT_ARGS": f"--jars {jars} pyspark-shell"},
            start_new_session=True,
        )

    def wait_until_it_runs(self) -> None:
        """Wait for RUNNING.

        Raises:
            RuntimeError: it ended instead; names its log.
        """
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.startswith("RUNNING"):
                return
        raise RuntimeError(f"it did not start: see {self._log.name}")

    def kill(self) -> None:
        """End the process at once, with those that it started."""
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self._log.close()


def _streams_command(run: Run) -> list[str]:
    jars = os.pathsep.join(map(str, STREAMS.jars() + LOGGING.jars()))
    classes = run.folder / "classes"
    if not classes.exists():  # once: the time of a restart is without the compiler's
        program = Path(__file__).parent / "java" / "StreamsJob.java"
        subprocess.run([java_program("javac"), "-cp", jars, "-d", str(classes), str(program)], check=True)
    return [
        *(java_program(), "-Xmx2g", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"),
        *("-cp", f"{classes}{os.pathsep}{jars}", "StreamsJob"),
        *(run.servers, _application(run), str(run.folder / "state"), run.source, run.output),
        *(run.window, str(LENGTHS_MS[run.window]), str(GRACE_MS)),
    ]


def _application(run: Run) -> str:
    return f"application-{run.output}"


def _streams_read(_window: str, key: bytes, value: bytes | None) -> tuple[Window, Row | None, int]:
    name, start, end = key.decode().split(",")
    if value is None:
        return (name, int(start), int(end)), None, 0
    count, total, sent = map(int, value.split(b","))
    return (name, int(start), int(end)), (count, total), sent


def _streams_state(run: Run) -> tuple[int, int]:
    topics = [path for path in run.broker_data.glob(f"{_application(run)}-*-changelog-*") if path.is_dir()]
    return bytes_in(run.folder / "state"), sum(map(bytes_in, topics))


def _our_command(run: Run) -> list[str]:
    module = "benchmarks.kafka.ours"
    return [sys.executable, "-m", module, run.servers, str(run.folder), run.source, run.output, run.window]


def _our_read(window: str, key: bytes, value: bytes | None) -> tuple[Window, Row | None, int]:
    of = json.loads(key)
    start, end = _millis(of["window_start"]), last_time(window, _millis(of["window_end"]))
    if value is None:
        return (of["key"], start, end), None, 0
    row = json.loads(value)
    return (of["key"], start, end), (row["n"], row["total"]), row["sent"]


def _millis(text: str) -> int:
    since = datetime.fromisoformat(text.removesuffix("Z")).replace(tzinfo=timezone.utc) - _EPOCH
    return (since.days * 86_400 + since.seconds) * 1_000 + since.microseconds // 1_000


def _our_state(run: Run) -> tuple[int, int]:
    return bytes_in(run.folder / "local"), bytes_in(run.folder / "checkpoint")


def bytes_in(folder: Path) -> int:
    """Return the bytes on disk of all files below a folder."""
    total = 0
    for path in folder.rglob("*"):
        with suppress(FileNotFoundError):  # a background job may have removed it
            total += path.stat().st_blocks * 512 if path.is_file() else 0
    return total


SYSTEMS = {
    system.name: system
    for system in (
        System("Kafka Streams", _streams_command, _streams_read, _streams_state),
        System("this library", _our_command, _our_read, _our_state),
    )
}
