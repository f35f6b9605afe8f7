"""The report: one page that needs nothing else, whatever figures the run has."""

import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from benchmarks.report.charts import short
from benchmarks.report.figures import load_run
from benchmarks.report.page import page
from benchmarks.report.picture import write_curves
from benchmarks.report.stripping import stripped
from benchmarks.report.tables import with_tables

ROOT = Path(__file__).parents[2]


def test_a_run_without_figures_has_a_scoreboard(stored) -> None:
    """Questions without figures are left out."""
    text = page(load_run(stored()))
    assert "not measured in this run" in text
    assert "<svg" not in text


@pytest.mark.slow
def test_pictures_are_inside_the_page(stored, taken) -> None:
    """Lines, bars and what no picture shows; nothing is loaded from elsewhere, and text is escaped."""
    figures = [
        taken("sliding windows, local", system, n / 100, per_window=n, keys=100)
        for system in ("memory", "polars", "a new one")
        for n in (10, 100)
    ]
    kinds = [taken("tumbling windows, local", system, 0.1, keys=100) for system in ("memory", "duckdb")]
    late = [taken("records out of order", "memory", 1.0, share=s, distance=100) for s in (0.0, 0.1)]
    text = page(load_run(stored(*figures, *kinds, *late, taken("what is new", "a<b", 1.0))))
    assert text.count("<svg") == 3
    assert "a &lt;fast&gt; one" in text
    assert "a&lt;b" in text
    assert not any(word in text for word in ("src=", "@import", "<script", "<link"))


@pytest.mark.slow
def test_the_command_writes_page_and_picture(stored, taken, tmp_path: Path) -> None:
    """The same run gives the same picture."""
    run = stored(taken("sliding windows, local", "memory", 1.0, per_window=10, keys=100))
    written = []
    for number in range(2):
        out, picture = tmp_path / f"{number}.html", tmp_path / f"{number}" / "picture.svg"
        command = [sys.executable, "-m", "benchmarks.report", run, "--out", out, "--picture", picture]
        subprocess.run(command, cwd=ROOT, check=True)
        assert "<h2>Targets</h2>" in out.read_text()
        written.append(picture.read_bytes())
    assert written[0] == written[1]
    assert ET.fromstring(written[0]).tag.endswith("svg")  # noqa: S314 - we wrote it


def test_curves_have_a_picture_each(stored, taken, tmp_path: Path) -> None:
    """A picture for each curve with figures, from any run; the same run gives the same picture."""
    keys = [taken("growth: rows of steady batches", "memory", n / 1e3, keys=n) for n in (1_000, 10_000)]
    spark = [
        taken("many keys on Spark: session", system, 1.0, keys=1_000_000)
        for system in ("rocksdb", "Spark's own", "Flink")
    ]
    run = load_run(stored(*keys, *spark))
    once = {path.name: path.read_bytes() for path in write_curves(run, tmp_path / "a")}
    again = {path.name: path.read_bytes() for path in write_curves(run, tmp_path / "b")}
    assert set(once) == {"growth-keys.svg", "growth-keys-spark.svg"}
    assert once == again
    assert {ET.fromstring(text).tag.rpartition("}")[2] for text in once.values()} == {"svg"}  # noqa: S314 - we wrote it


def test_tables_of_a_page_are_rewritten(stored, taken) -> None:
    """Where the run has figures; the rest of the page stays."""
    figures = [
        taken("many keys on Spark: session", system, seconds, rows=100_000, keys=keys)
        for system, keys, seconds in (("Spark's own", 100_000, 1.0), ("rocksdb", 1_000_000, 0.5))
    ]
    kept = "<!-- figures: panes -->\nas they were\n<!-- end of figures -->\n"
    page = f"before\n<!-- figures: keys-spark -->\nold\n<!-- end of figures -->\n{kept}"
    text = with_tables(page, load_run(stored(*figures)))
    assert text.splitlines()[3:7] == [
        "|  | 100 k | 1 M |",
        "| --- | --- | --- |",
        "| rows/s, session: rocksdb |  | 200 k |",
        "| rows/s, session: Spark's own | 100 k |  |",
    ]
    assert (text.startswith("before"), text.endswith(kept), "old" in text) == (True, True, False)
    assert with_tables(text, load_run(stored(*figures))) == text
    with pytest.raises(ValueError, match="figures of 'unknown'"):
        with_tables(page.replace("keys-spark", "unknown"), load_run(stored(*figures)))


def test_a_file_of_another_format_is_refused(stored) -> None:
    """The error names the file and what writes such files."""
    with pytest.raises(
        ValueError, match=r"run\.json is not a run of format 1: use a file that `make bench` wrote"
    ):
        load_run(stored(format=2))


def test_runs_name_no_host(taken) -> None:
    """Of pytest-benchmark's output, figures and the kind of machine are kept."""
    bench = {"extra_info": taken("kernel", "sum", 0.123456789), "fullname": "/home/somebody/test"}
    output = {
        "machine_info": {"node": "somebodys-host", "machine": "x86_64", "cpu": {"brand_raw": "a fast one"}},
        "commit_info": {"id": "0123456789abcdef", "author_time": "?", "project": "?"},
        "benchmarks": [bench, {"extra_info": {}}],
        "datetime": "2026-01-02T03:04:05+00:00",
    }
    run = stripped(output, {"test": 1.234}, 9.51, full=True)
    assert "somebody" not in str(run)
    assert run["figures"] == [taken("kernel", "sum", 0.12346)]
    assert (run["date"], run["commit"], run["minutes"]) == ("2026-01-02", "0123456789", 9.5)
    assert run["machine"]["cpu"] == "a fast one"


@pytest.mark.parametrize(
    ("value", "text"), [(1_340_000, "1.3 M"), (420_000, "420 k"), (0.0431, "0.043"), (12, "12")]
)
def test_numbers_are_short(value, text) -> None:
    """Two or three digits are all that a picture needs."""
    assert text == short(value)
