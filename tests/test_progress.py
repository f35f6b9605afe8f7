"""What long checks say about how far they are."""

import pytest

from tests.progress import told


def test_each_is_yielded_and_some_are_counted(capsys: pytest.CaptureFixture[str]) -> None:
    """A line says how many there were before, and of how many, where that is known."""
    assert [*told("cases", "abc", 3, seconds=0.0)] == ["a", "b", "c"]
    assert capsys.readouterr().out.splitlines()[-1].endswith("cases: 2 of 3")
    assert [*told("moments", iter("ab"), seconds=0.0)] == ["a", "b"]
    assert capsys.readouterr().out.splitlines()[-1].endswith("moments: 1")


def test_what_is_fast_says_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    """What takes seconds has no lines of progress."""
    assert len([*told("cases", range(10))]) == 10
    assert capsys.readouterr().out == ""
