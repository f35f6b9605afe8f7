"""A stream that reports to all outputs at once: what they have is what the query did, and its folder for snapshots fails."""

import json
import logging
import urllib.request
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from prometheus_client.parser import text_string_to_metric_families
from pyspark.sql import SparkSession
from pyspark.sql.streaming.listener import StreamingQueryProgress

from operators import DefinitionError, report_batches, what_failed
from operators.monitoring import JsonLinesOutput, OpenTelemetryOutput, OperatorBatch, PrometheusOutput
from operators.monitoring.exported import EXPORTED, GAUGES, LAG
from operators.spark.base.listener import operator_batches
from state_backends import read_state
from tests.operators.spark.frames import operator, stream, write_source
from tests.patience import wait_until

pytestmark = pytest.mark.spark
LABELS = {"query": "measured", "operator": "ten"}
SUMS = {
    "records": ("in", "rows"),
    "late_records": ("out", "late"),
    "emitted_rows": ("out", "windows"),
    "opened_panes": ("out", "panes_opened"),
    "snapshot_failures": ("out", "snapshot_failures"),
}


def scraped(port: int) -> dict[str, float]:
    """What Prometheus gets of the query: values by name."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics") as answer:
        families = list(text_string_to_metric_families(answer.read().decode()))
    samples = [sample for family in families for sample in family.samples]
    assert all(sample.labels.items() <= LABELS.items() for sample in samples)
    return {sample.name: sample.value for sample in samples}


def collected(reader: InMemoryMetricReader) -> dict[str, float]:
    """What OpenTelemetry's reader gets of the query."""
    (of_provider,) = reader.get_metrics_data().resource_metrics
    found = {}
    for metric in of_provider.scope_metrics[0].metrics:
        for point in metric.data.data_points:
            assert dict(point.attributes).items() <= LABELS.items()
            found[metric.name] = point.value
    return found


@dataclass(frozen=True)
class Outcome:
    """What a query did, and what each output had of it.

    Attributes:
        query: its id, run and name.
        batches: Spark's progress of each batch.
        rows: that it wrote.
        panes, keys: in its state at the end.
        scraped: what Prometheus got while the query was there.
        after: what it got when the query had ended.
        observed: what OpenTelemetry got.
        lines: what the file of JSON has.
        given: what a function got.
        errors: what was logged as an error.
        told: what `what_failed` said of the query while it ran, and after it.
    """

    query: tuple[str, str, str]
    batches: list[Any]
    rows: int
    panes: int
    keys: int
    scraped: dict[str, float]
    after: dict[str, float]
    observed: dict[str, float]
    lines: list[dict[str, Any]]
    given: list[OperatorBatch]
    errors: list[str]
    told: list[str | None]

    def total(self, side: str, name: str) -> int:
        """The sum of an observed metric."""
        return sum(batch["observedMetrics"][f"ten_{side}"]["counts"][name] for batch in self.batches)


class Errors(logging.Handler):
    """Keeps the messages of errors."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.messages: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.messages.append(record.getMessage())


@pytest.fixture(scope="module")
def outcome(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Outcome:
    """A query over two files with all outputs, one that fails, and a folder for snapshots that cannot be written."""
    home = tmp_path_factory.mktemp("reports")
    write_source(home / "in", files=2, rows=500, seed=5)
    (home / "snapshots").write_bytes(b"a file in the way of the folder")
    given: list[OperatorBatch] = []

    def broken(batch: OperatorBatch) -> None:
        raise ConnectionError(f"batch {batch.number} is lost")

    reader, prometheus = InMemoryMetricReader(), PrometheusOutput()
    port, path = prometheus.serve(0), home / "batches.jsonl"
    outputs = prometheus, broken, JsonLinesOutput(path), OpenTelemetryOutput(MeterProvider([reader]))
    listener, errors = report_batches(spark, *outputs, given.append), Errors()
    logging.getLogger("operators").addHandler(errors)
    try:
        query = started(spark, home)
        try:
            query.processAllAvailable()
            batches = [p for p in query.recentProgress if p["observedMetrics"]]
            wait_until(lambda: len(given) >= len(batches), f"{len(batches)} batches", lambda: len(given))
            values, observed = scraped(port), collected(reader)
            told = [what_failed(query)]
        finally:
            query.stop()
        wait_until(lambda: "windows_query_running" not in scraped(port), "the end", lambda: len(given))
        after = scraped(port)
        told += [what_failed(query)]
    finally:
        logging.getLogger("operators").removeHandler(errors)
        spark.streams.removeListener(listener)
        prometheus.close()
    state = read_state(home / "cp")
    return Outcome(
        (str(query.id), str(query.runId), query.name),
        batches,
        spark.read.parquet(str(home / "out")).count(),
        state.count(),
        state.select("k").distinct().count(),
        values,
        after,
        observed,
        [json.loads(line) for line in path.read_text().splitlines()],
        given,
        errors.messages,
        told,
    )


def started(spark: SparkSession, home: Path) -> Any:
    """Start the query."""
    options = {
        "state.snapshots.folder": str(home / "snapshots"),
        "state.snapshots.batches": 1,
        "state.snapshots.background": "false",
    }
    frame = stream(spark, home / "in")
    with pytest.warns(UserWarning, match="the stream runs without snapshots"):
        rows = operator().apply(frame, event_time="at", backend="memory", options=options, name="ten")
    writer = rows.writeStream.format("parquet").option("path", str(home / "out"))
    return writer.option("checkpointLocation", str(home / "cp")).queryName("measured").start()


@pytest.mark.slow
def test_each_output_has_each_batch(outcome: Outcome) -> None:
    """With its query; all metrics are there while the query runs."""
    numbers = [batch["batchId"] for batch in outcome.batches]
    assert numbers == [line["batch"] for line in outcome.lines] == [batch.number for batch in outcome.given]
    named = {(line["query_id"], line["run_id"], line["query"]) for line in outcome.lines}
    assert {outcome.query} == named
    assert len(numbers) == outcome.scraped["windows_batches_total"] == outcome.observed["windows.batches"]
    assert 1 == outcome.scraped["windows_query_running"]
    assert EXPORTED - {"windows_custom_total", LAG} == set(outcome.scraped)


@pytest.mark.slow
def test_sums_are_those_of_the_query(outcome: Outcome) -> None:
    """At a real endpoint, by OpenTelemetry and in the file, as Spark has them and as they were written."""
    for name, (side, count) in SUMS.items():
        found = outcome.total(side, count)
        assert found == outcome.scraped[f"windows_{name}_total"] == outcome.observed[f"windows.{name}"]
        assert found == sum(line[side][count] for line in outcome.lines)
    assert 1_000 == outcome.scraped["windows_records_total"]
    assert outcome.rows == outcome.scraped["windows_emitted_rows_total"] > 0


@pytest.mark.slow
def test_gauges_are_those_of_the_state(outcome: Outcome) -> None:
    """Keys and panes of the checkpoint; the watermark, and how far it is behind the last batch."""
    values, last = outcome.scraped, outcome.given[-1]
    assert outcome.panes == values["windows_live_panes"] == outcome.observed["windows.live_panes"]
    assert outcome.keys == values["windows_live_keys"]
    assert [False, True] == [outcome.given[0].watermark is not None, outcome.given[-2].whole_state]
    assert not last.whole_state, "it only moves the watermark"
    assert 0 < outcome.lines[-1]["watermark_lag_seconds"] == (last.started - last.watermark).total_seconds()
    assert last.watermark.timestamp() == values["windows_watermark_timestamp_seconds"]


@pytest.mark.slow
def test_a_folder_for_snapshots_that_cannot_be_written_is_seen(outcome: Outcome) -> None:
    """Each of the three buckets fails, and none has completed a snapshot."""
    assert 3 <= outcome.scraped["windows_snapshot_failures_total"]
    assert 3 == outcome.scraped["windows_snapshots_overdue"]
    assert 0 == outcome.scraped["windows_snapshots_total"]
    assert 1 == len({*outcome.told})
    assert "operator 'ten': of 3 buckets, the last snapshot failed or takes over 15 minutes" in str(
        outcome.told[0]
    )


@pytest.mark.slow
def test_gauges_go_and_sums_stay_when_the_query_ends(outcome: Outcome) -> None:
    """So that the last batch is not lost, and nothing that has ended seems to have state."""
    gauges = {gauge.prometheus for gauge in GAUGES}
    assert set(outcome.scraped) - gauges - {"windows_query_running"} == set(outcome.after)


@pytest.mark.slow
def test_an_output_that_fails_is_logged_once(outcome: Outcome) -> None:
    """The query and the other outputs went on."""
    assert [True] == ["broken failed; the query goes on" in message for message in outcome.errors]


def test_what_is_no_output_is_refused(spark: SparkSession) -> None:
    """Before anything is listened to."""
    with pytest.raises(DefinitionError, match="report_batches needs an output"):
        report_batches(spark)
    with pytest.raises(DefinitionError, match="an output must be a BatchOutput"):
        report_batches(spark, PrometheusOutput)


@pytest.mark.parametrize(
    ("event_time", "seconds"),
    [
        ({"watermark": "2026-01-05T12:00:00.500Z"}, 9.5),
        ({"watermark": "1970-01-01T00:00:00.000Z"}, None),
        ({"watermark": "+12026-01-05T12:00:00.000Z"}, None),
        ({}, None),
    ],
)
def test_the_watermark_of_a_batch(event_time: dict[str, str], seconds: float | None) -> None:
    """Spark says 1970 until there is one; one that Python has no year for is left out. Other observations are no operators."""
    progress = {
        "id": "00000000-0000-0000-0000-000000000001",
        "runId": "00000000-0000-0000-0000-000000000002",
        "name": None,
        "timestamp": "2026-01-05T12:00:10.000Z",
        "batchId": 7,
        "batchDuration": 1_500,
        "eventTime": event_time,
        "stateOperators": [],
        "sources": [],
        "sink": {"description": "", "numOutputRows": 0, "metrics": {}},
        "observedMetrics": {
            "ten_out": {"counts": {"live_keys": 0, "rows": 3}},
            "my_out": {"rows": 1},
            "your_out": {"counts": 4},
            "ten": {"n": 1},
        },
    }
    (batch,) = operator_batches(StreamingQueryProgress.fromJson(progress))
    assert (seconds, "ten", 7, 1.5) == (batch.watermark_lag, batch.operator, batch.number, batch.seconds)
    assert ({"live_keys": 0, "rows": 3}, {}) == (batch.counts_out, batch.counts_in)
    assert "00000000-0000-0000-0000-000000000001" == batch.query.label
