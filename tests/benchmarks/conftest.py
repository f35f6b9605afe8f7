"""Runs as files, of a few figures."""

import json
from pathlib import Path

import pytest

ABOUT = {
    "format": 1,
    "date": "2026-01-02",
    "commit": "0123456789",
    "full": False,
    "minutes": 9.5,
    "machine": {"cpu": "a <fast> one", "cores": 2, "memory_gb": 8, "system": "Linux", "python": "3.12.1"},
    "libraries": {"numpy": "2.0"},
    "took": {},
}


def figure(section, system, seconds, rows=1_000, beside=None, fastest=None, **axes):
    return {
        "section": section,
        "system": system,
        "rows": rows,
        "seconds": seconds,
        "fastest": fastest or seconds,
        "axes": axes,
        "beside": beside or {},
    }


@pytest.fixture
def stored(tmp_path: Path):
    """What writes a run of these figures to a file."""

    def store(*figures, name="run", **about) -> Path:
        path = tmp_path / f"{name}.json"
        path.write_text(json.dumps({**ABOUT, **about, "figures": figures}))
        return path

    return store


@pytest.fixture
def taken():
    """What makes a figure."""
    return figure
