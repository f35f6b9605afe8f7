"""The comparison of two runs: what is slower beyond the noise, and nothing else, fails it."""

import sys

import pytest

from benchmarks import compare


@pytest.fixture
def compared(monkeypatch, capsys):
    """What compares two files and returns status and text."""

    def run(*args):
        monkeypatch.setattr(sys, "argv", ["compare", *map(str, args)])
        status = compare.main()
        return status, capsys.readouterr().out

    return run


@pytest.mark.parametrize(
    ("median", "fastest", "status", "word"),
    [(1.2, 1.2, 0, ""), (2.0, 2.0, 1, "SLOWER"), (2.0, 1.1, 0, ""), (0.5, 0.5, 0, "faster")],
)
def test_slower_in_median_and_in_the_fastest_round(
    stored, taken, compared, median, fastest, status, word
) -> None:
    """A figure is slower if both are; a single slow round is noise."""
    base = stored(taken("kernel", "sum", 1.0, per_window=10), name="base")
    new = stored(taken("kernel", "sum", median, fastest=fastest, per_window=10))
    found, text = compared(base, new)
    assert status == found
    line = next(line for line in text.splitlines() if line.startswith("kernel | sum | per window 10"))
    assert f"{line.split('x')[0]}x {word}".rstrip() == line


def test_times_are_by_row(stored, taken, compared) -> None:
    """Twice the rows in twice the time is no change."""
    base = stored(taken("kernel", "sum", 1.0, rows=1_000), name="base")
    status, _ = compared(base, stored(taken("kernel", "sum", 2.0, rows=2_000)))
    assert status == 0


def test_noise_can_be_said(stored, taken, compared) -> None:
    """What counts as no change is an option."""
    base, new = stored(taken("kernel", "sum", 1.0), name="base"), stored(taken("kernel", "sum", 2.0))
    assert compared(base, new, "--noise", "2.5")[0] == 0
    assert compared(base, new, "--noise", "1.5")[0] == 1


def test_figures_of_one_run_only_are_counted(stored, taken, compared) -> None:
    """They are no regression; runs with nothing in common are an error."""
    both = taken("kernel", "sum", 1.0)
    base = stored(both, taken("pages", "encode", 1.0), name="base")
    status, text = compared(base, stored(both))
    assert (status, "1 only in the earlier one, 0 only in the later one" in text) == (0, True)
    status, text = compared(base, stored(taken("kernel", "max", 1.0), name="other"))
    assert (status, text) == (1, "The runs have no figure in common.\n")


def test_other_machines_are_pointed_out(stored, taken, compared) -> None:
    """A ratio between machines says little of the code."""
    both = taken("kernel", "sum", 1.0)
    _, text = compared(stored(both, name="base", machine={"cpu": "another"}), stored(both))
    assert "different machines" in text
