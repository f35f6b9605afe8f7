"""Executors that lack a package, or have another version of it: real workers with an environment of their own."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.faults.processes import ROOT
from tests.patience import ENVIRONMENT

DAEMON = "operators.spark.daemon"
PROGRAM = """
import sys, json
from pyspark.sql import SparkSession
from operators import check_executors
conf = dict(arg.split("=", 1) for arg in sys.argv[1:])
builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
for key, value in conf.items():
    builder = builder.config(key, value)
spark = builder.getOrCreate()
spark.sparkContext.setLogLevel("OFF")
try:
    print("ANSWER", json.dumps(check_executors(spark, 3)))
except Exception as error:
    print("ERROR", type(error).__name__, error)
"""


def asked(folder: Path, python: str = sys.executable, **conf: str) -> str:
    """What a program prints whose workers run another Python, or look for packages in a folder first."""
    env = {**os.environ, **ENVIRONMENT, "PYSPARK_PYTHON": python, "PYTHONPATH": str(ROOT)}
    given = [f"{key.replace('__', '.')}={value}" for key, value in conf.items()]
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, f"spark.local.dir={folder}", *given],
        env=env,
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert 0 == done.returncode, done.stderr
    return done.stdout


def put(folder: Path, name: str, version: str) -> Path:
    """Have a folder say that it has a package."""
    about = folder / f"{name}-{version}.dist-info"
    about.mkdir(parents=True)
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    return folder


@pytest.mark.slow
@pytest.mark.spark
def test_executors_with_the_same_packages_tell_them(tmp_path: Path) -> None:
    """By host."""
    word, _, told = asked(tmp_path).partition(" ")
    assert "ANSWER" == word
    ((_, found),) = json.loads(told).items()
    assert found["Python"].startswith(f"{sys.version_info[0]}.{sys.version_info[1]}.")
    assert {"spark-stateful-windows", "numpy", "rocksdict"} <= {*found}


@pytest.mark.slow
@pytest.mark.spark
def test_another_version_is_named(tmp_path: Path) -> None:
    """With its host, and what the driver has."""
    older = put(put(tmp_path / "older", "rocksdict", "0.0.7"), "numpy", "1.2.3")
    said = asked(tmp_path, spark__executorEnv__PYTHONPATH=str(older))
    assert said.startswith("ERROR SessionSetupError executors cannot run")
    assert "has rocksdict 0.0.7, and the driver" in said
    assert "has numpy 1.2.3, and the driver" in said
    assert "has pyarrow" not in said


@pytest.mark.slow
@pytest.mark.spark
def test_an_executor_without_the_library(tmp_path: Path) -> None:
    """And without anything else: each package is named."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", tmp_path / "bare"], check=True)
    said = asked(tmp_path, str(tmp_path / "bare" / "bin" / "python"), spark__executorEnv__PYTHONPATH="")
    assert said.startswith("ERROR SessionSetupError executors cannot run")
    for name in ("spark-stateful-windows", "numpy", "pyarrow", "msgpack"):
        assert f"lacks {name}: install {name} " in said


@pytest.mark.slow
@pytest.mark.spark
def test_a_daemon_that_cannot_start_there(tmp_path: Path) -> None:
    """The conf of `spark_session` names this library's, which needs the library: what is missing is said, without a trace."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", tmp_path / "bare"], check=True)
    python, daemon = str(tmp_path / "bare" / "bin" / "python"), {"spark__python__daemon__module": DAEMON}
    said = asked(tmp_path, python, spark__executorEnv__PYTHONPATH="", **daemon)
    assert said.startswith("ERROR SessionSetupError executors cannot start Python workers: install")
    assert "spark.python.daemon.module" in said
    assert "No module named 'pandas'" in said
    assert "\tat " not in said
