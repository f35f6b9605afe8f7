"""A local Spark listens on this machine only, unless the user says otherwise."""

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event

import pytest

from operators.spark.base.loopback import ADDRESS_KEY, on_loopback, stays_local
from tests.effort import few

ROOT = Path(__file__).parents[3]
PROGRAM = """
import os, sys
from pathlib import Path
from operators import spark_session

if "before" in sys.argv:
    from pyspark.sql import SparkSession

    SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate().stop()
pages = {"spark.ui.enabled": "false"} if "before" in sys.argv else {"spark.ui.port": "0"}
spark = spark_session("loopback", master="local[1]", conf=pages)
spark.range(3).count()
process = spark.sparkContext._gateway.proc.pid
inodes = set()
for one in [os.getpid(), process]:
    for link in Path(f"/proc/{one}/fd").iterdir():
        try:
            inodes.add(os.readlink(link))
        except OSError:
            pass
for table in ("tcp", "tcp6"):
    for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
        words = line.split()
        if words[3] == "0A" and f"socket:[{words[9]}]" in inodes:
            print("listens", words[1].partition(":")[0])
print("page", spark.sparkContext.uiWebUrl)
assert "SPARK_LOCAL_IP" not in os.environ
spark.stop()
"""
LOOPBACK = {"0100007F", "00000000000000000000000001000000", "0000000000000000FFFF00000100007F"}
"""127.0.0.1, ::1, and 127.0.0.1 as an address of six bytes more, as /proc writes them."""


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.skipif(not Path("/proc/net/tcp").exists(), reason="only Linux lists sockets in /proc")
@pytest.mark.parametrize("started", few(["fresh", "before"], 2))
def test_a_local_session_listens_on_this_machine_only(tmp_path: Path, started: str) -> None:
    """The driver, its blocks, the gateway and the web page; but for the page, also where another session was before."""
    env = {name: value for name, value in os.environ.items() if name != ADDRESS_KEY}
    run = subprocess.run(
        [sys.executable, "-c", PROGRAM, started],
        env=env | {"PYTHONPATH": str(ROOT)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    listens = [line.split()[1] for line in run.stdout.splitlines() if line.startswith("listens")]
    assert len(listens) >= 3
    assert set(listens) <= LOOPBACK, run.stdout
    assert started == "before" or "page http://127.0.0.1:" in run.stdout


def test_other_masters_and_addresses_stay(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """What the user says about the address holds, and a cluster has to reach its driver, wherever the master is named."""
    for name in (ADDRESS_KEY, "MASTER", "PYSPARK_SUBMIT_ARGS", "PYSPARK_GATEWAY_PORT", "SPARK_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    assert all(map(stays_local, (None, "local", "local[2]", "local[*, 2]")))
    assert not any(map(stays_local, ("spark://host:7077", "yarn", "local-cluster[2,1,1024]")))
    for arguments in (
        "--conf a=b --master yarn pyspark-shell",
        "--master=yarn pyspark-shell",
        "--conf spark.master=yarn pyspark-shell",
        "--properties-file my.conf pyspark-shell",
    ):
        monkeypatch.setenv("PYSPARK_SUBMIT_ARGS", arguments)
        assert not stays_local(None)
        assert stays_local("local[2]")
    monkeypatch.setenv("PYSPARK_SUBMIT_ARGS", "--conf a=b pyspark-shell")
    assert stays_local(None)
    (tmp_path / "spark-defaults.conf").write_text("spark.ui.port 0\nspark.master   spark://host:7077\n")
    assert not stays_local(None)
    monkeypatch.setenv(ADDRESS_KEY, "10.1.2.3")
    assert not stays_local("local")


def test_two_threads_start_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """One waits for the other, and nothing is left in the environment."""
    monkeypatch.delenv(ADDRESS_KEY, raising=False)
    begun, ended = Event(), Event()

    def start(waits: float) -> str:
        with on_loopback():
            begun.set()
            ended.wait(waits)
            return os.environ[ADDRESS_KEY]

    with ThreadPoolExecutor(2) as pool:
        one = pool.submit(start, 60)
        begun.wait(60)
        other = pool.submit(start, 0.3)
        ended.wait(0.1)
        ended.set()
        assert ["127.0.0.1"] * 2 == [one.result(), other.result()]
    assert ADDRESS_KEY not in os.environ
