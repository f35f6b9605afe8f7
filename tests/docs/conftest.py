"""A Spark session for the pages' code, left as it was found."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from operators import spark_session
from tests.operators.spark.frames import session_conf


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """The session that there is, or one of our own."""
    existing = SparkSession.getActiveSession()
    if existing is not None:
        yield existing
        return
    local: Path = tmp_path_factory.mktemp("spark")
    conf = {**session_conf(local), "spark.sql.session.timeZone": "UTC"}
    own = spark_session("docs", master="local[2]", buckets=2, conf=conf)
    own.sparkContext.setLogLevel("ERROR")
    yield own
    own.stop()


@pytest.fixture
def spark(session: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[SparkSession]:
    """The session that a page gets, by whatever call; what the page sets and starts in it ends with the page.

    Relative paths are in an empty folder.
    """
    home = Path.cwd()
    monkeypatch.chdir(tmp_path)
    follow(session, tmp_path)
    before = session.conf.getAll
    yield session
    follow(session, home)
    for query in session.streams.active:
        query.stop()
    after = session.conf.getAll
    for key in after.keys() - before.keys():
        session.conf.unset(key)
    for key, value in before.items():
        if after.get(key) != value:
            session.conf.set(key, value)


def follow(session: SparkSession, folder: Path) -> None:
    """Have Spark's JVM, which does not follow a `chdir`, look for relative paths in a folder: data, and checkpoints."""
    jvm = session._jvm
    files = jvm.org.apache.hadoop.fs.FileSystem.get(session._jsc.hadoopConfiguration())
    files.setWorkingDirectory(jvm.org.apache.hadoop.fs.Path(str(folder)))
    jvm.System.setProperty("user.dir", str(folder))
