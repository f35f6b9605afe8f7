"""One broker in one process of Java, with a folder and a port of its own on the loopback interface."""

import hashlib
import os
import random
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from filelock import FileLock

from examples.kafka.jars import BROKER, LOGGING, cache, java_program

_SETTINGS: Mapping[str, object] = {
    "process.roles": "broker,controller",
    "node.id": 1,
    "controller.listener.names": "CONTROLLER",
    "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,PROXY:PLAINTEXT",
    "num.partitions": 3,
    "offsets.topic.replication.factor": 1,
    "offsets.topic.num.partitions": 2,
    "transaction.state.log.replication.factor": 1,
    "transaction.state.log.min.isr": 1,
    "transaction.state.log.num.partitions": 2,
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": 500,
    "share.coordinator.state.topic.replication.factor": 1,
    "share.coordinator.state.topic.min.isr": 1,
    "group.initial.rebalance.delay.ms": 0,
    "log.cleaner.backoff.ms": 200,
    "log.cleaner.dedupe.buffer.size": 2 << 20,
    "log.initial.task.delay.ms": 500,
    "broker.session.timeout.ms": 3_000,  # a killed broker that starts again waits for the end of its former session
    "broker.heartbeat.interval.ms": 500,
}
_JVM = (
    "-Xms128m",
    "-Xmx512m",
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
)
_FORMATTED = """version=1
cluster.id=windows-of-this-project
node.id=1
directory.id=xt_N5HeT1NO9oYnftlpI2g
"""
"""What Kafka's StorageTool writes into an empty folder of data; that is one more process of Java."""
_START_SECONDS = 120


class Broker:
    """A broker whose process can be killed and started again; its topics and its port stay.

    Attributes:
        servers: its address, as clients take it.
        folder: of its data, configuration and log.
        behind: where a proxy connects to, whose own address the broker then tells to the clients.
    """

    def __init__(
        self,
        folder: Path,
        settings: Mapping[str, object] | None = None,
        proxy: str | None = None,
        classes: Sequence[str] | None = None,
    ) -> None:
        self.folder = folder = folder.resolve()  # the process works in it
        self._classes = _archived() if classes is None else classes
        port, controller, behind = _free_ports(3)
        self.behind = f"127.0.0.1:{behind}"
        self.servers = f"127.0.0.1:{port}"
        self._process: subprocess.Popen[bytes] | None = None
        given = {
            **_SETTINGS,
            "listeners": f"PLAINTEXT://{self.servers},PROXY://{self.behind},CONTROLLER://127.0.0.1:{controller}",
            "advertised.listeners": f"PLAINTEXT://{self.servers},PROXY://{proxy or self.behind}",
            "inter.broker.listener.name": "PLAINTEXT",
            "controller.quorum.voters": f"1@127.0.0.1:{controller}",
            "log.dirs": folder / "data",
            **(settings or {}),
        }
        self._config = folder / "server.properties"
        self._config.write_text("".join(f"{name}={value}\n" for name, value in given.items()))
        data = Path(str(given["log.dirs"]))
        data.mkdir()
        (data / "meta.properties").write_text(_FORMATTED)

    def start(self) -> None:
        """Start the process, and wait until it takes connections.

        Raises:
            RuntimeError: it did not start; the message has the end of its log.
        """
        log = self.folder / "log"
        with log.open("ab") as output:
            self._process = subprocess.Popen(self._command(), stdout=output, stderr=output, cwd=self.folder)
        end = time.monotonic() + _START_SECONDS
        while not self._answers():
            if self._process.poll() is not None or time.monotonic() > end:
                raise RuntimeError(f"the broker did not start:\n{log.read_text()[-3000:]}")
            time.sleep(0.05)

    @property
    def pid(self) -> int | None:
        """The number of the process, once it was started."""
        return self._process and self._process.pid

    def stop(self) -> None:
        """Ask the process to end, and wait until it has ended."""
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        """End the process at once, as a power cut does."""
        self._end(signal.SIGKILL)

    def wait(self) -> None:
        """Wait until the process has ended by itself, as it does when its disk is full."""
        if self._process is not None:
            self._process.wait(_START_SECONDS)

    def _end(self, how: signal.Signals) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(how)
            self._process.wait()

    def _answers(self) -> bool:
        """Whether it serves clients: its ports are open only then."""
        for address in (self.servers, self.behind):
            host, port = address.split(":")
            try:
                socket.create_connection((host, int(port)), timeout=1).close()
            except OSError:
                return False
        return True

    def _command(self) -> list[str]:
        path = os.pathsep.join(map(str, BROKER.jars() + LOGGING.jars()))
        return [java_program(), *_JVM, *self._classes, "-cp", path, "kafka.Kafka", str(self._config)]


@contextmanager
def running_broker(
    folder: Path, settings: Mapping[str, object] | None = None, proxy: str | None = None
) -> Iterator[Broker]:
    """Run a broker.

    Args:
        folder: an empty folder for all that it writes.
        settings: of the broker, beside those that one process needs.
        proxy: the address of a proxy, which connects to `Broker.behind`.

    Raises:
        MissingError: Java or the broker's jars are not here; the message says what to install.
    """
    broker = Broker(folder, settings, proxy)
    try:
        broker.start()
        yield broker
    finally:
        broker.kill()


def _archived() -> list[str]:
    """Return the options by which Java takes a broker's classes from an archive: a start then takes a third of the time.

    The first broker of a machine and its Java makes the archive: 50 MB in the cache of jars.
    """
    java = Path(java_program()).resolve()
    key = hashlib.sha256(f"{java} {java.stat().st_mtime_ns}".encode()).hexdigest()[:12]
    archive = cache() / f"{BROKER.name}-{BROKER.version}-{key}.jsa"
    cache().mkdir(parents=True, exist_ok=True)
    with FileLock(f"{archive}.lock"):
        if not archive.exists():
            _archive(archive)
    return [f"-XX:SharedArchiveFile={archive}", "-Xshare:auto"] if archive.stat().st_size else []


def _archive(archive: Path) -> None:
    """Let a broker write its classes at its end; a Java that cannot do so leaves an empty file."""
    with tempfile.TemporaryDirectory(dir=archive.parent) as name:
        written = Path(name) / "classes.jsa"
        with suppress(RuntimeError):
            broker = Broker(Path(name), classes=[f"-XX:ArchiveClassesAtExit={written}"])
            try:
                broker.start()
                broker.stop()
            finally:
                broker.kill()
        written.touch()
        written.rename(archive)


def _free_ports(count: int) -> list[int]:
    """Return ports that nobody has, below those that the system gives to clients: none of these takes one meanwhile."""
    found = set[int]()
    while len(found) < count:
        with suppress(OSError), socket.create_server(("127.0.0.1", random.randrange(15_000, 30_000))) as one:
            found.add(one.getsockname()[1])
    return [*found]
