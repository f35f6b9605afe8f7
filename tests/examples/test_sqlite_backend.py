"""The backend of somebody else: a package built and installed as any other, found by its name, and put to work."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from datetime import datetime
from pathlib import Path
from textwrap import indent

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from examples.flights_data import departed, write_source
from examples.flights_log import RunLog
from examples.flights_stream import Folders, delays
from examples.flights_stream import run as run_stream
from examples.flights_windows import WINDOW_SCHEMA, read_windows
from state_backends import resolve
from tests.docs.blocks import blocks
from tests.effort import soak

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "examples" / "sqlite_backend"
GUIDE = ROOT / "docs" / "writing-a-backend.md"
GRACE = "6 hours"
OPTION = "spark.windows.state.sqlite"


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that the package was installed into, with nothing else."""
    folder = tmp_path_factory.mktemp("installed")
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    alone = ["--no-index", "--no-deps", "--no-build-isolation", "--target", str(folder)]
    subprocess.run([*pip, *alone, str(PACKAGE)], check=True)
    return folder


@pytest.fixture
def found(installed: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The folder, among those that this process imports from for one test."""
    monkeypatch.syspath_prepend(installed)
    yield installed
    sys.modules.pop("windows_sqlite", None)


@pytest.mark.slow
def test_configuration_reaches_the_backend(found: Path, tmp_path: Path) -> None:
    """By its entry point's name in the conf the class is found, and opens with the options that stand beside it."""
    given = {f"{OPTION}.cacheMb": "8", f"{OPTION}.synchronous": "off"}
    config = resolve(conf={"spark.windows.state.backend": "sqlite", **given})
    assert {"cacheMb": "8", "synchronous": "off"} == config.backend_options
    assert found / "windows_sqlite.py" == Path(sys.modules[config.backend_class.__module__].__file__)
    with closing(config.open(tmp_path / "store")) as backend:
        used = [backend._db.execute(f"PRAGMA {name}").fetchone() for name in ("cache_size", "synchronous")]
    assert [(-8 * 1024,), (0,)] == used


@pytest.mark.usefixtures("found")
@pytest.mark.parametrize(
    ("option", "value", "said"),
    [
        (
            "cacheMB",
            8,
            [f"unknown option {OPTION}.cacheMB; did you mean {OPTION}.cacheMb?", f"{OPTION}.synchronous"],
        ),
        ("cacheMb", 0, ["sqlite.cacheMb is '0': it must be a whole number of MiB from 1"]),
    ],
)
def test_bad_configuration_is_refused(option: str, value: int, said: list[str]) -> None:
    """An option that the backend does not know is refused with those that it knows, and so is a bad value."""
    with pytest.raises(ValueError, match="sqlite") as refused:
        resolve("sqlite", {f"{OPTION}.{option}": value})
    for part in said:
        assert part in str(refused.value)


@pytest.mark.slow
@pytest.mark.parametrize("chosen", [["-k", "not at_any_line"], soak([])], ids=["most", "all"])
def test_contract_is_kept(installed: Path, chosen: list[str]) -> None:
    """The package's own tests, the contract suite among them, pass as its author would run them."""
    path = os.pathsep.join(filter(None, [str(installed), os.environ.get("PYTHONPATH")]))
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(PACKAGE), *chosen],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": path},
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )
    assert 0 == done.returncode, done.stdout
    counts = re.findall(r"(\d+) (\w+)", done.stdout.splitlines()[-1].partition(" in ")[0])
    assert (["passed", "deselected"] if chosen else ["passed"]) == [outcome for _, outcome in counts]
    assert 60 < int(counts[0][0])


def test_guide_shows_the_code_as_it_is() -> None:
    """What the guide for authors shows as parts of the module stands in it."""
    module = (PACKAGE / "windows_sqlite.py").read_text()
    parts = [block for block in blocks(GUIDE) if block.reason == "a part of windows_sqlite.py"]
    assert 2 == len(parts)
    for part in parts:
        assert part.code in module or indent(part.code, "    ") in module, part.line


@pytest.fixture
def configured(spark: SparkSession, found: Path, tmp_path: Path) -> Iterator[SparkSession]:
    """The session with SQLite as its backend by configuration, for one test; workers get the package as an archive."""
    settings = {"spark.windows.state.backend": "sqlite", f"{OPTION}.cacheMb": "1"}
    spark.sparkContext.addPyFile(shutil.make_archive(str(tmp_path / "sqlite"), "zip", found))
    for key, value in settings.items():
        spark.conf.set(key, value)
    yield spark
    for key in settings:
        spark.conf.unset(key)


@pytest.mark.slow
@pytest.mark.spark
def test_demo_makes_the_same_windows(configured: SparkSession, flights: pa.Table, tmp_path: Path) -> None:
    """The demo's stream, on SQLite by configuration alone, emits the windows that the local runner makes on memory."""
    left = departed(flights)  # In scheduled order: these are those of the first day.
    halves = [left.slice(0, 400), left.slice(400, 400)]
    folders = Folders(tmp_path / "run")
    folders.out.mkdir()
    write_source(flights, halves, folders.source)
    log = RunLog.open(folders.log, GRACE)
    assert run_stream(configured, folders, log, tell=lambda _: None)
    assert {"sqlite"} == {batch.backend for batch in log.batches.values()}
    assert list(Path(configured.conf.get("spark.windows.state.directory")).glob("*/*-sqlite/pages.db"))
    expected = rows_on_memory(halves)
    assert len(expected) > 300
    assert expected == rows(read_windows(folders.windows))


def rows_on_memory(files: list[pa.Table]) -> list[tuple[object, ...]]:
    """The windows of the demo's operator, batch by batch without Spark."""
    with delays(GRACE).local_runner(event_time="departure", backend="memory") as runner:
        emitted = pa.concat_tables([runner.process(file) for file in files])
    utc = emitted.flatten().rename_columns(WINDOW_SCHEMA.names)
    return rows(utc.cast(WINDOW_SCHEMA))


def rows(windows: pa.Table) -> list[tuple[str, datetime, datetime, int, float, int]]:
    """The windows in order, as tuples."""
    return sorted(zip(*(column.to_pylist() for column in windows.columns), strict=True))
