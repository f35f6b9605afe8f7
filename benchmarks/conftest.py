"""Common to all benchmarks: the option `--full`, the fixture that measures figures, and the file of the run."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from benchmarks.measure import Measure, described
from benchmarks.progress import Progress
from benchmarks.report.stripping import stripped

_PROGRESS = pytest.StashKey[Progress]()


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("benchmarks of this project")
    group.addoption("--full", action="store_true", help="run the full set, which takes an hour")
    group.addoption(
        "--largest", action="store_true", help="also run what takes hours: 10 million keys on Spark"
    )
    group.addoption("--bids", type=int, default=3_000_000, help="Nexmark's, in batches of 500,000")
    group.addoption("--bid-seconds", type=int, default=20, help="for which Nexmark's bids arrive at a pace")
    group.addoption("--last-run", metavar="PATH", help="an earlier run, to estimate the duration of this one")


def pytest_configure(config: pytest.Config) -> None:
    last = config.getoption("--last-run")
    progress = Progress(config, json.loads(Path(last).read_text()).get("took", {}) if last else {})
    config.stash[_PROGRESS] = progress
    config.pluginmanager.register(progress)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    left = {
        "full": not (config.getoption("--full") or config.getoption("--largest")),
        "largest": not config.getoption("--largest"),
    }
    names = [name for name, is_left in left.items() if is_left]
    left_out = [item for item in items if any(map(item.get_closest_marker, names))]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item not in left_out]


def pytest_benchmark_update_json(config: pytest.Config, output_json: dict[str, Any]) -> None:
    progress = config.stash[_PROGRESS]
    run = stripped(output_json, progress.took, progress.minutes, full=config.getoption("--full"))
    output_json.clear()
    output_json.update(run)


@pytest.fixture
def measure(request: pytest.FixtureRequest, benchmark: Any) -> Iterator[Measure]:
    """Measures the figure of a test."""
    yield Measure(benchmark)
    if "section" in benchmark.extra_info:
        request.node.user_properties.append(("figure", described(benchmark.extra_info)))
