"""What outputs make of batches: lines, JSON, and the values that monitoring systems ask for."""

import json
import sys
import urllib.request
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any
from urllib.error import URLError

import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from prometheus_client import CollectorRegistry, generate_latest

from operators import DefinitionError
from operators.monitoring import (
    BatchOutput,
    JsonLinesOutput,
    OpenTelemetryOutput,
    PrometheusOutput,
    QueryRun,
    TextOutput,
)
from operators.monitoring.exported import CUSTOM, EXPORTED, GAUGES, LAG, RUNNING, TOTALS
from tests.operators.monitoring.batches import RUN, START, batch

DELAYS = {"query": "flights", "operator": "delays"}
AGAIN = QueryRun("flights", "query-1", "run-2")
SKEWED = {
    "buckets": 2,
    "max_bucket_rows": 2,
    "max_bucket_ms": 200,
    "max_bucket_bytes": 90,
    "max_key_rows": 1,
    "max_page_bytes": 80,
}


def test_a_line_has_what_is_not_usual_at_its_end() -> None:
    """Late and bad records, slow steps and failed snapshots are there if there are any; the state, if the batch tells it."""
    lines: list[str] = []
    output = TextOutput(lines.append)
    state = {"live_keys": 3, "live_panes": 9, "state_bytes": 1 << 20}
    output.report(batch(counts_in={"rows": 1_000}, windows=7, buckets=2, **state))
    output.report(batch(1, counts_in={"bad": 2}, late=1, buckets=1, commit_ms=1_500, snapshot_failures=3))
    output.report(batch(2))
    assert [
        "batch 0, delays: 1,000 rows in 2.5 s; 7 rows out; 3 keys and 9 panes in 1.0 MiB",
        (
            "batch 1, delays: 0 rows in 2.5 s; 0 rows out; 1 late; 2 bad; 0 keys and 0 panes in 0.0 MiB; commit 1.5 s; "
            "3 snapshots failed"
        ),
        "batch 2, delays: 0 rows in 2.5 s; 0 rows out",
    ] == lines


def test_a_line_names_the_slowest_bucket_if_it_takes_twice_the_mean_or_more() -> None:
    """And not if it is fast, or hardly slower than the others."""
    lines: list[str] = []
    output = TextOutput(lines.append)
    for slowest_ms, step_ms, commit_ms in ((1_200, 1_500, 300), (1_200, 1_500, 900), (90, 90, 0)):
        output.report(batch(buckets=3, max_bucket_ms=slowest_ms, step_ms=step_ms, commit_ms=commit_ms))
    assert [True, False, False] == ["slowest bucket 1.2 s" in line for line in lines]


def test_skew_is_the_largest_bucket_over_the_mean_of_all() -> None:
    """1 if all are alike, the number of buckets if one has everything; none without records or time."""
    even = batch(
        buckets=4, rows=100, max_bucket_rows=25, step_ms=3, commit_ms=4, restore_ms=1, max_bucket_ms=2
    )
    one = batch(
        buckets=4, rows=100, max_bucket_rows=100, step_ms=6, commit_ms=2, restore_ms=0, max_bucket_ms=8
    )
    assert [(1, 1), (4, 4)] == [(b.row_skew, b.time_skew) for b in (even, one)]
    assert (None, None) == (batch(buckets=4).row_skew, batch(buckets=4).time_skew)


def test_json_lines_have_the_counts_and_what_follows_from_them(tmp_path: Path) -> None:
    """A file is appended to, and may be moved away; a function gets the same lines."""
    lines: list[str] = []
    path = tmp_path / "batches.jsonl"
    to_file, to_function = JsonLinesOutput(path), JsonLinesOutput(lines.append)
    first = batch(
        counts_in={"rows": 8},
        rows=8,
        late=2,
        live_keys=4,
        state_bytes=100,
        watermark=START - timedelta(seconds=1),
        lag={("clicks", 0): 12},
    )
    for output in (to_file, to_function):
        output.report(first)
    path.rename(tmp_path / "rotated")
    to_file.report(batch(1, QueryRun(None, "query-1", "run-2")))
    assert lines == (tmp_path / "rotated").read_text().splitlines()
    assert {
        "started": "2026-01-05T12:00:00.000+00:00",
        "query": "flights",
        "query_id": "query-1",
        "run_id": "run-1",
        "operator": "delays",
        "batch": 0,
        "seconds": 2.5,
        "in": {"rows": 8},
        "out": dict(first.counts_out),
        "whole_state": True,
        "late_share": 0.25,
        "bytes_per_key": 25.0,
        "row_skew": 0.0,
        "time_skew": None,
        "watermark": "2026-01-05T11:59:59.000+00:00",
        "watermark_lag_seconds": 1.0,
        "lag": {"clicks-0": 12},
    } == json.loads(lines[0])
    (second,) = map(json.loads, path.read_text().splitlines())
    empty = (
        "query",
        "late_share",
        "bytes_per_key",
        "row_skew",
        "time_skew",
        "watermark",
        "watermark_lag_seconds",
    )
    assert [None] * 7 == [second[name] for name in empty]


class Reader:
    """What a monitoring system gets: each value by name and labels, by the names of Prometheus."""

    output: BatchOutput

    def read(self) -> dict[tuple[str, ...], float]:
        """The values of the series of the operator "delays", by name and further labels; of queries by name and query."""
        found = {}
        for name, labels, value in self.series():
            if labels.pop("operator", "delays") == "delays":
                assert labels.pop("query") == "flights"
                found[(name, *labels.values())] = value
        return found

    def series(self) -> Iterator[tuple[str, dict[str, str], float]]:
        """Name, labels and value of each series."""
        raise NotImplementedError


class OfPrometheus(Reader):
    def __init__(self) -> None:
        self.output = PrometheusOutput()

    def series(self) -> Iterator[tuple[str, dict[str, str], float]]:
        for family in self.output.registry.collect():
            for sample in family.samples:
                yield sample.name, dict(sample.labels), sample.value


class OfOpenTelemetry(Reader):
    def __init__(self) -> None:
        self.reader = InMemoryMetricReader()
        self.provider = MeterProvider([self.reader])
        self.output = OpenTelemetryOutput(self.provider)
        self.names = {one.opentelemetry: one.prometheus for one in (*TOTALS, *GAUGES) if not one.total}
        self.sums = {one.opentelemetry: one.prometheus for one in TOTALS}

    def series(self) -> Iterator[tuple[str, dict[str, str], float]]:
        data = self.reader.get_metrics_data()
        for resource in data.resource_metrics if data else []:
            for metric in resource.scope_metrics[0].metrics:
                known = self.sums if type(metric.data).__name__ == "Sum" else self.names
                known = {**known, "windows.custom": CUSTOM, "windows.query_running": RUNNING}
                known["windows.source_lag_records"] = LAG
                for point in metric.data.data_points:
                    yield known[metric.name], dict(point.attributes), point.value


@pytest.fixture(params=[OfPrometheus, OfOpenTelemetry])
def reader(request: pytest.FixtureRequest) -> Any:
    """Both monitoring systems."""
    return request.param()


def test_totals_add_up_and_gauges_are_the_last(reader: Reader) -> None:
    """In base units; another operator has values of its own, and a custom operator's counts are there by name."""
    common = {"watermark": START, "live_keys": 4, "state_bytes": 100}
    reader.output.report(batch(0, counts_in={"rows": 8, "bad": 1}, rows=8, late=2, windows=3, **common))
    reader.output.report(batch(0, operator="other", rows=1_000, live_keys=1_000, lag={("old", 0): 3}))
    reader.output.report(
        batch(
            1,
            rows=2,
            windows=4,
            step_ms=300,
            snapshots=2,
            snapshot_failures=1,
            alerts=5,
            lag={("clicks", 0): 12, ("clicks", 1): 0},
            **SKEWED,
            **common,
        )
    )
    found = reader.read()
    assert {
        "windows_batches_total": 2,
        "windows_batch_seconds_total": 5.0,
        "windows_records_total": 8,
        "windows_bad_records_total": 1,
        "windows_late_records_total": 2,
        "windows_emitted_rows_total": 7,
        "windows_step_seconds_total": 0.3,
        "windows_snapshots_total": 2,
        "windows_snapshot_failures_total": 1,
        "windows_last_batch_seconds": 2.5,
        "windows_last_batch_timestamp_seconds": START.timestamp() + 10,
        "windows_late_ratio": 0,
        "windows_max_bucket_rows": 2,
        "windows_max_bucket_time_seconds": 0.2,
        "windows_max_bucket_state_bytes": 90,
        "windows_max_key_rows": 1,
        "windows_max_page_bytes": 80,
        "windows_row_skew_ratio": 2,
        "windows_time_skew_ratio": pytest.approx(4 / 3),
        "windows_live_keys": 4,
        "windows_state_bytes": 100,
        "windows_state_per_key_bytes": 25,
        "windows_watermark_timestamp_seconds": START.timestamp(),
        "windows_watermark_lag_seconds": 10,
    }.items() <= {key[0]: value for key, value in found.items()}.items()
    assert 5 == found[CUSTOM, "alerts"]
    assert {(LAG, "clicks", "0"): 12, (LAG, "clicks", "1"): 0} == {
        key: value for key, value in found.items() if key[0] == LAG
    }
    assert 1 == found[RUNNING,]
    assert EXPORTED == {name for name, *_ in found}


def test_gauges_go_with_their_query(reader: Reader) -> None:
    """Sums stay; a query that failed is shown as such until it starts again; the end of an older run changes nothing."""
    output, totals = reader.output, {one.prometheus for one in TOTALS}
    output.started(RUN)
    assert {(RUNNING,): 1} == reader.read()
    output.report(batch(rows=3))
    output.ended(RUN, None)
    assert totals == {name for name, *_ in reader.read()}
    output.started(RUN)
    output.report(batch(1))
    output.ended(RUN, "Boom")
    assert {*totals, RUNNING} == {name for name, *_ in reader.read()}
    assert 0 == reader.read()[RUNNING,]
    output.report(batch(1, AGAIN, live_keys=7))
    output.ended(RUN, "Boom")
    found = reader.read()
    assert (1, 7, 3) == (
        found[RUNNING,],
        found["windows_live_keys",],
        found["windows_batches_total",],
    )


def test_a_batch_without_work_does_not_lower_the_sizes_of_the_state(reader: Reader) -> None:
    """They stay as they were, until another batch tells of them; what is of the batch is of each batch."""
    found = []
    for keys, buckets in ((10, 3), (0, 0), (6, 0), (0, 2)):
        reader.output.report(batch(live_keys=keys, state_bytes=6 * keys, buckets=buckets))
        values = reader.read()
        found.append((values["windows_live_keys",], values["windows_buckets",]))
    assert [(10, 3), (10, 0), (6, 0), (0, 2)] == found


def test_what_a_batch_does_not_know_stays_as_it_was(reader: Reader) -> None:
    """A batch without records has no share of late ones."""
    reader.output.report(batch(0, rows=4, late=1))
    reader.output.report(batch(1))
    assert 0.25 == reader.read()["windows_late_ratio",]
    assert ("windows_watermark_lag_seconds",) not in reader.read()


def test_the_endpoint_serves_the_registry_until_it_is_closed() -> None:
    """A free port on this machine only; a registry that is given keeps what else it has."""
    registry = CollectorRegistry()
    output = PrometheusOutput(registry)
    output.report(batch(rows=3))
    port = output.serve(0)
    url = f"http://127.0.0.1:{port}/metrics"
    with urllib.request.urlopen(url) as answer:
        text = answer.read().decode()
    assert text == generate_latest(registry).decode()
    assert (
        '# TYPE windows_batches_total counter\nwindows_batches_total{operator="delays",query="flights"}'
        in text
    )
    output.close()
    with pytest.raises(URLError):
        urllib.request.urlopen(url)
    with pytest.raises(ValueError, match="Duplicated timeseries"):
        PrometheusOutput(registry)


@pytest.mark.parametrize(
    ("output", "module", "package"),
    [
        (PrometheusOutput, "prometheus_client", "prometheus-client"),
        (OpenTelemetryOutput, "opentelemetry.metrics", "opentelemetry-api"),
    ],
)
def test_a_missing_package_is_named(
    monkeypatch: pytest.MonkeyPatch, output: type[BatchOutput], module: str, package: str
) -> None:
    """The packages are optional."""
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(DefinitionError, match=rf"pip install '{package}>="):
        output()


def test_names_follow_the_customs_of_prometheus() -> None:
    """Totals end so, units are base units, and no name comes twice in either system."""
    metrics = (*TOTALS, *GAUGES)
    assert all(one.prometheus.endswith("_total") == one.total for one in metrics)
    assert {"", "seconds", "bytes", "ratio"} == {one.unit for one in metrics}
    assert len(metrics) == len({one.prometheus for one in metrics})
    # The names of OpenTelemetry have no units; with them, they differ too.
    assert len(metrics) == len({(one.opentelemetry, one.total) for one in metrics})
    assert all(one.help.endswith(".") for one in metrics)
