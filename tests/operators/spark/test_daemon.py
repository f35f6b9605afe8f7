"""Workers of Python begin with what they need, and read nothing again."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyspark
import pytest
from pyspark.sql import SparkSession

from operators.spark import daemon

ROOT = Path(__file__).parents[3]
INSTALLED = Path(pyspark.__file__).parent
ARCHIVE = INSTALLED / "python" / "lib" / "pyspark.zip"
FROM_ARCHIVE = """
import json, sys, zipimport
sys.path[:0] = [archive]
import pyspark.sql
def archives():
    return sum(isinstance(finder, zipimport.zipimporter) for finder in sys.path_importer_cache.values())
before = archives()
from operators.spark import daemon
daemon.load()
after = archives()
import pyspark.join
print(json.dumps([before, after, pyspark.join.__file__, daemon.MESSAGES in sys.modules]))
"""


@pytest.mark.slow
def test_the_daemon_knows_no_folders_of_archives(tmp_path: Path) -> None:
    """Each of them would cost every new worker a look through the whole archive. What is in it is still found."""
    archive = (
        tmp_path / ARCHIVE.name
    )  # Not that of the PySpark that is installed, in whose place the folder is read.
    shutil.copy(ARCHIVE, archive)
    code = f"archive = {str(archive)!r}\n{FROM_ARCHIVE}"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert 0 == done.returncode, done.stderr
    before, after, found, has_messages = json.loads(done.stdout)
    assert before > 1
    assert 0 == after
    assert found.startswith(str(archive))
    assert has_messages


def test_an_installed_pyspark_is_read_from_its_folder() -> None:
    """What Spark puts before it on the path is an archive of the same, and a file of Java."""
    site, jar = str(INSTALLED.parent), str(INSTALLED / "jars" / "spark-core.jar")
    rest = ["/files", "", site]
    assert rest == daemon.without_archives([str(ARCHIVE), jar, *rest])


@pytest.mark.parametrize("what", ["no installed pyspark", "no py4j beside it", "another archive"])
def test_archives_stay_that_nothing_replaces(tmp_path: Path, what: str) -> None:
    """As on a cluster, where Spark is no package of Python, or another one than the one that is installed."""
    if what != "no installed pyspark":
        (tmp_path / "pyspark").mkdir()
        (tmp_path / "pyspark" / "__init__.py").touch()
    if what == "another archive":
        (tmp_path / "py4j").mkdir()
        path = [str(ARCHIVE), str(tmp_path)]
    else:
        path = [str(tmp_path / "pyspark" / "python" / "lib" / "pyspark.zip"), str(tmp_path)]
    assert path == daemon.without_archives(path)


@pytest.mark.spark
def test_workers_have_loaded_the_kinds_of_windows(spark: SparkSession) -> None:
    """A stage that needs nothing of them sees them."""

    def modules(batches):
        for _ in batches:
            yield pa.RecordBatch.from_pydict({"name": [*sys.modules]})

    found = {row.name for row in spark.range(1, numPartitions=1).mapInArrow(modules, "name string").collect()}
    wanted = {"pyarrow.pandas_compat", "pandas", "operators.kinds.sliding", "operators.engines.sessions"}
    assert set() == wanted - found
