"""Nexmark's bids, the delays of its results, and its table on the page of benchmarks."""

import json
import os
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import csv, parquet

from benchmarks.nexmark.bids import at_us, bids
from benchmarks.nexmark.delays import of_flink, of_spark
from benchmarks.report.figures import Figure, Run
from benchmarks.report.nexmark import BATCH, DELAYS, RATES, SMALL_BATCH, with_nexmark

PACE, COUNT, EVENT_US, BEGIN = 1_000, 20_000, 1_000, 1_800_000_000.0


def test_shares_of_hot_bids() -> None:
    """Half of all bids are for a hot auction, numbered by hundreds, as one in 100 others is; three quarters by a hot bidder."""
    some = bids(0, 100_000)
    assert pytest.approx(0.505, abs=0.01) == np.mean(some["auction"].to_numpy() % 100 == 0)
    assert pytest.approx(0.7525, abs=0.01) == np.mean(some["bidder"].to_numpy() % 100 == 1)


@pytest.fixture
def ends() -> pa.Array:
    """Ends of windows, of which one is due in each second."""
    at = at_us(np.arange(COUNT), EVENT_US)[1_000::1_000]
    return pa.array(at).cast(pa.timestamp("us"))


def test_delays_on_spark(tmp_path: Path, ends: pa.Array) -> None:
    """From when a bid is due to the commit that has the result's file; what was due in the first seconds is left out."""
    log = tmp_path / "_spark_metadata"
    log.mkdir()
    for second, end in enumerate(ends, start=1):
        path = tmp_path / f"{second}.parquet"
        windows = pa.StructArray.from_arrays([pa.array([end])], ["end"])
        parquet.write_table(pa.table({"window": windows}), path)
        # A batch that is compacted has the files of those before, too.
        files = range(1, second + 1) if second % 10 == 9 else [second]
        written = log / f"{second}{'.compact' if second % 10 == 9 else ''}"
        lines = [json.dumps({"path": f"file://{tmp_path}/{one}.parquet"}) for one in files]
        written.write_text("\n".join(["v1", *lines]))
        os.utime(written, (0, BEGIN + second + second / 100))
    found = of_spark(tmp_path, "q12", BEGIN, 0, COUNT, PACE, EVENT_US)
    assert 12 == found.count
    assert pytest.approx(0.135, abs=1e-3) == found.p50


def written(times_ms: np.ndarray, zone: str = "") -> pa.Array:
    """Times as Flink writes them."""
    return pa.array([f"{np.datetime64(time, 'ms')}{zone}".replace("T", " ") for time in times_ms.tolist()])


def write(path: Path, columns: list[pa.Array]) -> None:
    """Write a file without a header."""
    table = pa.table(columns, [str(number) for number in range(len(columns))])
    csv.write_csv(table, path, csv.WriteOptions(include_header=False, quoting_style="none"))


def test_delays_in_flink(tmp_path: Path, ends: pa.Array) -> None:
    """A source that makes bids more slowly than it was asked for is known by its pace."""
    for name in ("made", "rows"):
        (tmp_path / name).mkdir()
    numbers = np.arange(0, COUNT, 100)
    when = int(BEGIN * 1_000) + numbers * 2
    write(tmp_path / "made" / "part", [pa.array(numbers), written(when, "Z")])
    end = ends.cast(pa.timestamp("ms")).cast(pa.int64()).to_numpy()
    write(tmp_path / "rows" / "part", [pa.array(range(19)), written(end), written(when[10::10] + 250, "Z")])
    found = of_flink(tmp_path, EVENT_US)
    assert pytest.approx(500) == found.pace
    assert pytest.approx(0.25, abs=1e-3) == found.p50


def test_table_of_a_page() -> None:
    """Ratios are by the clock and by processor time; a system that does not keep up has no delay."""

    def figure(system: str, rate: int, batch: int, size: int) -> Figure:
        extra = {"per_core": rate, "per_processor_second": 2 * rate, "state_bytes": size}
        return Figure(RATES, system, 1, 1, 1, {"query": "q5", "batch": batch}, extra)

    def delay(system: str, made: int) -> Figure:
        return Figure(
            DELAYS, system, 1, 0.5, 0.5, {"query": "q5", "pace": 20_000}, {"p99": 1.25, "made": made}
        )

    figures = (
        figure("rocksdb", 300_000, BATCH, 2_000_000),
        figure("Spark's own", 100_000, BATCH, 0),
        figure("Flink", 20_000, BATCH, 8_000_000),
        figure("rocksdb", 30_000, SMALL_BATCH, 2_000_000),
        figure("Spark's own", 60_000, SMALL_BATCH, 3_000_000),
        delay("rocksdb", 20_000),
        delay("Spark's own", 20_000),
        delay("Flink", 10_000),
    )
    page = "a\n<!-- figures: nexmark -->\nold\n<!-- end of figures -->\nb"
    line = with_nexmark(page, Run({}, figures)).splitlines()[5]
    cells = (
        "q5",
        "300",
        "3.0/3.0",
        "15/15",
        "30",
        "0.5/0.5",
        "1.5/1.5",
        "2.0/3.0/8.0",
        "0.5/0.5/-",
        "1.2/1.2/-",
    )
    assert list(cells) == line.strip("| ").split(" | ")
