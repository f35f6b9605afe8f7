"""A Spark Connect server of its own, and a client without Java or JVM: all kinds of windows, streams, state, and errors."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pyspark
import pytest

from tests.connect_server import Server, connect_server
from tests.operators.spark.bucket_worker import has_ended
from tests.operators.spark.connect_client import CASES
from tests.patience import files, wait_until
from tests.state_processes import holders, is_state_process

pytestmark = [pytest.mark.spark, pytest.mark.slow]
ROOT = Path(__file__).parents[3]
STREAMS = "streams through Spark Connect need PySpark 4.1 or newer"
"""What `apply` says on PySpark 4.0."""
STREAM = "stream, from a history, and closed by the clock"
"""A case that is always run: its state is looked for."""


@dataclass(frozen=True)
class Outcome:
    """What went wrong in each case; which processes had copies of buckets, and which of them have outlived the server."""

    wrong: dict[str, str | None]
    holders: set[int]
    left: set[int]


@pytest.fixture(scope="module")
def state(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The server's directory of local state."""
    return tmp_path_factory.mktemp("server") / "state"


@pytest.fixture(scope="module")
def server(state: Path) -> Iterator[Server]:
    """A server with no conf for windows but the directory of local state."""
    conf = {"spark.windows.state.directory": state}
    with connect_server(state.parent, "local[2]", conf) as started:
        yield started


@pytest.fixture(scope="module")
def outcome(
    server: Server, state: Path, request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Outcome:
    """The chosen cases, by a client that finds no Java; then the server ends."""
    items = [item for item in request.session.items if item.path == Path(__file__)]
    chosen = [
        item.callspec.params["case"]
        for item in items
        if isinstance(item, pytest.Function) and hasattr(item, "callspec")
    ]
    hidden = {"JAVA_HOME", "PYSPARK_PYTHON", "SPARK_HOME"}
    env = {name: value for name, value in os.environ.items() if name not in hidden}
    env |= {"PATH": str(Path(sys.executable).parent), "PYTHONPATH": str(ROOT)}
    command = [sys.executable, str(Path(__file__).with_name("connect_client.py")), server.url]
    home = tmp_path_factory.mktemp("client")
    folder, out, err = (home / name for name in ("work", "out", "err"))
    with out.open("wb") as stdout, err.open("wb") as stderr:
        client = subprocess.Popen(
            [*command, str(folder), str(state), *{*chosen, STREAM}],
            env=env,
            stdout=stdout,
            stderr=stderr,
        )
    try:
        wait_until(lambda: client.poll() is not None, "the client's end", files(home, state.parent))
    finally:
        client.kill()
    assert 0 == client.wait(), err.read_text()
    told = [json.loads(line) for line in out.read_text().splitlines() if line.startswith('{"case"')]
    found = {holder for lock in state.glob("*/*.lock") for holder in holders(lock)}
    holding = {*filter(is_state_process, found)}
    server.process.terminate()
    server.process.wait()
    left = {holder for holder in holding if not has_ended(holder)}
    return Outcome({one["case"]: one["wrong"] for one in told}, holding, left)


@pytest.mark.parametrize("case", CASES)
def test_works_through_connect(outcome: Outcome, case: str) -> None:
    """Each of the client's cases holds. On PySpark 4.0, those with streams are refused, and the reason is said."""
    wrong = outcome.wrong[case]
    if pyspark.__version__.startswith("4.0.") and wrong is not None and STREAMS in wrong:
        pytest.skip(STREAMS)
    assert wrong is None, wrong


@pytest.mark.skipif(pyspark.__version__.startswith("4.0."), reason=STREAMS)
def test_state_is_in_processes_that_end_with_the_server(outcome: Outcome) -> None:
    """They have the buckets of a client's streams after its end."""
    assert outcome.holders
    assert not outcome.left
