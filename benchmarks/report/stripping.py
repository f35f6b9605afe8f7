"""Runs as they are stored: figures, and only those facts about the machine that figures depend on."""

import os
import platform
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from typing import Any

FORMAT = 1
LIBRARIES = (
    "bytewax", "duckdb", "numpy", "pandas", "polars", "pyarrow", "pyspark", "quixstreams", "rocksdict",
)  # fmt: skip


def stripped(
    output: Mapping[str, Any], took: Mapping[str, float], minutes: float, *, full: bool
) -> dict[str, Any]:
    """Return pytest-benchmark's output without names of hosts, users or folders.

    Args:
        output: the output of pytest-benchmark.
        took: seconds of each test with setup and teardown, by pytest's name.
        minutes: duration of the whole run.
        full: whether the run was the full set.
    """
    figures = [bench["extra_info"] for bench in output["benchmarks"] if "section" in bench["extra_info"]]
    return {
        "format": FORMAT,
        "date": output["datetime"][:10],
        "commit": (output["commit_info"].get("id") or "unknown")[:10],
        "full": full,
        "minutes": round(minutes, 1),
        "machine": _machine(output["machine_info"]),
        "libraries": {name: found for name in LIBRARIES if (found := _version(name))},
        "figures": [_rounded(figure) for figure in figures],
        "took": {test: round(seconds, 1) for test, seconds in took.items()},
    }


def _machine(info: Mapping[str, Any]) -> dict[str, Any]:
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return {
        "cpu": info.get("cpu", {}).get("brand_raw") or info["machine"],
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "memory_gb": round(memory / 2**30),
        "system": platform.system(),
        "python": platform.python_version(),
    }


def _rounded(figure: Mapping[str, Any]) -> dict[str, Any]:
    clocked = {name: float(f"{figure[name]:.5g}") for name in ("seconds", "fastest")}
    return {**figure, **clocked}


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None
