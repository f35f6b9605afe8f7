"""On a machine that has Spark, but not by pip, the documented line installs only what is missing, and a stream runs then."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.versions.environments import ROOT, Environment, make
from tests.versions.platforms import LEAST, documented_line, make_platform

FOLDER = Path(os.environ.get("TESTS_VERSIONS_FOLDER", ROOT / ".cache" / "versions"))
"""Where `python -m tests.versions` has its environments; it makes those that are missing, 1 GB each."""
TRIED = ["4.0/3.10", "4.1/3.12", "4.2/3.13", "4.3/3.11"]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of this tree."""
    folder = tmp_path_factory.mktemp("dist")
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True)
    (path,) = folder.glob("*.whl")
    return path


@pytest.mark.soak
@pytest.mark.parametrize("text", TRIED)
def test_the_documented_line_beside_a_spark_without_metadata(text: str, wheel: Path, tmp_path: Path) -> None:
    """No second PySpark, nothing replaced: the platform's packages have the lowest versions that its Spark takes."""
    environment = Environment.of(text)
    platform = make_platform(environment, make(environment, FOLDER), tmp_path)
    before = platform.packages(tmp_path)
    assert before.items() >= LEAST[environment.pyspark].items()
    assert "pyspark" not in before
    line = documented_line(wheel)
    platform.run("-m", "pip", *line, cwd=tmp_path)
    after = platform.packages(tmp_path)
    assert {"spark-stateful-windows", *line[3:]} == after.keys() - before.keys()
    assert before == {name: version for name, version in after.items() if name in before}
    program = tmp_path / "program.py"
    program.write_bytes((ROOT / "tests" / "versions" / "platform_stream.py").read_bytes())
    *rows, versions = platform.run(program, tmp_path, cwd=tmp_path).splitlines()
    assert ["memory [3, 1]", "rocksdb [3, 1]"] == rows
    pyspark, *others, file = versions.split()
    assert pyspark.startswith(environment.pyspark)
    assert list(LEAST[environment.pyspark].values()) == others
    assert Path(file).is_relative_to(tmp_path / "spark")


def test_lowest_versions_are_those_that_the_docs_tell() -> None:
    """The table of what each Spark needs beside it has the versions that were tried."""
    page = (ROOT / "docs" / "cluster.md").read_text("utf-8").splitlines()
    for pyspark, least in LEAST.items():
        (row,) = [line for line in page if line.startswith(f"| {pyspark} |")]
        cells = [cell.strip() for cell in row.strip("|").split("|")]
        assert [pyspark, least["protobuf"], least["pyarrow"].removesuffix(".0.0")] == cells[:3]
