"""Workers of Python begin with what they need, and read nothing again."""

import json
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyspark
import pytest
from pyspark.sql import SparkSession

ROOT = Path(__file__).parents[3]
ARCHIVE = Path(pyspark.__file__).parent / "python" / "lib" / "pyspark.zip"
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


def test_the_daemon_knows_no_folders_of_archives() -> None:
    """Each of them would cost every new worker a look through the whole archive. What is in it is still found."""
    code = f"archive = {str(ARCHIVE)!r}\n{FROM_ARCHIVE}"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert 0 == done.returncode, done.stderr
    before, after, found, has_messages = json.loads(done.stdout)
    assert before > 1
    assert 0 == after
    assert found.startswith(str(ARCHIVE))
    assert has_messages


@pytest.mark.spark
def test_workers_have_loaded_the_kinds_of_windows(spark: SparkSession) -> None:
    """A stage that needs nothing of them sees them."""

    def modules(batches):
        for _ in batches:
            yield pa.RecordBatch.from_pydict({"name": [*sys.modules]})

    found = {row.name for row in spark.range(1, numPartitions=1).mapInArrow(modules, "name string").collect()}
    wanted = {"pyarrow.pandas_compat", "pandas", "operators.kinds.sliding", "operators.engines.sessions"}
    assert set() == wanted - found
