"""How much tests try: examples of properties, and cases that only the slow run takes."""

from collections.abc import Collection, Iterable
from typing import Any

import pytest
from hypothesis import settings

_LEAST = 5
_FULL = 25


def examples(factor: float) -> settings:
    """Settings of a test that is worth more examples than others, or costs too much for as many.

    Args:
        factor: times the number of the profile of hypothesis; some examples are left in each profile.
    """
    least = min(_LEAST, round(factor * _FULL))
    return settings(max_examples=max(1, least, round(factor * settings().max_examples)))


def slow(case: Any, *more: Any, id: str | None = None) -> Any:  # noqa: A002 - as pytest.param has it
    """A case of a parametrised test that `make test` leaves to `make test-all`."""
    return pytest.param(case, *more, id=id, marks=pytest.mark.slow)


def soak(case: Any, *more: Any, id: str | None = None) -> Any:  # noqa: A002 - as pytest.param has it
    """A case that only `make soak` takes: what it may find is found by another one too, nearly always."""
    return pytest.param(case, *more, id=id, marks=pytest.mark.soak)


def few(cases: Iterable[Any], every: int, names: int = 1) -> list[Any]:
    """All cases, as `slow` makes them but for the first and each so-many-th one after it.

    Args:
        cases: what is tried; what is a `pytest.param` already stays as it is.
        every: of so many cases, `make test` takes one.
        names: how many arguments of the test a case has.
    """
    return [
        case if number % every == 0 or hasattr(case, "marks") else slow(*(case if names > 1 else [case]))
        for number, case in enumerate(cases)
    ]


def slow_but(kept: Collection[str], cases: Iterable[str], soaked: Collection[str] = ()) -> list[Any]:
    """All cases, as `slow` makes them but for those that are kept, and those of the soak."""
    cases = list(cases)
    assert {*kept, *soaked} <= {*cases}
    return [case if case in kept else soak(case) if case in soaked else slow(case) for case in cases]
