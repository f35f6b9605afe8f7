"""Modules of a user with the names of this library's packages: each is found out, and both paths are named."""

import inspect
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from timeit import timeit
from zipfile import ZipFile

import pytest

import operators
import state_backends
from operators.spark.base.failures import what_failed

ROOT = Path(__file__).parents[1]


def ended(folder: Path, code: str, *options: str, arguments: Sequence[str] = (), **env: str) -> str:
    """The last line that a script in this folder prints: that of its error, if it has one."""
    script = folder / "job.py"
    script.write_text(code)
    done = subprocess.run(
        [sys.executable, *options, script, *arguments],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": str(ROOT)} | env,
        capture_output=True,
        text=True,
        check=False,
    )
    return (done.stdout + done.stderr).strip().splitlines()[-1]


def foreign(folder: Path, name: str) -> Path:
    """A package or a module of the user, which tells if it is imported."""
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("raise SystemExit('the foreign module was imported')")
    return path


@pytest.mark.parametrize("code", ["import operators", "from operators import SlidingWindows"])
@pytest.mark.parametrize("name", ["serializers.py", "serializers/__init__.py", "state_backends/__init__.py"])
def test_a_foreign_module_is_refused_before_it_is_imported(tmp_path: Path, name: str, code: str) -> None:
    """`import operators` names it, ours, and the ways out."""
    path = foreign(tmp_path, name)
    package = name.partition("/")[0].removesuffix(".py")
    said = ended(tmp_path, code)
    assert said.startswith(
        f"ImportError: another module named {package!r} hides the one of this library: {path} is found before {ROOT / package}."
    )
    for way_out in (
        "Rename it",
        "another folder",
        "python -P",
        "PYTHONSAFEPATH=1",
        "sys.path",
        "Names that collide",
    ):
        assert way_out in said


def test_a_foreign_module_that_is_imported_already_is_refused(tmp_path: Path) -> None:
    """Also if ours would be found by now."""
    (tmp_path / "serializers.py").write_text("")
    said = ended(tmp_path, "import sys, serializers\nsys.path.pop(0)\nimport operators")
    assert f"{tmp_path / 'serializers.py'} is found before" in said


def test_serializers_are_looked_for_by_state_backends_too(tmp_path: Path) -> None:
    """It can be imported first."""
    path = foreign(tmp_path, "serializers.py")
    assert f"ImportError: another module named 'serializers' hides the one of this library: {path}" in ended(
        tmp_path, "import state_backends"
    )


def test_a_foreign_package_operators_gives_pythons_own_error(tmp_path: Path) -> None:
    """Nothing of ours runs then, so the documentation has the message; `import state_backends`, which needs none, warns."""
    path = tmp_path / "operators" / "__init__.py"
    path.parent.mkdir()
    path.write_text("")
    expected = f"ImportError: cannot import name 'SlidingWindows' from 'operators' ({path})"
    assert ended(tmp_path, "from operators import SlidingWindows").startswith(expected)
    assert "from 'operators' (/" in (ROOT / "docs" / "errors.md").read_text("utf-8")
    said = ended(tmp_path, "import warnings; warnings.simplefilter('error'); import state_backends")
    assert f"RuntimeWarning: another module named 'operators' hides the one of this library: {path}" in said


@pytest.mark.slow
@pytest.mark.skipif(sys.version_info < (3, 11), reason="Python 3.11 is the first with the option -P")
def test_the_ways_out_work(tmp_path: Path) -> None:
    """Without the script's folder ours are found; and a module in a package of the user hides nothing."""
    for name in ("serializers.py", "operators/__init__.py"):
        foreign(tmp_path, name)
    code = "import operators, serializers; print(operators.__file__)"
    ours = str(ROOT / "operators" / "__init__.py")
    assert ours == ended(tmp_path, code, "-P")
    assert ours == ended(tmp_path, code, PYTHONSAFEPATH="1")
    foreign(tmp_path / "inner" / "app", "serializers.py")
    assert ours == ended(tmp_path / "inner", code)


@pytest.mark.slow
def test_a_folder_without_init_hides_nothing(tmp_path: Path) -> None:
    """Python looks for a package on the rest of the path."""
    foreign(tmp_path, "operators/mine.py")
    foreign(tmp_path, "serializers/mine.py")
    code = "import operators, serializers; print(operators.__file__, serializers.__file__)"
    assert f"{ROOT}/operators/__init__.py {ROOT}/serializers/__init__.py" == ended(tmp_path, code)


@pytest.mark.slow
def test_packages_of_this_library_may_be_in_different_folders(tmp_path: Path) -> None:
    """As in three archives of a job, one for each package."""
    archives = [tmp_path / f"{package}.zip" for package in ("operators", "state_backends", "serializers")]
    for archive in archives:
        with ZipFile(archive, "w") as file:
            for path in (ROOT / archive.stem).rglob("*.py"):
                file.write(path, path.relative_to(ROOT))
    path = os.pathsep.join(map(str, archives))
    code = "import operators; from operators import SlidingWindows as s; print(operators.__file__)"
    assert f"{archives[0]}/operators/__init__.py" == ended(tmp_path, code, PYTHONPATH=path)


def test_the_check_is_the_same_and_takes_well_under_a_millisecond() -> None:
    """Two packages have it, since neither can ask the other."""
    code = inspect.getsource(operators._hidden)
    assert code.partition("Args:")[2] == inspect.getsource(state_backends._hidden).partition("Args:")[2]
    assert 1e-3 > min(
        timeit(lambda: operators._hidden("serializers", "row_parts"), number=1) for _ in range(20)
    )


NOT_IMPORTED = {
    "ImportError: another module named 'serializers' hides the one of this library: /a/s.py is found before /b. Rename": (
        "another module named 'serializers' hides the one of this library: /a/s.py is found before /b. Rename"
    ),
    "ModuleNotFoundError: No module named 'operators.spark'": (
        "the workers import another module named 'operators' in the place of this library's: No module named "
        "'operators.spark'. It is in a file that was added to the job, as by addPyFile or --py-files, or in the folder in "
        "which the workers run: rename it, or move it into a package"
    ),
    "ModuleNotFoundError: No module named 'operators'": (
        "the Python of the workers does not have this library: No module named 'operators'. Install it there, or set "
        "PYSPARK_PYTHON to a Python that has it. Through Spark Connect, streams before Spark 4.4 do not see what the client "
        "sends with addArtifacts (SPARK-61959)"
    ),
    "ModuleNotFoundError: No module named 'operators.mine'": None,
    "ModuleNotFoundError: No module named 'operators.mine.inner'": None,
    "ModuleNotFoundError: No module named 'my.operators'": None,
    "cloudpickle.loads(obj, encoding=encoding)\n    ~~~~^^^^\nModuleNotFoundError: No module named 'my_functions'": (
        "the Python of the workers does not have the module that a function of this query is from: No module named "
        "'my_functions'. Send the module with spark.addArtifacts(path, pyfile=True), or install it there, or have its "
        "functions sent with the query: pyspark.cloudpickle.register_pickle_by_value(module), before apply. "
        "Through Spark Connect, streams before Spark 4.4 do not see what the client sends with addArtifacts (SPARK-61959)"
    ),
}


@pytest.mark.parametrize(("raised", "expected"), NOT_IMPORTED.items())
def test_workers_that_cannot_import_this_library_are_found_in_sparks_error(
    raised: str, expected: str | None
) -> None:
    """The message of Spark has the worker's traceback; a module of the user's that is missing is none of ours."""
    lines = [
        "An exception was thrown from the Python worker: Traceback (most recent call last):",
        '  File "/x/pyspark/serializers.py", line 483, in loads',
        raised,
        " SQLSTATE: 38000 SQLSTATE: XXKST",
    ]
    assert expected == what_failed(RuntimeError("\n".join(lines)))


PROGRAM = """
import sys
from zipfile import ZipFile
from operators import SlidingWindows, aggregates as agg, spark_session, what_failed

conf = {"spark.ui.enabled": "false"} | dict(pair.split("=") for pair in sys.argv[1:])
spark = spark_session("collide", master="local[1]", buckets=1, conf=conf)
with ZipFile(sys.argv[0] + ".zip", "w") as archive:
    archive.writestr("operators/__init__.py", "")
spark.sparkContext.addPyFile(sys.argv[0] + ".zip")
rows = spark.sql("SELECT 1 AS k, timestamp'2026-01-05 09:00' AS at")
try:
    windows = SlidingWindows("1 minute").group_by("k").aggregate(n=agg.count()).apply(rows, "at")
    print(windows.count(), "windows", file=sys.stderr)
except Exception as error:
    print(what_failed(error), file=sys.stderr)
"""


@pytest.mark.slow
@pytest.mark.spark
def test_a_foreign_package_in_the_jobs_archive_is_found_out_by_the_driver(tmp_path: Path) -> None:
    """The driver has ours, the workers of Spark's own daemon have the one that the job brings."""
    said = ended(tmp_path, PROGRAM, arguments=["spark.python.daemon.module=pyspark.daemon"])
    assert "the workers import another module named 'operators' in the place" in said


@pytest.mark.slow
@pytest.mark.spark
def test_workers_of_our_daemon_have_ours_before_the_job_brings_a_foreign_package(tmp_path: Path) -> None:
    """It has imported this library before a file of the job comes on their path."""
    assert "1 windows" in ended(tmp_path, PROGRAM)
