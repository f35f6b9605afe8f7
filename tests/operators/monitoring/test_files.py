"""The dashboard and the alert rules ask for metrics that there are."""

import json
import re
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml

from operators.monitoring import ALERTS, DASHBOARD, PrometheusOutput
from operators.monitoring.exported import EXPORTED, GAUGES, LABELS
from tests.operators.monitoring.batches import RUN, START, batch
from tests.operators.monitoring.rules import fires, scrape

ROOT = Path(__file__).parents[3]
NAMES = re.compile(r"\bwindows_\w+")


@pytest.fixture(scope="module")
def dashboard() -> dict[str, Any]:
    """The dashboard."""
    return json.loads(DASHBOARD.read_text("utf-8"))


@pytest.fixture(scope="module")
def rules() -> list[dict[str, Any]]:
    """The alert rules."""
    (group,) = yaml.safe_load(ALERTS.read_text("utf-8"))["groups"]
    return group["rules"]


def labels(expression: str) -> Iterator[str]:
    """The labels by which an expression chooses series."""
    for chosen in re.findall(r"\{([^}]*)}", expression):
        yield from re.findall(r"(\w+)\s*=", chosen)


def test_the_dashboard_asks_for_every_metric_that_changes_and_for_no_other(dashboard: dict[str, Any]) -> None:
    """The rest can be derived from those."""
    targets = [target for panel in dashboard["panels"] for target in panel.get("targets", [])]
    found = {name for target in targets for name in NAMES.findall(target["expr"])}
    asked = [variable["definition"] for variable in dashboard["templating"]["list"][1:]]
    assert len(asked) == 2
    assert set(NAMES.findall(" ".join(asked))) <= EXPORTED
    assert found <= EXPORTED
    derived = {"watermark_lag_seconds", "last_batch_timestamp_seconds", "late_ratio", "buckets"}
    less = {"shuffled_rows_total", "opened_panes_total", "final_rows_total", "updated_rows_total"}
    less |= {"complete_since_timestamp_seconds", "bucket_batches_total"}
    assert {f"windows_{name}" for name in derived | less} == EXPORTED - found
    assert set(LABELS) == {name for target in targets for name in labels(target["expr"])}


def test_panels_have_titles_and_places_of_their_own(dashboard: dict[str, Any]) -> None:
    """Each panel says what it shows, queries the data source that is chosen, and overlaps no other."""
    panels = dashboard["panels"]
    assert len(panels) == len({panel["id"] for panel in panels}) == len({panel["title"] for panel in panels})
    places: set[tuple[int, int]] = set()
    for panel in panels:
        at = panel["gridPos"]
        cells = {(at["x"] + x, at["y"] + y) for x in range(at["w"]) for y in range(at["h"])}
        assert not cells & places
        places |= cells
        if panel["type"] != "row":
            assert panel["description"].endswith(".")
            assert "${datasource}" == panel["datasource"]["uid"]
            assert [target["refId"] for target in panel["targets"]] == list("ABCD"[: len(panel["targets"])])
    assert max(x for x, _ in places) < 24


def test_alert_rules_ask_for_metrics_that_there_are(rules: list[dict[str, Any]]) -> None:
    """Each has a name of its own, waits, and says what is wrong with what."""
    assert len(rules) == len({rule["alert"] for rule in rules})
    for rule in rules:
        found = set(NAMES.findall(rule["expr"]))
        assert found
        assert found <= EXPORTED
        assert re.fullmatch(r"\d+[mh]", rule["for"])
        assert rule["labels"]["severity"] in {"warning", "critical"}
        assert {"summary", "description", "runbook"} == set(rule["annotations"])
        assert "{{ $labels.query }}" in rule["annotations"]["summary"]


@pytest.mark.parametrize(
    ("ahead", "alerts"),
    [(-7_200, ["WindowsWatermarkLags"]), (0, []), (7_200, ["WindowsWatermarkAhead"])],
)
def test_a_watermark_that_is_far_from_the_clock_alerts(
    rules: list[dict[str, Any]], ahead: int, alerts: list[str]
) -> None:
    """Behind it and ahead of it; the rules of both are expressions that Python has, too."""
    last = batch(watermark=START + timedelta(seconds=ahead))
    values = {metric.prometheus: metric.value(last) for metric in GAUGES}
    assert values["windows_watermark_lag_seconds"] == -ahead
    asked = [rule for rule in rules if "windows_watermark_timestamp_seconds" in rule["expr"]]
    names = {**values, "time": START.timestamp}
    assert alerts == [rule["alert"] for rule in asked if eval(rule["expr"], names)]  # noqa: S307


SLOW: dict[str, dict[str, int]] = {
    "WindowsSlowCommits": {"commit_ms": 11_000, "max_bucket_ms": 5_600},
    "WindowsSlowRestores": {"restore_ms": 11_000, "max_bucket_ms": 5_600},
    "WindowsSkewedBuckets": {"step_ms": 2_100, "max_bucket_ms": 2_080},
    "": {"commit_ms": 9_000, "restore_ms": 9_000, "max_bucket_ms": 9_000},
}
"""What buckets did in a batch of 2.5 s, by the alert that it is worth."""


@pytest.mark.parametrize("alert", SLOW)
@pytest.mark.parametrize("empty", [0, 1, 3])
def test_batches_without_records_change_no_mean_of_buckets(alert: str, empty: int) -> None:
    """Spark adds one behind each batch that moves the watermark; no bucket works in it, and its gauges are 0."""
    output, scraped = PrometheusOutput(), []
    buckets = 3 if alert == "WindowsSkewedBuckets" else 2
    for number in range(3):
        output.report(batch(number, buckets=buckets, **SLOW[alert]))
        scraped.append(scrape(output, RUN.label))
        for _ in range(empty):
            output.report(batch(number))
            scraped.append(scrape(output, RUN.label))
    assert [alert] * bool(alert) == [name for name in SLOW if name and fires(name, *scraped)]


def test_the_page_has_every_metric() -> None:
    """And no other."""
    page = (ROOT / "docs" / "metrics.md").read_text("utf-8")
    assert sorted(EXPORTED) == sorted(re.findall(r"^\|[^|]*\| `(windows_\w+)` \|", page, re.MULTILINE))


def test_each_alert_leads_to_its_section_of_the_runbook(rules: list[dict[str, Any]]) -> None:
    """A heading is an anchor in small letters; no section is of an alert that there is not."""
    page = (ROOT / "docs" / "operations.md").read_text("utf-8")
    sections = re.findall(r"^### (Windows\w+)$", page, re.MULTILINE)
    assert {rule["alert"]: rule["annotations"]["runbook"] for rule in rules} == {
        name: f"docs/operations.md#{name.lower()}" for name in sections
    }
