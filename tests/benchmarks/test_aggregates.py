"""The table of what aggregates cost has a line for each of them."""

import pytest

from benchmarks.operators import aggregates


def test_each_aggregate_has_its_line(capsys: pytest.CaptureFixture[str]) -> None:
    """With figures for each kind of windows and number of keys."""
    aggregates.main(["--rows", "2000", "--rounds", "1"])
    lines = capsys.readouterr().out.splitlines()[2:]
    assert [name for name in aggregates.AGGREGATES if name != aggregates.SUM] == [
        line.split(" | ")[0].strip("| ") for line in lines
    ]
    for line in lines:
        figures = line.strip("| ").split(" | ")[1:]
        assert len(aggregates.COLUMNS) == len([float(figure) for figure in figures])
